/* greet.c - the trainer's side of the handshake: who may join, by which provider, holding what.
 *
 * In comes a HELLO, from a guest that the door accepted (session/door.c) and whose first message peer.c read.
 * A guest that only wants the layout is sent the layout, and leaves. Of any other guest, layout, provider, slots and
 * address are checked. While no weights are bound, the guest is sent away until later.
 *
 * Then the guest claims its name, and with that a record (claim.c). After that the record is settled: the level that
 * the peer wants, its slots, and the version whose bits it holds, found by the root in HELLO. A peer that comes through
 * a relay finds its relay (follow.c), and the rails that both ends have are opened (rail.c).
 *
 * Out goes WELCOME, and the peer is live or catching up. feed.c chooses what the peer is sent first. An error becomes a
 * REFUSE, which peer.c sends with the reason that the guest may know. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "peer/feed.h"
#include "peer/peer.h"
#include "site/site_link.h"
#include "wire/duct.h"
#include "wire/greeting.h"
#include "wire/voucher.h"

static weft_status check_hello(const weft_layout *layout, const weft_slabs *slabs, const weft_wire_hello *hello,
                               const weft_site_peer *site)
{
    const bool direct = hello->hops == 0; /* else the provider is the relay's */
    if (memcmp(hello->layout, layout->hash, sizeof layout->hash) != 0)
        return weft_fail(WEFT_E_LAYOUT, "%s has another layout: %s", hello->name, hello->differs);
    if (direct && strcmp(site->provider, "auto") != 0 && strcmp(site->provider, hello->provider) != 0)
        return weft_fail(
            WEFT_E_REFUSED,
            "%s comes by provider %s, the trainer's site file names %s for it; write the same at both ends",
            hello->name, hello->provider, site->provider);
    if (hello->slot_payload < layout->largest_frame)
        return weft_fail(WEFT_E_REFUSED,
                         "%s: its slots hold %llu bytes, the layout's largest frame is %u; raise bucket_max",
                         hello->name, (unsigned long long)hello->slot_payload, layout->largest_frame);
    if (!(hello->levels >> WEFT_LEVEL_FAST & 1) || !(hello->levels >> WEFT_LEVEL_FULL & 1))
        return weft_fail(WEFT_E_PROTOCOL, "%s does not decode both fast and full frames", hello->name);
    if ((uint64_t)hello->chunk_bytes * WEFT_CHUNKS_MAX < slabs->slab_bytes)
        return weft_fail(WEFT_E_PROTOCOL,
                         "%s takes %u bytes at a time: a bucket of %llu would have more than %u chunks", hello->name,
                         hello->chunk_bytes, (unsigned long long)slabs->slab_bytes, WEFT_CHUNKS_MAX);
    return WEFT_OK;
}

/* Checks that the guest comes from where an address of this end leads, because some addresses lead to some peers
 * only. */
static weft_status check_source(const weft_peer *guest, const weft_wire_hello *hello)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME], key[WEFT_SITE_LINK_KEY];
    const weft_site *site = guest->session->site;
    uint32_t rails = weft_site_trainer_rails(site, hello->provider, list);
    if (weft_provider_is_piped(weft_provider_find(hello->provider)))
        return WEFT_OK;
    for (uint32_t rail = 0; rail < rails; rail++)
        if (weft_control_reaches(guest->connection.control.peer, list[rail]))
            return WEFT_OK;
    weft_site_trainer_key(site, hello->provider, key);
    weft_fail(WEFT_E_REFUSED, "%s at %s is not reached from %s", hello->name, guest->connection.control.peer, key);
    weft_fail_outside("%s is not reached from %s", hello->name, key); /* the guest's address may be a relay's */
    return WEFT_E_REFUSED;
}

/* Finds an outlet for the guest. An address that is not there yet may come, and so may one of several. That is no
 * reason for the rollout to stay away. */
static weft_status find_outlet(weft_outlets *outlets, const weft_connection *connection, const weft_wire_hello *hello,
                               weft_outlet **outlet)
{
    weft_status status = weft_outlet_any(outlets, hello->provider, 1, connection->control.peer, outlet);
    if (status == WEFT_AGAIN || (status == WEFT_E_CONFIG && weft_outlet_rails(outlets, hello->provider) > 1))
        return weft_fail_quiet(WEFT_E_PROVIDER, "%s", weft_last_error());
    return status;
}

/* Names the version of an order as the peer knows it. False: it is not kept. */
static bool name_at(weft_publisher *publisher, const weft_peer_view *view, uint64_t order, weft_version *named)
{
    const weft_newest *newest = &publisher->newest;
    const weft_update *after = order < newest->order ? weft_journal_at(&publisher->journal, order + 1) : NULL;
    if (order == newest->order)
        *named = weft_peer_view_version(view, &newest->version, order);
    else if (after)
        *named = weft_peer_view_version(view, &after->base, order);
    return order == newest->order || after;
}

/* Finds the version that has these bits: the newest, or the base of an update that is still kept. With `by_name` the
 * one of that name comes first, because several versions may have the same bits. Returns its order, or
 * WEFT_ORDER_UNKNOWN. Bits of the newest version with another attachment have no label: the attachment comes in an
 * update that changes nothing. */
static uint64_t match(weft_publisher *publisher, const weft_peer_view *view, const weft_version *said, bool by_name,
                      uint64_t attachment, weft_version *label)
{
    const weft_newest *newest = &publisher->newest;
    uint64_t found = WEFT_ORDER_UNKNOWN, order = newest->order;
    weft_version at;
    *label = (weft_version){0, 0, 0};
    for (bool done = false; !done && name_at(publisher, view, order, &at); order--) {
        const bool same = at.root == said->root, named = at.run == said->run && at.number == said->number;
        if (same && (found == WEFT_ORDER_UNKNOWN || named)) {
            found = order;
            *label = at;
        }
        done = (same && (named || !by_name)) || order == 0;
    }
    if (found == newest->order && newest->attachment && newest->attachment->hash != attachment)
        *label = (weft_version){0, 0, said->root};
    return found;
}

/* Finds out what the peer holds, and what is staged there, which counts as sent whole and not yet held. Its engine may
 * commit what is staged by the name that it saw, and what is held is not to overtake that. */
static void settle_standing(weft_publisher *publisher, weft_peer *peer, const weft_wire_hello *hello)
{
    weft_standing *standing = &peer->standing;
    weft_version staged;
    standing->held = (weft_version){0, 0, 0};
    standing->held_order = WEFT_ORDER_UNKNOWN;
    standing->sent_attachment = hello->attachment;
    if (hello->holds)
        standing->held_order =
            match(publisher, peer->view, &hello->held, hello->stages, hello->attachment, &standing->held);
    standing->sent_order = standing->held_order;
    const uint64_t order = hello->stages
                               ? match(publisher, peer->view, &hello->staged, true, hello->staged_attachment, &staged)
                               : WEFT_ORDER_UNKNOWN;
    if (order != WEFT_ORDER_UNKNOWN) {
        peer->receipts.expected[peer->receipts.count++] = (weft_expected){.order = order, .version = staged};
        standing->sent_order = order;
        standing->sent_attachment = hello->staged_attachment;
    }
    if (standing->sent_order == publisher->newest.order && weft_feed_owes_attachment(&publisher->newest, standing))
        weft_wish_renew(&peer->wish, publisher->newest.version.number); /* its engine may think that it has all */
    standing->single_until = 0;
    standing->joined_order = publisher->newest.order;
    standing->lagging = false;
}

static weft_status send_welcome(weft_publisher *publisher, weft_peer *peer, weft_wire_welcome *welcome)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    welcome->run = publisher->run;
    welcome->incarnation = publisher->session->incarnation;
    memcpy(welcome->layout, weft_peer_view_layout(peer->view, publisher->session)->hash, sizeof welcome->layout);
    if (peer->standing.held.run)
        welcome->held = peer->standing.held;
    if (peer->receipts.count > 0)
        welcome->staged = peer->receipts.expected[0].version;
    welcome->newest = weft_peer_view_version(peer->view, &publisher->newest.version, publisher->newest.order);
    welcome->heartbeat_ms = (uint32_t)peer->site.heartbeat_ms;
    welcome->chunk_bytes = peer->sender.posting.chunk_bytes;
    weft_wire_put_welcome(&out, welcome);
    return weft_control_send(&peer->connection.control, WEFT_MESSAGE_WELCOME, out.data, out.used);
}

static void settle_record(weft_publisher *publisher, weft_demand *demand, weft_peer *peer, const weft_wire_hello *hello,
                          const weft_site_peer *site)
{
    if (!peer->claim.known) {
        peer->info = (weft_peer_info){0};
        peer->tuning.estimate = (weft_estimate){0};
        peer->tuning.decoding = (weft_decoding){0};
        peer->following.apart_until = 0;
        peer->standing.staging_said = 0;
        peer->claim.rival = 0;
        memset(peer->sender.rails.list, 0, sizeof peer->sender.rails.list); /* the rails' figures; no port is open */
    }
    snprintf(peer->claim.name, sizeof peer->claim.name, "%s", hello->name);
    if (!peer->claim.known || site->level != WEFT_CHOICE_AUTO)
        peer->tuning.wanted = weft_peer_level(site->level);
    peer->tuning.level = peer->tuning.wanted;
    demand->levels |= 1u << peer->tuning.wanted;
    demand->wanting[peer->tuning.wanted]++;
    peer->claim.known = peer->connection.greeted = true;
    peer->site = *site;
    peer->site.bucket_max = weft_size_bucket(weft_peer_view_layout(peer->view, publisher->session), site);
    peer->claim.hello = *hello;
    weft_bytes_clean(peer->claim.hello.backend);
    weft_send_open(&peer->sender);
    peer->receipts.count = 0;
    peer->wish = (weft_wish){.named = hello->named};
    weft_estimate_resume(&peer->tuning.estimate);
    peer->claim.joined_ns = weft_clock_ns();
    settle_standing(publisher, peer, hello);
}

static weft_status answer_layout(const weft_door *door, weft_connection *connection)
{
    connection->leaving = true;
    return weft_door_answer(door, &connection->control);
}

/* Sends the guest away until later, because no weights are bound yet that it could join with. */
static weft_status answer_later(weft_connection *connection)
{
    connection->leaving = true;
    return weft_control_send(&connection->control, WEFT_MESSAGE_PASSING, NULL, 0);
}

/* Has the guest ask for the layout and compare, because names are at hand there and only hashes here. */
static weft_status answer_compare(weft_connection *connection)
{
    connection->leaving = true;
    return weft_control_send(&connection->control, WEFT_MESSAGE_COMPARE, NULL, 0);
}

static weft_status announce_join(const weft_newest *newest, weft_peer *peer)
{
    weft_session *session = peer->session;
    bool current = peer->standing.held_order == newest->order, labelled = current && peer->standing.held.run;
    char text[320];
    snprintf(text, sizeof text, "%s from %s by %s%s%s, backend %s, holds %s", peer->claim.name,
             peer->connection.control.peer, peer->sender.rails.outlet->facts.fabric,
             peer->following.parent ? ", behind relay " : "",
             peer->following.parent ? peer->following.parent->claim.name : "", peer->claim.hello.backend,
             labelled                                          ? "the newest version"
             : current                                         ? "the newest version but its attachment"
             : peer->standing.held_order == WEFT_ORDER_UNKNOWN ? "no version known here"
                                                               : "an older version");
    weft_log(WEFT_LOG_INFO, "joined: %s", text);
    session->stats.peers_joined++;
    weft_session_event(session, WEFT_EVENT_JOINED, WEFT_OK, peer->claim.name, &peer->standing.held, text);
    if (labelled)
        weft_session_event(session, WEFT_EVENT_HELD, WEFT_OK, peer->claim.name, &peer->standing.held, "");
    weft_session_changed(session);
    return weft_peer_move(peer, current ? WEFT_ON_HELD_NEWEST : WEFT_ON_HELD_OLDER);
}

/* Checks what a HELLO says of the guest, and finds the outlet by which the guest comes. */
static weft_status examine(weft_trainer *trainer, const weft_peer *guest, const weft_peer_view *view,
                           const weft_wire_hello *hello, const weft_site_peer *site, weft_outlet **outlet)
{
    const weft_layout *layout = weft_peer_view_layout(view, trainer->session);
    weft_status status = check_hello(layout, &trainer->buffers.slabs, hello, site);
    if (status == WEFT_OK)
        status = check_source(guest, hello);
    if (status == WEFT_OK)
        status = find_outlet(&trainer->outlets, &guest->connection, hello, outlet);
    if (status == WEFT_OK)
        status = weft_wire_check_fabric(hello, &(*outlet)->facts);
    if (status == WEFT_OK) /* further addresses are not used if data may not go to them */
        status = weft_rail_may_reach(&trainer->outlets, *outlet, &guest->connection.control, hello, hello->address,
                                     hello->address_bytes);
    return status;
}

/* Makes the peer of a record out of a HELLO: settles the record, opens the rails, and answers with WELCOME. */
static weft_status admit(weft_trainer *trainer, weft_peer *peer, const weft_wire_hello *hello,
                         const weft_site_peer *site)
{
    weft_publisher *publisher = &trainer->publisher;
    weft_wire_welcome welcome = {0};
    settle_record(publisher, &trainer->demand, peer, hello, site);
    weft_status status = weft_peer_move(peer, WEFT_ON_HELLO);
    if (status == WEFT_OK && publisher->shadow.lost &&
        weft_feed_needs_snapshot(&publisher->journal, &publisher->newest, peer))
        status = weft_feed_no_snapshot(&peer->claim);
    if (status == WEFT_OK)
        status = weft_follow_join(&trainer->peers, peer);
    if (status == WEFT_OK)
        status = weft_rail_open(&peer->sender, &welcome);
    if (status == WEFT_OK)
        status = send_welcome(publisher, peer, &welcome);
    return status == WEFT_OK ? announce_join(&publisher->newest, peer) : status;
}

weft_status weft_peer_greet(weft_trainer *trainer, weft_peer *guest, const uint8_t *body, uint64_t length,
                            weft_peer **greeted)
{
    weft_wire_hello hello;
    weft_site_peer site;
    weft_outlet *outlet = NULL;
    weft_peer *peer = guest;
    weft_peer_view *view = NULL;
    *greeted = guest;
    weft_status status = weft_wire_get_hello(body, length, &hello);
    if (status == WEFT_OK)
        status = weft_greeting_check(&guest->connection.control, &hello);
    if (status == WEFT_OK)
        status = weft_voucher_check(trainer->session->site, &guest->connection.control, &hello);
    if (status == WEFT_OK)
        status = weft_site_resolve(trainer->session->site, hello.name, &site);
    if (status != WEFT_OK)
        return status;
    if (hello.wants_layout)
        return answer_layout(&trainer->door, &guest->connection);
    weft_log_enter(&trainer->comers.sink); /* no stranger any more, until who serves it enters another sink */
    weft_bytes_clean(hello.provider);
    weft_bytes_clean(hello.relay);
    weft_bytes_clean(hello.differs);
    if (hello.keys.count > 0 && !trainer->publisher.bound)
        return answer_later(&guest->connection); /* a view's roots are those of weights */
    if (weft_peer_view_hurries(&trainer->publisher.views, &hello))
        return answer_later(&guest->connection);
    status = weft_peer_view_find(&trainer->publisher, &hello, &view);
    const weft_layout *layout = status == WEFT_OK ? weft_peer_view_layout(view, trainer->session) : NULL;
    const bool other = status == WEFT_E_LAYOUT || (layout && memcmp(hello.layout, layout->hash, sizeof layout->hash));
    if (other && !hello.differs[0])
        return answer_compare(&guest->connection);
    if (status == WEFT_OK)
        status = examine(trainer, guest, view, &hello, &site, &outlet);
    if (status == WEFT_OK && !trainer->publisher.bound)
        return answer_later(&guest->connection);
    if (status == WEFT_OK)
        status = weft_claim_take(&trainer->peers, guest, &hello, &peer);
    if (status != WEFT_OK)
        return status;
    *greeted = peer;
    weft_log_enter(&peer->claim.limit.sink);
    peer->sender.rails.outlet = outlet;
    weft_peer_view_take(peer, view);
    return admit(trainer, peer, &hello, &site);
}

/* ---- ducts */

weft_status weft_peer_duct(weft_peer_table *peers, weft_peer *guest, const uint8_t *body, uint64_t length)
{
    weft_control *control = &guest->connection.control;
    const weft_rail *rail = NULL;
    weft_wire_duct duct;
    weft_status status = weft_wire_get_duct(body, length, &duct);
    uint32_t i = 0;
    for (; status == WEFT_OK && i < peers->count; i++)
        if (peers->list[i].connection.greeted && (rail = weft_rail_of_duct(&peers->list[i].sender.rails, &duct)))
            break;
    if (status == WEFT_OK && !rail)
        status = weft_fail(WEFT_E_PROTOCOL, "%s sent DUCT for a port that is not here", control->peer);
    if (status == WEFT_OK)
        status = weft_voucher_check(guest->session->site, control, &peers->list[i].claim.hello);
    if (status != WEFT_OK)
        return status;
    weft_watch_forget(&peers->watch, control);
    peers->watch.stirred[i] = true; /* the peer may have waited for the way */
    peers->again = true;
    return weft_duct_take(control, rail->outlet->provider, rail->port);
}

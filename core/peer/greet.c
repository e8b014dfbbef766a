/* greet.c - the trainer's side of the handshake: who may join, by which provider, holding what. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "peer/feed.h"
#include "peer/peer.h"
#include "site/site_link.h"
#include "wire/greeting.h"
#include "wire/voucher.h"

static weft_status refuse(weft_status status, const char *format, const char *name, const char *detail)
{
    return weft_fail(status, format, name, detail);
}

static weft_status check_hello(weft_trainer *trainer, const weft_wire_hello *hello, const weft_site_peer *site)
{
    const weft_layout *layout = trainer->session->layout;
    char text[224];
    if (memcmp(hello->layout, layout->hash, sizeof layout->hash) != 0) {
        snprintf(text, sizeof text, "%016llx%016llx, the trainer's %016llx%016llx",
                 (unsigned long long)hello->layout[1], (unsigned long long)hello->layout[0],
                 (unsigned long long)layout->hash[1], (unsigned long long)layout->hash[0]);
        return refuse(WEFT_E_LAYOUT,
                      "%s has another layout: its hash is %s; names, dtypes, shapes and their order must be equal",
                      hello->name, text);
    }
    bool direct = hello->hops == 0; /* else it is the relay's provider */
    if (direct && strcmp(site->provider, "auto") != 0 && strcmp(site->provider, hello->provider) != 0) {
        snprintf(text, sizeof text, "%s, the trainer's site file names %s for it; write the same at both ends",
                 hello->provider, site->provider);
        return refuse(WEFT_E_REFUSED, "%s comes by provider %s", hello->name, text);
    }
    if (hello->slot_payload < layout->largest_frame) {
        snprintf(text, sizeof text, "%llu bytes, the layout's largest frame is %u; raise bucket_max",
                 (unsigned long long)hello->slot_payload, layout->largest_frame);
        return refuse(WEFT_E_REFUSED, "%s: its slots hold %s", hello->name, text);
    }
    if (!(hello->levels >> WEFT_LEVEL_FAST & 1) || !(hello->levels >> WEFT_LEVEL_FULL & 1))
        return refuse(WEFT_E_PROTOCOL, "%s does not decode both fast and full frames%s", hello->name, "");
    if ((uint64_t)hello->chunk_bytes * WEFT_CHUNKS_MAX < trainer->slabs.slab_bytes) {
        snprintf(text, sizeof text, "%u bytes at a time: a bucket of %llu would have more than %u chunks",
                 hello->chunk_bytes, (unsigned long long)trainer->slabs.slab_bytes, WEFT_CHUNKS_MAX);
        return refuse(WEFT_E_PROTOCOL, "%s takes %s", hello->name, text);
    }
    return WEFT_OK;
}

/* This end's address may be one that leads to some peers and not to others. */
static weft_status check_source(const weft_trainer *trainer, const weft_peer *guest, const weft_wire_hello *hello)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME], key[WEFT_SITE_LINK_KEY];
    const weft_site *site = trainer->session->site;
    uint32_t rails = weft_site_trainer_rails(site, hello->provider, list);
    for (uint32_t rail = 0; rail < rails; rail++)
        if (weft_control_reaches(guest->control.peer, list[rail]))
            return WEFT_OK;
    weft_site_trainer_key(site, hello->provider, key);
    weft_fail(WEFT_E_REFUSED, "%s at %s is not reached from %s", hello->name, guest->control.peer, key);
    weft_fail_outside("%s is not reached from %s", hello->name, key); /* where it comes from may be a relay's */
    return WEFT_E_REFUSED;
}

/* What is not there yet, and what all of several addresses lack, may pass: no reason for the rollout to stay away. */
static weft_status find_outlet(weft_trainer *trainer, const weft_peer *guest, const weft_wire_hello *hello,
                               weft_outlet **outlet)
{
    weft_status status = weft_outlet_any(trainer, hello->provider, 1, guest->control.peer, outlet);
    if (status == WEFT_AGAIN ||
        (status == WEFT_E_CONFIG && weft_outlet_rails(trainer->session->site, hello->provider) > 1))
        return weft_fail_quiet(WEFT_E_PROVIDER, "%s", weft_last_error());
    return status;
}

/* Whether a newcomer of the same name is the peer itself, or its next life: a live peer is heard every quarter of its
 * heartbeat, so one silent for half of it is the connection of a process that is gone. */
static bool succeeds(const weft_peer *peer, const weft_wire_hello *hello)
{
    uint64_t silence_ns = weft_clock_ns() - peer->control.heard_ns;
    bool silent = silence_ns > peer->site.heartbeat_ms * WEFT_NS_PER_MS / 2;
    return hello->incarnation == peer->hello.incarnation || (silent && hello->incarnation > peer->hello.incarnation);
}

/* How long a question stands for who asked: twice the longest pause of a rollout between two dials, and some more. */
#define RIVAL_NS (2500 * WEFT_NS_PER_MS)

/* Another incarnation may be the next life of a peer whose end nobody has reported here, an earlier one too, because
 * its clock may have gone back. It comes again until the old one is heard once more, and so lives, or has been silent
 * for long enough. One rival asks at a time, until it had its answer: else two of them would replace each other for
 * ever. */
static bool may_succeed(weft_trainer *trainer, weft_peer *peer, const weft_wire_hello *hello)
{
    const uint64_t now_ns = weft_clock_ns();
    if (peer->rival == 0 || now_ns > peer->rival_ns + RIVAL_NS) {
        peer->rival = hello->incarnation;
        peer->rival_ns = now_ns;
        peer->pinged_ns = 0; /* it is asked at once */
        trainer->again = true;
    }
    if (peer->rival != hello->incarnation || peer->control.heard_ns <= peer->rival_ns)
        return true;
    peer->rival = 0;
    return false;
}

/* A peer that is idle keeps its name and its place for a while only, if another wants them. */
static void give_way(weft_trainer *trainer, weft_peer *peer, weft_peer_event event, const char *to)
{
    char why[192];
    snprintf(why, sizeof why, "it held and took nothing for io_deadline + heartbeat, and gives way to %s", to);
    weft_peer_move(trainer, peer, event);
    weft_peer_lose(trainer, peer, WEFT_E_PEER_LOST, why);
}

static weft_status refuse_later(const weft_trainer *trainer, const weft_peer *idle, const weft_wire_hello *hello)
{
    weft_fail_quiet(WEFT_E_SYSTEM,
                    "%s has to wait: who has its %s holds nothing yet, and gives way in %llu ms at the latest",
                    hello->name, strcmp(idle->name, hello->name) == 0 ? "name" : "place",
                    (unsigned long long)(weft_peer_stays_ns(trainer, idle) / WEFT_NS_PER_MS + 1));
    weft_fail_outside("%s", weft_last_error());
    return WEFT_E_SYSTEM;
}

/* Ends the connection of the peer whose name is wanted, or refuses the newcomer. */
static weft_status take_name(weft_trainer *trainer, weft_peer *peer, const weft_wire_hello *hello)
{
    if (succeeds(peer, hello)) {
        weft_peer_move(trainer, peer, WEFT_ON_REPLACED);
        weft_peer_lose(trainer, peer, WEFT_E_PEER_LOST, "it came back on a new connection");
        return WEFT_OK;
    }
    if (weft_peer_is_idle(peer) && weft_peer_stays_ns(trainer, peer) == 0) {
        give_way(trainer, peer, WEFT_ON_REPLACED, "another of its name");
        return WEFT_OK;
    }
    const bool unknown = may_succeed(trainer, peer, hello);
    if (weft_peer_is_idle(peer))
        return refuse_later(trainer, peer, hello);
    if (unknown) {
        weft_fail_quiet(WEFT_E_SYSTEM, "whether the peer named %s at %s is gone is not known yet", hello->name,
                        peer->control.peer);
        weft_fail_outside("whether the peer named %s that was here is gone is not known yet", hello->name);
        return WEFT_E_SYSTEM;
    }
    refuse(WEFT_E_REFUSED, "a peer named %s is live already, from %s; two peers cannot share a name", hello->name,
           peer->control.peer);
    weft_fail_outside("a peer named %s is live already; two peers cannot share a name", hello->name);
    return WEFT_E_REFUSED;
}

/* All places are taken: the one that has been idle for longest goes. */
static weft_status take_place(weft_trainer *trainer, const weft_wire_hello *hello)
{
    weft_peer *idle = NULL;
    for (uint32_t i = 0; i < trainer->peer_count; i++) {
        weft_peer *peer = &trainer->peers[i];
        if (weft_peer_is_idle(peer) && (!idle || weft_peer_stays_ns(trainer, peer) < weft_peer_stays_ns(trainer, idle)))
            idle = peer;
    }
    if (!idle)
        return refuse(WEFT_E_REFUSED, "%s: max_peers are live already%s", hello->name, "");
    if (weft_peer_stays_ns(trainer, idle) > 0)
        return refuse_later(trainer, idle, hello);
    give_way(trainer, idle, WEFT_ON_EVICTED, hello->name);
    return WEFT_OK;
}

/* The record for a name: its old one if it is not connected, else `guest` becomes it. */
static weft_status claim(weft_trainer *trainer, weft_peer *guest, const weft_wire_hello *hello, weft_peer **record)
{
    uint32_t others = 0;
    *record = guest;
    for (uint32_t i = 0; i < trainer->peer_count; i++) {
        weft_peer *peer = &trainer->peers[i];
        if (peer == guest || !peer->known)
            continue;
        if (strcmp(peer->name, hello->name) != 0) {
            others += peer->greeted;
            continue;
        }
        weft_status status = peer->greeted ? take_name(trainer, peer, hello) : WEFT_OK;
        if (status != WEFT_OK)
            return status;
        *record = peer;
    }
    weft_status status = WEFT_OK;
    if (others >= trainer->session->site->trainer.max_peers)
        status = take_place(trainer, hello);
    if (status != WEFT_OK)
        return status;
    if (*record != guest) {
        weft_control swap = (*record)->control;
        trainer->again = true; /* this step has passed the record */
        (*record)->control = guest->control;
        guest->control = swap;
        (*record)->opened_ns = guest->opened_ns;
        (*record)->leaving = false;
    }
    return WEFT_OK;
}

/* Finds the version whose bits the peer holds: the newest, or the base of an update that is still kept. Where it lacks
 * the newest one's attachment it holds bits without a label until that comes, in an update that changes nothing. */
static void match_held(weft_trainer *trainer, weft_peer *peer, const weft_wire_hello *hello)
{
    weft_version nothing = {0, 0, 0};
    peer->held = nothing;
    peer->held_order = WEFT_ORDER_UNKNOWN;
    peer->sent_attachment = hello->attachment;
    if (hello->holds && hello->held.root == trainer->newest.root) {
        bool owed = weft_stream_owes_attachment(trainer, peer);
        peer->held = owed ? (weft_version){0, 0, trainer->newest.root} : trainer->newest;
        peer->held_order = trainer->newest_order;
    }
    for (uint64_t order = trainer->newest_order; hello->holds && peer->held_order == WEFT_ORDER_UNKNOWN; order--) {
        const weft_update *update = weft_journal_at(&trainer->journal, order);
        if (!update)
            break;
        if (update->base.root == hello->held.root) {
            peer->held = update->base;
            peer->held_order = order - 1;
        }
    }
    peer->sent_order = peer->held_order;
    peer->single_until = 0;
    peer->joined_order = trainer->newest_order;
    peer->lagging = false;
}

static weft_status send_welcome(weft_trainer *trainer, weft_peer *peer, weft_wire_welcome *welcome)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    welcome->run = trainer->run;
    welcome->incarnation = trainer->session->incarnation;
    memcpy(welcome->layout, trainer->session->layout->hash, sizeof welcome->layout);
    if (peer->held.run)
        welcome->held = peer->held;
    welcome->newest = trainer->newest;
    welcome->heartbeat_ms = (uint32_t)peer->site.heartbeat_ms;
    welcome->chunk_bytes = peer->chunk_bytes;
    weft_wire_put_welcome(&out, welcome);
    return weft_control_send(&peer->control, WEFT_MESSAGE_WELCOME, out.data, out.used);
}

static void settle_record(weft_trainer *trainer, weft_peer *peer, const weft_wire_hello *hello,
                          const weft_site_peer *site)
{
    if (!peer->known) {
        peer->info = (weft_peer_info){0};
        peer->estimate = (weft_estimate){0};
        peer->decoding = (weft_decoding){0};
        peer->apart_until = 0;
        peer->staging_said = 0;
        peer->rival = 0;
        memset(peer->rails, 0, sizeof peer->rails); /* their figures; no port is open */
    }
    snprintf(peer->name, sizeof peer->name, "%s", hello->name);
    if (!peer->known || site->level != WEFT_CHOICE_AUTO)
        peer->wanted = weft_peer_level(site->level);
    peer->level = peer->wanted;
    trainer->levels |= 1u << peer->wanted;
    trainer->wanting[peer->wanted]++;
    peer->known = peer->greeted = true;
    peer->site = *site;
    peer->site.bucket_max = weft_size_bucket(trainer->session->layout, site);
    peer->hello = *hello;
    if (peer->hello.slots > trainer->slots_most)
        peer->hello.slots = trainer->slots_most;
    weft_bytes_clean(peer->hello.backend);
    peer->slots_free = peer->hello.slots;
    peer->next_slot = 0;
    peer->sequence = 0;
    peer->expected_count = 0;
    weft_estimate_resume(&peer->estimate);
    peer->progress_ns = peer->joined_ns = weft_clock_ns();
    weft_pace_begin(&peer->pace, site->rate_limit);
    memset(peer->flights, 0, sizeof peer->flights);
    for (uint32_t slot = 0; slot < WEFT_SLOTS_MAX; slot++)
        peer->flights[slot].slab = -1;
    match_held(trainer, peer, hello);
}

/* Once it is known how many rails there are. */
static void settle_chunk(weft_peer *peer)
{
    uint64_t chunk = peer->hello.chunk_bytes, paced = weft_pace_chunk(peer->site.rate_limit);
    for (uint32_t at = 0; at < peer->rail_count; at++) {
        const weft_outlet *outlet = peer->rails[at].outlet;
        if (outlet && outlet->link && chunk > outlet->facts.chunk_bytes)
            chunk = outlet->facts.chunk_bytes;
    }
    uint64_t share = chunk / peer->rails_used / 64 * 64;
    if (peer->rails_used > 1 && chunk > WEFT_SPREAD_MIN) /* one bucket is to go over all rails */
        chunk = share > WEFT_SPREAD_MIN ? share : WEFT_SPREAD_MIN;
    peer->chunk_bytes = (uint32_t)(chunk < paced ? chunk : paced);
}

static weft_status answer_layout(weft_trainer *trainer, weft_peer *peer)
{
    peer->leaving = true;
    return weft_control_send_long(&peer->control, WEFT_MESSAGE_LAYOUT, trainer->layout_bytes, trainer->layout_length);
}

/* It comes again: nothing is bound that it could join with. */
static weft_status answer_later(weft_peer *peer)
{
    peer->leaving = true;
    return weft_control_send(&peer->control, WEFT_MESSAGE_PASSING, NULL, 0);
}

static weft_status announce_join(weft_trainer *trainer, weft_peer *peer)
{
    weft_session *session = trainer->session;
    bool current = peer->held_order == trainer->newest_order, labelled = current && peer->held.run;
    char text[320];
    snprintf(text, sizeof text, "%s from %s by %s%s%s, backend %s, holds %s", peer->name, peer->control.peer,
             peer->outlet->facts.fabric, peer->parent ? ", behind relay " : "", peer->parent ? peer->parent->name : "",
             peer->hello.backend,
             labelled                                 ? "the newest version"
             : current                                ? "the newest version but its attachment"
             : peer->held_order == WEFT_ORDER_UNKNOWN ? "no version known here"
                                                      : "an older version");
    weft_log(WEFT_LOG_INFO, "joined: %s", text);
    session->stats.peers_joined++;
    weft_session_event(session, WEFT_EVENT_JOINED, WEFT_OK, peer->name, &peer->held, text);
    if (labelled)
        weft_session_event(session, WEFT_EVENT_HELD, WEFT_OK, peer->name, &peer->held, "");
    weft_session_changed(session);
    return weft_peer_move(trainer, peer, current ? WEFT_ON_HELD_NEWEST : WEFT_ON_HELD_OLDER);
}

weft_status weft_peer_greet(weft_trainer *trainer, weft_peer *guest, const uint8_t *body, uint64_t length,
                            weft_peer **greeted)
{
    weft_wire_hello hello;
    weft_site_peer site;
    weft_wire_welcome welcome = {0};
    weft_outlet *outlet = NULL;
    weft_peer *peer = guest;
    *greeted = guest;
    weft_status status = weft_wire_get_hello(body, length, &hello);
    if (status == WEFT_OK)
        status = weft_greeting_check(&guest->control, &hello);
    if (status == WEFT_OK)
        status = weft_voucher_check(trainer->session->site, &guest->control, &hello);
    if (status == WEFT_OK)
        status = weft_site_resolve(trainer->session->site, hello.name, &site);
    if (status != WEFT_OK)
        return status;
    if (hello.wants_layout)
        return answer_layout(trainer, guest);
    weft_log_enter(&trainer->comers.sink); /* no stranger any more: whoever serves it enters another sink after that */
    weft_bytes_clean(hello.provider);
    weft_bytes_clean(hello.relay);
    status = check_hello(trainer, &hello, &site);
    if (status == WEFT_OK)
        status = check_source(trainer, guest, &hello);
    if (status == WEFT_OK)
        status = find_outlet(trainer, guest, &hello, &outlet);
    if (status == WEFT_OK)
        status = weft_wire_check_fabric(&hello, &outlet->facts);
    if (status == WEFT_OK) /* further ones are not used where they may not be */
        status = weft_rail_may_reach(trainer, outlet, &guest->control, &hello, hello.address, hello.address_bytes);
    if (status == WEFT_OK && !trainer->bound)
        return answer_later(guest);
    if (status == WEFT_OK)
        status = claim(trainer, guest, &hello, &peer);
    if (status != WEFT_OK)
        return status;
    *greeted = peer;
    weft_log_enter(&peer->limit.sink);
    peer->outlet = outlet;
    settle_record(trainer, peer, &hello, &site);
    status = weft_peer_move(trainer, peer, WEFT_ON_HELLO);
    if (status == WEFT_OK && trainer->shadow_lost && weft_feed_needs_snapshot(trainer, peer))
        status = weft_feed_no_snapshot(peer);
    if (status == WEFT_OK)
        status = weft_follow_join(trainer, peer);
    if (status == WEFT_OK)
        status = weft_rail_open(trainer, peer, &welcome);
    if (status == WEFT_OK)
        settle_chunk(peer);
    if (status == WEFT_OK)
        status = send_welcome(trainer, peer, &welcome);
    if (status == WEFT_OK)
        status = announce_join(trainer, peer);
    return status;
}

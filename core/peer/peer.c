/* peer.c - what the trainer hears from one connection, and when it gives the connection up.
 *
 * In come the bytes of a control connection, one message at a time. Before the claim (greet.c) the other end is a
 * guest: it may knock, say HELLO, or bring a duct for data. After the claim `act` hands each message to the file whose
 * noun it bears: receipts to receipts.c, wishes to wish.c, questions to answer.c and repair.c, rails to send/rail_*.c.
 * A message that no rollout sends, or that does not fit what is under way, ends the connection and nothing else: the
 * trainer keeps no part of it, and the peer joins again with what it really holds.
 *
 * QUERY and REPAIR cost as much as thousands of other messages, so a peer gets one of them answered a turn, and the
 * rest of what it said waits for its next turn. That bounds what a peer can take from the others.
 *
 * Time ends a connection in three ways: silence beyond the heartbeat, a write that does not move within io_deadline,
 * and a receipt that is owed too long (receipts.c). A peer that waits for work of the trainer hears PASSING meanwhile,
 * because it could not tell that work from loss. */
#include "peer/peer.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "wire/greeting.h"
#include "wire/refusal.h"

/* Time within which a guest takes its answer, which may be a long layout. */
#define LEAVE_NS (60000 * WEFT_NS_PER_MS)

/* Takes the report that the peer dropped a withdrawn update, and holds what it held. That update was the last thing
 * under way to it. */
static weft_status take_dropped(weft_peer *peer, const weft_wire_held *held)
{
    if (held->version.root != peer->receipts.expected[0].version.root)
        return weft_fail(WEFT_E_PROTOCOL, "%s says it holds digest %016llx after an update was withdrawn, not %016llx",
                         peer->claim.name, (unsigned long long)held->version.root,
                         (unsigned long long)peer->receipts.expected[0].version.root);
    peer->receipts.count = 0;
    peer->standing.sent_attachment = held->attachment;
    weft_log(WEFT_LOG_DEBUG, "%s dropped what was withdrawn, and holds version %llu", peer->claim.name,
             (unsigned long long)peer->standing.held.number);
    return WEFT_OK;
}

static weft_status take_held(const weft_newest *newest, weft_demand *demand, weft_peer *peer,
                             const weft_wire_held *held)
{
    const weft_expected *expected = &peer->receipts.expected[0];
    if (peer->receipts.count > 0 && expected->withdrawn)
        return take_dropped(peer, held);
    bool known = peer->receipts.count > 0 && expected->version.number == held->version.number;
    if (!known || expected->version.root != held->version.root || expected->version.run != held->version.run)
        return weft_fail(WEFT_E_PROTOCOL, "%s says it holds version %llu, digest %016llx: %s", peer->claim.name,
                         (unsigned long long)held->version.number, (unsigned long long)held->version.root,
                         known ? "not the digest published" : "not a version it was sent");
    if (memcmp(held->layout, weft_peer_view_layout(peer->view, peer->session)->hash, sizeof held->layout) != 0)
        return weft_fail(WEFT_E_PROTOCOL, "%s says it holds version %llu of another layout", peer->claim.name,
                         (unsigned long long)held->version.number);
    if (peer->receipts.count == 1 && peer->feed.kind == WEFT_FEED_NONE)
        peer->standing.sent_attachment = held->attachment; /* the peer knows best */
    peer->standing.held = held->version;
    peer->standing.held_order = expected->order;
    peer->standing.lagging = peer->standing.lagging && newest->order - peer->standing.held_order > peer->site.max_lag;
    if (expected->begun_ns) { /* else it was sent by a connection before */
        peer->info.update_bytes = expected->bytes;
        peer->info.send_ms = weft_clock_ms(expected->begun_ns, peer->receipts.last_ns);
    }
    peer->info.apply_ms = (double)held->decode_ns / 1e6;
    weft_estimate_decode(&peer->tuning.estimate, expected->level, expected->frame_bytes, (double)held->decode_ns / 1e9);
    if (expected->changed)
        weft_decoding_note(&peer->tuning.decoding, &demand->habit, expected->level, expected->changed,
                           (double)held->decode_ns / 1e9);
    weft_peer_level_judge(demand, peer);
    peer->info.commit_ms = (double)held->commit_ns / 1e6;
    peer->receipts.count--;
    memmove(&peer->receipts.expected[0], &peer->receipts.expected[1],
            peer->receipts.count * sizeof peer->receipts.expected[0]);
    weft_log(WEFT_LOG_DEBUG, "%s holds version %llu", peer->claim.name, (unsigned long long)peer->standing.held.number);
    weft_session_event(peer->session, WEFT_EVENT_HELD, WEFT_OK, peer->claim.name, &peer->standing.held, "");
    weft_session_changed(peer->session);
    const bool up_to_date = peer->standing.held_order == newest->order;
    return weft_peer_move(peer, up_to_date ? WEFT_ON_HELD_NEWEST : WEFT_ON_HELD_OLDER);
}

/* Ends a peer that could not make a version of what it got. It closes, and joins again with what it really holds. */
static weft_status take_fault(weft_publisher *publisher, weft_peer *peer, weft_wire_notice *notice)
{
    weft_bytes_clean(notice->text);
    const weft_version version = {publisher->run, notice->version, 0};
    weft_session_event(publisher->session, WEFT_EVENT_RESYNC, notice->status, peer->claim.name, &version, notice->text);
    weft_peer_move(peer, WEFT_ON_FAULT);
    if (notice->version == 0 && notice->status == WEFT_E_BUDGET)
        weft_follow_dropped(&publisher->newest, &peer->following);
    return weft_fail_quiet(WEFT_E_PEER_LOST, "version %llu failed there (%s)%s%s: %s; it will join again",
                           (unsigned long long)notice->version, weft_status_name(notice->status),
                           peer->following.parent ? ", behind relay " : "",
                           peer->following.parent ? peer->following.parent->claim.name : "", notice->text);
}

/* Acts on one message of a peer. `*bye`: the peer leaves in good order. */
static weft_status act(weft_trainer *trainer, weft_peer *peer, weft_message type, const uint8_t *body, uint64_t length,
                       uint64_t now_ns, bool *bye)
{
    weft_wire_receipt receipt;
    weft_wire_held held;
    weft_wire_notice notice;
    uint64_t word;
    weft_status status;
    switch (type) {
    case WEFT_MESSAGE_RECEIPT:
        status = weft_wire_get_receipt(body, length, &receipt);
        return status == WEFT_OK ? weft_receipts_take(peer, &receipt, now_ns) : status;
    case WEFT_MESSAGE_HELD:
        status = weft_wire_get_held(body, length, &held);
        return status == WEFT_OK ? take_held(&trainer->publisher.newest, &trainer->demand, peer, &held) : status;
    case WEFT_MESSAGE_FAULT:
        status = weft_wire_get_notice(body, length, &notice);
        return status == WEFT_OK ? take_fault(&trainer->publisher, peer, &notice) : status;
    case WEFT_MESSAGE_BYE:
        *bye = true;
        return weft_wire_get_notice(body, length, &notice);
    case WEFT_MESSAGE_ACCEPT:
        return weft_feed_snapshot(&trainer->publisher, peer);
    case WEFT_MESSAGE_WANT:
        return weft_wish_take(peer, body, length);
    case WEFT_MESSAGE_REPAIR:
        return weft_repair_ask(&trainer->publisher, peer, body, length);
    case WEFT_MESSAGE_STAGED:
        return WEFT_OK;
    case WEFT_MESSAGE_LANDED:
        return weft_rail_landed(&peer->sender, body, length);
    case WEFT_MESSAGE_CLOSED:
        return weft_rail_closed(&peer->sender, body, length);
    case WEFT_MESSAGE_OPENED:
        return weft_rail_opened(&peer->sender, body, length);
    case WEFT_MESSAGE_QUERY:
        return weft_answer(&trainer->publisher, peer, body, length);
    case WEFT_MESSAGE_PING:
        status = weft_wire_get_word(body, length, &word);
        return status == WEFT_OK ? weft_control_send(&peer->connection.control, WEFT_MESSAGE_PONG, body, length)
                                 : status;
    case WEFT_MESSAGE_PONG:
        status = weft_wire_get_word(body, length, &word);
        if (status == WEFT_OK && word <= now_ns)
            weft_estimate_rtt(&peer->tuning.estimate, (double)(now_ns - word) / 1e9);
        return status;
    default:
        return weft_fail(WEFT_E_PROTOCOL, "%s sent %s, which no rollout sends here", peer->claim.name,
                         weft_message_name(type));
    }
}

/* Tells a guest why it cannot join, as the thread's last error has it. The connection is closed when that has left. */
static weft_status turn_away(weft_connection *connection, weft_status why)
{
    weft_wire_notice notice;
    weft_refusal_notice(why, "", &notice);
    /* the other end decides, but who waits for it here wants to know; and what is withheld there must be logged here */
    if (weft_status_scope(why) == WEFT_SCOPE_CALL || weft_refusal_withholds(why))
        weft_log(WEFT_LOG_WARN, "refused: %s", weft_last_error());
    connection->leaving = true;
    return weft_control_notice(&connection->control, WEFT_MESSAGE_REFUSE, &notice);
}

static weft_status hear_guest(weft_trainer *trainer, weft_peer **peer, weft_message type, const uint8_t *body,
                              uint64_t length)
{
    if (type == WEFT_MESSAGE_DUCT && (*peer)->connection.control.nonce == 0) {
        weft_status taken = weft_peer_duct(&trainer->peers, *peer, body, length);
        return taken == WEFT_OK ? WEFT_OK : turn_away(&(*peer)->connection, taken);
    }
    if (type != WEFT_MESSAGE_HELLO)
        return weft_fail(WEFT_E_PROTOCOL, "%s began with %s instead of HELLO", (*peer)->connection.control.peer,
                         weft_message_name(type));
    weft_peer *guest = *peer;
    weft_status status = weft_wire_knocks(body, length) ? weft_greeting_give(&guest->connection.control, body, length)
                                                        : weft_peer_greet(trainer, guest, body, length, peer);
    if (status == WEFT_OK)
        return WEFT_OK;
    bool was_greeted = (*peer)->connection.greeted;
    weft_peer_move(*peer, WEFT_ON_REFUSED);
    weft_status refused = turn_away(&(*peer)->connection, status);
    if (was_greeted) { /* the claim succeeded, so the record goes back to lost, and the connection stays for the refusal
                        */
        (*peer)->connection.greeted = false;
        weft_loss_of_children(&trainer->peers, *peer);
        weft_send_close(&(*peer)->sender);
    }
    return refused;
}

/* Takes one message and acts on it. WEFT_AGAIN: none is whole. An error of a peer is held back, because its loss says
 * it. */
static weft_status hear_one(weft_trainer *trainer, weft_peer **peer, uint64_t now_ns, weft_message *type, bool *bye)
{
    weft_control *control = &(*peer)->connection.control;
    const bool greeted = (*peer)->connection.greeted;
    const uint8_t *body;
    uint64_t length;
    if (greeted)
        weft_fail_hold();
    weft_status status = weft_control_next(control, type, &body, &length);
    if (status == WEFT_OK) {
        trainer->session->stirred = true;
        status = greeted ? act(trainer, *peer, *type, body, length, now_ns, bye)
                         : hear_guest(trainer, peer, *type, body, length);
        weft_control_drop(&(*peer)->connection.control);
    }
    if (greeted)
        weft_fail_release(weft_status_scope(status) == WEFT_SCOPE_PEER);
    return status;
}

/* Names the relay too, because the address may be the relay's. */
static weft_status fail_closed(const weft_peer *peer)
{
    const weft_peer *relay = peer->following.parent;
    return weft_fail_quiet(WEFT_E_PEER_LOST, "the connection was closed from %s%s%s", peer->connection.control.peer,
                           relay ? ", behind relay " : "", relay ? relay->claim.name : "");
}

weft_status weft_peer_listen(weft_trainer *trainer, weft_peer *peer, weft_waits *waits)
{
    weft_status lost = weft_control_fill(&peer->connection.control), status = WEFT_OK;
    uint64_t now_ns = weft_clock_ns();
    bool bye = false, costly = false, wanted = false;
    while (status == WEFT_OK && !bye && !costly && !peer->connection.leaving) {
        weft_message type = 0;
        status = hear_one(trainer, &peer, now_ns, &type, &bye);
        costly = type == WEFT_MESSAGE_QUERY || type == WEFT_MESSAGE_REPAIR; /* as thousands of other messages */
        wanted = wanted || type == WEFT_MESSAGE_WANT;
    }
    if (status == WEFT_AGAIN)
        status = WEFT_OK;
    if (status == WEFT_OK && wanted && !bye && weft_follow_wanted(&trainer->peers, peer))
        waits->busy = true;
    const bool later = status == WEFT_OK && costly && peer->connection.control.in_used > 0;
    if (later) {
        trainer->peers.watch.stirred[weft_peer_index(&trainer->peers, peer)] = true;
        waits->busy = true;
    }
    if (bye && status == WEFT_OK)
        weft_peer_lose(&trainer->peers, peer, WEFT_OK, "goodbye");
    else if (status == WEFT_OK && lost != WEFT_OK && !later)
        status = fail_closed(peer);
    if (status != WEFT_OK)
        weft_peer_lose(&trainer->peers, peer, status, weft_last_error());
    return WEFT_OK;
}

static weft_status ping(weft_connection *connection, uint64_t now_ns)
{
    connection->pinged_ns = now_ns;
    return weft_control_word(&connection->control, WEFT_MESSAGE_PING, now_ns);
}

/* Names where the peer's data go: to the relay nearest to the trainer, if the peer comes through one. */
static weft_status fail_stall(const weft_peer *peer, uint64_t now_ns)
{
    const weft_peer *to = peer;
    while (to->following.parent)
        to = to->following.parent;
    bool named = to->site.address[0] != 0;
    return weft_fail_quiet(WEFT_E_PEER_LOST, "no write moved for %llu ms (io_deadline), %u under way to %s%s%s",
                           (unsigned long long)((now_ns - peer->sender.flights.progress_ns) / WEFT_NS_PER_MS),
                           peer->sender.flights.writes, to->claim.name, named ? ", address = " : " at ",
                           named ? to->site.address : to->connection.control.peer);
}

/* Returns true if what the peer waits for may be here yet: an update that is being encoded, a repair that is being
 * made, or a snapshot that waits for a slab or a catch-up. */
static bool is_waited_for(const weft_eager *eager, const weft_feed *feed)
{
    return feed->kind == WEFT_FEED_REPAIR || feed->kind == WEFT_FEED_SNAPSHOT || weft_eager_waits(eager, feed);
}

/* Tells a peer that what it waits for is not lost on the way. */
static weft_status tell_passing(const weft_eager *eager, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    const uint64_t every_ns = weft_session_passing_ns(peer->session);
    bool all_taken = peer->sender.flights.slots_free == peer->sender.flights.slots && !peer->sender.posting.busy;
    if (!is_waited_for(eager, &peer->feed))
        return WEFT_OK;
    weft_waits_until(waits, peer->connection.told_ns + every_ns > now_ns ? peer->connection.told_ns + every_ns
                                                                         : now_ns + every_ns);
    if (!all_taken || now_ns < peer->connection.told_ns + every_ns)
        return WEFT_OK;
    peer->connection.told_ns = now_ns;
    return weft_control_send(&peer->connection.control, WEFT_MESSAGE_PASSING, NULL, 0);
}

static weft_status check_greeted(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    uint64_t silence_ns = peer->site.heartbeat_ms * WEFT_NS_PER_MS, every_ns = silence_ns / 4;
    if (now_ns > peer->connection.control.heard_ns + silence_ns) {
        weft_peer_move(peer, WEFT_ON_SILENCE);
        return weft_fail_quiet(WEFT_E_PEER_LOST, "silent for %llu ms (heartbeat = %llu ms)",
                               (unsigned long long)((now_ns - peer->connection.control.heard_ns) / WEFT_NS_PER_MS),
                               (unsigned long long)peer->site.heartbeat_ms);
    }
    if (weft_send_stalls(&peer->sender, now_ns)) {
        weft_peer_move(peer, WEFT_ON_STALL);
        return fail_stall(peer, now_ns);
    }
    weft_waits_until(waits, peer->connection.control.heard_ns + silence_ns + WEFT_NS_PER_MS);
    weft_waits_until(waits, peer->connection.pinged_ns + every_ns);
    weft_follow_wake(peer, now_ns, waits);
    weft_status status = weft_receipts_check(peer, now_ns, waits);
    if (status == WEFT_OK)
        status = tell_passing(&trainer->publisher.eager, peer, now_ns, waits);
    if (status == WEFT_OK)
        status = weft_rail_check(&peer->sender, now_ns, waits);
    return status == WEFT_OK && now_ns >= peer->connection.pinged_ns + every_ns ? ping(&peer->connection, now_ns)
                                                                                : status;
}

weft_status weft_peer_check_time(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    if (peer->connection.greeted)
        return check_greeted(trainer, peer, now_ns, waits);
    const uint64_t greet_ns = trainer->session->site->guests.deadline_ms * WEFT_NS_PER_MS;
    uint64_t deadline_ns = peer->connection.opened_ns + (peer->connection.leaving ? LEAVE_NS : greet_ns);
    weft_waits_until(waits, deadline_ns);
    if (now_ns > deadline_ns)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "%s did not say who it is, or does not read",
                               peer->connection.control.peer);
    return WEFT_OK;
}

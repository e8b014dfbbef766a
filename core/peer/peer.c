#include "peer/peer.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "wire/greeting.h"
#include "wire/refusal.h"

/* A guest says who it is within this time. */
#define GREET_NS (5000 * WEFT_NS_PER_MS)
/* A guest takes its answer, which may be a long layout, within this time. */
#define LEAVE_NS (60000 * WEFT_NS_PER_MS)

/* It dropped an update that was withdrawn, and holds what it held: the last thing under way to it. */
static weft_status take_dropped(weft_peer *peer, const weft_wire_held *held)
{
    if (held->version.root != peer->expected[0].version.root)
        return weft_fail(WEFT_E_PROTOCOL, "%s says it holds digest %016llx after an update was withdrawn, not %016llx",
                         peer->name, (unsigned long long)held->version.root,
                         (unsigned long long)peer->expected[0].version.root);
    peer->expected_count = 0;
    peer->sent_attachment = held->attachment;
    weft_log(WEFT_LOG_DEBUG, "%s dropped what was withdrawn, and holds version %llu", peer->name,
             (unsigned long long)peer->held.number);
    return WEFT_OK;
}

static weft_status take_held(weft_trainer *trainer, weft_peer *peer, const weft_wire_held *held)
{
    const weft_expected *expected = &peer->expected[0];
    if (peer->expected_count > 0 && expected->withdrawn)
        return take_dropped(peer, held);
    bool known = peer->expected_count > 0 && expected->version.number == held->version.number;
    if (!known || expected->version.root != held->version.root || expected->version.run != held->version.run)
        return weft_fail(WEFT_E_PROTOCOL, "%s says it holds version %llu, digest %016llx: %s", peer->name,
                         (unsigned long long)held->version.number, (unsigned long long)held->version.root,
                         known ? "not the digest published" : "not a version it was sent");
    if (memcmp(held->layout, trainer->session->layout->hash, sizeof held->layout) != 0)
        return weft_fail(WEFT_E_PROTOCOL, "%s says it holds version %llu of another layout", peer->name,
                         (unsigned long long)held->version.number);
    if (peer->expected_count == 1 && peer->feed.kind == WEFT_FEED_NONE)
        peer->sent_attachment = held->attachment; /* the peer knows best */
    peer->held = held->version;
    peer->held_order = expected->order;
    peer->lagging = peer->lagging && trainer->newest_order - peer->held_order > peer->site.max_lag;
    peer->info.update_bytes = expected->bytes;
    peer->info.send_ms = weft_clock_ms(expected->begun_ns, peer->last_receipt_ns);
    peer->info.apply_ms = (double)held->decode_ns / 1e6;
    weft_estimate_decode(&peer->estimate, expected->level, expected->frame_bytes, (double)held->decode_ns / 1e9);
    if (expected->changed)
        weft_decoding_note(&peer->decoding, &trainer->habit, expected->level, expected->changed,
                           (double)held->decode_ns / 1e9);
    weft_peer_level_judge(trainer, peer);
    peer->info.commit_ms = (double)held->commit_ns / 1e6;
    peer->expected_count--;
    memmove(&peer->expected[0], &peer->expected[1], peer->expected_count * sizeof peer->expected[0]);
    weft_log(WEFT_LOG_DEBUG, "%s holds version %llu", peer->name, (unsigned long long)peer->held.number);
    weft_session_event(trainer->session, WEFT_EVENT_HELD, WEFT_OK, peer->name, &peer->held, "");
    weft_session_changed(trainer->session);
    bool newest = peer->held_order == trainer->newest_order;
    return weft_peer_move(trainer, peer, newest ? WEFT_ON_HELD_NEWEST : WEFT_ON_HELD_OLDER);
}

/* The peer could not make a version of what it got: it closes and joins again with what it really holds. */
static weft_status take_fault(weft_trainer *trainer, weft_peer *peer, weft_wire_notice *notice)
{
    weft_bytes_clean(notice->text);
    const weft_version version = {trainer->run, notice->version, 0};
    weft_session_event(trainer->session, WEFT_EVENT_RESYNC, notice->status, peer->name, &version, notice->text);
    weft_peer_move(trainer, peer, WEFT_ON_FAULT);
    if (notice->version == 0 && notice->status == WEFT_E_BUDGET)
        weft_follow_dropped(trainer, peer);
    return weft_fail_quiet(WEFT_E_PEER_LOST, "version %llu failed there (%s)%s%s: %s; it will join again",
                           (unsigned long long)notice->version, weft_status_name(notice->status),
                           peer->parent ? ", behind relay " : "", peer->parent ? peer->parent->name : "", notice->text);
}

/* Whether `status` OK is an orderly end is told by `bye`. */
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
        return status == WEFT_OK ? weft_flight_receipt(trainer, peer, &receipt, now_ns) : status;
    case WEFT_MESSAGE_HELD:
        status = weft_wire_get_held(body, length, &held);
        return status == WEFT_OK ? take_held(trainer, peer, &held) : status;
    case WEFT_MESSAGE_FAULT:
        status = weft_wire_get_notice(body, length, &notice);
        return status == WEFT_OK ? take_fault(trainer, peer, &notice) : status;
    case WEFT_MESSAGE_BYE:
        *bye = true;
        return weft_wire_get_notice(body, length, &notice);
    case WEFT_MESSAGE_ACCEPT:
        return weft_feed_snapshot(trainer, peer);
    case WEFT_MESSAGE_REPAIR:
        return weft_repair_ask(trainer, peer, body, length);
    case WEFT_MESSAGE_STAGED:
        return WEFT_OK;
    case WEFT_MESSAGE_LANDED:
        return weft_rail_landed(trainer, peer, body, length);
    case WEFT_MESSAGE_CLOSED:
        return weft_rail_closed(trainer, peer, body, length);
    case WEFT_MESSAGE_OPENED:
        return weft_rail_opened(trainer, peer, body, length);
    case WEFT_MESSAGE_QUERY:
        return weft_answer(trainer, peer, body, length);
    case WEFT_MESSAGE_PING:
        status = weft_wire_get_word(body, length, &word);
        return status == WEFT_OK ? weft_control_send(&peer->control, WEFT_MESSAGE_PONG, body, length) : status;
    case WEFT_MESSAGE_PONG:
        status = weft_wire_get_word(body, length, &word);
        if (status == WEFT_OK && word <= now_ns)
            weft_estimate_rtt(&peer->estimate, (double)(now_ns - word) / 1e9);
        return status;
    default:
        return weft_fail(WEFT_E_PROTOCOL, "%s sent %s, which no rollout sends here", peer->name,
                         weft_message_name(type));
    }
}

/* Tells a guest why it cannot join, as the thread's last error has it, and closes when that has left. */
static weft_status turn_away(weft_peer *peer, weft_status why)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_notice notice;
    weft_refusal_notice(why, "", &notice);
    weft_wire_put_notice(&out, &notice);
    /* the other end's call, but who waits for it here wants to know; and what that end is not told must be said here */
    if (weft_status_scope(why) == WEFT_SCOPE_CALL || weft_refusal_withholds(why))
        weft_log(WEFT_LOG_WARN, "refused: %s", weft_last_error());
    peer->leaving = true;
    return weft_control_send(&peer->control, WEFT_MESSAGE_REFUSE, out.data, out.used);
}

static weft_status hear_guest(weft_trainer *trainer, weft_peer **peer, weft_message type, const uint8_t *body,
                              uint64_t length)
{
    if (type != WEFT_MESSAGE_HELLO)
        return weft_fail(WEFT_E_PROTOCOL, "%s began with %s instead of HELLO", (*peer)->control.peer,
                         weft_message_name(type));
    weft_peer *guest = *peer;
    weft_status status = weft_wire_knocks(body, length) ? weft_greeting_give(&guest->control, body, length)
                                                        : weft_peer_greet(trainer, guest, body, length, peer);
    if (status == WEFT_OK)
        return WEFT_OK;
    bool was_greeted = (*peer)->greeted;
    weft_peer_move(trainer, *peer, WEFT_ON_REFUSED);
    weft_status refused = turn_away(*peer, status);
    if (was_greeted) { /* past the claim: the record goes back to lost, the connection stays for the refusal */
        (*peer)->greeted = false;
        weft_loss_of_children(trainer, *peer);
        weft_rail_close(*peer);
    }
    return refused;
}

weft_status weft_peer_listen(weft_trainer *trainer, weft_peer *peer)
{
    weft_status lost = weft_control_fill(&peer->control), status = WEFT_OK;
    uint64_t now_ns = weft_clock_ns();
    bool bye = false;
    while (status == WEFT_OK && !bye && !peer->leaving) {
        weft_message type;
        const uint8_t *body;
        uint64_t length;
        status = weft_control_next(&peer->control, &type, &body, &length);
        if (status != WEFT_OK)
            break;
        trainer->session->stirred = true;
        if (peer->greeted)
            status = act(trainer, peer, type, body, length, now_ns, &bye);
        else
            status = hear_guest(trainer, &peer, type, body, length);
        weft_control_drop(&peer->control);
    }
    if (status == WEFT_AGAIN)
        status = WEFT_OK;
    if (bye && status == WEFT_OK)
        weft_peer_lose(trainer, peer, WEFT_OK, "goodbye");
    else if (status == WEFT_OK && lost != WEFT_OK)
        status = weft_fail_quiet(WEFT_E_PEER_LOST, "the connection was closed from %s", peer->control.peer);
    if (status != WEFT_OK)
        weft_peer_lose(trainer, peer, status, weft_last_error());
    return WEFT_OK;
}

static weft_status ping(weft_peer *peer, uint64_t now_ns)
{
    uint8_t body[8];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_word(&out, now_ns);
    peer->pinged_ns = now_ns;
    return weft_control_send(&peer->control, WEFT_MESSAGE_PING, out.data, out.used);
}

/* Where its data go: to the relay nearest to the trainer, if it is behind one. */
static weft_status fail_stall(const weft_peer *peer, uint64_t now_ns)
{
    const weft_peer *to = peer;
    while (to->parent)
        to = to->parent;
    bool named = to->site.address[0] != 0;
    return weft_fail_quiet(WEFT_E_PEER_LOST, "no write moved for %llu ms (io_deadline), %u under way to %s%s%s",
                           (unsigned long long)((now_ns - peer->progress_ns) / WEFT_NS_PER_MS), peer->writes, to->name,
                           named ? ", address = " : " at ", named ? to->site.address : to->control.peer);
}

/* Whether what the peer waits for may be here yet: an update that is being encoded, a repair that is being made, a
 * snapshot that waits for a slab or is being caught up. */
static bool is_waited_for(const weft_trainer *trainer, const weft_peer *peer)
{
    return peer->feed.kind == WEFT_FEED_REPAIR || peer->feed.kind == WEFT_FEED_SNAPSHOT ||
           weft_eager_waits(trainer, peer);
}

/* It is not lost on the way. */
static weft_status tell_passing(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    const uint64_t every_ns = weft_session_passing_ns(trainer->session);
    bool all_taken = peer->slots_free == peer->hello.slots && !peer->posting;
    if (!is_waited_for(trainer, peer))
        return WEFT_OK;
    weft_waits_until(waits, peer->told_ns + every_ns > now_ns ? peer->told_ns + every_ns : now_ns + every_ns);
    if (!all_taken || now_ns < peer->told_ns + every_ns)
        return WEFT_OK;
    peer->told_ns = now_ns;
    return weft_control_send(&peer->control, WEFT_MESSAGE_PASSING, NULL, 0);
}

static weft_status check_greeted(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    uint64_t silence_ns = peer->site.heartbeat_ms * WEFT_NS_PER_MS, every_ns = silence_ns / 4;
    uint64_t io_ns = trainer->session->site->session.io_deadline_ms * WEFT_NS_PER_MS;
    if (now_ns > peer->control.heard_ns + silence_ns) {
        weft_peer_move(trainer, peer, WEFT_ON_SILENCE);
        return weft_fail_quiet(WEFT_E_PEER_LOST, "silent for %llu ms (heartbeat = %llu ms)",
                               (unsigned long long)((now_ns - peer->control.heard_ns) / WEFT_NS_PER_MS),
                               (unsigned long long)peer->site.heartbeat_ms);
    }
    if ((peer->writes || peer->again) && now_ns > peer->progress_ns + io_ns) {
        weft_peer_move(trainer, peer, WEFT_ON_STALL);
        return fail_stall(peer, now_ns);
    }
    weft_waits_until(waits, peer->control.heard_ns + silence_ns + WEFT_NS_PER_MS);
    weft_waits_until(waits, peer->pinged_ns + every_ns);
    weft_status status = weft_receipts_check(trainer, peer, now_ns, waits);
    if (status == WEFT_OK)
        status = tell_passing(trainer, peer, now_ns, waits);
    if (status == WEFT_OK)
        status = weft_rail_check(trainer, peer, now_ns, waits);
    return status == WEFT_OK && now_ns >= peer->pinged_ns + every_ns ? ping(peer, now_ns) : status;
}

weft_status weft_peer_check_time(weft_trainer *trainer, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    if (peer->greeted)
        return check_greeted(trainer, peer, now_ns, waits);
    uint64_t deadline_ns = peer->opened_ns + (peer->leaving ? LEAVE_NS : GREET_NS);
    weft_waits_until(waits, deadline_ns);
    if (now_ns > deadline_ns)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "%s did not say who it is, or does not read", peer->control.peer);
    return WEFT_OK;
}

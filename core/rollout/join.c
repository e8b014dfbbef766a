/* join.c - the rollout's connection: dial, greet, keep alive, lose, come back.
 *
 * A rollout dials the addresses of its site in turn (gateway.c): its relays in order, then the trainer. Each gets a
 * time to answer, and a relay gets less of it than the trainer, because the next relay can serve as well. After each
 * round of failures the pause before the next round doubles, up to a second. Names are looked up again after a round,
 * because a host may have come back with another address.
 *
 * Joined, both ends ping four times a heartbeat, and silence for a heartbeat ends the connection. weft_join_lose ends
 * it because of the other end: ports close first, because a closed port is what stops writes that are landing. All that
 * came by the connection is forgotten, except a version that is proved: the caller may still commit that one.
 *
 * weft_join_fault ends it because of this end: a version could not be made from what came, or the weights are not what
 * was held. FAULT tells the trainer so. If the weights are in doubt, they are digested anew without the lock, and the
 * next HELLO tells what they really are. After three faults in a row HELLO claims to hold nothing, so that the trainer
 * offers a snapshot. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"
#include "session/await.h"
#include "wire/greeting.h"

#define RETRY_MIN_NS (20 * WEFT_NS_PER_MS)
#define RETRY_MAX_NS (1000 * WEFT_NS_PER_MS)
#define LATER_NS     (250 * WEFT_NS_PER_MS) /* until one that is not ready is dialed again */
#define GREET_MS     10000

/* ---- open */

#define CHOICE_TEXT 768 /* bytes of what is said of a choice */

static const weft_provider *choose_provider(const char *name, const char *address, char text[CHOICE_TEXT])
{
    text[0] = 0;
    return strcmp(name, "auto") == 0 ? weft_provider_auto(address, text, CHOICE_TEXT) : weft_provider_find(name);
}

/* Chooses the provider by the first address that tells which one serves. */
static weft_status choose_by_any(weft_rollout *rollout, const char *first)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    const weft_site_peer *site = &rollout->site;
    const uint32_t rails = weft_site_rails(site->address, list);
    const bool automatic = strcmp(site->provider, "auto") == 0;
    bool waits = false;
    char text[CHOICE_TEXT];
    rollout->provider = choose_provider(site->provider, first, text);
    for (uint32_t rail = 1; rail < rails && !rollout->provider; rail++)
        rollout->provider = choose_provider(site->provider, list[rail], text);
    for (uint32_t rail = 0; rail < rails && !rollout->provider && automatic && !waits; rail++)
        waits = weft_provider_auto_waits(rail ? list[rail] : first);
    if (text[0] && !waits) /* while the rollout waits, the reason is said once */
        weft_log(rollout->provider ? WEFT_LOG_INFO : WEFT_LOG_WARN, "provider auto: %s", text);
    if (rollout->provider || waits)
        return waits ? WEFT_AGAIN : WEFT_OK;
    return weft_fail(WEFT_E_MISSING, "[peer.%s] provider = %s: this build or host has none of that name", site->name,
                     site->provider);
}

/* Refuses an address that the other end cannot reach, because data for it would never come. */
static weft_status check_way(const weft_rollout *rollout, uint32_t way)
{
    const weft_site_peer *site = &rollout->site;
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    uint32_t rails = weft_site_rails(site->address, list);
    for (uint32_t rail = 0; rail < rails; rail++)
        if (weft_control_reaches(rollout->route.gateways[way].address, list[rail]))
            return WEFT_OK;
    return weft_fail_quiet(WEFT_E_UNREACHABLE, "[peer.%s] address = %s is not reached from %s", site->name,
                           site->address, rollout->route.gateways[way].address);
}

static weft_status check_ways(const weft_rollout *rollout)
{
    for (uint32_t way = 0; way < rollout->route.count; way++)
        if (check_way(rollout, way) == WEFT_OK)
            return WEFT_OK;
    return weft_fail(
        WEFT_E_CONFIG, "[peer.%s] address = %s is not reached from %s; name the interface that leads there, or none",
        rollout->site.name, rollout->site.address, rollout->route.gateways[rollout->route.count - 1].address);
}

/* WEFT_AGAIN: an interface, its IP or a route is not there yet. */
static weft_status open_links(weft_rollout *rollout)
{
    char address[WEFT_SITE_TEXT], list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    weft_site_rails(rollout->site.address, list);
    snprintf(address, sizeof address, "%s", list[0]);
    weft_inlet_close(rollout, true); /* what an attempt before this one has opened */
    weft_status status = check_ways(rollout);
    if (status == WEFT_OK && !address[0])
        status = weft_control_route(weft_gateway_known(&rollout->route), address, sizeof address);
    if (status == WEFT_OK)
        status = choose_by_any(rollout, address);
    return status == WEFT_OK ? weft_inlet_links(rollout, address) : status;
}

weft_status weft_join_open(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    weft_status status = weft_guard_open(session->site, rollout->site.name, &session->guard);
    if (status == WEFT_OK)
        status = weft_gateway_open(rollout);
    if (status == WEFT_OK)
        status = weft_control_open(&rollout->control);
    if (status != WEFT_OK)
        return status;
    weft_await await = weft_await_begin(rollout->session->site);
    do
        status = open_links(rollout);
    while (weft_await_more(&await, status));
    return weft_await_end(&await, status);
}

void weft_join_close(weft_rollout *rollout)
{
    weft_inlet_close(rollout, true);
    weft_control_close(&rollout->control);
    weft_gateway_close(&rollout->route);
}

/* ---- lose */

static void forget_connection(weft_rollout *rollout)
{
    bool keep = rollout->phase != WEFT_PHASE_RECEIVING; /* proved already: the caller may still commit it */
    weft_receive_reset(rollout);
    weft_search_drop(rollout);
    rollout->searched = false;
    rollout->offered = rollout->asked = false;
    rollout->snapshot_runs = false;
    rollout->queued = keep; /* queue[0] itself stays as it is: a commit may be reading it */
    if (!keep)
        weft_stage_clear(rollout);
}

/* Names the bits that the rollout goes on with: a version, bits of no version, or nothing. */
static void holdings(const weft_rollout *rollout, char text[64])
{
    const bool labelled = rollout->held.run != 0;
    if (labelled)
        snprintf(text, 64, "%s version %llu", rollout->holds ? "serving" : "holding nothing after",
                 (unsigned long long)rollout->held.number);
    else
        snprintf(text, 64, "%s", rollout->holds ? "serving bits of no version" : "holding nothing");
}

/* Reports a lost trainer once, to the log and as an event. WEFT_OK: the trainer said goodbye. */
static void tell_away(weft_rollout *rollout, weft_status status, const char *why)
{
    char holds[64], away[320];
    holdings(rollout, holds);
    if (status != WEFT_OK)
        weft_log(WEFT_LOG_WARN, "the trainer is away: %s; %s, dialing again", why, holds);
    else
        weft_log(WEFT_LOG_INFO, "the trainer said goodbye; %s", holds);
    snprintf(away, sizeof away, "trainer away, %s: %s", holds, why);
    weft_session_event(rollout->session, status == WEFT_OK ? WEFT_EVENT_GOODBYE : WEFT_EVENT_LOST, status, "trainer",
                       &rollout->held, away);
}

/* Reports that this end joins anew, because the fault is here and not the trainer's. The end of a session was reported
 * already. */
static void tell_again(const weft_rollout *rollout, weft_status status, const char *why)
{
    const bool base = status == WEFT_E_BASE;
    if (rollout->session->ended != WEFT_OK)
        return;
    if (base || rollout->queued)
        weft_log(WEFT_LOG_WARN, "joins again to have version %llu %s: %s",
                 (unsigned long long)(base ? rollout->held.number : rollout->queue[0].header.target.number),
                 base ? "repaired" : "sent again", why);
    else
        weft_log(WEFT_LOG_WARN, "joins again: %s", why);
}

/* Ends the connection, or the attempt at one; true: it was joined. */
static bool leave(weft_rollout *rollout, weft_status status, const char *text)
{
    uint64_t now_ns = weft_clock_ns(), wait_ns = RETRY_MIN_NS << (rollout->retries < 6 ? rollout->retries : 6);
    bool joined = rollout->join == WEFT_JOIN_JOINED;
    const bool silent = joined && now_ns > rollout->control.heard_ns + rollout->heartbeat_ms * WEFT_NS_PER_MS;
    if (rollout->relay)
        rollout->hooks->lose(rollout->relay, status, text);
    weft_inlet_close(rollout, false);
    weft_control_hang_up(&rollout->control);
    if (rollout->snapshot_runs && !rollout->into_image)
        rollout->snapshot_failed = status == WEFT_OK ? WEFT_E_PEER_LOST : status;
    forget_connection(rollout);
    rollout->join = WEFT_JOIN_AWAY;
    bool again = !joined && weft_gateway_again(rollout, now_ns);
    if (joined) {
        weft_gateway_close(&rollout->route);
        weft_gateway_begin(&rollout->route, rollout->faults, silent);
    }
    if (!joined && !again && weft_gateway_next(&rollout->route)) {
        wait_ns = 0; /* at once to the next that the site names */
    } else {
        rollout->retries += !again;
        if (!joined)
            weft_gateway_renew(rollout);
    }
    rollout->retry_ns = now_ns + (wait_ns < RETRY_MAX_NS ? wait_ns : RETRY_MAX_NS);
    snprintf(rollout->away_text, sizeof rollout->away_text, "%s", text);
    rollout->away_status = status;
    rollout->later = false;
    if (joined) {
        rollout->away_since_ns = now_ns;
        weft_session_changed(rollout->session);
    }
    return joined;
}

/* Reports a shortage of this host when it begins, because it would look as if the trainer were away. */
static void tell_short(const weft_rollout *rollout, weft_status status, const char *why)
{
    const bool short_here = weft_status_scope(status) == WEFT_SCOPE_SESSION;
    if (short_here && status != rollout->away_status && !weft_fail_was_logged())
        weft_log(WEFT_LOG_WARN, "cannot join now: %s; tried again", why);
}

void weft_join_lose(weft_rollout *rollout, weft_status status, const char *why)
{
    char text[192];
    snprintf(text, sizeof text, "%s", why);
    tell_short(rollout, status, text);
    if (leave(rollout, status, text))
        tell_away(rollout, status, text);
}

static void wait_for_ready(weft_rollout *rollout)
{
    const uint64_t now_ns = weft_clock_ns();
    char name[WEFT_SITE_NAME + 8];
    weft_gateway_name(&rollout->route, name);
    if (!rollout->later)
        weft_log(WEFT_LOG_INFO, "%s at %s is not ready yet: waiting for it", name, rollout->control.peer);
    weft_inlet_close(rollout, false);
    weft_control_hang_up(&rollout->control);
    forget_connection(rollout);
    rollout->join = WEFT_JOIN_AWAY;
    rollout->later = true;
    rollout->said_goodbye = false;
    rollout->retries = rollout->faults;
    rollout->away_since_ns = rollout->route.since_ns = now_ns;
    rollout->retry_ns = now_ns + LATER_NS;
}

/* Takes the weights as bits without a label, because their fresh digests are not those held. */
static void admit_alien(weft_rollout *rollout, uint64_t root)
{
    const weft_layout *layout = rollout->session->layout;
    uint64_t *digests = rollout->digests;
    char name[WEFT_PART_TEXT];
    weft_part_differs(layout, 0, layout->part_count, rollout->fresh, digests, name);
    weft_log(WEFT_LOG_ERROR, "%s: the weights are not those of version %llu; somebody else wrote them", name,
             (unsigned long long)rollout->held.number);
    rollout->digests = rollout->fresh;
    rollout->fresh = digests;
    rollout->held = (weft_version){0, 0, root};
    rollout->told = true;
}

/* Digests the weights anew, so that the next HELLO tells the truth. The pass is made without the lock: a rebind waits
 * for its end, nothing is staged, and nobody else writes the digests meanwhile. */
static void digest_anew(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    uint64_t root = 0, held = rollout->held.root;
    rollout->digesting = true;
    pthread_mutex_unlock(&session->lock);
    weft_status status = weft_session_digest(&session->steps, &rollout->weights, rollout->fresh, &root);
    pthread_mutex_lock(&session->lock);
    rollout->digesting = rollout->doubt = false;
    rollout->holds = status == WEFT_OK;
    if (status == WEFT_OK && root != held)
        admit_alien(rollout, root);
    weft_rollout_end(rollout, status);
    weft_session_changed(session);
}

void weft_join_fault(weft_rollout *rollout, weft_status status, bool doubt)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_notice notice = {.status = status,
                               .version = rollout->queued         ? rollout->queue[0].header.target.number
                                          : status == WEFT_E_BASE ? rollout->held.number
                                                                  : 0};
    snprintf(notice.text, sizeof notice.text, "%s", weft_last_error());
    weft_wire_put_notice(&out, &notice);
    if (weft_rollout_send(rollout, WEFT_MESSAGE_FAULT, &out) == WEFT_OK)
        weft_control_flush(&rollout->control);
    rollout->faults++;
    rollout->retries = rollout->faults;
    weft_version version = {rollout->welcome.run, notice.version, 0};
    weft_session_event(rollout->session, WEFT_EVENT_RESYNC, status, rollout->site.name, &version, notice.text);
    rollout->doubt = rollout->doubt || (doubt && rollout->holds);
    tell_again(rollout, status, notice.text);
    leave(rollout, status, notice.text);
}

/* ---- greet */

static weft_status knock(weft_rollout *rollout)
{
    rollout->join = WEFT_JOIN_KNOCKING;
    rollout->moved_ns = weft_clock_ns();
    return weft_greeting_ask(&rollout->control);
}

static weft_status keep_alive(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    uint64_t silence_ns = rollout->heartbeat_ms * WEFT_NS_PER_MS, every_ns = silence_ns / 4;
    if (now_ns > rollout->control.heard_ns + silence_ns)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "the trainer is silent for %llu ms",
                               (unsigned long long)((now_ns - rollout->control.heard_ns) / WEFT_NS_PER_MS));
    weft_waits_until(waits, rollout->control.heard_ns + silence_ns + WEFT_NS_PER_MS);
    weft_waits_until(waits, rollout->pinged_ns + every_ns);
    if (now_ns < rollout->pinged_ns + every_ns)
        return WEFT_OK;
    uint8_t body[8];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_word(&out, now_ns);
    rollout->pinged_ns = now_ns;
    return weft_rollout_send(rollout, WEFT_MESSAGE_PING, &out);
}

static weft_status step_dialing(weft_rollout *rollout, weft_waits *waits)
{
    uint64_t io_ms = weft_gateway_patience_ms(rollout, rollout->session->site->session.io_deadline_ms);
    weft_status status = weft_control_flush(&rollout->control);
    if (status == WEFT_E_CONFIG)
        return weft_dispatch_unproved(rollout);
    if (status == WEFT_OK && !rollout->control.connecting)
        return knock(rollout);
    if (status == WEFT_OK && weft_clock_ns() > rollout->dialed_ns + io_ms * WEFT_NS_PER_MS)
        status = weft_fail_quiet(WEFT_E_UNREACHABLE, "%s does not answer", rollout->control.peer);
    weft_waits_until(waits, rollout->dialed_ns + (io_ms + 1) * WEFT_NS_PER_MS);
    return status;
}

/* Carries out what a message of the trainer has decided about the connection. */
static void carry_out(weft_rollout *rollout)
{
    const weft_connection_verdict verdict = rollout->verdict;
    rollout->verdict = WEFT_VERDICT_NONE;
    if (verdict == WEFT_VERDICT_LATER)
        wait_for_ready(rollout);
    if (verdict == WEFT_VERDICT_GOODBYE)
        weft_join_lose(rollout, WEFT_OK, "goodbye");
    if (verdict != WEFT_VERDICT_REFUSED)
        return;
    weft_join_lose(rollout, rollout->refusal, rollout->refusal_text);
    rollout->join = WEFT_JOIN_REFUSED;
    weft_session_changed(rollout->session);
}

static weft_status step_connected(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    weft_status status = rollout->join == WEFT_JOIN_DIALING ? step_dialing(rollout, waits) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_dispatch_step(rollout);
    if (status == WEFT_OK)
        carry_out(rollout);
    if (status == WEFT_OK && rollout->join == WEFT_JOIN_JOINED)
        status = keep_alive(rollout, now_ns, waits);
    const uint64_t greet_ns =
        weft_gateway_patience_ms(rollout, GREET_MS) * WEFT_NS_PER_MS; /* of the state it is in now */
    const bool waits_for_answer = rollout->join == WEFT_JOIN_KNOCKING || rollout->join == WEFT_JOIN_GREETING;
    if (status == WEFT_OK && waits_for_answer && now_ns > rollout->moved_ns + greet_ns)
        status = weft_fail_quiet(WEFT_E_PEER_LOST, "%s did not answer HELLO", rollout->control.peer);
    if (status == WEFT_OK && waits_for_answer)
        weft_waits_until(waits, rollout->moved_ns + greet_ns + WEFT_NS_PER_MS);
    return status;
}

void weft_join_step(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    weft_status status = WEFT_OK;
    if (rollout->join == WEFT_JOIN_REFUSED)
        return;
    if (rollout->join == WEFT_JOIN_AWAY) {
        if (rollout->phase != WEFT_PHASE_RECEIVING)
            return; /* what is staged is committed first: then HELLO can say so */
        if (rollout->doubt)
            digest_anew(rollout);
        if (rollout->session->ended != WEFT_OK)
            return;
        weft_waits_until(waits, rollout->retry_ns);
        if (now_ns < rollout->retry_ns)
            return;
        uint64_t io_ms = rollout->session->site->session.io_deadline_ms;
        status = check_way(rollout, rollout->route.at);
        if (status == WEFT_OK && !rollout->route.gateways[rollout->route.at].address[0])
            status = weft_fail_quiet(WEFT_E_UNREACHABLE, "nobody knows the name of its host");
        if (status == WEFT_OK)
            status = weft_control_dial(&rollout->control, rollout->route.gateways[rollout->route.at].address, io_ms);
        if (status == WEFT_OK) {
            weft_control_guard(&rollout->control, rollout->session->guard, weft_gateway_owner(&rollout->route));
            rollout->join = WEFT_JOIN_DIALING;
        }
        rollout->dialed_ns = now_ns;
        if (rollout->route.since_ns == 0)
            rollout->route.since_ns = now_ns;
    }
    if (status == WEFT_OK)
        status = step_connected(rollout, now_ns, waits);
    weft_rollout_end(rollout, status);
    if (status != WEFT_OK && rollout->join == WEFT_JOIN_JOINED && weft_status_scope(status) != WEFT_SCOPE_PEER)
        weft_join_fault(rollout, status, status == WEFT_E_BASE);
    else if (status != WEFT_OK)
        weft_join_lose(rollout, status, weft_last_error());
}

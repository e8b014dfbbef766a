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
#define LAYOUT_MS    60000 /* for a layout, which may be long */

/* ---- open */

weft_status weft_join_open(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    weft_status status = session->guard ? WEFT_OK : weft_guard_open(session->site, rollout->site.name, &session->guard);
    if (status == WEFT_OK)
        status = weft_gateway_open(rollout);
    if (status == WEFT_OK)
        status = weft_control_open(&rollout->joining.control);
    if (status != WEFT_OK)
        return status;
    weft_await await = weft_await_begin(rollout->session->site);
    do
        status = weft_links_open(rollout);
    while (weft_await_more(&await, status));
    return weft_await_end(&await, status);
}

void weft_join_close(weft_intake *intake, weft_joining *joining)
{
    weft_inlet_close(intake, true);
    weft_control_close(&joining->control);
    weft_gateway_close(&joining->route);
    weft_compare_forget(&joining->comparing);
}

/* ---- lose */

static void forget_connection(weft_rollout *rollout)
{
    bool keep = weft_course_is_proved(&rollout->course); /* proved already: the caller may still commit it */
    weft_receive_reset(&rollout->arriving, &rollout->intake);
    weft_search_drop(&rollout->searching);
    rollout->searching.done = false;
    weft_course_move(&rollout->course, WEFT_COURSE_ON_LOST); /* which can happen in every state */
    rollout->arriving.queued = keep; /* queue[0] itself stays as it is: a commit may be reading it */
    if (!keep)
        weft_stage_clear(rollout);
}

/* Names the bits that the rollout goes on with: a version, bits of no version, or nothing. */
static void holdings(const weft_current *current, char text[64])
{
    const bool labelled = current->version.run != 0;
    if (labelled)
        snprintf(text, 64, "%s version %llu", current->known ? "serving" : "holding nothing after",
                 (unsigned long long)current->version.number);
    else
        snprintf(text, 64, "%s", current->known ? "serving bits of no version" : "holding nothing");
}

/* Reports a lost trainer once, to the log and as an event. WEFT_OK: the trainer said goodbye. */
static void tell_away(const weft_rollout *rollout, weft_status status, const char *why)
{
    const weft_current *current = &rollout->current;
    char holds[64], away[320], name[WEFT_SITE_NAME + 8];
    holdings(current, holds);
    weft_gateway_trainer(&rollout->joining.route, name);
    if (status != WEFT_OK)
        weft_log(WEFT_LOG_WARN, "%s is away: %s; %s, dialing again", name, why, holds);
    else
        weft_log(WEFT_LOG_INFO, "%s said goodbye; %s", name, holds);
    snprintf(away, sizeof away, "trainer away, %s: %s", holds, why);
    weft_session_event(rollout->session, status == WEFT_OK ? WEFT_EVENT_GOODBYE : WEFT_EVENT_LOST, status,
                       rollout->joining.route.source ? name : "trainer", &current->version, away);
}

/* Reports that this end joins anew, because the fault is here and not the trainer's. The end of a session was reported
 * already. */
static void tell_again(const weft_rollout *rollout, weft_status status, const char *why)
{
    const bool base = status == WEFT_E_BASE;
    if (rollout->session->ended != WEFT_OK)
        return;
    if (base || rollout->arriving.queued)
        weft_log(WEFT_LOG_WARN, "joins again to have version %llu %s: %s",
                 (unsigned long long)(base ? rollout->current.version.number
                                           : rollout->arriving.queue[0].header.target.number),
                 base ? "repaired" : "sent again", why);
    else
        weft_log(WEFT_LOG_WARN, "joins again: %s", why);
}

/* Ends the connection, or the attempt at one; true: it was joined. */
static bool leave(weft_rollout *rollout, weft_status status, const char *text)
{
    uint64_t now_ns = weft_clock_ns(),
             wait_ns = RETRY_MIN_NS << (rollout->joining.retries < 6 ? rollout->joining.retries : 6);
    bool joined = rollout->joining.state == WEFT_JOIN_JOINED;
    const bool silent =
        joined && now_ns > rollout->joining.control.heard_ns + rollout->joining.heartbeat_ms * WEFT_NS_PER_MS;
    if (rollout->relay)
        rollout->hooks->lose(rollout->relay, status, text);
    weft_inlet_close(&rollout->intake, false);
    weft_control_hang_up(&rollout->joining.control);
    if (weft_course_takes_snapshot(&rollout->course) && !rollout->stage.into_image)
        rollout->course.failed = status == WEFT_OK ? WEFT_E_PEER_LOST : status;
    forget_connection(rollout);
    rollout->joining.comparing.asks = false; /* the next trainer may have another layout */
    rollout->joining.comparing.differs[0] = 0;
    rollout->joining.state = WEFT_JOIN_AWAY;
    bool again = !joined && weft_gateway_again(&rollout->joining, &rollout->site, now_ns);
    if (joined) {
        weft_gateway_close(&rollout->joining.route);
        weft_gateway_begin(&rollout->joining.route, rollout->joining.faults, silent);
    }
    if (!joined && !again && weft_gateway_next(&rollout->joining.route)) {
        wait_ns = 0; /* at once to the next that the site names */
    } else {
        rollout->joining.retries += !again;
        if (!joined)
            weft_gateway_renew(rollout);
    }
    rollout->joining.retry_ns = now_ns + (wait_ns < RETRY_MAX_NS ? wait_ns : RETRY_MAX_NS);
    snprintf(rollout->joining.away_text, sizeof rollout->joining.away_text, "%s", text);
    rollout->joining.away_status = status;
    rollout->joining.later = false;
    if (joined) {
        rollout->joining.away_since_ns = rollout->joining.left_ns = now_ns;
        weft_session_changed(rollout->session);
    }
    return joined;
}

/* Reports a shortage of this host when it begins, because it would look as if the trainer were away. */
static void tell_short(const weft_joining *joining, weft_status status, const char *why)
{
    const bool short_here = weft_status_scope(status) == WEFT_SCOPE_SESSION;
    if (short_here && status != joining->away_status && !weft_fail_was_logged())
        weft_log(WEFT_LOG_WARN, "cannot join now: %s; tried again", why);
}

void weft_join_lose(weft_rollout *rollout, weft_status status, const char *why)
{
    char text[192];
    snprintf(text, sizeof text, "%s", why);
    tell_short(&rollout->joining, status, text);
    if (leave(rollout, status, text))
        tell_away(rollout, status, text);
}

/* Drops a version that is proved, as if its commit were undone. */
static void drop_staged(weft_course *course)
{
    if (course->state != WEFT_COURSE_STAGED)
        return;
    weft_course_move(course, WEFT_COURSE_ON_COMMIT);
    weft_course_move(course, WEFT_COURSE_ON_UNDONE);
}

void weft_join_bye(weft_rollout *rollout, const char *why)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_notice notice = {.version = rollout->current.version.number};
    snprintf(notice.text, sizeof notice.text, "%s", why);
    weft_wire_put_notice(&out, &notice);
    if (rollout->joining.state == WEFT_JOIN_JOINED)
        weft_rollout_send(&rollout->joining, WEFT_MESSAGE_BYE, &out);
}

void weft_join_rest(weft_rollout *rollout, const char *why)
{
    drop_staged(&rollout->course);
    weft_join_bye(rollout, why);
    weft_control_flush(&rollout->joining.control); /* what does not go out now is a lost connection to the trainer */
    weft_log(WEFT_LOG_INFO, "leaves the trainer: %s", why);
    leave(rollout, WEFT_OK, why);
}

void weft_join_again(weft_rollout *rollout, const char *why)
{
    drop_staged(&rollout->course);
    weft_log(WEFT_LOG_INFO, "joins source %u again: %s",
             rollout->joining.route.source ? rollout->joining.route.source - 1 : 0, why);
    leave(rollout, WEFT_E_PEER_LOST, why);
}

static void wait_for_ready(weft_rollout *rollout)
{
    const uint64_t now_ns = weft_clock_ns();
    char name[WEFT_SITE_NAME + 8];
    weft_gateway_name(&rollout->joining.route, name);
    if (!rollout->joining.later)
        weft_log(WEFT_LOG_INFO, "%s at %s is not ready yet: waiting for it", name, rollout->joining.control.peer);
    weft_inlet_close(&rollout->intake, false);
    weft_control_hang_up(&rollout->joining.control);
    forget_connection(rollout);
    rollout->joining.state = WEFT_JOIN_AWAY;
    rollout->joining.comparing.differs[0] = 0; /* it may be another trainer by then, or have another layout */
    rollout->joining.later = true;
    rollout->joining.said_goodbye = false;
    rollout->joining.retries = rollout->joining.faults;
    rollout->joining.away_since_ns = rollout->joining.route.since_ns = now_ns;
    rollout->joining.retry_ns = now_ns + LATER_NS;
}

/* Dials the same address again to ask for the trainer's layout, or to go on after that was compared. One that asks
 * again and again is given pauses. */
static void go_on_comparing(weft_rollout *rollout)
{
    const uint32_t turns = rollout->joining.comparing.turns;
    weft_inlet_close(&rollout->intake, false);
    weft_control_hang_up(&rollout->joining.control);
    forget_connection(rollout);
    rollout->joining.state = WEFT_JOIN_AWAY;
    rollout->joining.retry_ns = weft_clock_ns() + (turns > 1 ? RETRY_MIN_NS << (turns < 6 ? turns : 6) : 0);
}

/* Takes the weights as bits without a label, because their fresh digests are not those held. */
static void admit_alien(weft_rollout *rollout, uint64_t root)
{
    const weft_layout *layout = rollout->layout;
    uint64_t *digests = rollout->current.digests;
    char name[WEFT_PART_TEXT];
    weft_part_differs(layout, 0, layout->part_count, rollout->current.fresh, digests, name);
    weft_log(WEFT_LOG_ERROR, "%s: the weights are not those of version %llu; somebody else wrote them", name,
             (unsigned long long)rollout->current.version.number);
    rollout->current.digests = rollout->current.fresh;
    rollout->current.fresh = digests;
    rollout->current.version = (weft_version){0, 0, root};
    rollout->searching.told = true;
}

/* Digests the weights anew, so that the next HELLO tells the truth. The pass is made without the lock: a rebind waits
 * for its end, nothing is staged, and nobody else writes the digests meanwhile. */
static void digest_anew(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    uint64_t root = 0, held = rollout->current.version.root;
    rollout->current.digesting = true;
    pthread_mutex_unlock(&session->lock);
    weft_status status =
        weft_session_digest(&rollout->stage.window, &rollout->current.weights, rollout->current.fresh, &root);
    pthread_mutex_lock(&session->lock);
    rollout->current.digesting = rollout->current.doubt = false;
    rollout->current.known = status == WEFT_OK;
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
                               .version = rollout->arriving.queued ? rollout->arriving.queue[0].header.target.number
                                          : status == WEFT_E_BASE  ? rollout->current.version.number
                                                                   : 0};
    snprintf(notice.text, sizeof notice.text, "%s", weft_last_error());
    weft_wire_put_notice(&out, &notice);
    if (weft_rollout_send(&rollout->joining, WEFT_MESSAGE_FAULT, &out) == WEFT_OK)
        weft_control_flush(&rollout->joining.control);
    rollout->joining.faults++;
    rollout->joining.retries = rollout->joining.faults;
    weft_version version = {rollout->joining.welcome.run, notice.version, 0};
    weft_session_event(rollout->session, WEFT_EVENT_RESYNC, status, rollout->site.name, &version, notice.text);
    rollout->current.doubt = rollout->current.doubt || (doubt && rollout->current.known);
    tell_again(rollout, status, notice.text);
    leave(rollout, status, notice.text);
}

/* ---- greet */

static weft_status knock(weft_intake *intake, weft_joining *joining)
{
    joining->state = WEFT_JOIN_KNOCKING;
    intake->moved_ns = weft_clock_ns();
    return weft_greeting_ask(&joining->control);
}

static weft_status keep_alive(weft_joining *joining, uint64_t now_ns, weft_waits *waits)
{
    uint64_t silence_ns = joining->heartbeat_ms * WEFT_NS_PER_MS, every_ns = silence_ns / 4;
    if (now_ns > joining->control.heard_ns + silence_ns) {
        char name[WEFT_SITE_NAME + 8];
        weft_gateway_name(&joining->route, name);
        return weft_fail_quiet(WEFT_E_PEER_LOST, "%s is silent for %llu ms", name,
                               (unsigned long long)((now_ns - joining->control.heard_ns) / WEFT_NS_PER_MS));
    }
    weft_waits_until(waits, joining->control.heard_ns + silence_ns + WEFT_NS_PER_MS);
    weft_waits_until(waits, joining->pinged_ns + every_ns);
    if (now_ns < joining->pinged_ns + every_ns)
        return WEFT_OK;
    uint8_t body[8];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_word(&out, now_ns);
    joining->pinged_ns = now_ns;
    return weft_rollout_send(joining, WEFT_MESSAGE_PING, &out);
}

static weft_status step_dialing(weft_rollout *rollout, weft_waits *waits)
{
    uint64_t io_ms =
        weft_gateway_patience_ms(&rollout->joining, &rollout->site, rollout->session->site->session.io_deadline_ms);
    weft_status status = weft_control_flush(&rollout->joining.control);
    if (status == WEFT_E_CONFIG)
        return weft_dispatch_unproved(&rollout->joining);
    if (status == WEFT_OK && !rollout->joining.control.connecting)
        return knock(&rollout->intake, &rollout->joining);
    if (status == WEFT_OK && weft_clock_ns() > rollout->joining.dialed_ns + io_ms * WEFT_NS_PER_MS)
        status = weft_fail_quiet(WEFT_E_UNREACHABLE, "%s does not answer", rollout->joining.control.peer);
    weft_waits_until(waits, rollout->joining.dialed_ns + (io_ms + 1) * WEFT_NS_PER_MS);
    return status;
}

/* Carries out what a message of the trainer has decided about the connection. */
static void carry_out(weft_rollout *rollout)
{
    const weft_connection_verdict verdict = rollout->joining.verdict;
    rollout->joining.verdict = WEFT_VERDICT_NONE;
    if (verdict == WEFT_VERDICT_LATER)
        wait_for_ready(rollout);
    if (verdict == WEFT_VERDICT_COMPARE)
        go_on_comparing(rollout);
    if (verdict == WEFT_VERDICT_GOODBYE)
        weft_join_lose(rollout, WEFT_OK, "goodbye");
    if (verdict != WEFT_VERDICT_REFUSED)
        return;
    weft_join_lose(rollout, rollout->joining.refusal, rollout->joining.refusal_text);
    rollout->joining.state = WEFT_JOIN_REFUSED;
    weft_session_changed(rollout->session);
}

static weft_status step_connected(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    weft_status status = rollout->joining.state == WEFT_JOIN_DIALING ? step_dialing(rollout, waits) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_dispatch_step(rollout);
    if (status == WEFT_OK)
        carry_out(rollout);
    if (status == WEFT_OK && rollout->joining.state == WEFT_JOIN_JOINED)
        status = keep_alive(&rollout->joining, now_ns, waits);
    const bool asks = rollout->joining.state == WEFT_JOIN_ASKING;
    const uint64_t greet_ms = asks ? LAYOUT_MS : weft_gateway_patience_ms(&rollout->joining, &rollout->site, GREET_MS);
    const uint64_t greet_ns = greet_ms * WEFT_NS_PER_MS; /* of the state it is in now */
    const bool waits_for_answer =
        asks || rollout->joining.state == WEFT_JOIN_KNOCKING || rollout->joining.state == WEFT_JOIN_GREETING;
    if (status == WEFT_OK && waits_for_answer && now_ns > rollout->intake.moved_ns + greet_ns)
        status = weft_fail_quiet(WEFT_E_PEER_LOST, "%s did not answer HELLO", rollout->joining.control.peer);
    if (status == WEFT_OK && waits_for_answer)
        weft_waits_until(waits, rollout->intake.moved_ns + greet_ns + WEFT_NS_PER_MS);
    return status;
}

/* A scrub or a commit found other weights since they were digested for this join, and HELLO says what they were. */
static void check_doubt(weft_rollout *rollout)
{
    const weft_join state = rollout->joining.state;
    if (rollout->current.doubt && state > WEFT_JOIN_AWAY && state < WEFT_JOIN_JOINED)
        weft_join_lose(rollout, WEFT_E_PEER_LOST, "the weights changed while they were told of");
}

void weft_join_step(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    weft_status status = WEFT_OK;
    if (rollout->joining.state == WEFT_JOIN_REFUSED)
        return;
    check_doubt(rollout);
    if (rollout->joining.state == WEFT_JOIN_AWAY) {
        if (weft_course_is_proved(&rollout->course))
            return; /* what is staged is committed first: then HELLO can say so */
        if (rollout->joining.comparing.told)
            return; /* the joint takes that order first */
        if (rollout->current.doubt)
            digest_anew(rollout);
        if (rollout->session->ended != WEFT_OK)
            return;
        weft_waits_until(waits, rollout->joining.retry_ns);
        if (now_ns < rollout->joining.retry_ns)
            return;
        uint64_t io_ms = rollout->session->site->session.io_deadline_ms;
        status = weft_links_reach(rollout, rollout->joining.route.at);
        if (status == WEFT_OK && !rollout->joining.route.gateways[rollout->joining.route.at].address[0])
            status = weft_fail_quiet(WEFT_E_UNREACHABLE, "nobody knows the name of its host");
        if (status == WEFT_OK)
            status = weft_control_dial(&rollout->joining.control,
                                       rollout->joining.route.gateways[rollout->joining.route.at].address, io_ms);
        if (status == WEFT_OK) {
            weft_control_guard(&rollout->joining.control, rollout->session->guard,
                               weft_gateway_owner(&rollout->joining.route));
            rollout->joining.state = WEFT_JOIN_DIALING;
        }
        rollout->joining.dialed_ns = now_ns;
        if (rollout->joining.route.since_ns == 0)
            rollout->joining.route.since_ns = now_ns;
    }
    if (status == WEFT_OK)
        status = step_connected(rollout, now_ns, waits);
    weft_rollout_end(rollout, status);
    if (status != WEFT_OK && rollout->joining.state == WEFT_JOIN_JOINED && weft_status_scope(status) != WEFT_SCOPE_PEER)
        weft_join_fault(rollout, status, status == WEFT_E_BASE);
    else if (status != WEFT_OK)
        weft_join_lose(rollout, status, weft_last_error());
    if (rollout->joining.state == WEFT_JOIN_AWAY) /* else a dial that is due at once waits for the next look around */
        weft_waits_until(waits, rollout->joining.retry_ns);
}

/* join_leave.c - the end of the rollout's connection: it is lost, one end leaves in good order, or a fault is reported.
 *
 * weft_join_lose ends the connection because of the other end: ports close first, because a closed port is what stops
 * writes that are landing. All that came by the connection is forgotten, except a version that is proved: the caller
 * may still commit that one, and the next HELLO says so.
 *
 * weft_join_fault ends it because of this end: a version could not be made from what came, or the weights are not what
 * was held. FAULT tells the trainer so. If the weights are in doubt, they are digested anew without the lock, and the
 * next HELLO tells what they really are. After three faults in a row HELLO claims to hold nothing, so that the trainer
 * offers a snapshot. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"

#define RETRY_MIN_NS (20 * WEFT_NS_PER_MS)
#define RETRY_MAX_NS (1000 * WEFT_NS_PER_MS)
#define LATER_NS     (250 * WEFT_NS_PER_MS) /* until one that is not ready is dialed again */

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
    rollout->wishing.offers = false;
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

void weft_join_bye(weft_rollout *rollout, const char *why)
{
    weft_wire_notice notice = {.version = rollout->current.version.number};
    snprintf(notice.text, sizeof notice.text, "%s", why);
    if (rollout->joining.state == WEFT_JOIN_JOINED)
        weft_control_notice(&rollout->joining.control, WEFT_MESSAGE_BYE, &notice);
}

void weft_join_rest(weft_rollout *rollout, const char *why)
{
    weft_stage_give_up(rollout);
    rollout->arriving.given_up.run = 0; /* the caller's own doing */
    weft_join_bye(rollout, why);
    weft_control_flush(&rollout->joining.control); /* what does not go out now is a lost connection to the trainer */
    weft_log(WEFT_LOG_INFO, "leaves the trainer: %s", why);
    leave(rollout, WEFT_OK, why);
}

void weft_join_again(weft_rollout *rollout, const char *why)
{
    weft_stage_give_up(rollout);
    weft_log(WEFT_LOG_INFO, "joins source %u again: %s",
             rollout->joining.route.source ? rollout->joining.route.source - 1 : 0, why);
    leave(rollout, WEFT_E_PEER_LOST, why);
}

/* Ends an attempt of which nobody is to blame, and dials the same address again after `wait_ns`. */
static void dial_again(weft_rollout *rollout, uint64_t wait_ns)
{
    weft_inlet_close(&rollout->intake, false);
    weft_control_hang_up(&rollout->joining.control);
    forget_connection(rollout);
    rollout->joining.state = WEFT_JOIN_AWAY;
    rollout->joining.retry_ns = weft_clock_ns() + wait_ns;
}

void weft_join_later(weft_rollout *rollout)
{
    const uint64_t now_ns = weft_clock_ns();
    char name[WEFT_SITE_NAME + 8];
    weft_gateway_name(&rollout->joining.route, name);
    if (!rollout->joining.later)
        weft_log(WEFT_LOG_INFO, "%s at %s is not ready yet: waiting for it", name, rollout->joining.control.peer);
    dial_again(rollout, LATER_NS);
    rollout->joining.comparing.differs[0] = 0; /* it may be another trainer by then, or have another layout */
    rollout->joining.later = true;
    rollout->joining.said_goodbye = false;
    rollout->joining.retries = rollout->joining.faults;
    rollout->joining.away_since_ns = rollout->joining.route.since_ns = now_ns;
}

void weft_join_compare(weft_rollout *rollout)
{
    const uint32_t turns = rollout->joining.comparing.turns;
    dial_again(rollout, turns > 1 ? RETRY_MIN_NS << (turns < 6 ? turns : 6) : 0);
}

void weft_join_anew(weft_rollout *rollout)
{
    dial_again(rollout, 0);
}

void weft_join_fault(weft_rollout *rollout, weft_status status, bool doubt)
{
    weft_wire_notice notice = {.status = status,
                               .version = rollout->arriving.queued ? rollout->arriving.queue[0].header.target.number
                                          : status == WEFT_E_BASE  ? rollout->current.version.number
                                                                   : 0};
    snprintf(notice.text, sizeof notice.text, "%s", weft_last_error());
    if (weft_control_notice(&rollout->joining.control, WEFT_MESSAGE_FAULT, &notice) == WEFT_OK)
        weft_control_flush(&rollout->joining.control);
    rollout->joining.faults++;
    rollout->joining.retries = rollout->joining.faults;
    weft_version version = {rollout->joining.welcome.run, notice.version, 0};
    weft_session_event(rollout->session, WEFT_EVENT_RESYNC, status, rollout->site.name, &version, notice.text);
    rollout->current.doubt = rollout->current.doubt || (doubt && rollout->current.known);
    tell_again(rollout, status, notice.text);
    leave(rollout, status, notice.text);
}

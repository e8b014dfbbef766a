/* join.c - the rollout's connection: dial, greet, keep alive, lose, come back.
 *
 * A rollout dials the addresses of its site in turn (gateway.c): its relays in order, then the trainer. Each gets a
 * time to answer, and a relay gets less of it than the trainer, because the next relay can serve as well. After each
 * round of failures the pause before the next round doubles, up to a second. Names are looked up again after a round,
 * because a host may have come back with another address.
 *
 * Joined, both ends ping four times a heartbeat, and silence for a heartbeat ends the connection (join_leave.c).
 *
 * HELLO says what is held and what is staged, so that both are true until WELCOME. While weights are moved nothing is
 * dialed, and a commit between HELLO and WELCOME has the rollout dial anew. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"
#include "session/await.h"
#include "wire/greeting.h"

#define GREET_MS  10000
#define LAYOUT_MS 60000 /* for a layout, which may be long */

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

/* ---- doubt */

/* Digests the weights anew, so that the next HELLO tells the truth. The pass is made without the lock: a rebind waits
 * for its end, nothing is staged, and nobody else writes the digests meanwhile. */
static void digest_anew(weft_rollout *rollout)
{
    weft_session *session = rollout->session;
    uint64_t root = 0, held = rollout->current.version.root;
    char name[WEFT_PART_TEXT];
    rollout->current.digesting = true;
    pthread_mutex_unlock(&session->lock);
    weft_status status =
        weft_session_digest(&rollout->stage.window, &rollout->current.weights, rollout->current.fresh, &root);
    pthread_mutex_lock(&session->lock);
    rollout->current.digesting = rollout->current.doubt = false;
    rollout->current.known = status == WEFT_OK;
    if (status == WEFT_OK && root != held) {
        const weft_current *current = &rollout->current;
        weft_part_differs(rollout->layout, 0, rollout->layout->part_count, current->fresh, current->digests, name);
        weft_log(WEFT_LOG_ERROR, "%s: the weights are not those of version %llu; somebody else wrote them", name,
                 (unsigned long long)current->version.number);
        weft_rollout_admit(rollout, root);
    }
    weft_rollout_end(rollout, status);
    weft_session_changed(session);
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
    joining->pinged_ns = now_ns;
    return weft_control_word(&joining->control, WEFT_MESSAGE_PING, now_ns);
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
        weft_join_later(rollout);
    if (verdict == WEFT_VERDICT_COMPARE)
        weft_join_compare(rollout);
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
        status = weft_dispatch_step(rollout, waits);
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

/* Ends an attempt whose HELLO is not true any more, or would not be: a scrub or a commit found other weights since they
 * were digested, or what is staged is being committed, or was. */
static void check_told(weft_rollout *rollout)
{
    const weft_course_state course = rollout->course.state;
    const weft_join state = rollout->joining.state;
    const bool told = state == WEFT_JOIN_GREETING && rollout->joining.said_staged != (course == WEFT_COURSE_STAGED);
    if (state <= WEFT_JOIN_AWAY || state >= WEFT_JOIN_JOINED)
        return;
    if (rollout->current.doubt)
        weft_join_lose(rollout, WEFT_E_PEER_LOST, "the weights changed while they were told of");
    else if (course == WEFT_COURSE_COMMITTING || told)
        weft_join_anew(rollout);
}

/* Returns true if nothing may be dialed now, because a commit writes the weights, or the joint takes another order
 * first. A snapshot that is staged in the weights is committed by the call that received it. What is staged is given up
 * for another order, and for weights that are not what it leads on from. */
static bool must_wait(weft_rollout *rollout)
{
    const bool reorders = rollout->joining.comparing.told != NULL;
    const bool in_place = rollout->course.state == WEFT_COURSE_STAGED && rollout->arriving.queue[0].header.snapshot &&
                          !rollout->stage.into_image;
    if (rollout->course.state == WEFT_COURSE_COMMITTING || in_place)
        return true;
    if (reorders || rollout->current.doubt)
        weft_stage_give_up(rollout);
    return reorders;
}

/* Dials the gateway at hand. */
static weft_status dial(weft_rollout *rollout, uint64_t now_ns)
{
    weft_joining *joining = &rollout->joining;
    const weft_gateway *gateway = &joining->route.gateways[joining->route.at];
    weft_status status = weft_links_reach(rollout, joining->route.at);
    if (status == WEFT_OK && !gateway->address[0])
        status = weft_fail_quiet(WEFT_E_UNREACHABLE, "nobody knows the name of its host");
    if (status == WEFT_OK)
        status = weft_control_dial(&joining->control, gateway->address, rollout->session->site->session.io_deadline_ms);
    if (status == WEFT_OK) {
        weft_control_guard(&joining->control, rollout->session->guard, weft_gateway_owner(&joining->route));
        joining->state = WEFT_JOIN_DIALING;
    }
    joining->dialed_ns = now_ns;
    if (joining->route.since_ns == 0)
        joining->route.since_ns = now_ns;
    return status;
}

void weft_join_step(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    weft_status status = WEFT_OK;
    if (rollout->joining.state == WEFT_JOIN_REFUSED)
        return;
    check_told(rollout);
    if (rollout->joining.state == WEFT_JOIN_AWAY) {
        if (must_wait(rollout))
            return;
        if (rollout->current.doubt)
            digest_anew(rollout);
        if (rollout->session->ended != WEFT_OK)
            return;
        weft_waits_until(waits, rollout->joining.retry_ns);
        if (now_ns < rollout->joining.retry_ns)
            return;
        status = dial(rollout, now_ns);
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

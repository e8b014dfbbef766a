/* wishing.c - WANT, and what the trainer says of it. */
#include "rollout/wishing.h"

#include "base/status.h"
#include "rollout/rollout.h"

static weft_status send_want(weft_rollout *rollout)
{
    if (!rollout->wishing.open || rollout->joining.state != WEFT_JOIN_JOINED)
        return WEFT_OK;
    return weft_control_word(&rollout->joining.control, WEFT_MESSAGE_WANT, rollout->wishing.number);
}

static weft_status check_named(const weft_wishing *wishing, const char *call)
{
    return wishing->named
               ? WEFT_OK
               : weft_fail(WEFT_E_STATE, "%s: this session takes each version; open it with weft_options.wants", call);
}

weft_status weft_wishing_want(weft_rollout *rollout, uint64_t number)
{
    weft_status status = check_named(&rollout->wishing, "weft_want");
    if (status != WEFT_OK)
        return status;
    rollout->wishing.number = number;
    rollout->wishing.open = true;
    rollout->wishing.passed.reason = (weft_wire_pass)0;
    send_want(rollout); /* a connection that fails is found by the next step, and the next one says it again */
    weft_session_wake(rollout->session);
    return WEFT_OK;
}

weft_status weft_wishing_offered(weft_rollout *rollout, uint64_t after, uint32_t deadline_ms, uint64_t *number)
{
    const weft_wishing *wishing = &rollout->wishing;
    const uint64_t deadline_ns = weft_clock_ns() + deadline_ms * WEFT_NS_PER_MS;
    weft_status status = check_named(wishing, "weft_offered");
    while (status == WEFT_OK && (!wishing->offers || (after != UINT64_MAX && wishing->offered <= after))) {
        status = weft_rollout_check_end(rollout);
        if (status == WEFT_OK && weft_session_interrupted(rollout->session))
            status = weft_fail_quiet(WEFT_E_TIMEOUT, "interrupted");
        if (status == WEFT_OK && !weft_session_wait(rollout->session, deadline_ns)) {
            status = weft_rollout_check_trainer(rollout);
            return status == WEFT_OK ? WEFT_AGAIN : status;
        }
    }
    if (status == WEFT_OK)
        *number = wishing->offered;
    return status;
}

weft_status weft_wishing_check(weft_wishing *wishing)
{
    const weft_wire_passed passed = wishing->passed;
    if (passed.reason == 0)
        return WEFT_OK;
    wishing->passed.reason = (weft_wire_pass)0;
    return weft_fail_quiet(WEFT_E_PASSED,
                           "version %llu cannot be had: %s; near are version %llu below and %llu above (0: none)",
                           (unsigned long long)passed.number, weft_wire_pass_text(passed.reason),
                           (unsigned long long)passed.below, (unsigned long long)passed.above);
}

weft_status weft_wishing_begin(weft_rollout *rollout, uint64_t newest)
{
    weft_wishing *wishing = &rollout->wishing;
    wishing->offers = true;
    wishing->offered = newest;
    return send_want(rollout);
}

weft_status weft_wishing_take_offered(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    weft_wishing *wishing = &rollout->wishing;
    uint64_t number;
    weft_status status = weft_wire_get_word(body, length, &number);
    if (status == WEFT_OK && !wishing->named)
        status = weft_fail(WEFT_E_PROTOCOL, "OFFERED, to a rollout that takes each version");
    if (status != WEFT_OK)
        return status;
    wishing->offered = number;
    weft_session_changed(rollout->session);
    return WEFT_OK;
}

/* A wish that was named since is not meant. */
weft_status weft_wishing_take_passed(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    weft_wishing *wishing = &rollout->wishing;
    weft_wire_passed passed;
    weft_status status = weft_wire_get_passed(body, length, &passed);
    if (status == WEFT_OK && !wishing->named)
        status = weft_fail(WEFT_E_PROTOCOL, "PASSED, to a rollout that takes each version");
    if (status != WEFT_OK || !wishing->open || wishing->number != passed.number)
        return status;
    wishing->open = false;
    wishing->passed = passed;
    weft_session_changed(rollout->session);
    return WEFT_OK;
}

void weft_wishing_settle(weft_wishing *wishing, uint64_t held)
{
    wishing->open = wishing->open && wishing->number > held;
}

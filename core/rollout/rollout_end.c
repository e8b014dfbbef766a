/* rollout_end.c - the end of a session whose device failed, or that lacks the memory to go on. */
#include <stdio.h>

#include "base/status.h"
#include "rollout/rollout.h"

weft_status weft_rollout_ended(weft_session *session)
{
    return weft_fail_quiet(session->ended, "%s", session->ended_text);
}

/* Ends the session because of the last error, and says what the weights are. */
static void end(weft_rollout *rollout, weft_status status, const char *what)
{
    weft_session *session = rollout->session;
    char weights[64] = "are those of no version";
    if (rollout->current.known)
        snprintf(weights, sizeof weights, "were not touched: they are those of version %llu",
                 (unsigned long long)rollout->current.version.number);
    snprintf(session->ended_text, sizeof session->ended_text, "%s: %.160s; the weights %s; close the session", what,
             weft_last_error(), weights);
    session->ended = status;
    weft_log(WEFT_LOG_ERROR, "%s", session->ended_text);
    weft_session_changed(session);
}

void weft_rollout_end(weft_rollout *rollout, weft_status status)
{
    if (status == WEFT_E_DEVICE && rollout->session->ended == WEFT_OK)
        end(rollout, status, "the device failed");
}

void weft_rollout_end_unlaid(weft_rollout *rollout, weft_status status)
{
    end(rollout, status, "the trainer's order of tensors cannot be taken");
}

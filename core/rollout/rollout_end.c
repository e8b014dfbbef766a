/* rollout_end.c - the end of a session whose device failed. */
#include <stdio.h>

#include "base/status.h"
#include "rollout/rollout.h"

weft_status weft_rollout_ended(weft_session *session)
{
    return weft_fail_quiet(session->ended, "%s", session->ended_text);
}

void weft_rollout_end(weft_rollout *rollout, weft_status status)
{
    weft_session *session = rollout->session;
    if (status != WEFT_E_DEVICE || session->ended != WEFT_OK)
        return;
    char weights[64] = "are those of no version";
    if (rollout->current.known)
        snprintf(weights, sizeof weights, "were not touched: they are those of version %llu",
                 (unsigned long long)rollout->current.version.number);
    snprintf(session->ended_text, sizeof session->ended_text,
             "the device failed: %.160s; the weights %s; close the session", weft_last_error(), weights);
    session->ended = status;
    weft_log(WEFT_LOG_ERROR, "%s", session->ended_text);
    weft_session_changed(session);
}

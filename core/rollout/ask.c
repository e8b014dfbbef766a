/* ask.c - asks the trainer for a snapshot or a repair, which UPDATE or OFFER answers. */
#include "base/status.h"
#include "rollout/rollout.h"

weft_status weft_ask_offered(weft_rollout *rollout)
{
    rollout->offered = true;
    weft_session_changed(rollout->session);
    if (!rollout->into_image)
        return WEFT_OK;
    rollout->snapshot_runs = true;
    return weft_ask_send(rollout, WEFT_MESSAGE_ACCEPT, NULL);
}

weft_status weft_ask_send(weft_rollout *rollout, weft_message type, const weft_out *body)
{
    rollout->asked = true;
    rollout->moved_ns = weft_clock_ns();
    return weft_rollout_send(rollout, type, body);
}

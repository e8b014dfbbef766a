/* ask.c - asks the trainer for a snapshot or a repair, which UPDATE or OFFER answers. */
#include "base/status.h"
#include "rollout/rollout.h"

weft_status weft_ask_offered(weft_rollout *rollout)
{
    weft_status status = weft_course_move(&rollout->course, WEFT_COURSE_ON_PUT);
    weft_session_changed(rollout->session);
    if (status != WEFT_OK || !rollout->stage.into_image)
        return status;
    return weft_ask_send(rollout, WEFT_COURSE_ON_ACCEPT, WEFT_MESSAGE_ACCEPT, NULL);
}

weft_status weft_ask_send(weft_rollout *rollout, weft_course_event event, weft_message type, const weft_out *body)
{
    weft_status status = weft_course_move(&rollout->course, event);
    rollout->intake.moved_ns = weft_clock_ns();
    return status == WEFT_OK ? weft_rollout_send(&rollout->joining, type, body) : status;
}

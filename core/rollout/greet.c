/* greet.c - HELLO: opens the inlets of a new connection, and says what this rollout has and holds. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"

weft_status weft_greet_hello(weft_rollout *rollout)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_hello hello = {.nonce = rollout->joining.control.nonce,
                             .incarnation = rollout->session->incarnation,
                             .slot_stride = rollout->intake.slots.stride,
                             .slot_payload = rollout->intake.slots.payload,
                             .slots = rollout->intake.slots.count,
                             .chunk_bytes = (uint32_t)rollout->intake.facts.chunk_bytes,
                             .levels = (1u << WEFT_LEVEL_COUNT) - 1,
                             .staging_bytes = rollout->stage.staging.bytes,
                             .encoded_bytes = rollout->arriving.kept.capacity,
                             .keys = rollout->division->excerpt.keys,
                             .named = rollout->wishing.named};
    const bool stages = rollout->course.state == WEFT_COURSE_STAGED;
    weft_receive_reset(&rollout->arriving, &rollout->intake);
    rollout->arriving.queued = stages;
    rollout->intake.epoch = (rollout->intake.epoch + 1) & 0xffu;
    weft_status status = weft_inlet_open(rollout, &hello);
    if (status != WEFT_OK)
        return status;
    snprintf(hello.name, sizeof hello.name, "%s", rollout->site.name);
    snprintf(hello.provider, sizeof hello.provider, "%s", rollout->intake.provider->name);
    hello.fabric = rollout->intake.facts.version;
    snprintf(hello.backend, sizeof hello.backend, "%s", rollout->session->backend_name);
    memcpy(hello.layout, rollout->layout->hash, sizeof hello.layout);
    hello.epoch = rollout->intake.epoch;
    hello.holds = weft_rollout_trusts(&rollout->current, &rollout->joining);
    hello.held = rollout->current.version;
    hello.attachment = rollout->current.attachment ? rollout->current.attachment->hash : 0;
    if (stages) {
        const weft_blob *fresh = rollout->arriving.attachment;
        hello.stages = true;
        hello.staged = rollout->arriving.queue[0].trailer.target;
        hello.staged_attachment = fresh ? fresh->hash : hello.attachment;
    }
    rollout->joining.said_staged = stages;
    snprintf(hello.differs, sizeof hello.differs, "%s", rollout->joining.comparing.differs);
    weft_wire_put_hello(&out, &hello);
    rollout->joining.state = WEFT_JOIN_GREETING;
    rollout->intake.moved_ns = weft_clock_ns();
    return out.bad ? weft_fail(WEFT_E_CONFIG, "HELLO does not fit a message")
                   : weft_rollout_send(&rollout->joining, WEFT_MESSAGE_HELLO, &out);
}

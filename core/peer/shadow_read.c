/* shadow_read.c - copies units out of the shadow, for snapshots and for rebuilding. */
#include "peer/peer.h"

typedef struct reading {
    const weft_shadow *shadow;
    bool framed;
    uint8_t *to;
} reading;

static void read_fill(void *user, uint64_t unit, weft_job *job)
{
    reading *r = user;
    weft_view view = weft_binding_view(&r->shadow->binding, unit);
    const uint64_t dense = (uint64_t)view.count * view.width;
    uint8_t *to = r->to + (r->framed ? WEFT_FRAME_HEADER_BYTES : 0);
    r->to = to + (r->framed ? weft_frame_pad(dense) : dense);
    job->load = (weft_load_job){.view = view, .bytes = to};
}

weft_status weft_shadow_read(weft_shadow *shadow, weft_pipeline *window, uint64_t unit, uint64_t units, bool framed,
                             uint8_t *to)
{
    reading r = {shadow, framed, to};
    const weft_chore chore = {WEFT_JOB_LOAD, read_fill, NULL, &r};
    weft_status status = weft_pipeline_run(window, &chore, unit, unit + units);
    shadow->lost = shadow->lost || status == WEFT_E_DEVICE;
    return status;
}

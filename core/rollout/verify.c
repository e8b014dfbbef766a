/* verify.c - compares the bound weights with the digests of what is held: names the tile that somebody else wrote. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "layout/part.h"
#include "rollout/rollout.h"

/* Digests one unit afresh; `name` is empty when it is what is held. */
static weft_status compare(weft_rollout *rollout, uint64_t unit, char name[WEFT_PART_TEXT])
{
    weft_session *session = rollout->session;
    uint64_t first = weft_part_of_unit(rollout->layout, unit), count = rollout->layout->units[unit].tensor_count;
    weft_digest_job job = {.view = weft_binding_view(&rollout->current.weights, unit),
                           .tensor_delta = rollout->current.fresh};
    memset(rollout->current.fresh + first, 0, count * sizeof *rollout->current.fresh);
    weft_status status =
        weft_backend_wait(session->backend, session->device, session->backend->digest(session->device, &job), &job);
    name[0] = 0;
    if (status == WEFT_OK)
        weft_part_differs(rollout->layout, first, count, rollout->current.fresh, rollout->current.digests, name);
    return status;
}

static weft_status alien(const weft_arriving *arriving, const weft_current *current, const char *name)
{
    return weft_fail(
        WEFT_E_BASE, "version %llu: %s: the weights are not those of version %llu; somebody else wrote them",
        (unsigned long long)arriving->queue[0].header.target.number, name, (unsigned long long)current->version.number);
}

weft_status weft_verify_step(weft_rollout *rollout)
{
    char name[WEFT_PART_TEXT];
    weft_status status = compare(rollout, rollout->arriving.book.verified++, name);
    if (status != WEFT_OK || !name[0])
        return status;
    return alien(&rollout->arriving, &rollout->current, name);
}

/* The first unit of several that is not what is held; `name` is empty when all are. */
static weft_status compare_units(weft_rollout *rollout, uint64_t unit, uint64_t units, char name[WEFT_PART_TEXT])
{
    weft_status status = WEFT_OK;
    name[0] = 0;
    for (uint64_t u = unit; u < unit + units && status == WEFT_OK && !name[0]; u++)
        status = compare(rollout, u, name);
    return status;
}

weft_status weft_verify_frame(weft_rollout *rollout, const weft_frame_header *frame, weft_status why)
{
    const weft_layout *layout = rollout->layout;
    uint64_t last = (uint64_t)frame->unit + frame->units - 1;
    char name[WEFT_PART_TEXT], text[128];
    snprintf(text, sizeof text, "%s", weft_last_error());
    weft_status status = compare_units(rollout, frame->unit, frame->units, name);
    if (status != WEFT_OK)
        return status;
    if (name[0])
        return alien(&rollout->arriving, &rollout->current, name);
    weft_part_name_range(layout, weft_part_of_unit(layout, frame->unit),
                         weft_part_of_unit(layout, last) + layout->units[last].tensor_count - 1, name);
    return weft_fail(why, "version %llu: %s: %s", (unsigned long long)rollout->arriving.queue[0].header.target.number,
                     name, text);
}

void weft_verify_name(weft_rollout *rollout, uint64_t unit, uint64_t units, char name[WEFT_PART_TEXT])
{
    if (compare_units(rollout, unit, units, name) != WEFT_OK || !name[0]) /* it changed back meanwhile */
        weft_part_name(rollout->layout, weft_part_of_unit(rollout->layout, unit), name);
}

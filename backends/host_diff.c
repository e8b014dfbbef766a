/* host_diff.c - the differences of two views of one unit, whose runs may be cut differently. */
#include "backends/host_state.h"

/* Compares `count` elements from `position` on and appends what differs. */
static void stretch_diff(const weft_host_kernels *kernels, unsigned slot, const weft_run *now, const weft_run *shadow,
                         uint32_t position, uint32_t count, weft_changes *changes, uint64_t *tensor_delta)
{
    const uint64_t width = UINT64_C(1) << slot;
    uint32_t *places = changes->position + changes->count;
    uint8_t *before = (uint8_t *)changes->before + changes->count * width;
    uint8_t *after = (uint8_t *)changes->after + changes->count * width;
    uint32_t found = kernels->diff[slot](now->data + (position - now->position) * width,
                                         shadow->data + (position - shadow->position) * width, count, position, places,
                                         before, after);
    tensor_delta[shadow->tensor] += kernels->delta[slot](places, weft_host_origin(shadow), before, after, found);
    changes->count += found;
}

static uint32_t run_limit(const weft_run *run)
{
    return run->position + run->count;
}

void weft_host_diff(const weft_host_kernels *kernels, const weft_view *now, const weft_view *shadow,
                    weft_changes *changes, uint64_t *tensor_delta)
{
    const weft_run *a = now->runs, *b = shadow->runs;
    changes->unit = now->unit;
    changes->count = 0;
    for (uint32_t position = 0; position < now->count;) {
        uint32_t end = run_limit(a) < run_limit(b) ? run_limit(a) : run_limit(b);
        stretch_diff(kernels, weft_host_slot(now->width), a, b, position, end - position, changes, tensor_delta);
        a += run_limit(a) == end;
        b += run_limit(b) == end;
        position = end;
    }
}

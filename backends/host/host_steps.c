/* host_steps.c - full frames of steps: a word for each element of a unit, the difference of its place before and after,
 * modulo 2^(8w). 0 is no change. */
#include "backends/host/host_boxes.h"
#include "backends/host/host_element.h"
#include "backends/host/host_state.h"

/* ---- written from a list, whose gaps are zeros */

WEFT_ALWAYS_INLINE void steps_put(const weft_changes *changes, bool is_float, uint8_t *words, unsigned width)
{
    const uint8_t *before = changes->before, *after = changes->after;
    for (uint32_t i = 0; i < changes->count; i++)
        weft_element_put(
            words, changes->position[i],
            weft_element_steps(weft_element_get(before, i, width), weft_element_get(after, i, width), width, is_float),
            width);
}

void weft_host_steps_write(const weft_changes *changes, uint8_t width, bool is_float, uint8_t *payload, uint64_t bytes)
{
    memset(payload, 0, bytes);
    switch (width) {
    case 1:
        steps_put(changes, is_float, payload, 1);
        return;
    case 2:
        steps_put(changes, is_float, payload, 2);
        return;
    case 4:
        steps_put(changes, is_float, payload, 4);
        return;
    default:
        steps_put(changes, is_float, payload, 8);
    }
}

/* ---- read against a base */

/* Lists what the steps of a fragment change. The list has room for every element, so that each is written where the
 * next change goes, and counted if the element changes. */
WEFT_ALWAYS_INLINE uint32_t steps_take(const weft_host_reader *weights, const uint8_t *words, weft_changes *changes,
                                       bool is_float, unsigned width)
{
    const uint32_t first = weights->begin, count = weights->end - weights->begin;
    uint32_t kept = changes->count;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t steps = weft_element_get(words, first + i, width);
        const uint64_t bits = weft_element_get(weights->data, i, width);
        const uint64_t place = weft_element_order(bits, width, is_float) + steps;
        changes->position[kept] = first + i;
        weft_element_put(changes->before, kept, bits, width);
        weft_element_put(changes->after, kept, weft_element_order(place & weft_element_mask(width), width, is_float),
                         width);
        kept += steps != 0;
    }
    return kept;
}

void weft_host_steps_read(const weft_host_kernels *kernels, const uint8_t *payload, const weft_view *base,
                          uint8_t *tile, weft_changes *changes)
{
    weft_host_reader weights = weft_host_reader_of(kernels, base, tile);
    changes->count = 0;
    while (weft_host_reader_next(&weights)) {
        switch (base->width) {
        case 1:
            changes->count = steps_take(&weights, payload, changes, base->is_float, 1);
            break;
        case 2:
            changes->count = steps_take(&weights, payload, changes, base->is_float, 2);
            break;
        case 4:
            changes->count = steps_take(&weights, payload, changes, base->is_float, 4);
            break;
        default:
            changes->count = steps_take(&weights, payload, changes, base->is_float, 8);
        }
    }
}

/* host_spots.c - single elements of boxes: the addresses of some are found and asked for, then the elements are moved.
 */
#include "backends/host/host_ahead.h"
#include "backends/host/host_boxes.h"

#define SOME 64u /* elements whose addresses are found together */

/* Where the search stands: elements of the tensor from `first` on lie side by side. */
typedef struct finder {
    const weft_host_spots *spots;
    uint64_t origin; /* of positions, in the tensor */
    uint64_t first;
    uint64_t count;
    uintptr_t zero; /* address that element 0 would have */
} finder;

static finder finder_of(const weft_host_spots *spots)
{
    return (finder){spots, spots->run->element - weft_run_position(spots->view, spots->run), 0, 0, 0};
}

/* Addresses of `count` elements, from the one of number `from` on. */
WEFT_ALWAYS_INLINE void addresses_find(finder *at, uint32_t from, uint32_t count, uint8_t **address, int write)
{
    const weft_host_spots *spots = at->spots;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t element = at->origin + spots->position[from + i];
        if (element - at->first >= at->count) {
            const weft_segment found = weft_boxes_segment(spots->view->boxes, spots->run->tensor, element);
            at->first = element;
            at->count = found.count;
            at->zero = (uintptr_t)found.data - element * spots->view->width;
        }
        address[i] = (uint8_t *)(at->zero + element * spots->view->width);
        weft_ahead_element(address[i], write);
    }
}

static uint32_t some_of(const weft_host_spots *spots, uint32_t from)
{
    return spots->count - from < SOME ? spots->count - from : SOME;
}

WEFT_ALWAYS_INLINE void gather(const weft_host_spots *spots, uint8_t *out, unsigned width)
{
    uint8_t *address[SOME];
    finder at = finder_of(spots);
    for (uint32_t from = 0, some; from < spots->count; from += some) {
        some = some_of(spots, from);
        addresses_find(&at, from, some, address, 0);
        for (uint32_t i = 0; i < some; i++)
            weft_element_put(out, from + i, weft_element_get(address[i], 0, width), width);
    }
}

WEFT_ALWAYS_INLINE void scatter(const weft_host_spots *spots, const uint8_t *values, unsigned width)
{
    uint8_t *address[SOME];
    finder at = finder_of(spots);
    for (uint32_t from = 0, some; from < spots->count; from += some) {
        some = some_of(spots, from);
        addresses_find(&at, from, some, address, 1);
        for (uint32_t i = 0; i < some; i++)
            weft_element_put(address[i], 0, weft_element_get(values, from + i, width), width);
    }
}

WEFT_ALWAYS_INLINE bool swap(const weft_host_spots *spots, uint8_t *before, const uint8_t *after, unsigned width)
{
    uint8_t *address[SOME];
    finder at = finder_of(spots);
    uint64_t differs = 0;
    for (uint32_t from = 0, some; from < spots->count; from += some) {
        some = some_of(spots, from);
        addresses_find(&at, from, some, address, 1);
        for (uint32_t i = 0; i < some; i++) {
            const uint64_t there = weft_element_get(address[i], 0, width);
            differs |= there ^ weft_element_get(before, from + i, width);
            weft_element_put(before, from + i, there, width);
            weft_element_put(address[i], 0, weft_element_get(after, from + i, width), width);
        }
    }
    return differs != 0;
}

void weft_host_boxes_gather(const weft_host_spots *spots, uint8_t *out)
{
    switch (spots->view->width) {
    case 1:
        gather(spots, out, 1);
        return;
    case 2:
        gather(spots, out, 2);
        return;
    case 4:
        gather(spots, out, 4);
        return;
    default:
        gather(spots, out, 8);
    }
}

void weft_host_boxes_scatter(const weft_host_spots *spots, const uint8_t *values)
{
    switch (spots->view->width) {
    case 1:
        scatter(spots, values, 1);
        return;
    case 2:
        scatter(spots, values, 2);
        return;
    case 4:
        scatter(spots, values, 4);
        return;
    default:
        scatter(spots, values, 8);
    }
}

bool weft_host_boxes_swap(const weft_host_spots *spots, uint8_t *before, const uint8_t *after)
{
    switch (spots->view->width) {
    case 1:
        return swap(spots, before, after, 1);
    case 2:
        return swap(spots, before, after, 2);
    case 4:
        return swap(spots, before, after, 4);
    default:
        return swap(spots, before, after, 8);
    }
}

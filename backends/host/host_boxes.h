/* host_boxes.h - elements that lie in boxes (core/layout/box.h): copied out and in, found one by one, and read in
 * order.
 */
#ifndef WEFT_BACKENDS_HOST_BOXES_H
#define WEFT_BACKENDS_HOST_BOXES_H

#include "layout/box.h"

/* Coded elements of one tensor. */
typedef struct weft_host_range {
    uint64_t tensor;
    uint64_t first;
    uint64_t count;
    uint8_t width;
} weft_host_range;

/* Copies a range out of its boxes, and back. */
void weft_host_boxes_load(const weft_boxes *boxes, const weft_host_range *range, uint8_t *bytes);
void weft_host_boxes_store(const weft_boxes *boxes, const weft_host_range *range, const uint8_t *bytes);

/* Elements of a view's run, at `count` rising positions of the view. */
typedef struct weft_host_spots {
    const weft_view *view;
    const weft_run *run;
    const uint32_t *position;
    uint32_t count;
} weft_host_spots;

/* As the kernels of these names (host_kernels.h) do with runs that name their memory. */
void weft_host_boxes_gather(const weft_host_spots *spots, uint8_t *out);
void weft_host_boxes_scatter(const weft_host_spots *spots, const uint8_t *values);
bool weft_host_boxes_swap(const weft_host_spots *spots, uint8_t *before, const uint8_t *after);

#define WEFT_HOST_TILE_BYTES (1u << 20) /* what one reader needs */

/* Reads a view in order: each fragment lies in one piece of memory, its own or the reader's tile. */
typedef struct weft_host_reader {
    const weft_view *view;
    uint8_t *tile;       /* NULL: no run of the view lies in boxes */
    const weft_run *run; /* of the fragment */
    const uint8_t *data; /* its elements */
    uint32_t begin;      /* its first position */
    uint32_t end;        /* the position after its last */
} weft_host_reader;

/* Before the first fragment. */
static inline weft_host_reader weft_host_reader_of(const weft_view *view, uint8_t *tile)
{
    return (weft_host_reader){.view = view, .tile = tile};
}

/* Goes on to the fragment at the end of the one at hand; false at the end of the view. */
bool weft_host_reader_next(weft_host_reader *reader);

#endif

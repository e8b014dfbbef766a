/* host_boxes.h - elements that lie in boxes (core/layout/box.h): copied out and in, found one by one, and read in
 * order.
 */
#ifndef WEFT_BACKENDS_HOST_BOXES_H
#define WEFT_BACKENDS_HOST_BOXES_H

#include "backends/host/host_kernels.h"
#include "layout/box.h"

/* Coded elements of one tensor. */
typedef struct weft_host_range {
    uint64_t tensor;
    uint64_t first;
    uint64_t count;
    uint8_t width;
} weft_host_range;

/* Finds the box of a tensor that is rows of a wider matrix: the one box has all columns, side by side, and its rows lie
 * one stride apart. NULL: the tensor lies in another way. */
static inline const weft_box *weft_host_boxes_pitched(const weft_boxes *boxes, uint64_t tensor)
{
    const weft_box *box = &boxes->box[boxes->first[tensor]];
    const bool one = boxes->first[tensor + 1] - boxes->first[tensor] == 1;
    return one && box->side == box->all && box->row_at.count == 1 ? box : NULL;
}

/* Copies whole rows out of such a box. */
void weft_host_rows_load(const weft_host_kernels *kernels, const weft_box *box, uint64_t row, uint64_t rows,
                         uint8_t width, uint8_t *bytes);

/* Copies a range out of its boxes, through their casts, and back into boxes without a cast. */
void weft_host_boxes_load(const weft_host_kernels *kernels, const weft_boxes *boxes, const weft_host_range *range,
                          uint8_t *bytes);
void weft_host_boxes_store(const weft_boxes *boxes, const weft_host_range *range, const uint8_t *bytes);

/* Elements of a view's run, at `count` rising positions of the view. */
typedef struct weft_host_spots {
    const weft_view *view;
    const weft_run *run;
    const uint32_t *position;
    uint32_t count;
} weft_host_spots;

/* As the kernels of these names (host_kernels.h) do with runs that name their memory. No box has a cast. */
void weft_host_boxes_gather(const weft_host_spots *spots, uint8_t *out);
void weft_host_boxes_scatter(const weft_host_spots *spots, const uint8_t *values);
bool weft_host_boxes_swap(const weft_host_spots *spots, uint8_t *before, const uint8_t *after);

#define WEFT_HOST_TILE_BYTES (1u << 20) /* what one reader needs */

/* Reads a view in order: each fragment lies in one piece of memory, its own or the reader's tile. */
typedef struct weft_host_reader {
    const weft_host_kernels *kernels;
    const weft_view *view;
    uint8_t *tile;       /* NULL: no run of the view lies in boxes */
    const weft_run *run; /* run of the fragment at hand */
    const uint8_t *data; /* elements of the fragment */
    uint32_t begin;      /* first position of the fragment */
    uint32_t end;        /* position after the last of the fragment */
    const weft_box *box; /* box of the run, if it is rows of a wider matrix and a chunk has some; else NULL */
    uint32_t rows;       /* rows of a chunk of that box */
    uint32_t count;      /* elements of these rows */
    uint64_t row;        /* row after the chunk copied last */
    uint64_t next;       /* element of the tensor at which that row begins */
} weft_host_reader;

/* Before the first fragment. */
static inline weft_host_reader weft_host_reader_of(const weft_host_kernels *kernels, const weft_view *view,
                                                   uint8_t *tile)
{
    return (weft_host_reader){.kernels = kernels, .view = view, .tile = tile};
}

/* Goes on to the fragment at the end of the one at hand; false at the end of the view. */
bool weft_host_reader_next(weft_host_reader *reader);

#endif

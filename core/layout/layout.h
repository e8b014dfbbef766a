/* layout.h - the ordered tensors, the grid of units laid over them, and bindings of both to memory.
 *
 * A tensor is counted in *coded elements*: words of 1, 2, 4 or 8 bytes that diff and digest move (a packed 4-bit dtype
 * is coded as bytes, C64 as two F32). The grid cuts the coded elements, in layout order, into *units*: a tile of one
 * segment, or a pack of consecutive small segments of one dtype. A unit is what a frame codes; units are numbered from
 * 0 in layout order and depend on the layout alone.
 *
 * Consecutive units of one dtype form a *stretch*; a frame may code a *run* of 2^shift of them, cut by their places in
 * the stretch. Positions count on through a stretch, modulo 2^32: a view knows where it begins.
 *
 * Rule of the grid (docs/WIRE_FORMAT.md holds it): tile(w) = 2^18 elements, for w = 8 bytes 2^17, so that a tile's
 * dense bytes are at most 1 MiB. A segment of more than tile(w) elements is cut into tiles, the last may be shorter.
 * A segment of at most tile(w) elements joins the open pack if that has its dtype and room for it, else opens one; a
 * segment that is cut closes the open pack. Empty segments have no elements and neither join nor close.
 * Where tensors have keys (shard/cut.h) a change of key closes the open pack and ends the stretch, so that no unit is
 * of two keys.
 */
#ifndef WEFT_CORE_LAYOUT_H
#define WEFT_CORE_LAYOUT_H

#include <stdbool.h>

#include "weft.h"

#define WEFT_DTYPE_LAST WEFT_F8_E5M2FNUZ /* numbers go from 1 to it without a gap */

/* How one dtype is coded: a row a dtype. */
typedef struct weft_dtype_row {
    weft_dtype dtype;
    const char *name;      /* as in safetensors: "BF16" */
    uint32_t bits;         /* of one element */
    uint8_t width;         /* bytes of one coded element: 1, 2, 4, 8 */
    uint8_t is_float;      /* sign-magnitude order (1) or plain integer order (0) */
    uint8_t exponent_bits; /* of a coded float; 0 for integers */
} weft_dtype_row;

/* NULL for an unknown dtype or name. */
const weft_dtype_row *weft_dtype_find(weft_dtype dtype);
const weft_dtype_row *weft_dtype_by_name(const char *name, uint64_t length);

/* One tensor as the layout keeps it. */
typedef struct weft_layout_entry {
    weft_tensor tensor; /* strings and shape owned by the layout */
    const weft_dtype_row *row;
    uint64_t elements; /* of the dtype */
    uint64_t coded;    /* coded elements */
    uint64_t bytes;    /* dense */
    uint64_t offset;   /* its place in a contiguous image such as the shadow: see weft_binding_open_image */
    uint64_t part;     /* its first: see part.h */
    uint32_t key;      /* packs and stretches of units end where it changes; 0 where nothing is cut */
} weft_layout_entry;

/* One unit of the grid. */
typedef struct weft_unit {
    uint64_t tensor;       /* first tensor it touches */
    uint64_t first;        /* first coded element in that tensor (0 for packs) */
    uint32_t count;        /* coded elements, at least 1, at most weft_tile_elements(width) */
    uint32_t tensor_count; /* tensors it touches, empty ones in between included; 1 for a tile */
    uint32_t place;        /* units of its stretch before it */
    uint8_t width;
    uint8_t is_float;
    uint8_t exponent_bits; /* 0 for integers */
} weft_unit;

struct weft_layout {
    uint64_t references; /* atomic */
    uint64_t count;
    weft_layout_entry *entries;
    uint64_t unit_count;
    weft_unit *units;
    uint64_t part_count;    /* part.h */
    uint64_t bytes;         /* dense */
    uint64_t elements;      /* coded */
    uint64_t hash[2];       /* xxh3-128, low word first */
    uint32_t largest_frame; /* bytes of the largest frame any unit can have, header and padding included */
    uint32_t epoch;         /* 1 */
};

#define WEFT_FRAME_HEADER_BYTES 16u /* of the frames of a unit: largest_frame counts it */
#define WEFT_FRAME_ALIGN        4u  /* a frame's bytes are padded with zeros to this */

/* A run has at most 2^WEFT_RUN_SHIFT_MAX units. */
#define WEFT_RUN_SHIFT_MAX 6u

/* Elements of a tile of coded width 1, 2, 4 or 8. */
uint32_t weft_tile_elements(uint8_t width);

/* Units from `unit` to the end of its run, where runs have 2^shift units (shift at most WEFT_RUN_SHIFT_MAX). */
uint32_t weft_layout_run(const weft_layout *layout, uint64_t unit, uint32_t shift);
/* Whether `units` units from `unit` on (all in the layout, at least 1) lie in one stretch. */
bool weft_layout_joined(const weft_layout *layout, uint64_t unit, uint32_t units);
/* Coded elements of `units` units of one stretch. */
uint32_t weft_layout_count_units(const weft_layout *layout, uint64_t unit, uint32_t units);

/* weft_layout_create with a key for each tensor, in the layout's order; NULL: none has one. Keys are not serialised,
 * and the hash does not cover them. */
weft_status weft_layout_create_keyed(const weft_tensor *tensors, const uint32_t *keys, uint64_t count,
                                     weft_layout **layout);

weft_layout *weft_layout_hold(weft_layout *layout); /* another reference; given back by weft_layout_free */

/* Serialised form, the bytes the hash is over and the LAYOUT message carries. `parse` trusts nothing. */
uint64_t weft_layout_wire_bytes(const weft_layout *layout);
void weft_layout_write(const weft_layout *layout, uint8_t *out);
weft_status weft_layout_parse(const uint8_t *bytes, uint64_t length, weft_layout **layout);

/* A run of a unit's coded elements that are consecutive in one tensor, so in one part. They lie consecutively in
 * memory, or in the boxes of the tensor. */
typedef struct weft_run {
    uint8_t *data;     /* address of the first element; NULL: they lie in boxes of the view */
    uint64_t tensor;   /* number in the layout */
    uint64_t element;  /* coded element in the tensor: the index the digest uses */
    uint32_t position; /* coded element in the stretch, mod 2^32: see weft_run_position */
    uint32_t count;    /* coded elements */
    uint64_t part;     /* the word of a digest that they count in: part.h */
} weft_run;

/* The elements of one unit or of a run of units in memory: runs in order of position, covering them exactly. */
typedef struct weft_view {
    const weft_run *runs;
    const struct weft_boxes *boxes; /* box.h: for runs without an address; NULL: every run has one */
    uint32_t run_count;
    uint32_t count; /* coded elements */
    uint32_t first; /* position of the first of them in the stretch, mod 2^32 */
    uint32_t unit;  /* first unit */
    uint32_t units;
    uint8_t width;
    uint8_t is_float;
    uint8_t exponent_bits;
} weft_view;

/* The coded element of the view at which a run of it begins. */
static inline uint32_t weft_run_position(const weft_view *view, const weft_run *run)
{
    return run->position - view->first;
}

/* A layout bound to memory: runs for every unit, and the boxes that some of them lie in. */
typedef struct weft_binding {
    weft_layout *layout; /* borrowed */
    weft_run *runs;
    uint64_t run_count;
    uint64_t *first_run;      /* unit_count + 1 entries */
    struct weft_boxes *boxes; /* of blocks that do not lie as their tensors do; NULL: there are none */
} weft_binding;

/* Checks that the pieces cover every tensor exactly and builds the runs. The caller gives it back with
 * weft_binding_close. Errors: WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_binding_open(weft_layout *layout, const weft_piece *pieces, uint64_t count, weft_binding *binding);
/* The same from blocks, of which it keeps the strides. Errors: those of weft_bind_blocks. */
weft_status weft_binding_open_blocks(weft_layout *layout, const weft_block *blocks, uint64_t count,
                                     weft_binding *binding);
/* Binds a contiguous image of weft_layout_bytes, tensors at entry.offset (the shadow, a staged snapshot). Tensors lie
 * there by falling coded width, then in layout order, so that each is aligned without padding; with one width that is
 * the layout's order. The image is aligned to 8 bytes. */
weft_status weft_binding_open_image(weft_layout *layout, void *image, weft_binding *binding);
/* Whether no two tensors or blocks share memory, without which writing cannot be undone. Errors: WEFT_E_LAYOUT,
 * WEFT_E_MEMORY. */
weft_status weft_binding_apart(const weft_binding *binding);
void weft_binding_close(weft_binding *binding);
weft_view weft_binding_view(const weft_binding *binding, uint64_t unit);
/* The same over `units` units of one stretch. */
weft_view weft_binding_span(const weft_binding *binding, uint64_t unit, uint32_t units);

#endif

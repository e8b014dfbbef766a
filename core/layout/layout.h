/* layout.h - the ordered tensors, the grid of units laid over them, and bindings of both to memory.
 *
 * Tensors are counted in *coded elements*: words of 1, 2, 4 or 8 bytes that diff and digest move. A packed dtype is
 * coded as bytes, and C64 as two F32. The grid cuts the coded elements, in layout order, into *units*. A unit is a tile
 * of one tensor, or a pack of consecutive small tensors of one dtype. Units are numbered from 0 in layout order, and
 * depend on the layout alone.
 *
 * Consecutive units of one dtype form a *stretch*. A frame codes a unit, or a *run* of 2^shift units, cut by their
 * places in the stretch. Positions count on through a stretch, modulo 2^32. A view knows the position of its first
 * element.
 *
 * The rule of the grid (docs/WIRE_FORMAT.md is its law): tile(w) is 2^18 elements, and 2^17 for w = 8 bytes, so that
 * the dense bytes of a tile are at most 1 MiB. A tensor of more than tile(w) elements closes the open pack and is cut
 * into tiles, of which the last may be shorter. A smaller tensor joins the open pack if the pack has the tensor's dtype
 * and room for the tensor. Else the tensor opens a new pack. Empty tensors neither join nor close. Where tensors have
 * keys (shard/cut.h), a change of key closes the open pack and ends the stretch, so that no unit has two keys. */
#ifndef WEFT_CORE_LAYOUT_H
#define WEFT_CORE_LAYOUT_H

#include <stdbool.h>

#include "weft.h"

#define WEFT_DTYPE_LAST WEFT_F8_E5M2FNUZ /* numbers go from 1 to it without a gap */

/* How one dtype is coded: a row a dtype. */
typedef struct weft_dtype_row {
    weft_dtype dtype;
    const char *name;      /* as in safetensors: "BF16" */
    uint32_t bits;         /* bits of one element */
    uint8_t width;         /* bytes of one coded element: 1, 2, 4, 8 */
    uint8_t is_float;      /* order: 1: by sign and magnitude; 0: as integers */
    uint8_t exponent_bits; /* bits of a coded float's exponent; 0 for integers */
} weft_dtype_row;

/* Finds the row of a dtype or of a name. NULL: there is none. */
const weft_dtype_row *weft_dtype_find(weft_dtype dtype);
const weft_dtype_row *weft_dtype_by_name(const char *name, uint64_t length);

/* How memory of one dtype is rounded to elements of another while it is read. The numbers are the kernels' too. */
typedef enum weft_cast { WEFT_CAST_NONE, WEFT_CAST_BF16, WEFT_CAST_F16, WEFT_CASTS } weft_cast;

/* Finds the cast of a pair of dtypes. All casts there are go from 4 bytes to 2. */
weft_cast weft_cast_find(weft_dtype memory, weft_dtype element);

/* One tensor as the layout keeps it. */
typedef struct weft_layout_entry {
    weft_tensor tensor; /* tensor, whose name and shape the layout owns */
    const weft_dtype_row *row;
    uint64_t elements; /* elements of the dtype */
    uint64_t coded;    /* coded elements */
    uint64_t bytes;    /* dense bytes */
    uint64_t offset;   /* byte at which the tensor begins in an image: see weft_binding_open_image */
    uint64_t part;     /* number of the tensor's first part: see part.h */
    uint32_t key;      /* key, where whose change packs and stretches end; 0 where nothing is cut */
} weft_layout_entry;

/* One unit of the grid. */
typedef struct weft_unit {
    uint64_t tensor;       /* number of the unit's first tensor */
    uint64_t first;        /* first coded element in that tensor; 0 for packs */
    uint32_t count;        /* coded elements, from 1 to weft_tile_elements(width) */
    uint32_t tensor_count; /* tensors of the unit, empty ones in between included; 1 for a tile */
    uint32_t place;        /* number of units of the stretch before this unit */
    uint8_t width;
    uint8_t is_float;
    uint8_t exponent_bits; /* bits; 0 for integers */
} weft_unit;

struct weft_layout {
    uint64_t references; /* number of holders; atomic */
    uint64_t count;
    weft_layout_entry *entries;
    uint64_t unit_count;
    weft_unit *units;
    uint64_t part_count;    /* number of parts: part.h */
    uint64_t bytes;         /* dense bytes */
    uint64_t elements;      /* coded elements */
    uint64_t hash[2];       /* xxh3-128, low word first */
    uint32_t largest_frame; /* bytes of the largest frame that a unit can have, header and padding included */
    uint32_t epoch;         /* version of the serialised form: 1 */
};

#define WEFT_FRAME_HEADER_BYTES 16u /* bytes of a frame's header */
#define WEFT_FRAME_ALIGN        4u  /* bytes to whose multiple a frame is padded with zeros */
#define WEFT_RUN_SHIFT_MAX      6u  /* a run has at most 2^6 units */

/* Returns the elements of a tile of coded width 1, 2, 4 or 8. */
uint32_t weft_tile_elements(uint8_t width);

/* Counts the units from `unit` to the end of its run. Runs have 2^shift units; shift is at most WEFT_RUN_SHIFT_MAX. */
uint32_t weft_layout_run(const weft_layout *layout, uint64_t unit, uint32_t shift);
/* Tells whether `units` units from `unit` on lie in one stretch. There is at least one, and all are in the layout. */
bool weft_layout_joined(const weft_layout *layout, uint64_t unit, uint32_t units);
/* Counts the coded elements of `units` units of one stretch. */
uint32_t weft_layout_count_units(const weft_layout *layout, uint64_t unit, uint32_t units);

/* Creates a layout with a key for each tensor, in the layout's order. `keys` NULL: no tensor has one. Keys are not
 * serialised, and the hash covers those that are not 0. Errors: those of weft_layout_create. */
weft_status weft_layout_create_keyed(const weft_tensor *tensors, const uint32_t *keys, uint64_t count,
                                     weft_layout **layout);

/* Takes another reference, which weft_layout_free gives back. */
weft_layout *weft_layout_hold(weft_layout *layout);

/* The serialised form: the LAYOUT message carries these bytes, and the hash covers them. `parse` trusts nothing. */
uint64_t weft_layout_wire_bytes(const weft_layout *layout);
void weft_layout_write(const weft_layout *layout, uint8_t *out);
weft_status weft_layout_parse(const uint8_t *bytes, uint64_t length, weft_layout **layout);

/* Tensors that another end says it has, before they are judged: memory grows with the length of what was said, and with
 * no size in it. */
typedef struct weft_layout_told {
    weft_tensor *tensors;
    uint64_t count;
    uint64_t *shapes; /* sizes of all tensors */
    char *names;
} weft_layout_told;
/* Reads the serialised form without making a layout of it; the caller gives it back with weft_layout_told_close.
 * Errors: WEFT_E_CORRUPT, WEFT_E_PROTOCOL, WEFT_E_MEMORY. */
weft_status weft_layout_told_open(const uint8_t *bytes, uint64_t length, weft_layout_told *told);
void weft_layout_told_close(weft_layout_told *told);

/* A run of a unit's coded elements that follow each other in one tensor, and so in one part. The elements lie side by
 * side in memory, or in the boxes of the tensor. */
typedef struct weft_run {
    uint8_t *data;     /* address of the first element; NULL: the elements lie in boxes of the view */
    uint64_t tensor;   /* number of the tensor in the layout */
    uint64_t element;  /* first coded element, counted in the tensor as the digest counts */
    uint32_t position; /* first coded element, counted in the stretch mod 2^32: see weft_run_position */
    uint32_t count;    /* coded elements */
    uint64_t part;     /* number of the part, and of its word in a digest: part.h */
} weft_run;

/* The elements of one unit or of a run of units in memory: runs in order of position that cover the units exactly. */
typedef struct weft_view {
    const weft_run *runs;
    const struct weft_boxes *boxes; /* boxes of runs without an address (box.h); NULL: every run has an address */
    uint32_t run_count;
    uint32_t count; /* coded elements */
    uint32_t first; /* position of the first coded element in the stretch, mod 2^32 */
    uint32_t unit;  /* number of the first unit */
    uint32_t units;
    uint8_t width;
    uint8_t is_float;
    uint8_t exponent_bits;
} weft_view;

/* Returns the coded element of the view at which one of its runs begins. */
static inline uint32_t weft_run_position(const weft_view *view, const weft_run *run)
{
    return run->position - view->first;
}

/* A layout bound to memory: runs for every unit, and the boxes that some runs lie in. */
typedef struct weft_binding {
    weft_layout *layout; /* borrowed */
    weft_run *runs;
    uint64_t run_count;
    uint64_t *first_run;      /* number of each unit's first run; unit_count + 1 entries */
    struct weft_boxes *boxes; /* boxes of blocks that do not lie as their tensors do; NULL: there are none */
} weft_binding;

/* Binds a layout to pieces, which must cover every tensor exactly. The caller gives the binding back with
 * weft_binding_close. Errors: WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_binding_open(weft_layout *layout, const weft_piece *pieces, uint64_t count, weft_binding *binding);
/* Binds a layout to blocks, of which the binding keeps the strides. Errors: those of weft_bind_blocks. */
weft_status weft_binding_open_blocks(weft_layout *layout, const weft_block *blocks, uint64_t count,
                                     weft_binding *binding);
/* Binds a layout to a contiguous image of weft_layout_bytes, such as the shadow. Each tensor begins at entry.offset.
 * Tensors lie by falling coded width, then in layout order, so that each is aligned without padding. The image is
 * aligned to 8 bytes. */
weft_status weft_binding_open_image(weft_layout *layout, void *image, weft_binding *binding);
/* Binds a layout to an image of weft_binding_spaced_bytes, in the layout's order. Every tensor with units of its own,
 * and every pack of small tensors, begins on a multiple of WEFT_SPACED_ALIGN bytes, and a unit lies in one piece.
 * Devices load 16 bytes at once only where elements are aligned to 16 bytes, so one tensor of odd length would make
 * every later load narrow. The image is aligned to WEFT_SPACED_ALIGN. */
#define WEFT_SPACED_ALIGN 256u
weft_status weft_binding_open_spaced(weft_layout *layout, void *image, weft_binding *binding);
/* Returns the bytes of such an image; UINT64_MAX: they overflow 64 bits. */
uint64_t weft_binding_spaced_bytes(const weft_layout *layout);
/* Checks that weights can be written: no two tensors or blocks share memory, because such writes cannot be undone, and
 * no block is read through a cast. Errors: WEFT_E_LAYOUT, WEFT_E_ARGUMENT (a cast), WEFT_E_MEMORY. */
weft_status weft_binding_apart(const weft_binding *binding);
void weft_binding_close(weft_binding *binding);
/* Copies the runs of a binding without boxes, whose memory may go first. Errors: WEFT_E_MEMORY. */
weft_status weft_binding_copy(const weft_binding *binding, weft_binding *copy);
/* Returns the bytes that a binding takes where each tensor lies in one piece. */
uint64_t weft_binding_need(const weft_layout *layout);
/* Returns the view of a unit, or of `units` units of one stretch. */
weft_view weft_binding_view(const weft_binding *binding, uint64_t unit);
weft_view weft_binding_span(const weft_binding *binding, uint64_t unit, uint32_t units);

#endif

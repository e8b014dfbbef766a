/* cut.h - rules that name the finest partition of a fleet, and the cells that they make of a layout.
 *
 * A *cut* is a rule of the site. A rule for boxes (rows, columns, middle, alone) cuts the tensors that its patterns
 * match; a tensor is matched by at most one of those. A rule by layer or by expert takes whole tensors, by a number in
 * their names. A *cell* is what the cuts make of a tensor; a tensor without a cut is one cell. The *key* of a cell says
 * which expert group, cut, part and layer block it belongs to. Who takes weights takes whole keys.
 *
 * Keys are numbered from 0 in the order of their four numbers; cells stand in the order of key, tensor, row, column. So
 * the cells of one key stand together, and the keys of one engine rank in few stretches. */
#ifndef WEFT_CORE_CUT_H
#define WEFT_CORE_CUT_H

#include "layout/slice.h"

#define WEFT_CUT_NAME   64u  /* a name and its terminator */
#define WEFT_CUT_MOST   256u /* cuts of one site */
#define WEFT_CUT_PARTS  (1u << 16)
#define WEFT_CELLS_MOST (UINT64_C(1) << 24)

typedef enum weft_cut_kind {
    WEFT_CUT_ALONE,   /* tensors stay whole, with keys of their own */
    WEFT_CUT_ROWS,    /* of a vector: its elements, because engines cut biases with their rows */
    WEFT_CUT_COLUMNS, /* of a vector: its elements */
    WEFT_CUT_MIDDLE,  /* the last dimension but one, within every index of those before it */
    WEFT_CUT_LAYER,   /* whole tensors, by the number after "layers.", "layer.", "blocks.", "block.", "h." */
    WEFT_CUT_EXPERT   /* whole tensors, by the number after "experts." */
} weft_cut_kind;

/* One rule. Strings and lists stay the caller's. */
typedef struct weft_cut {
    const char *name;     /* of [cut.NAME] */
    const char *patterns; /* of tensors' names, parted by commas, as fnmatch(3) has them; NULL: all */
    weft_cut_kind kind;
    uint64_t parts;     /* equal ones; 0: they begin at `at`. By expert: groups */
    uint64_t pad;       /* sizes are rounded up to a multiple of it before they are parted; 0: they are not */
    const uint64_t *at; /* where parts begin, rising; a leading 0 may be left out. By layer: first layers of blocks */
    uint64_t at_count;
} weft_cut;

/* Where a cell belongs. All zero: what no cut names. */
typedef struct weft_cell_key {
    uint32_t experts; /* group, from 1; 0: none */
    uint32_t cut;     /* number of the rule for boxes, from 1; 0: none */
    uint32_t part;    /* of that cut, from 0 */
    uint32_t layers;  /* block of layers, from 1; 0: outside of the layers, or no cut by layer */
} weft_cell_key;

typedef struct weft_cell {
    weft_slice slice;
    uint32_t key; /* its number */
} weft_cell;

typedef struct weft_cells {
    weft_cell *cells;
    uint64_t count;
    weft_cell_key *keys; /* rising */
    uint32_t key_count;
} weft_cells;

/* Makes the cells of a layout, each element in exactly one of them.
 *
 * cuts   `count` of them, 0 for none: every tensor is a cell, and there is one key
 * cells  receives what weft_cells_close gives back
 * Errors: WEFT_E_LAYOUT (a cut that does not fit a tensor, a tensor under two cuts for boxes; the text names tensor,
 * box and rule), WEFT_E_ARGUMENT (a rule that says nothing, or too much), WEFT_E_MEMORY. */
weft_status weft_cells_open(const weft_layout *layout, const weft_cut *cuts, uint32_t count, weft_cells *cells);
void weft_cells_close(weft_cells *cells);

/* The number of a key; false: no cell has it. */
bool weft_cells_find(const weft_cells *cells, const weft_cell_key *key, uint32_t *number);

/* cut_name.c: where a name has a layer's or an expert's number; false: nowhere. */
bool weft_cut_layer_of(const char *name, uint64_t *layer);
bool weft_cut_expert_of(const char *name, uint64_t *expert);
/* Whether a cut is for a tensor of that name. */
bool weft_cut_matches(const weft_cut *cut, const char *name);

#endif

/* cut.h - rules that name the finest partition of a fleet, and the cells that the rules make of a layout.
 *
 * A *cut* is a rule of the site. A rule for boxes (rows, columns, middle, alone) cuts the tensors that its patterns
 * match. At most one such rule matches a tensor. A rule by layer or by expert takes whole tensors, by a number in their
 * names. Cuts part a tensor into *cells*; a tensor without a cut is one cell. The *key* of a cell is its expert group,
 * cut, part and layer block. A process that takes weights takes whole keys.
 *
 * Keys are numbered from 0 in the order of their four numbers. Cells stand in the order of key, tensor, row, column. So
 * the cells of one key stand together, and the keys of one engine rank stand in few groups. */
#ifndef WEFT_CORE_CUT_H
#define WEFT_CORE_CUT_H

#include "layout/slice.h"

#define WEFT_CUT_NAME   64u  /* a name and its terminator */
#define WEFT_CUT_MOST   256u /* cuts of one site */
#define WEFT_CUT_PARTS  (1u << 16)
#define WEFT_CELLS_MOST (UINT64_C(1) << 24)

typedef enum weft_cut_kind {
    WEFT_CUT_ALONE,   /* tensors stay whole, with keys of their own */
    WEFT_CUT_ROWS,    /* rows; elements of a vector, because engines cut biases with their rows */
    WEFT_CUT_COLUMNS, /* columns; elements of a vector */
    WEFT_CUT_MIDDLE,  /* the last dimension but one, within every index of those before it */
    WEFT_CUT_LAYER,   /* whole tensors, by the number after "layers.", "layer.", "blocks.", "block.", "h." */
    WEFT_CUT_EXPERT   /* whole tensors, by the number after "experts." */
} weft_cut_kind;

/* One rule. Strings and lists stay the caller's. */
typedef struct weft_cut {
    const char *name;     /* name, as in [cut.NAME] */
    const char *patterns; /* patterns of tensors' names between commas, as fnmatch(3) has them; NULL: all */
    weft_cut_kind kind;
    uint64_t parts;     /* number of equal parts, or of groups of experts; 0: parts begin at `at` */
    uint64_t pad;       /* size to whose multiple a dimension is rounded up before it is parted; 0: none */
    const uint64_t *at; /* begins of parts, rising; a leading 0 may be left out. By layer: first layers of blocks */
    uint64_t at_count;
} weft_cut;

/* The key of a cell. All zero: no cut names the cell. */
typedef struct weft_cell_key {
    uint32_t experts; /* number of the group of experts, from 1; 0: none */
    uint32_t cut;     /* number of the rule for boxes, from 1; 0: none */
    uint32_t part;    /* number of the part of that cut, from 0 */
    uint32_t layers;  /* number of the block of layers, from 1; 0: outside of the layers, or no cut by layer */
} weft_cell_key;

typedef struct weft_cell {
    weft_slice slice;
    uint32_t key; /* number of the key */
} weft_cell;

typedef struct weft_cells {
    weft_cell *cells;
    uint64_t count;
    weft_cell_key *keys; /* keys in rising order */
    uint32_t key_count;
} weft_cells;

/* Makes the cells of a layout. Each element is in exactly one cell.
 *
 * cuts   rules, `count` of them; without rules every tensor is a cell, and there is one key
 * cells  receives the cells; the caller gives them back with weft_cells_close
 * Errors: WEFT_E_LAYOUT (a cut does not fit a tensor, or two cuts for boxes match one tensor: the text names tensor,
 * box and rule), WEFT_E_ARGUMENT (a rule says nothing, or too much), WEFT_E_MEMORY. */
weft_status weft_cells_open(const weft_layout *layout, const weft_cut *cuts, uint32_t count, weft_cells *cells);
void weft_cells_close(weft_cells *cells);

/* Finds the number of a key. False: no cell has the key. */
bool weft_cells_find(const weft_cells *cells, const weft_cell_key *key, uint32_t *number);

/* Reads the number of the layer or of the expert in a tensor's name (cut_name.c). False: the name has none. */
bool weft_cut_layer_of(const char *name, uint64_t *layer);
bool weft_cut_expert_of(const char *name, uint64_t *expert);
/* Tells whether a cut is for a tensor of that name. */
bool weft_cut_matches(const weft_cut *cut, const char *name);

#endif

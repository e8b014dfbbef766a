/* update_step.h - a file on a way: its direction, the frames that are taken of it, and what it starts from and leads
 * to.
 *
 * A step takes all frames where all of a layout is moved. Where an excerpt is, the step reads the frames of the
 * excerpt's keys alone, and gives these the excerpt's numbers. */
#ifndef WEFT_CORE_UPDATE_STEP_H
#define WEFT_CORE_UPDATE_STEP_H

#include "update/update_cursor.h"
#include "update/update_keep.h"
#include "update/update_pass.h"

/* One key's share of a version's root. */
typedef struct weft_key_sum {
    uint32_t key;
    uint64_t sum;
} weft_key_sum;

/* The weights that are moved: all of a layout, or the part of its cells that one process has. */
typedef struct weft_update_part {
    const weft_layout *layout;   /* layout of what is moved */
    const weft_layout *whole;    /* layout of the files; without an excerpt the same */
    const weft_excerpt *excerpt; /* NULL: all of the layout */
    weft_key_sum *sums;          /* of an excerpt: room for one sum for each of its keys that has cells */
    uint32_t sum_count;
} weft_update_part;

/* `layout` stays the caller's; with an excerpt `layout` is that of the files. Errors: WEFT_E_MEMORY. */
weft_status weft_update_part_open(weft_update_part *part, const weft_layout *layout, const weft_excerpt *excerpt);
void weft_update_part_close(weft_update_part *part);
/* Sums up the digests of an excerpt's parts by key. */
void weft_update_part_sum(weft_update_part *part, const uint64_t *digests);

typedef struct weft_update_step {
    weft_update_file *file; /* borrowed */
    bool back;              /* from the file's target to its base */
    uint64_t bytes;         /* bytes of frames that were taken since the step began */
    /* The rest is the step's own. */
    weft_update_cursor cursor;
    weft_update_keep keep;
    const weft_update_cells *cells; /* the file's, of an excerpt */
    struct weft_step_stretch *stretches;
    uint32_t stretch, stretch_count;
} weft_update_step;

/* Opens a step that has its file and direction. `keep`: bytes of frames that may stay in memory; 0: none.
 * Errors: WEFT_E_LAYOUT (the file is of another layout, or of other cells), WEFT_E_CORRUPT, WEFT_E_MEMORY. */
weft_status weft_update_step_open(weft_update_step *step, const weft_update_part *part, uint64_t keep);
void weft_update_step_close(weft_update_step *step);

/* Begins again with the first frame. */
void weft_update_step_begin(weft_update_step *step);
/* Adds the frames of a group of units to the group's data. Errors: WEFT_E_CORRUPT, WEFT_E_CHECK, the source's. */
weft_status weft_update_step_take(weft_update_step *step, weft_update_group *group);
/* Checks, when all frames were taken, that the file has as many as it says. Errors: WEFT_E_CORRUPT. */
weft_status weft_update_step_finish(const weft_update_step *step);
/* Checks that digests by part are those of the version that the step starts from, or leads to. The first changes the
 * part's sums. Errors: WEFT_E_BASE, WEFT_E_TARGET. */
weft_status weft_update_step_judge(const weft_update_step *step, weft_update_part *part, const uint64_t *digests,
                                   bool start);

#endif

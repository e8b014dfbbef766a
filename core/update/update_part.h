/* update_part.h - updates of cells, applied to the cells of a few keys, in memory of their own.
 *
 * The memory is a copy. So frames are applied as they are decoded, and after an error the copy is thrown away. Of a
 * file only the frames of these keys are read. */
#ifndef WEFT_CORE_UPDATE_PART_H
#define WEFT_CORE_UPDATE_PART_H

#include "shard/excerpt.h"
#include "update/update_cursor.h"
#include "update/update_pass.h"

/* One key's share of a version's root. */
typedef struct weft_key_sum {
    uint32_t key;
    uint64_t sum;
} weft_key_sum;

typedef struct weft_update_part {
    const weft_excerpt *excerpt; /* keys, borrowed */
    const weft_layout *whole;    /* layout of all cells, borrowed */
    const weft_piece *pieces;    /* the memory, borrowed */
    const weft_work *work;       /* borrowed; NULL: none */
    weft_binding image;          /* memory of the excerpt's layout */
    weft_update_pass pass;
    uint8_t *opposites; /* a frame for each worker */
    uint64_t *digests;  /* digests of the memory, by part */
    uint64_t *delta;
    weft_key_sum *sums; /* sums of the memory, one for each key of the excerpt that has cells */
    uint32_t sum_count;

    /* The file under way. */
    weft_update_file *file;
    bool back;
    weft_update_cursor cursor;
    struct weft_part_stretch *stretches; /* frames of each range of the excerpt */
    uint32_t stretch;                    /* the one that the cursor is in */
    bool failed;                         /* a frame did not decode, perhaps because of the base */
    uint64_t bytes;                      /* bytes of frames that were read */
} weft_update_part;

/* Opens a part on memory: one piece for each tensor of the excerpt's layout. Errors: those of weft_update_pass_open and
 * weft_binding_open. */
weft_status weft_update_part_open(weft_update_part *part, const weft_excerpt *excerpt, const weft_layout *whole,
                                  const weft_piece *pieces, const weft_work *work);
void weft_update_part_close(weft_update_part *part);

/* Copies weights into the memory, or the memory into weights, which are bound for the excerpt's layout. Errors: the
 * backend's. */
weft_status weft_update_part_load(weft_update_part *part, const weft_binding *weights);
weft_status weft_update_part_store(weft_update_part *part, const weft_binding *weights);
/* Computes digests and sums of the memory, which the caller wrote. */
weft_status weft_update_part_measure(weft_update_part *part);

/* Applies an update of the same cells, or its opposite. The memory is of no use after an error. Errors: WEFT_E_LAYOUT,
 * WEFT_E_BASE, WEFT_E_TARGET, WEFT_E_CORRUPT, WEFT_E_CHECK, WEFT_E_ARGUMENT (no opposite), the source's. */
weft_status weft_update_part_apply(weft_update_part *part, weft_update_file *file, bool back);

#endif

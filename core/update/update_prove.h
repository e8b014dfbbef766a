/* update_prove.h - an update file against bound weights: proves the base, decodes the frames, proves the target, and
 * writes nothing. */
#ifndef WEFT_CORE_UPDATE_PROVE_H
#define WEFT_CORE_UPDATE_PROVE_H

#include "encode/staging.h"
#include "update/update_cursor.h"
#include "update/update_pass.h"

typedef struct weft_update_prover {
    weft_update_file *file;
    const weft_layout *layout;
    const weft_work *work;
    uint32_t passes; /* passes over the weights in the whole call, for progress */
    weft_binding base;
    uint64_t *digests; /* digests of the base, by part */
    uint64_t *delta;   /* moves of the digests by the changes */
    weft_update_pass pass;
    weft_update_cursor cursor;
    weft_staging *staging; /* staging that keeps the changes of every frame; NULL: they are dropped */
    uint64_t memory_bytes; /* bytes that staging may take */
    uint64_t changed;
    bool failed; /* a frame did not decode, perhaps because of the base */
} weft_update_prover;

/* Checks that the update is for this layout. Errors: WEFT_E_LAYOUT. */
weft_status weft_update_layout_fits(weft_update_file *file, const weft_layout *layout);

/* Matches weights whose tensors the update has in another order: `layout` becomes the update's, and *renumbered
 * receives the pieces by its numbers, which the caller gives back with weft_mem_give; NULL: the layout is the update's.
 * Errors: WEFT_E_LAYOUT (other tensors, or a file without names), WEFT_E_MEMORY, those of weft_update_layout. */
weft_status weft_update_pieces_match(weft_update_file *file, const weft_layout **layout, const weft_piece *pieces,
                                     uint64_t count, weft_piece **renumbered);

weft_status weft_update_prover_open(weft_update_prover *prover, weft_update_file *file, const weft_layout *layout,
                                    const weft_piece *pieces, uint64_t count, const weft_work *work);
void weft_update_prover_close(weft_update_prover *prover);

/* Proves the update. Errors: WEFT_E_BASE before any error that a wrong base may cause, WEFT_E_TARGET, WEFT_E_CORRUPT,
 * WEFT_E_CHECK, WEFT_E_BUDGET (staging), the source's, progress's. */
weft_status weft_update_prove(weft_update_prover *prover);

/* Admits and decodes one frame on a worker into `changes`. */
weft_status weft_update_decode(weft_update_prover *prover, weft_update_worker *worker, const uint8_t *frame,
                               uint64_t bytes, weft_changes *changes);
/* Checks that base and changes make the target. Errors: WEFT_E_TARGET. */
weft_status weft_update_judge_target(const weft_update_prover *prover);
weft_status weft_update_prover_progress(const weft_update_prover *prover, uint32_t pass, uint64_t unit);
void weft_update_prover_report(const weft_update_prover *prover, double apply_ms, weft_apply_info *info);

#endif

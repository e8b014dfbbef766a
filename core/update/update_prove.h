/* update_prove.h - an update file against bound weights: base proved, frames decoded, target proved, nothing written.
 */
#ifndef WEFT_CORE_UPDATE_PROVE_H
#define WEFT_CORE_UPDATE_PROVE_H

#include "encode/staging.h"
#include "update/update_cursor.h"
#include "update/update_pass.h"

typedef struct weft_update_prover {
    weft_update_file *file;
    const weft_layout *layout;
    const weft_work *work;
    uint32_t passes; /* over the weights that the whole call makes, for progress */
    weft_binding base;
    uint64_t *digests; /* of the base, by part */
    uint64_t *delta;   /* what the changes add */
    weft_update_pass pass;
    weft_update_cursor cursor;
    weft_staging *staging; /* keeps the changes of every frame; NULL: forgets them */
    uint64_t memory_bytes; /* given for that */
    uint64_t changed;
    bool failed; /* some frame did not decode, which may be the base's fault */
} weft_update_prover;

/* Errors: WEFT_E_LAYOUT (the update is for another one). */
weft_status weft_update_layout_fits(weft_update_file *file, const weft_layout *layout);

weft_status weft_update_prover_open(weft_update_prover *prover, weft_update_file *file, const weft_layout *layout,
                                    const weft_piece *pieces, uint64_t count, const weft_work *work);
void weft_update_prover_close(weft_update_prover *prover);

/* Errors: WEFT_E_BASE before all others that the base may have caused, WEFT_E_TARGET, WEFT_E_CORRUPT, WEFT_E_CHECK,
 * WEFT_E_BUDGET (staging), the source's, progress's. */
weft_status weft_update_prove(weft_update_prover *prover);

/* Admits and decodes one frame on a worker into `changes`. */
weft_status weft_update_decode(weft_update_prover *prover, weft_update_worker *worker, const uint8_t *frame,
                               uint64_t bytes, weft_changes *changes);
/* Whether base and changes make the target. Errors: WEFT_E_TARGET. */
weft_status weft_update_judge_target(const weft_update_prover *prover);
weft_status weft_update_prover_progress(const weft_update_prover *prover, uint32_t pass, uint64_t unit);
void weft_update_prover_report(const weft_update_prover *prover, double apply_ms, weft_apply_info *info);

#endif

/* proof.h - digests the tiles of a snapshot after the thread that stores them, on two threads if there are two.
 *
 * The storing thread says `stored` after each unit, in order; the helper digests them as they come, as many at once as
 * the backend takes. When the helper falls behind, the storing thread digests too, so that a tile is met while it is
 * still in a cache. The sums do not depend on who digested what. */
#ifndef WEFT_CORE_PROOF_H
#define WEFT_CORE_PROOF_H

#include <pthread.h>

#include "encode/pipeline.h"

typedef struct weft_proof {
    weft_pipeline storing, helping_jobs; /* the two threads' */
    const weft_binding *weights;         /* where the tiles lie */
    uint64_t words;                      /* of a digest: parts of the layout */
    uint64_t *helped;                    /* the helper's sums, one a part */
    pthread_mutex_t lock;
    pthread_cond_t rests;     /* the helper has finished a unit */
    uint64_t stored, claimed; /* units: there, and begun to be digested */
    bool helping;             /* the helper digests some now */
    weft_status failed;       /* the helper's first */
} weft_proof;

weft_status weft_proof_open(weft_proof *proof, const weft_backend *backend, weft_backend_state *device, uint64_t words);
void weft_proof_close(weft_proof *proof);
/* Forgets everything; on return the helper reads nothing of the old weights. */
void weft_proof_begin(weft_proof *proof, const weft_binding *weights);
/* So many units more are there. `sums`: the storing thread's, one a part. */
weft_status weft_proof_stored(weft_proof *proof, uint64_t units, uint64_t *sums);
/* Digests what is left and adds what the helper has: `sums` is complete for all units stored. */
weft_status weft_proof_settle(weft_proof *proof, uint64_t *sums);
/* The helper: digests some units; false if there are none. Any one thread other than the storing one. */
bool weft_proof_help(weft_proof *proof);

#endif

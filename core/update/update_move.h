/* update_move.h - the mover: leads weights along a way, which is update files that follow each other, forward or back.
 *
 * The way is proved first, and no weight is written before. Where a way has one file, its frames are decoded against
 * the weights. Else a window, which is a copy of some runs of units, is moved through all files before the next one is
 * made, because the frames of the second file need what the first makes of the weights. So the memory does not depend
 * on the weights. Only the root of the way's end is compared: where it is another, the first file that leads to a wrong
 * root is looked for by ways that end earlier. Writing goes through the windows once more. */
#ifndef WEFT_CORE_UPDATE_MOVE_H
#define WEFT_CORE_UPDATE_MOVE_H

#include "encode/staging.h"
#include "update/update_step.h"

/* Takes the bytes of a run of units that were moved, in the order of the layout. */
typedef weft_status weft_mover_out(void *user, const uint8_t *bytes, uint64_t count);

typedef struct weft_mover {
    weft_update_part part;
    const weft_binding *weights; /* borrowed */
    const weft_work *work;       /* borrowed; NULL: none */
    uint32_t passes;             /* passes over the weights in the whole call, for progress; at first 1 */
    weft_update_pass pass;
    weft_binding image; /* the layout's runs, of which those of this round's windows have their place */
    uint8_t *windows;
    uint64_t window_bytes; /* of one window */
    uint8_t *opposites;    /* a frame for each lane */
    uint64_t *digests;     /* digests by part where the way begins */
    uint64_t *delta;       /* what the way adds to these */
    uint64_t *reached;     /* digests by part where the way ends, after a proof */
    bool measured;         /* `digests` are those of the weights */

    /* The way. */
    weft_update_step *steps; /* borrowed */
    size_t count;
    bool zeros;            /* the way begins with zeros, not with the weights */
    weft_staging *staging; /* keeps the changes of every frame, for a way of one step; NULL: they are dropped */
    uint64_t changed;      /* elements that the frames name */
    size_t fault;          /* the step that failed, after an error */
    uint64_t memory_bytes; /* bytes that staging may take, or the frames that steps keep */

    /* The pass under way. */
    size_t limit;                  /* steps that are taken: all, or those before the first frame that failed */
    size_t at;                     /* the step that lanes work on */
    uint32_t nth;                  /* number of the pass, for progress; `passes`: nothing is told */
    bool windowed, proof, skipped; /* windows are moved; frames are only read */
    const weft_binding *to;        /* weights that windows are written to; NULL: none */
    weft_mover_out *out;           /* or where they go; NULL: nowhere */
    void *user;                    /* of `out` */
    weft_status failure;           /* what the first frame that failed ended in, and said */
    char text[WEFT_PASS_TEXT];
} weft_mover;

/* Opens a mover of weights, which are bound for the excerpt's layout, or else for `layout`. `work` is the public
 * struct, or NULL. `mover` was zeroed or closed. Errors: WEFT_E_MEMORY, WEFT_E_SYSTEM, WEFT_E_ARGUMENT. */
weft_status weft_mover_open(weft_mover *mover, const weft_layout *layout, const weft_excerpt *excerpt,
                            const weft_binding *weights, const weft_work *work);
/* Closes a mover, and the steps of its way. */
void weft_mover_close(weft_mover *mover);

/* Computes the weights' digests, unless they are known. `told`: this is the first of the passes that progress is told
 * of. Errors: progress's. */
weft_status weft_mover_measure(weft_mover *mover, bool told);

/* Takes a way of at least one step, whose files and directions are set; the steps of the way before are closed.
 * `zeros`: the way begins with zeros, as anchors do. Errors: those of weft_update_step_open; `fault` names the step. */
weft_status weft_mover_way(weft_mover *mover, weft_update_step *steps, size_t count, bool zeros);
/* Closes the steps of the way, whose files are then the caller's again. */
void weft_mover_leave(weft_mover *mover);
/* Proves that the way leads from the weights to its end, and writes nothing. Errors: WEFT_E_BASE before any error that
 * a wrong base may cause, WEFT_E_TARGET, WEFT_E_CORRUPT, WEFT_E_CHECK, WEFT_E_BUDGET (staging), those of sources and
 * progress; `fault` names the step. */
weft_status weft_mover_prove(weft_mover *mover);
/* Writes what a proved way leads to into the mover's weights, or hands it on. Progress cannot end the first. After an
 * error these are of no use. Errors: those of sources, and those of weft_mover_prove if the weights changed since. */
weft_status weft_mover_write(weft_mover *mover, const weft_binding *to);
weft_status weft_mover_stream(weft_mover *mover, weft_mover_out *out, void *user);
/* Moves one run of units to the end of the way, in `image`; runs come in the order of the layout, and a walk begins at
 * unit 0. `wanted` false: the frames of the run are passed over. */
weft_status weft_mover_stand(weft_mover *mover, uint64_t unit, uint32_t units, bool wanted);

void weft_mover_report(const weft_mover *mover, double apply_ms, weft_apply_info *info);

#endif

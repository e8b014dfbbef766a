/* shadow_read.h - the trainer's copy of the bits published last, and how units are read from it. */
#ifndef WEFT_CORE_SHADOW_READ_H
#define WEFT_CORE_SHADOW_READ_H

#include <stdatomic.h>

#include "encode/pipeline.h"
#include "encode/staging.h"
#include "layout/layout.h"
#include "peer/peer_state.h"

/* Shadow: the bits of the newest version, apart from the weights that the caller may change. The publisher owns it;
 * publish writes it, and snapshots and merges read it. */
struct weft_shadow {
    weft_binding binding;
    uint8_t *image;
    weft_memory_kind kind;      /* HOST or DEVICE */
    weft_backend_state *host;   /* state of the host backend; NULL: the session's own backend works on the shadow */
    weft_pipeline jobs;         /* jobs of publish on the shadow alone */
    weft_pipeline loads;        /* loads of the steps */
    weft_pipeline bridge_loads; /* loads of the bridge's thread */
    weft_staging scratch;       /* changes of some frames, on their way into the shadow */
    uint64_t *moved;            /* a bit for each unit: publish moved the frame that begins there on already */
    uint64_t moves;             /* such frames */
    bool busy;                  /* publish brings the shadow up to date, and snapshots stand still */
    _Atomic bool
        lost; /* the shadow has the bits of no version, or is gone with its device, and never will have again */
};

/* Copies units out of the shadow to `to`, one after the other; with `framed` each after room for a frame's header and
 * padded as its payload. Under the lock, in a window of the calling thread's. Errors: WEFT_E_DEVICE, and the shadow is
 * lost. */
weft_status weft_shadow_read(weft_shadow *shadow, weft_pipeline *window, uint64_t unit, uint64_t units, bool framed,
                             uint8_t *to);

#endif

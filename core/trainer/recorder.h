/* recorder.h - writes each version into the site's store, beside publish.
 *
 * A thread of lower priority follows the journal, and takes the session's lock for moments, to copy a frame. The
 * journal keeps nothing for it: a version that went before it was written is a gap, and so is one that the disk did not
 * take. An anchor of a later version closes a gap. Anchors are rebuilt from the shadow, while later versions are
 * published and written.
 *
 * A disk may hang, and no call of the system can be broken off then. So a thread that does not come back at the end is
 * given up. When it comes back at last, it finds `broken` and touches the recorder and the session alone, because
 * weft_record_enter and the rebuilder stand before all that is the publisher's. Both stay until the process ends. */
#ifndef WEFT_CORE_RECORDER_H
#define WEFT_CORE_RECORDER_H

#include "peer/rebuild.h"
#include "store/store.h"
#include "update/update_writer.h"

typedef struct weft_recorder {
    weft_publisher *publisher;
    weft_store *store;
    pthread_t thread;
    pthread_cond_t wake; /* with the session's lock: there is a version, or the end came */
    pthread_cond_t gone; /* with the session's lock: the thread has done what it can */

    /* Under the lock. */
    bool running;                /* the thread was started */
    bool ending;                 /* the session closes: what is left to write may be written still */
    bool broken;                 /* nothing more is written */
    bool done;                   /* the thread is at its end */
    bool given_up;               /* the thread did not come to its end */
    uint64_t writing;            /* number of the version that the thread writes */
    struct weft_recorder *later; /* the recorder that was given up before this one */

    /* The thread's own, from its start on. */
    uint64_t next;               /* order of the first version that was not dealt with */
    bool linked;                 /* the version before is in the store, so that an update may follow it */
    bool overtaken;              /* the last anchor came to nothing, because later versions were published too fast */
    uint64_t bound;              /* order of the weights that were bound */
    weft_version last;           /* the version before */
    weft_blob *attachment;       /* its attachment; NULL: none */
    weft_version origin;         /* a version of the store with the bits that were bound; run 0: none */
    uint64_t retry_ns;           /* time before which nothing is tried, because the disk failed; under the lock */
    uint64_t anchor_ns;          /* time before which no anchor that is due is tried again; under the lock */
    const weft_backend *backend; /* host's */
    weft_backend_state *device;
    weft_encoder encoder; /* with one worker, on `device` */
    weft_rebuilder rebuilder;
    uint8_t *frame;            /* room for the largest frame */
    uint64_t *digests, *delta; /* by part: of zeros, and how an anchor moves them */
    uint64_t *before, *after;  /* by part: digests of an update's base, and of its target or how they move */
    /* Where the trainer publishes cells of a model. An anchor and updates are written at once. */
    weft_update_cells cells[WEFT_STORE_KINDS]; /* no model: the layout is not of cells */
} weft_recorder;

/* Opens the store that the site names, and takes the recorder's memory. Draws a later run, if the run was drawn and is
 * not later than all of the store. Errors: WEFT_E_CONFIG (a given run that is older than the store's last, or slices
 * without a section [source.R] for each source), those of weft_store_open, WEFT_E_MEMORY. */
weft_status weft_recorder_open(weft_publisher *publisher);
/* Gives the recorder back, unless its thread was given up. */
void weft_recorder_close(weft_recorder *recorder);
/* Starts the thread, when weights are bound. Under the lock. Errors: WEFT_E_STATE (the store has that version, with
 * other bits), WEFT_E_SYSTEM. */
weft_status weft_recorder_start(weft_recorder *recorder);
/* Tells that there is a version, which is final. Under the lock. */
void weft_recorder_hear(weft_recorder *recorder);
/* Returns the bytes of memory that a recorder takes, if all of them were touched. */
uint64_t weft_recorder_need(const weft_layout *layout);

/* ---- recorder_stop.c */

/* Ends the thread. Until the deadline the thread writes what is left. A thread that does not end then, nor within
 * `grace_ms`, is given up. Not under the lock. */
void weft_recorder_stop(weft_recorder *recorder, uint64_t deadline_ns, uint64_t grace_ms);
/* Tells of the versions that are left to write, at the end. Under the lock. */
void weft_recorder_tell_left(weft_recorder *recorder);
/* Tells whether the thread was given up: then the recorder, its publisher and its session stay as memory. */
bool weft_recorder_is_given_up(const weft_recorder *recorder);

/* ---- record.c: the files; on the thread, without the lock */

/* One file to write. */
typedef struct weft_record {
    weft_recorder *recorder;
    weft_version base, target;
    uint64_t order;              /* of the update; 0: there are no frames, because base and target have the same bits */
    uint64_t same;               /* order of the version with these bits, where there are no frames */
    const weft_blob *attachment; /* attachment of the file; NULL: none */
    weft_parameters parameters;
    uint64_t changed;
    void (*beside)(weft_recorder *recorder); /* called now and then while an anchor is written */
} weft_record;

/* Takes the session's lock. Errors: WEFT_AGAIN, without the lock (broken off, and what the publisher has may be gone).
 */
weft_status weft_record_enter(const weft_record *record);
/* Writes the update of a version. Errors: WEFT_E_BUDGET (the journal gave it up), WEFT_AGAIN (broken off), those of
 * weft_store_file_put. */
weft_status weft_record_update(weft_record *record);
/* Writes the update of a version at level tight, from the bits of both. Errors: as above, and WEFT_E_TARGET. */
weft_status weft_record_tight(weft_record *record);
/* Writes the anchor of a version, which was the newest after update `order`. Errors: as above, and WEFT_E_TARGET. */
weft_status weft_record_anchor(weft_record *record);

/* ---- between record.c and record_tight.c */

/* One file under way. */
typedef struct weft_filling {
    weft_record *record;
    weft_update_writer writer;
} weft_filling;

/* Puts a file of the record's version. `fill` gets a weft_filling. */
weft_status weft_record_put(weft_record *record, weft_store_kind kind,
                            weft_status (*fill)(void *user, const weft_sink *sink));
/* Writes the head of a file. */
weft_status weft_record_begin(weft_filling *f, const weft_sink *sink, weft_store_kind kind, const weft_version *base,
                              const weft_parameters *parameters);
/* Returns the cells that a file of a kind is of; NULL: of none. */
weft_update_cells *weft_record_cells(const weft_record *record, weft_store_kind kind);
/* Takes the digests of parts after update `order`, as far back as history reaches. Under the lock. Errors:
 * WEFT_E_BUDGET. */
weft_status weft_record_digests(const weft_publisher *publisher, uint64_t order, uint64_t *digests);

#endif

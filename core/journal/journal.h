/* journal.h - encoded updates for peers that lack them, oldest first, bounded by the arena.
 *
 * An update's frames stand in one chain for each level. A reader of an update holds it, and a held update is not
 * emptied. An update that was emptied for room keeps its place, so that its versions are still known by their digests.
 * The trainer's lock covers all of this. */
#ifndef WEFT_CORE_JOURNAL_H
#define WEFT_CORE_JOURNAL_H

#include "journal/arena.h"

#define WEFT_JOURNAL_UPDATES 1024u

/* An attachment: bytes that travel with a version. Versions with the same bytes share one blob. */
typedef struct weft_blob {
    uint64_t references; /* number of holders; atomic, because publish and the progress thread both hold blobs */
    uint64_t bytes;
    uint64_t hash; /* xxh3-64 of the bytes, never 0; 0: none */
    uint8_t data[];
} weft_blob;

/* Takes room for `bytes` bytes and sets no hash. NULL if memory is out. */
weft_blob *weft_blob_take(uint64_t bytes);
/* Copies `bytes` bytes. NULL if memory is out. */
weft_blob *weft_blob_make(const void *data, uint64_t bytes);
/* Checks the attachment that `call` was given. Errors: WEFT_E_ARGUMENT. */
weft_status weft_blob_check(const char *call, const void *data, uint64_t bytes);
uint64_t weft_blob_hash(const void *data, uint64_t bytes);
weft_blob *weft_blob_hold(weft_blob *blob);
void weft_blob_drop(weft_blob *blob);

/* The level that the journal keeps. It needs no base, so it merges and follows a snapshot without the model. */
#define WEFT_JOURNAL_LEVEL WEFT_LEVEL_FAST

typedef struct weft_update {
    weft_version base, target;
    uint64_t order;   /* 1, 2, ... in order of publication; the journal finds updates by it */
    uint64_t from;    /* order of the update that made its base */
    uint64_t changed; /* changed elements */
    uint64_t published_ns;
    uint32_t readers;   /* streams and buckets in flight that read the update */
    uint32_t pins;      /* running merges and rebuilds that read the journal level */
    bool snapshot_only; /* the update has no frames, because it did not fit or was emptied: older peers need a snapshot
                         */
    weft_blob *attachment; /* attachment of the target; NULL: none */
    weft_parameters parameters;
    weft_chain chain[WEFT_LEVEL_COUNT];
    uint32_t levels; /* mask of the levels that have a chain */
} weft_update;

typedef struct weft_journal {
    weft_arena arena;
    weft_update *updates; /* ring of WEFT_JOURNAL_UPDATES */
    uint64_t oldest;      /* order of the oldest update kept */
    uint64_t next;        /* order of the next update */
} weft_journal;

weft_status weft_journal_open(weft_journal *journal, uint64_t bytes, uint32_t largest_frame);
void weft_journal_close(weft_journal *journal);
/* Returns the update of that order. NULL if it was dropped or is not there yet. */
weft_update *weft_journal_at(weft_journal *journal, uint64_t order);
/* Returns the oldest update; NULL if there is none. */
weft_update *weft_journal_oldest(weft_journal *journal);
/* Returns the update that leads on from the version after `order`; NULL if there is none with frames. */
weft_update *weft_journal_after(weft_journal *journal, uint64_t order);
/* Gives up the frames and the attachment of an update that has no reader. */
void weft_journal_empty(weft_journal *journal, weft_update *update);
/* Drops the oldest update, which has no reader. */
void weft_journal_drop(weft_journal *journal);
/* Returns the place of the next update. The ring must have room (weft_journal_full). */
weft_update *weft_journal_place(weft_journal *journal);
/* Takes in a finished update and sets its order. Readers at its place go on. The ring must have room. */
weft_update *weft_journal_append(weft_journal *journal, const weft_update *update);
/* Begins an empty chain of a level in the room that the newest update with frames left, for a frame of `bytes` bytes.
 * False: there is none. */
bool weft_journal_join(weft_journal *journal, weft_level level, weft_chain *chain, uint32_t bytes);
bool weft_journal_full(const weft_journal *journal);
/* Returns the bytes of blocks in use. */
uint64_t weft_journal_bytes(weft_journal *journal);

#endif

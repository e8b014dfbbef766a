/* journal.h - encoded updates kept for peers that are behind, oldest first, bounded by the arena.
 *
 * An update's frames stand in one chain per level. Who reads an update holds it; what is held is not emptied. An update
 * that was emptied for room keeps its place, so that its versions are still known by their digests.
 * Not locked: the trainer's lock covers it. */
#ifndef WEFT_CORE_JOURNAL_H
#define WEFT_CORE_JOURNAL_H

#include "journal/arena.h"

#define WEFT_JOURNAL_UPDATES 1024u

/* Bytes that travel with a version, shared by the versions that have the same. */
typedef struct weft_blob {
    uint64_t references; /* atomic: publish and the progress thread both hold blobs */
    uint64_t bytes;
    uint64_t hash; /* xxh3-64, never 0: 0 says none */
    uint8_t data[];
} weft_blob;

/* Room for `bytes` bytes, its hash not set; NULL if memory is out. */
weft_blob *weft_blob_take(uint64_t bytes);
/* A copy of `bytes` bytes; NULL if memory is out. */
weft_blob *weft_blob_make(const void *data, uint64_t bytes);
/* Whether an attachment that `call` was given can be one. Errors: WEFT_E_ARGUMENT. */
weft_status weft_blob_check(const char *call, const void *data, uint64_t bytes);
uint64_t weft_blob_hash(const void *data, uint64_t bytes);
weft_blob *weft_blob_hold(weft_blob *blob);
void weft_blob_drop(weft_blob *blob);

/* The journal's level: base-free, so that it merges and follows a snapshot without the model. */
#define WEFT_JOURNAL_LEVEL WEFT_LEVEL_FAST

typedef struct weft_update {
    weft_version base, target;
    uint64_t order;   /* 1, 2, ... in order of publication; the journal finds updates by it */
    uint64_t from;    /* the order after which its base stood */
    uint64_t changed; /* elements */
    uint64_t published_ns;
    uint32_t readers;      /* streams and buckets in flight that read it */
    uint32_t pins;         /* merges and rebuilds under way that read its journal level */
    bool snapshot_only;    /* has no frames: it did not fit, or was emptied; peers behind it need a snapshot */
    weft_blob *attachment; /* of the target; NULL: none */
    weft_parameters parameters;
    weft_chain chain[WEFT_LEVEL_COUNT];
    uint32_t levels; /* mask of chains present */
} weft_update;

typedef struct weft_journal {
    weft_arena arena;
    weft_update *updates; /* ring of WEFT_JOURNAL_UPDATES */
    uint64_t oldest;      /* order of the oldest kept */
    uint64_t next;        /* order of the next one published */
} weft_journal;

weft_status weft_journal_open(weft_journal *journal, uint64_t bytes, uint32_t largest_frame);
void weft_journal_close(weft_journal *journal);
/* The update of that order; NULL if it was dropped or is not yet. */
weft_update *weft_journal_at(weft_journal *journal, uint64_t order);
/* The oldest update; NULL if there is none. */
weft_update *weft_journal_oldest(weft_journal *journal);
/* The update that leads on from the version after `order`; NULL if there is none with frames. */
weft_update *weft_journal_after(weft_journal *journal, uint64_t order);
/* Gives an update's frames and attachment up; nobody reads it. */
void weft_journal_empty(weft_journal *journal, weft_update *update);
/* Drops the oldest, which nobody reads. */
void weft_journal_drop(weft_journal *journal);
/* Where the next update will stand. The ring must have room (weft_journal_full). */
weft_update *weft_journal_place(weft_journal *journal);
/* Takes a finished update in; its order is set. Who reads at its place already goes on. The ring must have room. */
weft_update *weft_journal_append(weft_journal *journal, const weft_update *update);
bool weft_journal_full(const weft_journal *journal);
/* Bytes of blocks in use. */
uint64_t weft_journal_bytes(weft_journal *journal);

#endif

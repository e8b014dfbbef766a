/* sizes.h - what `auto` comes to for memory whose size the site leaves to weft: by the layout, within what there is.
 *
 * An update's memory follows from how many elements it changes. Sizes are for 4 % of them, three times what usual
 * updates change, or for 8 % where that takes at most a sixteenth of the memory; a small model, whose every element may
 * change at little cost, gets that. None takes more than a quarter of what is available. */
#ifndef WEFT_CORE_SIZES_H
#define WEFT_CORE_SIZES_H

#include "base/mem_host.h"
#include "layout/layout.h"
#include "port/port_backend.h"
#include "site/site.h"

/* One block of the journal of so many is left to merges. */
#define WEFT_SIZES_MERGES 4u

/* The memory that something is to be taken from. */
typedef struct weft_room_for {
    uint64_t total;
    uint64_t most; /* that one thing may take of it */
    char what[96]; /* "a quarter of the 6.1 GB available (MemAvailable)" */
} weft_room_for;

/* The host's, of which `taken` bytes are spoken for. */
weft_room_for weft_sizes_host(const weft_mem_host *memory, uint64_t taken);
/* Where a backend's change lists lie: the host's memory, or a device's of which the site lets weft have `budget` bytes
 * (0: it says nothing). */
weft_room_for weft_sizes_lists(const weft_backend *backend, int64_t device, uint64_t budget,
                               const weft_mem_host *memory, uint64_t taken);

/* Returns the bytes of device memory that a backend takes for batches of jobs, if the site lets weft have `budget`
 * bytes of it (0: it says nothing). */
uint64_t weft_size_batches(const weft_backend *backend, uint64_t budget);

typedef struct weft_size {
    uint64_t bytes;
    bool automatic;
    double percent; /* of the elements, that an update may change to fit for certain; 100: all */
    char why[160];  /* "updates of 8 %" */
} weft_size;

/* `given`: what the site says, 0 for auto. */
weft_size weft_size_staging(const weft_layout *layout, uint64_t given, const weft_room_for *room);
/* Holds four such updates at level fast beside the merges' share. */
weft_size weft_size_journal(const weft_layout *layout, uint64_t given, const weft_room_for *room);
/* The largest bucket of a peer: 4 MiB, or less where no snapshot of the layout is that long. */
uint64_t weft_size_bucket(const weft_layout *layout, const weft_site_peer *peer);
/* One slab of the trainer's, likewise up to 2 MiB. */
#define WEFT_SIZE_SLAB_MOST (UINT64_C(2) << 20)
uint64_t weft_size_slab(const weft_layout *layout);

/* ---- what an end takes beside the weights */
typedef struct weft_need {
    const char *name; /* "slots" */
    uint64_t bytes;
} weft_need;

#define WEFT_NEEDS_MAX 8u

/* The memory of an end beside the weights, need by need, for the log and `weft check`. It is known before anything is
 * opened. */
typedef struct weft_sizes {
    weft_size chosen; /* what the site may leave to weft: a trainer's journal, a rollout's staging */
    weft_need needs[WEFT_NEEDS_MAX];
    uint32_t count;
    uint64_t bytes;          /* of all */
    uint64_t batches, lists; /* device memory: for batches of jobs, and change lists of a shadow that lies there */
    uint64_t device;         /* device memory in all; 0: the backend has none */
    uint64_t bucket;         /* a rollout's bucket_max, resolved */
} weft_sizes;

void weft_sizes_add(weft_sizes *sizes, const char *name, uint64_t bytes);
/* Finds a need that was added. */
weft_need *weft_sizes_need(weft_sizes *sizes, const char *name);
/* "slots 23.2, staging 33.6": in MB. */
typedef struct weft_sizes_text {
    char text[32 * WEFT_NEEDS_MAX];
} weft_sizes_text;
weft_sizes_text weft_sizes_print(const weft_sizes *sizes);

/* Return the bytes that an update of so many changed percent of each unit takes: in staging, and in the journal at
 * level fast. */
uint64_t weft_size_staged(const weft_layout *layout, double percent);
uint64_t weft_size_kept(const weft_layout *layout, double percent);
/* The journal in which one update has so many bytes of blocks, with the share that it leaves to merges. */
uint64_t weft_size_journal_for(uint64_t blocks_bytes);
/* `bytes` as the site file writes it, rounded up to whole MiB: "620MiB". */
#define WEFT_SIZE_PRINTED 32
const char *weft_size_print(uint64_t bytes, char text[WEFT_SIZE_PRINTED]);

#endif

/* searching.h - the search for the tensor and the tile whose bits differ from a version. */
#ifndef WEFT_CORE_SEARCHING_H
#define WEFT_CORE_SEARCHING_H

#include "base/mem.h"
#include "layout/part.h"
#include "session/session.h"
#include "wire/wire.h"

typedef enum weft_search_reason {
    WEFT_SEARCH_NONE,
    WEFT_SEARCH_TARGET, /* staged bits do not lead to the target: the fault waits */
    WEFT_SEARCH_JOIN    /* the bits bound are no version that the trainer knows: the offer waits */
} weft_search_reason;

/* Looking for the tensor and the tile in which bits differ from a version: search.c. */
typedef struct weft_search {
    weft_search_reason reason;
    bool tiles;           /* of `tensor`; else the tensors are gone through */
    bool done;            /* found, or there is nothing to find */
    uint32_t late;        /* searches given up with a question under way: so many answers are passed over first */
    const uint64_t *mine; /* digests of parts here; borrowed */
    weft_wire_query query;
    weft_version version;           /* compared with; all 0: the newest */
    uint64_t tensor, next;          /* whose tiles; next tensor or tile to ask for */
    uint64_t count, first;          /* tensors of the version that differ so far, and the first of them */
    weft_version nearest;           /* the version with the fewest */
    uint64_t nearest_count;         /* that differ from it */
    uint32_t walked;                /* versions gone through */
    bool all;                       /* every unit that differs is looked for, for a repair */
    uint64_t units, staged_bytes;   /* found, and what staging needs for them */
    char name[WEFT_PART_TEXT + 40]; /* "": not found */
    uint64_t until_ns;
} weft_search;

/* search.c owns it. */
typedef struct weft_searching {
    weft_search search;
    uint8_t *tensors, *nearest_tensors; /* a bit a tensor: differs from the version gone through, from the nearest */
    uint8_t *wrong;                     /* a bit a unit: differs from the nearest */
    bool done;                          /* on this connection: an offer is a snapshot now */
    bool told;                          /* it was reported that the weights held are no version, and where */
} weft_searching;

/* ---- search.c */
/* Asks in which tile staged bits differ from the target. WEFT_AGAIN: the question is under way. */
weft_status weft_search_target(weft_rollout *rollout);
/* Asks which tile keeps the bound weights from being a version that the trainer knows. */
weft_status weft_search_join(weft_rollout *rollout);
weft_status weft_search_answer(weft_rollout *rollout, const uint8_t *body, uint64_t length);
/* Ends a search that is done or has taken io_deadline. Errors: the fault that waited for the search, if one did. */
weft_status weft_search_check(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits);
weft_status weft_search_open(weft_searching *searching, const weft_layout *layout);
void weft_search_close(weft_searching *searching, const weft_layout *layout);
weft_mem_list weft_search_memory(weft_searching *searching, const weft_layout *layout);
/* Forgets the search, because the connection is gone. */
void weft_search_drop(weft_searching *searching);

/* ---- verify.c */
/* Compares the next unit of the weights with the version held. Errors: WEFT_E_BASE, naming tensor and tile. */
weft_status weft_verify_step(weft_rollout *rollout);
/* Names the units of a frame that did not decode. Returns WEFT_E_BASE if their weights are not the version held, else
 * `why`. */
weft_status weft_verify_frame(weft_rollout *rollout, const weft_frame_header *frame, weft_status why);
/* Names the first tile of units whose weights are not the version held. */
void weft_verify_name(weft_rollout *rollout, uint64_t unit, uint64_t units, char name[WEFT_PART_TEXT]);

#endif

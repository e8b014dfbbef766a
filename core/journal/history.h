/* history.h - how each update moved the digests of parts. From the newest digests this gives those of any version kept.
 *
 * There is one record for each part that an update changed, in a ring that is taken at open; the oldest updates are
 * overwritten. An update that changed very many parts may be gone here while the journal still has it. Then only its
 * digests are unknown. The trainer's lock covers all of this. */
#ifndef WEFT_CORE_HISTORY_H
#define WEFT_CORE_HISTORY_H

#include "journal/journal.h"

typedef struct weft_move {
    uint64_t part;
    uint64_t delta; /* digest after the update, less the digest before; never 0 */
} weft_move;

typedef struct weft_history {
    weft_move *moves;  /* ring of moves, by `begin` and `end` modulo capacity; one update's rise by part */
    uint64_t bytes;    /* bytes of this ring */
    uint64_t capacity; /* moves that the ring has room for */
    uint64_t *ends;    /* ring by order: the end of each update's moves */
    uint64_t oldest;   /* order of the oldest update kept */
    uint64_t next;     /* order of the next update */
} weft_history;

/* Takes memory for `parts` digests: at most a quarter of the journal's bytes, but enough for two updates that change
 * every part. Errors: WEFT_E_MEMORY. */
weft_status weft_history_open(weft_history *history, uint64_t parts, uint64_t journal_bytes);
void weft_history_close(weft_history *history);
/* Returns the bytes that weft_history_open takes. */
uint64_t weft_history_need(uint64_t parts, uint64_t journal_bytes);
/* Records the next update, which moved `parts` digests by `delta`. */
void weft_history_append(weft_history *history, const uint64_t *delta, uint64_t parts);
/* Replaces the moves of the newest update by `delta`. */
void weft_history_amend(weft_history *history, const uint64_t *delta, uint64_t parts);
/* True if the digests after update `order` can be computed; 0: those before the first update. */
bool weft_history_reaches(const weft_history *history, uint64_t order);
/* Takes the moves of update `order`, which is kept, off all digests: what stood before that update. */
void weft_history_step_back(const weft_history *history, uint64_t order, uint64_t *words);
/* Turns `count` newest digests, from part `first` on, into those after update `order`. */
void weft_history_rewind(const weft_history *history, uint64_t order, uint64_t first, uint64_t count, uint64_t *words);

#endif

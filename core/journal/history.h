/* history.h - how each version moved the digests of parts: with the newest ones it tells those of any version kept.
 *
 * One record per part and update that changed it, in a ring taken at open; the oldest updates give way. An update that
 * the journal still has may be gone here when very many parts changed: then its digests cannot be told, nothing else.
 * Not locked: the trainer's lock covers it. */
#ifndef WEFT_CORE_HISTORY_H
#define WEFT_CORE_HISTORY_H

#include "journal/journal.h"

typedef struct weft_move {
    uint64_t part;
    uint64_t delta; /* digest after less digest before, never 0 */
} weft_move;

typedef struct weft_history {
    weft_move *moves;  /* ring, by `begin` and `end` modulo capacity; those of one update rise by part */
    uint64_t bytes;    /* of it */
    uint64_t capacity; /* in moves */
    uint64_t *ends;    /* ring by order: past the last move of the update */
    uint64_t oldest;   /* order of the oldest update kept */
    uint64_t next;     /* order of the next one */
} weft_history;

/* Takes memory for `parts` words: a quarter of the journal's bytes at most, but room for two updates that change
 * everything. Errors: WEFT_E_MEMORY. */
weft_status weft_history_open(weft_history *history, uint64_t parts, uint64_t journal_bytes);
void weft_history_close(weft_history *history);
/* Bytes of that. */
uint64_t weft_history_need(uint64_t parts, uint64_t journal_bytes);
/* Takes note of the next update, which moved `parts` words by `delta`. */
void weft_history_append(weft_history *history, const uint64_t *delta, uint64_t parts);
/* The newest update, whose digests were told by then, moved them by `delta` instead. */
void weft_history_amend(weft_history *history, const uint64_t *delta, uint64_t parts);
/* Whether the digests after update `order` can be told; 0: before the first. */
bool weft_history_reaches(const weft_history *history, uint64_t order);
/* Turns `count` words from part `first` on, which are the newest digests, into those after update `order`. */
void weft_history_rewind(const weft_history *history, uint64_t order, uint64_t first, uint64_t count, uint64_t *words);

#endif

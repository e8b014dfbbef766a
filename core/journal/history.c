#include "journal/history.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

uint64_t weft_history_need(uint64_t parts, uint64_t journal_bytes)
{
    const uint64_t most = parts * WEFT_JOURNAL_UPDATES, room = journal_bytes / 4 / sizeof(weft_move);
    const uint64_t moves = room < 2 * parts ? 2 * parts : room < most ? room : most;
    return (moves ? moves : 1) * sizeof(weft_move);
}

weft_status weft_history_open(weft_history *history, uint64_t parts, uint64_t journal_bytes)
{
    memset(history, 0, sizeof *history);
    history->bytes = weft_history_need(parts, journal_bytes);
    history->capacity = history->bytes / sizeof(weft_move);
    history->moves = weft_mem_map(history->bytes);
    history->ends = weft_mem_take(WEFT_JOURNAL_UPDATES, sizeof *history->ends);
    history->oldest = history->next = 1;
    if (history->moves && history->ends)
        return WEFT_OK;
    weft_history_close(history);
    return weft_fail(WEFT_E_MEMORY, "no memory for the digests of past versions: %llu bytes; lower [trainer] journal",
                     (unsigned long long)history->bytes);
}

void weft_history_close(weft_history *history)
{
    if (history->moves)
        weft_mem_unmap(history->moves, history->bytes);
    weft_mem_give(history->ends);
    history->moves = NULL;
    history->ends = NULL;
}

/* Counted on from the first ever: positions in the ring are modulo its capacity. */
static uint64_t end_of(const weft_history *history, uint64_t order)
{
    return history->ends[order % WEFT_JOURNAL_UPDATES];
}

void weft_history_append(weft_history *history, const uint64_t *delta, uint64_t parts)
{
    uint64_t order = history->next++, end = end_of(history, order - 1), need = 0;
    for (uint64_t part = 0; part < parts; part++)
        need += delta[part] != 0;
    while (history->oldest < order && (order - history->oldest == WEFT_JOURNAL_UPDATES - 1 ||
                                       end + need - end_of(history, history->oldest - 1) > history->capacity))
        history->oldest++;
    for (uint64_t part = 0; part < parts; part++)
        if (delta[part])
            history->moves[end++ % history->capacity] = (weft_move){part, delta[part]};
    history->ends[order % WEFT_JOURNAL_UPDATES] = end;
}

void weft_history_amend(weft_history *history, const uint64_t *delta, uint64_t parts)
{
    history->next--;
    weft_history_append(history, delta, parts);
}

bool weft_history_reaches(const weft_history *history, uint64_t order)
{
    return order + 1 >= history->oldest && order < history->next;
}

/* Finds the first move of [from, end) whose part is not below `part`. */
static uint64_t search(const weft_history *history, uint64_t from, uint64_t end, uint64_t part)
{
    while (from < end) {
        uint64_t middle = from + (end - from) / 2;
        if (history->moves[middle % history->capacity].part < part)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

void weft_history_step_back(const weft_history *history, uint64_t order, uint64_t *words)
{
    for (uint64_t at = end_of(history, order - 1); at < end_of(history, order); at++) {
        const weft_move *move = &history->moves[at % history->capacity];
        words[move->part] -= move->delta;
    }
}

void weft_history_rewind(const weft_history *history, uint64_t order, uint64_t first, uint64_t count, uint64_t *words)
{
    for (uint64_t later = order + 1; later < history->next; later++) {
        uint64_t end = end_of(history, later), at = search(history, end_of(history, later - 1), end, first);
        for (; at < end; at++) {
            const weft_move *move = &history->moves[at % history->capacity];
            if (move->part - first >= count)
                break;
            words[move->part - first] -= move->delta;
        }
    }
}

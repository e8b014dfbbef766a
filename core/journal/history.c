#include "journal/history.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

static weft_history sized(uint64_t parts, uint64_t journal_bytes)
{
    const uint64_t most = parts * WEFT_JOURNAL_UPDATES, room = journal_bytes / 4 / sizeof(weft_move);
    const uint64_t moves = room < 2 * parts ? 2 * parts : room < most ? room : most;
    return (weft_history){.capacity = moves ? moves : 1, .oldest = 1, .next = 1};
}

static weft_mem_list memory_of(weft_history *history)
{
    return (weft_mem_list){
        {WEFT_MEM_PAGES(history->moves, history->capacity), WEFT_MEM_TAKEN(history->ends, WEFT_JOURNAL_UPDATES)}};
}

uint64_t weft_history_need(uint64_t parts, uint64_t journal_bytes)
{
    weft_history none = sized(parts, journal_bytes);
    return weft_mem_list_bytes(memory_of(&none));
}

weft_status weft_history_open(weft_history *history, uint64_t parts, uint64_t journal_bytes)
{
    *history = sized(parts, journal_bytes);
    history->bytes = history->capacity * sizeof *history->moves;
    return weft_mem_list_take(memory_of(history), "for the digests of past versions; lower [trainer] journal");
}

void weft_history_close(weft_history *history)
{
    weft_mem_list_give(memory_of(history));
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

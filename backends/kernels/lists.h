/* lists.h - sets of rising numbers, held as bits, into lists. */
#ifndef WEFT_BACKENDS_KERNELS_LISTS_H
#define WEFT_BACKENDS_KERNELS_LISTS_H

#include "backends/kernels/gaps.h"
#include "backends/kernels/gather.h"

/* Bits of a word from number `at` on that belong to the universe. */
WEFT_DEVICE uint32_t weft_set_word(const weft_k_set_list *row, uint32_t word, uint32_t at)
{
    const uint32_t left = row->universe > at ? row->universe - at : 0;
    const uint32_t mask = left < 32 ? (1u << left) - 1 : 0xffffffffu;
    return (row->inverted ? ~word : word) & mask;
}

/* Quad `index` of what is to be listed; zero after the universe. */
WEFT_DEVICE weft_quad weft_set_quad(const weft_k_set_list *row, uint32_t index)
{
    if (index * 128 >= row->universe)
        return {0, 0, 0, 0};
    const weft_quad bits = WEFT_AT(const weft_quad, row->bits)[index];
    const uint32_t at = index * 128;
    return {weft_set_word(row, bits.x, at), weft_set_word(row, bits.y, at + 32), weft_set_word(row, bits.z, at + 64),
            weft_set_word(row, bits.w, at + 96)};
}

/* Lists the members; returns how many. */
WEFT_DEVICE uint32_t weft_list_members(weft_seek *seek, const weft_k_set_list *row)
{
    uint32_t found = 0;
    for (uint32_t first = 0; first < row->universe; first += WEFT_SEEK_BITS) {
        const uint32_t count = weft_seek_begin(seek, weft_set_quad(row, first / 128 + weft_thread()));
        for (uint32_t i = weft_thread(); i < count; i += WEFT_BLOCK) {
            const uint32_t thread = weft_seek_thread(seek, i);
            const weft_quad quad = weft_set_quad(row, first / 128 + thread);
            WEFT_AT(uint32_t, row->members)
            [found + i] = first + thread * 128 + weft_quad_one_at(quad, i - seek->before[thread]);
        }
        found += count;
        weft_barrier(); /* the counts are read, and at the end the members written */
    }
    return found;
}

struct weft_list_shared {
    weft_seek seek;
    uint32_t ones[32];
};

WEFT_KERNEL(list_make)(const weft_k_list_make *rows)
{
    WEFT_SHARED(weft_list_shared, shared);
    const weft_k_tight_job *job = rows + weft_block() / WEFT_K_TIGHT_LISTS;
    if (WEFT_AT(const weft_k_changes, job->job)->count == 0)
        return;
    weft_k_set_list *row = WEFT_AT(weft_k_set_list, job->lists) + weft_block() % WEFT_K_TIGHT_LISTS;
    if (row->count == 0)
        return;
    const uint32_t *members = WEFT_AT(const uint32_t, row->members);
    const uint32_t bits = weft_k_length(row->universe);
    uint32_t ones = 0;
    if (weft_thread() < 32)
        shared.ones[weft_thread()] = 0;
    const uint32_t count = weft_list_members(&shared.seek, row);
    for (uint32_t first = 0; first < count; first += WEFT_BLOCK) {
        const uint32_t i = first + weft_thread();
        if (i - weft_lane() < count) /* whole warps */
            weft_k_ones_count(i < count ? weft_k_gap(members, i) : 0, bits, &ones);
    }
    if (weft_lane() < 32)
        weft_add32(&shared.ones[weft_lane()], ones);
    weft_barrier();
    if (weft_thread() < 32)
        row->gap_ones[weft_thread()] = shared.ones[weft_thread()];
}

#endif

/* decode_lists.h - unary planes into ranks: of a list's member number i, coded by the one number r of the plane, the
 * rank is ((zeros up to that one) << k) + (low bits up to it) + i, so counts and sums give all of them at once.
 *
 *   decode_ones    counts the ones of each part of the plane
 *   decode_lows    adds up the low bits of each part of a list, and puts directions that lie below them
 *   decode_lists   part by part of the plane: ranks of the lists that have ones there, and where the ones after the
 *                  lists end */
#ifndef WEFT_BACKENDS_KERNELS_DECODE_LISTS_H
#define WEFT_BACKENDS_KERNELS_DECODE_LISTS_H

#include "backends/kernels/decode.h"

/* Word `index` of the unary plane, counted from the word in which it begins. */
WEFT_DEVICE uint32_t weft_unary_word(const weft_k_decode *job, uint32_t index)
{
    const uint32_t word = weft_payload_word(job, job->unary / 32 + (uint64_t)index);
    return index == 0 ? word & ~0u << job->unary % 32 : word;
}

WEFT_KERNEL(decode_ones)(const weft_k_decode_ones *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    uint32_t all;
    weft_block_prefix(&sums, weft_ones(weft_unary_word(job, part->index * WEFT_BLOCK + weft_thread())), &all);
    if (weft_thread() == 0)
        WEFT_AT(uint32_t, job->ones)[part->index] = all;
}

/* The low bits of a member's gap. */
WEFT_DEVICE uint32_t weft_list_low(const weft_k_decode *job, const weft_k_list *list, uint32_t member)
{
    return weft_payload_bits(job, list->lows + (uint64_t)member * list->stride, list->low_bits);
}

/* One step up or down where the change's field says so: bit 0, below the gap's. */
WEFT_DEVICE void weft_direction_put(const weft_k_decode *job, uint32_t change, uint32_t field)
{
    const uint64_t steps = field & 1 ? ~0ull : 1;
    switch (job->view.width) {
    case 1:
        weft_element_store<1>(job->after, change, (uint8_t)steps);
        break;
    case 2:
        weft_element_store<2>(job->after, change, (uint16_t)steps);
        break;
    case 4:
        weft_element_store<4>(job->after, change, (uint32_t)steps);
        break;
    default:
        weft_element_store<8>(job->after, change, steps);
    }
}

WEFT_KERNEL(decode_lows)(const weft_k_decode_lows *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    const weft_k_list *list = WEFT_AT(const weft_k_list, job->lists) + part->list;
    const uint32_t first = part->index * WEFT_K_MEMBERS;
    uint64_t sum = 0;
    for (uint32_t m = first + weft_thread(); m < first + WEFT_K_MEMBERS && m < list->members; m += WEFT_BLOCK) {
        sum += weft_list_low(job, list, m);
        if (list->directions)
            weft_direction_put(job, m, weft_payload_bits(job, list->lows - 1 + (uint64_t)m * list->stride, 1));
    }
    /* A rank is below job->view.count, which is at most 2^24: clipped, the sums of a block fit 32 bits. */
    const bool beyond = sum >= job->view.count;
    uint32_t all;
    weft_block_prefix(&sums, beyond ? 0 : (uint32_t)sum, &all);
    if (beyond || (weft_thread() == 0 && all >= job->view.count))
        weft_fault_note(job, WEFT_K_LAUNCH_SUMS, WEFT_K_FAULT_RANK);
    if (weft_thread() == 0)
        WEFT_AT(uint32_t, list->sums)[part->index] = all;
}

struct weft_lists_shared {
    weft_block_sums sums;
    uint32_t part, rest, end; /* of the one that is looked for */
    uint16_t place[32 * WEFT_BLOCK];
};

/* Bits of the plane up to and with the one number `one`, which lies in another part than the block's. Collective. */
WEFT_DEVICE uint32_t weft_ones_find(const weft_k_decode *job, weft_lists_shared *shared, uint32_t one)
{
    const uint32_t *ones = WEFT_AT(const uint32_t, job->ones);
    const uint32_t each = (job->unary_parts + WEFT_BLOCK - 1) / WEFT_BLOCK, first = weft_thread() * each;
    uint32_t mine = 0, all;
    for (uint32_t p = first; p < first + each && p < job->unary_parts; p++)
        mine += ones[p];
    uint32_t before = weft_block_prefix(&shared->sums, mine, &all);
    if (one >= before && one - before < mine) {
        uint32_t p = first, rest = one - before;
        for (; rest >= ones[p]; p++)
            rest -= ones[p];
        shared->part = p;
        shared->rest = rest;
    }
    weft_barrier();
    const uint32_t index = shared->part * WEFT_BLOCK + weft_thread(), rest = shared->rest;
    uint32_t word = weft_unary_word(job, index);
    mine = weft_ones(word);
    before = weft_block_prefix(&shared->sums, mine, &all);
    if (rest >= before && rest - before < mine) {
        for (uint32_t skip = rest - before; skip > 0; skip--)
            word &= word - 1;
        shared->end = index * 32 + weft_lowest(word) + 1 - job->unary % 32;
    }
    weft_barrier();
    const uint32_t end = shared->end;
    weft_barrier();
    return end;
}

/* The ones of a block: numbers first.. to before end. */
typedef struct weft_ones_here {
    uint32_t first, end;
    uint32_t origin; /* what is added to a place for the bits up to and with it, mod 2^32 */
} weft_ones_here;

WEFT_DEVICE uint32_t weft_ones_end(const weft_lists_shared *shared, const weft_ones_here *here, uint32_t one)
{
    return here->origin + shared->place[one - here->first];
}

/* The same for any one before here->end. Collective. */
WEFT_DEVICE uint32_t weft_ones_any(const weft_k_decode *job, weft_lists_shared *shared, const weft_ones_here *here,
                                   uint32_t one)
{
    return one < here->first ? weft_ones_find(job, shared, one) : weft_ones_end(shared, here, one);
}

/* Sum of the low bits of a list's members before one. Collective. */
WEFT_DEVICE uint32_t weft_lows_before(const weft_k_decode *job, weft_lists_shared *shared, const weft_k_list *list,
                                      uint32_t member)
{
    const uint32_t *sums = WEFT_AT(const uint32_t, list->sums);
    const uint32_t parts = member / WEFT_K_MEMBERS;
    uint32_t sum = 0, all;
    for (uint32_t p = weft_thread(); p < parts; p += WEFT_BLOCK)
        sum += sums[p];
    for (uint32_t m = parts * WEFT_K_MEMBERS + weft_thread(); m < member; m += WEFT_BLOCK)
        sum += weft_list_low(job, list, m);
    weft_block_prefix(&shared->sums, sum, &all);
    return all;
}

/* Ranks of a list's members whose ones are from `from` to before `to`, all here. Collective. */
WEFT_DEVICE void weft_list_part(const weft_k_decode *job, weft_lists_shared *shared, const weft_k_list *list,
                                const weft_ones_here *here, uint32_t from, uint32_t to)
{
    const uint32_t start = list->one == 0 ? 0 : weft_ones_any(job, shared, here, list->one - 1);
    uint32_t lows = weft_lows_before(job, shared, list, from - list->one);
    for (uint32_t tile = from; tile < to; tile += WEFT_K_CHANGES) {
        const uint32_t first = tile + weft_thread() * WEFT_K_EACH;
        uint32_t low[WEFT_K_EACH], sum = 0, all;
        for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
            low[j] = first + j < to ? weft_list_low(job, list, first + j - list->one) : 0;
            sum += low[j];
        }
        uint32_t before = lows + weft_block_prefix(&shared->sums, sum, &all);
        for (uint32_t j = 0; j < WEFT_K_EACH; j++) {
            before += low[j];
            if (first + j >= to)
                continue;
            const uint32_t member = first + j - list->one;
            const uint32_t zeros = weft_ones_end(shared, here, first + j) - start - (member + 1);
            const uint64_t rank = ((uint64_t)zeros << list->low_bits) + before + member;
            if (rank >= job->view.count)
                weft_fault_note(job, WEFT_K_LAUNCH_LISTS, WEFT_K_FAULT_RANK);
            else
                WEFT_AT(uint32_t, list->ranks)[member] = (uint32_t)rank;
        }
        lows += all;
    }
}

/* Where the ones after the lists end, the last of the lists among them; tail_most of them are of interest. */
WEFT_DEVICE void weft_tail_part(const weft_k_decode *job, const weft_lists_shared *shared, const weft_ones_here *here)
{
    uint32_t *ends = WEFT_AT(uint32_t, job->ends);
    const uint32_t lists = job->list_ones, last = lists + job->tail_most;
    uint32_t first = here->first;
    if (lists == 0 && first == 0 && weft_thread() == 0)
        ends[0] = 0;
    if (first + 1 < lists)
        first = lists - 1;
    for (uint32_t one = first + weft_thread(); one < here->end && one < last; one += WEFT_BLOCK)
        ends[one + 1 - lists] = weft_ones_end(shared, here, one);
}

WEFT_KERNEL(decode_lists)(const weft_k_decode_lists *rows)
{
    WEFT_SHARED(weft_lists_shared, shared);
    const weft_k_part *part = rows + weft_block();
    const weft_k_decode *job = weft_decode_of(part);
    if (weft_faulted(job, WEFT_K_LAUNCH_LISTS))
        return;
    const uint32_t index = part->index * WEFT_BLOCK + weft_thread();
    uint32_t total, some;
    weft_ones_here here;
    here.first = weft_words_before(&shared.sums, job->ones, part->index, job->unary_parts, &total);
    here.origin = part->index * WEFT_BLOCK * 32 + 1 - job->unary % 32;
    if (part->index == 0 && weft_thread() == 0 && total < job->list_ones + job->tail_least)
        weft_fault_note(job, WEFT_K_LAUNCH_LISTS, WEFT_K_FAULT_SHORT);
    uint32_t word = weft_unary_word(job, index);
    uint32_t at = weft_block_prefix(&shared.sums, weft_ones(word), &some);
    here.end = here.first + some;
    for (; word != 0; word &= word - 1)
        shared.place[at++] = (uint16_t)(weft_thread() * 32 + weft_lowest(word));
    weft_barrier();
    for (uint32_t l = 0; l < job->list_count; l++) {
        const weft_k_list *list = WEFT_AT(const weft_k_list, job->lists) + l;
        const uint32_t from = here.first > list->one ? here.first : list->one, end = list->one + list->members;
        const uint32_t to = here.end < end ? here.end : end;
        if (from < to)
            weft_list_part(job, &shared, list, &here, from, to);
    }
    weft_tail_part(job, &shared, &here);
}

#endif

/* encode_frame.h - whole payloads of level fast without a word from the host between two launches: memory for the lists
 * and frames of a batch, then a block for each job that counts, chooses as core/codec/fast.c does, and writes. */
#ifndef WEFT_BACKENDS_KERNELS_ENCODE_FRAME_H
#define WEFT_BACKENDS_KERNELS_ENCODE_FRAME_H

#include "backends/kernels/encode_fast.h"

WEFT_DEVICE uint32_t weft_k_quads(uint64_t bytes)
{
    return (uint32_t)((bytes + 15) / 16);
}

/* The Rice parameter for `count` of `universe` places, as weft_fast_rice has it. */
WEFT_DEVICE uint32_t weft_k_rice(uint32_t universe, uint32_t count)
{
    const uint64_t wanted = 77 * (2 * (uint64_t)universe - count);
    uint64_t reached = 320 * (uint64_t)count;
    uint32_t k = 0;
    for (; reached < wanted; reached *= 2)
        k++;
    return k;
}

/* ---- memory */

/* Room for a payload, but never more than is worth a frame. A change takes the low bits of its gap, 4.6 bits for its
 * direction and the gap's high part, at most 1.3 for its rank, and 9 bits a byte and 3 for its magnitude: what order an
 * encoder chooses costs no more than their mean length. Were that too little, the payload would be refused. */
WEFT_DEVICE uint32_t weft_k_payload_room(const weft_k_fast_job *job, uint32_t changed)
{
    const uint64_t bits = weft_k_rice(job->changes.elements, changed) + 11 + 9 * job->changes.width;
    const uint64_t most = (changed * bits / 8 + 256 + 3) / 4 * 4;
    return most < job->payload_most ? (uint32_t)most : job->payload_most;
}

/* Quads that a job takes. */
typedef struct weft_k_taken {
    uint32_t changed;
    uint32_t words, elements; /* of a list each */
    uint32_t room;            /* bytes */
} weft_k_taken;

WEFT_DEVICE weft_k_taken weft_k_taken_of(const weft_k_fast_job *job)
{
    const uint32_t total = *WEFT_AT(const uint32_t, job->total);
    const uint32_t changed = job->place == 0 && total <= job->changed_most ? total : 0;
    if (changed == 0)
        return {0, 0, 0, 0};
    return {changed, weft_k_quads(4 * (uint64_t)changed), weft_k_quads(changed * (uint64_t)job->changes.width),
            weft_k_payload_room(job, changed)};
}

/* Lays out the lists of a job from quad `list` on, and its payload from quad `frame` on. */
WEFT_DEVICE void weft_fast_lay(const weft_k_fast_lists *row, weft_k_fast_job *job, const weft_k_taken *taken,
                               uint32_t list, uint32_t frame)
{
    const uint64_t words = 16 * (uint64_t)taken->words, elements = 16 * (uint64_t)taken->elements;
    job->changes.position = row->lists + 16 * (uint64_t)list;
    job->ranks = job->changes.position + words;
    job->changes.before = job->ranks + words;
    job->changes.after = job->changes.before + elements;
    job->payload = row->payloads + 16 * (uint64_t)frame;
    job->copy = row->copies + 16 * (uint64_t)frame;
    job->place = frame;
    job->room = taken->room;
}

WEFT_KERNEL(fast_lists)(const weft_k_fast_lists *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_fast_lists *row = rows + weft_block();
    uint32_t lists = 0, frames = 0;
    for (uint32_t first = 0; first < row->count; first += WEFT_BLOCK) {
        const uint32_t i = first + weft_thread();
        weft_k_fast_job *job = WEFT_AT(weft_k_fast_job, row->jobs) + i;
        weft_k_taken taken = {0, 0, 0, 0};
        if (i < row->count)
            taken = weft_k_taken_of(job);
        const uint32_t list = 2 * (taken.words + taken.elements), frame = taken.room ? 1 + weft_k_quads(taken.room) : 0;
        uint32_t list_all, frame_all;
        const uint32_t list_at = lists + weft_block_prefix(&sums, list, &list_all);
        const uint32_t frame_at = frames + weft_block_prefix(&sums, frame, &frame_all);
        const bool fits =
            taken.changed > 0 && list_at + list <= row->list_quads && frame_at + frame <= row->frame_quads;
        if (i < row->count)
            job->changes.count = fits ? taken.changed : 0;
        if (fits)
            weft_fast_lay(row, job, &taken, list_at, frame_at + 1);
        lists += list_all;
        frames += frame_all;
    }
}

/* ---- parameters */

/* From `bits` down while that makes the gaps' high parts and low bits strictly fewer; *high is the sum of the parts. */
WEFT_DEVICE uint32_t weft_k_gap_bits(const uint32_t *ones, uint32_t count, uint32_t bits, uint64_t *high)
{
    uint64_t sum = 0;
    for (uint32_t b = 32; b-- > bits;)
        sum = 2 * sum + ones[b];
    for (; bits > 0; bits--) {
        const uint64_t below = 2 * sum + ones[bits - 1];
        if (below >= sum + count)
            break;
        sum = below;
    }
    *high = sum;
    return bits;
}

/* The sum of what the magnitudes' lengths exceed an order by. */
WEFT_DEVICE uint64_t weft_k_lengths(const weft_k_fast_counts *counts, uint32_t order, uint32_t longest)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l <= longest; l++)
        sum +=
            l > order ? (uint64_t)counts->length[l] * (l - 1 - order) : (uint64_t)counts->under[l] - counts->length[l];
    return sum;
}

WEFT_DEVICE uint32_t weft_k_magnitude_bits(const weft_k_fast_counts *counts, uint32_t longest, uint64_t *lengths)
{
    const uint32_t exceptions = counts->exceptions;
    uint32_t order = 0, total = 0;
    for (uint32_t l = 1; l <= longest; l++)
        total += counts->length[l] * l;
    for (; total >= exceptions; total -= exceptions) /* their mean, which is a small number */
        order++;
    *lengths = weft_k_lengths(counts, order, longest);
    for (; order > 0; order--) {
        const uint64_t below = weft_k_lengths(counts, order - 1, longest);
        if (2 * below >= 2 * *lengths + exceptions)
            break;
        *lengths = below;
    }
    return order;
}

/* A payload that is about to be written. */
typedef struct weft_fast_chosen {
    weft_k_fast_write planes;
    uint32_t bytes; /* 0: not worth a frame */
} weft_fast_chosen;

/* Chooses the parameters, as weft_fast_plan_of does, and places the planes. By one thread. */
WEFT_DEVICE void weft_fast_choose(weft_fast_chosen *chosen, const weft_k_fast_counts *counts,
                                  const weft_k_fast_job *job)
{
    weft_k_fast_write *planes = &chosen->planes;
    const uint32_t m = job->changes.count, e = counts->exceptions;
    uint64_t highs = 0, ranks = 0, lengths = 0;
    planes->ranks = job->ranks;
    planes->payload = job->payload;
    planes->exceptions = e;
    planes->gap_bits = weft_k_gap_bits(counts->gap_ones, m, weft_k_rice(job->changes.elements, m), &highs);
    planes->rank_bits = planes->magnitude_bits = 0;
    if (e > 0) {
        planes->rank_bits = weft_k_rice(m, e);
        planes->magnitude_bits = weft_k_magnitude_bits(counts, 8 * job->changes.width, &lengths);
        for (uint32_t b = 32; b-- > planes->rank_bits;)
            ranks = 2 * ranks + counts->rank_ones[b];
    }
    const uint64_t unary = m + highs + ranks + lengths + 2 * (uint64_t)e;
    const uint64_t magnitudes = lengths + (uint64_t)e * planes->magnitude_bits;
    const uint64_t ranks_at = ((uint64_t)m * (planes->gap_bits + 1) + 7) / 8;
    const uint64_t unary_at = ranks_at + ((uint64_t)e * planes->rank_bits + 7) / 8;
    const uint64_t magnitudes_at = unary_at + (unary + 7) / 8;
    const uint64_t bytes = (magnitudes_at + (magnitudes + 7) / 8 + 3) / 4 * 4;
    planes->ranks_at = (uint32_t)ranks_at;
    planes->unary_at = (uint32_t)unary_at;
    planes->magnitudes_at = (uint32_t)magnitudes_at;
    chosen->bytes = bytes <= job->room ? (uint32_t)bytes : 0;
}

/* ---- a frame */

WEFT_DEVICE void weft_k_quads_clear(uint64_t at, uint32_t quads)
{
    for (uint32_t q = weft_thread(); q < quads; q += WEFT_BLOCK)
        WEFT_AT(weft_quad, at)[q] = {0, 0, 0, 0};
}

WEFT_DEVICE void weft_k_quads_copy(uint64_t to, uint64_t from, uint32_t quads)
{
    for (uint32_t q = weft_thread(); q < quads; q += WEFT_BLOCK) {
        const weft_quad quad = WEFT_AT(const weft_quad, from)[q];
        WEFT_AT(weft_quad, to)[q] = {quad.x, quad.y, quad.z, quad.w}; /* by words: clang makes two stores of a copy */
    }
}

typedef struct weft_frame_shared {
    weft_fast_shared fast;
    weft_fast_chosen chosen;
} weft_frame_shared;

WEFT_KERNEL(fast_frame)(const weft_k_fast_frame *rows)
{
    WEFT_SHARED(weft_frame_shared, shared);
    const weft_k_fast_job *job = rows + weft_block();
    const weft_k_changes *changes = &job->changes;
    if (changes->count == 0)
        return;
    weft_fast_counts(&shared.fast, changes, WEFT_AT(uint32_t, job->ranks));
    if (weft_thread() == 0)
        weft_fast_choose(&shared.chosen, &shared.fast.counts, job);
    weft_barrier();
    const weft_fast_chosen *chosen = &shared.chosen;
    const uint32_t quads = weft_k_quads(chosen->bytes);
    weft_k_quads_clear(job->payload, quads); /* the sums of the planes have a barrier before the first one is set */
    if (quads > 0)
        weft_fast_planes(&shared.fast.sums, &chosen->planes, changes);
    weft_barrier();
    weft_k_quads_copy(job->copy, job->payload, quads);
    if (weft_thread() == 0)
        *WEFT_AT(weft_quad,
                 job->made) = {job->place, chosen->bytes, chosen->planes.exceptions,
                               chosen->planes.gap_bits | chosen->planes.magnitude_bits << 16 | shared.fast.still << 24};
}

#endif

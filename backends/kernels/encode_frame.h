/* encode_frame.h - whole payloads without a word from the host between two launches: memory for the lists and frames of
 * a batch, then for level fast a block for each job that counts, chooses as core/codec/fast.c does, and writes. */
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

/* Room for a payload of so many bits a change beyond the low bits of its gap, but never more than is worth a frame. */
WEFT_DEVICE uint32_t weft_k_payload_room(const weft_k_frame_job *job, uint32_t changed, uint32_t bits)
{
    const uint64_t all = weft_k_rice(job->changes.elements, changed) + bits;
    const uint64_t most = (changed * all / 8 + 256 + 3) / 4 * 4;
    return most < job->payload_most ? (uint32_t)most : job->payload_most;
}

/* Bytes of the payloads of a job, and quads of its frames with them; none where the level is not wanted. */
typedef struct weft_k_rooms {
    uint32_t fast, tight;
    uint32_t fast_quads, tight_quads;
} weft_k_rooms;

WEFT_DEVICE weft_k_rooms weft_k_rooms_of(const weft_k_frame_job *job, uint32_t changed)
{
    const uint32_t width = job->changes.width;
    const uint32_t fast = weft_k_payload_room(job, changed, WEFT_K_FAST_BITS(width));
    const uint32_t tight = weft_k_payload_room(job, changed, WEFT_K_TIGHT_BITS(width));
    return {fast, tight, job->fast.made ? 1 + weft_k_quads(fast) : 0, job->tight ? 1 + weft_k_quads(tight) : 0};
}

/* Bytes of the sets of a job: of its elements by classes two times, and of its changes. */
WEFT_DEVICE uint64_t weft_k_class_bytes(uint32_t elements)
{
    return ((uint64_t)elements + WEFT_K_CLASSES * WEFT_K_SET_ALIGN + 127) / 128 * 16;
}

WEFT_DEVICE uint64_t weft_k_sets_bytes(uint32_t elements, uint32_t changed)
{
    return 2 * weft_k_class_bytes(elements) + ((uint64_t)changed + 127) / 128 * 16;
}

/* Memory that is given out quad by quad. */
typedef struct weft_k_giver {
    uint64_t at;
} weft_k_giver;

WEFT_DEVICE uint64_t weft_k_give(weft_k_giver *giver, uint64_t bytes)
{
    const uint64_t at = giver->at;
    giver->at += 16 * (uint64_t)weft_k_quads(bytes);
    return at;
}

/* Lays out the lists of a job with so many changes. */
WEFT_DEVICE void weft_frame_lay(weft_k_giver *giver, weft_k_frame_job *job, uint32_t changed)
{
    const uint64_t words = 4 * (uint64_t)changed, elements = changed * (uint64_t)job->changes.width;
    job->changes.position = weft_k_give(giver, words);
    job->changes.before = weft_k_give(giver, elements);
    job->changes.after = weft_k_give(giver, elements);
    if (job->fast.made)
        job->ranks = weft_k_give(giver, words);
    if (!job->tight)
        return;
    weft_k_tight_job *tight = WEFT_AT(weft_k_tight_job, job->tight);
    tight->counts = weft_k_give(giver, 4 * WEFT_K_CLASSES * ((uint64_t)tight->slices + 1));
    tight->ranks = weft_k_give(giver, words);
    tight->sets = weft_k_give(giver, weft_k_sets_bytes(job->changes.elements, changed));
    tight->members = weft_k_give(giver, 3 * words); /* each of three sorts of lists has no more */
    tight->lists = weft_k_give(giver, WEFT_K_TIGHT_LISTS * sizeof(weft_k_set_list));
}

/* Quads of that. The lists are laid out anew where they come to lie. */
WEFT_DEVICE uint32_t weft_frame_quads(weft_k_frame_job *job, uint32_t changed)
{
    weft_k_giver giver = {0};
    weft_frame_lay(&giver, job, changed);
    return (uint32_t)(giver.at / 16);
}

WEFT_DEVICE void weft_payload_lay(const weft_k_frame_lists *row, weft_k_payload *payload, uint32_t room, uint32_t frame)
{
    payload->device = row->payloads + 16 * (uint64_t)frame;
    payload->copy = row->copies + 16 * (uint64_t)frame;
    payload->place = frame;
    payload->room = room;
}

/* Lays out the payloads of a job from quad `frame` on. */
WEFT_DEVICE void weft_payloads_lay(const weft_k_frame_lists *row, weft_k_frame_job *job, const weft_k_rooms *rooms,
                                   uint32_t frame)
{
    if (job->fast.made)
        weft_payload_lay(row, &job->fast, rooms->fast, frame + 1);
    if (job->tight)
        weft_payload_lay(row, &WEFT_AT(weft_k_tight_job, job->tight)->payload, rooms->tight,
                         frame + rooms->fast_quads + 1);
}

WEFT_KERNEL(frame_lists)(const weft_k_frame_lists *rows)
{
    WEFT_SHARED(weft_block_sums, sums);
    const weft_k_frame_lists *row = rows + weft_block();
    uint32_t lists = 0, frames = 0;
    for (uint32_t first = 0; first < row->count; first += WEFT_BLOCK) {
        const uint32_t i = first + weft_thread();
        weft_k_frame_job *job = WEFT_AT(weft_k_frame_job, row->jobs) + i;
        uint32_t changed = 0, list = 0, frame = 0;
        weft_k_rooms rooms = {0, 0, 0, 0};
        if (i < row->count && !job->done)
            changed = *WEFT_AT(const uint32_t, job->total);
        if (changed > 0 && changed <= job->changed_most) {
            rooms = weft_k_rooms_of(job, changed);
            list = weft_frame_quads(job, changed);
            frame = rooms.fast_quads + rooms.tight_quads;
        }
        uint32_t list_all, frame_all;
        const uint32_t list_at = lists + weft_block_prefix(&sums, list, &list_all);
        const uint32_t frame_at = frames + weft_block_prefix(&sums, frame, &frame_all);
        const bool fits = frame > 0 && list_at + list <= row->list_quads && frame_at + frame <= row->frame_quads;
        if (i < row->count)
            job->changes.count = fits ? changed : 0;
        if (fits) {
            weft_k_giver giver = {row->lists + 16 * (uint64_t)list_at};
            weft_frame_lay(&giver, job, changed);
            weft_payloads_lay(row, job, &rooms, frame_at);
            job->done = 1;
        }
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
    weft_k_fast_planes planes;
    uint32_t bytes; /* 0: not worth a frame */
} weft_fast_chosen;

/* Chooses the parameters, as weft_fast_plan_of does, and places the planes. By one thread. */
WEFT_DEVICE void weft_fast_choose(weft_fast_chosen *chosen, const weft_k_fast_counts *counts,
                                  const weft_k_frame_job *job)
{
    weft_k_fast_planes *planes = &chosen->planes;
    const uint32_t m = job->changes.count, e = counts->exceptions;
    uint64_t highs = 0, ranks = 0, lengths = 0;
    planes->ranks = job->ranks;
    planes->payload = job->fast.device;
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
    chosen->bytes = bytes <= job->fast.room ? (uint32_t)bytes : 0;
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

/* Leaves a payload on the host, and what the host must know of it. */
WEFT_DEVICE void weft_frame_leave(const weft_k_payload *payload, uint32_t bytes, uint32_t third, uint32_t fourth)
{
    weft_k_quads_copy(payload->copy, payload->device, weft_k_quads(bytes));
    if (weft_thread() == 0)
        *WEFT_AT(weft_quad, payload->made) = {payload->place, bytes, third, fourth};
}

WEFT_KERNEL(fast_frame)(const weft_k_fast_frame *rows)
{
    WEFT_SHARED(weft_frame_shared, shared);
    const weft_k_frame_job *job = rows + weft_block();
    const weft_k_changes *changes = &job->changes;
    if (changes->count == 0 || !job->fast.made)
        return;
    weft_fast_counts(&shared.fast, changes, WEFT_AT(uint32_t, job->ranks));
    if (weft_thread() == 0)
        weft_fast_choose(&shared.chosen, &shared.fast.counts, job);
    weft_barrier();
    const weft_fast_chosen *chosen = &shared.chosen;
    weft_k_quads_clear(job->fast.device, weft_k_quads(chosen->bytes)); /* the planes' sums have a barrier before the
                                                                          first one is set */
    if (chosen->bytes > 0)
        weft_fast_planes(&shared.fast.sums, &chosen->planes, changes);
    weft_barrier();
    weft_frame_leave(&job->fast, chosen->bytes, chosen->planes.exceptions,
                     chosen->planes.gap_bits | chosen->planes.magnitude_bits << 16 | shared.fast.still << 24);
}

#endif

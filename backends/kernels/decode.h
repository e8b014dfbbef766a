/* decode.h - what the kernels that read frames have in common: the payload's bits, the view's elements, faults.
 *
 * A frame is read by several launches, each over parts of all frames of a batch. Nothing of a payload is believed: bits
 * beyond its end read as zero, what comes out is compared with its bound before it is an index, and a launch that finds
 * a fault notes it in a word of its own, so that the launches after it do nothing and all threads agree on that. */
#ifndef WEFT_BACKENDS_KERNELS_DECODE_H
#define WEFT_BACKENDS_KERNELS_DECODE_H

#include "backends/kernels/block.h"
#include "backends/kernels/view.h"

#define WEFT_K_EACH  (WEFT_K_CHANGES / WEFT_BLOCK)  /* changes of a thread */
#define WEFT_K_SHARE (WEFT_K_ELEMENTS / WEFT_BLOCK) /* elements of a thread, one after the other: a mask's bits */

WEFT_DEVICE const weft_k_decode *weft_decode_of(const weft_k_part *part)
{
    return WEFT_AT(const weft_k_decode, part->job);
}

WEFT_DEVICE void weft_fault_note(const weft_k_decode *job, uint32_t launch, uint32_t what)
{
    weft_or32(WEFT_AT(uint32_t, job->faults) + launch, what);
}

/* Whether a launch before this one found a fault. */
WEFT_DEVICE bool weft_faulted(const weft_k_decode *job, uint32_t launch)
{
    const uint32_t *faults = WEFT_AT(const uint32_t, job->faults);
    uint32_t all = 0;
    for (uint32_t l = 0; l < launch; l++)
        all |= faults[l];
    return all != 0;
}

WEFT_DEVICE uint32_t weft_payload_word(const weft_k_decode *job, uint64_t word)
{
    return word < job->words ? WEFT_AT(const uint32_t, job->payload)[word] : 0;
}

/* `count` bits (at most 32) from bit `at`. */
WEFT_DEVICE uint32_t weft_payload_bits(const weft_k_decode *job, uint64_t at, uint32_t count)
{
    const uint64_t word = at / 32;
    const uint64_t two = weft_payload_word(job, word) | (uint64_t)weft_payload_word(job, word + 1) << 32;
    return (uint32_t)(two >> at % 32 & ((1ull << count) - 1));
}

/* The same up to 63 bits. */
WEFT_DEVICE uint64_t weft_payload_long(const weft_k_decode *job, uint64_t at, uint32_t count)
{
    const uint32_t low = count < 32 ? count : 32;
    return weft_payload_bits(job, at, low) | (uint64_t)weft_payload_bits(job, at + 32, count - low) << 32;
}

/* Whether the bits from `at` to the end of its byte are zero. */
WEFT_DEVICE bool weft_payload_clear(const weft_k_decode *job, uint64_t at)
{
    return weft_payload_bits(job, at, (uint32_t)((0 - at) % 8)) == 0;
}

/* Notes where the payload does not end, padded with zeros, after the magnitudes, whose last bit is before `end`;
 * `fields` and `ranks` are the ends of two more planes. One thread's work. */
WEFT_DEVICE void weft_payload_ends(const weft_k_decode *job, uint32_t launch, uint64_t fields, uint64_t ranks,
                                   uint64_t end)
{
    if ((end + 31) / 32 != job->words)
        weft_fault_note(job, launch, WEFT_K_FAULT_END);
    else if (weft_payload_bits(job, end, (uint32_t)((0 - end) % 32)) != 0 || !weft_payload_clear(job, fields) ||
             !weft_payload_clear(job, ranks))
        weft_fault_note(job, launch, WEFT_K_FAULT_PADDING);
}

/* Elements from a thread's first one on to the end of its share or of the view. */
WEFT_DEVICE uint32_t weft_share_of(const weft_k_decode *job, uint32_t first)
{
    const uint32_t left = first < job->view.count ? job->view.count - first : 0;
    return left < WEFT_K_SHARE ? left : WEFT_K_SHARE;
}

/* Sum of the words before `index` of `count` that an earlier launch left, and of all. Collective. */
WEFT_DEVICE uint32_t weft_words_before(weft_block_sums *sums, uint64_t words, uint32_t index, uint32_t count,
                                       uint32_t *all)
{
    uint32_t below = 0, above = 0, before;
    for (uint32_t i = weft_thread(); i < count; i += WEFT_BLOCK) {
        const uint32_t word = WEFT_AT(const uint32_t, words)[i];
        below += i < index ? word : 0;
        above += i < index ? 0 : word;
    }
    weft_block_prefix(sums, below, &before);
    weft_block_prefix(sums, above, all);
    *all += before;
    return before;
}

/* Digests of changes that come in order of position go to the words of their runs; the changes are counted. */
typedef struct weft_delta {
    uint64_t sum;
    uint32_t run;  /* that `sum` is of */
    bool one;      /* all changes of the block are of one run */
    uint32_t kept; /* changes so far */
} weft_delta;

/* For a block whose changes lie between two positions, both of the view. */
WEFT_DEVICE weft_delta weft_delta_begin(const weft_k_decode *job, uint32_t first, uint32_t last)
{
    const uint32_t run = weft_run_at(&job->view, first);
    return {0, run, run == weft_run_at(&job->view, last), 0};
}

WEFT_DEVICE void weft_delta_flush(const weft_k_decode *job, const weft_delta *delta)
{
    if (delta->sum != 0)
        weft_add64(WEFT_AT(uint64_t, job->deltas) + delta->run, delta->sum);
}

WEFT_DEVICE void weft_delta_add(const weft_k_decode *job, weft_delta *delta, uint32_t run, uint32_t position,
                                uint64_t before, uint64_t after)
{
    const weft_k_run *of = weft_runs(&job->view) + run;
    const uint64_t index = of->element + (position - of->position);
    if (position >= job->limit)
        return;
    if (run != delta->run) {
        weft_delta_flush(job, delta);
        delta->run = run;
        delta->sum = 0;
    }
    delta->sum += weft_k_term(index, after) - weft_k_term(index, before);
    delta->kept++;
}

/* Collective. */
WEFT_DEVICE void weft_delta_end(const weft_k_decode *job, const weft_delta *delta)
{
    if (delta->one)
        weft_block_add64(WEFT_AT(uint64_t, job->deltas) + delta->run, delta->sum);
    else
        weft_delta_flush(job, delta);
    const uint32_t kept = weft_warp_sum(delta->kept);
    if (weft_lane() == 0 && kept != 0)
        weft_add32(WEFT_AT(uint32_t, job->kept), kept);
}

/* An element moved by signed steps in the order of its dtype. */
template <unsigned width>
WEFT_DEVICE typename weft_bits_of<width>::type weft_element_step(typename weft_bits_of<width>::type before,
                                                                 uint64_t steps, bool is_float)
{
    typedef typename weft_bits_of<width>::type bits;
    const bits top = (bits)1 << (8 * width - 1), flip = is_float ? top - 1 : 0;
    const bits place = ((before ^ (before & top ? flip : 0)) + (bits)steps) & (top | (top - 1));
    return place ^ (place & top ? flip : 0);
}

/* Whether steps go down in a word of the width. */
template <unsigned width> WEFT_DEVICE bool weft_steps_down(uint64_t steps)
{
    return steps >> (8 * width - 1) & 1;
}

/* Signed steps of a magnitude; 0 if there is no such of the width. */
template <unsigned width> WEFT_DEVICE uint64_t weft_steps_of(uint64_t excess, uint64_t add, bool down)
{
    const uint64_t top = 1ull << (8 * width - 1);
    if (excess > top - add || (excess == top - add && !down))
        return 0;
    return down ? 0 - (excess + add) : excess + add;
}

#endif

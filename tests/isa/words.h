/* words.h - a kernel that uses every word of the lane vocabulary, and one of plain loads and sums: what the images, the
 * interpreter and a device are tried with before weft's own kernels. */
#ifndef WEFT_TESTS_ISA_WORDS_H
#define WEFT_TESTS_ISA_WORDS_H

#include <stdint.h>

struct weft_k_words {
    uint64_t input;  /* WEFT_BLOCK quads */
    uint64_t output; /* 8 words of 32 bits a thread */
    uint64_t totals; /* one word of 64 bits, one of 32, one of 32 */
};

#ifdef WEFT_LANES
WEFT_DEVICE uint64_t words_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

WEFT_KERNEL(words)(const struct weft_k_words *rows)
{
    WEFT_SHARED(uint32_t, ones);
    WEFT_SHARED(uint64_t, sum);
    WEFT_SHARED(uint32_t, seen[WEFT_BLOCK]);
    const struct weft_k_words row = rows[weft_block()];
    const uint32_t thread = weft_thread(), lane = weft_lane();
    uint32_t *out = WEFT_AT(uint32_t, row.output) + 8 * thread;
    uint32_t *totals = WEFT_AT(uint32_t, row.totals);
    if (thread == 0) {
        ones = 0;
        sum = 0;
    }
    weft_barrier();
    weft_quad quad = weft_load_stream(WEFT_AT(const weft_quad, row.input) + thread);
    uint64_t mask = weft_ballot(quad.x & 1), below = mask & ((UINT64_C(1) << lane) - 1);
    out[0] = weft_ones(below);
    out[1] = mask ? weft_lowest(mask) : 64;
    out[2] = mask ? weft_highest(mask) : 64;
    out[3] = weft_shuffle(quad.y, (lane * 5 + 3) % WEFT_LANES);
    seen[(thread * 7) % WEFT_BLOCK] = quad.z;
    weft_add64(&sum, words_mix(quad.w + (uint64_t)quad.x * thread));
    if (lane == 0)
        weft_add32(&ones, weft_ones(mask));
    weft_barrier();
    out[4] = seen[thread];
    out[5] = weft_blocks();
    out[6] = ones;
    out[7] = (uint32_t)(sum >> 32);
    if (thread == 0) {
        weft_add64((uint64_t *)totals, sum);
        weft_add32(totals + 2, ones);
        weft_or32(totals + 3, 1u << weft_block());
    }
}
#endif

#endif

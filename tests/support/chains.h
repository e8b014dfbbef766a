/* chains.h - an arena's chains filled with frames whose sizes and bytes follow from a seed. */
#ifndef WEFT_TESTS_CHAINS_H
#define WEFT_TESTS_CHAINS_H

#include <string.h>

#include "journal/arena.h"
#include "layout/digest.h"

/* Bytes of the n-th frame of a chain, a multiple of 4 in 16..largest. */
static inline uint32_t chain_frame_bytes(uint64_t seed, uint64_t n, uint32_t largest)
{
    uint64_t random = weft_mix64(seed ^ weft_mix64(n));
    uint32_t most = random & 1 ? largest : largest / 16 + 16; /* many small ones */
    return 16 + (uint32_t)((random >> 8) % ((most - 16) / 4 + 1)) * 4;
}

static inline uint8_t chain_byte(uint64_t seed, uint64_t n)
{
    return (uint8_t)weft_mix64(seed * 31 + n);
}

/* Appends the chain's next frame, of unit `unit`; false if the arena is full. */
static inline bool chain_append(weft_arena *arena, weft_chain *chain, uint64_t seed, uint32_t unit, uint32_t largest)
{
    uint32_t bytes = chain_frame_bytes(seed, chain->frames, largest);
    weft_frame_sink sink = weft_chain_sink(arena, chain);
    if (sink.capacity < bytes) {
        if (!weft_chain_extend(arena, chain))
            return false;
        sink = weft_chain_sink(arena, chain);
    }
    if (sink.capacity < bytes)
        return false;
    memset(sink.data, chain_byte(seed, chain->frames), bytes);
    weft_chain_note(arena, chain, unit, bytes);
    return true;
}

#endif

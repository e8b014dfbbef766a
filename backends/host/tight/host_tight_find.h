/* host_tight_find.h - diff and ranks in one pass, in 256-bit vectors: a block of 2048 elements is compared, its class
 * numbers are made while the shadow's bits are at hand, its classes counted (host_tight_blocks.h), and then what
 * changed is looked up. The block never leaves the first cache, and memory brings the next while vectors count. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_FIND_H
#define WEFT_BACKENDS_HOST_TIGHT_FIND_H

#include "backends/host/tight/host_tight_blocks.h"

/* Bytes that are asked for ahead of use in each stream. */
#define WEFT_FIND_AHEAD 4096u

/* Class numbers of 32 elements. */
WEFT_ALWAYS_INLINE void weft_block_number_32(const uint8_t *data, const weft_block_map *map, uint8_t *number,
                                             unsigned width)
{
    const __m256i over = _mm256_subs_epu8(BLOCK_EXPONENTS(data, map, width), map->below);
    const __m256i numbers = _mm256_shuffle_epi8(map->numbers, _mm256_min_epu8(over, _mm256_set1_epi8(15)));
    _mm256_store_si256((__m256i *)(void *)number, numbers);
}

/* The other way. */
WEFT_ALWAYS_INLINE uint32_t weft_block_class(uint32_t number, uint32_t n)
{
    return number < 8 ? number : number - 8 + n / 2;
}

/* Lists the positions in a block that differ and numbers its elements; returns how many. */
WEFT_ALWAYS_INLINE uint32_t weft_find_compare(const weft_host_pair *pair, uint32_t begin, const weft_block_map *map,
                                              weft_tight_block *block, uint32_t *position, unsigned width)
{
    uint32_t found = 0;
    for (uint32_t at = begin; at < begin + WEFT_BLOCK_ELEMENTS; at += 64) {
        const uint8_t *now = pair->now + (uint64_t)at * width, *shadow = pair->shadow + (uint64_t)at * width;
        weft_ahead_stream(now, WEFT_FIND_AHEAD, width);
        found += weft_word_list(weft_word_differ(now, shadow, width), pair->first + at, position + found);
        weft_block_number_32(shadow, map, block->number + (at - begin), width);
        weft_block_number_32(shadow + 32 * width, map, block->number + (at - begin) + 32, width);
    }
    return found;
}

/* Counts the numbers of a block. */
WEFT_ALWAYS_INLINE void weft_block_count(const uint8_t *shadow, weft_tight_block *block, uint32_t n, unsigned width)
{
    __m256i before = _mm256_setzero_si256();
    for (uint32_t p = 0; p < WEFT_BLOCK_PARTS; p++) {
        const uint8_t *part = block->number + p * WEFT_BLOCK_PART;
        __m256i numbers[4];
        weft_ahead_stream(shadow + (uint64_t)p * WEFT_BLOCK_PART * width, WEFT_FIND_AHEAD, 2 * width);
        for (unsigned i = 0; i < 4; i++)
            numbers[i] = WEFT_LOAD_256(part + 32 * i);
        _mm256_store_si256((__m256i *)(void *)block->before[p], before);
        before = _mm256_add_epi16(before, weft_block_counts(numbers, n));
    }
    _mm256_store_si256((__m256i *)(void *)block->all, before);
}

/* Ones as many as there are elements before one in its part, then zeros: read from a place in the middle. */
static const uint8_t weft_find_ones[2 * WEFT_BLOCK_PART] = {
#define ONES_8  1, 1, 1, 1, 1, 1, 1, 1
#define ONES_32 ONES_8, ONES_8, ONES_8, ONES_8
    ONES_32, ONES_32, ONES_32, ONES_32};

/* How many elements of the part before the `in`-th have the number. */
WEFT_ALWAYS_INLINE uint32_t weft_find_before(const uint8_t *numbers, uint8_t number, uint32_t in)
{
    const __m256i wanted = _mm256_set1_epi8((char)number);
    const uint8_t *ones = weft_find_ones + WEFT_BLOCK_PART - in;
    __m256i hit[4];
    for (unsigned i = 0; i < 4; i++)
        hit[i] =
            _mm256_and_si256(_mm256_cmpeq_epi8(WEFT_LOAD_256(numbers + 32 * i), wanted), WEFT_LOAD_256(ones + 32 * i));
    __m256i all = _mm256_add_epi8(_mm256_add_epi8(hit[0], hit[1]), _mm256_add_epi8(hit[2], hit[3]));
    all = _mm256_sad_epu8(all, _mm256_setzero_si256());
    __m128i half = _mm_add_epi64(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi64(half, _mm_unpackhi_epi64(half, half)));
}

/* Fills in what is listed of a block. */
WEFT_ALWAYS_INLINE void weft_find_look(const weft_host_pair *pair, uint32_t begin, const weft_tight_block *block,
                                       const uint8_t *class_of, const uint32_t *reached, uint32_t changes,
                                       const weft_host_found *found, unsigned width)
{
    for (uint32_t i = 0; i < changes; i++) {
        const uint32_t index = found->position[i] - pair->first, at = index - begin, part = at / WEFT_BLOCK_PART;
        const uint8_t number = block->number[at];
        weft_element_put(found->before, i, weft_element_get(pair->shadow, index, width), width);
        weft_element_put(found->after, i, weft_element_get(pair->now, index, width), width);
        found->class[i] = class_of[number];
        found->rank[i] = reached[number] + block->before[part][number] +
                         weft_find_before(block->number + part * WEFT_BLOCK_PART, number, at % WEFT_BLOCK_PART);
    }
}

#define WEFT_TIGHT_FIND_OF(P, W, N)                                                                                    \
    static uint32_t P##_find_##W##_##N(const weft_host_pair *pair, const weft_class_map *map, uint32_t *population,    \
                                       const weft_host_found *found)                                                   \
    {                                                                                                                  \
        const weft_block_map numbers = weft_block_map_of(map, N);                                                      \
        uint32_t at = 0, changes = 0, reached[16] = {0};                                                               \
        uint8_t class_of[16];                                                                                          \
        weft_tight_block block;                                                                                        \
        for (uint32_t number = 0; number < 16; number++)                                                               \
            class_of[number] = (uint8_t)weft_block_class(number, N);                                                   \
        for (uint32_t c = 0; c < map->count; c++)                                                                      \
            reached[weft_block_number(c, N)] = population[c];                                                          \
        for (; pair->count - at >= WEFT_BLOCK_ELEMENTS; at += WEFT_BLOCK_ELEMENTS) {                                   \
            const weft_host_found to = weft_found_behind(found, changes, W);                                           \
            uint32_t here = weft_find_compare(pair, at, &numbers, &block, to.position, W);                             \
            weft_block_count(pair->shadow + (uint64_t)at * W, &block, N, W);                                           \
            weft_find_look(pair, at, &block, class_of, reached, here, &to, W);                                         \
            for (uint32_t n = 0; n < 16; n++)                                                                          \
                reached[n] += block.all[n];                                                                            \
            changes += here;                                                                                           \
        }                                                                                                              \
        for (uint32_t c = 0; c < map->count; c++)                                                                      \
            population[c] = reached[weft_block_number(c, N)];                                                          \
        return changes;                                                                                                \
    }

#define WEFT_TIGHT_FIND_BLOCKS(P, W)                                                                                   \
    WEFT_TIGHT_FIND_OF(P, W, 4)                                                                                        \
    WEFT_TIGHT_FIND_OF(P, W, 8)                                                                                        \
    WEFT_TIGHT_FIND_OF(P, W, 12)                                                                                       \
    WEFT_TIGHT_FIND_OF(P, W, 16)                                                                                       \
    static uint32_t P##_find_##W(const weft_host_kernels *kernels, const weft_host_pair *pair,                         \
                                 const weft_class_map *map, uint32_t population[WEFT_CLASS_MAX],                       \
                                 const weft_host_found *found)                                                         \
    {                                                                                                                  \
        static uint32_t (*const of[])(const weft_host_pair *, const weft_class_map *, uint32_t *,                      \
                                      const weft_host_found *) = {P##_find_##W##_4, P##_find_##W##_8,                  \
                                                                  P##_find_##W##_12, P##_find_##W##_16};               \
        uint32_t changes = 0, at = 0;                                                                                  \
        if (weft_block_can(map)) {                                                                                     \
            changes = of[(map->count - 1) / 4](pair, map, population, found);                                          \
            at = pair->count / WEFT_BLOCK_ELEMENTS * WEFT_BLOCK_ELEMENTS;                                              \
        }                                                                                                              \
        const weft_host_pair rest = weft_pair_behind(pair, at, W);                                                     \
        const weft_host_found to = weft_found_behind(found, changes, W);                                               \
        return changes + weft_loop_find(kernels, P##_rank_##W, &rest, map, population, &to, W);                        \
    }

#endif

/* host_tight_blocks.h - the loops of level tight over blocks of 2048 elements in 256-bit vectors, for few changes among
 * many elements: what is done for every element is to count its class, what is done for a change costs more.
 *
 * Where all thresholds lie within 15 exponents, two saturations and a shuffle turn 32 exponents into class numbers.
 * Counting: a shuffle turns a class number into a one in the low or the high nibble of a byte for two of the classes,
 * and zero for the others; over the 128 elements of a part four such bytes add up, and sums of absolute differences
 * gather them. So a block gives the class numbers of its elements, and for each part how many of a class come before it
 * in the block. A rank is that number plus the equal class numbers before the element in its part; the other way, a
 * search over the 16 parts and pdep find the element.
 *
 * Sixteen counts of 8 bits have two classes of 64 bits: of N classes the first half is numbered from 0, the second from
 * 8 on. N is known when compiled, the next multiple of four. Blocks full of changes, the last elements, and thresholds
 * further apart are left to the loops over words. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_BLOCKS_H
#define WEFT_BACKENDS_HOST_TIGHT_BLOCKS_H

#include "backends/host/tight/host_tight_words.h"

#define WEFT_BLOCK_ELEMENTS 2048u
#define WEFT_BLOCK_PART     128u
#define WEFT_BLOCK_PARTS    (WEFT_BLOCK_ELEMENTS / WEFT_BLOCK_PART)
#define WEFT_BLOCK_SPAN     15u  /* exponents from the first to the last threshold */
#define WEFT_BLOCK_MANY     256u /* changes in a block that are better sought word by word */

/* From exponents to class numbers. */
typedef struct weft_block_map {
    __m256i below;   /* an exponent that is below all thresholds, or 0 */
    __m256i numbers; /* of the exponents from there on */
    __m128i shift;
    uint32_t mask;
} weft_block_map;

typedef struct weft_tight_block {
    _Alignas(32) uint8_t number[WEFT_BLOCK_ELEMENTS];
    _Alignas(32) uint16_t before[WEFT_BLOCK_PARTS][16]; /* of each class number: how many before the part */
    _Alignas(32) uint16_t starts[16][WEFT_BLOCK_PARTS]; /* the same by class number */
    _Alignas(32) uint16_t all[16];                      /* and in the block */
} weft_tight_block;

WEFT_ALWAYS_INLINE uint32_t weft_block_number(uint32_t class, uint32_t n)
{
    return class < n / 2 ? class : class - n / 2 + 8;
}

static inline bool weft_block_can(const weft_class_map *map)
{
    const weft_classes *classes = map->classes;
    return map->count < 2 || classes->threshold[map->count - 2] - classes->threshold[0] < WEFT_BLOCK_SPAN;
}

WEFT_ALWAYS_INLINE weft_block_map weft_block_map_of(const weft_class_map *map, uint32_t n)
{
    const uint32_t below = map->count > 1 ? map->classes->threshold[0] - 1 : 0;
    uint8_t numbers[16];
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t exponent = below + i < map->mask ? below + i : map->mask;
        numbers[i] = (uint8_t)weft_block_number(map->of[exponent], n);
    }
    return (weft_block_map){.below = _mm256_set1_epi8((char)below),
                            .numbers = _mm256_broadcastsi128_si256(WEFT_LOAD_128(numbers)),
                            .shift = _mm_cvtsi32_si128((int)map->shift),
                            .mask = map->mask};
}

/* Where class numbers count: a one in a nibble; the vectors 2k and 2k + 1 are for the numbers 2k, 2k + 1 and 8 + 2k,
 * 8 + 2k + 1. */
static const uint8_t weft_block_ones[8][16] = {
    {1, 16},
    {0, 0, 0, 0, 0, 0, 0, 0, 1, 16},
    {0, 0, 1, 16},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 16},
    {0, 0, 0, 0, 1, 16},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 16},
    {0, 0, 0, 0, 0, 0, 1, 16},
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 16},
};

WEFT_ALWAYS_INLINE __m256i weft_block_nibbles(const __m256i *numbers, const uint8_t *ones)
{
    const __m256i table = _mm256_broadcastsi128_si256(WEFT_LOAD_128(ones));
    __m256i a = _mm256_add_epi8(_mm256_shuffle_epi8(table, numbers[0]), _mm256_shuffle_epi8(table, numbers[1]));
    __m256i b = _mm256_add_epi8(_mm256_shuffle_epi8(table, numbers[2]), _mm256_shuffle_epi8(table, numbers[3]));
    return _mm256_add_epi8(a, b);
}

/* How many of each class number are among 128: 16 words of 16 bits. */
WEFT_ALWAYS_INLINE __m256i weft_block_counts(const __m256i *numbers, uint32_t n)
{
    const __m256i nibble = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    __m256i all = zero;
    WEFT_UNROLL for (uint32_t k = 0; k < n / 4; k++)
    {
        __m256i a = weft_block_nibbles(numbers, weft_block_ones[2 * k]);
        __m256i b = weft_block_nibbles(numbers, weft_block_ones[2 * k + 1]);
        __m256i both = _mm256_add_epi8(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
        __m256i low = _mm256_sad_epu8(_mm256_and_si256(both, nibble), zero);
        __m256i high = _mm256_sad_epu8(_mm256_and_si256(_mm256_srli_epi16(both, 4), nibble), zero);
        all = _mm256_or_si256(all, _mm256_slli_epi64(_mm256_or_si256(low, _mm256_slli_epi64(high, 8)), (int)(16 * k)));
    }
    all = _mm256_add_epi8(all, _mm256_srli_si256(all, 8));
    return _mm256_cvtepu8_epi16(_mm_unpacklo_epi64(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
}

WEFT_ALWAYS_INLINE void weft_block_take(const uint8_t *data, const weft_block_map *map, weft_tight_block *block,
                                        uint32_t n, unsigned width)
{
    const __m256i top = _mm256_set1_epi8(15);
    __m256i before = _mm256_setzero_si256();
    for (uint32_t p = 0; p < WEFT_BLOCK_PARTS; p++) {
        const uint8_t *part = data + (uint64_t)p * WEFT_BLOCK_PART * width;
        __m256i *to = (__m256i *)(void *)(block->number + p * WEFT_BLOCK_PART), numbers[4];
        weft_ahead_stream(part, WEFT_WORDS_AHEAD, 2 * width);
        for (unsigned i = 0; i < 4; i++) {
            __m256i over = _mm256_subs_epu8(BLOCK_EXPONENTS(part + 32 * i * width, map, width), map->below);
            numbers[i] = _mm256_shuffle_epi8(map->numbers, _mm256_min_epu8(over, top));
            _mm256_store_si256(to + i, numbers[i]);
        }
        _mm256_store_si256((__m256i *)(void *)block->before[p], before);
        before = _mm256_add_epi16(before, weft_block_counts(numbers, n));
    }
    _mm256_store_si256((__m256i *)(void *)block->all, before);
}

/* The elements of one class in a part, a bit for each. */
typedef struct weft_block_mask {
    uint64_t low, high;
} weft_block_mask;

WEFT_ALWAYS_INLINE uint64_t weft_block_equal(const uint8_t *numbers, __m256i number)
{
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(WEFT_LOAD_256(numbers), number));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(WEFT_LOAD_256(numbers + 32), number));
    return low | (uint64_t)high << 32;
}

WEFT_ALWAYS_INLINE weft_block_mask weft_block_members(const weft_tight_block *block, uint32_t part, uint32_t number)
{
    const uint8_t *numbers = block->number + part * WEFT_BLOCK_PART;
    const __m256i wanted = _mm256_set1_epi8((char)number);
    return (weft_block_mask){weft_block_equal(numbers, wanted), weft_block_equal(numbers + 64, wanted)};
}

/* Ranks of the changes in a block; returns the first change after it. reached[number] members come before it. */
WEFT_ALWAYS_INLINE uint32_t weft_block_rank(const weft_tight_block *block, uint32_t begin, const uint32_t *reached,
                                            const uint32_t *position, uint32_t i, uint32_t changes, uint32_t *ranks)
{
    for (; i < changes && position[i] - begin < WEFT_BLOCK_ELEMENTS; i++) {
        uint32_t at = position[i] - begin, number = block->number[at], part = at / WEFT_BLOCK_PART;
        weft_block_mask members = weft_block_members(block, part, number);
        uint32_t in = at % WEFT_BLOCK_PART;
        uint64_t low = _bzhi_u64(members.low, in), high = _bzhi_u64(members.high, in - 64); /* beyond 63: all bits */
        high &= 0 - (uint64_t)(in / 64);
        ranks[i] = reached[number] + block->before[part][number] +
                   (uint32_t)(__builtin_popcountll(low) + __builtin_popcountll(high));
    }
    return i;
}

/* Eight rows of eight words in each half of the vectors, turned about. */
WEFT_ALWAYS_INLINE void weft_lanes_turn(__m256i rows[8])
{
    for (unsigned round = 0; round < 3; round++) {
        __m256i next[8];
        for (unsigned i = 0; i < 4; i++) {
            next[2 * i] = _mm256_unpacklo_epi16(rows[i], rows[i + 4]);
            next[2 * i + 1] = _mm256_unpackhi_epi16(rows[i], rows[i + 4]);
        }
        memcpy(rows, next, sizeof next);
    }
}

/* Tables by part into tables by class number. */
WEFT_ALWAYS_INLINE void weft_block_turn(weft_tight_block *block)
{
    __m256i low[8], high[8];
    memcpy(low, block->before, sizeof low);
    memcpy(high, block->before + 8, sizeof high);
    weft_lanes_turn(low);
    weft_lanes_turn(high);
    for (unsigned n = 0; n < 8; n++) {
        __m256i lower = _mm256_permute2x128_si256(low[n], high[n], 0x20);
        __m256i upper = _mm256_permute2x128_si256(low[n], high[n], 0x31);
        memcpy(block->starts[n], &lower, sizeof lower);
        memcpy(block->starts[n + 8], &upper, sizeof upper);
    }
}

/* Marks the member of the block that has `rank` among its class there. */
WEFT_ALWAYS_INLINE void weft_block_mark(const weft_tight_block *block, uint32_t number, uint32_t rank,
                                        uint64_t *changed)
{
    __m256i after = _mm256_cmpgt_epi16(WEFT_LOAD_256(block->starts[number]), _mm256_set1_epi16((short)rank));
    uint32_t part = WEFT_BLOCK_PARTS - 1 - (uint32_t)__builtin_popcount((uint32_t)_mm256_movemask_epi8(after)) / 2;
    weft_block_mask members = weft_block_members(block, part, number);
    uint32_t in = rank - block->starts[number][part], low = (uint32_t)__builtin_popcountll(members.low);
    const uint32_t upper = in >= low;
    const uint64_t all = 0 - (uint64_t)upper; /* no branch: either half is as likely */
    uint64_t word = members.low ^ ((members.low ^ members.high) & all);
    changed[2 * part + upper] ^= _pdep_u64(UINT64_C(1) << (in - (low & (uint32_t)all)), word);
}

/* Listed members of a block: their ranks among their class there, and its number. */
typedef struct weft_block_hits {
    uint32_t rank[WEFT_BLOCK_ELEMENTS + 8], number[WEFT_BLOCK_ELEMENTS + 8];
    uint32_t count;
} weft_block_hits;

/* Eight at a time, without a branch on how many there are if they are fewer. */
WEFT_ALWAYS_INLINE void weft_block_collect(uint32_t members, uint32_t number, weft_host_class *class,
                                           weft_block_hits *hits)
{
    const __m256i all = _mm256_set1_epi32((int)members), of = _mm256_set1_epi32((int)number);
    const __m256i population = _mm256_set1_epi32((int)class->population);
    uint32_t some;
    do {
        __m256i rank = _mm256_sub_epi32(WEFT_LOAD_256(class->next), population);
        __m256i after = _mm256_cmpeq_epi32(_mm256_max_epu32(rank, all), rank);
        some = (uint32_t)__builtin_ctz((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(after)) | 256);
        memcpy(hits->rank + hits->count, &rank, sizeof rank);
        memcpy(hits->number + hits->count, &of, sizeof of);
        hits->count += some;
        class->next += some;
    } while (some == 8);
    class->population += members;
}

/* Turns over all members of an inverted class. */
WEFT_ALWAYS_INLINE void weft_block_invert(const weft_tight_block *block, uint32_t number, uint64_t *changed)
{
    for (uint32_t p = 0; block->all[number] > 0 && p < WEFT_BLOCK_PARTS; p++) {
        weft_block_mask members = weft_block_members(block, p, number);
        changed[2 * p] ^= members.low;
        changed[2 * p + 1] ^= members.high;
    }
}

/* Marks what changed; returns how many listed members the block has. */
WEFT_ALWAYS_INLINE uint32_t weft_block_place(const weft_tight_block *block, weft_host_class *classes, uint32_t count,
                                             uint64_t *changed, uint32_t n)
{
    weft_block_hits hits;
    hits.count = 0;
    for (uint32_t c = 0; c < count; c++) {
        const uint32_t number = weft_block_number(c, n);
        if (classes[c].inverted)
            weft_block_invert(block, number, changed);
        weft_block_collect(block->all[number], number, &classes[c], &hits);
    }
    for (uint32_t i = 0; i < hits.count; i++)
        weft_block_mark(block, hits.number[i], hits.rank[i], changed);
    return hits.count;
}

#define WEFT_BLOCK_WORDS (WEFT_BLOCK_ELEMENTS / 64)

static uint32_t weft_block_sum(const uint64_t *changed)
{
    uint32_t all = 0;
    for (uint32_t w = 0; w < WEFT_BLOCK_WORDS; w++)
        all += (uint32_t)__builtin_popcountll(changed[w]);
    return all;
}

/* A bit for each word that is not zero. */
WEFT_ALWAYS_INLINE uint32_t weft_block_filled(const uint64_t *changed)
{
    const __m256i zero = _mm256_setzero_si256();
    uint32_t empty = 0;
    WEFT_UNROLL for (uint32_t w = 0; w < WEFT_BLOCK_WORDS; w += 4)
    {
        __m256i same = _mm256_cmpeq_epi64(WEFT_LOAD_256(changed + w), zero);
        empty |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(same)) << w;
    }
    return ~empty;
}

/* Lists the positions marked; returns how many, or room + 1. */
WEFT_ALWAYS_INLINE uint32_t weft_block_list(const uint64_t *changed, uint32_t begin, uint32_t *position, uint32_t room)
{
    uint32_t found = 0;
    if (room < WEFT_BLOCK_ELEMENTS && weft_block_sum(changed) > room)
        return room + 1;
    for (uint32_t words = weft_block_filled(changed); words; words &= words - 1) {
        const uint32_t w = (uint32_t)__builtin_ctz(words);
        if (room - found >= 64)
            found += weft_word_list(changed[w], begin + 64 * w, position + found);
        else
            for (uint64_t rest = changed[w]; rest; rest &= rest - 1)
                position[found++] = begin + 64 * w + (uint32_t)__builtin_ctzll(rest);
    }
    return found;
}

#define WEFT_TIGHT_BLOCKS_OF(P, W, N)                                                                                  \
    static uint32_t P##_rank_blocks_##W##_##N(const uint8_t *data, uint32_t count, uint32_t first,                     \
                                              const weft_class_map *map, const uint32_t *position, uint32_t changes,   \
                                              uint32_t *population, uint32_t *ranks)                                   \
    {                                                                                                                  \
        const weft_block_map numbers = weft_block_map_of(map, N);                                                      \
        uint32_t at = 0, i = 0, reached[16] = {0};                                                                     \
        weft_tight_block block;                                                                                        \
        for (uint32_t c = 0; c < map->count; c++)                                                                      \
            reached[weft_block_number(c, N)] = population[c];                                                          \
        for (; count - at >= WEFT_BLOCK_ELEMENTS; at += WEFT_BLOCK_ELEMENTS) {                                         \
            weft_block_take(data + (uint64_t)at * W, &numbers, &block, N, W);                                          \
            i = weft_block_rank(&block, first + at, reached, position, i, changes, ranks);                             \
            for (uint32_t n = 0; n < 16; n++)                                                                          \
                reached[n] += block.all[n];                                                                            \
        }                                                                                                              \
        for (uint32_t c = 0; c < map->count; c++)                                                                      \
            population[c] = reached[weft_block_number(c, N)];                                                          \
        return i;                                                                                                      \
    }                                                                                                                  \
    static uint32_t P##_place_blocks_##W##_##N(const uint8_t *data, uint32_t first, const weft_class_map *map,         \
                                               weft_host_class *classes, uint32_t *position, uint32_t room,            \
                                               uint32_t *at, uint32_t limit)                                           \
    {                                                                                                                  \
        const weft_block_map numbers = weft_block_map_of(map, N);                                                      \
        uint32_t found = 0, listed = 0;                                                                                \
        weft_tight_block block;                                                                                        \
        for (; limit - *at >= WEFT_BLOCK_ELEMENTS && listed < WEFT_BLOCK_MANY; *at += WEFT_BLOCK_ELEMENTS) {           \
            uint64_t changed[WEFT_BLOCK_WORDS] = {0};                                                                  \
            weft_block_take(data + (uint64_t)*at * W, &numbers, &block, N, W);                                         \
            weft_block_turn(&block);                                                                                   \
            listed = weft_block_place(&block, classes, map->count, changed, N);                                        \
            found += weft_block_list(changed, first + *at, position + found, room - found);                            \
            if (found > room)                                                                                          \
                return found;                                                                                          \
        }                                                                                                              \
        return found;                                                                                                  \
    }

#define WEFT_TIGHT_BLOCKS(P, W)                                                                                        \
    WEFT_TIGHT_BLOCKS_OF(P, W, 4)                                                                                      \
    WEFT_TIGHT_BLOCKS_OF(P, W, 8)                                                                                      \
    WEFT_TIGHT_BLOCKS_OF(P, W, 12)                                                                                     \
    WEFT_TIGHT_BLOCKS_OF(P, W, 16)                                                                                     \
    static void P##_rank_##W(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,           \
                             const uint32_t *position, uint32_t changes, uint32_t population[WEFT_CLASS_MAX],          \
                             uint32_t *ranks)                                                                          \
    {                                                                                                                  \
        static uint32_t (*const of[])(const uint8_t *, uint32_t, uint32_t, const weft_class_map *, const uint32_t *,   \
                                      uint32_t, uint32_t *, uint32_t *) = {                                            \
            P##_rank_blocks_##W##_4, P##_rank_blocks_##W##_8, P##_rank_blocks_##W##_12, P##_rank_blocks_##W##_16};     \
        uint32_t i = 0, at = 0;                                                                                        \
        if (weft_block_can(map) && changes < count / WEFT_BLOCK_ELEMENTS * WEFT_BLOCK_MANY) {                          \
            i = of[(map->count - 1) / 4](data, count, first, map, position, changes, population, ranks);               \
            at = count / WEFT_BLOCK_ELEMENTS * WEFT_BLOCK_ELEMENTS;                                                    \
        }                                                                                                              \
        P##_rank_words_##W(data + (uint64_t)at * W, count - at, first + at, map, position + i, changes - i,            \
                           population, ranks + i);                                                                     \
    }                                                                                                                  \
    static uint32_t P##_place_##W(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,      \
                                  weft_host_class classes[WEFT_CLASS_MAX], uint32_t *position, uint32_t room)          \
    {                                                                                                                  \
        static uint32_t (*const of[])(const uint8_t *, uint32_t, const weft_class_map *, weft_host_class *,            \
                                      uint32_t *, uint32_t, uint32_t *, uint32_t) = {                                  \
            P##_place_blocks_##W##_4, P##_place_blocks_##W##_8, P##_place_blocks_##W##_12, P##_place_blocks_##W##_16}; \
        uint32_t at = 0, found = 0;                                                                                    \
        while (at < count && found <= room) {                                                                          \
            if (weft_block_can(map) && count - at >= WEFT_BLOCK_ELEMENTS)                                              \
                found +=                                                                                               \
                    of[(map->count - 1) / 4](data, first, map, classes, position + found, room - found, &at, count);   \
            if (found > room || at == count)                                                                           \
                break;                                                                                                 \
            uint32_t words = count - at < 4 * WEFT_BLOCK_ELEMENTS ? count - at : 4 * WEFT_BLOCK_ELEMENTS;              \
            found += P##_place_words_##W(data + (uint64_t)at * W, words, first + at, map, classes, position + found,   \
                                         room - found);                                                                \
            at += words;                                                                                               \
        }                                                                                                              \
        return found;                                                                                                  \
    }

#endif

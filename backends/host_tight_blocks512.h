/* host_tight_blocks512.h - the loops of level tight over blocks of 2048 elements in 512-bit vectors.
 *
 * A block is 32 words of 64 elements. Two table lookups turn 64 exponents into class numbers of four bits, and an 8 x 8
 * transposition of bits (the affine map of GF(2)^8 whose matrix is the data) turns these into four bit planes. The
 * members of a class are then one logical operation on planes for 512 elements, their number one population count: so
 * a block gives for each class a mask of its members and how many of them come before each word. A rank is that number
 * plus the members before the element in its word; the other way, one compare of 32 counts finds the word of a rank and
 * pdep the element. What is left over behind the last block goes word by word. Eight words make a group, so that its
 * planes fill vectors. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_BLOCKS512_H
#define WEFT_BACKENDS_HOST_TIGHT_BLOCKS512_H

#include "backends/host_tight_words.h"

#define WEFT_WIDE_ELEMENTS 2048u
#define WEFT_WIDE_WORDS    32u
#define WEFT_WIDE_GROUPS   4u
#define WEFT_WIDE_AHEAD    4096u /* bytes that are asked for ahead of use */

/* From elements to class numbers. */
typedef struct weft_wide_map {
    __m512i class[4]; /* of each byte that an exponent, and what stands above it, can be */
    __m512i pick;     /* bytes of the exponents, each eight of them backwards: so the transposition wants them */
    __m128i shift;
} weft_wide_map;

typedef struct weft_wide {
    _Alignas(64) uint64_t member[WEFT_CLASS_MAX][WEFT_WIDE_WORDS]; /* masks of a class's elements */
    _Alignas(64) uint16_t before[WEFT_CLASS_MAX][WEFT_WIDE_WORDS]; /* how many come before a word */
    uint32_t all[WEFT_CLASS_MAX];                                  /* and in the block */
} weft_wide;

WEFT_ALWAYS_INLINE weft_wide_map weft_wide_map_of(const weft_class_map *map, unsigned width)
{
    uint8_t class[256], pick[64];
    for (uint32_t i = 0; i < 256; i++)
        class[i] = map->of[i & map->mask];
    for (uint32_t i = 0; i < 64; i++)
        pick[i] = (uint8_t)((i ^ 7) * width % 128);
    weft_wide_map made = {.pick = _mm512_loadu_si512(pick), .shift = _mm_cvtsi32_si128((int)map->shift)};
    for (unsigned i = 0; i < 4; i++)
        made.class[i] = _mm512_loadu_si512(class + 64 * i);
    return made;
}

/* The exponents of 64 elements, a byte each, as `pick` orders them. */
WEFT_ALWAYS_INLINE __m512i weft_wide_exponents(const uint8_t *data, const weft_wide_map *map, unsigned width)
{
    __m512i lanes[4];
    for (unsigned i = 0; i < width; i++) {
        __m512i in = _mm512_loadu_si512(data + 64 * i);
        lanes[i] = width == 4 ? _mm512_srl_epi32(in, map->shift) : _mm512_srl_epi16(in, map->shift);
    }
    if (width == 1)
        return _mm512_permutexvar_epi8(map->pick, lanes[0]);
    __m512i low = _mm512_permutex2var_epi8(lanes[0], map->pick, lanes[1]);
    if (width == 2)
        return low;
    __m512i high = _mm512_permutex2var_epi8(lanes[2], map->pick, lanes[3]);
    return _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
}

/* Bit planes of the class numbers of 64 elements: byte k of each eight has bit k of eight elements. */
WEFT_ALWAYS_INLINE __m512i weft_wide_bits(const uint8_t *data, const weft_wide_map *map, unsigned width)
{
    const __m512i exponents = weft_wide_exponents(data, map, width);
    const __m512i low = _mm512_permutex2var_epi8(map->class[0], exponents, map -> class[1]);
    const __m512i high = _mm512_permutex2var_epi8(map->class[2], exponents, map -> class[3]);
    const __m512i numbers = _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(exponents), high);
    return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64((long long)UINT64_C(0x8040201008040201)), numbers, 0);
}

/* Bytes k of the eights of two vectors, side by side in part k of four. */
#define WIDE_EIGHTH(k)  k, k + 8, k + 16, k + 24, k + 32, k + 40, k + 48, k + 56
#define WIDE_QUARTER(k) WIDE_EIGHTH(k), WIDE_EIGHTH(k + 64)
static const uint8_t weft_wide_order[64] = {WIDE_QUARTER(0), WIDE_QUARTER(1), WIDE_QUARTER(2), WIDE_QUARTER(3)};

WEFT_ALWAYS_INLINE __m512i weft_wide_pair(__m512i first, __m512i second)
{
    return _mm512_permutex2var_epi8(first, _mm512_loadu_si512(weft_wide_order), second);
}

/* The four planes of a group of eight words. */
WEFT_ALWAYS_INLINE void weft_wide_planes(const uint8_t *data, const weft_wide_map *map, __m512i *plane, unsigned width)
{
    __m512i pair[4];
    WEFT_UNROLL for (unsigned i = 0; i < 4; i++)
    {
        const uint8_t *words = data + 128 * width * i;
        pair[i] = weft_wide_pair(weft_wide_bits(words, map, width), weft_wide_bits(words + 64 * width, map, width));
    }
    const __m512i even = _mm512_shuffle_i64x2(pair[0], pair[1], 0x44),
                  odd = _mm512_shuffle_i64x2(pair[2], pair[3], 0x44);
    const __m512i upper = _mm512_shuffle_i64x2(pair[0], pair[1], 0xee);
    const __m512i top = _mm512_shuffle_i64x2(pair[2], pair[3], 0xee);
    plane[0] = _mm512_shuffle_i64x2(even, odd, 0x88);
    plane[1] = _mm512_shuffle_i64x2(even, odd, 0xdd);
    plane[2] = _mm512_shuffle_i64x2(upper, top, 0x88);
    plane[3] = _mm512_shuffle_i64x2(upper, top, 0xdd);
}

/* Elements whose upper two bits are `number`. */
WEFT_ALWAYS_INLINE __m512i weft_wide_quarter(const __m512i *plane, uint32_t number)
{
    switch (number) {
    case 0:
        return _mm512_ternarylogic_epi64(plane[2], plane[3], plane[3], 0x01);
    case 1:
        return _mm512_andnot_si512(plane[3], plane[2]);
    case 2:
        return _mm512_andnot_si512(plane[2], plane[3]);
    default:
        return _mm512_and_si512(plane[2], plane[3]);
    }
}

/* Those of a quarter whose lower two bits are `number`. */
WEFT_ALWAYS_INLINE __m512i weft_wide_class(const __m512i *plane, __m512i quarter, uint32_t number)
{
    switch (number) {
    case 0:
        return _mm512_ternarylogic_epi64(plane[0], plane[1], quarter, 0x02);
    case 1:
        return _mm512_ternarylogic_epi64(plane[0], plane[1], quarter, 0x20);
    case 2:
        return _mm512_ternarylogic_epi64(plane[0], plane[1], quarter, 0x08);
    default:
        return _mm512_ternarylogic_epi64(plane[0], plane[1], quarter, 0x80);
    }
}

/* Where the count of each word is among those of four groups in eight lanes. */
#define WIDE_GROUP(g) g, g + 4, g + 8, g + 12, g + 16, g + 20, g + 24, g + 28
static const uint16_t weft_wide_counted[WEFT_WIDE_WORDS] = {WIDE_GROUP(0), WIDE_GROUP(1), WIDE_GROUP(2), WIDE_GROUP(3)};

/* Lane i holds the counts of the words i, 8 + i, 16 + i and 24 + i. Makes of them how many come before each word;
 * returns how many there are in all. */
WEFT_ALWAYS_INLINE uint32_t weft_wide_sum(__m512i counts, uint16_t *before)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i sum = _mm512_add_epi16(counts, _mm512_alignr_epi64(counts, zero, 7));
    sum = _mm512_add_epi16(sum, _mm512_alignr_epi64(sum, zero, 6));
    sum = _mm512_add_epi16(sum, _mm512_alignr_epi64(sum, zero, 4));
    __m512i groups = _mm512_permutexvar_epi64(_mm512_set1_epi64(7), sum);
    groups = _mm512_add_epi16(groups, _mm512_slli_epi64(groups, 16));
    groups = _mm512_add_epi16(groups, _mm512_slli_epi64(groups, 32));
    sum = _mm512_add_epi16(_mm512_sub_epi16(sum, counts), _mm512_slli_epi64(groups, 16));
    _mm512_storeu_si512(before, _mm512_permutexvar_epi16(_mm512_loadu_si512(weft_wide_counted), sum));
    return (uint32_t)((uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(groups)) >> 48);
}

/* Members and counts of the first n classes, from the planes of all groups. */
WEFT_ALWAYS_INLINE void weft_wide_count(__m512i plane[WEFT_WIDE_GROUPS][4], weft_wide *block, uint32_t n)
{
    for (uint32_t q = 0; q < n / 4; q++) {
        __m512i counts[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                             _mm512_setzero_si512()};
        WEFT_UNROLL for (uint32_t g = 0; g < WEFT_WIDE_GROUPS; g++)
        {
            const __m512i quarter = weft_wide_quarter(plane[g], q);
            WEFT_UNROLL for (uint32_t c = 0; c < 4; c++)
            {
                const __m512i members = weft_wide_class(plane[g], quarter, c);
                _mm512_storeu_si512(block->member[4 * q + c] + 8 * g, members);
                counts[c] = _mm512_shrdi_epi64(counts[c], _mm512_popcnt_epi64(members), 16);
            }
        }
        WEFT_UNROLL for (uint32_t c = 0; c < 4; c++) block->all[4 * q + c] =
            weft_wide_sum(counts[c], block->before[4 * q + c]);
    }
}

/* Asking beyond the end does no harm. */
WEFT_ALWAYS_INLINE void weft_wide_ahead(const uint8_t *at, unsigned bytes)
{
    for (unsigned line = 0; line < bytes; line += 64)
        __builtin_prefetch((const void *)((uintptr_t)at + WEFT_WIDE_AHEAD + line), 0);
}

WEFT_ALWAYS_INLINE void weft_wide_take(const uint8_t *data, const weft_wide_map *map, weft_wide *block, uint32_t n,
                                       unsigned width)
{
    __m512i plane[WEFT_WIDE_GROUPS][4];
    for (uint32_t g = 0; g < WEFT_WIDE_GROUPS; g++) {
        const uint8_t *group = data + (uint64_t)g * 512 * width;
        weft_wide_ahead(group, 512 * width);
        weft_wide_planes(group, map, plane[g], width);
    }
    weft_wide_count(plane, block, n);
}

/* ---- from ranks to positions */

/* Listed members of a block: their ranks among their class there, and the class. */
typedef struct weft_wide_hits {
    uint32_t rank[WEFT_WIDE_ELEMENTS + 8], class[WEFT_WIDE_ELEMENTS + 8];
    uint32_t count;
} weft_wide_hits;

/* Eight at a time, without a branch on how many there are if they are fewer. */
WEFT_ALWAYS_INLINE void weft_wide_collect(uint32_t members, uint32_t number, weft_host_class *class,
                                          weft_wide_hits *hits)
{
    const __m256i all = _mm256_set1_epi32((int)members), of = _mm256_set1_epi32((int)number);
    const __m256i population = _mm256_set1_epi32((int)class->population);
    uint32_t some;
    do {
        __m256i rank = _mm256_sub_epi32(_mm256_loadu_si256((const void *)class->next), population);
        __m256i behind = _mm256_cmpeq_epi32(_mm256_max_epu32(rank, all), rank);
        some = (uint32_t)__builtin_ctz((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(behind)) | 256);
        _mm256_storeu_si256((void *)(hits->rank + hits->count), rank);
        _mm256_storeu_si256((void *)(hits->class + hits->count), of);
        hits->count += some;
        class->next += some;
    } while (some == 8);
    class->population += members;
}

/* Elements of a block: a mask for each word, and which masks are not zero; their reader makes them zero again. Words
 * are written and read one by one: a vector of what was just written in pieces would wait for all of them. */
typedef struct weft_wide_set {
    uint64_t word[WEFT_WIDE_WORDS];
    uint32_t filled;
} weft_wide_set;

/* Marks the member of the block that has `rank` among its class there. */
WEFT_ALWAYS_INLINE void weft_wide_mark(const weft_wide *block, uint32_t class, uint32_t rank, weft_wide_set *changed)
{
    const __m512i before = _mm512_loadu_si512(block->before[class]);
    const uint32_t reached = _mm512_cmple_epu16_mask(before, _mm512_set1_epi16((short)rank));
    const uint32_t word = (uint32_t)__builtin_popcount(reached) - 1;
    const uint32_t in = rank - block->before[class][word];
    changed->word[word] ^= _pdep_u64(UINT64_C(1) << in, block->member[class][word]);
    changed->filled |= UINT32_C(1) << word;
}

/* Turns over all members of an inverted class. */
static void weft_wide_turn(const uint64_t *member, weft_wide_set *changed)
{
    for (uint32_t w = 0; w < WEFT_WIDE_WORDS; w++)
        changed->word[w] ^= member[w];
    changed->filled = UINT32_MAX;
}

/* Marks what changed; returns how many listed members the block has. */
WEFT_ALWAYS_INLINE uint32_t weft_wide_mark_all(const weft_wide *block, weft_host_class *classes, uint32_t count,
                                               weft_wide_set *changed)
{
    weft_wide_hits hits;
    hits.count = 0;
    changed->filled = 0;
    for (uint32_t c = 0; c < count; c++) {
        if (classes[c].inverted)
            weft_wide_turn(block->member[c], changed);
        weft_wide_collect(block->all[c], c, &classes[c], &hits);
    }
    for (uint32_t i = 0; i < hits.count; i++)
        weft_wide_mark(block, hits.class[i], hits.rank[i], changed);
    return hits.count;
}

static uint32_t weft_wide_ones(const weft_wide_set *set)
{
    uint32_t all = 0;
    for (uint32_t w = 0; w < WEFT_WIDE_WORDS; w++)
        all += (uint32_t)__builtin_popcountll(set->word[w]);
    return all;
}

/* Numbers of the bits of a word, one after the other. */
#define WIDE_8(n)  n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
#define WIDE_32(n) WIDE_8(n), WIDE_8(n + 8), WIDE_8(n + 16), WIDE_8(n + 24)
static const uint8_t weft_wide_bit[64] = {WIDE_32(0), WIDE_32(32)};

/* Writes base + number of each bit that is set, sixteen at a time: a list with room for 64 is asked for. */
WEFT_ALWAYS_INLINE uint32_t weft_wide_word_list(uint64_t word, uint32_t base, uint32_t *list)
{
    const uint32_t count = (uint32_t)__builtin_popcountll(word);
    const __m512i from = _mm512_set1_epi32((int)base);
    __m512i set = _mm512_maskz_compress_epi8(word, _mm512_loadu_si512(weft_wide_bit));
    uint32_t i = 0;
    do {
        const __m512i some = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(set));
        _mm512_storeu_si512(list + i, _mm512_add_epi32(some, from));
        set = _mm512_alignr_epi64(set, set, 2);
        i += 16;
    } while (__builtin_expect(i < count, 0));
    return count;
}

/* Lists the positions in a set; returns how many, or room + 1. */
WEFT_ALWAYS_INLINE uint32_t weft_wide_list(weft_wide_set *set, uint32_t begin, uint32_t *position, uint32_t room)
{
    uint32_t found = 0;
    if (room < WEFT_WIDE_ELEMENTS && weft_wide_ones(set) > room)
        return room + 1;
    for (uint32_t words = set->filled; words; words &= words - 1) {
        const uint32_t w = (uint32_t)__builtin_ctz(words);
        uint64_t word = set->word[w];
        set->word[w] = 0;
        if (room - found >= 64)
            found += weft_wide_word_list(word, begin + 64 * w, position + found);
        else
            for (; word; word &= word - 1)
                position[found++] = begin + 64 * w + (uint32_t)__builtin_ctzll(word);
    }
    return found;
}

/* ---- from positions to ranks */

/* Which of 64 elements differ. */
WEFT_ALWAYS_INLINE uint64_t weft_wide_differ(const uint8_t *now, const uint8_t *shadow, unsigned width)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < width; i++) {
        const __m512i a = _mm512_loadu_si512(now + 64 * i), b = _mm512_loadu_si512(shadow + 64 * i);
        const uint64_t same = width == 1   ? _mm512_cmpeq_epi8_mask(a, b)
                              : width == 2 ? _mm512_cmpeq_epi16_mask(a, b)
                                           : _mm512_cmpeq_epi32_mask(a, b);
        word |= same << (i * (64 / width) % 64);
    }
    return ~word;
}

/* Lists the positions in a block that differ and counts its classes; returns how many differ. */
WEFT_ALWAYS_INLINE uint32_t weft_wide_compare(const weft_host_pair *pair, uint32_t begin, const weft_wide_map *map,
                                              weft_wide *block, uint32_t *position, uint32_t n, unsigned width)
{
    __m512i plane[WEFT_WIDE_GROUPS][4];
    weft_wide_set differ;
    differ.filled = 0;
    for (uint32_t g = 0; g < WEFT_WIDE_GROUPS; g++) {
        const uint64_t at = (uint64_t)(begin + 512 * g) * width;
        weft_wide_ahead(pair->now + at, 512 * width);
        weft_wide_ahead(pair->shadow + at, 512 * width);
        WEFT_UNROLL for (uint32_t w = 0; w < 8; w++)
        {
            const uint64_t some =
                weft_wide_differ(pair->now + at + 64 * w * width, pair->shadow + at + 64 * w * width, width);
            differ.word[8 * g + w] = some;
            differ.filled |= (uint32_t)(some != 0) << (8 * g + w);
        }
        weft_wide_planes(pair->shadow + at, map, plane[g], width);
    }
    weft_wide_count(plane, block, n);
    return weft_wide_list(&differ, pair->first + begin, position, UINT32_MAX);
}

/* Fills in what is listed of a block. */
WEFT_ALWAYS_INLINE void weft_wide_look(const weft_host_pair *pair, uint32_t begin, const weft_wide *block,
                                       const weft_class_map *map, const uint32_t *population, uint32_t changes,
                                       const weft_host_found *found, unsigned width)
{
    for (uint32_t i = 0; i < changes; i++) {
        const uint32_t index = found->position[i] - pair->first, at = index - begin, word = at / 64;
        const uint64_t before = weft_element_get(pair->shadow, index, width);
        const uint32_t class = map->of[weft_class_exponent(map, before)];
        weft_element_put(found->before, i, before, width);
        weft_element_put(found->after, i, weft_element_get(pair->now, index, width), width);
        found->class[i] = (uint8_t) class;
        found->rank[i] = population[class] + block->before[class][word] +
                         (uint32_t)__builtin_popcountll(_bzhi_u64(block->member[class][word], at % 64));
    }
}

/* What a set has of one width and of n classes, a multiple of four. */
#define WEFT_TIGHT_WIDE_OF(P, W, N)                                                                                    \
    static uint32_t P##_place_wide_##W##_##N(const uint8_t *data, uint32_t count, uint32_t first,                      \
                                             const weft_class_map *map, weft_host_class *classes, uint32_t *position,  \
                                             uint32_t room)                                                            \
    {                                                                                                                  \
        const weft_wide_map of = weft_wide_map_of(map, W);                                                             \
        uint32_t found = 0;                                                                                            \
        weft_wide block;                                                                                               \
        memset(block.all, 0, sizeof block.all);                                                                        \
        weft_wide_set changed = {.filled = 0};                                                                         \
        for (uint32_t at = 0; count - at >= WEFT_WIDE_ELEMENTS && found <= room; at += WEFT_WIDE_ELEMENTS) {           \
            weft_wide_take(data + (uint64_t)at * W, &of, &block, N, W);                                                \
            weft_wide_mark_all(&block, classes, map->count, &changed);                                                 \
            found += weft_wide_list(&changed, first + at, position + found, room - found);                             \
        }                                                                                                              \
        return found;                                                                                                  \
    }                                                                                                                  \
    static uint32_t P##_find_wide_##W##_##N(const weft_host_pair *pair, const weft_class_map *map,                     \
                                            uint32_t *population, const weft_host_found *found)                        \
    {                                                                                                                  \
        const weft_wide_map of = weft_wide_map_of(map, W);                                                             \
        uint32_t changes = 0;                                                                                          \
        weft_wide block;                                                                                               \
        memset(block.all, 0, sizeof block.all);                                                                        \
        for (uint32_t at = 0; pair->count - at >= WEFT_WIDE_ELEMENTS; at += WEFT_WIDE_ELEMENTS) {                      \
            const weft_host_found to = weft_found_behind(found, changes, W);                                           \
            uint32_t here = weft_wide_compare(pair, at, &of, &block, to.position, N, W);                               \
            weft_wide_look(pair, at, &block, map, population, here, &to, W);                                           \
            for (uint32_t c = 0; c < map->count; c++)                                                                  \
                population[c] += block.all[c];                                                                         \
            changes += here;                                                                                           \
        }                                                                                                              \
        return changes;                                                                                                \
    }

/* The functions for the slots of one width; behind the last block they go by the loops over words. */
#define WEFT_TIGHT_WIDE(P, W)                                                                                          \
    WEFT_TIGHT_WIDE_OF(P, W, 4)                                                                                        \
    WEFT_TIGHT_WIDE_OF(P, W, 8)                                                                                        \
    WEFT_TIGHT_WIDE_OF(P, W, 12)                                                                                       \
    WEFT_TIGHT_WIDE_OF(P, W, 16)                                                                                       \
    static uint32_t P##_place_##W(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,      \
                                  weft_host_class classes[WEFT_CLASS_MAX], uint32_t *position, uint32_t room)          \
    {                                                                                                                  \
        static uint32_t (*const of[])(const uint8_t *, uint32_t, uint32_t, const weft_class_map *, weft_host_class *,  \
                                      uint32_t *, uint32_t) = {P##_place_wide_##W##_4, P##_place_wide_##W##_8,         \
                                                               P##_place_wide_##W##_12, P##_place_wide_##W##_16};      \
        const uint32_t blocks = count / WEFT_WIDE_ELEMENTS * WEFT_WIDE_ELEMENTS;                                       \
        uint32_t found = 0;                                                                                            \
        if (blocks > 0)                                                                                                \
            found = of[(map->count - 1) / 4](data, count, first, map, classes, position, room);                        \
        if (found > room)                                                                                              \
            return found;                                                                                              \
        return found + P##_place_words_##W(data + (uint64_t)blocks * W, count - blocks, first + blocks, map, classes,  \
                                           position + found, room - found);                                            \
    }                                                                                                                  \
    static uint32_t P##_find_##W(const weft_host_kernels *kernels, const weft_host_pair *pair,                         \
                                 const weft_class_map *map, uint32_t population[WEFT_CLASS_MAX],                       \
                                 const weft_host_found *found)                                                         \
    {                                                                                                                  \
        static uint32_t (*const of[])(const weft_host_pair *, const weft_class_map *, uint32_t *,                      \
                                      const weft_host_found *) = {P##_find_wide_##W##_4, P##_find_wide_##W##_8,        \
                                                                  P##_find_wide_##W##_12, P##_find_wide_##W##_16};     \
        const uint32_t blocks = pair->count / WEFT_WIDE_ELEMENTS * WEFT_WIDE_ELEMENTS;                                 \
        uint32_t changes = 0;                                                                                          \
        if (blocks > 0)                                                                                                \
            changes = of[(map->count - 1) / 4](pair, map, population, found);                                          \
        const weft_host_pair rest = weft_pair_behind(pair, blocks, W);                                                 \
        const weft_host_found to = weft_found_behind(found, changes, W);                                               \
        return changes + weft_loop_find(kernels, P##_rank_words_##W, &rest, map, population, &to, W);                  \
    }

#endif

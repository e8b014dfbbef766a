/* host_tight_blocks512.h - the loops of level tight over blocks of 2048 elements in 512-bit vectors.
 *
 * A block is 32 words of 64 elements. A table lookup turns 64 exponents into class numbers of four bits, and an 8 x 8
 * transposition of bits (the affine map of GF(2)^8 whose matrix is the data) turns these into four bit planes. The
 * members of a class are then one logical operation on planes for 512 elements, their number one population count: so
 * a block gives for each class a mask of its members and how many of them come before each word. A rank is that number
 * plus the members before the element in its word; the other way, one compare of 32 counts finds the word of a rank and
 * pdep the element. What is left over after the last block goes word by word. Eight words make a group, so that its
 * planes fill vectors. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_BLOCKS512_H
#define WEFT_BACKENDS_HOST_TIGHT_BLOCKS512_H

#include "backends/host/tight/host_tight_words.h"

#define WEFT_WIDE_ELEMENTS 2048u
#define WEFT_WIDE_WORDS    32u
#define WEFT_WIDE_GROUPS   4u

#define WEFT_WIDE_SPAN 63u /* exponents from the first to the last threshold */

/* From elements to class numbers. */
typedef struct weft_wide_map {
    __m512i below;   /* an exponent that is below all thresholds, or 0 */
    __m512i numbers; /* classes of the exponents from there on */
    __m512i mask;
    __m512i pick; /* bytes of the exponents, each eight of them backwards: so the transposition wants them */
    __m512i shift;
} weft_wide_map;

typedef struct weft_wide {
    _Alignas(64) uint64_t member[WEFT_CLASS_MAX][WEFT_WIDE_WORDS]; /* masks of a class's elements */
    _Alignas(64) uint16_t before[WEFT_CLASS_MAX][WEFT_WIDE_WORDS]; /* how many come before a word */
    uint32_t all[WEFT_CLASS_MAX];                                  /* and in the block */
} weft_wide;

/* Lines that are asked for ahead of a stream of blocks. */
typedef struct weft_wide_stream {
    uintptr_t next; /* the first line that was not asked for */
    bool second;
    uint32_t distance;                               /* bytes */
    uint32_t reading, counting, collecting, listing; /* lines a group, four classes of one, a class, and a word */
} weft_wide_stream;

/* The part of a block's lines for each of n times, in whole lines. */
WEFT_ALWAYS_INLINE uint32_t weft_wide_part(uint32_t eighths, uint32_t n, unsigned width)
{
    return WEFT_WIDE_ELEMENTS * width / 64 * eighths / 8 / n;
}

WEFT_ALWAYS_INLINE weft_wide_stream weft_wide_stream_of(uint32_t n, unsigned width)
{
    const weft_ahead_blocks *row = &weft_host_ahead_here.blocks;
    return (weft_wide_stream){.second = row->second,
                              .distance = row->distance,
                              .reading = weft_wide_part(row->reading, WEFT_WIDE_GROUPS, width),
                              .counting = weft_wide_part(row->counting, n, width),
                              .collecting = weft_wide_part(row->collecting, n, width),
                              .listing = weft_wide_part(row->listing, WEFT_WIDE_WORDS, width)};
}

WEFT_ALWAYS_INLINE void weft_wide_ask(weft_wide_stream *stream, uint32_t lines)
{
    stream->next = weft_ahead_lines(stream->next, lines, stream->second);
}

static inline bool weft_wide_can(const weft_class_map *map)
{
    const weft_classes *classes = map->classes;
    return map->count < 2 || classes->threshold[map->count - 2] - classes->threshold[0] < WEFT_WIDE_SPAN;
}

WEFT_ALWAYS_INLINE weft_wide_map weft_wide_map_of(const weft_class_map *map, unsigned width)
{
    const int shift = (int)map->shift; /* for every lane: one for all would be moved to all of them each time */
    const uint32_t below = map->count > 1 ? map->classes->threshold[0] - 1 : 0;
    uint8_t numbers[64], pick[64];
    for (uint32_t i = 0; i < 64; i++) {
        numbers[i] = map->of[below + i < map->mask ? below + i : map->mask];
        pick[i] = (uint8_t)((i ^ 7) * width % 128);
    }
    return (weft_wide_map){.below = _mm512_set1_epi8((char)below),
                           .numbers = _mm512_loadu_si512(numbers),
                           .mask = _mm512_set1_epi8((char)map->mask),
                           .pick = _mm512_loadu_si512(pick),
                           .shift = width == 4 ? _mm512_set1_epi32(shift) : _mm512_set1_epi16((short)shift)};
}

/* The exponents of 64 elements, a byte each, as `pick` orders them. */
WEFT_ALWAYS_INLINE __m512i weft_wide_exponents(const uint8_t *data, const weft_wide_map *map, unsigned width)
{
    __m512i lanes[4];
    for (unsigned i = 0; i < width; i++) {
        __m512i in = _mm512_loadu_si512(data + 64 * i);
        lanes[i] = width == 4 ? _mm512_srlv_epi32(in, map->shift) : _mm512_srlv_epi16(in, map->shift);
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
    const __m512i exponents = _mm512_and_si512(weft_wide_exponents(data, map, width), map->mask);
    const __m512i over = _mm512_min_epu8(_mm512_subs_epu8(exponents, map->below), _mm512_set1_epi8(63));
    const __m512i numbers = _mm512_permutexvar_epi8(over, map->numbers);
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

/* The same of 128 elements. */
WEFT_ALWAYS_INLINE __m512i weft_wide_two(const uint8_t *data, const weft_wide_map *map, unsigned width)
{
    return weft_wide_pair(weft_wide_bits(data, map, width), weft_wide_bits(data + 64 * width, map, width));
}

/* The four planes of a group, from those of its words two by two. */
WEFT_ALWAYS_INLINE void weft_wide_turn_planes(const __m512i *two, __m512i *plane)
{
    const __m512i even = _mm512_shuffle_i64x2(two[0], two[1], 0x44), odd = _mm512_shuffle_i64x2(two[2], two[3], 0x44);
    const __m512i upper = _mm512_shuffle_i64x2(two[0], two[1], 0xee), top = _mm512_shuffle_i64x2(two[2], two[3], 0xee);
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

/* Members and counts of the first n classes, from the planes of all groups. Memory would rest meanwhile: if `stream` is
 * not NULL, some of it is asked for. */
WEFT_ALWAYS_INLINE void weft_wide_count(__m512i plane[WEFT_WIDE_GROUPS][4], weft_wide_stream *stream, weft_wide *block,
                                        uint32_t n)
{
    for (uint32_t q = 0; q < n / 4; q++) {
        __m512i counts[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                             _mm512_setzero_si512()};
        WEFT_UNROLL for (uint32_t g = 0; g < WEFT_WIDE_GROUPS; g++)
        {
            const __m512i quarter = weft_wide_quarter(plane[g], q);
            if (stream)
                weft_wide_ask(stream, stream->counting);
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

/* Takes a block apart, and asks for others from `distance` on. */
WEFT_ALWAYS_INLINE void weft_wide_take(const uint8_t *data, const weft_wide_map *map, weft_wide_stream *stream,
                                       weft_wide *block, uint32_t n, unsigned width)
{
    __m512i plane[WEFT_WIDE_GROUPS][4];
    stream->next = (uintptr_t)data + stream->distance;
    for (uint32_t g = 0; g < WEFT_WIDE_GROUPS; g++) {
        const uint8_t *group = data + (uint64_t)g * 512 * width;
        __m512i two[4];
        weft_wide_ask(stream, stream->reading);
        WEFT_UNROLL for (uint32_t i = 0; i < 4; i++) two[i] = weft_wide_two(group + 128 * width * i, map, width);
        weft_wide_turn_planes(two, plane[g]);
    }
    weft_wide_count(plane, stream, block, n);
}

#endif

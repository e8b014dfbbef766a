/* host_tight_wide.h - finding and placing by blocks of 2048 elements in 512-bit vectors (host_tight_blocks512.h). */
#ifndef WEFT_BACKENDS_HOST_TIGHT_WIDE_H
#define WEFT_BACKENDS_HOST_TIGHT_WIDE_H

#include "backends/host/host_lanes512.h"
#include "backends/host/tight/host_tight_blocks512.h"

/* ---- from ranks to positions */

/* Listed members of a block: their ranks among their class there, and the class. */
typedef struct weft_wide_hits {
    uint32_t rank[WEFT_WIDE_ELEMENTS + 8], class[WEFT_WIDE_ELEMENTS + 8];
} weft_wide_hits;

/* After `count` hits those of one class, eight at a time, without a branch on how many there are if they are fewer;
 * returns how many hits there are then. */
WEFT_ALWAYS_INLINE uint32_t weft_wide_collect(uint32_t members, uint32_t number, weft_host_class *class,
                                              weft_wide_hits *hits, uint32_t count)
{
    const __m256i all = _mm256_set1_epi32((int)members), of = _mm256_set1_epi32((int)number);
    const __m256i population = _mm256_set1_epi32((int)class->population);
    const uint32_t *next = class->next;
    uint32_t some;
    do {
        __m256i rank = _mm256_sub_epi32(_mm256_loadu_si256((const void *)next), population);
        __m256i after = _mm256_cmpeq_epi32(_mm256_max_epu32(rank, all), rank);
        some = (uint32_t)__builtin_ctz((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(after)) | 256);
        _mm256_storeu_si256((void *)(hits->rank + count), rank);
        _mm256_storeu_si256((void *)(hits->class + count), of);
        count += some;
        next += some;
    } while (some == 8);
    class->next = next;
    class->population += members;
    return count;
}

/* Elements of a block: a mask for each word, and which masks are not zero; their reader makes them zero again. Words
 * are written and read one by one: a vector of what was just written in pieces would wait for all of them. */
typedef struct weft_wide_set {
    uint64_t word[WEFT_WIDE_WORDS];
    uint32_t filled;
} weft_wide_set;

/* Marks the member of the block that has `rank` among its class there; returns its word. */
WEFT_ALWAYS_INLINE uint32_t weft_wide_mark(const weft_wide *block, uint32_t class, uint32_t rank, uint64_t *changed)
{
    const __m512i before = _mm512_loadu_si512(block->before[class]);
    const uint32_t reached = _mm512_cmple_epu16_mask(before, _mm512_set1_epi16((short)rank));
    const uint32_t word = (uint32_t)__builtin_popcount(reached) - 1;
    const uint32_t in = rank - block->before[class][word];
    changed[word] ^= _pdep_u64(UINT64_C(1) << in, block->member[class][word]);
    return word;
}

/* Turns over all members of an inverted class; returns a bit for each word. */
static uint32_t weft_wide_turn(const uint64_t *member, uint64_t *changed)
{
    for (uint32_t w = 0; w < WEFT_WIDE_WORDS; w++)
        changed[w] ^= member[w];
    return UINT32_MAX;
}

/* Marks what changed. */
WEFT_ALWAYS_INLINE void weft_wide_mark_all(const weft_wide *block, weft_host_class *classes, uint32_t classes_count,
                                           weft_wide_stream *stream, weft_wide_set *changed)
{
    weft_wide_hits hits;
    uint32_t count = 0, filled = 0;
    for (uint32_t c = 0; c < classes_count; c++) {
        weft_wide_ask(stream, stream->collecting);
        if (classes[c].inverted)
            filled |= weft_wide_turn(block->member[c], changed->word);
        count = weft_wide_collect(block->all[c], c, &classes[c], &hits, count);
    }
    for (uint32_t i = 0; i < count; i++)
        filled |= UINT32_C(1) << weft_wide_mark(block, hits.class[i], hits.rank[i], changed->word);
    changed->filled = filled;
}

static uint32_t weft_wide_ones(const weft_wide_set *set)
{
    uint32_t all = 0;
    for (uint32_t w = 0; w < WEFT_WIDE_WORDS; w++)
        all += (uint32_t)__builtin_popcountll(set->word[w]);
    return all;
}

/* Lists the positions in a set; returns how many, or room + 1. */
WEFT_ALWAYS_INLINE uint32_t weft_wide_list(weft_wide_set *set, weft_wide_stream *stream, uint32_t begin,
                                           uint32_t *position, uint32_t room)
{
    const __m512i numbers = weft_lanes512_numbers();
    uint32_t found = 0;
    if (room < WEFT_WIDE_ELEMENTS && weft_wide_ones(set) > room)
        return room + 1;
    for (uint32_t words = set->filled; words; words &= words - 1) {
        const uint32_t w = (uint32_t)__builtin_ctz(words);
        uint64_t word = set->word[w];
        set->word[w] = 0;
        weft_wide_ask(stream, stream->listing);
        if (room - found >= 64)
            found += weft_lanes512_list(word, numbers, begin + 64 * w, position + found);
        else
            for (; word; word &= word - 1)
                position[found++] = begin + 64 * w + (uint32_t)__builtin_ctzll(word);
    }
    return found;
}

/* ---- from positions to ranks */

/* Bytes that are asked for ahead of use in each of the two. */
#define WEFT_WIDE_PAIR_AHEAD 6144u

/* Returns a bit for each of 64 elements that differs. */
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
    const __m512i numbers = weft_lanes512_numbers();
    __m512i plane[WEFT_WIDE_GROUPS][4];
    uint32_t found = 0;
    for (uint32_t g = 0; g < WEFT_WIDE_GROUPS; g++) {
        __m512i two[4];
        WEFT_UNROLL for (uint32_t i = 0; i < 4; i++)
        {
            const uint32_t at = begin + 512 * g + 128 * i;
            const uint8_t *now = pair->now + (uint64_t)at * width, *shadow = pair->shadow + (uint64_t)at * width;
            weft_ahead_stream(now, WEFT_WIDE_PAIR_AHEAD, 2 * width);
            weft_ahead_stream(shadow, WEFT_WIDE_PAIR_AHEAD, 2 * width);
            for (uint32_t w = 0; w < 2; w++) {
                const uint64_t differ = weft_wide_differ(now + 64 * width * w, shadow + 64 * width * w, width);
                found += weft_lanes512_list(differ, numbers, pair->first + at + 64 * w, position + found);
            }
            two[i] = weft_wide_two(shadow, map, width);
        }
        weft_wide_turn_planes(two, plane[g]);
    }
    weft_wide_count(plane, NULL, block, n);
    return found;
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

/* Functions of a set for one width and n classes, a multiple of four. A block is counted before the changes of the
 * block before it are marked, so that neither waits for the other. */
#define WEFT_TIGHT_WIDE_OF(P, W, N)                                                                                    \
    static uint32_t P##_place_wide_##W##_##N(const uint8_t *data, uint32_t count, uint32_t first,                      \
                                             const weft_class_map *map, weft_host_class *classes, uint32_t *position,  \
                                             uint32_t room)                                                            \
    {                                                                                                                  \
        const weft_wide_map of = weft_wide_map_of(map, W);                                                             \
        weft_wide_stream stream = weft_wide_stream_of(N, W);                                                           \
        const uint32_t end = count / WEFT_WIDE_ELEMENTS * WEFT_WIDE_ELEMENTS;                                          \
        uint32_t found = 0;                                                                                            \
        weft_wide block[2];                                                                                            \
        weft_wide_set changed = {.filled = 0};                                                                         \
        memset(block[0].all, 0, sizeof block[0].all);                                                                  \
        memset(block[1].all, 0, sizeof block[1].all);                                                                  \
        weft_wide_take(data, &of, &stream, &block[0], N, W);                                                           \
        for (uint32_t at = 0, next; at < end && found <= room; at = next) {                                            \
            next = at + WEFT_WIDE_ELEMENTS;                                                                            \
            if (next < end)                                                                                            \
                weft_wide_take(data + (uint64_t)next * W, &of, &stream, &block[next / WEFT_WIDE_ELEMENTS % 2], N, W);  \
            weft_wide_mark_all(&block[at / WEFT_WIDE_ELEMENTS % 2], classes, map->count, &stream, &changed);           \
            found += weft_wide_list(&changed, &stream, first + at, position + found, room - found);                    \
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
        const uint32_t blocks = weft_wide_can(map) ? count / WEFT_WIDE_ELEMENTS * WEFT_WIDE_ELEMENTS : 0;              \
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
        const uint32_t blocks = weft_wide_can(map) ? pair->count / WEFT_WIDE_ELEMENTS * WEFT_WIDE_ELEMENTS : 0;        \
        uint32_t changes = 0;                                                                                          \
        if (blocks > 0)                                                                                                \
            changes = of[(map->count - 1) / 4](pair, map, population, found);                                          \
        const weft_host_pair rest = weft_pair_behind(pair, blocks, W);                                                 \
        const weft_host_found to = weft_found_behind(found, changes, W);                                               \
        return changes + weft_loop_find(kernels, P##_rank_words_##W, &rest, map, population, &to, W);                  \
    }

#endif

/* classes.h - the classes of a base's elements, for level tight on both ends. Instructions and not bytes are what going
 * over the base costs, so a class is not held as a number: a thread has the 32 elements of a chunk, and of their
 * classes four words, the planes, of which each has one bit of every class. The members of a class are then a mask of a
 * few word operations. The rank of a member is a count of bits plus the counts of the chunks below, which the block
 * sums. */
#ifndef WEFT_BACKENDS_KERNELS_CLASSES_H
#define WEFT_BACKENDS_KERNELS_CLASSES_H

#include "backends/kernels/block.h"
#include "backends/kernels/view.h"

#define WEFT_CHUNK  32u
#define WEFT_STRIP  (WEFT_CHUNK * WEFT_BLOCK)
#define WEFT_GROUP  8u /* chunks whose counts are added up in bytes */
#define WEFT_GROUPS (WEFT_BLOCK / WEFT_GROUP)

static_assert(WEFT_GROUPS == 32, "prefixes over the groups are of 32 lanes");

/* A class is spread: its bit b is bit 8 * b of a word. */
WEFT_DEVICE uint32_t weft_class_spread(uint32_t number)
{
    return number * 0x204081u & 0x01010101u;
}

WEFT_DEVICE uint32_t weft_class_number(uint32_t cls)
{
    return (cls | cls >> 7 | cls >> 14 | cls >> 21) % WEFT_K_CLASSES;
}

/* Class of each exponent, spread, in shared memory. */
struct weft_class_table {
    uint32_t of[WEFT_K_EXPONENTS];
};

WEFT_DEVICE void weft_class_table_load(weft_class_table *table, uint64_t of, uint32_t mask)
{
    for (uint32_t e = weft_thread(); e <= mask; e += WEFT_BLOCK)
        table->of[e] = weft_class_spread(WEFT_AT(const uint8_t, of)[e]);
    weft_barrier();
}

/* Where four times the exponent, an offset in the table, is in the element's highest word. */
typedef struct weft_class_key {
    uint32_t shift, mask;
} weft_class_key;

template <unsigned width> WEFT_DEVICE weft_class_key weft_class_key_of(uint32_t shift, uint32_t mask)
{
    return {mask != 0 ? shift - (width == 8 ? 34 : 2) : 0, 4 * mask};
}

WEFT_DEVICE uint32_t weft_class_look(const weft_class_table *table, const weft_class_key &key, uint32_t word)
{
    /* By a variable: of bytes of an array clang knows no better alignment than theirs, and reads them one by one. */
    const uint8_t *at = (const uint8_t *)table->of + (word >> key.shift & key.mask);
    return *(const uint32_t *)at;
}

template <unsigned width>
WEFT_DEVICE uint32_t weft_class_of(const weft_class_table *table, const weft_class_key &key,
                                   typename weft_bits_of<width>::type bits)
{
    return weft_class_look(table, key, (uint32_t)(width == 8 ? (uint64_t)bits >> 32 : bits));
}

/* Four bytes of each of four words, the other way round. */
WEFT_DEVICE weft_quad weft_bytes_turn(const uint32_t *words)
{
    const uint32_t even = 0x00ff00ffu, odd = 0xff00ff00u;
    const uint32_t a = (words[0] & even) | (words[1] & even) << 8, b = (words[0] & odd) >> 8 | (words[1] & odd);
    const uint32_t c = (words[2] & even) | (words[3] & even) << 8, d = (words[2] & odd) >> 8 | (words[3] & odd);
    return {(a & 0xffff) | c << 16, (b & 0xffff) | d << 16, a >> 16 | (c & 0xffff0000u), b >> 16 | (d & 0xffff0000u)};
}

/* The planes of a chunk that lies in one run, from `data` on; quads are read where that is aligned to 16 bytes. */
template <unsigned width, bool aligned>
WEFT_DEVICE weft_quad weft_chunk_whole(const weft_class_table *table, const weft_class_key &key, uint64_t data)
{
    const uint32_t each = 16 / width;
    uint32_t eight[4] = {0, 0, 0, 0}; /* of eight elements, a byte a plane */
    WEFT_UNROLL
    for (unsigned q = 0; q < WEFT_CHUNK / each; q++) {
        weft_quad quad = {0, 0, 0, 0};
        if (aligned)
            quad = WEFT_AT(const weft_quad, data)[q];
        WEFT_UNROLL
        for (unsigned i = q * each; i < (q + 1) * each; i++) {
            const uint32_t cls = aligned ? weft_class_of<width>(table, key, weft_quad_element<width>(quad, i % each))
                                         : weft_class_of<width>(table, key, weft_element_load<width>(data, i));
            eight[i / 8] |= cls << i % 8;
        }
    }
    return weft_bytes_turn(eight);
}

/* The same of `count` elements that lie anywhere; bits after them are zero. */
template <unsigned width>
WEFT_DEVICE weft_quad weft_chunk_scattered(const weft_class_table *table, const weft_class_key &key, weft_walk walk,
                                           uint32_t count)
{
    weft_quad planes = {0, 0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t cls =
            weft_class_of<width>(table, key, weft_element_load<width>(weft_walk_next<width>(&walk), 0));
        planes.x |= (cls & 1) << i;
        planes.y |= (cls >> 8 & 1) << i;
        planes.z |= (cls >> 16 & 1) << i;
        planes.w |= (cls >> 24) << i;
    }
    return planes;
}

template <unsigned width>
WEFT_DEVICE weft_quad weft_chunk_planes(const weft_class_table *table, uint32_t shift, uint32_t mask,
                                        const weft_k_view *view, uint32_t first, uint32_t count)
{
    const weft_class_key key = weft_class_key_of<width>(shift, mask);
    if (count == 0)
        return {0, 0, 0, 0};
    const weft_walk walk = weft_walk_from<width>(view, first);
    if (count < WEFT_CHUNK || walk.left < WEFT_CHUNK)
        return weft_chunk_scattered<width>(table, key, walk, count);
    return walk.data % 16 == 0 ? weft_chunk_whole<width, true>(table, key, walk.data)
                               : weft_chunk_whole<width, false>(table, key, walk.data);
}

/* The planes of the `count` elements of a view from `first` on. */
WEFT_DEVICE weft_quad weft_planes_of(const weft_class_table *table, uint32_t shift, uint32_t mask,
                                     const weft_k_view *view, uint32_t first, uint32_t count)
{
    switch (view->width) {
    case 1:
        return weft_chunk_planes<1>(table, shift, mask, view, first, count);
    case 2:
        return weft_chunk_planes<2>(table, shift, mask, view, first, count);
    case 4:
        return weft_chunk_planes<4>(table, shift, mask, view, first, count);
    default:
        return weft_chunk_planes<8>(table, shift, mask, view, first, count);
    }
}

/* The elements of a chunk that are of a class; of class 0 also what is after the last. */
WEFT_DEVICE uint32_t weft_class_mask(const weft_quad &planes, uint32_t cls)
{
    return ~((planes.x ^ (0 - (cls & 1))) | (planes.y ^ (0 - (cls >> 8 & 1))) | (planes.z ^ (0 - (cls >> 16 & 1))) |
             (planes.w ^ (0 - (cls >> 24 & 1))));
}

/* How many elements of each class the chunks of a strip have, and those below them. */
struct weft_class_ranks {
    uint32_t chunk[WEFT_K_CLASSES / 4][WEFT_BLOCK + WEFT_GROUPS]; /* a byte a class: in the chunks below of the group;
                                                                     groups stand apart, in banks of their own */
    uint16_t group[WEFT_GROUPS][WEFT_K_CLASSES];                  /* in the groups below */
    uint32_t all[WEFT_K_CLASSES];                                 /* in the strip */
};

WEFT_DEVICE uint32_t weft_ranks_index(uint32_t chunk)
{
    return chunk + chunk / WEFT_GROUP;
}

/* Elements of a class, by its number, in the chunks below one. */
WEFT_DEVICE uint32_t weft_ranks_group(const weft_class_ranks *ranks, uint32_t number, uint32_t chunk)
{
    return ranks->chunk[number / 4][weft_ranks_index(chunk)] >> number % 4 * 8 & 255;
}

WEFT_DEVICE uint32_t weft_ranks_below(const weft_class_ranks *ranks, uint32_t number, uint32_t chunk)
{
    return ranks->group[chunk / WEFT_GROUP][number] + weft_ranks_group(ranks, number, chunk);
}

/* Leaves how many of a chunk's `count` elements are of each class. */
WEFT_DEVICE void weft_ranks_count(weft_class_ranks *ranks, const weft_quad &planes, uint32_t count, uint32_t classes)
{
    const uint32_t there = count < WEFT_CHUNK ? (1u << count) - 1 : ~0u;
    const uint32_t low[4] = {there & ~planes.x & ~planes.y, there & planes.x & ~planes.y, there & ~planes.x & planes.y,
                             there & planes.x & planes.y};
    const uint32_t high[4] = {~planes.z & ~planes.w, planes.z & ~planes.w, ~planes.z & planes.w, planes.z & planes.w};
    WEFT_UNROLL
    for (unsigned q = 0; q < WEFT_K_CLASSES / 4; q++) {
        if (4 * q >= classes)
            break;
        ranks->chunk[q][weft_ranks_index(weft_thread())] =
            weft_ones(low[0] & high[q]) | weft_ones(low[1] & high[q]) << 8 | weft_ones(low[2] & high[q]) << 16 |
            weft_ones(low[3] & high[q]) << 24;
    }
}

/* Adds up the counts of four classes over the chunks of a group, and over the groups. Of two classes in 16 bits each:
 * a strip's fit. Whole warps. */
WEFT_DEVICE void weft_ranks_add(weft_class_ranks *ranks, uint32_t four, uint32_t group)
{
    const uint32_t bytes = 0x00ff00ffu;
    uint32_t *chunk = &ranks->chunk[four][weft_ranks_index(group * WEFT_GROUP)], sum = 0, last = 0;
    for (uint32_t i = 0; i < WEFT_GROUP; i++) {
        sum += last; /* of all but the last: 7 * 32 fit a byte */
        last = chunk[i];
        chunk[i] = sum;
    }
    const uint32_t even = (sum & bytes) + (last & bytes), odd = (sum >> 8 & bytes) + (last >> 8 & bytes);
    const uint32_t evens = weft_prefix_32(even), odds = weft_prefix_32(odd);
    uint16_t *of = &ranks->group[group][4 * four];
    of[0] = (uint16_t)(evens - even);
    of[1] = (uint16_t)(odds - odd);
    of[2] = (uint16_t)((evens - even) >> 16);
    of[3] = (uint16_t)((odds - odd) >> 16);
    if (group < WEFT_GROUPS - 1)
        return;
    uint32_t *all = &ranks->all[4 * four];
    all[0] = evens & 0xffff;
    all[1] = odds & 0xffff;
    all[2] = evens >> 16;
    all[3] = odds >> 16;
}

/* Fills them from the planes of each thread's chunk; those of classes that are not there are left as they are.
 * Collective. */
WEFT_DEVICE void weft_ranks_make(weft_class_ranks *ranks, const weft_quad &planes, uint32_t count, uint32_t classes)
{
    const uint32_t four = weft_thread() / WEFT_GROUPS;
    weft_ranks_count(ranks, planes, count, classes);
    weft_barrier();
    if (weft_thread() / WEFT_LANES * WEFT_LANES < (classes + 3) / 4 * WEFT_GROUPS && four < WEFT_K_CLASSES / 4)
        weft_ranks_add(ranks, four, weft_thread() % WEFT_GROUPS);
    weft_barrier();
}

#endif

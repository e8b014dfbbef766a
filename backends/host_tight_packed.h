/* host_tight_packed.h - the loops of level tight in plain C, for few changes among many elements: the counts of all 16
 * classes lie in one word, four bits each. Of 15 elements none overflows; then the counts of even and of odd classes
 * are added to two words of bytes. Groups of 15 in which no class reaches its next listed member are done with by one
 * compare of all bytes; the others go element by element, and so does what is full of changes. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_PACKED_H
#define WEFT_BACKENDS_HOST_TIGHT_PACKED_H

#include "backends/host_tight_loops.h"

#define WEFT_PACKED_GROUP 15u
#define WEFT_PACKED_BLOCK 240u /* elements whose counts fit bytes */
#define WEFT_PACKED_MANY  4u   /* changes in a group that promise more of them */
#define WEFT_PACKED_LEAST 8u   /* elements for each change that make packing worth it */
#define WEFT_PACKED_LOW   (UINT64_MAX / 255 * 15)
#define WEFT_PACKED_TOP   (UINT64_MAX / 255 * 128)
#define WEFT_PACKED_FAR   127u

/* A byte for each class: class c is byte c / 2 of word c % 2. */
typedef struct weft_packed {
    uint64_t word[2];
} weft_packed;

WEFT_ALWAYS_INLINE uint32_t weft_packed_get(const weft_packed *packed, uint32_t class)
{
    return packed->word[class % 2] >> 8 * (class / 2) & 255;
}

/* One element of a class, in four bits of a word. */
#define WEFT_PACKED_ONE(c)  UINT64_C(1) << 4 * (c)
#define WEFT_PACKED_ONES(c) WEFT_PACKED_ONE(c), WEFT_PACKED_ONE(c + 1), WEFT_PACKED_ONE(c + 2), WEFT_PACKED_ONE(c + 3)
static const uint64_t weft_packed_one[WEFT_CLASS_MAX] = {WEFT_PACKED_ONES(0), WEFT_PACKED_ONES(4), WEFT_PACKED_ONES(8),
                                                         WEFT_PACKED_ONES(12)};

/* Counts of at most 15 elements. */
WEFT_ALWAYS_INLINE weft_packed weft_packed_group(const uint8_t *data, uint32_t count, const weft_class_map *map,
                                                 unsigned width)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += weft_packed_one[weft_loop_class(data, i, map, width)];
    return (weft_packed){{sum & WEFT_PACKED_LOW, sum >> 4 & WEFT_PACKED_LOW}};
}

WEFT_ALWAYS_INLINE void weft_packed_add(weft_packed *sum, const uint8_t *data, uint32_t count,
                                        const weft_class_map *map, unsigned width)
{
    for (; count >= WEFT_PACKED_GROUP; count -= WEFT_PACKED_GROUP, data += WEFT_PACKED_GROUP * width) {
        weft_packed group = weft_packed_group(data, WEFT_PACKED_GROUP, map, width);
        sum->word[0] += group.word[0];
        sum->word[1] += group.word[1];
    }
    weft_packed group = weft_packed_group(data, count, map, width);
    sum->word[0] += group.word[0];
    sum->word[1] += group.word[1];
}

WEFT_ALWAYS_INLINE void weft_packed_rank(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,
                                         const uint32_t *position, uint32_t changes, uint32_t *population,
                                         uint32_t *ranks, unsigned width)
{
    if (changes > count / WEFT_PACKED_LEAST) {
        weft_loop_rank(data, count, first, map, position, changes, population, ranks, width);
        return;
    }
    for (uint32_t at = 0, i = 0; at < count;) {
        const uint32_t end = count - at < WEFT_PACKED_BLOCK ? count : at + WEFT_PACKED_BLOCK;
        weft_packed sum = {{0, 0}};
        for (; i < changes && position[i] - first < end; i++) {
            uint32_t place = position[i] - first, class = weft_loop_class(data, place, map, width);
            weft_packed_add(&sum, data + (uint64_t)at * width, place - at, map, width);
            ranks[i] = population[class] + weft_packed_get(&sum, class);
            at = place;
        }
        weft_packed_add(&sum, data + (uint64_t)at * width, end - at, map, width);
        at = end;
        for (uint32_t c = 0; c < map->count; c++)
            population[c] += weft_packed_get(&sum, c);
    }
}

/* How far each class's next listed member is, if not further than can be told. In an inverted class every member
 * counts. */
WEFT_ALWAYS_INLINE weft_packed weft_packed_left(const weft_host_class *classes, uint32_t count)
{
    weft_packed left = {{0, 0}};
    for (uint32_t c = 0; c < count; c++) {
        uint32_t far = *classes[c].next - classes[c].population;
        uint64_t known = classes[c].inverted ? 0 : far < WEFT_PACKED_FAR ? far : WEFT_PACKED_FAR;
        left.word[c % 2] |= known << 8 * (c / 2);
    }
    return left;
}

/* Skips groups without a change; returns how many elements. */
WEFT_ALWAYS_INLINE uint32_t weft_packed_skip(const uint8_t *data, uint32_t count, const weft_class_map *map,
                                             weft_host_class *classes, unsigned width)
{
    const weft_packed begin = weft_packed_left(classes, map->count);
    weft_packed left = begin;
    uint32_t at = 0;
    for (; count - at >= WEFT_PACKED_GROUP; at += WEFT_PACKED_GROUP) {
        weft_packed group = weft_packed_group(data + (uint64_t)at * width, WEFT_PACKED_GROUP, map, width);
        uint64_t even = (left.word[0] | WEFT_PACKED_TOP) - group.word[0];
        uint64_t odd = (left.word[1] | WEFT_PACKED_TOP) - group.word[1];
        if ((even & odd & WEFT_PACKED_TOP) != WEFT_PACKED_TOP)
            break;
        left = (weft_packed){{even & ~WEFT_PACKED_TOP, odd & ~WEFT_PACKED_TOP}};
    }
    for (uint32_t c = 0; c < map->count; c++)
        classes[c].population += weft_packed_get(&begin, c) - weft_packed_get(&left, c);
    return at;
}

WEFT_ALWAYS_INLINE uint32_t weft_packed_place(const uint8_t *data, uint32_t count, uint32_t first,
                                              const weft_class_map *map, weft_host_class *classes, uint32_t *position,
                                              uint32_t room, unsigned width)
{
    uint32_t found = 0, single = WEFT_PACKED_GROUP;
    for (uint32_t at = 0; at < count && found <= room;) {
        at += weft_packed_skip(data + (uint64_t)at * width, count - at, map, classes, width);
        const uint32_t some = count - at < single ? count - at : single;
        uint32_t here = weft_loop_place(data + (uint64_t)at * width, some, first + at, map, classes, position + found,
                                        room - found, width);
        single = here > some / WEFT_PACKED_MANY ? WEFT_PACKED_BLOCK : WEFT_PACKED_GROUP;
        found += here;
        at += some;
    }
    return found;
}

/* Functions of one width for the slots of a set, named PREFIX_slot_WIDTH. */
#define WEFT_TIGHT_PACKED(P, W)                                                                                        \
    static void P##_rank_##W(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,           \
                             const uint32_t *position, uint32_t changes, uint32_t population[WEFT_CLASS_MAX],          \
                             uint32_t *ranks)                                                                          \
    {                                                                                                                  \
        weft_packed_rank(data, count, first, map, position, changes, population, ranks, W);                            \
    }                                                                                                                  \
    static uint32_t P##_place_##W(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,      \
                                  weft_host_class classes[WEFT_CLASS_MAX], uint32_t *position, uint32_t room)          \
    {                                                                                                                  \
        return weft_packed_place(data, count, first, map, classes, position, room, W);                                 \
    }

#endif

/* host_tight_packed.h - the loops of level tight in plain C, for few changes among many elements: the counts of all 16
 * classes lie in one word, four bits each. Of 15 elements none overflows; then the counts of even and of odd classes
 * are added to two words of bytes. Groups of 15 in which no class reaches its next listed member are done with by one
 * compare of all bytes; in the others only the classes that do are looked at. What is full of changes goes element by
 * element. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_PACKED_H
#define WEFT_BACKENDS_HOST_TIGHT_PACKED_H

#include "backends/host/tight/host_tight_loops.h"

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

/* Answers of weft_packed_one for each exponent: one look-up instead of two that wait for each other. */
typedef struct weft_packed_table {
    uint64_t one[WEFT_EXPONENTS_MAX];
} weft_packed_table;

WEFT_ALWAYS_INLINE void weft_packed_table_make(weft_packed_table *table, const weft_class_map *map)
{
    for (uint32_t e = 0; e <= map->mask; e++)
        table->one[e] = weft_packed_one[map->of[e]];
}

/* Where a walk through groups stands: how far each class's next listed member is, in a byte as far as can be told
 * there, and how much farther. In an inverted class every member counts: 0. */
typedef struct weft_packed_walk {
    weft_packed left;
    uint32_t more[WEFT_CLASS_MAX];
} weft_packed_walk;

WEFT_ALWAYS_INLINE void weft_packed_far_put(weft_packed_walk *walk, uint32_t class, uint32_t far, uint32_t inverted)
{
    const uint32_t shift = 8 * (class / 2), told = inverted ? 0 : far < WEFT_PACKED_FAR ? far : WEFT_PACKED_FAR;
    uint64_t *word = &walk->left.word[class % 2];
    *word = (*word & ~(UINT64_C(255) << shift)) | (uint64_t)told << shift;
    walk->more[class] = far - told;
}

WEFT_ALWAYS_INLINE uint32_t weft_packed_far(const weft_packed_walk *walk, uint32_t class)
{
    return weft_packed_get(&walk->left, class) + walk->more[class];
}

WEFT_ALWAYS_INLINE void weft_packed_begin(weft_packed_walk *walk, const weft_host_class *classes, uint32_t count)
{
    walk->left = (weft_packed){{0, 0}};
    for (uint32_t c = 0; c < count; c++)
        weft_packed_far_put(walk, c, *classes[c].next - classes[c].population, classes[c].inverted);
}

WEFT_ALWAYS_INLINE void weft_packed_end(const weft_packed_walk *walk, weft_host_class *classes, uint32_t count)
{
    for (uint32_t c = 0; c < count; c++)
        classes[c].population = *classes[c].next - weft_packed_far(walk, c);
}

/* The group at which a walk halts. */
typedef struct weft_packed_halt {
    weft_packed reached; /* the classes that reach their next listed member in it: the top bit of each byte */
    weft_packed counts;
} weft_packed_halt;

/* Skips groups in which no class reaches its next listed member; returns how many elements. */
WEFT_ALWAYS_INLINE uint32_t weft_packed_skip(const uint8_t *data, uint32_t count, const weft_class_map *map,
                                             const weft_packed_table *table, weft_packed_walk *walk,
                                             weft_packed_halt *halt, unsigned width)
{
    weft_packed left = walk->left;
    uint32_t at = 0;
    for (; count - at >= WEFT_PACKED_GROUP; at += WEFT_PACKED_GROUP) {
        const uint8_t *group = data + (uint64_t)at * width;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < WEFT_PACKED_GROUP; i++)
            sum += table->one[weft_class_exponent(map, weft_element_get(group, i, width))];
        uint64_t even = (left.word[0] | WEFT_PACKED_TOP) - (sum & WEFT_PACKED_LOW);
        uint64_t odd = (left.word[1] | WEFT_PACKED_TOP) - (sum >> 4 & WEFT_PACKED_LOW);
        if ((even & odd & WEFT_PACKED_TOP) != WEFT_PACKED_TOP) {
            halt->reached = (weft_packed){{~even & WEFT_PACKED_TOP, ~odd & WEFT_PACKED_TOP}};
            halt->counts = (weft_packed){{sum & WEFT_PACKED_LOW, sum >> 4 & WEFT_PACKED_LOW}};
            break;
        }
        left = (weft_packed){{even & ~WEFT_PACKED_TOP, odd & ~WEFT_PACKED_TOP}};
    }
    walk->left = left;
    return at;
}

/* The elements of one class in a group, a bit for each. */
WEFT_ALWAYS_INLINE uint32_t weft_packed_members(const uint8_t *data, const weft_class_map *map,
                                                const weft_packed_table *table, uint32_t class, unsigned width)
{
    uint32_t members = 0;
    for (uint32_t i = 0; i < WEFT_PACKED_GROUP; i++) {
        const uint64_t one = table->one[weft_class_exponent(map, weft_element_get(data, i, width))];
        members |= (uint32_t)(one >> 4 * class & 1) << i;
    }
    return members;
}

/* Goes over a group for one class that reaches its next listed member there, or as far as a byte could tell, with
 * `count` members; returns what changed, a bit for each. */
WEFT_ALWAYS_INLINE uint32_t weft_packed_reach(const uint8_t *data, const weft_class_map *map,
                                              const weft_packed_table *table, weft_host_class *class,
                                              weft_packed_walk *walk, uint32_t number, uint32_t count, unsigned width)
{
    uint32_t far = weft_packed_far(walk, number), listed = 0;
    if (far >= count && !class->inverted) {
        weft_packed_far_put(walk, number, far - count, 0);
        return 0;
    }
    const uint32_t members = weft_packed_members(data, map, table, number, width);
    for (uint32_t rest = members; rest; rest &= rest - 1, far--) {
        if (far > 0)
            continue;
        listed |= rest & (0 - rest);
        far = *(class->next + 1) - *class->next;
        class->next++;
    }
    weft_packed_far_put(walk, number, far, class->inverted);
    return class->inverted ? members ^ listed : listed;
}

/* The same for all classes; the others come nearer by their members. */
WEFT_ALWAYS_INLINE uint32_t weft_packed_changed(const uint8_t *data, const weft_class_map *map,
                                                const weft_packed_table *table, weft_host_class *classes,
                                                weft_packed_walk *walk, const weft_packed_halt *halt, unsigned width)
{
    uint32_t changed = 0;
    for (uint32_t half = 0; half < 2; half++) {
        const uint64_t bytes = halt->reached.word[half] / 128 * 255; /* all bits of the bytes that reach */
        walk->left.word[half] -= halt->counts.word[half] & ~bytes;
        for (uint64_t rest = halt->reached.word[half]; rest; rest &= rest - 1) {
            const uint32_t class = (uint32_t)__builtin_ctzll(rest) / 8 * 2 + half;
            const uint32_t count = weft_packed_get(&halt->counts, class);
            changed |= weft_packed_reach(data, map, table, &classes[class], walk, class, count, width);
        }
    }
    return changed;
}

/* Groups one by one, until one has many changes or fewer elements are left. */
WEFT_ALWAYS_INLINE uint32_t weft_packed_groups(const uint8_t *data, uint32_t count, uint32_t first,
                                               const weft_class_map *map, const weft_packed_table *table,
                                               weft_host_class *classes, uint32_t *position, uint32_t room,
                                               uint32_t *found, unsigned width)
{
    weft_packed_walk walk;
    weft_packed_halt halt;
    uint32_t at = 0, here = 0;
    weft_packed_begin(&walk, classes, map->count);
    while (here < WEFT_PACKED_MANY && *found <= room) {
        at += weft_packed_skip(data + (uint64_t)at * width, count - at, map, table, &walk, &halt, width);
        if (count - at < WEFT_PACKED_GROUP)
            break;
        uint32_t changed = weft_packed_changed(data + (uint64_t)at * width, map, table, classes, &walk, &halt, width);
        here = 0;
        for (; changed && *found <= room; changed &= changed - 1, here++) {
            if (*found < room)
                position[*found] = first + at + (uint32_t)__builtin_ctz(changed);
            ++*found;
        }
        at += WEFT_PACKED_GROUP;
    }
    weft_packed_end(&walk, classes, map->count);
    return at;
}

WEFT_ALWAYS_INLINE uint32_t weft_packed_place(const uint8_t *data, uint32_t count, uint32_t first,
                                              const weft_class_map *map, weft_host_class *classes, uint32_t *position,
                                              uint32_t room, unsigned width)
{
    weft_packed_table table;
    uint32_t found = 0, at = 0;
    if (count < map->mask) /* not worth a table */
        return weft_loop_place(data, count, first, map, classes, position, room, width);
    weft_packed_table_make(&table, map);
    while (at < count && found <= room) {
        at += weft_packed_groups(data + (uint64_t)at * width, count - at, first + at, map, &table, classes, position,
                                 room, &found, width);
        if (found > room)
            break;
        const uint32_t some = count - at < WEFT_PACKED_BLOCK ? count - at : WEFT_PACKED_BLOCK;
        found += weft_loop_place(data + (uint64_t)at * width, some, first + at, map, classes, position + found,
                                 room - found, width);
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

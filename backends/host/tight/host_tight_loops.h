/* host_tight_loops.h - the loops of level tight over single elements, in plain C, for a width known when compiled. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_LOOPS_H
#define WEFT_BACKENDS_HOST_TIGHT_LOOPS_H

#include "backends/host/host_ahead.h"
#include "backends/host/tight/host_tight_kernels.h"

WEFT_ALWAYS_INLINE uint32_t weft_loop_class(const uint8_t *data, uint32_t index, const weft_class_map *map,
                                            unsigned width)
{
    return map->of[weft_class_exponent(map, weft_element_get(data, index, width))];
}

WEFT_ALWAYS_INLINE void weft_loop_rank(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,
                                       const uint32_t *position, uint32_t changes, uint32_t *population,
                                       uint32_t *ranks, unsigned width)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < changes; i++) {
        for (uint32_t end = position[i] - first; at < end; at++)
            population[weft_loop_class(data, at, map, width)]++;
        ranks[i] = population[weft_loop_class(data, at, map, width)];
    }
    for (; at < count; at++)
        population[weft_loop_class(data, at, map, width)]++;
}

WEFT_ALWAYS_INLINE uint32_t weft_loop_place(const uint8_t *data, uint32_t count, uint32_t first,
                                            const weft_class_map *map, weft_host_class *classes, uint32_t *position,
                                            uint32_t room, unsigned width)
{
    uint32_t found = 0;
    for (uint32_t at = 0; at < count; at++) {
        weft_host_class *class = &classes[weft_loop_class(data, at, map, width)];
        uint32_t listed = *class->next == class->population++;
        class->next += listed;
        if ((listed ^ class->inverted) == 0)
            continue;
        if (found == room)
            return room + 1;
        position[found++] = first + at;
    }
    return found;
}

/* Elements compared at a time before they are ranked: both streams stay in the second cache. */
#define WEFT_FIND_ELEMENTS (1u << 15)

/* The lists after `count` changes. */
WEFT_ALWAYS_INLINE weft_host_found weft_found_behind(const weft_host_found *found, uint32_t count, unsigned width)
{
    const uint64_t bytes = (uint64_t)count * width;
    return (weft_host_found){found->position + count, found->before + bytes, found->after + bytes, found->rank + count,
                             found->class + count};
}

/* Returns the rest of a pair after so many elements. */
WEFT_ALWAYS_INLINE weft_host_pair weft_pair_behind(const weft_host_pair *pair, uint32_t count, unsigned width)
{
    const uint64_t bytes = (uint64_t)count * width;
    return (weft_host_pair){pair->now + bytes, pair->shadow + bytes, pair->count - count, pair->first + count};
}

typedef void (*weft_rank_loop)(const uint8_t *, uint32_t, uint32_t, const weft_class_map *, const uint32_t *, uint32_t,
                               uint32_t *, uint32_t *);

/* Differences first, then their ranks and classes. */
WEFT_ALWAYS_INLINE uint32_t weft_loop_find(const weft_host_kernels *kernels, weft_rank_loop rank,
                                           const weft_host_pair *pair, const weft_class_map *map, uint32_t *population,
                                           const weft_host_found *found, unsigned width)
{
    uint32_t changes = 0;
    for (uint32_t at = 0; at < pair->count; at += WEFT_FIND_ELEMENTS) {
        const weft_host_pair rest = weft_pair_behind(pair, at, width);
        const weft_host_found to = weft_found_behind(found, changes, width);
        const uint32_t count = rest.count < WEFT_FIND_ELEMENTS ? rest.count : WEFT_FIND_ELEMENTS;
        uint32_t here = kernels->diff[weft_host_slot((uint8_t)width)](rest.now, rest.shadow, count, rest.first,
                                                                      to.position, to.before, to.after);
        rank(rest.shadow, count, rest.first, map, to.position, here, population, to.rank);
        for (uint32_t i = 0; i < here; i++)
            to.class[i] = (uint8_t)weft_loop_class(to.before, i, map, width);
        changes += here;
    }
    return changes;
}

/* Function of one width for the slot of a set, named PREFIX_find_WIDTH. */
#define WEFT_TIGHT_FIND(P, W, RANK)                                                                                    \
    static uint32_t P##_find_##W(const weft_host_kernels *kernels, const weft_host_pair *pair,                         \
                                 const weft_class_map *map, uint32_t population[WEFT_CLASS_MAX],                       \
                                 const weft_host_found *found)                                                         \
    {                                                                                                                  \
        return weft_loop_find(kernels, RANK, pair, map, population, found, W);                                         \
    }

#endif

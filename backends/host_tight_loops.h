/* host_tight_loops.h - the loops of level tight over single elements, in plain C, for a width known when compiled. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_LOOPS_H
#define WEFT_BACKENDS_HOST_TIGHT_LOOPS_H

#include "backends/host_element.h"
#include "backends/host_tight_kernels.h"

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

#endif

/* host_tight_portable.c - the loops of level tight in plain C: the judge. */
#include "backends/host_element.h"
#include "backends/host_tight_kernels.h"

WEFT_ALWAYS_INLINE uint32_t class_at(const uint8_t *data, uint32_t index, const weft_class_map *map, unsigned width)
{
    return map->of[weft_class_exponent(map, weft_element_get(data, index, width))];
}

WEFT_ALWAYS_INLINE void rank(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,
                             const uint32_t *position, uint32_t changes, uint32_t *population, uint32_t *ranks,
                             unsigned width)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < changes; i++) {
        for (uint32_t end = position[i] - first; at < end; at++)
            population[class_at(data, at, map, width)]++;
        ranks[i] = population[class_at(data, at, map, width)];
    }
    for (; at < count; at++)
        population[class_at(data, at, map, width)]++;
}

WEFT_ALWAYS_INLINE uint32_t place(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,
                                  weft_host_class *classes, uint32_t *position, uint32_t room, unsigned width)
{
    uint32_t found = 0;
    for (uint32_t at = 0; at < count; at++) {
        weft_host_class *class = &classes[class_at(data, at, map, width)];
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

#define PORTABLE(W)                                                                                                    \
    static void rank_##W(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,               \
                         const uint32_t *position, uint32_t changes, uint32_t population[WEFT_CLASS_MAX],              \
                         uint32_t *ranks)                                                                              \
    {                                                                                                                  \
        rank(data, count, first, map, position, changes, population, ranks, W);                                        \
    }                                                                                                                  \
    static uint32_t place_##W(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,          \
                              weft_host_class classes[WEFT_CLASS_MAX], uint32_t *position, uint32_t room)              \
    {                                                                                                                  \
        return place(data, count, first, map, classes, position, room, W);                                             \
    }

PORTABLE(1)
PORTABLE(2)
PORTABLE(4)
PORTABLE(8)

const weft_host_tight_kernels weft_host_tight_portable = {
    .rank = {rank_1, rank_2, rank_4, rank_8},
    .place = {place_1, place_2, place_4, place_8},
};

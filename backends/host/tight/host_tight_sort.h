/* host_tight_sort.h - the ranks of changes sorted by class, and the marked ones of a class told apart, in plain C.
 *
 * Changes are gone through at four places at once, each with numbers of its own: neighbours are often of one class, and
 * would wait for one another. */
#ifndef WEFT_BACKENDS_HOST_TIGHT_SORT_H
#define WEFT_BACKENDS_HOST_TIGHT_SORT_H

#include "backends/host/tight/host_tight_kernels.h"

#define WEFT_SORT_PLACES 4u

WEFT_ALWAYS_INLINE void weft_loop_sort(const uint8_t *class_of, const uint32_t *rank, uint32_t count, uint32_t *changed,
                                       uint32_t *sorted)
{
    const uint32_t each = count / WEFT_SORT_PLACES;
    uint32_t here[WEFT_SORT_PLACES][WEFT_CLASS_MAX] = {{0}}, *next[WEFT_SORT_PLACES][WEFT_CLASS_MAX];
    for (uint32_t i = 0; i < each; i++) {
        for (uint32_t p = 0; p < WEFT_SORT_PLACES; p++)
            here[p][class_of[p * each + i]]++;
    }
    for (uint32_t i = WEFT_SORT_PLACES * each; i < count; i++)
        here[WEFT_SORT_PLACES - 1][class_of[i]]++;
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        const uint32_t *begin = sorted;
        for (uint32_t p = 0; p < WEFT_SORT_PLACES; p++) {
            next[p][c] = sorted;
            sorted += here[p][c];
        }
        changed[c] = (uint32_t)(sorted - begin);
    }
    for (uint32_t i = 0; i < each; i++) {
        for (uint32_t p = 0; p < WEFT_SORT_PLACES; p++)
            *next[p][class_of[p * each + i]]++ = rank[p * each + i];
    }
    for (uint32_t i = WEFT_SORT_PLACES * each; i < count; i++)
        *next[WEFT_SORT_PLACES - 1][class_of[i]]++ = rank[i];
}

/* From the i-th rank on; so many were marked before it. */
WEFT_ALWAYS_INLINE uint32_t weft_loop_split(uint32_t *ranks, uint32_t i, uint32_t count, uint32_t marked,
                                            uint32_t *members)
{
    for (; i < count; i++) {
        const uint32_t rank = ranks[i];
        members[i] = rank & ~WEFT_HOST_MARK;
        ranks[marked] = i;
        marked += rank / WEFT_HOST_MARK;
    }
    return marked;
}

/* Functions for the slots of a set. */
#define WEFT_TIGHT_SORT(P)                                                                                             \
    static void P##_sort(const uint8_t *class_of, const uint32_t *rank, uint32_t count,                                \
                         uint32_t changed[WEFT_CLASS_MAX], uint32_t *sorted)                                           \
    {                                                                                                                  \
        weft_loop_sort(class_of, rank, count, changed, sorted);                                                        \
    }                                                                                                                  \
    static uint32_t P##_split(uint32_t *ranks, uint32_t count, uint32_t *members)                                      \
    {                                                                                                                  \
        return weft_loop_split(ranks, 0, count, 0, members);                                                           \
    }

#endif

/* host_tight_kernels.h - the loops of level tight that read every element of the base. Every set gives the same
 * results; `portable` is the judge. Slots are indexed by weft_host_slot(width). */
#ifndef WEFT_BACKENDS_HOST_TIGHT_KERNELS_H
#define WEFT_BACKENDS_HOST_TIGHT_KERNELS_H

#include "backends/host/host_kernels.h"
#include "codec/classes.h"

/* Members of one class among the elements gone through, and which of them come next. */
typedef struct weft_host_class {
    uint32_t population;  /* elements of the class so far */
    uint32_t inverted;    /* 1: the listed members did not change, the others did */
    const uint32_t *next; /* rank of the next listed member; the list ends with UINT32_MAX, and seven more words after
                             that can be read */
} weft_host_class;

/* The same elements twice: `count` of them, the first of which has position `first`. */
typedef struct weft_host_pair {
    const uint8_t *now, *shadow;
    uint32_t count, first;
} weft_host_pair;

/* Where changes are listed: arrays with room for every element that is compared. */
typedef struct weft_host_found {
    uint32_t *position;
    uint8_t *before, *after; /* bits of shadow and of now */
    uint32_t *rank;          /* of the element in its class */
    uint8_t *class;
} weft_host_found;

/* Mark of a rank on its way into a list; no rank is so large. */
#define WEFT_HOST_MARK (UINT32_C(1) << 31)

typedef struct weft_host_tight_kernels {
    /* Lists the elements that differ as the set's own `diff` does, with what `rank` says of them in the shadow's
     * classes. Returns how many. */
    uint32_t (*find[WEFT_HOST_WIDTHS])(const weft_host_kernels *kernels, const weft_host_pair *pair,
                                       const weft_class_map *map, uint32_t population[WEFT_CLASS_MAX],
                                       const weft_host_found *found);
    /* Goes through `count` elements: writes the rank within its class of each that stands at one of the `changes`
     * positions (strictly rising, the element at data has position `first`), and counts all in population[class]. */
    void (*rank[WEFT_HOST_WIDTHS])(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,
                                   const uint32_t *position, uint32_t changes, uint32_t population[WEFT_CLASS_MAX],
                                   uint32_t *rank);
    /* The other way: writes the positions of the elements that the classes' lists say changed, at most `room`; returns
     * how many there are, room + 1 if they are more. */
    uint32_t (*place[WEFT_HOST_WIDTHS])(const uint8_t *data, uint32_t count, uint32_t first, const weft_class_map *map,
                                        weft_host_class classes[WEFT_CLASS_MAX], uint32_t *position, uint32_t room);
    /* Sorts the `count` ranks of changes by their class, those of one class in the order they are in; class c has
     * changed[c] of them. After `count` there is room for 64 words more, which may be written. */
    void (*sort)(const uint8_t *class_of, const uint32_t *rank, uint32_t count, uint32_t changed[WEFT_CLASS_MAX],
                 uint32_t *sorted);
    /* Writes `count` ranks without their marks to `members`, and the places of the marked ones among them, which are
     * their ranks among the class's changes, where the ranks were. Returns how many those are. */
    uint32_t (*split)(uint32_t *ranks, uint32_t count, uint32_t *members);
} weft_host_tight_kernels;

extern const weft_host_tight_kernels weft_host_tight_portable;
#ifdef WEFT_HAVE_AVX2
extern const weft_host_tight_kernels weft_host_tight_avx2;
#endif
#ifdef WEFT_HAVE_AVX512
extern const weft_host_tight_kernels weft_host_tight_avx512;
#endif

#endif

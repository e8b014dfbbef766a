/* classes.h - the kinds of coded elements, their classes by exponent, and the parameters an update carries for them.
 *
 * After an optimizer step an element changes the more often the smaller its steps are, that is the smaller its
 * exponent: the share doubles with each exponent down. Level `tight` therefore codes positions class by class, a class
 * being a range of exponents of the base. Where the ranges lie is a parameter of the update, chosen by any rule
 * (chooser.h); what it means is in docs/WIRE_FORMAT.md. */
#ifndef WEFT_CORE_CODEC_CLASSES_H
#define WEFT_CORE_CODEC_CLASSES_H

#include "layout/layout.h"

#define WEFT_CLASS_MAX     16u
#define WEFT_EXPONENTS_MAX 2048u /* of the widest float */

/* How an element splits into exponent and the rest: a row a kind; the numbers are on the wire. */
typedef struct weft_kind_row {
    const char *name;
    uint8_t width;
    uint8_t exponent_bits; /* 0: no exponent, one class */
} weft_kind_row;
#define WEFT_KIND_COUNT 10u

extern const weft_kind_row weft_kinds[WEFT_KIND_COUNT];

/* The kind of a coded element; every width and exponent of the dtype table has one. */
uint32_t weft_kind_of(uint8_t width, uint8_t exponent_bits);

/* Classes of one kind: class c holds the exponents from threshold[c - 1] to below threshold[c]. */
typedef struct weft_classes {
    uint32_t thresholds;                    /* 0..WEFT_CLASS_MAX - 1: one less than classes */
    uint32_t magnitude_base;                /* E: the Rice parameter of a magnitude is E - exponent */
    uint32_t threshold[WEFT_CLASS_MAX - 1]; /* strictly rising */
} weft_classes;

/* Parameters of an update's coding. All zero are the defaults: runs of one unit, one class, E = 0. */
typedef struct weft_parameters {
    uint32_t run_shift; /* frames code runs of 2^run_shift units, at most WEFT_RUN_SHIFT_MAX */
    weft_classes classes[WEFT_KIND_COUNT];
} weft_parameters;

/* As 16-bit words, and no more of them than this. */
#define WEFT_PARAMETER_WORDS_MAX (1u + WEFT_KIND_COUNT * (2u + WEFT_CLASS_MAX - 1u))

/* Returns how many words were written: none for the default ones. */
uint32_t weft_parameters_write(const weft_parameters *parameters, uint16_t words[WEFT_PARAMETER_WORDS_MAX]);
/* Errors: WEFT_E_PROTOCOL with the word that is wrong. */
weft_status weft_parameters_read(const uint16_t *words, uint32_t count, weft_parameters *parameters);

/* Classes of one kind, ready for loops over elements. */
typedef struct weft_class_map {
    const weft_classes *classes;
    uint32_t count; /* of classes */
    uint32_t width;
    uint32_t shift;                 /* bits below the exponent */
    uint32_t mask;                  /* of the exponent, 0 for kinds without one */
    uint8_t of[WEFT_EXPONENTS_MAX]; /* class of an exponent */
} weft_class_map;

/* Parameters NULL: the default ones. The map borrows them. */
void weft_class_map_make(weft_class_map *map, const weft_parameters *parameters, uint8_t width, uint8_t exponent_bits);

static inline uint32_t weft_class_exponent(const weft_class_map *map, uint64_t bits)
{
    return (uint32_t)(bits >> map->shift) & map->mask;
}

/* The Rice parameter of a magnitude on a base of that exponent, which is at most E. */
static inline uint32_t weft_class_magnitude_bits(const weft_class_map *map, uint32_t exponent)
{
    uint32_t limit = map->width == 8 ? 56 : 8 * map->width - 2, bits = map->classes->magnitude_base - exponent;
    return bits < limit ? bits : limit;
}

#endif

/* survey.h - what a sample of base and target says about an update: counts by exponent of the base.
 *
 * A survey hangs on which elements it looked at, each once, not on their order nor on how many surveys took part: those
 * that workers count apart are added up. */
#ifndef WEFT_CORE_CODEC_SURVEY_H
#define WEFT_CORE_CODEC_SURVEY_H

#include "codec/classes.h"

#define WEFT_SURVEY_MAGNITUDES 1024u

/* A change by more than one step. */
typedef struct weft_survey_magnitude {
    uint32_t exponent;
    uint32_t excess; /* magnitude - 2, at most UINT32_MAX */
    uint64_t key;    /* of where it stands: weft_survey_key */
} weft_survey_magnitude;

/* Counts of one kind of elements; what lies beyond the exponents of the kind is not read. */
typedef struct weft_survey_kind {
    uint64_t elements[WEFT_EXPONENTS_MAX];
    uint64_t changed[WEFT_EXPONENTS_MAX];
    uint64_t exceptions[WEFT_EXPONENTS_MAX];
    /* Exceptions whose keys end in `sparsity` zero bits are listed, in any order. `sparsity` is the least that leaves
     * no more than fit. */
    uint32_t sparsity, magnitudes;
    weft_survey_magnitude magnitude[WEFT_SURVEY_MAGNITUDES];
} weft_survey_kind;

typedef struct weft_survey {
    weft_survey_kind kinds[WEFT_KIND_COUNT];
} weft_survey;

/* The key of a unit's element, which is number `sampled` of those looked at in it. No two are equal. */
uint64_t weft_survey_key(uint32_t unit, uint32_t sampled);

/* Nothing seen so far: for before a survey. */
void weft_survey_clear(weft_survey *survey);

/* Counts an exception, and lists it if its key says so. */
void weft_survey_note(weft_survey_kind *kind, const weft_survey_magnitude *exception);

/* Adds what another survey saw of other elements. */
void weft_survey_add(weft_survey *survey, const weft_survey *other);

#endif

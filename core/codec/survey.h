/* survey.h - what a sample of base and target says about an update: counts by exponent of the base. */
#ifndef WEFT_CORE_CODEC_SURVEY_H
#define WEFT_CORE_CODEC_SURVEY_H

#include "codec/classes.h"

#define WEFT_SURVEY_MAGNITUDES 1024u

typedef struct weft_survey_magnitude {
    uint32_t exponent;
    uint32_t excess; /* magnitude - 2, at most UINT32_MAX */
} weft_survey_magnitude;

/* Counts of one kind of elements; what lies beyond the exponents of the kind is not read. */
typedef struct weft_survey_kind {
    uint64_t elements[WEFT_EXPONENTS_MAX];
    uint64_t changed[WEFT_EXPONENTS_MAX];
    uint64_t exceptions[WEFT_EXPONENTS_MAX];
    uint64_t seen;       /* exceptions */
    uint32_t sparsity;   /* one of 2^sparsity of them is listed */
    uint32_t magnitudes; /* listed */
    weft_survey_magnitude magnitude[WEFT_SURVEY_MAGNITUDES];
} weft_survey_kind;

typedef struct weft_survey {
    weft_survey_kind kinds[WEFT_KIND_COUNT];
} weft_survey;

#endif

/* survey.c - a list of exceptions that speaks for all of them, and hangs on no order.
 *
 * Listed are those whose keys end in a number of zero bits, as few as leave no more than fit: a bottom-k sample by
 * halves (Broder 1997). A set decides it, so lists of parts of the set make the list of the whole. */
#include "codec/survey.h"

#include <string.h>

#include "base/mix64.h"

static uint32_t exponents_of(uint32_t kind)
{
    return 1u << weft_kinds[kind].exponent_bits;
}

void weft_survey_clear(weft_survey *survey)
{
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
        weft_survey_kind *kind = &survey->kinds[k];
        const size_t counted = exponents_of(k) * sizeof *kind->elements;
        memset(kind->elements, 0, counted);
        memset(kind->changed, 0, counted);
        memset(kind->exceptions, 0, counted);
        kind->sparsity = kind->magnitudes = 0;
    }
}

/* mix64 is a bijection: keys are as distinct as what they are made of. */
uint64_t weft_survey_key(uint32_t unit, uint32_t sampled)
{
    return weft_mix64((uint64_t)unit << 32 | sampled);
}

static bool is_listed(const weft_survey_kind *kind, uint64_t key)
{
    return (key & ((UINT64_C(1) << kind->sparsity) - 1)) == 0;
}

/* Asks for one zero bit more. */
static void list_thin(weft_survey_kind *kind)
{
    uint32_t kept = 0;
    kind->sparsity++;
    for (uint32_t i = 0; i < kind->magnitudes; i++)
        if (is_listed(kind, kind->magnitude[i].key))
            kind->magnitude[kept++] = kind->magnitude[i];
    kind->magnitudes = kept;
}

/* Distinct keys that end in 54 zero bits fit. */
#define SPARSEST 54u

static void list_put(weft_survey_kind *kind, const weft_survey_magnitude *exception)
{
    while (is_listed(kind, exception->key) && kind->magnitudes == WEFT_SURVEY_MAGNITUDES && kind->sparsity < SPARSEST)
        list_thin(kind);
    if (is_listed(kind, exception->key) && kind->magnitudes < WEFT_SURVEY_MAGNITUDES)
        kind->magnitude[kind->magnitudes++] = *exception;
}

void weft_survey_note(weft_survey_kind *kind, const weft_survey_magnitude *exception)
{
    kind->exceptions[exception->exponent]++;
    list_put(kind, exception);
}

static void kind_add(weft_survey_kind *kind, const weft_survey_kind *other, uint32_t exponents)
{
    for (uint32_t e = 0; e < exponents; e++) {
        kind->elements[e] += other->elements[e];
        kind->changed[e] += other->changed[e];
        kind->exceptions[e] += other->exceptions[e];
    }
    while (kind->sparsity < other->sparsity)
        list_thin(kind);
    for (uint32_t i = 0; i < other->magnitudes; i++)
        list_put(kind, &other->magnitude[i]);
}

void weft_survey_add(weft_survey *survey, const weft_survey *other)
{
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++)
        kind_add(&survey->kinds[k], &other->kinds[k], exponents_of(k));
}

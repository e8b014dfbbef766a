/* chooser.h - the parameters of an update, from a sample of what it changes.
 *
 * Any choice decodes to the same bits; this one aims at the fewest bytes. Exact integer arithmetic, so that equal
 * samples give equal parameters everywhere. */
#ifndef WEFT_CORE_CODEC_CHOOSER_H
#define WEFT_CORE_CODEC_CHOOSER_H

#include "codec/survey.h"

/* Which of the layout's elements a survey for `levels` (a mask) looks at: `count` of every `stride`, in one of every
 * `each` units. */
typedef struct weft_survey_plan {
    uint32_t count, stride;
    uint64_t each;
} weft_survey_plan;

weft_survey_plan weft_survey_plan_for(uint64_t elements, uint32_t levels);

/* The units from `from` to `end` that a survey looks at: how many they are, and which is number `i`. Each stands at a
 * place of its own among those it speaks for, because tensors of a model repeat. */
uint64_t weft_survey_units(const weft_survey_plan *plan, uint64_t from, uint64_t end);
uint64_t weft_survey_unit(const weft_survey_plan *plan, uint64_t from, uint64_t end, uint64_t i);

/* Returns the part of the elements that a survey saw changed. */
double weft_survey_density(const weft_survey *survey);

/* `elements`: of the layout that the survey is of; `levels`: mask of 1 << weft_level that will be coded. */
void weft_parameters_choose(const weft_survey *survey, uint64_t elements, uint32_t levels, weft_parameters *parameters);

#endif

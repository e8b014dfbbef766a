/* chooser.h - the parameters of an update, from a sample of what it changes.
 *
 * Any choice decodes to the same bits; this one aims at the fewest bytes. Exact integer arithmetic, so that equal
 * samples give equal parameters everywhere. */
#ifndef WEFT_CORE_CODEC_CHOOSER_H
#define WEFT_CORE_CODEC_CHOOSER_H

#include "codec/survey.h"

/* How many of the layout's elements a survey for `levels` (a mask) looks at: `count` of every `stride`. */
typedef struct weft_survey_plan {
    uint32_t count, stride;
} weft_survey_plan;

weft_survey_plan weft_survey_plan_for(uint64_t elements, uint32_t levels);

/* `levels`: mask of 1 << weft_level that will be coded. */
void weft_parameters_choose(const weft_survey *survey, uint32_t levels, weft_parameters *parameters);

#endif

/* host_survey.c - a sample of two views, counted by exponent of the base. */
#include "backends/host_element.h"
#include "backends/host_state.h"
#include "codec/survey.h"

/* Where only the population of its exponent is counted, one element of four stands for all, each time another of the
 * four: weights may repeat in twos, fours or eights (real and imaginary parts, fused rows). */
#define POPULATION_EACH 4u

static bool population_counts(uint32_t position)
{
    return (position ^ position / POPULATION_EACH ^ position / (POPULATION_EACH * POPULATION_EACH)) % POPULATION_EACH ==
           0;
}

/* Keeps every other one of a full list, and takes half as many from now on: the list speaks for the whole sample. */
static void magnitudes_thin(weft_survey_kind *kind)
{
    kind->magnitudes /= 2;
    kind->sparsity++;
    for (uint32_t i = 0; i < kind->magnitudes; i++)
        kind->magnitude[i] = kind->magnitude[2 * i];
}

static void exception_note(weft_survey_kind *kind, uint32_t exponent, uint64_t magnitude)
{
    uint64_t excess = magnitude - 2;
    kind->exceptions[exponent]++;
    if (kind->seen++ % (UINT64_C(1) << kind->sparsity) != 0)
        return;
    if (kind->magnitudes == WEFT_SURVEY_MAGNITUDES)
        magnitudes_thin(kind);
    kind->magnitude[kind->magnitudes++] =
        (weft_survey_magnitude){exponent, excess < UINT32_MAX ? (uint32_t)excess : UINT32_MAX};
}

/* `position` is the first one's in the view: what is counted does not depend on where memory is cut. */
WEFT_ALWAYS_INLINE void width_count(const weft_view *view, const uint8_t *now, const uint8_t *shadow, uint32_t position,
                                    uint32_t count, weft_survey_kind *kind, unsigned width)
{
    const unsigned shift = view->exponent_bits ? 8 * width - 1 - view->exponent_bits : 0;
    const uint64_t mask = (UINT64_C(1) << view->exponent_bits) - 1;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t before = weft_element_get(shadow, i, width), after = weft_element_get(now, i, width);
        uint32_t exponent = (uint32_t)(before >> shift & mask);
        if (population_counts(position + i))
            kind->elements[exponent] += POPULATION_EACH;
        if (before == after)
            continue;
        kind->changed[exponent]++;
        uint64_t steps = weft_element_steps(before, after, width, view->is_float);
        uint64_t magnitude = weft_steps_magnitude(steps, width);
        if (magnitude > 1)
            exception_note(kind, exponent, magnitude);
    }
}

static void elements_count(const weft_view *view, const uint8_t *now, const uint8_t *shadow, uint32_t position,
                           uint32_t count, weft_survey_kind *kind)
{
    switch (view->width) {
    case 1:
        width_count(view, now, shadow, position, count, kind, 1);
        return;
    case 2:
        width_count(view, now, shadow, position, count, kind, 2);
        return;
    case 4:
        width_count(view, now, shadow, position, count, kind, 4);
        return;
    default:
        width_count(view, now, shadow, position, count, kind, 8);
    }
}

static const weft_run *run_of(const weft_view *view, uint32_t position)
{
    const weft_run *run = view->runs;
    while (position - weft_run_position(view, run) >= run->count)
        run++;
    return run;
}

/* Counts what both views hold in one piece from `position` on, at most `count`; returns how many. */
static uint32_t piece_count(const weft_survey_job *job, uint32_t position, uint32_t count, weft_survey_kind *kind)
{
    const weft_run *now = run_of(&job->now, position), *shadow = run_of(&job->shadow, position);
    uint32_t a = position - weft_run_position(&job->now, now), b = position - weft_run_position(&job->shadow, shadow);
    count = now->count - a < count ? now->count - a : count;
    count = shadow->count - b < count ? shadow->count - b : count;
    elements_count(&job->now, now->data + (uint64_t)a * job->now.width, shadow->data + (uint64_t)b * job->now.width,
                   position, count, kind);
    return count;
}

weft_status weft_host_survey(weft_backend_state *state, weft_survey_job *job)
{
    const weft_view *view = &job->now;
    weft_survey_kind *kind = &job->survey->kinds[weft_kind_of(view->width, view->exponent_bits)];
    (void)state;
    for (uint64_t begin = 0; begin < view->count; begin += job->stride) {
        uint64_t end = begin + job->count < view->count ? begin + job->count : view->count;
        for (uint32_t at = (uint32_t)begin; at < end;)
            at += piece_count(job, at, (uint32_t)end - at, kind);
    }
    return WEFT_OK;
}

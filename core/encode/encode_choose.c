/* encode_choose.c - the parameters of a pass: lanes survey units, each on its own, and what they saw is added.
 *
 * Counts and the lists of a survey hang on what was seen, not on who saw it: any number of lanes makes one choice. */
#include "base/status.h"
#include "codec/chooser.h"
#include "encode/encode.h"

/* Elements of the sample that a lane takes in one go, about, and at least a unit: some 10 us of work, so that the
 * lanes end together. */
#define TAKE 8192u
/* Elements of a sample that one lane counts in the time it takes to wake the others. */
#define SMALL (UINT64_C(1) << 17)
#define UNIT  (UINT64_C(1) << 18) /* elements of one, at most: layout.h */

typedef struct choice {
    weft_encoder *encoder;
    const weft_encode_pass *pass;
    weft_survey_plan plan;
    uint64_t units;           /* that are looked at */
    uint64_t each;            /* of them, that a lane takes in one go: all, if it is alone */
    bool used[WEFT_TEAM_MAX]; /* whether a lane took units */
} choice;

/* State of a lane's jobs. */
typedef struct lane_choice {
    const choice *all;
    uint32_t lane;
} lane_choice;

static void survey_fill(void *user, uint64_t i, weft_job *job)
{
    const lane_choice *c = user;
    const weft_encode_pass *pass = c->all->pass;
    const uint64_t unit = weft_survey_unit(&c->all->plan, 0, c->all->encoder->layout->unit_count, i);
    job->survey = (weft_survey_job){.now = weft_binding_view(pass->now, unit),
                                    .shadow = weft_binding_view(pass->shadow, unit),
                                    .count = c->all->plan.count,
                                    .stride = c->all->plan.stride,
                                    .survey = &c->all->encoder->surveys[c->lane],
                                    .stream = pass->stream};
}

/* Lane 0 alone tells, because it is the caller's thread. */
static weft_status survey_done(void *user, uint64_t i, const weft_job *job)
{
    const lane_choice *c = user;
    const weft_encode_pass *pass = c->all->pass;
    (void)i;
    return job->status == WEFT_OK && c->lane == 0 && pass->moved ? pass->moved(pass->user, 0) : job->status;
}

static uint64_t units_end(void *user, uint64_t i)
{
    const choice *all = user;
    const uint64_t left = all->units - i;
    return i + (left < all->each ? left : all->each);
}

static weft_status units_survey(void *user, const weft_lane_turn *turn)
{
    choice *all = user;
    weft_encoder *encoder = all->encoder;
    lane_choice own = {all, turn->lane};
    const weft_chore chore = {WEFT_JOB_SURVEY, survey_fill, survey_done, &own};
    if (!all->used[turn->lane])
        weft_survey_clear(&encoder->surveys[turn->lane]);
    all->used[turn->lane] = true;
    return weft_pipeline_run(&encoder->windows[turn->lane], &chore, turn->from, turn->end);
}

/* Joins the surveys of all lanes in the first one. */
static const weft_survey *surveys_join(const choice *all)
{
    weft_survey *survey = all->encoder->surveys;
    if (!all->used[0])
        weft_survey_clear(survey);
    for (uint32_t lane = 1; lane < all->encoder->lanes.count; lane++)
        if (all->used[lane])
            weft_survey_add(survey, &all->encoder->surveys[lane]);
    return survey;
}

/* Units that a lane takes in one go, all if it is to be alone. */
static uint64_t units_each(const choice *all)
{
    const weft_survey_plan *plan = &all->plan;
    const uint64_t sparsity = plan->stride / plan->count, each = 1 + TAKE * sparsity / UNIT;
    const uint64_t seen = all->encoder->layout->elements / sparsity / plan->each;
    return all->encoder->lanes.count == 1 || seen < SMALL || all->units < each ? all->units : each;
}

weft_status weft_encoder_choose_for(weft_encoder *encoder, const weft_encode_pass *pass, weft_parameters *parameters)
{
    choice all = {
        .encoder = encoder, .pass = pass, .plan = weft_survey_plan_for(encoder->layout->elements, pass->levels)};
    all.units = weft_survey_units(&all.plan, 0, encoder->layout->unit_count);
    all.each = units_each(&all);
    const weft_lane_work work = {.count = all.units, .stretch = units_end, .work = units_survey, .user = &all};
    const weft_status status = weft_lanes_run(&encoder->lanes, &work);
    if (status != WEFT_OK)
        return status;
    const weft_survey *survey = surveys_join(&all);
    encoder->density = weft_survey_density(survey);
    weft_parameters_choose(survey, encoder->layout->elements, pass->levels, parameters);
    return WEFT_OK;
}

weft_status weft_encoder_choose(weft_encoder *encoder, const weft_binding *now, const weft_binding *shadow,
                                uint32_t levels, weft_parameters *parameters)
{
    const weft_encode_pass pass = {.now = now, .shadow = shadow, .levels = levels};
    return weft_encoder_choose_for(encoder, &pass, parameters);
}

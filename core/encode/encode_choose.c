/* encode_choose.c - the parameters of a pass: workers survey units in turn, each on its own, and what they saw is
 * added.
 *
 * Counts and the lists of a survey hang on what was seen, not on who saw it: any number of workers makes one choice. */
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"
#include "codec/chooser.h"
#include "encode/encode.h"

/* Elements of the sample that a worker takes in one go, about, and at least a unit: some 10 us of work, so that the
 * workers end together. */
#define TAKE 8192u
/* Elements of a sample that one worker counts in the time it takes to wake the others. */
#define SMALL (UINT64_C(1) << 17)
#define UNIT  (UINT64_C(1) << 18) /* elements of one, at most: layout.h */

typedef struct choice {
    weft_encoder *encoder;
    const weft_encode_pass *pass;
    weft_survey_plan plan;
    uint64_t each;            /* units that a worker takes in one go: all, if it is alone */
    bool used[WEFT_TEAM_MAX]; /* whether a worker took units */
    uint32_t failed;          /* the worker whose failure is the choice's; guarded by the encoder's lock */
} choice;

/* State of a worker's jobs. */
typedef struct worker_choice {
    choice *all;
    uint32_t worker;
} worker_choice;

static void survey_fill(void *user, uint64_t unit, weft_job *job)
{
    const worker_choice *c = user;
    const weft_encode_pass *pass = c->all->pass;
    job->survey = (weft_survey_job){.now = weft_binding_view(pass->now, unit),
                                    .shadow = weft_binding_view(pass->shadow, unit),
                                    .count = c->all->plan.count,
                                    .stride = c->all->plan.stride,
                                    .survey = &c->all->encoder->surveys[c->worker],
                                    .stream = pass->stream};
}

/* The caller's worker alone tells: it is the caller who is told. */
static weft_status survey_done(void *user, uint64_t unit, const weft_job *job)
{
    const worker_choice *c = user;
    const weft_encode_pass *pass = c->all->pass;
    (void)unit;
    return job->status == WEFT_OK && c->worker == 0 && pass->moved ? pass->moved(pass->user, 0) : job->status;
}

/* The next units for a worker; false at the end or after a failure. */
static bool units_take(const choice *all, uint64_t *unit, uint64_t *end)
{
    weft_encoder *encoder = all->encoder;
    const uint64_t count = encoder->layout->unit_count;
    pthread_mutex_lock(&encoder->lock);
    const bool taken = !encoder->stopped && encoder->next_unit < count;
    *unit = encoder->next_unit;
    *end = count - *unit < all->each ? count : *unit + all->each;
    encoder->next_unit = taken ? *end : *unit;
    pthread_mutex_unlock(&encoder->lock);
    return taken;
}

/* The caller's worker before all others: what it failed of was said on the caller's thread. */
static void choice_fail(choice *all, uint32_t worker, weft_status status)
{
    weft_encoder *encoder = all->encoder;
    pthread_mutex_lock(&encoder->lock);
    if (!encoder->stopped || worker == 0) {
        encoder->stopped = true;
        encoder->status = status;
        all->failed = worker;
        snprintf(encoder->text, sizeof encoder->text, "%s", weft_last_error());
    }
    pthread_mutex_unlock(&encoder->lock);
}

static void units_survey(choice *all, uint32_t worker)
{
    weft_encoder *encoder = all->encoder;
    worker_choice own = {all, worker};
    const weft_chore chore = {WEFT_JOB_SURVEY, survey_fill, survey_done, &own};
    for (uint64_t unit, end; units_take(all, &unit, &end);) {
        if (!all->used[worker])
            weft_survey_clear(&encoder->surveys[worker]);
        all->used[worker] = true;
        const weft_status status = weft_pipeline_run(&encoder->windows[worker], &chore, unit, end);
        if (status != WEFT_OK)
            choice_fail(all, worker, status);
    }
}

static void worker_survey(void *context, uint32_t worker)
{
    weft_log_sink *before = worker > 0 ? weft_log_quiet() : NULL; /* the caller's thread says it */
    units_survey(context, worker);
    if (worker > 0)
        weft_log_enter(before);
}

/* Joins the surveys of all workers in the first one. */
static const weft_survey *surveys_join(const choice *all)
{
    weft_survey *survey = all->encoder->surveys;
    if (!all->used[0])
        weft_survey_clear(survey);
    for (uint32_t worker = 1; worker < all->encoder->team.workers; worker++)
        if (all->used[worker])
            weft_survey_add(survey, &all->encoder->surveys[worker]);
    return survey;
}

/* Units that a worker takes in one go, all if it is to be alone. */
static uint64_t units_each(const weft_encoder *encoder, const weft_survey_plan *plan)
{
    const uint64_t sparsity = plan->stride / plan->count, units = encoder->layout->unit_count;
    const uint64_t each = 1 + TAKE * sparsity / UNIT;
    return encoder->team.workers == 1 || encoder->layout->elements / sparsity < SMALL || units < each ? units : each;
}

static void units_share(choice *all)
{
    weft_encoder *encoder = all->encoder;
    encoder->next_unit = 0;
    encoder->stopped = false;
    encoder->status = WEFT_OK;
    if (all->each == encoder->layout->unit_count)
        worker_survey(all, 0);
    else
        weft_team_run(&encoder->team, worker_survey, all);
}

weft_status weft_encoder_choose_for(weft_encoder *encoder, const weft_encode_pass *pass, weft_parameters *parameters)
{
    choice all = {
        .encoder = encoder, .pass = pass, .plan = weft_survey_plan_for(encoder->layout->elements, pass->levels)};
    all.each = units_each(encoder, &all.plan);
    units_share(&all);
    if (encoder->status == WEFT_OK)
        weft_parameters_choose(surveys_join(&all), pass->levels, parameters);
    else if (all.failed > 0)
        weft_fail(encoder->status, "%s", encoder->text);
    return encoder->status;
}

weft_status weft_encoder_choose(weft_encoder *encoder, const weft_binding *now, const weft_binding *shadow,
                                uint32_t levels, weft_parameters *parameters)
{
    const weft_encode_pass pass = {.now = now, .shadow = shadow, .levels = levels};
    return weft_encoder_choose_for(encoder, &pass, parameters);
}

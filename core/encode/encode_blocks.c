#include "encode/encode_blocks.h"

#include "codec/chooser.h"

/* One block in so many is looked at for the parameters; more if that leaves few. */
#define SAMPLE_EACH  8u
#define SAMPLE_LEAST 8u

typedef weft_status act_fn(const weft_encode_blocks *blocks, uint64_t unit, uint64_t end, void *user);

/* Acts on one in every `each` of the blocks, with both ends at hand. */
static weft_status each_block(const weft_encode_blocks *blocks, uint32_t each, act_fn *act, void *user)
{
    const weft_layout *layout = blocks->encoder->layout;
    weft_status status = WEFT_OK;
    uint32_t units;
    for (uint64_t unit = 0; unit < layout->unit_count && status == WEFT_OK; unit += units) {
        const bool wanted = (layout->units[unit].place >> blocks->shift) % each == 0;
        bool any = true;
        units = weft_layout_run(layout, unit, blocks->shift);
        status = blocks->stand(blocks->user, unit, units, wanted, &any);
        if (status != WEFT_OK || !wanted || !any)
            continue;
        status = act(blocks, unit, unit + units, user);
        if (status == WEFT_OK && blocks->moved)
            status = blocks->moved(blocks->user, unit + units);
    }
    return status;
}

typedef struct sample {
    const weft_encode_blocks *blocks;
    weft_survey_plan plan;
    uint64_t from, end; /* units of the block */
} sample;

static void survey_fill(void *user, uint64_t i, weft_job *job)
{
    const sample *s = user;
    const weft_encode_pass *pass = s->blocks->pass;
    const uint64_t unit = weft_survey_unit(&s->plan, s->from, s->end, i);
    job->survey = (weft_survey_job){.now = weft_binding_view(pass->now, unit),
                                    .shadow = weft_binding_view(pass->shadow, unit),
                                    .count = s->plan.count,
                                    .stride = s->plan.stride,
                                    .survey = s->blocks->encoder->surveys,
                                    .stream = NULL};
}

static weft_status block_survey(const weft_encode_blocks *blocks, uint64_t unit, uint64_t end, void *user)
{
    sample *s = user;
    const weft_chore chore = {WEFT_JOB_SURVEY, survey_fill, NULL, s};
    s->from = unit;
    s->end = end;
    return weft_pipeline_run(blocks->encoder->windows, &chore, 0, weft_survey_units(&s->plan, unit, end));
}

weft_status weft_encode_blocks_choose(weft_encode_blocks *blocks)
{
    const weft_layout *layout = blocks->encoder->layout;
    const uint64_t few = (layout->unit_count >> blocks->shift) / SAMPLE_LEAST;
    const uint32_t each = few >= SAMPLE_EACH ? SAMPLE_EACH : few ? (uint32_t)few : 1;
    sample s = {blocks, weft_survey_plan_for(layout->elements / each, blocks->pass->levels), 0, 0};
    weft_survey_clear(blocks->encoder->surveys);
    const weft_status status = each_block(blocks, each, block_survey, &s);
    if (status == WEFT_OK)
        weft_parameters_choose(blocks->encoder->surveys, layout->elements, blocks->pass->levels, blocks->parameters);
    if (blocks->parameters->run_shift > blocks->shift)
        blocks->shift = blocks->parameters->run_shift;
    return status;
}

static weft_status block_encode(const weft_encode_blocks *blocks, uint64_t unit, uint64_t end, void *user)
{
    weft_status status = WEFT_OK;
    (void)user;
    for (uint32_t units; unit < end && status == WEFT_OK; unit += units) {
        units = weft_layout_run(blocks->encoder->layout, unit, blocks->parameters->run_shift);
        status = weft_encoder_one(blocks->encoder, blocks->pass, unit, units);
    }
    return status;
}

weft_status weft_encode_blocks_run(const weft_encode_blocks *blocks)
{
    return each_block(blocks, 1, block_encode, NULL);
}

/* encode_jobs.h - encode jobs of a world, made two times: for the kernels, and for the host, whose bytes are right. For
 * tests alone, which include cmocka before. */
#ifndef WEFT_TESTS_EMULATION_ENCODE_JOBS_H
#define WEFT_TESTS_EMULATION_ENCODE_JOBS_H

#include <stdlib.h>

#include "backends/gpu/gpu.h"
#include "backends/host/host.h"
#include "tests/emulation/world.h"

#define JOBS WORLD_TENSORS

/* Jobs of one world with all that they write to. */
typedef struct job_set {
    weft_encode_job jobs[JOBS];
    weft_frame_sink sinks[JOBS][WEFT_LEVEL_COUNT];
    uint64_t *delta;
    uint32_t count;
} job_set;

/* One job for each run of units; room for frames is sometimes short. */
static inline void jobs_make(job_set *set, emulation_world *world, uint32_t levels, uint32_t shift,
                             const weft_parameters *parameters, uint64_t seed)
{
    const weft_layout *layout = world->layout;
    uint64_t unit = 0;
    world->seed = seed;
    set->count = 0;
    set->delta = calloc(layout->part_count, sizeof *set->delta);
    for (uint32_t units; unit < layout->unit_count && set->count < JOBS; unit += units) {
        weft_frame_sink *sinks = set->sinks[set->count];
        units = weft_layout_run(layout, unit, shift);
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
            const uint64_t bytes = layout->largest_frame,
                           room = world_draw(world, 8) ? bytes : world_draw(world, bytes);
            sinks[level] = (weft_frame_sink){.data = calloc(room + 1, 1), .capacity = room};
        }
        set->jobs[set->count++] = (weft_encode_job){.now = weft_binding_span(&world->now, unit, units),
                                                    .shadow = weft_binding_span(&world->shadow, unit, units),
                                                    .parameters = parameters,
                                                    .largest_frame = layout->largest_frame,
                                                    .levels = levels,
                                                    .sinks = sinks,
                                                    .tensor_delta = set->delta};
    }
    assert_true(unit == layout->unit_count);
}

static inline void jobs_drop(job_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
            free(set->sinks[i][level].data);
    }
    free(set->delta);
}

static inline void sink_check(const weft_frame_sink *made, const weft_frame_sink *wanted, uint32_t job, int level)
{
    uint64_t at = 0;
    assert_int_equal(made->full, wanted->full);
    assert_int_equal(made->used, wanted->used);
    while (at < made->used && made->data[at] == wanted->data[at])
        at++;
    if (at < made->used)
        fail_msg("job %u, level %s: byte %u of %u is %02x, not %02x", job, weft_level_name((weft_level)level),
                 (unsigned)at, (unsigned)made->used, made->data[at], wanted->data[at]);
}

static inline void sets_check(const job_set *made, const job_set *wanted, uint64_t parts)
{
    for (uint32_t i = 0; i < made->count; i++) {
        const weft_encode_job *a = &made->jobs[i], *b = &wanted->jobs[i];
        assert_int_equal(a->alone, b->alone);
        if (a->alone != a->levels)
            assert_int_equal(a->changed, b->changed);
        for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
            sink_check(&made->sinks[i][level], &wanted->sinks[i][level], i, level);
            assert_int_equal(a->frame_bytes[level], b->frame_bytes[level]);
        }
    }
    assert_memory_equal(made->delta, wanted->delta, parts * sizeof *made->delta);
}

static inline weft_status jobs_submit(weft_gpu *gpu, job_set *set)
{
    weft_status status = WEFT_AGAIN;
    for (uint32_t i = 0; i < set->count && status == WEFT_AGAIN; i++)
        status = weft_gpu_submit(gpu, &weft_gpu_encode, &set->jobs[i]);
    return status;
}

/* Polls each job until it is done. */
static inline weft_status jobs_poll(weft_gpu *gpu, job_set *set)
{
    weft_status first = WEFT_OK;
    for (uint32_t i = 0; i < set->count; i++) {
        weft_status status;
        while ((status = weft_gpu_poll(gpu, &set->jobs[i])) == WEFT_AGAIN)
            continue;
        first = first == WEFT_OK ? status : first;
    }
    return first;
}

static inline weft_status jobs_run(weft_gpu *gpu, job_set *set)
{
    const weft_status status = jobs_submit(gpu, set);
    return status == WEFT_AGAIN ? jobs_poll(gpu, set) : status;
}

/* Holds what the device made against what the host makes, and drops both. */
static inline void sets_end(weft_backend_state *host, job_set *made, job_set *wanted, emulation_world *world)
{
    for (uint32_t i = 0; i < wanted->count; i++)
        assert_int_equal(weft_backend_host.encode(host, &wanted->jobs[i]), WEFT_OK);
    sets_check(made, wanted, world->layout->part_count);
    jobs_drop(made);
    jobs_drop(wanted);
}

#endif

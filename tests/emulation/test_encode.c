/* test_encode.c - encode jobs by the device's way, in the emulation, against the host backend: every byte of every
 * frame and every word that a job gives back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/gpu/gpu_encode.h"
#include "backends/host/host.h"
#include "base/status.h"
#include "tests/emulation/both.h"
#include "tests/emulation/encode_jobs.h"
#include "tests/emulation/scratch_guard.h"

static bool all; /* WEFT_FULL=1 */

static int ends_open(void **state)
{
    all = getenv("WEFT_FULL") != NULL;
    return both_open(state);
}

static int ends_close(void **state)
{
    const int code = both_close(state);
    scratch_guard_free();
    return code;
}

/* Puts a run without elements after each run of a view; the caller frees the runs. */
static weft_run *runs_pad(weft_view *view)
{
    weft_run *runs = calloc(2 * (size_t)view->run_count, sizeof *runs);
    assert_non_null(runs);
    for (uint32_t r = 0; r < view->run_count; r++) {
        const weft_run *run = &view->runs[r];
        runs[2 * r] = runs[2 * r + 1] = *run;
        runs[2 * r + 1].data += (uint64_t)run->count * view->width;
        runs[2 * r + 1].element += run->count;
        runs[2 * r + 1].position += run->count;
        runs[2 * r + 1].count = 0;
    }
    view->runs = runs;
    view->run_count *= 2;
    return runs;
}

static void levels_check(emulation_world *world, uint32_t lanes, uint32_t levels, uint32_t shift,
                         const weft_parameters *parameters)
{
    static job_set made, wanted;
    const uint64_t seed = world_draw(world, UINT64_MAX);
    jobs_make(&made, world, levels, shift, parameters, seed);
    jobs_make(&wanted, world, levels, shift, parameters, seed);
    weft_emulation_driver_set(lanes, seed);
    if (jobs_run(gpu, &made) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    sets_end(host, &made, &wanted, world);
}

/* Level fast alone is a way of its own, in which the device decides. */
static void world_check(emulation_world *world, uint32_t lanes, uint32_t levels, uint32_t shift,
                        const weft_parameters *parameters)
{
    levels_check(world, lanes, levels, shift, parameters);
    if (levels != 1u << WEFT_LEVEL_FAST)
        levels_check(world, 96 - lanes, 1u << WEFT_LEVEL_FAST, shift, parameters);
}

static uint32_t wave(void)
{
    static uint32_t turn;
    return ++turn % 2 ? 32 : 64;
}

/* Any classes of a world's elements. */
static const weft_parameters *parameters_make(emulation_world *world, weft_parameters *parameters)
{
    const weft_unit *unit = &world->layout->units[0];
    weft_classes *classes = &parameters->classes[weft_kind_of(unit->width, unit->exponent_bits)];
    const uint32_t exponents = 1u << unit->exponent_bits;
    memset(parameters, 0, sizeof *parameters);
    classes->magnitude_base = (uint32_t)world_draw(world, exponents + 20);
    for (uint32_t at = 0; unit->exponent_bits > 0 && classes->thresholds < WEFT_CLASS_MAX - 1;) {
        at += 1 + (uint32_t)world_draw(world, exponents / 4);
        if (at >= exponents)
            break;
        classes->threshold[classes->thresholds++] = at;
    }
    return parameters;
}

#define LEVELS ((1u << WEFT_LEVEL_COUNT) - 1)

static const world_change changes[] = {
    {.per_million = 0},
    {.per_million = 30, .wild = 10},
    {.per_million = 2000, .wild = 50, .clusters = 40},
    {.per_million = 10000, .wild = 2},
    {.per_million = 100000, .wild = 20, .clusters = 7},
    {.per_million = 600000, .wild = 0},
    {.per_million = 2000000, .wild = 30},
};
#define CHANGES (sizeof changes / sizeof *changes)

#ifndef WEFT_EMULATION_THREADS
/* Whether the host codes a unit as steps. */
static bool is_steps(emulation_world *world, uint64_t unit)
{
    weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
    uint8_t *data = calloc(world->layout->largest_frame, 1);
    uint64_t *delta = calloc(world->layout->part_count, sizeof *delta);
    sinks[WEFT_LEVEL_FAST] = (weft_frame_sink){.data = data, .capacity = world->layout->largest_frame};
    weft_encode_job job = {.now = weft_binding_span(&world->now, unit, 1),
                           .shadow = weft_binding_span(&world->shadow, unit, 1),
                           .largest_frame = world->layout->largest_frame,
                           .levels = 1u << WEFT_LEVEL_FAST,
                           .sinks = sinks,
                           .tensor_delta = delta};
    assert_int_equal(weft_backend_host.encode(host, &job), WEFT_OK);
    const bool steps = sinks[WEFT_LEVEL_FAST].used > 0 && (data[7] & 0x0f) == WEFT_LEVEL_FULL;
    assert_true(!steps || data[12] == WEFT_FULL_STEPS);
    free(delta);
    free(data);
    return steps;
}

static const weft_dtype dtypes[] = {WEFT_I8, WEFT_F8_E4M3, WEFT_BF16, WEFT_U16, WEFT_F32, WEFT_I32, WEFT_F64, WEFT_U64};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

/* Packs of small tensors, each in pieces that lie anywhere. */
static void packs_are_the_hosts(void **state)
{
    emulation_world world;
    weft_parameters parameters;
    (void)state;
    for (uint32_t d = 0; d < DTYPES; d++) {
        const world_kind kind = {.dtype = dtypes[d], .tensors = 20 + d, .elements = d % 2 ? 900 : 60, .pieces = 3};
        world_make(&world, &kind, 100 + d);
        for (uint32_t c = 0; c < CHANGES; c++) {
            if (!all && (c + d) % 7 != 0 && c != d)
                continue;
            world_step(&world, &changes[c]);
            world_check(&world, wave(), LEVELS, 0, parameters_make(&world, &parameters));
        }
        world_drop(&world);
    }
}

/* Every element any other: at levels fast and tight the units are steps. */
static void dense_units_are_the_hosts(void **state)
{
    static const world_change any = {.per_million = 2000000, .wild = 100};
    emulation_world world;
    weft_parameters parameters;
    (void)state;
    for (uint32_t d = 0; d < DTYPES; d++) {
        const world_kind kind = {.dtype = dtypes[d], .tensors = 3, .elements = 700, .pieces = 1 + d % 3};
        uint32_t full = 0;
        world_make(&world, &kind, 700 + d);
        world_step(&world, &any);
        for (uint64_t u = 0; u < world.layout->unit_count; u++)
            full += is_steps(&world, u);
        assert_true(full > 0);
        world_check(&world, wave(), LEVELS, 0, parameters_make(&world, &parameters));
        world_drop(&world);
    }
}

/* Tensors of several tiles and slices. */
static void tiles_are_the_hosts(void **state)
{
    emulation_world world;
    weft_parameters parameters;
    (void)state;
    for (uint32_t d = 0; d < DTYPES; d += all ? 1 : 3) {
        const world_kind kind = {
            .dtype = dtypes[d], .tensors = 2, .elements = all ? 150000 : 50000, .pieces = 1 + d % 3};
        world_make(&world, &kind, 200 + d);
        world_step(&world, &changes[1 + d % 4]);
        world_check(&world, wave(), LEVELS, 0, parameters_make(&world, &parameters));
        world_drop(&world);
    }
}

/* Runs of units of a width, with few changes, with so many that they go alone, and with none. */
static void runs_are_the_hosts(void **state)
{
    emulation_world world;
    weft_parameters parameters;
    (void)state;
    for (uint32_t d = 0; d < (all ? 2 : 1); d++) {
        const world_kind kind = {
            .dtype = d ? WEFT_F64 : WEFT_I8, .tensors = 2, .elements = 300000, .pieces = 2, .equal = true};
        world_make(&world, &kind, 300 + d);
        for (uint32_t c = all ? 0 : 1; c < 3; c++) {
            world_step(&world, &changes[2 * c]);
            world_check(&world, wave(), LEVELS, 2, parameters_make(&world, &parameters));
        }
        world_drop(&world);
    }
}

#endif

/* Two equal sets of jobs, one with empty runs between the others. */
static void empty_runs_are_passed_over(void **state)
{
    static job_set made, wanted;
    const world_kind kind = {.dtype = WEFT_BF16, .tensors = 6, .elements = 900, .pieces = 3};
    emulation_world world;
    weft_run *runs[2 * JOBS] = {NULL};
    (void)state;
    world_make(&world, &kind, 600);
    world_step(&world, &changes[4]);
    jobs_make(&made, &world, LEVELS, 0, NULL, 7);
    jobs_make(&wanted, &world, LEVELS, 0, NULL, 7);
    for (uint32_t i = 0; i < made.count; i++) {
        assert_true(made.jobs[i].now.run_count > 2);
        runs[2 * i] = runs_pad(&made.jobs[i].now);
        runs[2 * i + 1] = runs_pad(&made.jobs[i].shadow);
    }
    weft_emulation_driver_set(wave(), 7);
    assert_int_equal(jobs_run(gpu, &made), WEFT_OK);
    const uint32_t views = 2 * made.count;
    sets_end(host, &made, &wanted, &world);
    for (uint32_t i = 0; i < views; i++)
        free(runs[i]);
    world_drop(&world);
}

/* A little of everything, for the thread checker. */
static void small_worlds_are_the_hosts(void **state)
{
    static const world_kind kinds[] = {
        {.dtype = WEFT_BF16, .tensors = 5, .elements = 900, .pieces = 2},
        {.dtype = WEFT_F64, .tensors = 1, .elements = 2000, .pieces = 1},
    };
    emulation_world world;
    weft_parameters parameters;
    (void)state;
    for (uint32_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        world_make(&world, &kinds[k], 500 + k);
        world_step(&world, &changes[4]);
        world_check(&world, wave(), LEVELS, 0, parameters_make(&world, &parameters));
        world_drop(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_worlds_are_the_hosts), cmocka_unit_test(empty_runs_are_passed_over),
#ifndef WEFT_EMULATION_THREADS
        cmocka_unit_test(packs_are_the_hosts),        cmocka_unit_test(tiles_are_the_hosts),
        cmocka_unit_test(dense_units_are_the_hosts),  cmocka_unit_test(runs_are_the_hosts),
#endif
    };
    return cmocka_run_group_tests(tests, ends_open, ends_close);
}

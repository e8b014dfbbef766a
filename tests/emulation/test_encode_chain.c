/* test_encode_chain.c - what is special to batches of level fast alone, in the emulation, against the host backend: how
 * the device shares memory out, which payloads it refuses, what is lent, and what the host makes of wrong numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "backends/gpu/gpu_encode.h"
#include "backends/host/host_state.h"
#include "tests/emulation/both.h"
#include "tests/emulation/encode_jobs.h"

enum { FAST = 1u << WEFT_LEVEL_FAST, PLAIN = 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_PAIRS };

static const weft_backend_options options = {-1, "auto", UINT64_C(24) * 16 << 20, 0};

static job_set made;

#ifndef WEFT_EMULATION_THREADS
static job_set wanted;

static uint32_t wave(void)
{
    static uint32_t turn;
    return ++turn % 2 ? 32 : 64;
}

/* ---- jobs */

/* Two equal sets, of which the device may lend its frames. */
static void sets_make(emulation_world *world)
{
    jobs_make(&made, world, FAST, 0, NULL, 9);
    jobs_make(&wanted, world, FAST, 0, NULL, 9);
    for (uint32_t i = 0; i < made.count; i++)
        made.jobs[i].lend = true;
    weft_emulation_driver_set(wave(), 9);
}

/* Puts what is lent into the sinks, as callers do, and gives it back. Returns
 * how many frames were lent. */
static uint32_t lent_take(void)
{
    uint32_t lent = 0;
    for (uint32_t i = 0; i < made.count; i++) {
        weft_encode_job *job = &made.jobs[i];
        uint32_t *bytes = &job->frame_bytes[WEFT_LEVEL_FAST];
        if (!job->lent[WEFT_LEVEL_FAST])
            continue;
        uint8_t *out = weft_host_sink_take(&job->sinks[WEFT_LEVEL_FAST], *bytes);
        if (out)
            memcpy(out, job->lent[WEFT_LEVEL_FAST], *bytes);
        *bytes = out ? *bytes : 0;
        weft_gpu_give(gpu, job);
        lent++;
    }
    return lent;
}

static uint32_t launches(enum weft_gpu_kernel kernel)
{
    return weft_emulation_driver_launches(kernel);
}

/* Sets the first elements of a job, of width 1, to any bits. */
static void job_scramble(emulation_world *world, const weft_encode_job *job, uint32_t count)
{
    for (uint32_t r = 0; r < job->now.run_count; r++) {
        const weft_run *run = &job->now.runs[r];
        for (uint32_t i = 0; i < run->count && run->position + i < count; i++)
            ((uint8_t *)run->data)[i] = (uint8_t)world_draw(world, 256);
    }
}

/* Has a job of one tensor of width 1 change nothing. */
static void job_calm(const weft_encode_job *job)
{
    for (uint32_t r = 0; r < job->now.run_count; r++)
        memcpy(job->now.runs[r].data, job->shadow.runs[0].data + job->now.runs[r].position, job->now.runs[r].count);
}

/* True for a frame of steps, and for one that found no room in its sink and may be one. */
static bool is_steps(const job_set *set, uint32_t job)
{
    const weft_frame_sink *sink = &set->sinks[job][WEFT_LEVEL_FAST];
    return sink->full || (sink->used > 0 && sink->data[7] % 16 == WEFT_LEVEL_FULL);
}

/* ---- memory */

/* More jobs than a block has threads: fast_lists goes over them in stretches.
 */
static void many_jobs_are_the_hosts(void **state)
{
    static const world_change change = {.per_million = 10000, .wild = 2};
    const world_kind kind = {.dtype = WEFT_F32, .tensors = WORLD_TENSORS, .elements = 400, .pieces = 2, .mixed = true};
    emulation_world world;
    (void)state;
    world_make(&world, &kind, 400);
    world_step(&world, &change);
    sets_make(&world);
    assert_int_equal(jobs_run(gpu, &made), WEFT_OK);
    lent_take();
    sets_end(host, &made, &wanted, &world);
    world_drop(&world);
}

/* Leaves `most` bytes of a slab for what the chain gives out. Returns the bytes
 * that it had. */
static uint64_t slab_shorten(weft_gpu_slab *slab, uint64_t most)
{
    const uint64_t bytes = slab->device.bytes;
    slab->device.bytes = slab->promised.device - weft_gpu_encode.need(gpu, NULL).device + most;
    for (uint32_t i = 0; i < made.count; i++)
        slab->device.bytes -= weft_gpu_rest_need(&made.jobs[i]).device + 2 * WEFT_GPU_ALIGN; /* no chain takes them */
    return bytes;
}

/* Memory for the lists and frames of a few jobs: the chain goes over its jobs
 * until each has had some. */
static void short_memory_is_enough(void **state)
{
    static const struct {
        weft_dtype dtype;
        uint32_t tensors, elements, most;
        world_change change;
    } cases[] = {{WEFT_F32, 80, 900, 48 << 10, {.per_million = 600000}},            /* the lists are what is too long */
                 {WEFT_I8, 160, 2700, 2 << 10, {.per_million = 3000, .wild = 20}}}; /* the frames are */
    emulation_world world;
    (void)state;
    for (uint32_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const world_kind kind = {.dtype = cases[c].dtype,
                                 .tensors = cases[c].tensors,
                                 .elements = cases[c].elements,
                                 .pieces = 1,
                                 .equal = true,
                                 .mixed = true};
        world_make(&world, &kind, 800);
        world_step(&world, &cases[c].change);
        sets_make(&world);
        assert_int_equal(jobs_submit(gpu, &made), WEFT_AGAIN);
        weft_gpu_slab *slab = &gpu->slabs[made.jobs[0].ticket.batch];
        const uint64_t bytes = slab_shorten(slab, cases[c].most);
        assert_int_equal(jobs_poll(gpu, &made), WEFT_OK);
        slab->device.bytes = bytes;
        assert_true(launches(WEFT_GPU_KERNEL_fast_frame) > 3);
        assert_int_equal(launches(WEFT_GPU_KERNEL_load), 0); /* no job was the host's */
        assert_in_range(lent_take(), 1, made.count / 2);     /* frames of the last pass */
        sets_end(host, &made, &wanted, &world);
        world_drop(&world);
    }
}

/* ---- what is worth a frame */

enum { UNITS = 148, UNIT_BYTES = 150, LONGEST = (UNIT_BYTES + 3) / 4 * 4 - 4 };

/* The host's frames of a world are those of the device, which lends some. Returns how many are as long as may be. */
static uint32_t longest_check(emulation_world *world, bool *steps)
{
    uint32_t longest = 0, frames = 0;
    bool any = false;
    sets_make(world);
    assert_int_equal(jobs_run(gpu, &made), WEFT_OK);
    assert_int_equal(launches(WEFT_GPU_KERNEL_fast_frame), 1);
    const uint32_t lent = lent_take();
    for (uint32_t i = 0; i < made.count; i++) {
        const uint32_t used = (uint32_t)made.sinks[i][WEFT_LEVEL_FAST].used;
        steps[i] = is_steps(&made, i);
        any = any || steps[i];
        longest += !steps[i] && used == WEFT_FRAME_HEADER_BYTES + LONGEST;
        frames += made.jobs[i].changed > 0;
    }
    assert_int_equal(launches(WEFT_GPU_KERNEL_load), any);
    assert_int_equal(lent, any ? 0 : frames); /* what is the host's takes the memory of the frames */
    sets_end(host, &made, &wanted, world);
    return longest;
}

/* Units with 1, 2 .. changes: payloads of all lengths up to the longest that is worth a frame, and units that become
 * steps, among which the chain has memory for all. Without those all frames are lent where the device made them, each
 * with its header between two payloads. */
static void frames_at_the_limit_are_the_hosts(void **state)
{
    const world_kind kind = {
        .dtype = WEFT_I8, .tensors = UNITS, .elements = UNIT_BYTES, .pieces = 2, .equal = true, .mixed = true};
    emulation_world world;
    bool steps[JOBS] = {0}, none[JOBS] = {0};
    (void)state;
    for (uint32_t seed = 900; seed < 903; seed++) {
        world_make(&world, &kind, seed);
        world_step(&world, &(world_change){0});
        sets_make(&world);
        for (uint32_t i = 0; i < made.count; i++)
            job_scramble(&world, &made.jobs[i], 1 + i);
        jobs_drop(&made);
        jobs_drop(&wanted);
        assert_true(longest_check(&world, steps) > 0);
        sets_make(&world);
        for (uint32_t i = 0; i < made.count; i++)
            if (steps[i])
                job_calm(&made.jobs[i]);
        jobs_drop(&made);
        jobs_drop(&wanted);
        assert_true(longest_check(&world, none) > 0);
        world_drop(&world);
    }
}

/* ---- the shadow follows */

static uint8_t *dense_load(const weft_view *view)
{
    uint8_t *bytes = test_malloc((size_t)view->count * view->width);
    weft_load_job job = {.view = *view, .bytes = bytes};
    assert_int_equal(weft_backend_host.load(host, &job), WEFT_OK);
    return bytes;
}

/* Jobs that are asked to follow, in stretches and alone, have the new bits in the shadow, and others the old ones. */
static void follow_check(emulation_world *world)
{
    uint8_t *before[JOBS] = {0};
    sets_make(world);
    for (uint32_t i = 0; i < made.count; i++)
        before[i] = dense_load(&made.jobs[i].shadow);
    assert_int_equal(jobs_run(gpu, &made), WEFT_OK);
    for (uint32_t i = 0; i < made.count; i++)
        made.jobs[i].follow = i % 5 != 1 && i % 7 != 3;
    assert_in_range(lent_take(), 2, made.count);
    assert_int_equal(weft_gpu_followed(gpu), WEFT_OK);
    assert_in_range(launches(WEFT_GPU_KERNEL_follow), 1, made.count);
    for (uint32_t i = 0; i < made.count; i++) {
        const weft_encode_job *job = &made.jobs[i];
        uint8_t *now = dense_load(&job->now), *after = dense_load(&job->shadow);
        assert_memory_equal(after, job->follow ? now : before[i], (size_t)job->now.count * job->now.width);
        test_free(after);
        test_free(now);
        test_free(before[i]);
    }
    jobs_drop(&made);
    jobs_drop(&wanted);
}

static void the_shadow_follows(void **state)
{
    static const world_change change = {.per_million = 30000, .wild = 2};
    static const weft_dtype dtypes[] = {WEFT_I8, WEFT_BF16, WEFT_F32, WEFT_F64};
    emulation_world world;
    (void)state;
    for (uint32_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        const bool large = dtypes[d] == WEFT_BF16; /* jobs of several slices */
        const world_kind kind = {.dtype = dtypes[d],
                                 .tensors = large ? 3 : 60,
                                 .elements = large ? 90000 : 900,
                                 .pieces = 2,
                                 .equal = large,
                                 .mixed = true};
        world_make(&world, &kind, 1000);
        world_step(&world, &change);
        follow_check(&world);
        world_drop(&world);
    }
}

/* What is the host's is brought as memory allows. */
static void units_of_the_host_come_in_rounds(void **state)
{
    static const world_change change = {.per_million = 30000, .wild = 2};
    const world_kind kind = {
        .dtype = WEFT_F32, .tensors = 80, .elements = 900, .pieces = 1, .equal = true, .mixed = true};
    emulation_world world;
    (void)state;
    world_make(&world, &kind, 1100);
    world_step(&world, &change);
    jobs_make(&made, &world, 1u << WEFT_LEVEL_PAIRS, 0, NULL, 9);
    jobs_make(&wanted, &world, 1u << WEFT_LEVEL_PAIRS, 0, NULL, 9);
    weft_emulation_driver_set(wave(), 9);
    assert_int_equal(jobs_submit(gpu, &made), WEFT_AGAIN);
    weft_gpu_slab *slab = &gpu->slabs[made.jobs[0].ticket.batch];
    const uint64_t bytes = slab_shorten(slab, 48 << 10);
    assert_int_equal(jobs_poll(gpu, &made), WEFT_OK);
    slab->device.bytes = bytes;
    assert_in_range(launches(WEFT_GPU_KERNEL_load), 3, made.count / 2);
    sets_end(host, &made, &wanted, &world);
    world_drop(&world);
}

#endif

/* ---- a device that is wrong */

typedef struct lie {
    enum weft_gpu_kernel after;
    uint32_t levels;
    void (*tell)(uint64_t rows, uint32_t count);
} lie;

static const lie *told;

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* What the device says of one of the frames. */
static weft_k_made *made_of(uint64_t rows, uint32_t count)
{
    const weft_k_fast_frame *job = (const weft_k_fast_frame *)at(rows) + count / 2;
    return at(job->fast.made);
}

static void tell_far_place(uint64_t rows, uint32_t count)
{
    made_of(rows, count)->place = UINT32_MAX;
}

static void tell_no_place(uint64_t rows, uint32_t count)
{
    made_of(rows, count)->place = 0;
}

static void tell_long_payload(uint64_t rows, uint32_t count)
{
    made_of(rows, count)->bytes += 1u << 12; /* there are as many, of other frames */
}

static void tell_longer_payload(uint64_t rows, uint32_t count)
{
    made_of(rows, count)->bytes = UINT32_MAX;
}

static void tell_many_changes(uint64_t rows, uint32_t count)
{
    const weft_k_scan *row = (const weft_k_scan *)at(rows) + count / 2;
    *(uint32_t *)at(row->total) = UINT32_MAX / 64;
}

static weft_status lying_launch(weft_gpu_device *device, void *stream, enum weft_gpu_kernel kernel, uint32_t blocks,
                                uint64_t rows)
{
    const weft_status status = weft_emulation_driver.launch(device, stream, kernel, blocks, rows);
    if (kernel == told->after)
        told->tell(rows, blocks);
    return status;
}

static void lie_check(emulation_world *world, const lie *one)
{
    weft_gpu_driver driver = weft_emulation_driver;
    weft_gpu *wrong;
    driver.launch = lying_launch;
    told = one;
    assert_int_equal(weft_gpu_open(&driver, &options, &wrong), WEFT_OK);
    jobs_make(&made, world, one->levels, 0, NULL, 9);
    for (uint32_t i = 0; i < made.count; i++)
        made.jobs[i].lend = true;
    assert_int_equal(jobs_submit(wrong, &made), WEFT_AGAIN);
    assert_int_equal(jobs_poll(wrong, &made), WEFT_E_DEVICE);
    for (uint32_t i = 0; i < made.count; i++) {
        assert_int_equal(made.jobs[i].ticket.status, WEFT_E_DEVICE);
        assert_null(made.jobs[i].lent[WEFT_LEVEL_FAST]);
    }
    assert_int_equal(weft_gpu_submit(wrong, &weft_gpu_encode, &made.jobs[0]), WEFT_E_DEVICE);
    jobs_drop(&made);
    weft_gpu_close(wrong);
}

/* No number of the device's leads out of the memory that the host set aside:
 * the batch fails. */
static void wrong_numbers_lose_the_device(void **state)
{
    static const world_change change = {.per_million = 10000, .wild = 2};
    static const lie lies[] = {
        {WEFT_GPU_KERNEL_fast_frame, FAST, tell_far_place},    {WEFT_GPU_KERNEL_fast_frame, FAST, tell_no_place},
        {WEFT_GPU_KERNEL_fast_frame, FAST, tell_long_payload}, {WEFT_GPU_KERNEL_fast_frame, FAST, tell_longer_payload},
        {WEFT_GPU_KERNEL_scan, FAST, tell_many_changes},       {WEFT_GPU_KERNEL_scan, PLAIN, tell_many_changes},
    };
    const world_kind kind = {
        .dtype = WEFT_F32, .tensors = 8, .elements = 900, .pieces = 1, .equal = true, .mixed = true};
    emulation_world world;
    (void)state;
    world_make(&world, &kind, 950);
    world_step(&world, &change);
    for (uint32_t i = 0; i < sizeof lies / sizeof *lies; i++)
        lie_check(&world, &lies[i]);
    world_drop(&world);
}

#ifndef WEFT_EMULATION_THREADS
static void tell_nothing(uint64_t rows, uint32_t count)
{
    (void)rows;
    (void)count;
}

static void tell_old_bits(uint64_t rows, uint32_t count)
{
    (void)rows;
    (void)count;
    job_calm(&made.jobs[0]);
}

/* Weights that are the shadow's again after diff has seen them: no job of the batch follows. */
static void equal_bits_do_not_follow(void **state)
{
    static const lie lies[] = {{WEFT_GPU_KERNEL_diff, FAST, tell_nothing}, {WEFT_GPU_KERNEL_diff, FAST, tell_old_bits}};
    const world_kind kind = {
        .dtype = WEFT_I8, .tensors = 8, .elements = 900, .pieces = 1, .equal = true, .mixed = true};
    weft_gpu_driver driver = weft_emulation_driver;
    emulation_world world;
    weft_gpu *device;
    (void)state;
    driver.launch = lying_launch;
    for (uint32_t l = 0; l < 2; l++) {
        uint32_t follow = 0;
        told = &lies[l];
        assert_int_equal(weft_gpu_open(&driver, &options, &device), WEFT_OK);
        world_make(&world, &kind, 960);
        world_step(&world, &(world_change){.per_million = 10000});
        jobs_make(&made, &world, FAST, 0, NULL, 9);
        for (uint32_t i = 0; i < made.count; i++)
            made.jobs[i].lend = true;
        assert_int_equal(jobs_run(device, &made), WEFT_OK);
        for (uint32_t i = 0; i < made.count; i++) {
            follow += made.jobs[i].follows;
            weft_gpu_give(device, &made.jobs[i]);
        }
        assert_int_equal(follow > 0, l == 0);
        jobs_drop(&made);
        weft_gpu_close(device);
        world_drop(&world);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifndef WEFT_EMULATION_THREADS
        cmocka_unit_test(many_jobs_are_the_hosts),           cmocka_unit_test(short_memory_is_enough),
        cmocka_unit_test(frames_at_the_limit_are_the_hosts), cmocka_unit_test(the_shadow_follows),
        cmocka_unit_test(units_of_the_host_come_in_rounds),  cmocka_unit_test(equal_bits_do_not_follow),
#endif
        cmocka_unit_test(wrong_numbers_lose_the_device),
    };
    return cmocka_run_group_tests(tests, both_open, both_close);
}

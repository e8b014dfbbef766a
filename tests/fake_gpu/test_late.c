/* Work that is late, because a device with one queue does what was queued before: the job fails, and the device stays.
 * A job that writes weights is done in time, or not at all. The streams that go first are told apart too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "backends/gpu/gpu_slab.h"
#include "base/status.h"
#include "tests/fake_gpu/bench.h"

enum { PATIENCE_NS = 30 * 1000000, CHANGES = 3 };

static uint64_t launches(void)
{
    return bench.vendor->fake->calls(bench.vendor == &world[WORLD_CUDA] ? "cuLaunchKernel" : "hipModuleLaunchKernel");
}

static void late_open(int vendor, uint64_t seed)
{
    weft_fake_options options = world[vendor].options;
    options.seed = seed;
    options.one_queue = true;
    bench_open_with(vendor, &options, 0);
    bench.gpu->patience_ns = PATIENCE_NS;
}

/* A framework's stream on which a collective waits for another process. */
static void *collective_begin(void)
{
    void *stream = bench.vendor->fake->stream_take(0);
    bench.vendor->fake->queue_write(stream, bench.there, bench.elements, sizeof(uint32_t));
    bench.vendor->fake->stream_stall(stream, true);
    return stream;
}

static void collective_end(void *stream)
{
    bench.vendor->fake->stream_stall(stream, false);
    bench.vendor->fake->finish();
    bench.vendor->fake->stream_give(stream);
}

static void job_succeeds(const weft_gpu_kind *kind, uint32_t first)
{
    sums_job job = bench_job(first);
    assert_int_equal(weft_gpu_submit(bench.gpu, kind, &job), WEFT_AGAIN);
    assert_int_equal(bench_poll(&job), WEFT_OK);
    bench_check(&job, first);
}

/* A collective in front: nothing of the job comes to the device, then or later. */
static void nothing_is_begun(void **state)
{
    (void)state;
    static const weft_gpu_kind *const kinds[] = {&sums_kind, &sums_writing_kind};
    for (int round = 0; round < 4; round++) {
        late_open(round % 2, 200 + (uint64_t)round);
        void *stream = collective_begin();
        sums_job jobs[2] = {bench_job(0), bench_job(1)};
        for (int i = 0; i < 2; i++)
            assert_int_equal(weft_gpu_submit(bench.gpu, kinds[round / 2], &jobs[i]), WEFT_AGAIN);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(bench_poll(&jobs[i]), WEFT_E_TIMEOUT);
            assert_non_null(strstr(weft_last_error(), "nothing was done"));
            assert_non_null(strstr(weft_last_error(), "device_deadline"));
        }
        assert_int_equal(launches(), 0);
        assert_false(atomic_load(&bench.gpu->lost) || atomic_load(&bench.gpu->hung));
        collective_end(stream);
        assert_int_equal(launches(), 0);
        job_succeeds(kinds[round / 2], 5);
        bench_close();
    }
}

/* A collective that comes in between: the job is given up, and the next one waits until the work of that is over. */
static void jobs_are_given_up(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        late_open(v, 210 + (uint64_t)v);
        sums_job job = bench_job(0), next = bench_job(1);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        bench_begin(&job);
        void *stream = collective_begin();
        assert_int_equal(bench_poll(&job), WEFT_E_TIMEOUT);
        assert_non_null(strstr(weft_last_error(), "given up"));
        const uint64_t before = launches();
        next.behind = v == 0;
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &next), WEFT_AGAIN);
        assert_int_equal(bench_poll(&next), WEFT_E_TIMEOUT);
        assert_int_equal(launches(), before);
        assert_int_equal(bench.gpu->late, 1);
        assert_int_equal(weft_gpu_rest(bench.gpu), WEFT_E_TIMEOUT); /* the memory that it reads must stay */
        assert_non_null(strstr(weft_last_error(), "may still read"));
        assert_false(atomic_load(&bench.gpu->lost));
        collective_end(stream);
        if (v == 0)
            assert_int_equal(weft_gpu_rest(bench.gpu), WEFT_OK);
        else
            job_succeeds(&sums_kind, 2);
        assert_int_equal(bench.gpu->late, 0);
        job_succeeds(&sums_kind, 3);
        bench_close();
    }
}

/* A job behind another of its call has nothing to wait for, and may be given up. */
static void a_job_behind_begins(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        late_open(v, 215 + (uint64_t)v);
        void *stream = collective_begin();
        sums_job job = bench_job(0);
        job.ordered = job.behind = true;
        job.stream = stream;
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        assert_int_equal(weft_gpu_poll(bench.gpu, &job), WEFT_AGAIN);
        assert_int_equal(bench.gpu->slabs[job.ticket.batch].stage, WEFT_GPU_RUNNING);
        assert_int_equal(bench_poll(&job), WEFT_E_TIMEOUT);
        assert_int_equal(bench.gpu->late, 1);
        collective_end(stream);
        job_succeeds(&sums_kind, 3);
        bench_close();
    }
}

/* Work that writes weights is not given up: its end would not be known. */
static void writing_is_waited_for(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        late_open(v, 220 + (uint64_t)v);
        sums_job job = bench_job(0);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_writing_kind, &job), WEFT_AGAIN);
        bench_begin(&job);
        void *stream = collective_begin();
        bench.gpu->patience_ns = 0;
        for (int times = 0; times < 50; times++)
            assert_int_equal(weft_gpu_poll(bench.gpu, &job), WEFT_AGAIN);
        bench.gpu->patience_ns = PATIENCE_NS;
        bench.vendor->fake->stream_stall(stream, false);
        assert_int_equal(bench_poll(&job), WEFT_OK);
        bench_check(&job, 0);
        bench.vendor->fake->stream_give(stream);
        bench_close();
    }
}

/* Every slab may be late, and closing waits for what is late. */
static void closed_while_late(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        late_open(v, 230 + (uint64_t)v);
        sums_job job = bench_job(0);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        bench_begin(&job);
        void *stream = collective_begin();
        assert_int_equal(bench_poll(&job), WEFT_E_TIMEOUT);
        bench.vendor->fake->stream_stall(stream, false);
        bench_close();
        bench.vendor->fake->stream_give(stream);
    }
}

/* Changes of the first elements, in lists on the device. */
static weft_changes changes_make(uint32_t *lists)
{
    static const uint32_t position[CHANGES] = {0, 17, BENCH_ELEMENTS - 1}, after[CHANGES] = {1, 2, 3};
    const uint32_t before[CHANGES] = {bench.elements[0], bench.elements[17], bench.elements[BENCH_ELEMENTS - 1]};
    bench.vendor->fake->write((uintptr_t)lists, position, sizeof position);
    bench.vendor->fake->write((uintptr_t)(lists + CHANGES), before, sizeof before);
    bench.vendor->fake->write((uintptr_t)(lists + 2 * CHANGES), after, sizeof after);
    return (weft_changes){.units = 1,
                          .count = CHANGES,
                          .capacity = CHANGES,
                          .position = lists,
                          .before = lists + CHANGES,
                          .after = lists + 2 * CHANGES};
}

/* An undo stands behind a collective for as long as that takes. */
static void undone_in_the_end(const weft_view *view, const weft_changes *changes)
{
    weft_undo_job undo = {.target = *view, .changes = changes};
    void *stream = collective_begin();
    bench.gpu->patience_ns = 0;
    assert_int_equal(weft_gpu_submit(bench.gpu, &weft_gpu_undo, &undo), WEFT_AGAIN);
    for (int times = 0; times < 50; times++)
        assert_int_equal(weft_gpu_poll(bench.gpu, &undo), WEFT_AGAIN);
    collective_end(stream);
    assert_int_equal(bench_poll(&undo), WEFT_OK);
    bench.gpu->patience_ns = PATIENCE_NS;
}

static void weights_are_old(void)
{
    uint32_t found[BENCH_ELEMENTS];
    bench.vendor->fake->read(found, bench.there, sizeof found);
    assert_memory_equal(found, bench.elements, sizeof found);
}

/* A commit behind a collective fails with the old weights, also after the collective; later it succeeds. Its launch
 * goes before others, and that of a digest after them. */
static void commits_are_all_or_nothing(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        void *lists;
        late_open(v, 240 + (uint64_t)v);
        assert_int_equal(weft_gpu_memory_take(bench.gpu, 4096, false, &lists), WEFT_OK);
        weft_changes changes = changes_make(lists);
        const weft_run run = {.data = (uint8_t *)(uintptr_t)bench.there, .count = BENCH_ELEMENTS};
        const weft_view view = {.runs = &run, .run_count = 1, .count = BENCH_ELEMENTS, .units = 1, .width = 4};
        void *stream = collective_begin(), *own = bench.vendor->fake->stream_take(0);
        weft_apply_job apply = {.target = view, .changes = &changes, .stream = own};
        bench.gpu->caller_ns = PATIENCE_NS; /* the caller's own stream stands behind the collective too */
        assert_int_equal(weft_gpu_submit(bench.gpu, &weft_gpu_apply, &apply), WEFT_AGAIN);
        assert_int_equal(bench_poll(&apply), WEFT_E_TIMEOUT);
        collective_end(stream);
        weights_are_old();
        assert_int_equal(weft_gpu_submit(bench.gpu, &weft_gpu_apply, &apply), WEFT_AGAIN);
        assert_int_equal(bench_poll(&apply), WEFT_OK);
        assert_false(apply.mismatch);
        assert_true(bench.vendor->fake->launched_at() < 0);
        uint64_t sum = 0;
        weft_digest_job digest = {.view = view, .tensor_delta = &sum};
        assert_int_equal(weft_gpu_submit(bench.gpu, &weft_gpu_digest, &digest), WEFT_AGAIN);
        assert_int_equal(bench_poll(&digest), WEFT_OK);
        assert_int_equal(bench.vendor->fake->launched_at(), 0);
        undone_in_the_end(&view, &changes);
        weights_are_old();
        bench.vendor->fake->stream_give(own);
        bench_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_begun),    cmocka_unit_test(jobs_are_given_up),
        cmocka_unit_test(a_job_behind_begins), cmocka_unit_test(writing_is_waited_for),
        cmocka_unit_test(closed_while_late),   cmocka_unit_test(commits_are_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

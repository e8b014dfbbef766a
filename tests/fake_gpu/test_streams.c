/* The streams that callers give: jobs come after what is on them, wait for it without harm, and keep away from those
 * that are captured into graphs. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "port/port_backend.h"
#include "tests/fake_gpu/bench.h"

#define MIB UINT64_C(1048576)

static const char *launch_symbol(void)
{
    return bench.vendor == &world[WORLD_CUDA] ? "cuLaunchKernel" : "hipModuleLaunchKernel";
}

static uint64_t launches(void)
{
    return bench.vendor->fake->calls(launch_symbol());
}

/* A caller's stream on which work waits that does not go on. */
static void *stream_stalled(void)
{
    void *stream = bench.vendor->fake->stream_take(0);
    bench.vendor->fake->queue_write(stream, bench.there, bench.elements, sizeof bench.elements);
    bench.vendor->fake->stream_stall(stream, true);
    return stream;
}

static sums_job ordered_job(void *stream, uint32_t first)
{
    sums_job job = bench_job(first);
    job.ordered = true;
    job.stream = stream;
    return job;
}

/* A job comes after all that was on its caller's stream when it was asked for, on the default stream too. */
static void callers_come_first(void **state)
{
    (void)state;
    uint32_t fresh[BENCH_ELEMENTS];
    for (int round = 0; round < 8; round++) {
        bench_open(round % 2, 40 + (uint64_t)round, 0);
        void *stream = round % 4 < 2 ? bench.vendor->fake->stream_take(0) : NULL;
        sums_job job = bench_job(0), free_of_order = bench_job(BENCH_ELEMENTS);
        job.ordered = true;
        job.stream = stream;
        for (uint32_t i = 0; i < BENCH_ELEMENTS; i++)
            fresh[i] = i ^ 0x5a5a5a5au;
        for (int times = 0; times < 5; times++)
            bench.vendor->fake->queue_write(stream, bench.there, times < 4 ? bench.elements : fresh, sizeof fresh);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &free_of_order), WEFT_AGAIN);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        assert_int_equal(bench_poll(&job), WEFT_OK);
        assert_int_equal(bench_poll(&free_of_order), WEFT_OK);
        assert_int_equal(job.sum, sums_expected(fresh, BENCH_ELEMENTS));
        bench_check(&free_of_order, BENCH_ELEMENTS);
        if (stream)
            bench.vendor->fake->stream_give(stream);
        bench_close();
    }
}

/* However long the caller's own work takes: that is no fault of the device. */
static void callers_may_be_slow(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        bench_open(v, 60 + (uint64_t)v, 0);
        void *stream = stream_stalled();
        sums_job job = ordered_job(stream, 0);
        const uint64_t patience_ns = bench.gpu->patience_ns;
        bench.gpu->patience_ns = 0;
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        for (int times = 0; times < 20; times++)
            assert_int_equal(weft_gpu_poll(bench.gpu, &job), WEFT_AGAIN);
        assert_int_equal(launches(), 0);
        bench.gpu->patience_ns = patience_ns;
        bench.vendor->fake->stream_stall(stream, false);
        assert_int_equal(bench_poll(&job), WEFT_OK);
        bench_check(&job, 0);
        bench.vendor->fake->stream_give(stream);
        bench_close();
    }
}

/* In the end the job is given up: nothing of it was done or ever will be, and the device is as good as before. */
static void callers_are_given_up(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        sums_job jobs[3], other = {0};
        bench_open(v, 62 + (uint64_t)v, 0);
        void *stream = stream_stalled();
        const uint64_t caller_ns = bench.gpu->caller_ns;
        bench.gpu->caller_ns = 0;
        for (uint32_t i = 0; i < 3; i++) {
            jobs[i] = ordered_job(stream, i);
            jobs[i].device = 100 * MIB; /* a slab each */
            assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &jobs[i]), WEFT_AGAIN);
        }
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(bench_poll(&jobs[i]), WEFT_E_TIMEOUT);
            assert_non_null(strstr(weft_last_error(), "nothing was done"));
        }
        bench.vendor->fake->stream_stall(stream, false);
        bench.vendor->fake->finish();
        assert_int_equal(launches(), 0);
        bench.gpu->caller_ns = caller_ns;
        other = ordered_job(stream, 7);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &other), WEFT_AGAIN);
        assert_int_equal(bench_poll(&other), WEFT_OK);
        bench_check(&other, 7);
        bench.vendor->fake->stream_give(stream);
        bench_close();
    }
}

/* Closing waits for no caller, and leaves no work that would be done later. */
static void closed_while_waiting(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        bench_open(v, 64 + (uint64_t)v, 0);
        void *stream = stream_stalled();
        sums_job job = ordered_job(stream, 0);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        assert_int_equal(weft_gpu_poll(bench.gpu, &job), WEFT_AGAIN);
        bench_close();
        bench.vendor->fake->stream_stall(stream, false);
        bench.vendor->fake->stream_give(stream);
        assert_int_equal(launches(), 0);
    }
}

/* Applied changes are undone although the caller's stream has stopped since. */
static void undo_waits_for_nobody(void **state)
{
    (void)state;
    enum { CHANGES = 3 };
    static const uint32_t position[CHANGES] = {0, 17, BENCH_ELEMENTS - 1}, after[CHANGES] = {1, 2, 3};
    uint32_t before[CHANGES], found[BENCH_ELEMENTS];
    for (int v = 0; v < WORLD_VENDORS; v++) {
        void *lists;
        bench_open(v, 66 + (uint64_t)v, 0);
        for (uint32_t i = 0; i < CHANGES; i++)
            before[i] = bench.elements[position[i]];
        assert_int_equal(weft_gpu_memory_take(bench.gpu, 3 * sizeof position, false, &lists), WEFT_OK);
        uint32_t *list = lists;
        bench.vendor->fake->write((uintptr_t)list, position, sizeof position);
        bench.vendor->fake->write((uintptr_t)(list + CHANGES), before, sizeof before);
        bench.vendor->fake->write((uintptr_t)(list + 2 * CHANGES), after, sizeof after);
        weft_changes changes = {.units = 1,
                                .count = CHANGES,
                                .capacity = CHANGES,
                                .position = list,
                                .before = list + CHANGES,
                                .after = list + 2 * CHANGES};
        const weft_run run = {.data = (uint8_t *)(uintptr_t)bench.there, .count = BENCH_ELEMENTS};
        const weft_view view = {.runs = &run, .run_count = 1, .count = BENCH_ELEMENTS, .units = 1, .width = 4};
        void *stream = bench.vendor->fake->stream_take(0);
        weft_apply_job apply = {.target = view, .changes = &changes, .stream = stream};
        weft_undo_job undo = {.target = view, .changes = &changes, .stream = stream};
        assert_int_equal(weft_gpu_submit(bench.gpu, &weft_gpu_apply, &apply), WEFT_AGAIN);
        assert_int_equal(bench_poll(&apply), WEFT_OK);
        assert_false(apply.mismatch);
        bench.vendor->fake->queue_write(stream, bench.there + sizeof found, bench.elements, sizeof(uint32_t));
        bench.vendor->fake->stream_stall(stream, true);
        bench.gpu->caller_ns = 0;
        assert_int_equal(weft_gpu_submit(bench.gpu, &weft_gpu_undo, &undo), WEFT_AGAIN);
        assert_int_equal(bench_poll(&undo), WEFT_OK);
        bench.vendor->fake->read(found, bench.there, sizeof found);
        assert_memory_equal(found, bench.elements, sizeof found);
        bench.vendor->fake->stream_stall(stream, false);
        bench.vendor->fake->stream_give(stream);
        bench_close();
    }
}

/* Memory that weft took (shadow, image) waits for no caller's stream, which may be gone. */
static void own_memory_has_no_order(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        void *image, *dense;
        bench_open(v, 70 + (uint64_t)v, 0);
        assert_int_equal(weft_gpu_memory_take(bench.gpu, 8192, true, &image), WEFT_OK);
        assert_int_equal(weft_gpu_memory_take(bench.gpu, 8192, true, &dense), WEFT_OK);
        const uint64_t bytes = BENCH_ELEMENTS * sizeof(uint32_t);
        const weft_run run = {.data = (uint8_t *)image + 4096, .count = BENCH_ELEMENTS};
        const weft_view view = {.runs = &run, .run_count = 1, .count = BENCH_ELEMENTS, .units = 1, .width = 4};
        void *stream = stream_stalled(), *gone = bench.vendor->fake->stream_take(0);
        bench.vendor->fake->stream_give(gone);
        weft_store_job store = {.view = view, .bytes = (const uint8_t *)bench.elements, .stream = gone};
        weft_load_job load = {.view = view, .bytes = dense, .stream = stream};
        uint64_t sum = 0, expected = sums_expected(bench.elements, BENCH_ELEMENTS);
        weft_digest_job digest = {.view = view, .tensor_delta = &sum};
        bench.gpu->caller_ns = 0;
        bench.vendor->fake->queue_write(NULL, bench.there, bench.elements, bytes);
        bench.vendor->fake->stream_stall(NULL, true);
        assert_int_equal(weft_gpu_submit(bench.gpu, &weft_gpu_store, &store), WEFT_AGAIN);
        assert_int_equal(bench_poll(&store), WEFT_OK);
        assert_memory_equal(run.data, bench.elements, bytes);
        assert_int_equal(weft_gpu_submit(bench.gpu, &weft_gpu_load, &load), WEFT_AGAIN);
        assert_int_equal(bench_poll(&load), WEFT_OK);
        assert_memory_equal(dense, bench.elements, bytes);
        assert_int_equal(weft_gpu_submit(bench.gpu, &weft_gpu_digest, &digest), WEFT_AGAIN);
        assert_int_equal(bench_poll(&digest), WEFT_OK);
        assert_int_equal(sum, expected);
        bench.vendor->fake->stream_stall(NULL, false);
        bench.vendor->fake->stream_stall(stream, false);
        bench.vendor->fake->stream_give(stream);
        bench_close();
    }
}

/* One thread has a slab, another finds none. */
static void *second_thread(void *from)
{
    weft_status *status = from;
    sums_job job = bench_job(5);
    *status = weft_gpu_submit(bench.gpu, &sums_kind, &job);
    return NULL;
}

static void *first_thread(void *from)
{
    pthread_t second;
    sums_job job = bench_job(4);
    uint64_t patience_ns = bench.gpu->patience_ns;
    if (weft_gpu_submit(bench.gpu, &sums_kind, &job) != WEFT_AGAIN)
        return "submit";
    bench.gpu->patience_ns = bench.gpu->caller_ns = 0;
    if (pthread_create(&second, NULL, second_thread, from) != 0 || pthread_join(second, NULL) != 0)
        return "thread";
    bench.gpu->patience_ns = patience_ns;
    return bench_poll(&job) == WEFT_OK ? NULL : "poll";
}

/* If other threads have all slabs, this thread's patience ends, and the device is not lost. */
static void others_hold_it(void **state)
{
    (void)state;
    enum { JOBS = 3 };
    pthread_t first;
    sums_job jobs[JOBS];
    weft_status status = WEFT_OK;
    void *wrong;
    bench_open(WORLD_CUDA, 68, 0);
    const uint64_t caller_ns = bench.gpu->caller_ns;
    void *stream = stream_stalled();
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = ordered_job(stream, i);
        jobs[i].device = 100 * MIB; /* a slab each */
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &jobs[i]), WEFT_AGAIN);
    }
    assert_int_equal(pthread_create(&first, NULL, first_thread, &status), 0);
    assert_int_equal(pthread_join(first, &wrong), 0);
    assert_null(wrong);
    assert_int_equal(status, WEFT_E_TIMEOUT);
    bench.gpu->caller_ns = caller_ns;
    bench.vendor->fake->stream_stall(stream, false);
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(bench_poll(&jobs[i]), WEFT_OK);
        bench_check(&jobs[i], i);
    }
    bench.vendor->fake->stream_give(stream);
    bench_close();
}

/* ---- captures */

/* All that weft does in the background while a framework captures a graph. */
static void capture_goes_on(const weft_fake_options *options, int vendor)
{
    enum { JOBS = 3 };
    const weft_backend_options other = {0, "auto", 0, 0};
    sums_job jobs[JOBS];
    void *device, *pinned;
    weft_gpu *gpu;
    char text[64];
    bench_open_with(vendor, options, 0);
    void *stream = bench.vendor->fake->stream_take(0), *callers = bench.vendor->fake->stream_take(0);
    bench.vendor->fake->capture(stream, false);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = ordered_job(callers, i);
        jobs[i].ordered = i > 0;
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &jobs[i]), WEFT_AGAIN);
    }
    assert_int_equal(weft_gpu_memory_take(bench.gpu, 4096, false, &device), WEFT_OK);
    assert_int_equal(weft_gpu_memory_take(bench.gpu, 4096, true, &pinned), WEFT_OK);
    assert_null(bench.gpu->driver->reaches(bench.gpu->device, bench.there, 4, text, sizeof text));
    weft_gpu_memory_give(bench.gpu, device);
    weft_gpu_memory_give(bench.gpu, pinned);
    assert_int_equal(weft_gpu_open(bench.vendor->driver, &other, &gpu), WEFT_OK);
    weft_gpu_close(gpu);
    const uint64_t patience_ns = bench.gpu->patience_ns;
    if (options->mute_captures) {
        bench.gpu->patience_ns = 0;
        for (int times = 0; times < 20; times++)
            assert_int_equal(weft_gpu_poll(bench.gpu, &jobs[0]), WEFT_AGAIN);
        assert_true(bench.vendor->fake->captured());
        bench.gpu->patience_ns = patience_ns;
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(bench_poll(&jobs[i]), WEFT_OK);
        bench_check(&jobs[i], i);
    }
    assert_true(options->mute_captures || bench.vendor->fake->captured());
    bench.vendor->fake->stream_give(stream);
    bench.vendor->fake->stream_give(callers);
    bench_close();
}

static void captures_go_on(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        weft_fake_options options = world[v].options;
        options.seed = 80 + (uint64_t)v;
        capture_goes_on(&options, v);
        options.mute_captures = true;
        capture_goes_on(&options, v);
    }
}

/* Work that waits for a captured stream would become part of the graph. */
static void captured_streams_are_refused(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        bench_open(v, 82 + (uint64_t)v, 0);
        void *stream = bench.vendor->fake->stream_take(0);
        sums_job job = ordered_job(stream, 0);
        bench.vendor->fake->capture(stream, false);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        assert_int_equal(bench_poll(&job), WEFT_E_ARGUMENT);
        assert_non_null(strstr(weft_last_error(), "captured into a graph"));
        assert_true(bench.vendor->fake->captured());
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        assert_int_equal(bench_poll(&job), WEFT_OK);
        bench_check(&job, 0);
        bench.vendor->fake->stream_give(stream);
        bench_close();
    }
}

/* A job waits for its caller's stream, which is captured meanwhile: the capture goes on, though it would break where an
 * event of that stream is asked for. */
static void streams_are_captured_after_the_call(void **state)
{
    (void)state;
    weft_fake_options options = world[WORLD_HIP].options;
    options.seed = 86;
    options.breaking_captures = true;
    bench_open_with(WORLD_HIP, &options, 0);
    void *stream = bench.vendor->fake->stream_take(0);
    sums_job job = ordered_job(stream, 0);
    bench.vendor->fake->stream_stall(stream, true);
    bench.vendor->fake->queue_write(stream, bench.there, bench.elements, sizeof bench.elements);
    assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
    assert_int_equal(weft_gpu_poll(bench.gpu, &job), WEFT_AGAIN);
    bench.vendor->fake->capture(stream, false);
    for (int times = 0; times < 20; times++)
        assert_int_equal(weft_gpu_poll(bench.gpu, &job), WEFT_AGAIN);
    assert_true(bench.vendor->fake->captured());
    bench.vendor->fake->stream_stall(stream, false);
    assert_int_equal(bench_poll(&job), WEFT_OK);
    bench_check(&job, 0);
    bench.vendor->fake->stream_give(stream);
    bench_close();
}

/* The default stream cannot be used while a stream is captured that it orders itself against: later it can. */
static void default_stream_waits_for_captures(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        bench_open(v, 84 + (uint64_t)v, 0);
        void *stream = bench.vendor->fake->stream_take(0);
        sums_job job = ordered_job(NULL, 0);
        bench.vendor->fake->capture(stream, true);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        for (int times = 0; times < 20; times++)
            assert_int_equal(weft_gpu_poll(bench.gpu, &job), WEFT_AGAIN);
        assert_true(bench.vendor->fake->captured());
        assert_int_equal(bench_poll(&job), WEFT_OK);
        bench_check(&job, 0);
        bench.vendor->fake->stream_give(stream);
        bench_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_come_first),
        cmocka_unit_test(callers_may_be_slow),
        cmocka_unit_test(callers_are_given_up),
        cmocka_unit_test(closed_while_waiting),
        cmocka_unit_test(undo_waits_for_nobody),
        cmocka_unit_test(own_memory_has_no_order),
        cmocka_unit_test(others_hold_it),
        cmocka_unit_test(captures_go_on),
        cmocka_unit_test(captured_streams_are_refused),
        cmocka_unit_test(streams_are_captured_after_the_call),
        cmocka_unit_test(default_stream_waits_for_captures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

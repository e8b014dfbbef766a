/* Commits that are queued on the caller's stream: they come after the stream's work and before what is put there
 * later, change all elements or none, and leave slab and device as they were, whatever fails. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/fake_gpu/bench.h"

enum { LISTS = 3, CHANGES = 4, NO_MEMORY = 2, UNKNOWN = 999, CAPTURE_INVALID = 901 };

/* Changes of the bench's elements, in as many lists. Those of a list lie in the device's memory. */
static struct {
    void *memory;
    weft_changes list[LISTS];
    uint32_t position[LISTS][CHANGES], after[LISTS][CHANGES];
    weft_run run;
    void *stream;
} w;

static void lists_make(void)
{
    const uint64_t bytes = CHANGES * sizeof(uint32_t);
    uint32_t before[CHANGES];
    assert_int_equal(weft_gpu_memory_take(bench.gpu, 3 * LISTS * bytes, false, &w.memory), WEFT_OK);
    for (uint32_t l = 0; l < LISTS; l++) {
        uint32_t *there = (uint32_t *)w.memory + 3 * l * CHANGES;
        for (uint32_t i = 0; i < CHANGES; i++) {
            w.position[l][i] = 10 * l + 3 * i;
            w.after[l][i] = ~bench.elements[w.position[l][i]];
            before[i] = bench.elements[w.position[l][i]];
        }
        bench.vendor->fake->write((uintptr_t)there, w.position[l], bytes);
        bench.vendor->fake->write((uintptr_t)(there + CHANGES), before, bytes);
        bench.vendor->fake->write((uintptr_t)(there + 2 * CHANGES), w.after[l], bytes);
        w.list[l] = (weft_changes){.units = 1,
                                   .count = CHANGES,
                                   .capacity = CHANGES,
                                   .position = there,
                                   .before = there + CHANGES,
                                   .after = there + 2 * CHANGES};
    }
}

static void commit_open_with(int vendor, const weft_fake_options *options)
{
    bench_open_with(vendor, options, 0);
    w.run = (weft_run){.data = (uint8_t *)(uintptr_t)bench.there, .count = BENCH_ELEMENTS};
    lists_make();
    w.stream = bench.vendor->fake->stream_take(0);
}

static void commit_open(int vendor, uint64_t seed)
{
    weft_fake_options options = world[vendor].options;
    options.seed = seed;
    commit_open_with(vendor, &options);
}

static void commit_close(void)
{
    bench.vendor->fake->stream_give(w.stream);
    bench_close();
}

static void list_fill(void *user, uint64_t list, weft_apply_job *job)
{
    (void)user;
    *job = (weft_apply_job){
        .target = {.runs = &w.run, .run_count = 1, .count = BENCH_ELEMENTS, .units = 1, .width = sizeof(uint32_t)},
        .changes = &w.list[list]};
}

static weft_queued_commit commit_of(void *stream)
{
    return (weft_queued_commit){.count = LISTS, .fill = list_fill, .stream = stream};
}

static weft_status end(weft_queued_commit *commit)
{
    weft_status status = WEFT_AGAIN;
    while (status == WEFT_AGAIN)
        status = weft_gpu_commit_ask(bench.gpu, commit);
    return status;
}

/* Elements as they are now, when all that is queued is done. */
static void elements_check(bool written)
{
    uint32_t found[BENCH_ELEMENTS], wanted[BENCH_ELEMENTS];
    memcpy(wanted, bench.elements, sizeof wanted);
    for (uint32_t l = 0; l < LISTS && written; l++)
        for (uint32_t i = 0; i < CHANGES; i++)
            wanted[w.position[l][i]] = w.after[l][i];
    bench.vendor->fake->read(found, bench.there, sizeof found);
    assert_memory_equal(found, wanted, sizeof found);
}

static uint64_t place(uint32_t position)
{
    return bench.there + position * sizeof(uint32_t);
}

/* The call returns while the stream stands still. What is put on the stream afterwards comes after the commit. */
static void in_order_of_the_stream(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        commit_open(round % 2, 300 + (uint64_t)round);
        void *stream = round % 4 < 2 ? w.stream : NULL;
        weft_queued_commit commit = commit_of(stream);
        uint32_t later = 77, found;
        bench.vendor->fake->queue_write(stream, place(200), &later, sizeof later);
        bench.vendor->fake->stream_stall(stream, true);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
        bench.vendor->fake->queue_write(stream, place(w.position[1][2]), &later, sizeof later);
        for (int times = 0; times < 20; times++)
            assert_int_equal(weft_gpu_commit_ask(bench.gpu, &commit), WEFT_AGAIN);
        bench.vendor->fake->stream_stall(stream, false);
        assert_int_equal(end(&commit), WEFT_OK);
        assert_true(commit.written && commit.altered == UINT64_MAX);
        bench.vendor->fake->read(&found, place(w.position[1][2]), sizeof found);
        assert_int_equal(found, later);
        bench.elements[200] = w.after[1][2] = later;
        elements_check(true);
        commit_close();
    }
}

/* Work that the stream has before the commit changes an element: no element of any list is written. */
static void all_or_none(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        const uint32_t list = (uint32_t)round % LISTS;
        commit_open(round % 2, 310 + (uint64_t)round);
        weft_queued_commit commit = commit_of(w.stream);
        uint32_t other = bench.elements[w.position[list][CHANGES - 1]] ^ 1;
        bench.vendor->fake->queue_write(w.stream, place(w.position[list][CHANGES - 1]), &other, sizeof other);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
        assert_int_equal(end(&commit), WEFT_OK);
        assert_false(commit.written);
        assert_int_equal(commit.altered, list);
        bench.elements[w.position[list][CHANGES - 1]] = other;
        elements_check(false);
        commit_close();
    }
}

/* A stream that is captured is refused, and its capture goes on. */
static void captured_streams_are_refused(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        commit_open(v, 320 + (uint64_t)v);
        weft_queued_commit commit = commit_of(w.stream);
        bench.vendor->fake->capture(w.stream, false);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_E_ARGUMENT);
        assert_non_null(strstr(weft_last_error(), "captured into a graph"));
        assert_true(bench.vendor->fake->captured());
        elements_check(false);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
        assert_int_equal(end(&commit), WEFT_OK);
        elements_check(true);
        commit_close();
    }
}

/* The caller captures the stream while a commit is on it, where asking for an event of that stream would break the
 * capture, as with ROCm 6. */
static void no_question_breaks_a_capture(void **state)
{
    (void)state;
    weft_fake_options options = world[WORLD_HIP].options;
    options.seed = 324;
    options.breaking_captures = true;
    commit_open_with(WORLD_HIP, &options);
    weft_queued_commit commit = commit_of(w.stream);
    assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
    bench.vendor->fake->stream_stall(w.stream, true);
    bench.vendor->fake->capture(w.stream, false);
    for (int times = 0; times < 20; times++)
        assert_int_equal(weft_gpu_commit_ask(bench.gpu, &commit), WEFT_AGAIN);
    assert_true(bench.vendor->fake->captured());
    bench.vendor->fake->stream_stall(w.stream, false);
    assert_int_equal(end(&commit), WEFT_OK);
    elements_check(true);
    commit_close();
}

/* The default stream cannot be had while a stream is captured that waits for the default one: nothing is done then. */
static void the_default_stream_is_waited_for(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        commit_open(v, 322 + (uint64_t)v);
        weft_queued_commit commit = commit_of(NULL);
        bench.gpu->patience_ns = 20 * 1000000;
        bench.vendor->fake->capture(w.stream, true);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_E_TIMEOUT);
        assert_non_null(strstr(weft_last_error(), "nothing was done"));
        assert_true(bench.vendor->fake->captured());
        elements_check(false);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
        assert_int_equal(end(&commit), WEFT_OK);
        elements_check(true);
        commit_close();
    }
}

/* Work of the stream's, after the commit, finds the commit's element. */
static void later_work(void)
{
    const uint32_t later = 78;
    bench.vendor->fake->queue_write(w.stream, place(w.position[0][1]), &later, sizeof later);
    w.after[0][1] = later;
}

/* A capture that begins beside the commit only delays what is left to be put on the stream after the writes. */
static void a_capture_comes_between(void **state)
{
    static const char *const symbols[][2] = {{"cuMemcpyAsync", "hipMemcpyAsync"},
                                             {"cuLaunchKernel", "hipModuleLaunchKernel"},
                                             {"cuEventRecord", "hipEventRecord"},
                                             {"cuEventQuery", "hipEventQuery"}};
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++)
        for (size_t s = 0; s < sizeof symbols / sizeof *symbols; s++)
            for (uint64_t nth = 1; nth <= 2; nth++) {
                commit_open(v, 330 + nth);
                weft_queued_commit commit = commit_of(w.stream);
                bench.vendor->fake->spoil(symbols[s][v], nth, CAPTURE_INVALID, false);
                assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
                later_work();
                assert_int_equal(end(&commit), WEFT_OK);
                assert_true(commit.written);
                assert_true(bench.vendor->fake->spoiled() || (s == 3 && nth == 2)); /* one question may do */
                elements_check(true);
                commit_close();
            }
}

/* A call that fails loses the device. Nothing hangs, and all is given back. */
static void calls_fail(void **state)
{
    static const char *const symbols[][2] = {{"cuMemcpyAsync", "hipMemcpyAsync"},
                                             {"cuLaunchKernel", "hipModuleLaunchKernel"},
                                             {"cuEventRecord", "hipEventRecord"},
                                             {"cuEventQuery", "hipEventQuery"}};
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++)
        for (size_t s = 0; s < sizeof symbols / sizeof *symbols; s++)
            for (uint64_t nth = 1; nth <= 2; nth++) {
                weft_fake_options options = world[v].options;
                options.open_memory = true;
                commit_open_with(v, &options);
                weft_queued_commit commit = commit_of(w.stream);
                bench.vendor->fake->spoil(symbols[s][v], nth, UNKNOWN, false);
                weft_status status = weft_gpu_commit_queue(bench.gpu, &commit);
                status = status == WEFT_OK ? end(&commit) : status;
                if (!bench.vendor->fake->spoiled())
                    assert_int_equal(status, WEFT_OK);
                else
                    assert_int_equal(status, WEFT_E_DEVICE);
                assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit),
                                 status == WEFT_OK ? WEFT_OK : WEFT_E_DEVICE);
                commit_close();
            }
}

/* A step after the writes fails for a time, and the stream itself is captured then: the weights are written or will be,
 * so the commit goes on, and the capture too. */
static void a_step_after_the_writes_fails(void **state)
{
    static const char *const symbols[][2] = {{"cuMemcpyAsync", "hipMemcpyAsync"}, {"cuEventRecord", "hipEventRecord"}};
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++)
        for (int s = 0; s < 4; s++) {
            commit_open(v, 360 + (uint64_t)s);
            weft_queued_commit commit = commit_of(w.stream);
            const uint64_t nth = v == WORLD_HIP && s % 2 ? 3 : 2; /* a mark aside takes two events */
            bench.vendor->fake->spoil(symbols[s % 2][v], nth, s < 2 ? NO_MEMORY : CAPTURE_INVALID, false);
            assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
            assert_true(bench.vendor->fake->spoiled());
            bench.vendor->fake->capture(w.stream, false);
            for (int times = 0; times < 20; times++)
                assert_int_equal(weft_gpu_commit_ask(bench.gpu, &commit), WEFT_AGAIN);
            assert_true(bench.vendor->fake->captured());
            assert_int_equal(end(&commit), WEFT_OK);
            assert_true(commit.written);
            elements_check(true);
            commit_close();
        }
}

/* Lets a stream go on, a while after the commit began to wait for it. */
static void *goes_on(void *stream)
{
    const struct timespec pause = {.tv_nsec = 100 * 1000000};
    nanosleep(&pause, NULL);
    bench.vendor->fake->stream_stall(stream, false);
    return NULL;
}

/* A launch that fails ends the commit when the stream has done what it has of that, however long the stream takes for
 * its own work: the slab's rows are read until then. The device is not lost, and nothing is written. */
static void what_is_on_the_stream_is_waited_for(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++)
        for (uint64_t nth = 1; nth <= 2; nth++) {
            pthread_t other;
            commit_open(v, 370 + nth);
            weft_queued_commit commit = commit_of(w.stream);
            bench.gpu->patience_ns = 20 * 1000000;
            bench.vendor->fake->stream_stall(w.stream, true);
            bench.vendor->fake->spoil(v ? "hipModuleLaunchKernel" : "cuLaunchKernel", nth, NO_MEMORY, false);
            assert_int_equal(pthread_create(&other, NULL, goes_on, w.stream), 0);
            assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_E_MEMORY);
            assert_non_null(strstr(weft_last_error(), "free memory there"));
            pthread_join(other, NULL);
            elements_check(false);
            assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
            assert_int_equal(end(&commit), WEFT_OK);
            assert_true(commit.written);
            elements_check(true);
            commit_close();
        }
}

/* Work that was given up may still write the lists: the commit waits for that, and in the end does nothing. */
static void late_work_comes_first(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        commit_open(v, 340 + (uint64_t)v);
        sums_job job = bench_job(100);
        weft_queued_commit commit = commit_of(w.stream);
        bench.gpu->patience_ns = 20 * 1000000;
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
        bench_begin(&job);
        bench.vendor->fake->stall(true);
        assert_int_equal(bench_poll(&job), WEFT_E_TIMEOUT);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_E_TIMEOUT);
        bench.vendor->fake->stall(false);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
        assert_int_equal(end(&commit), WEFT_OK);
        elements_check(true);
        commit_close();
    }
}

/* A commit that does not end loses the device, because weights may be written at any time. */
static void a_commit_hangs(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        commit_open(v, 342 + (uint64_t)v);
        weft_queued_commit commit = commit_of(w.stream);
        bench.gpu->hang_ns = 20 * 1000000;
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
        bench.vendor->fake->stream_stall(w.stream, true);
        bench.vendor->fake->stall(true);
        assert_int_equal(end(&commit), WEFT_E_DEVICE);
        assert_non_null(strstr(weft_last_error(), "does not end"));
        weft_gpu_close(bench.gpu);
        bench.vendor->fake->stall(false);
        bench.vendor->fake->stream_stall(w.stream, false);
    }
}

/* Jobs of the thread that queued a commit are done meanwhile, in other slabs. */
static void other_jobs_go_on(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        commit_open(v, 352 + (uint64_t)v);
        weft_queued_commit commit = commit_of(w.stream);
        bench.vendor->fake->stream_stall(w.stream, true);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
        for (uint32_t i = 0; i < 8; i++) {
            sums_job job = bench_job(i);
            assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
            assert_int_equal(bench_poll(&job), WEFT_OK);
            bench_check(&job, i);
        }
        assert_int_equal(weft_gpu_commit_ask(bench.gpu, &commit), WEFT_AGAIN);
        bench.vendor->fake->stream_stall(w.stream, false);
        assert_int_equal(end(&commit), WEFT_OK);
        assert_true(commit.written);
        elements_check(true);
        commit_close();
    }
}

/* The backend is closed with a commit that nobody asked for: close waits for the device. */
static void closed_while_queued(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        commit_open(v, 344 + (uint64_t)v);
        weft_queued_commit commit = commit_of(w.stream);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
        weft_gpu_close(bench.gpu);
        elements_check(true);
        bench.vendor->fake->stream_give(w.stream);
        bench.vendor->fake->give(bench.there);
        assert_int_equal(bench.vendor->fake->live(), 0);
    }
}

/* Slabs are as free as before, also after commits that failed. */
static void many_in_a_row(void **state)
{
    (void)state;
    commit_open(WORLD_CUDA, 350);
    for (int i = 0; i < 20; i++) {
        weft_queued_commit commit = commit_of(w.stream);
        assert_int_equal(weft_gpu_commit_queue(bench.gpu, &commit), WEFT_OK);
        assert_int_equal(end(&commit), WEFT_OK);
        assert_int_equal(commit.written, i == 0); /* the weights are no more what the lists were made from */
        assert_true(commit.altered == (i ? 0 : UINT64_MAX));
    }
    elements_check(true);
    for (uint32_t i = 0; i < WEFT_GPU_SLABS; i++)
        assert_int_equal(bench.gpu->slabs[i].stage, WEFT_GPU_FREE);
    commit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_of_the_stream),
        cmocka_unit_test(all_or_none),
        cmocka_unit_test(captured_streams_are_refused),
        cmocka_unit_test(no_question_breaks_a_capture),
        cmocka_unit_test(the_default_stream_is_waited_for),
        cmocka_unit_test(a_capture_comes_between),
        cmocka_unit_test(calls_fail),
        cmocka_unit_test(a_step_after_the_writes_fails),
        cmocka_unit_test(what_is_on_the_stream_is_waited_for),
        cmocka_unit_test(late_work_comes_first),
        cmocka_unit_test(other_jobs_go_on),
        cmocka_unit_test(closed_while_queued),
        cmocka_unit_test(many_in_a_row),
        cmocka_unit_test(a_commit_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

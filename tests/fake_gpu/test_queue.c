/* Jobs of the device backends, from being taken to their results, over drivers whose work comes late and in any order.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/gpu/gpu_wait.h"
#include "base/status.h"
#include "tests/fake_gpu/bench.h"

#define MIB UINT64_C(1048576)

/* More than slabs take, asked for in the order of taking and against it. */
static void sums_come_out(void **state)
{
    (void)state;
    enum { JOBS = 140 };
    static sums_job jobs[JOBS];
    for (int round = 0; round < 4; round++) {
        bench_open(round % 2, 11 + (uint64_t)round, 0);
        bench.gpu->jobs_most = round < 2 ? 64 : 9;
        for (uint32_t i = 0; i < JOBS; i++) {
            jobs[i] = bench_job(i);
            assert_int_equal(weft_gpu_submit(bench.gpu, i % 50 < 25 ? &sums_kind : &sums_other_kind, &jobs[i]),
                             WEFT_AGAIN);
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            uint32_t k = round % 2 < 1 ? i : JOBS - 1 - i;
            assert_int_equal(bench_poll(&jobs[k]), WEFT_OK);
            bench_check(&jobs[k], k);
        }
        bench_close();
    }
}

static void one_job_fails(void **state)
{
    (void)state;
    sums_job jobs[9];
    bench_open(WORLD_CUDA, 5, 0);
    for (uint32_t i = 0; i < 9; i++) {
        jobs[i] = bench_job(i);
        jobs[i].wrong = i == 4 || i == 6;
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &jobs[i]), WEFT_AGAIN);
    }
    for (uint32_t i = 0; i < 9; i++) {
        weft_fail_quiet(WEFT_E_STATE, "another error"); /* must not be reported instead */
        assert_int_equal(bench_poll(&jobs[i]), jobs[i].wrong ? WEFT_E_CORRUPT : WEFT_OK);
        if (jobs[i].wrong)
            assert_string_equal(weft_last_error(), "job 4 is wrong");
        else
            bench_check(&jobs[i], i);
    }
    bench_close();
}

/* A job that one slab has no room for goes into the next. A job that no slab has room for is refused alone. */
static void rooms_are_kept(void **state)
{
    (void)state;
    enum { JOBS = 12 };
    sums_job jobs[JOBS], large = {0};
    bench_open(WORLD_HIP, 6, 0);
    large = bench_job(0);
    large.device = 1024 * MIB;
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = bench_job(i);
        jobs[i].device = 60 * MIB;
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &jobs[i]), WEFT_AGAIN);
        if (i == 5) {
            assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &large), WEFT_E_BUDGET);
            assert_non_null(strstr(weft_last_error(), "device_memory"));
        }
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_int_equal(bench_poll(&jobs[i]), WEFT_OK);
        bench_check(&jobs[i], i);
    }
    bench_close();
}

/* As many jobs as slabs take, of which some are asked for. */
static void nobody_asks(void **state)
{
    (void)state;
    static sums_job jobs[BENCH_JOBS];
    bench_open(WORLD_CUDA, 7, 0);
    bench.gpu->jobs_most = 64;
    for (uint32_t i = 0; i < BENCH_JOBS; i++) {
        jobs[i] = bench_job(i);
        assert_int_equal(weft_gpu_submit(bench.gpu, i % 97 ? &sums_idle_kind : &sums_kind, &jobs[i]), WEFT_AGAIN);
    }
    for (uint32_t i = 0; i < BENCH_JOBS; i += 97) {
        assert_int_equal(bench_poll(&jobs[i]), WEFT_OK);
        bench_check(&jobs[i], i);
    }
    bench_close(); /* with results that were never asked for */
}

/* A slab full of jobs, as many as it can take. */
static void slabs_are_filled(void **state)
{
    (void)state;
    static sums_job jobs[WEFT_GPU_JOBS + 1];
    for (int v = 0; v < WORLD_VENDORS; v++) {
        bench_open(v, 17 + (uint64_t)v, 0);
        for (uint32_t i = 0; i <= WEFT_GPU_JOBS; i++) {
            jobs[i] = bench_job(i % BENCH_JOBS);
            assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &jobs[i]), WEFT_AGAIN);
        }
        for (uint32_t i = 0; i <= WEFT_GPU_JOBS; i++) {
            assert_int_equal(bench_poll(&jobs[i]), WEFT_OK);
            bench_check(&jobs[i], i % BENCH_JOBS);
        }
        bench_close();
    }
}

/* The law of waiting, by a clock of its own: questions of 2 us that are all asked in vain. */
static void waiting_is_cheap(void **state)
{
    (void)state;
    enum { ASK = 2000, SECOND = 1000000000 };
    weft_gpu_credit credit = {0};
    uint64_t now = 5ull * SECOND, core = 0, first_sleep = 0;
    while (now < 7ull * SECOND) {
        const uint64_t sleep = weft_gpu_credit_use(&credit, now, now + ASK);
        now += ASK + sleep;
        core += ASK + (sleep ? WEFT_GPU_WAIT_SLEEP : 0);
        first_sleep = first_sleep || !sleep ? first_sleep : core;
        assert_true(sleep <= WEFT_GPU_WAIT_LONGEST);
    }
    assert_true(first_sleep > WEFT_GPU_WAIT_CREDIT / 2);
    assert_true(core <= WEFT_GPU_WAIT_CREDIT + 2ull * SECOND / WEFT_GPU_WAIT_SHARE);
    assert_int_equal(weft_gpu_credit_use(&credit, now + SECOND, now + SECOND + ASK), 0);
}

static void *thread_run(void *from)
{
    enum { JOBS = 20 };
    uint32_t first = *(uint32_t *)from;
    sums_job jobs[JOBS];
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = bench_job(first + i);
        jobs[i].device = 50 * MIB; /* several slabs */
        if (weft_gpu_submit(bench.gpu, &sums_kind, &jobs[i]) != WEFT_AGAIN)
            return "submit";
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        if (bench_poll(&jobs[i]) != WEFT_OK || jobs[i].sum != sums_expected(bench.elements + first + i, BENCH_ELEMENTS))
            return "poll";
    }
    return bench.vendor->fake->chosen() == (bench.vendor == &world[WORLD_CUDA] ? -1 : 0) ? NULL : "device";
}

/* More threads than can have slabs at once; each has its own jobs, and its current device stays. */
static void threads_share(void **state)
{
    (void)state;
    enum { THREADS = 5 };
    for (int v = 0; v < WORLD_VENDORS; v++) {
        pthread_t threads[THREADS];
        uint32_t first[THREADS];
        bench_open(v, 70, 0);
        for (uint32_t t = 0; t < THREADS; t++) {
            first[t] = t * 20;
            assert_int_equal(pthread_create(&threads[t], NULL, thread_run, &first[t]), 0);
        }
        for (uint32_t t = 0; t < THREADS; t++) {
            void *wrong;
            pthread_join(threads[t], &wrong);
            assert_null(wrong);
        }
        bench_close();
    }
}

/* Calls of the driver so far, whatever they ask for. */
static uint64_t driver_calls(void)
{
    const weft_fake_control *fake = bench.vendor->fake;
    uint64_t calls = 0;
    const char *symbol;
    for (uint32_t i = 0; (symbol = fake->symbol(i)); i++)
        calls += fake->calls(symbol);
    return calls;
}

/* Work that does not end: nothing waits for ever, and nothing more is asked of the device, not even to take back what
 * is the driver's: that would wait for the work. */
static void device_hangs(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        sums_job jobs[3], more;
        void *memory;
        bench_open(v, 8, 0);
        assert_int_equal(weft_gpu_memory_take(bench.gpu, 4096, false, &memory), WEFT_OK);
        for (uint32_t i = 0; i < 3; i++) {
            jobs[i] = bench_job(i);
            assert_int_equal(weft_gpu_submit(bench.gpu, &sums_writing_kind, &jobs[i]), WEFT_AGAIN);
        }
        bench_begin(&jobs[0]);
        bench.gpu->patience_ns = bench.gpu->hang_ns = 30 * 1000000;
        bench.vendor->fake->stall(true);
        assert_int_equal(bench_poll(&jobs[0]), WEFT_E_DEVICE);
        assert_true(atomic_load(&bench.gpu->hung) && atomic_load(&bench.gpu->lost));
        const uint64_t calls = driver_calls();
        for (uint32_t i = 1; i < 3; i++) {
            assert_int_equal(bench_poll(&jobs[i]), WEFT_E_DEVICE);
            assert_non_null(strstr(weft_last_error(), "does not end"));
        }
        more = bench_job(0);
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &more), WEFT_E_DEVICE);
        assert_non_null(strstr(weft_last_error(), "does not end"));
        weft_gpu_memory_give(bench.gpu, memory);
        weft_gpu_close(bench.gpu);
        assert_int_equal(driver_calls(), calls);
    }
}

/* A kernel that faults: every job ends, with the reason, and so does every later one. */
static void kernel_faults(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        enum { JOBS = 70 };
        static sums_job jobs[JOBS];
        bench_open(v, 9, 0);
        bench.vendor->fake->spoil(v == WORLD_CUDA ? "cuEventQuery" : "hipEventQuery", 3, 700, true);
        for (uint32_t i = 0; i < JOBS; i++) {
            jobs[i] = bench_job(i);
            assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &jobs[i]), WEFT_AGAIN);
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            assert_int_equal(bench_poll(&jobs[i]), WEFT_E_DEVICE);
            assert_non_null(strstr(weft_last_error(), "illegal address (error 700)"));
        }
        assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &jobs[0]), WEFT_E_DEVICE);
        assert_int_equal(bench.vendor->fake->chosen(), v == WORLD_CUDA ? -1 : 0);
        weft_gpu_close(bench.gpu);
    }
}

static void memory_is_counted(void **state)
{
    (void)state;
    void *device, *pinned, *refused = &refused;
    const weft_backend_options little = {0, "auto", 64 * MIB, 0};
    weft_gpu *none = (weft_gpu *)&none;
    bench_open(WORLD_HIP, 10, 512 * MIB);
    assert_int_equal(bench.gpu->device_bytes, 256 * MIB);
    assert_int_equal(weft_gpu_memory_take(bench.gpu, 100 * MIB, false, &device), WEFT_OK);
    assert_int_equal((uintptr_t)device % 4096, 0);
    assert_int_equal(weft_gpu_memory_take(bench.gpu, 200 * MIB, false, &refused), WEFT_E_MEMORY);
    assert_null(refused);
    assert_non_null(strstr(weft_last_error(), "budget"));
    assert_int_equal(weft_gpu_memory_take(bench.gpu, 3 * MIB, true, &pinned), WEFT_OK);
    assert_int_equal((uintptr_t)pinned % 4096, 0);
    memset(pinned, 1, 3 * MIB);
    weft_gpu_memory_give(bench.gpu, device);
    assert_int_equal(bench.gpu->device_bytes, 256 * MIB);
    assert_int_equal(weft_gpu_memory_take(bench.gpu, 200 * MIB, false, &device), WEFT_OK);
    bench_close(); /* gives back what was not */
    assert_int_equal(weft_gpu_open(bench.vendor->driver, &little, &none), WEFT_E_CONFIG);
    assert_null(none);
    assert_int_equal(bench.vendor->fake->live(), 0);
}

static void device_is_full(void **state)
{
    (void)state;
    const weft_backend_options options = {1, "auto", 0, 0};
    for (int v = 0; v < WORLD_VENDORS; v++) {
        weft_gpu *none = (weft_gpu *)&none;
        weft_fake_options narrow = world[v].options;
        world_load(&world[v]);
        narrow.memory_bytes = 300 * MIB;
        world[v].fake->reset(&narrow);
        assert_int_equal(weft_gpu_open(world[v].driver, &options, &none), WEFT_E_MEMORY);
        assert_non_null(strstr(weft_last_error(), "device 1"));
        assert_non_null(strstr(weft_last_error(), "out of memory"));
        assert_null(none);
        assert_int_equal(world[v].fake->live(), 0);
    }
}

static void *elsewhere_check(void *state)
{
    uint64_t there = world[WORLD_CUDA].fake->take(1, 8);
    const char *reason = weft_backend_cuda.check(state, (const void *)(uintptr_t)there, 8);
    world[WORLD_CUDA].fake->give(there);
    return (void *)(reason && strstr(reason, "device 1, not on 0") ? NULL : "reason");
}

/* The reason why an address is refused goes to the thread that asked. */
static void reasons_are_the_threads_own(void **state)
{
    (void)state;
    const weft_backend_options options = {0, "auto", 0, 0};
    weft_backend_state *backend;
    pthread_t other;
    void *wrong;
    world_load(&world[WORLD_CUDA]);
    assert_int_equal(weft_backend_cuda.open(&options, &backend), WEFT_OK);
    const char *reason = weft_backend_cuda.check(backend, &options, sizeof options);
    assert_int_equal(pthread_create(&other, NULL, elsewhere_check, backend), 0);
    assert_int_equal(pthread_join(other, &wrong), 0);
    assert_null(wrong);
    assert_non_null(strstr(reason, "host memory"));
    weft_backend_cuda.close(backend);
}

/* The tests' own proof: host code that touches device memory does not get away with it. */
static void host_keeps_out(void **state)
{
    (void)state;
    bench_open(WORLD_CUDA, 3, 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile uint8_t *)(uintptr_t)bench.there == 0 ? 100 : 101);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_false(WIFEXITED(ended) && (WEXITSTATUS(ended) == 100 || WEXITSTATUS(ended) == 101));
    bench_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_come_out),    cmocka_unit_test(one_job_fails),
        cmocka_unit_test(rooms_are_kept),   cmocka_unit_test(nobody_asks),
        cmocka_unit_test(threads_share),    cmocka_unit_test(device_hangs),
        cmocka_unit_test(kernel_faults),    cmocka_unit_test(memory_is_counted),
        cmocka_unit_test(device_is_full),   cmocka_unit_test(reasons_are_the_threads_own),
        cmocka_unit_test(host_keeps_out),   cmocka_unit_test(slabs_are_filled),
        cmocka_unit_test(waiting_is_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every function of the drivers fails once, at each of its calls: no crash, no wait without end, the right status, and
 * all memory is given back. With WEFT_FULL=1 at every call, else at some eight of each function. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fake_gpu/sums.h"
#include "tests/fake_gpu/world.h"

enum { JOBS = 5, ELEMENTS = 64, FUNCTIONS = 64, CALLS = 8, OUT_OF_MEMORY = 2, UNKNOWN = 999, FAULT = 719 };

static uint32_t elements[ELEMENTS];

/* The worst status of all calls, and whether jobs were reached. */
typedef struct outcome {
    weft_status opened, memory, jobs;
} outcome;

static weft_status job_run(weft_gpu *gpu, sums_job *jobs, uint64_t there)
{
    weft_status worst = WEFT_OK, took[JOBS];
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (sums_job){.data = there, .count = ELEMENTS, .ordered = true};
        took[i] = weft_gpu_submit(gpu, i < 3 ? &sums_kind : &sums_other_kind, &jobs[i]);
    }
    for (int i = 0; i < JOBS; i++) {
        while (took[i] == WEFT_AGAIN)
            took[i] = weft_gpu_poll(gpu, &jobs[i]);
        if (took[i] == WEFT_OK)
            assert_int_equal(jobs[i].sum, sums_expected(elements, ELEMENTS));
        else
            worst = took[i];
    }
    return worst;
}

static outcome run(const world_vendor *vendor)
{
    const weft_backend_options options = {0, "auto", 0, 0};
    weft_gpu *gpu;
    sums_job jobs[JOBS];
    void *device = NULL, *pinned = NULL;
    uint64_t there = vendor->fake->take(0, sizeof elements);
    vendor->fake->write(there, elements, sizeof elements);
    outcome result = {.opened = weft_gpu_open(vendor->driver, &options, &gpu)};
    if (result.opened == WEFT_OK) {
        char text[64];
        gpu->patience_ns = UINT64_C(60000000000);
        result.memory = weft_gpu_memory_take(gpu, 10000, false, &device);
        weft_status other = weft_gpu_memory_take(gpu, 10000, true, &pinned);
        result.memory = result.memory == WEFT_OK ? other : result.memory;
        gpu->driver->reaches(gpu->device, there, sizeof elements, text, sizeof text);
        result.jobs = job_run(gpu, jobs, there);
        weft_gpu_memory_give(gpu, device);
        weft_gpu_close(gpu);
    }
    vendor->fake->give(there);
    return result;
}

/* True if the function gives something back or leads to that. If its one call fails, one thing stays taken. */
static bool gives_back(const char *symbol)
{
    static const char *const rows[] = {"Free",    "Destroy",      "Unload",       "Release",
                                       "CtxPush", "hipGetDevice", "hipSetDevice", "CaptureMode"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strstr(symbol, rows[i]))
            return true;
    }
    return false;
}

static void status_check(weft_status status, int code)
{
    if (status != WEFT_OK && status != WEFT_E_DEVICE)
        assert_int_equal(status, code == OUT_OF_MEMORY ? WEFT_E_MEMORY : WEFT_E_DEVICE);
}

static void failure_check(world_vendor *vendor, const char *symbol, uint64_t nth, int code)
{
    world_reset(vendor, nth);
    vendor->fake->spoil(symbol, nth, code, code == FAULT);
    outcome result = run(vendor);
    if (!vendor->fake->spoiled())
        return; /* as chance has it, there were fewer calls this time */
    if (result.opened != WEFT_E_MISSING)
        status_check(result.opened, code);
    status_check(result.memory, code);
    status_check(result.jobs, code);
    if (code != FAULT)
        assert_in_range(vendor->fake->live(), 0, gives_back(symbol) ? 1 : 0);
    vendor->fake->choose(-1);
}

/* The same again after any failure. */
static void recovery_check(world_vendor *vendor)
{
    world_reset(vendor, 3);
    outcome result = run(vendor);
    assert_int_equal(result.opened, WEFT_OK);
    assert_int_equal(result.memory, WEFT_OK);
    assert_int_equal(result.jobs, WEFT_OK);
    assert_int_equal(vendor->fake->live(), 0);
}

static void functions_fail(world_vendor *vendor)
{
    const char *symbols[FUNCTIONS];
    uint64_t calls[FUNCTIONS];
    uint32_t count = 0;
    vendor->options.open_memory = vendor->options.eager = true;
    world_load(vendor);
    recovery_check(vendor);
    for (; (symbols[count] = vendor->fake->symbol(count)); count++)
        calls[count] = vendor->fake->calls(symbols[count]);
    assert_in_range(count, 20, FUNCTIONS);
    for (uint32_t f = 0; f < count; f++) {
        uint64_t step = getenv("WEFT_FULL") || calls[f] <= CALLS ? 1 : calls[f] / CALLS;
        for (uint64_t nth = 1; nth <= calls[f]; nth += step) {
            failure_check(vendor, symbols[f], nth, OUT_OF_MEMORY);
            failure_check(vendor, symbols[f], nth, UNKNOWN);
            failure_check(vendor, symbols[f], nth, FAULT);
        }
    }
    recovery_check(vendor);
}

static void cuda_functions_fail(void **state)
{
    (void)state;
    functions_fail(&world[WORLD_CUDA]);
}

static void hip_functions_fail(void **state)
{
    (void)state;
    functions_fail(&world[WORLD_HIP]);
}

int main(void)
{
    for (uint32_t i = 0; i < ELEMENTS; i++)
        elements[i] = i * 40503u;
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuda_functions_fail), cmocka_unit_test(hip_functions_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* bench.c - see bench.h. */
#include "tests/fake_gpu/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

bench_state bench;

void bench_open_with(int vendor, const weft_fake_options *fake, uint64_t budget)
{
    const weft_backend_options options = {0, "auto", budget, 0};
    bench.vendor = &world[vendor];
    world_load(bench.vendor);
    bench.vendor->fake->reset(fake);
    bench.vendor->fake->choose(-1);
    for (uint32_t i = 0; i < sizeof bench.elements / sizeof *bench.elements; i++)
        bench.elements[i] = i * 2654435761u + (uint32_t)fake->seed;
    bench.there = bench.vendor->fake->take(0, sizeof bench.elements);
    bench.vendor->fake->write(bench.there, bench.elements, sizeof bench.elements);
    assert_int_equal(weft_gpu_open(bench.vendor->driver, &options, &bench.gpu), WEFT_OK);
}

void bench_open(int vendor, uint64_t seed, uint64_t budget)
{
    weft_fake_options options = world[vendor].options;
    options.seed = seed;
    bench_open_with(vendor, &options, budget);
}

void bench_close(void)
{
    weft_gpu_close(bench.gpu);
    bench.vendor->fake->give(bench.there);
    assert_int_equal(bench.vendor->fake->live(), 0);
    assert_int_equal(bench.vendor->fake->slow_copies(), 0);
    assert_int_equal(bench.vendor->fake->capture_mode(), 0);
}

sums_job bench_job(uint32_t first)
{
    return (sums_job){.data = bench.there + (uint64_t)first * sizeof(uint32_t), .count = BENCH_ELEMENTS};
}

void bench_check(const sums_job *job, uint32_t first)
{
    assert_int_equal(job->sum, sums_expected(bench.elements + first, BENCH_ELEMENTS));
}

void bench_begin(void *job)
{
    const weft_ticket *ticket = job;
    while (bench.gpu->slabs[ticket->batch].stage != WEFT_GPU_RUNNING)
        assert_int_equal(weft_gpu_poll(bench.gpu, job), WEFT_AGAIN);
}

weft_status bench_poll(void *job)
{
    weft_status status;
    do
        status = weft_gpu_poll(bench.gpu, job);
    while (status == WEFT_AGAIN);
    return status;
}

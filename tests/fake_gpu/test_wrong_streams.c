/* A caller's stream that is none of the device's: the job is refused, and nothing else is lost by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/fake_gpu/bench.h"

static void refused(void *stream)
{
    sums_job job = bench_job(0);
    job.ordered = true;
    job.stream = stream;
    assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
    assert_int_equal(bench_poll(&job), WEFT_E_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "no such stream"));
    job.stream = NULL;
    assert_int_equal(weft_gpu_submit(bench.gpu, &sums_kind, &job), WEFT_AGAIN);
    assert_int_equal(bench_poll(&job), WEFT_OK);
    bench_check(&job, 0);
}

static void other_devices(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        bench_open(v, 90 + (uint64_t)v, 0);
        void *stream = bench.vendor->fake->stream_take(1);
        refused(stream);
        bench.vendor->fake->stream_give(stream);
        bench_close();
    }
}

static void given_back(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        bench_open(v, 92 + (uint64_t)v, 0);
        void *stream = bench.vendor->fake->stream_take(0);
        bench.vendor->fake->stream_give(stream);
        refused(stream);
        bench_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_devices),
        cmocka_unit_test(given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* weft bench gpu on a device whose work does not end: it does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/fake_gpu/bench.h"
#include "tools/bench/gpu/inside.h"

static void work_that_does_not_end(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        bench_open(v, 96 + (uint64_t)v, 0);
        const weft_gpu_driver *driver = bench.gpu->driver;
        weft_gpu_device *device = bench.gpu->device;
        weft_bench_gpu rig = {.gpu = bench.gpu};
        assert_int_equal(driver->stream_take(device, false, &rig.stream), WEFT_OK);
        assert_int_equal(driver->mark_take(device, &rig.mark), WEFT_OK);
        assert_int_equal(weft_bench_gpu_settle(&rig), WEFT_OK);
        bench.gpu->patience_ns = 1000;
        bench.vendor->fake->stall(true);
        assert_int_equal(driver->clear(device, rig.stream, bench.there, sizeof bench.elements), WEFT_OK);
        assert_int_equal(weft_bench_gpu_settle(&rig), WEFT_E_DEVICE);
        assert_non_null(strstr(weft_last_error(), "work does not end"));
        assert_true(atomic_load(&bench.gpu->hung));
        bench.vendor->fake->stall(false);
        atomic_store(&bench.gpu->hung, false);
        driver->mark_give(device, rig.mark);
        driver->stream_give(device, rig.stream);
        bench_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(work_that_does_not_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_counts.c - surveys and digests on a device are the host's, whatever memory is cut into, many jobs at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "backends/gpu/gpu.h"
#include "codec/chooser.h"
#include "layout/part.h"
#include "tests/emulation/driver.h"
#include "tests/support/unit_pair.h"

static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F32, WEFT_I8, WEFT_F64};
static const uint64_t sizes[PAIR_TENSORS] = {1, 3, 1, 70001, 5, 2};

static weft_gpu *open_device(uint32_t lanes, uint64_t seed)
{
    const weft_backend_options options = {-1, "auto", 0, 0};
    weft_gpu *gpu;
    weft_emulation_driver_set(lanes, seed);
    assert_int_equal(weft_gpu_open(&weft_emulation_driver, &options, &gpu), WEFT_OK);
    return gpu;
}

static void job_end(weft_gpu *gpu, void *job)
{
    weft_status status;
    while ((status = weft_gpu_poll(gpu, job)) == WEFT_AGAIN)
        ;
    assert_int_equal(status, WEFT_OK);
}

static weft_survey_job survey_job(const unit_pair *pair, const weft_binding *shadow, uint64_t unit,
                                  weft_survey_plan plan, weft_survey *survey)
{
    return (weft_survey_job){.now = weft_binding_view(&pair->target_binding, unit),
                             .shadow = weft_binding_view(shadow, unit),
                             .count = plan.count,
                             .stride = plan.stride,
                             .survey = survey};
}

static void surveys_check(weft_gpu *gpu, const unit_pair *pair, weft_survey_plan plan)
{
    enum { UNITS = 16 };
    static weft_survey wanted, found;
    weft_survey_job jobs[UNITS];
    const uint64_t units = pair->layout->unit_count;
    assert_in_range(units, 1, UNITS);
    memset(&wanted, 0xa5, sizeof wanted);
    memset(&found, 0xa5, sizeof found);
    weft_survey_clear(&wanted);
    weft_survey_clear(&found);
    for (uint64_t u = 0; u < units; u++) {
        weft_survey_job host = survey_job(pair, &pair->base_binding, u, plan, &wanted);
        assert_int_equal(weft_backend_host.survey(pair->state, &host), WEFT_OK);
        jobs[u] = survey_job(pair, &pair->live_binding, u, plan, &found);
        assert_int_equal(weft_gpu_submit(gpu, &weft_gpu_survey, &jobs[u]), WEFT_AGAIN);
    }
    for (uint64_t u = 0; u < units; u++)
        job_end(gpu, &jobs[u]);
    assert_memory_equal(&wanted, &found, sizeof wanted);
}

static void digests_check(weft_gpu *gpu, const unit_pair *pair)
{
    enum { UNITS = 16 };
    uint64_t wanted[PAIR_PARTS] = {0}, found[PAIR_PARTS] = {0};
    weft_digest_job jobs[UNITS];
    const uint64_t units = pair->layout->unit_count;
    for (uint64_t u = 0; u < units; u++) {
        weft_digest_job host = {.view = weft_binding_view(&pair->base_binding, u), .tensor_delta = wanted};
        assert_int_equal(weft_backend_host.digest(pair->state, &host), WEFT_OK);
        jobs[u] = (weft_digest_job){.view = weft_binding_view(&pair->live_binding, u), .tensor_delta = found};
        assert_int_equal(weft_gpu_submit(gpu, &weft_gpu_digest, &jobs[u]), WEFT_AGAIN);
    }
    for (uint64_t u = 0; u < units; u++)
        job_end(gpu, &jobs[u]);
    assert_memory_equal(wanted, found, sizeof wanted);
}

static void counts_are_the_hosts(void **state)
{
    static const weft_survey_plan plans[] = {{256, 256, 1}, {256, 1024, 1}, {256, 25600, 1}, {64, 192, 1}};
    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        unit_pair pair;
        uint64_t random = 31 + d;
        weft_gpu *gpu = open_device(d % 2 ? 64 : 32, 5 + d);
        pair_open(&pair, &random, dtypes[d], sizes, PAIR_TENSORS, "portable");
        pair_change(&pair, &random, 50000, false);
        for (size_t p = 0; p < sizeof plans / sizeof *plans; p++)
            surveys_check(gpu, &pair, plans[p]);
        digests_check(gpu, &pair);
        pair_close(&pair);
        weft_gpu_close(gpu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_the_hosts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

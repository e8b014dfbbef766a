/* both.h - the emulated device and the host's backend beside, whose bytes are the judge of every job. */
#ifndef WEFT_TESTS_BOTH_H
#define WEFT_TESTS_BOTH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backends/gpu/gpu.h"
#include "tests/emulation/driver.h"
#include "tests/support/unit_pair.h"

static weft_gpu *gpu;
static weft_backend_state *host;

static inline int both_open(void **state)
{
    const weft_backend_options device = {.device = -1, .kernels = "auto", .budget_bytes = UINT64_C(24) * 16 << 20},
                               judge = {.device = -1, .kernels = "auto"};
    (void)state;
    return weft_gpu_open(&weft_emulation_driver, &device, &gpu) == WEFT_OK &&
                   weft_backend_host.open(&judge, &host) == WEFT_OK
               ? 0
               : -1;
}

static inline int both_close(void **state)
{
    (void)state;
    weft_gpu_close(gpu);
    weft_backend_host.close(host);
    return 0;
}

static inline void device_wait(weft_status status, void *job)
{
    while (status == WEFT_AGAIN)
        status = weft_gpu_poll(gpu, job);
    if (status != WEFT_OK)
        fail_msg("%s", weft_last_error());
}

/* Both digest all units of these weights. */
static inline void both_digest(const weft_layout *layout, const weft_binding *now)
{
    const uint64_t bytes = (layout->part_count + 1) * sizeof(uint64_t);
    uint64_t *wanted = pair_memory(bytes), *found = pair_memory(bytes);
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        weft_digest_job a = {.view = weft_binding_view(now, u), .tensor_delta = wanted},
                        b = {.view = a.view, .tensor_delta = found};
        assert_int_equal(weft_backend_host.digest(host, &a), WEFT_OK);
        device_wait(weft_gpu_submit(gpu, &weft_gpu_digest, &b), &b);
    }
    assert_memory_equal(wanted, found, bytes);
    free(wanted);
    free(found);
}

/* Both survey all units of these weights and their shadow. */
static inline void both_survey(const weft_layout *layout, const weft_binding *now, const weft_binding *shadow)
{
    weft_survey *counted = pair_memory(2 * sizeof *counted);
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        weft_survey_job job[2];
        for (int i = 0; i < 2; i++)
            job[i] = (weft_survey_job){.now = weft_binding_view(now, u),
                                       .shadow = weft_binding_view(shadow, u),
                                       .count = 128,
                                       .stride = 512,
                                       .survey = &counted[i]};
        assert_int_equal(weft_backend_host.survey(host, &job[0]), WEFT_OK);
        device_wait(weft_gpu_submit(gpu, &weft_gpu_survey, &job[1]), &job[1]);
    }
    assert_memory_equal(&counted[0], &counted[1], sizeof *counted);
    free(counted);
}

#endif

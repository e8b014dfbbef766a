/* Whatever a job is, a slab has room for it with as many runs as the device backends say that a view may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backends/gpu/gpu.h"

#define MIB UINT64_C(1048576)

static weft_run *runs;
static uint64_t most;

static int runs_make(void **state)
{
    (void)state;
    /* the smallest slab */
    weft_gpu gpu = {.slabs[0] = {.device = {.bytes = 48 * MIB}, .pinned = {.bytes = 80 * MIB}}};
    most = weft_gpu_runs(&gpu);
    runs = malloc(most * sizeof *runs);
    for (uint64_t i = 0; runs && i < most; i++)
        runs[i] = (weft_run){.position = (uint32_t)i, .count = 1};
    return runs ? 0 : -1;
}

static int runs_free(void **state)
{
    (void)state;
    free(runs);
    return 0;
}

static void fits(const weft_gpu_kind *kind, const void *job)
{
    const weft_gpu_need batch = kind->need(NULL, NULL), one = kind->need(NULL, job);
    if (batch.device + one.device > 48 * MIB || batch.pinned + one.pinned > 80 * MIB ||
        batch.plain + one.plain > 32 * MIB)
        fail_msg("%s: %.1f MiB of the device, %.1f pinned, %.1f plain", kind->name,
                 (double)(batch.device + one.device) / MIB, (double)(batch.pinned + one.pinned) / MIB,
                 (double)(batch.plain + one.plain) / MIB);
}

static weft_view view_of(uint32_t units, uint8_t width)
{
    return (weft_view){.runs = runs,
                       .run_count = (uint32_t)most,
                       .count = weft_tile_elements(width) * units,
                       .units = units,
                       .width = width,
                       .is_float = width < 8,
                       .exponent_bits = width < 8 ? 8 : 0};
}

static void decode_fits(const weft_view *base)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        weft_changes changes = {0};
        const uint32_t changed = base->units > 1 ? WEFT_FRAME_RUN_CHANGES : base->count;
        const weft_decode_job job = {.frame.header = {.level = (weft_level)level,
                                                      .changed = changed,
                                                      .units = base->units,
                                                      .payload_bytes = (uint32_t)MIB},
                                     .base = *base,
                                     .changes = &changes};
        fits(&weft_gpu_decode, &job);
    }
}

static void every_job_fits(void **state)
{
    (void)state;
    for (unsigned width = 1; width <= 8; width *= 2) {
        for (uint32_t units = 1; units <= 1u << WEFT_RUN_SHIFT_MAX; units *= 64) {
            const weft_view view = view_of(units, (uint8_t)width);
            weft_changes changes = {.count = view.units > 1 ? WEFT_FRAME_RUN_CHANGES : view.count};
            const weft_encode_job encode = {.now = view, .shadow = view, .levels = (1u << WEFT_LEVEL_COUNT) - 1};
            const weft_apply_job apply = {.target = view, .changes = &changes};
            const weft_undo_job undo = {.target = view, .changes = &changes};
            const weft_digest_job digest = {.view = view};
            fits(&weft_gpu_encode, &encode);
            decode_fits(&view);
            fits(&weft_gpu_apply, &apply);
            fits(&weft_gpu_undo, &undo);
            fits(&weft_gpu_digest, &digest);
            if (units > 1)
                continue; /* of one unit at a time */
            const weft_load_job load = {.view = view};
            const weft_store_job store = {.view = view};
            fits(&weft_gpu_load, &load);
            fits(&weft_gpu_store, &store);
        }
    }
}

/* A unit may consist of tensors of one element each, and each of these of its own piece. */
static void any_unit_fits(void **state)
{
    (void)state;
    assert_true(most >= weft_tile_elements(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_job_fits), cmocka_unit_test(any_unit_fits)};
    return cmocka_run_group_tests(tests, runs_make, runs_free);
}

/* test_decode_golden.c - the kernels read the golden frames, good and bad, as the host backend does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/log.h"
#include "tests/emulation/decode_world.h"
#include "tests/support/golden_files.h"

#define BAD_ADMITTED 11u /* whose positions, paddings or base are wrong, not the header or the lists */

/* Base and layout of the golden frames: both tensors begin on 8 bytes. */
typedef struct golden {
    decode_world w;
    uint8_t base[GOLDEN_MOST];
} golden;

static void golden_open(golden *g)
{
    uint8_t bytes[GOLDEN_MOST];
    uint16_t words[GOLDEN_MOST / 2];
    const weft_backend_options options = {.device = -1, .kernels = "portable", .budget_bytes = UINT64_C(512) << 20};
    memset(&g->w, 0, sizeof g->w);
    pair_must(weft_layout_parse(bytes, golden_read("layout_frames.bin", bytes), &g->w.layout), "layout");
    const uint64_t count = golden_read("parameters_frames.bin", bytes) / 2;
    for (uint64_t i = 0; i < count; i++)
        words[i] = (uint16_t)weft_bytes_get(bytes + 2 * i, 2);
    pair_must(weft_parameters_read(words, (uint32_t)count, &g->w.parameters), "parameters");
    golden_read("base_frames.bin", g->base);
    const weft_layout_entry *entries = g->w.layout->entries;
    const weft_piece pieces[] = {{0, 0, entries[0].elements, g->base},
                                 {1, 0, entries[1].elements, g->base + entries[0].bytes}};
    pair_must(weft_binding_open(g->w.layout, pieces, 2, &g->w.weights), "binding");
    pair_must(weft_backend_host.open(&options, &g->w.host), "host");
    pair_must(weft_gpu_open(&weft_emulation_driver, &options, &g->w.gpu), "gpu");
}

static void golden_close(golden *g)
{
    weft_gpu_close(g->w.gpu);
    weft_backend_host.close(g->w.host);
    weft_binding_close(&g->w.weights);
    weft_layout_free(g->w.layout);
}

/* True if admission accepts the frame, so that a kernel reads it. */
static bool frame_check(golden *g, const char *name, weft_status wanted)
{
    uint8_t bytes[GOLDEN_MOST];
    const uint64_t length = golden_read(name, bytes);
    uint8_t *exact = pair_memory(length);
    weft_frame frame;
    decode_case c;
    memcpy(exact, bytes, length);
    if (weft_frame_admit(g->w.layout, exact, length, &frame) != WEFT_OK) {
        assert_int_equal(wanted, WEFT_E_CORRUPT);
        free(exact);
        return false;
    }
    g->w.row = weft_dtype_find(frame.header.unit == 0 ? WEFT_BF16 : WEFT_F32);
    assert_true(case_open(&g->w, &c, exact, length, 0));
    cases_decode(&g->w, &c, 1);
    case_agrees(&g->w, &c);
    if (c.gpu.status != wanted)
        fail_msg("%s: %s", name, weft_status_name(c.gpu.status));
    case_close(&c);
    return true;
}

static void golden_frames_are_judged_alike(void **state)
{
    (void)state;
    static golden g;
    golden_open(&g);
    for (uint32_t lanes = 32; lanes <= 64; lanes += 32) {
        uint32_t bad = 0;
        weft_emulation_driver_set(lanes, lanes);
        for (size_t i = 0; i < golden_good_count; i++)
            assert_true(frame_check(&g, golden_good_rows[i].file, WEFT_OK));
        for (size_t i = 0; i < golden_bad_count; i++)
            bad += frame_check(&g, golden_bad_rows[i].file, golden_bad_rows[i].status);
        assert_int_equal(bad, BAD_ADMITTED);
    }
    golden_close(&g);
}

int main(void)
{
    weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    weft_log_enter(&quiet);
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden_frames_are_judged_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

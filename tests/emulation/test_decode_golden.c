/* test_decode_golden.c - the kernels read the golden frames, good and bad, as the host backend does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>

#include "bytes.h"
#include "log.h"
#include "tests/emulation/decode_world.h"

#define MOST 4096u

static void path_of(const char *file, char path[512])
{
    const char *source = getenv("WEFT_SOURCE");
    snprintf(path, 512, "%s/tests/golden/%s", source && source[0] ? source : ".", file);
}

static uint64_t file_read(const char *name, uint8_t *bytes)
{
    char path[512];
    path_of(name, path);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    uint64_t count = fread(bytes, 1, MOST, file);
    fclose(file);
    return count;
}

/* Base and layout of the golden frames: both tensors begin on 8 bytes. */
typedef struct golden {
    decode_world w;
    uint8_t base[MOST];
} golden;

static void golden_open(golden *g)
{
    uint8_t bytes[MOST];
    uint16_t words[MOST / 2];
    const weft_backend_options options = {.device = -1, .kernels = "portable", .budget_bytes = UINT64_C(512) << 20};
    memset(&g->w, 0, sizeof g->w);
    pair_must(weft_layout_parse(bytes, file_read("layout_frames.bin", bytes), &g->w.layout), "layout");
    const uint64_t count = file_read("parameters_frames.bin", bytes) / 2;
    for (uint64_t i = 0; i < count; i++)
        words[i] = (uint16_t)weft_bytes_get(bytes + 2 * i, 2);
    pair_must(weft_parameters_read(words, (uint32_t)count, &g->w.parameters), "parameters");
    file_read("base_frames.bin", g->base);
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

/* Frames of this layout: single ones, and bad ones that are not byte planes. */
static bool is_frame(const char *name)
{
    static const char *const good[] = {"full.bin",     "pairs.bin", "fast.bin",
                                       "fast_f32.bin", "tight.bin", "tight_f32.bin"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (strcmp(name, good[i]) == 0)
            return true;
    }
    return strncmp(name, "bad_", 4) == 0 && strncmp(name, "bad_planes", 10) != 0;
}

static weft_status wanted_status(const char *name)
{
    if (strncmp(name, "bad_base_", 9) == 0)
        return WEFT_E_BASE;
    return strncmp(name, "bad_", 4) == 0 ? WEFT_E_CORRUPT : WEFT_OK;
}

static void frame_check(golden *g, const char *name, uint32_t *read)
{
    uint8_t *bytes = pair_memory(MOST), *exact;
    const uint64_t length = file_read(name, bytes);
    weft_frame frame;
    exact = pair_memory(length);
    memcpy(exact, bytes, length);
    free(bytes);
    decode_case c;
    if (weft_frame_admit(g->w.layout, exact, length, &frame) != WEFT_OK) {
        assert_int_equal(wanted_status(name), WEFT_E_CORRUPT);
        free(exact);
        return;
    }
    g->w.row = weft_dtype_find(frame.header.unit == 0 ? WEFT_BF16 : WEFT_F32);
    assert_true(case_open(&g->w, &c, exact, length, 0));
    cases_decode(&g->w, &c, 1);
    case_agrees(&g->w, &c);
    if (c.gpu.status != wanted_status(name))
        fail_msg("%s: %s", name, weft_status_name(c.gpu.status));
    case_close(&c);
    ++*read;
}

static void golden_frames_are_judged_alike(void **state)
{
    (void)state;
    static golden g;
    char path[512];
    path_of(".", path);
    golden_open(&g);
    for (uint32_t lanes = 32; lanes <= 64; lanes += 32) {
        uint32_t read = 0;
        DIR *folder = opendir(path);
        assert_non_null(folder);
        weft_emulation_driver_set(lanes, lanes);
        for (struct dirent *entry; (entry = readdir(folder));) {
            if (is_frame(entry->d_name))
                frame_check(&g, entry->d_name, &read);
        }
        closedir(folder);
        assert_true(read >= 15); /* what admission lets pass */
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

/* Every level, dtype and density through update files: the bits come out, and the file is never larger than the dense
 * weights and a thousandth.
 *
 * Exactly: U units make full frames of F bytes in all (16 of header and the unit's bytes, padded to 4). Then a file has
 * at most F + 8 * U + S + 624 bytes: a check for each frame, the shape S, and header, parameters, padding, tail and
 * trailer. S is at most F / 1024, or the grid. A unit of a model that is not tiny has 256 KiB or more, of which 16 + 3
 * + 8 bytes are a ten-thousandth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/memory_file.h"
#include "tests/support/unit_pair.h"
#include "update/update_format.h"
#include "update/update_names.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define DTYPES   20
#define TENSORS  6
#define FEW      4000u

static const char *const levels[] = {"full", "pairs", "fast", "tight"};

/* Base, target and the weights that are moved, tensors back to back. */
typedef struct weights {
    weft_layout *layout;
    uint8_t *base, *target, *live;
    weft_piece from[TENSORS], to[TENSORS], moved[TENSORS];
    memory_file file;
    uint64_t seed;
} weights;

/* An empty tensor, odd ones, a scalar, one element, and one of `last` elements; of packed dtypes groups of elements. */
static void weights_open(weights *w, weft_dtype dtype, uint64_t last, uint64_t seed)
{
    const weft_dtype_row *row = weft_dtype_find(dtype);
    const uint64_t group = row->bits < 8 ? PAIR_PACKED : 1;
    const uint64_t shapes[TENSORS][2] = {{7, 100 * group}, {0, 5}, {group, 1}, {group, 1}, {last * group, 1}, {31, 33}};
    const uint32_t ranks[TENSORS] = {2, 2, 1, group > 1, 1, group > 1 ? 0 : 2};
    weft_tensor tensors[TENSORS];
    uint64_t count = group > 1 ? TENSORS - 1 : TENSORS;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    *w = (weights){.seed = seed};
    for (uint64_t t = 0; t < count; t++)
        tensors[t] = (weft_tensor){names[t], dtype, ranks[t], shapes[t]};
    pair_must(weft_layout_create(tensors, count, &w->layout), "layout");
    w->base = pair_memory(w->layout->bytes);
    w->target = pair_memory(w->layout->bytes);
    w->live = pair_memory(w->layout->bytes);
    for (uint64_t i = 0; i < w->layout->elements; i++)
        pair_put(w->base, i, pair_bits(&w->seed, row), row->width);
    for (uint64_t t = 0; t < count; t++) {
        const weft_layout_entry *entry = &w->layout->entries[t];
        w->from[t] = (weft_piece){t, 0, entry->elements, w->base + entry->offset};
        w->to[t] = (weft_piece){t, 0, entry->elements, w->target + entry->offset};
        w->moved[t] = (weft_piece){t, 0, entry->elements, w->live + entry->offset};
    }
}

static void weights_close(weights *w)
{
    weft_layout_free(w->layout);
    free(w->base);
    free(w->target);
    free(w->live);
    memory_free(&w->file);
}

/* The difference between target and base. */
typedef struct change {
    uint32_t per_million; /* of the elements */
    enum { BY_STEPS, BY_ANY, ONE_ELEMENT } how;
} change;

/* Returns how many elements differ. */
static uint64_t target_make(weights *w, change change)
{
    const uint8_t width = w->layout->units[0].width;
    const uint64_t all = UINT64_MAX >> (64 - 8 * width), one = pair_below(&w->seed, w->layout->elements);
    uint64_t changed = 0;
    memcpy(w->target, w->base, w->layout->bytes);
    for (uint64_t i = 0; i < w->layout->elements; i++) {
        if (change.how == ONE_ELEMENT ? i != one : pair_below(&w->seed, 1000000) >= change.per_million)
            continue;
        uint64_t bits = pair_get(w->base, i, width), other = pair_random(&w->seed) & all;
        if (change.how != BY_ANY)
            other = (bits + (pair_below(&w->seed, 9) ? 1 : 5) * (pair_below(&w->seed, 2) ? 1 : all)) & all;
        other = other == bits ? bits ^ 1 : other;
        pair_put(w->target, i, other, width);
        changed++;
    }
    return changed;
}

static weft_status diff(weights *w, const char *level, uint32_t threads, weft_update_info *info)
{
    weft_diff_options options = {.size = sizeof options, .level = level, .target.number = 1};
    weft_work work = {.size = sizeof work, .threads = threads};
    weft_sink sink = memory_sink(&w->file);
    *info = (weft_update_info){.size = sizeof *info};
    w->file.bytes = 0;
    return weft_diff(w->layout, w->from, w->layout->count, w->to, w->layout->count, &options, &work, &sink, info);
}

/* Returns the most bytes that a file may have. */
static uint64_t bound(const weft_layout *layout)
{
    uint64_t frames = 0, names;
    uint8_t *bytes = NULL;
    for (uint64_t u = 0; u < layout->unit_count; u++)
        frames += WEFT_FRAME_HEADER_BYTES + weft_frame_full_payload(layout->units[u].count, layout->units[u].width);
    pair_must(weft_update_names_write(layout, &bytes, &names), "names");
    weft_mem_give(bytes);
    return frames + 8 * layout->unit_count + names + WEFT_HEAD_MAX + WEFT_TAIL_BYTES + WEFT_UPDATE_TRAILER_BYTES;
}

static void there(weights *w, const char *level, uint64_t changed, uint32_t threads)
{
    weft_update_info info;
    weft_update_file *file;
    weft_work work = {.size = sizeof work, .threads = threads};
    pair_must(diff(w, level, 1, &info), level);
    assert_int_equal(info.changed, changed);
    assert_true(info.bytes <= bound(w->layout));
    weft_source source = memory_source(&w->file);
    pair_must(weft_update_open(NULL, &source, &file), "open");
    memcpy(w->live, w->base, w->layout->bytes);
    pair_must(weft_update_apply(file, w->layout, w->moved, w->layout->count, &work, NULL), "apply");
    weft_update_close(file);
    assert_memory_equal(w->live, w->target, w->layout->bytes);
}

/* 900,000 per million: lists of level tight are of what did not change. */
static const change changes[] = {{0, BY_STEPS},      {0, ONE_ELEMENT},    {300, BY_STEPS},    {12000, BY_STEPS},
                                 {12000, BY_ANY},    {100000, BY_STEPS},  {500000, BY_STEPS}, {500000, BY_ANY},
                                 {900000, BY_STEPS}, {1000000, BY_STEPS}, {1000000, BY_ANY}};

static void every_dtype_and_density(void **state)
{
    (void)state;
    for (int dtype = 1; dtype <= DTYPES; dtype++) {
        weights w;
        weights_open(&w, (weft_dtype)dtype, FEW, (uint64_t)dtype);
        for (size_t c = 0; c < COUNT(changes); c++) {
            if (dtype != WEFT_BF16 && (c + (size_t)dtype) % 3)
                continue; /* each of the others meets a third of them */
            uint64_t changed = target_make(&w, changes[c]);
            for (size_t l = 0; l < COUNT(levels); l++)
                there(&w, levels[l], changed, 1 + (uint32_t)c % 2);
        }
        weights_close(&w);
    }
}

/* Every byte becomes every other. */
static void every_pattern_of_a_byte(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_U8, WEFT_F8_E4M3, WEFT_F8_E5M2, WEFT_F6_E2M3};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        weights w;
        weights_open(&w, dtypes[d], 1 << 16, 1);
        for (uint64_t i = 0; i < w.layout->elements; i++) {
            w.base[i] = (uint8_t)i;
            w.target[i] = (uint8_t)(i >> 8);
        }
        uint64_t changed = 0;
        for (uint64_t i = 0; i < w.layout->elements; i++)
            changed += w.base[i] != w.target[i];
        for (size_t l = 0; l < COUNT(levels); l++)
            there(&w, levels[l], changed, 1);
        weights_close(&w);
    }
}

/* The same file for any number of threads and every kernel set of this CPU. */
static void threads_and_kernels_make_the_same_file(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 5};
    static const char *const sets[] = {"portable", "avx2", "avx512"};
    const char *given = getenv("WEFT_KERNELS");
    char kept[32];
    snprintf(kept, sizeof kept, "%s", given ? given : "");
    for (int dtype = 1; dtype <= DTYPES; dtype++) {
        weights w;
        weft_update_info info;
        weights_open(&w, (weft_dtype)dtype, FEW, 100 + (uint64_t)dtype);
        target_make(&w, changes[3 + dtype % 3]);
        for (size_t l = 0; l < COUNT(levels); l++) {
            unsetenv("WEFT_KERNELS");
            pair_must(diff(&w, levels[l], 1, &info), levels[l]);
            memory_file first = w.file;
            w.file = (memory_file){0};
            for (size_t s = 0; s < COUNT(sets); s++) {
                setenv("WEFT_KERNELS", sets[s], 1);
                if (diff(&w, levels[l], threads[(s + (size_t)dtype) % COUNT(threads)], &info) == WEFT_E_MISSING)
                    continue; /* not on this CPU */
                assert_int_equal(w.file.bytes, first.bytes);
                assert_memory_equal(w.file.data, first.data, first.bytes);
            }
            memory_free(&first);
        }
        weights_close(&w);
    }
    if (given)
        setenv("WEFT_KERNELS", kept, 1);
    else
        unsetenv("WEFT_KERNELS");
}

/* Noise over noise, all of it changed: what no coding makes smaller costs a thousandth more. */
static void dense_changes_cost_a_thousandth_more(void **state)
{
    (void)state;
    static const struct {
        weft_dtype dtype;
        change change;
    } cases[] = {{WEFT_U8, {300000, BY_ANY}}, {WEFT_U8, {1000000, BY_ANY}}, {WEFT_BF16, {950000, BY_ANY}}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        weights w;
        weights_open(&w, cases[c].dtype, weft_tile_elements(2) + 301, c);
        for (uint64_t i = 0; i < w.layout->bytes; i++)
            w.base[i] = (uint8_t)pair_random(&w.seed);
        uint64_t changed = target_make(&w, cases[c].change);
        for (size_t l = 0; l < COUNT(levels); l++) {
            there(&w, levels[l], changed, 1);
            assert_true(w.file.bytes <= w.layout->bytes + w.layout->bytes / 1000 + 700);
        }
        weights_close(&w);
    }
}

/* Nothing at all, and tensors without elements. */
static void layouts_without_elements(void **state)
{
    (void)state;
    static const uint64_t none[] = {0, 3};
    const weft_tensor tensors[] = {{"a", WEFT_BF16, 2, none}, {"b", WEFT_F64, 1, none}};
    const weft_piece pieces[] = {{0, 0, 0, NULL}, {1, 0, 0, NULL}};
    for (uint64_t count = 0; count <= 2; count += 2) {
        for (size_t l = 0; l < COUNT(levels); l++) {
            weft_layout *layout;
            weft_update_file *update;
            memory_file file = {0};
            weft_sink sink = memory_sink(&file);
            weft_diff_options options = {.size = sizeof options, .level = levels[l], .target.number = 1};
            pair_must(weft_layout_create(tensors, count, &layout), "layout");
            pair_must(weft_diff(layout, pieces, count, pieces, count, &options, NULL, &sink, NULL), "diff");
            assert_true(file.bytes <= bound(layout));
            weft_source source = memory_source(&file);
            pair_must(weft_update_open(NULL, &source, &update), "open");
            pair_must(weft_update_apply(update, layout, pieces, count, NULL, NULL), "apply");
            weft_update_close(update);
            memory_free(&file);
            weft_layout_free(layout);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_and_density),
        cmocka_unit_test(every_pattern_of_a_byte),
        cmocka_unit_test(threads_and_kernels_make_the_same_file),
        cmocka_unit_test(dense_changes_cost_a_thousandth_more),
        cmocka_unit_test(layouts_without_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

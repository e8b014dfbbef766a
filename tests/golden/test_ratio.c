/* Exact sizes of updates between generated models, held against bench/ratio.csv: a change of the codec that costs bytes
 * fails here, one that saves some as well, until the table is written anew:
 *
 *   WEFT_RATIO_WRITE=1 ./test_golden_ratio
 *
 * The table counts frames alone: what stands around them in a file may be packed by zstd, whose versions differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layout/digest.h"
#include "layout/layout.h"
#include "model/synth.h"
#include "tests/support/memory_file.h"

#define SMALL      300000
#define LARGE      3000000
#define ROWS_MAX   128
#define LINE_BYTES 160
#define TITLE      "seed,elements,dtype,permille_changed,level,changed,frames,frame_bytes,bits_per_change\n"

static const char *const levels[] = {"tight", "fast", "pairs"};

/* Weights that are measured: bf16 as a made-up transformer with the exponents and steps of a real one, other dtypes as
 * one tensor of random bits in which any element may change. */
typedef struct model_case {
    weft_dtype dtype;
    uint64_t elements;
    double share;
} model_case;

static const model_case cases[] = {
    {WEFT_BF16, SMALL, 0.0117},    {WEFT_BF16, LARGE, 0.00117}, {WEFT_BF16, LARGE, 0.00346}, {WEFT_BF16, LARGE, 0.0117},
    {WEFT_BF16, LARGE, 0.031},     {WEFT_BF16, LARGE, 0.0789},  {WEFT_BF16, LARGE, 0.3},     {WEFT_F16, SMALL, 0.0117},
    {WEFT_F8_E4M3, SMALL, 0.0117}, {WEFT_F32, SMALL, 0.0117},   {WEFT_F64, SMALL, 0.0117},   {WEFT_I16, SMALL, 0.0117},
};
#define CASES (sizeof cases / sizeof *cases)

typedef struct table {
    char rows[ROWS_MAX][LINE_BYTES];
    size_t count;
} table;

/* ---- models */

static weft_model *model_made(const model_case *c, uint64_t seed)
{
    weft_model *model = NULL;
    if (c->dtype == WEFT_BF16) {
        assert_int_equal(weft_synth_model(c->elements, seed, &model), WEFT_OK);
        return model;
    }
    weft_tensor tensor = {"weights", c->dtype, 1, &c->elements};
    weft_layout *layout;
    assert_int_equal(weft_layout_create(&tensor, 1, &layout), WEFT_OK);
    assert_int_equal(weft_model_create(layout, &model), WEFT_OK);
    uint64_t count, bytes = weft_layout_bytes(layout);
    uint8_t *data = weft_model_pieces(model, &count)->data;
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)weft_mix64(seed + i * WEFT_PHI);
    weft_layout_free(layout);
    return model;
}

/* ---- one row */

static void row_add(table *table, const model_case *c, uint64_t seed, const char *level, const weft_model *base,
                    const weft_model *target)
{
    memory_file file = {0};
    weft_sink sink = memory_sink(&file);
    weft_source source;
    weft_update_file *update;
    weft_update_header header = {.size = sizeof header};
    weft_update_info info = {.size = sizeof info};
    weft_diff_options options = {.size = sizeof options, .level = level, .target.number = 1};
    uint64_t bases, targets;
    const weft_piece *from = weft_model_pieces(base, &bases), *to = weft_model_pieces(target, &targets);
    assert_int_equal(weft_diff(weft_model_layout(base), from, bases, to, targets, &options, NULL, &sink, &info),
                     WEFT_OK);
    source = memory_source(&file);
    assert_int_equal(weft_update_open(NULL, &source, &update), WEFT_OK);
    assert_int_equal(weft_update_describe(update, &header), WEFT_OK);
    assert_int_equal(header.changed, info.changed);
    assert_int_equal(header.bytes, info.bytes);
    assert_true(table->count < ROWS_MAX);
    snprintf(table->rows[table->count++], LINE_BYTES, "%llu,%llu,%s,%g,%s,%llu,%llu,%llu,%.3f\n",
             (unsigned long long)seed, (unsigned long long)header.elements, weft_dtype_find(c->dtype)->name,
             1000 * c->share, level, (unsigned long long)header.changed, (unsigned long long)header.frames,
             (unsigned long long)header.frame_bytes, 8.0 * (double)header.frame_bytes / (double)header.changed);
    weft_update_close(update);
    memory_free(&file);
}

static table table_make(void)
{
    table table = {.count = 0};
    for (uint64_t i = 0; i < CASES; i++) {
        uint64_t seed = i + 1;
        weft_model *base = model_made(&cases[i], seed), *target = model_made(&cases[i], seed);
        assert_int_equal(weft_synth_step(target, cases[i].share, seed, NULL), WEFT_OK);
        for (size_t level = 0; level < sizeof levels / sizeof *levels; level++)
            row_add(&table, &cases[i], seed, levels[level], base, target);
        weft_model_close(target);
        weft_model_close(base);
    }
    return table;
}

/* ---- the file */

static FILE *csv_open(const char *mode)
{
    const char *source = getenv("WEFT_SOURCE");
    char path[1024];
    snprintf(path, sizeof path, "%s/bench/ratio.csv", source ? source : ".");
    FILE *file = fopen(path, mode);
    if (!file)
        fail_msg("%s cannot be opened", path);
    return file;
}

static void csv_write(const table *table)
{
    FILE *file = csv_open("w");
    fputs(TITLE, file);
    for (size_t i = 0; i < table->count; i++)
        fputs(table->rows[i], file);
    assert_int_equal(fclose(file), 0);
}

static void sizes_are_those_of_the_table(void **state)
{
    (void)state;
    const table table = table_make();
    const char *write = getenv("WEFT_RATIO_WRITE");
    if (write && *write)
        csv_write(&table);
    FILE *file = csv_open("r");
    char line[LINE_BYTES];
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, TITLE);
    size_t wrong = 0;
    for (size_t i = 0; i < table.count; i++) {
        if (fgets(line, sizeof line, file) && strcmp(line, table.rows[i]) == 0)
            continue;
        print_error("bench/ratio.csv: %snow:             %s", line, table.rows[i]);
        wrong++;
    }
    bool more = fgets(line, sizeof line, file);
    fclose(file);
    assert_false(more);
    if (wrong)
        fail_msg("%zu sizes differ from bench/ratio.csv; if that is meant, write it anew with WEFT_RATIO_WRITE=1",
                 wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes_are_those_of_the_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Update files and stores, for weights whose tensors have another order than the files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/memory_file.h"

#define SHAPE(...)                                                                                                     \
    (const uint64_t[])                                                                                                 \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define RUN 0x1234500000000001u

enum { COUNT = 3, ELEMENTS = 600 };

static const weft_tensor tensors[COUNT] = {
    {"embed", WEFT_U16, 2, SHAPE(30, 20)}, {"norm", WEFT_U16, 1, SHAPE(7)}, {"head", WEFT_U16, 2, SHAPE(10, 20)}};
static const uint64_t sizes[COUNT] = {600, 7, 200};

/* Weights, and pieces of them in the order of the files and in another. */
typedef struct weights {
    uint16_t bits[COUNT][ELEMENTS];
    weft_piece pieces[COUNT], others[COUNT];
} weights;

static weft_layout *layout, *other;
static weights base, target;
static memory_file file;

static void fill(weights *w, uint16_t seed)
{
    static const uint64_t places[COUNT] = {2, 0, 1}; /* number of each tensor in the other order */
    for (uint64_t t = 0; t < COUNT; t++) {
        for (uint64_t i = 0; i < sizes[t]; i++)
            w->bits[t][i] = (uint16_t)(1000 * t + i + (i % 5 == 0 ? seed : 0));
        w->pieces[t] = (weft_piece){t, 0, sizes[t], w->bits[t]};
        w->others[places[t]] = (weft_piece){places[t], 0, sizes[t], w->bits[t]};
    }
}

static int setup(void **state)
{
    const weft_tensor shuffled[COUNT] = {tensors[1], tensors[2], tensors[0]};
    (void)state;
    fill(&base, 0);
    fill(&target, 9);
    memset(&file, 0, sizeof file);
    assert_int_equal(weft_layout_create(tensors, COUNT, &layout), WEFT_OK);
    assert_int_equal(weft_layout_create(shuffled, COUNT, &other), WEFT_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    memory_free(&file);
    weft_layout_free(other);
    weft_layout_free(layout);
    return 0;
}

static weft_update_file *diff_made(const char *names)
{
    const weft_diff_options options = {.size = sizeof options, .names = names};
    const weft_sink sink = memory_sink(&file);
    weft_update_file *update = NULL;
    assert_int_equal(weft_diff(layout, base.pieces, COUNT, target.pieces, COUNT, &options, NULL, &sink, NULL), WEFT_OK);
    const weft_source source = memory_source(&file);
    assert_int_equal(weft_update_open(NULL, &source, &update), WEFT_OK);
    return update;
}

static void is_refused(weft_status status, const char *words)
{
    assert_int_equal(status, WEFT_E_LAYOUT);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static void an_update_is_applied_in_another_order(void **state)
{
    weft_apply_info info = {.size = sizeof info};
    memory_file out = {0};
    const weft_sink sink = memory_sink(&out);
    (void)state;
    weft_update_file *update = diff_made(NULL);
    is_refused(weft_update_rewrite(update, other, base.others, COUNT, NULL, &sink, NULL), "in another order");
    assert_int_equal(weft_update_apply(update, other, base.others, COUNT, NULL, &info), WEFT_OK);
    assert_memory_equal(base.bits, target.bits, sizeof base.bits);
    assert_int_equal(weft_update_apply(update, other, base.others, COUNT, NULL, NULL), WEFT_E_BASE);
    weft_update_close(update);
    memory_free(&out);
}

static void without_names_nothing_is_matched(void **state)
{
    const weights before = base;
    (void)state;
    weft_update_file *update = diff_made("never");
    is_refused(weft_update_apply(update, other, base.others, COUNT, NULL, NULL), "cannot be matched without names");
    assert_memory_equal(base.bits, before.bits, sizeof base.bits);
    assert_int_equal(weft_update_apply(update, layout, base.pieces, COUNT, NULL, NULL), WEFT_OK);
    assert_memory_equal(base.bits, target.bits, sizeof base.bits);
    weft_update_close(update);
}

static void other_tensors_are_named(void **state)
{
    weft_tensor changed[COUNT] = {tensors[0], tensors[1], tensors[2]};
    weft_layout *wrong = NULL;
    (void)state;
    changed[2].dtype = WEFT_BF16;
    assert_int_equal(weft_layout_create(changed, COUNT, &wrong), WEFT_OK);
    weft_update_file *update = diff_made(NULL);
    is_refused(weft_update_apply(update, wrong, base.pieces, COUNT, NULL, NULL),
               "'head' is BF16 in the weights and U16 in the update");
    weft_update_close(update);
    weft_layout_free(wrong);
}

/* The store goes on in its first order, whatever order writes to it or reads it. */
static void a_store_takes_and_gives_any_order(void **state)
{
    const weft_store_options options = {.size = sizeof options, .create = 1};
    weft_store_put_options first = {.size = sizeof first, .target = {RUN, 1, 0}};
    weft_store_put_options second = {.size = sizeof second, .base = {RUN, 1, 0}, .target = {RUN, 2, 0}};
    char folder[256];
    weights read = {0};
    weft_store *store = NULL;
    weft_store_info info = {.size = sizeof info};
    (void)state;
    folder_open(folder, sizeof folder);
    assert_int_equal(weft_store_open(folder, &options, &store), WEFT_OK);
    assert_int_equal(weft_store_put(store, layout, NULL, 0, base.pieces, COUNT, &first, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_store_put(store, other, base.others, COUNT, target.others, COUNT, &second, NULL, NULL),
                     WEFT_OK);
    fill(&read, 77);
    assert_int_equal(weft_store_apply(store, &second.target, other, read.others, COUNT, NULL, &info), WEFT_OK);
    assert_memory_equal(read.bits, target.bits, sizeof read.bits);
    assert_int_equal(weft_store_apply(store, &first.target, other, read.others, COUNT, NULL, NULL), WEFT_OK);
    assert_memory_equal(read.bits, base.bits, sizeof read.bits);
    assert_int_equal(weft_store_apply(store, &second.target, layout, read.pieces, COUNT, NULL, NULL), WEFT_OK);
    assert_memory_equal(read.bits, target.bits, sizeof read.bits);
    weft_store_close(store);
    folder_close(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_update_is_applied_in_another_order, setup, teardown),
        cmocka_unit_test_setup_teardown(without_names_nothing_is_matched, setup, teardown),
        cmocka_unit_test_setup_teardown(other_tensors_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_store_takes_and_gives_any_order, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

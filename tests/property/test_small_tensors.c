/* Many small tensors cost what one large tensor of the same bits costs: sizes are bounded by what changes, not by how
 * the weights are cut. 20,000 tensors of 900 elements at 1 % changed; and bytes a tile where hardly anything changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "digest.h"
#include "layout.h"
#include "model/synth.h"
#include "tests/support/memory_file.h"

#define TENSORS 20000u
#define EACH    900u
#define ALL     ((uint64_t)TENSORS * EACH)

/* Base and target bits, of which one layout makes one tensor and another many. */
typedef struct weights {
    uint16_t *base, *target;
} weights;

/* Weights of a made-up model, and one step of it: the statistics of training. */
static int weights_make(void **state)
{
    static weights made;
    weft_model *model;
    uint64_t count, at = 0;
    if (weft_synth_model(ALL + ALL / 16, 3, &model) != WEFT_OK)
        return -1;
    const weft_piece *pieces = weft_model_pieces(model, &count);
    made.base = malloc(2 * ALL);
    made.target = malloc(2 * ALL);
    for (int pass = 0; pass < 2; pass++) {
        uint16_t *to = pass ? made.target : made.base;
        at = 0;
        for (uint64_t t = 0; t < count && at < ALL; t++) {
            uint64_t take = pieces[t].count < ALL - at ? pieces[t].count : ALL - at;
            memcpy(to + at, pieces[t].data, 2 * take);
            at += take;
        }
        if (pass == 0 && weft_synth_step(model, 0.01, 3, NULL) != WEFT_OK)
            return -1;
    }
    weft_model_close(model);
    *state = &made;
    return at == ALL ? 0 : -1;
}

static int weights_drop(void **state)
{
    weights *made = *state;
    free(made->base);
    free(made->target);
    return 0;
}

/* The same weights cut into `count` tensors of `each` elements; sizes of the update and of its frames. */
static weft_update_header size_of(const weights *weights, uint64_t count, uint64_t each, const char *level)
{
    weft_tensor *tensors = calloc(count, sizeof *tensors);
    char(*names)[24] = calloc(count, sizeof *names);
    weft_piece *from = calloc(count, sizeof *from), *to = calloc(count, sizeof *to);
    for (uint64_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "w%llu", (unsigned long long)i);
        tensors[i] = (weft_tensor){names[i], WEFT_BF16, 1, &each};
        from[i] = (weft_piece){i, 0, each, weights->base + i * each};
        to[i] = (weft_piece){i, 0, each, weights->target + i * each};
    }
    weft_layout *layout;
    assert_int_equal(weft_layout_create(tensors, count, &layout), WEFT_OK);
    memory_file file = {0};
    weft_sink sink = memory_sink(&file);
    weft_diff_options options = {.size = sizeof options, .level = level, .target.number = 1};
    weft_update_file *update;
    weft_update_header header = {.size = sizeof header};
    assert_int_equal(weft_diff(layout, from, count, to, count, &options, NULL, &sink, NULL), WEFT_OK);
    weft_source source = memory_source(&file);
    assert_int_equal(weft_update_open(&source, &update), WEFT_OK);
    assert_int_equal(weft_update_describe(update, &header), WEFT_OK);
    weft_update_close(update);
    memory_free(&file);
    weft_layout_free(layout);
    free(to);
    free(from);
    free(names);
    free(tensors);
    return header;
}

static void compare(const weights *weights, const char *level)
{
    weft_update_header one = size_of(weights, 1, ALL, level), many = size_of(weights, TENSORS, EACH, level);
    print_message("%s: one tensor %llu bytes (%llu of frames), %u tensors %llu (%llu): %.4f\n", level,
                  (unsigned long long)one.bytes, (unsigned long long)one.frame_bytes, TENSORS,
                  (unsigned long long)many.bytes, (unsigned long long)many.frame_bytes,
                  (double)many.bytes / (double)one.bytes);
    assert_int_equal(one.changed, many.changed);
    assert_in_range(one.changed, ALL / 120, ALL / 80); /* about 1 % */
    if (10 * many.bytes > 11 * one.bytes)
        fail_msg("%u tensors cost %llu bytes, one %llu: more than 1.1 times", TENSORS, (unsigned long long)many.bytes,
                 (unsigned long long)one.bytes);
}

static void tight_does_not_mind(void **state)
{
    compare(*state, "tight");
}

static void fast_does_not_mind(void **state)
{
    compare(*state, "fast");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tight_does_not_mind),
        cmocka_unit_test(fast_does_not_mind),
    };
    return cmocka_run_group_tests(tests, weights_make, weights_drop);
}

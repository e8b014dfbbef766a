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

#include "layout/digest.h"
#include "layout/layout.h"
#include "model/synth.h"
#include "tests/support/encode_pass.h"
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

/* The same weights cut into tensors, and bound. */
typedef struct cut {
    weft_layout *layout;
    weft_tensor *tensors;
    char (*names)[24];
    weft_piece *from, *to;
    uint64_t count, each;
} cut;

static cut cut_make(const weights *weights, uint64_t count, uint64_t each)
{
    cut made = {.count = count, .each = each};
    made.tensors = calloc(count, sizeof *made.tensors);
    made.names = calloc(count, sizeof *made.names);
    made.from = calloc(count, sizeof *made.from);
    made.to = calloc(count, sizeof *made.to);
    for (uint64_t i = 0; i < count; i++) {
        snprintf(made.names[i], sizeof made.names[i], "w%llu", (unsigned long long)i);
        made.tensors[i] = (weft_tensor){made.names[i], WEFT_BF16, 1, &each};
        made.from[i] = (weft_piece){i, 0, each, weights->base + i * each};
        made.to[i] = (weft_piece){i, 0, each, weights->target + i * each};
    }
    assert_int_equal(weft_layout_create(made.tensors, count, &made.layout), WEFT_OK);
    return made;
}

static void cut_free(cut *made)
{
    weft_layout_free(made->layout);
    free(made->to);
    free(made->from);
    free(made->names);
    free(made->tensors);
}

/* Sizes of the update and of its frames. */
static weft_update_header size_of(const weights *weights, uint64_t count, uint64_t each, const char *level)
{
    cut made = cut_make(weights, count, each);
    memory_file file = {0};
    weft_sink sink = memory_sink(&file);
    weft_diff_options options = {.size = sizeof options, .level = level, .target.number = 1};
    weft_update_file *update;
    weft_update_header header = {.size = sizeof header};
    assert_int_equal(weft_diff(made.layout, made.from, count, made.to, count, &options, NULL, &sink, NULL), WEFT_OK);
    weft_source source = memory_source(&file);
    assert_int_equal(weft_update_open(NULL, &source, &update), WEFT_OK);
    assert_int_equal(weft_update_describe(update, &header), WEFT_OK);
    weft_update_close(update);
    memory_free(&file);
    cut_free(&made);
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
    assert_int_equal(one.frames, many.frames);
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

/* Jobs of encoding and frames at both levels, with runs of four units. */
static void work_of(const weights *weights, uint64_t count, uint64_t each, uint64_t *jobs, uint64_t *frames)
{
    cut made = cut_make(weights, count, each);
    weft_binding now, shadow;
    encode_result result;
    const weft_parameters parameters = {.run_shift = 2};
    const uint32_t levels = 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_TIGHT;
    uint64_t *delta = calloc(made.layout->part_count, sizeof *delta);
    assert_int_equal(weft_binding_open(made.layout, made.to, count, &now), WEFT_OK);
    assert_int_equal(weft_binding_open(made.layout, made.from, count, &shadow), WEFT_OK);
    assert_int_equal(encode_all(&now, &shadow, &parameters, levels, 2, "auto", delta, NULL, &result), WEFT_OK);
    *jobs = result.jobs;
    *frames = result.level[WEFT_LEVEL_FAST].count + result.level[WEFT_LEVEL_TIGHT].count;
    encode_result_free(&result);
    weft_binding_close(&now);
    weft_binding_close(&shadow);
    free(delta);
    cut_free(&made);
}

/* Work for each unit is done no more often, and no work is done for each tensor. */
static void small_tensors_are_no_more_work(void **state)
{
    uint64_t jobs[2], frames[2];
    work_of(*state, 1, ALL, &jobs[0], &frames[0]);
    work_of(*state, TENSORS, EACH, &jobs[1], &frames[1]);
    assert_int_equal(jobs[0], jobs[1]);
    assert_int_equal(frames[0], frames[1]);
    assert_in_range(jobs[0], ALL >> 20, (ALL >> 20) + 1); /* runs of 2^20 elements */
    assert_int_equal(frames[0], 2 * jobs[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tight_does_not_mind),
        cmocka_unit_test(fast_does_not_mind),
        cmocka_unit_test(small_tensors_are_no_more_work),
    };
    return cmocka_run_group_tests(tests, weights_make, weights_drop);
}

/* The synthetic model and its steps: close to what was asked, deterministic, with the statistics of real updates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>
#include <unistd.h>

#include "layout/layout.h"
#include "model/synth.h"
#include "tests/support/folder.h"

#define SHAPE(...)                                                                                                     \
    (const uint64_t[])                                                                                                 \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static weft_model *model_of(uint64_t parameters, uint64_t seed)
{
    weft_model *model = NULL;
    if (weft_synth_model(parameters, seed, &model) != WEFT_OK)
        fail_msg("no model: %s", weft_last_error());
    return model;
}

/* Copies all weights of a bf16 model in a row; the caller frees them. */
static uint16_t *weights_copy(const weft_model *model, uint64_t *count)
{
    uint64_t pieces, at = 0;
    const weft_piece *piece = weft_model_pieces(model, &pieces);
    *count = weft_layout_bytes(weft_model_layout(model)) / 2;
    uint16_t *copy = malloc(*count * 2);
    assert_non_null(copy);
    for (uint64_t t = 0; t < pieces; t++) {
        memcpy(copy + at, piece[t].data, piece[t].count * 2);
        at += piece[t].count;
    }
    assert_int_equal(at, *count);
    return copy;
}

static void model_has_the_size_asked_for(void **state)
{
    (void)state;
    const uint64_t asked[] = {20000, 100000, 1000000, 5000000};
    for (int i = 0; i < 4; i++) {
        weft_model *model = model_of(asked[i], 1);
        double got = (double)weft_layout_bytes(weft_model_layout(model)) / 2;
        if (fabs(got / (double)asked[i] - 1) > 0.05)
            fail_msg("asked for %llu parameters, got %.0f", (unsigned long long)asked[i], got);
        weft_model_close(model);
    }
    weft_model *none = NULL;
    weft_model_close(model_of(0, 1));
    assert_int_equal(weft_synth_model(UINT64_MAX, 1, &none), WEFT_E_ARGUMENT);
}

static void model_has_real_names_and_shapes(void **state)
{
    (void)state;
    weft_model *model = model_of(3000000, 1);
    const weft_layout *layout = weft_model_layout(model);
    uint64_t count = weft_layout_count(layout);
    weft_tensor first, query, key, last;
    weft_layout_tensor(layout, 0, &first);
    weft_layout_tensor(layout, 2, &query);
    weft_layout_tensor(layout, 3, &key);
    weft_layout_tensor(layout, count - 1, &last);
    assert_string_equal(first.name, "model.embed_tokens.weight");
    assert_string_equal(query.name, "model.layers.0.self_attn.q_proj.weight");
    assert_string_equal(key.name, "model.layers.0.self_attn.k_proj.weight");
    assert_string_equal(last.name, "lm_head.weight");
    assert_int_equal(query.shape[0], query.shape[1]);
    assert_int_equal(key.shape[0] * 4, query.shape[0]); /* grouped queries */
    assert_int_equal(first.shape[0], last.shape[0]);
    assert_int_equal(count % 9, 3); /* nine tensors a layer, three around them */
    assert_true(count > 9 * 2);
    weft_model_close(model);
}

static void model_is_gaussian(void **state)
{
    (void)state;
    weft_model *model = model_of(1000000, 7);
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(model, &count);
    const uint16_t *weights = pieces[0].data;
    double sum = 0, squares = 0, within = 0;
    for (uint64_t i = 0; i < pieces[0].count; i++) {
        uint32_t bits = (uint32_t)weights[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        sum += value;
        squares += (double)value * value;
        within += fabsf(value) < 0.02F;
    }
    double n = (double)pieces[0].count;
    assert_true(fabs(sum / n) < 0.02 * 5 / sqrt(n));
    assert_true(fabs(sqrt(squares / n) / 0.02 - 1) < 0.02);
    assert_true(fabs(within / n - 0.6827) < 0.01);
    const uint16_t *norm = pieces[1].data;
    for (uint64_t i = 0; i < pieces[1].count; i++)
        assert_in_range(norm[i], 0x3f00, 0x3fc0); /* 0.5 to 1.5 */
    weft_model_close(model);
}

static void model_saves_as_safetensors(void **state)
{
    (void)state;
    char folder[512], path[600];
    folder_open(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/m.safetensors", folder);
    weft_model *model = model_of(50000, 3), *read = NULL;
    uint64_t bytes, hash[2], hash_read[2], count, count_read;
    const void *header = weft_model_header(model, &bytes);
    assert_int_equal(bytes % 8, 0);
    assert_int_equal(weft_model_save(model, header, bytes, path), WEFT_OK);
    weft_status status = weft_model_open(path, 0, &read);
    unlink(path);
    rmdir(folder);
    assert_int_equal(status, WEFT_OK);
    weft_layout_hash(weft_model_layout(model), hash);
    weft_layout_hash(weft_model_layout(read), hash_read);
    assert_memory_equal(hash, hash_read, sizeof hash);
    uint16_t *weights = weights_copy(model, &count), *weights_read = weights_copy(read, &count_read);
    assert_memory_equal(weights, weights_read, count * 2);
    assert_int_equal(weft_synth_step(read, 0.1, 1, NULL), WEFT_E_ARGUMENT); /* mapped read-only */
    free(weights);
    free(weights_read);
    weft_model_close(model);
    weft_model_close(read);
}

static void same_seed_same_bits(void **state)
{
    (void)state;
    weft_model *one = model_of(30000, 5), *two = model_of(30000, 5), *three = model_of(30000, 6);
    uint64_t count, changed_one, changed_two;
    uint16_t *a = weights_copy(one, &count), *b = weights_copy(two, &count), *c = weights_copy(three, &count);
    assert_memory_equal(a, b, count * 2);
    assert_memory_not_equal(a, c, count * 2);
    assert_int_equal(weft_synth_step(one, 0.02, 9, &changed_one), WEFT_OK);
    assert_int_equal(weft_synth_step(two, 0.02, 9, &changed_two), WEFT_OK);
    assert_int_equal(changed_one, changed_two);
    uint16_t *d = weights_copy(one, &count), *e = weights_copy(two, &count);
    assert_memory_equal(d, e, count * 2);
    assert_memory_not_equal(a, d, count * 2);
    assert_int_equal(weft_synth_step(two, 0, 10, &changed_two), WEFT_OK);
    assert_int_equal(changed_two, 0);
    uint16_t *f = weights_copy(two, &count);
    assert_memory_equal(e, f, count * 2);
    uint16_t *all[] = {a, b, c, d, e, f};
    for (int i = 0; i < 6; i++)
        free(all[i]);
    weft_model_close(one);
    weft_model_close(two);
    weft_model_close(three);
}

static int32_t order_of(uint16_t bits)
{
    return (int16_t)(bits & 0x8000 ? bits ^ 0x7fff : bits);
}

/* The changes of a step, by unbiased exponent of the old weight. */
typedef struct tally {
    double all[256];
    double changed[256];
    double total;
    double one;
    double two;
    double far; /* more than one ULP at 2^-12 and above */
} tally;

static void tally_make(tally *made, const uint16_t *before, const uint16_t *after, uint64_t count)
{
    *made = (tally){.total = 0};
    for (uint64_t i = 0; i < count; i++) {
        int exponent = before[i] >> 7 & 0xff;
        int distance = abs(order_of(after[i]) - order_of(before[i]));
        made->all[exponent]++;
        made->changed[exponent] += distance > 0;
        made->total += distance > 0;
        made->one += distance == 1;
        made->two += distance == 2;
        made->far += distance > 1 && exponent >= 127 - 12;
    }
}

/* Within five standard deviations of a count. */
static bool near(double got, double wanted)
{
    return fabs(got - wanted) <= 5 * sqrt(wanted) + 1;
}

static void chance_doubles_with_every_exponent(void **state)
{
    (void)state;
    const double shares[] = {0.002, 0.0117, 0.08};
    for (int i = 0; i < 3; i++) {
        weft_model *model = model_of(4000000, 11); /* of the step's seed: their draws must not meet */
        uint64_t count, changed;
        uint16_t *before = weights_copy(model, &count);
        assert_int_equal(weft_synth_step(model, shares[i], 11, &changed), WEFT_OK);
        uint16_t *after = weights_copy(model, &count);
        tally seen;
        tally_make(&seen, before, after, count);
        assert_int_equal((uint64_t)seen.total, changed);
        assert_true(near(seen.total, shares[i] * (double)count));
        assert_int_equal((uint64_t)seen.far, 0);
        int compared = 0;
        for (int e = 127 - 6; e > 90; e--) {
            double rate = seen.changed[e] / seen.all[e], lower = 2 * rate * seen.all[e - 1];
            if (seen.changed[e] < 200 || seen.changed[e - 1] < 200 || 2 * rate > 0.9)
                continue;
            if (fabs(seen.changed[e - 1] / lower - 1) > 5 * sqrt(1 / seen.changed[e] + 1 / seen.changed[e - 1]))
                fail_msg("share %g: %.4f change at 2^%d, %.4f below it", shares[i], rate, e - 127,
                         seen.changed[e - 1] / seen.all[e - 1]);
            compared++;
        }
        assert_true(compared >= 3);
        free(before);
        free(after);
        weft_model_close(model);
    }
}

/* In a real step at 1.17 %, 83 to 89 % of the changes are one ULP and 5 to 7 % are two. */
static void most_changes_are_one_ulp(void **state)
{
    (void)state;
    weft_model *model = model_of(4000000, 12);
    uint64_t count;
    uint16_t *before = weights_copy(model, &count);
    assert_int_equal(weft_synth_step(model, 0.0117, 4, NULL), WEFT_OK);
    uint16_t *after = weights_copy(model, &count);
    tally seen;
    tally_make(&seen, before, after, count);
    assert_true(seen.one / seen.total > 0.83 && seen.one / seen.total < 0.89);
    assert_true(seen.two / seen.total > 0.05 && seen.two / seen.total < 0.07);
    free(before);
    free(after);
    weft_model_close(model);
}

static weft_model *zeros_of(const weft_tensor *tensors, uint64_t count)
{
    weft_layout *layout = NULL;
    weft_model *model = NULL;
    assert_int_equal(weft_layout_create(tensors, count, &layout), WEFT_OK);
    assert_int_equal(weft_model_create(layout, &model), WEFT_OK);
    weft_layout_free(layout);
    return model;
}

/* Infinities and NaNs stay, the largest numbers stay finite, zeros of both signs may move. */
static void odd_bits_are_handled(void **state)
{
    (void)state;
    enum { COUNT = 65536 };
    weft_model *model = zeros_of(&(weft_tensor){"all", WEFT_BF16, 1, SHAPE(COUNT)}, 1);
    uint64_t pieces, changed, seen = 0;
    uint16_t *weights = weft_model_pieces(model, &pieces)->data;
    for (uint32_t i = 0; i < COUNT; i++)
        weights[i] = (uint16_t)i;
    assert_int_equal(weft_synth_step(model, 0.9, 1, &changed), WEFT_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        bool finite = (i & 0x7f80) != 0x7f80;
        assert_true(finite ? (weights[i] & 0x7f80) != 0x7f80 : weights[i] == i);
        seen += weights[i] != i;
    }
    assert_int_equal(seen, changed);
    assert_true(near((double)changed, 0.9 * COUNT));
    assert_int_equal(weft_synth_step(model, 1.5, 1, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(weft_synth_step(model, (double)NAN, 1, NULL), WEFT_E_ARGUMENT);
    weft_model_close(model);
}

/* Counts elements that differ from the zeros they were, and holds each to the one step it may have made. */
static uint64_t moved_from_zero(const uint8_t *data, const weft_layout_entry *entry)
{
    uint64_t moved = 0;
    uint64_t mask = entry->row->width == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * entry->row->width)) - 1;
    for (uint64_t i = 0; i < entry->coded; i++) {
        uint64_t bits = 0;
        for (uint32_t b = 0; b < entry->row->width; b++)
            bits |= (uint64_t)data[i * entry->row->width + b] << (8 * b);
        bool back = entry->row->is_float || entry->row->dtype == WEFT_BOOL ? false : bits == mask;
        assert_true(bits <= 1 || back);
        moved += bits != 0;
    }
    return moved;
}

static void other_dtypes_move_by_one(void **state)
{
    (void)state;
    char names[WEFT_DTYPE_LAST][4];
    weft_tensor tensors[WEFT_DTYPE_LAST];
    const uint64_t shape[] = {40000};
    uint64_t count = 0, pieces, changed, moved = 0;
    for (int d = 1; d <= WEFT_DTYPE_LAST; d++) {
        if (d == WEFT_BF16)
            continue;
        snprintf(names[count], 4, "%d", d);
        tensors[count] = (weft_tensor){names[count], (weft_dtype)d, 1, shape};
        count++;
    }
    weft_model *model = zeros_of(tensors, count);
    const weft_layout *layout = weft_model_layout(model);
    const weft_piece *piece = weft_model_pieces(model, &pieces);
    assert_int_equal(weft_synth_step(model, 0.1, 2, &changed), WEFT_OK);
    for (uint64_t t = 0; t < count; t++) {
        uint64_t here = moved_from_zero(piece[t].data, &layout->entries[t]);
        if (!near((double)here, 0.1 * (double)layout->entries[t].coded))
            fail_msg("dtype %s: %llu of %llu moved", names[t], (unsigned long long)here,
                     (unsigned long long)layout->entries[t].coded);
        moved += here;
    }
    assert_int_equal(moved, changed);
    weft_model_close(model);
}

/* Floats other than bf16: from the ends of their order too. */
static void other_floats_stay_finite(void **state)
{
    (void)state;
    const uint32_t bits[] = {0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800001, 0x80000000, 1};
    weft_model *model = zeros_of(&(weft_tensor){"x", WEFT_F32, 1, SHAPE(6)}, 1);
    uint64_t pieces;
    uint32_t *words = weft_model_pieces(model, &pieces)->data;
    for (uint64_t seed = 0; seed < 200; seed++) {
        memcpy(words, bits, sizeof bits);
        assert_int_equal(weft_synth_step(model, 0.9, seed, NULL), WEFT_OK);
        assert_true(words[0] == bits[0] || words[0] == bits[0] - 1);
        assert_true(words[1] == bits[1] || words[1] == bits[1] - 1);
        assert_true(words[2] == bits[2] && words[3] == bits[3]);
        assert_true(words[4] == bits[4] || words[4] == bits[4] + 1);
        assert_true(words[5] <= 2);
    }
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_has_the_size_asked_for),
        cmocka_unit_test(model_has_real_names_and_shapes),
        cmocka_unit_test(model_is_gaussian),
        cmocka_unit_test(model_saves_as_safetensors),
        cmocka_unit_test(same_seed_same_bits),
        cmocka_unit_test(chance_doubles_with_every_exponent),
        cmocka_unit_test(most_changes_are_one_ulp),
        cmocka_unit_test(odd_bits_are_handled),
        cmocka_unit_test(other_dtypes_move_by_one),
        cmocka_unit_test(other_floats_stay_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

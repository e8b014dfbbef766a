/* Layouts told briefly: these bytes, back to the layout, and nothing else taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mix64.h"
#include "layout/layout.h"
#include "tests/support/golden_files.h"
#include "update/update_names.h"

#define TENSORS 64u

static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};

typedef struct model {
    char names[TENSORS][WEFT_MAX_NAME + 1];
    uint64_t shapes[TENSORS][4];
    weft_tensor tensors[TENSORS];
    uint64_t count;
} model;

static void add(model *m, const char *name, weft_dtype dtype, uint32_t rank, uint64_t rows, uint64_t columns)
{
    assert_true(m->count < TENSORS);
    const uint64_t shape[4] = {rows, columns, 1, 2};
    memcpy(m->shapes[m->count], shape, sizeof shape);
    snprintf(m->names[m->count], sizeof m->names[0], "%s", name);
    m->tensors[m->count] = (weft_tensor){m->names[m->count], dtype, rank, m->shapes[m->count]};
    m->count++;
}

static weft_layout *layout_of(const model *m)
{
    weft_layout *layout = NULL;
    if (weft_layout_create(m->tensors, m->count, &layout) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return layout;
}

/* Told and read: the serialised layout comes back. Gives the told bytes. */
static uint64_t comes_back(const weft_layout *layout, uint8_t **told)
{
    uint64_t length, wire = weft_layout_wire_bytes(layout), bytes;
    uint8_t *plain, *wanted = malloc(wire);
    assert_non_null(wanted);
    weft_layout_write(layout, wanted);
    assert_int_equal(weft_update_names_write(layout, told, &length), WEFT_OK);
    if (weft_update_names_read(*told, length, &plain, &bytes) != WEFT_OK)
        fail_msg("not read back: %s", weft_last_error());
    assert_int_equal(bytes, wire);
    assert_memory_equal(plain, wanted, wire);
    weft_mem_give(plain);
    free(wanted);
    return length;
}

/* Layers in order and sorted, experts, scales, characters that are words and that are not, numbers at their ends. */
static void model_make(model *m)
{
    char name[64];
    *m = (model){.count = 0};
    add(m, "model.embed_tokens.weight", WEFT_BF16, 2, 512, 16);
    for (int i = 0; i < 12; i++)
        for (int part = 0; part < 2; part++) {
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", i, part ? "mlp.up_proj" : "self_attn.q_norm");
            add(m, name, WEFT_BF16, part ? 2 : 1, part ? 48 : 16, 16);
        }
    static const int sorted[] = {0, 1, 10, 11, 2, 3};
    for (size_t e = 0; e < 6; e++) {
        snprintf(name, sizeof name, "model.layers.3.mlp.experts.%d.w1", sorted[e]);
        add(m, name, WEFT_F8_E4M3FNUZ, 3, 2, 5);
    }
    add(m, "lm_head.weight_scale", WEFT_F32, 0, 0, 0);
    add(m, "\x01\x1f\x1e\x7f \xc3\xa9 007", WEFT_U8, 1, 7, 0);
    add(m, "\x01\x1f\x1e\x7f \xc3\xa9 008", WEFT_U8, 1, 7, 0);
    add(m, "999999999999999998", WEFT_U8, 1, 7, 0);
    add(m, "999999999999999999", WEFT_U8, 1, 7, 0);
    add(m, "1000000000000000000", WEFT_U8, 1, 7, 0);
    add(m, "1000000000000000001", WEFT_U8, 1, 7, 0);
    add(m, "5", WEFT_U8, 1, 7, 0);
    add(m, "0", WEFT_U8, 4, 0, UINT64_MAX);
}

static void layouts_are_told_by_these_bytes(void **state)
{
    (void)state;
    model m;
    uint8_t *told, serialised[GOLDEN_MOST];
    model_make(&m);
    weft_layout *layout = layout_of(&m);
    uint64_t length = comes_back(layout, &told);
    assert_true(weft_layout_wire_bytes(layout) <= GOLDEN_MOST);
    weft_layout_write(layout, serialised);
    golden_is("layout_names.bin", serialised, weft_layout_wire_bytes(layout));
    golden_is("layout_names_told.bin", told, length);
    weft_mem_give(told);
    weft_layout_free(layout);
    static const uint8_t example[] = {0x4d, 0x80, 0x02, 0x03, 0x00, 0x61, 0x2e, 0x77, 0x00, 0x13, 0x00, 0x62, 0x00};
    m = (model){.count = 0};
    add(&m, "a.w", WEFT_BF16, 2, 256, 3);
    add(&m, "b", WEFT_F64, 0, 0, 0);
    layout = layout_of(&m);
    assert_int_equal(comes_back(layout, &told), sizeof example);
    assert_memory_equal(told, example, sizeof example);
    weft_mem_give(told);
    weft_layout_free(layout);
}

/* Names out of few parts, so that copies of every kind come about. */
static void any_layout_comes_back(void **state)
{
    static const char *const parts[] = {"a", "7", "09", ".", "model.", "_proj", "10", "\x1e", "99", "0", "layers."};
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        model m = {.count = 0};
        uint64_t want = weft_mix64(seed++) % 12;
        for (uint64_t t = 0; t < want; t++) {
            char name[64] = "";
            for (uint64_t p = 1 + weft_mix64(seed++) % 4; p > 0; p--)
                strcat(name, parts[weft_mix64(seed++) % (sizeof parts / sizeof *parts)]);
            bool there = false;
            for (uint64_t i = 0; i < m.count; i++)
                there = there || strcmp(m.names[i], name) == 0;
            if (!there)
                add(&m, name, WEFT_BF16, seed % 2, 1 + weft_mix64(seed) % 2, 0);
        }
        uint8_t *told;
        weft_layout *layout = layout_of(&m);
        comes_back(layout, &told);
        weft_mem_give(told);
        weft_layout_free(layout);
    }
}

/* In memory of exactly their size. */
static weft_status read_exact(const uint8_t *bytes, uint64_t length)
{
    uint64_t plain_bytes;
    uint8_t *plain, *exact = malloc(length ? length : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, length);
    weft_status status = weft_update_names_read(exact, length, &plain, &plain_bytes);
    free(exact);
    if (status == WEFT_OK)
        weft_mem_give(plain);
    return status;
}

static void others_tell_none(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint64_t length;
        uint8_t bytes[40];
    } bad[] = {
        {"a name that shares with none", 5, {13, 1, 'a', '1', 0}},
        {"an end in a name", 4, {13, 0, 'a', '1'}},
        {"an end after 31", 4, {13, 0, 'a', 31}},
        {"rank 17", 3, {0xad, 0x04, 0}},
        {"a copy of nothing", 5, {0, 1, 1, 0, 2}},
        {"a distance of 0", 10, {13, 0, 'a', '1', 0, 0, 0, 1, 0, 2}},
        {"too far back", 10, {13, 0, 'a', '1', 0, 0, 2, 1, 0, 2}},
        {"no copies", 10, {13, 0, 'a', '1', 0, 0, 1, 0, 0, 2}},
        {"no such number", 10, {13, 0, 'a', '1', 0, 0, 1, 1, 1, 2}},
        {"below 0", 10, {13, 0, 'a', '1', 0, 0, 1, 1, 0, 3}},
        {"a useless zero", 3, {0x8d, 0, 0}},
        {"a number of 19 digits", 27, {13,  0,   '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1', '1',
                                       '1', '1', '1', '1', '1', '1', '1', '1', 0,   0,   1,   1,   0,   2}},
        {"a result of 19 digits", 26, {13,  0,   '9', '9', '9', '9', '9', '9', '9', '9', '9', '9', '9',
                                       '9', '9', '9', '9', '9', '9', '9', 0,   0,   1,   1,   0,   2}},
        {"more copies than tensors may be", 13, {13, 0, 'a', '1', 0, 0, 1, 0xff, 0xff, 0x7f, 0, 2}},
    };
    static const uint8_t good[] = {13, 0, 'a', '1', 0, 0, 1, 3, 0, 1};
    assert_int_equal(read_exact(good, sizeof good - 5), WEFT_OK);
    assert_int_equal(read_exact(good, sizeof good), WEFT_E_CORRUPT); /* a1, a0, and then below 0 */
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (read_exact(bad[i].bytes, bad[i].length) != WEFT_E_CORRUPT)
            fail_msg("%s was taken", bad[i].what);
    uint8_t noise[40];
    for (uint64_t round = 0; round < 200000; round++) {
        uint64_t length = weft_mix64(round) % sizeof noise;
        for (uint64_t i = 0; i < length; i++) {
            uint64_t any = weft_mix64(round * 64 + i);
            noise[i] = (uint8_t)(any % 4 ? any >> 8 & 15 : any >> 8);
        }
        read_exact(noise, length);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_told_by_these_bytes),
        cmocka_unit_test(any_layout_comes_back),
        cmocka_unit_test(others_tell_none),
    };
    weft_log_enter(&quiet);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

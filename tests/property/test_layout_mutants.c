/* Serialised layouts and JSON headers with random damage: refused, or read as exactly what the bytes say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/log.h"
#include "layout/digest.h"
#include "layout/layout_match.h"
#include "model/model.h"

#define MUTANTS 20000

static uint64_t turn;

static uint64_t draw(void)
{
    return weft_mix64(++turn * WEFT_PHI);
}

/* Damages 1 to 3 places: a byte set to anything, a bit flipped, a byte made an edge value. */
static void damage(uint8_t *bytes, uint64_t length)
{
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, '"', '[', '{', ',', '9', '-'};
    for (uint64_t times = 1 + draw() % 3; times > 0; times--) {
        uint8_t *at = &bytes[draw() % length];
        switch (draw() % 3) {
        case 0:
            *at = (uint8_t)draw();
            break;
        case 1:
            *at ^= (uint8_t)(1u << draw() % 8);
            break;
        default:
            *at = edges[draw() % sizeof edges];
        }
    }
}

static weft_layout *some_layout(void)
{
    const weft_tensor tensors[] = {{"embed", WEFT_BF16, 2, (const uint64_t[]){64, 16}},
                                   {"scale", WEFT_F32, 0, NULL},
                                   {"packed", WEFT_F4, 1, (const uint64_t[]){32}},
                                   {"none", WEFT_U8, 3, (const uint64_t[]){2, 0, 5}}};
    weft_layout *layout = NULL;
    assert_int_equal(weft_layout_create(tensors, 4, &layout), WEFT_OK);
    return layout;
}

/* Keeps sizes below 2^24, so that the time goes into parsing and not into grids of terabytes. */
static void sizes_restrain(const weft_layout *layout, uint8_t *bytes)
{
    uint64_t at = 16;
    for (uint64_t t = 0; t < layout->count; t++) {
        const weft_tensor *tensor = &layout->entries[t].tensor;
        for (uint32_t i = 0; i < tensor->rank; i++)
            memset(bytes + at + 12 + 8 * i + 3, 0, 5);
        at += 12 + 8 * tensor->rank + strlen(tensor->name);
    }
}

static void serialised_layouts(void **state)
{
    (void)state;
    weft_layout *layout = some_layout();
    uint64_t length = weft_layout_wire_bytes(layout), taken = 0, refused = 0;
    uint8_t *good = malloc(length), *bad = malloc(length), *again = malloc(length);
    assert_true(good && bad && again);
    weft_layout_write(layout, good);
    for (uint64_t i = 0; i < MUTANTS; i++) {
        weft_layout *read = NULL;
        memcpy(bad, good, length);
        damage(bad, length);
        sizes_restrain(layout, bad);
        if (weft_layout_parse(bad, length, &read) != WEFT_OK) {
            assert_null(read);
            refused++;
            continue;
        }
        assert_int_equal(weft_layout_wire_bytes(read), length);
        weft_layout_write(read, again);
        assert_memory_equal(bad, again, length);
        weft_layout_free(read);
        taken++;
    }
    assert_true(taken > MUTANTS / 100 && refused > MUTANTS / 4);
    free(again);
    free(bad);
    free(good);
    weft_layout_free(layout);
}

/* A list that is compared may have any sizes, because no grid is made of it. Differences are said in one line. */
static void compared_lists(void **state)
{
    (void)state;
    weft_layout *layout = some_layout();
    const weft_match_side mine = weft_match_layout("a", layout);
    const uint64_t length = weft_layout_wire_bytes(layout);
    uint64_t same = 0, differ = 0, refused = 0, order[4];
    uint8_t *good = malloc(length), *bad = malloc(length);
    assert_true(good && bad);
    weft_layout_write(layout, good);
    for (uint64_t i = 0; i < MUTANTS; i++) {
        weft_layout_told told;
        char text[WEFT_MATCH_TEXT];
        memcpy(bad, good, length);
        damage(bad, length);
        if (weft_layout_told_open(bad, length, &told) != WEFT_OK) {
            refused++;
            continue;
        }
        const weft_match_side theirs = {"b", told.tensors, sizeof *told.tensors, told.count};
        if (weft_match_by_name(&mine, &theirs, order, text) == WEFT_OK) {
            assert_memory_equal(bad, good, length);
            same++;
        } else {
            assert_true(text[0] && strlen(text) < sizeof text);
            for (const char *at = text; *at; at++)
                assert_true((unsigned char)*at >= ' ' && *at != 127);
            differ++;
        }
        weft_layout_told_close(&told);
    }
    assert_true(same > 0 && differ > MUTANTS / 4 && refused > MUTANTS / 100);
    free(bad);
    free(good);
    weft_layout_free(layout);
}

/* A header that is read and made into a header again describes the same layout. */
static void json_headers(void **state)
{
    (void)state;
    weft_layout *layout = some_layout();
    uint8_t *good = NULL;
    uint64_t length, taken = 0, refused = 0;
    assert_int_equal(weft_model_header_make(layout, &good, &length), WEFT_OK);
    uint8_t *bad = malloc(length);
    assert_non_null(bad);
    for (uint64_t i = 0; i < MUTANTS; i++) {
        weft_layout *read = NULL;
        uint64_t data_bytes = UINT64_MAX;
        memcpy(bad, good, length);
        damage(bad + WEFT_MODEL_PREFIX, length - WEFT_MODEL_PREFIX);
        if (weft_model_header_read(bad, length, &read, &data_bytes) != WEFT_OK) {
            assert_null(read);
            refused++;
            continue;
        }
        assert_int_equal(data_bytes, weft_layout_bytes(read));
        weft_layout_free(read);
        taken++;
    }
    assert_true(taken > MUTANTS / 100 && refused > MUTANTS / 4);
    free(bad);
    free(good);
    weft_layout_free(layout);
}

static void nowhere(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)level;
    (void)line;
}

int main(void)
{
    weft_log_sink quiet = {WEFT_LOG_ERROR, nowhere};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serialised_layouts),
        cmocka_unit_test(compared_lists),
        cmocka_unit_test(json_headers),
    };
    weft_log_enter(&quiet);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

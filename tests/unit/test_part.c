/* Parts: their numbers follow tensors, tiles and units, and their names say where a wrong bit lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "layout/part.h"

#define TENSORS 9
#define NAMED   "model.layers.35.block_sparse_moe.experts.127.down_proj.lora.weight.with.a.name.that.nobody.types"

static weft_layout *layout;

/* none | a pack of a, none, b | wide: three tiles | double: two tiles | packed 6-bit: two tiles | complex | NAMED |
 * none
 */
static int setup(void **state)
{
    static const uint64_t none[] = {0}, a[] = {10}, b[] = {6}, wide[] = {3, 262144 - 1}, twice[] = {131073},
                          six[] = {349528}, complex[] = {131072}, named[] = {1};
    const weft_tensor tensors[TENSORS] = {{"nothing", WEFT_BF16, 1, none},  {"a", WEFT_BF16, 1, a},
                                          {"empty", WEFT_BF16, 1, none},    {"b", WEFT_BF16, 1, b},
                                          {"wide", WEFT_BF16, 2, wide},     {"double", WEFT_F64, 1, twice},
                                          {"packed", WEFT_F6_E2M3, 1, six}, {"complex", WEFT_C64, 1, complex},
                                          {NAMED, WEFT_BF16, 1, named}};
    (void)state;
    return weft_layout_create(tensors, TENSORS, &layout) != WEFT_OK;
}

static int teardown(void **state)
{
    (void)state;
    weft_layout_free(layout);
    return 0;
}

static void numbers(void **state)
{
    (void)state;
    static const uint64_t counts[TENSORS] = {1, 1, 1, 1, 3, 2, 2, 1, 1};
    uint64_t part = 0;
    for (uint64_t t = 0; t < TENSORS; t++) {
        assert_int_equal(layout->entries[t].part, part);
        assert_int_equal(weft_part_count(layout, t), counts[t]);
        for (uint64_t i = 0; i < counts[t]; i++)
            assert_int_equal(weft_part_tensor(layout, part++), t);
    }
    assert_int_equal(layout->part_count, part);
}

/* Parts of units follow one another, and only those of tensors without elements are left out. */
static void units(void **state)
{
    (void)state;
    uint64_t next = 0;
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        uint64_t part = weft_part_of_unit(layout, u);
        for (; next < part; next++)
            assert_int_equal(layout->entries[weft_part_tensor(layout, next)].coded, 0);
        assert_int_equal(weft_part_tensor(layout, part), layout->units[u].tensor);
        next = part + layout->units[u].tensor_count;
    }
    assert_int_equal(next, layout->part_count);
}

static void named(uint64_t tensor, uint64_t tile, const char *expected)
{
    char text[WEFT_PART_TEXT];
    weft_part_name(layout, layout->entries[tensor].part + tile, text);
    assert_string_equal(text, expected);
}

static void names(void **state)
{
    (void)state;
    named(0, 0, "tensor nothing tile 0");
    named(1, 0, "tensor a tile 0, elements 0..9");
    named(3, 0, "tensor b tile 0, elements 0..5");
    named(4, 0, "tensor wide tile 0, elements 0..262143");
    named(4, 1, "tensor wide tile 1, elements 262144..524287");
    named(4, 2, "tensor wide tile 2, elements 524288..786428");
    named(5, 1, "tensor double tile 1, elements 131072..131072");
    named(6, 0, "tensor packed tile 0, elements 0..349525");      /* a tile ends within an element, */
    named(6, 1, "tensor packed tile 1, elements 349525..349527"); /* which both have then */
    named(7, 0, "tensor complex tile 0, elements 0..131071");
    named(8, 0, "tensor ...erts.127.down_proj.lora.weight.with.a.name.that.nobody.types tile 0, elements 0..0");
}

static void ranges(void **state)
{
    (void)state;
    char text[WEFT_PART_TEXT];
    uint64_t wide = layout->entries[4].part, last = layout->entries[8].part;
    weft_part_name_range(layout, wide + 1, wide + 1, text);
    assert_string_equal(text, "tensor wide tile 1, elements 262144..524287");
    weft_part_name_range(layout, 1, wide + 2, text);
    assert_string_equal(text, "tensor a tile 0 to tensor wide tile 2");
    weft_part_name_range(layout, wide, last, text);
    assert_string_equal(
        text, "tensor wide tile 0 to tensor ...erts.127.down_proj.lora.weight.with.a.name.that.nobody.types tile 0");
}

static void differences(void **state)
{
    (void)state;
    uint64_t a[16] = {0}, b[16] = {0}, wide = layout->entries[4].part;
    char text[WEFT_PART_TEXT];
    assert_true(layout->part_count <= 16);
    assert_int_equal(weft_part_differs(layout, 0, layout->part_count, a, b, text), 0);
    assert_string_equal(text, "");
    b[wide + 1] = 1;
    b[wide + 2] = 7;
    assert_int_equal(weft_part_differs(layout, 0, layout->part_count, a, b, text), 1); /* two tiles of one tensor */
    assert_string_equal(text, "tensor wide tile 1, elements 262144..524287");
    a[1] = UINT64_MAX;
    assert_int_equal(weft_part_differs(layout, 0, layout->part_count, a, b, text), 2);
    assert_string_equal(text, "tensor a tile 0, elements 0..9");
    assert_int_equal(weft_part_differs(layout, 2, layout->part_count - 2, a, b, text), 1);
    assert_int_equal(weft_part_differs(layout, 2, wide, a, b, text), 1); /* up to wide's second tile */
    assert_int_equal(weft_part_differs(layout, 2, wide - 1, a, b, text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers), cmocka_unit_test(units),       cmocka_unit_test(names),
        cmocka_unit_test(ranges),  cmocka_unit_test(differences),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

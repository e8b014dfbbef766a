/* Two lists of tensors are matched by name, and a difference is said with names and with what would mend it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "layout/layout_match.h"

#define SHAPE(...)                                                                                                     \
    (const uint64_t[])                                                                                                 \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static const weft_tensor model[] = {{"model.embed.weight", WEFT_BF16, 2, SHAPE(32, 16)},
                                    {"model.layers.0.up.weight", WEFT_BF16, 2, SHAPE(48, 16)},
                                    {"model.layers.0.norm.weight", WEFT_BF16, 1, SHAPE(16)},
                                    {"lm_head.bias", WEFT_F32, 1, SHAPE(32)}};
enum { COUNT = sizeof model / sizeof *model };

static weft_match_side side_of(const char *name, const weft_tensor *tensors, uint64_t count)
{
    return (weft_match_side){name, tensors, sizeof *tensors, count};
}

/* Fails unless the other list differs from the model's in all these words. */
static void differs(const weft_tensor *other, uint64_t count, const char *const *words)
{
    char text[WEFT_MATCH_TEXT];
    const weft_match_side mine = side_of("r0", other, count), theirs = side_of("the trainer", model, COUNT);
    assert_int_equal(weft_match_by_name(&mine, &theirs, NULL, text), WEFT_E_LAYOUT);
    assert_true(strlen(text) < WEFT_MATCH_TEXT);
    for (; *words; words++)
        if (!strstr(text, *words))
            fail_msg("\"%s\" does not say \"%s\"", text, *words);
}

#define DIFFERS(other, count, ...) differs(other, count, (const char *const[]){__VA_ARGS__, NULL})

static void another_order_is_no_difference(void **state)
{
    const weft_tensor other[] = {model[2], model[0], model[3], model[1]};
    const weft_match_side mine = side_of("a", other, COUNT), theirs = side_of("b", model, COUNT);
    const uint64_t wanted[] = {2, 0, 3, 1};
    uint64_t order[COUNT];
    char text[WEFT_MATCH_TEXT];
    (void)state;
    assert_int_equal(weft_match_by_name(&mine, &theirs, order, text), WEFT_OK);
    assert_memory_equal(order, wanted, sizeof wanted);
    assert_string_equal(text, "");
    const weft_match_side none = side_of("a", NULL, 0);
    assert_int_equal(weft_match_by_name(&none, &none, NULL, text), WEFT_OK);
}

static void a_prefix_is_found_at_either_end(void **state)
{
    (void)state;
    weft_tensor other[] = {model[0], model[1], model[2], model[3]};
    other[0].name = "embed.weight";
    other[1].name = "layers.0.up.weight";
    other[2].name = "layers.0.norm.weight";
    DIFFERS(other, COUNT, "3 names of the trainer have 'model.' in front of those of r0, as 'model.embed.weight'",
            "same names");
    other[0].name = "base.model.embed.weight";
    other[1].name = "base.model.layers.0.up.weight";
    other[2].name = "base.model.layers.0.norm.weight";
    other[3].name = "base.lm_head.bias";
    DIFFERS(other, COUNT, "4 names of r0 have 'base.' in front of those of the trainer");
}

static void a_tensor_under_two_names_is_found(void **state)
{
    (void)state;
    const weft_tensor other[] = {
        model[0], model[1], model[2], model[3], {"lm_head.weight", WEFT_BF16, 2, SHAPE(32, 16)}};
    DIFFERS(other, COUNT + 1, "r0 has 'lm_head.weight', the trainer has not",
            "if it is 'model.embed.weight' under a second name");
}

/* It may be either of two, so nobody guesses. */
static void a_tensor_like_two_others_is_not_tied(void **state)
{
    (void)state;
    const weft_tensor mine[] = {model[0], {"twin", WEFT_BF16, 2, SHAPE(32, 16)}, {"new", WEFT_BF16, 2, SHAPE(32, 16)}};
    const weft_match_side a = side_of("a", mine, 3), b = side_of("b", mine, 2);
    char text[WEFT_MATCH_TEXT];
    assert_int_equal(weft_match_by_name(&a, &b, NULL, text), WEFT_E_LAYOUT);
    assert_string_equal(text, "a has 'new', b has not: give both ends the same tensors");
}

/* Pieces by the other side's numbers; one that names no tensor is left to the bind, which refuses it. */
static void pieces_are_renumbered(void **state)
{
    const weft_tensor other[] = {model[2], model[0], model[3], model[1]};
    const weft_match_side mine = side_of("a", other, COUNT), theirs = side_of("b", model, COUNT),
                          few = side_of("c", model, 2);
    char memory[1];
    const weft_piece pieces[] = {{1, 5, 6, memory}, {0, 0, 1, NULL}, {COUNT, 0, 1, NULL}, {UINT64_MAX, 0, 1, NULL}};
    static const uint64_t wanted[] = {0, 2, COUNT, UINT64_MAX};
    const uint64_t blocks = weft_mem_blocks();
    weft_piece *made = NULL;
    (void)state;
    assert_int_equal(weft_match_pieces(&mine, &few, pieces, 4, &made), WEFT_E_LAYOUT);
    assert_null(made);
    assert_int_equal(weft_mem_blocks(), blocks);
    assert_int_equal(weft_match_pieces(&mine, &theirs, pieces, 4, &made), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(made[i].tensor, wanted[i]);
        assert_int_equal(made[i].first, pieces[i].first);
        assert_int_equal(made[i].count, pieces[i].count);
        assert_ptr_equal(made[i].data, pieces[i].data);
    }
    weft_mem_give(made);
}

static void dtype_shape_and_absence_are_said(void **state)
{
    (void)state;
    weft_tensor other[] = {model[0], model[1], model[2], model[3]};
    other[1].dtype = WEFT_F32;
    DIFFERS(other, COUNT, "'model.layers.0.up.weight' is F32 in r0 and BF16 in the trainer",
            "publish in the dtype that engines hold");
    other[1] = model[1];
    other[0].shape = SHAPE(64, 16);
    DIFFERS(other, COUNT, "'model.embed.weight' is [64,16] in r0 and [32,16] in the trainer", "padding");
    DIFFERS(model, 2, "2 tensors differ: the trainer has 'model.layers.0.norm.weight', r0 has not; the trainer has",
            "give both ends the same tensors");
    other[0].rank = 1;
    other[0].shape = SHAPE(32);
    DIFFERS(other, COUNT, "'model.embed.weight' is [32] in r0 and [32,16] in the trainer");
    other[0].rank = 3;
    other[0].shape = SHAPE(32, 16, 1);
    DIFFERS(other, COUNT, "'model.embed.weight' is [32,16,1] in r0 and [32,16] in the trainer");
    other[0] = other[1];
    DIFFERS(other, COUNT, "differ"); /* a name that an end has twice */
}

/* Names of the greatest length, of characters of three bytes and of control characters fit the text. */
static void long_names_are_cut_and_cleaned(void **state)
{
    static const char longest[] = "an-end-whose-name-is-as-long-as-the-name-of-any-peer-may-be.....";
    char names[4][WEFT_MAX_NAME + 1], guard[WEFT_MATCH_TEXT];
    struct {
        char text[WEFT_MATCH_TEXT], guard[WEFT_MATCH_TEXT];
    } said;
    char *text = said.text;
    weft_tensor mine[4], theirs[4];
    (void)state;
    memset(guard, 0x55, sizeof guard);
    memset(said.guard, 0x55, sizeof said.guard);
    for (int i = 0; i < 4; i++) {
        for (int at = 0; at + 3 <= WEFT_MAX_NAME; at += 3)
            memcpy(names[i] + at, "\xe2\x82\xac", 3);
        names[i][504] = '\n';
        names[i][505] = (char)('0' + i);
        names[i][506] = 0;
        mine[i] = theirs[i] = (weft_tensor){names[i], WEFT_BF16, 2, SHAPE(UINT64_MAX, UINT64_MAX)};
        theirs[i].dtype = WEFT_F8_E4M3FNUZ;
    }
    const weft_match_side a = side_of(longest, mine, 4), b = side_of(longest, theirs, 4);
    assert_int_equal(weft_match_by_name(&a, &b, NULL, text), WEFT_E_LAYOUT);
    assert_non_null(strstr(text, "4 tensors differ: '\xe2\x82\xac"));
    assert_non_null(strstr(text, "publish in the dtype"));
    assert_null(strchr(text, '\n'));
    assert_memory_equal(said.guard, guard, sizeof guard);
}

static void layouts_are_matched_by_the_public_call(void **state)
{
    const weft_tensor other[] = {model[1], model[0]};
    weft_layout *a = NULL, *b = NULL;
    uint64_t order[2];
    (void)state;
    assert_int_equal(weft_layout_create(model, 2, &a), WEFT_OK);
    assert_int_equal(weft_layout_create(other, 2, &b), WEFT_OK);
    assert_int_equal(weft_layout_match(a, b, order), WEFT_OK);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 0);
    weft_layout_free(b);
    assert_int_equal(weft_layout_create(other, 1, &b), WEFT_OK);
    assert_int_equal(weft_layout_match(a, b, NULL), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "'model.embed.weight'"));
    weft_layout_free(b);
    weft_layout_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_order_is_no_difference),
        cmocka_unit_test(a_prefix_is_found_at_either_end),
        cmocka_unit_test(a_tensor_under_two_names_is_found),
        cmocka_unit_test(a_tensor_like_two_others_is_not_tied),
        cmocka_unit_test(pieces_are_renumbered),
        cmocka_unit_test(dtype_shape_and_absence_are_said),
        cmocka_unit_test(long_names_are_cut_and_cleaned),
        cmocka_unit_test(layouts_are_matched_by_the_public_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Shares: the boxes of each kind of rule, rules that do not fit, and the keys that a view takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "shard/share.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { Q, O, BIAS, STACK, EXPERT_0, EXPERT_3, EMBED, EMPTY, SCALAR, PACKED, TENSORS };

static weft_layout *layout;

static int setup(void **state)
{
    static const uint64_t q[] = {12, 6}, o[] = {6, 12}, bias[] = {12}, stack[] = {3, 4, 5}, expert[] = {2, 2},
                          embed[] = {10, 6}, empty[] = {0, 6}, packed[] = {4, 6};
    const weft_tensor tensors[TENSORS] = {{"layers.0.q", WEFT_BF16, 2, q},
                                          {"layers.1.o", WEFT_BF16, 2, o},
                                          {"layers.2.q.bias", WEFT_BF16, 1, bias},
                                          {"layers.3.stack", WEFT_F32, 3, stack},
                                          {"layers.3.experts.0.up", WEFT_BF16, 2, expert},
                                          {"layers.3.experts.3.up", WEFT_BF16, 2, expert},
                                          {"embed", WEFT_BF16, 2, embed},
                                          {"empty", WEFT_BF16, 2, empty},
                                          {"scalar", WEFT_F32, 0, NULL},
                                          {"packed", WEFT_F4, 2, packed}};
    (void)state;
    return weft_layout_create(tensors, TENSORS, &layout) != WEFT_OK;
}

static int teardown(void **state)
{
    (void)state;
    weft_layout_free(layout);
    return 0;
}

static weft_share share_of(const weft_share_rule *rules, uint64_t count)
{
    weft_share share = {0};
    if (weft_share_open(layout, rules, count, &share) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return share;
}

static void assert_slices(weft_share_rule rule, const weft_slice *slices, uint64_t count)
{
    weft_share share = share_of(&rule, 1);
    assert_int_equal(share.slice_count, count);
    for (uint64_t i = 0; i < count; i++)
        assert_memory_equal(&share.slices[i], &slices[i], sizeof *slices);
    weft_share_close(&share);
}

static weft_share_rule part(const char *patterns, uint32_t dimension, uint64_t number, uint64_t parts)
{
    return (weft_share_rule){
        .patterns = patterns, .kind = WEFT_SHARE_PART, .dimension = dimension, .part = number, .parts = parts};
}

static weft_share_rule ranges(const char *patterns, uint32_t dimension, const weft_range *list, uint64_t count)
{
    return (weft_share_rule){
        .patterns = patterns, .kind = WEFT_SHARE_RANGES, .dimension = dimension, .ranges = list, .range_count = count};
}

static weft_share_rule elements(const char *patterns, const weft_range *range)
{
    return (weft_share_rule){.patterns = patterns, .kind = WEFT_SHARE_ELEMENTS, .ranges = range, .range_count = 1};
}

static void parts_are_boxes(void **state)
{
    (void)state;
    assert_slices(part("*.q", 0, 1, 3), (weft_slice[]){{Q, 4, 4, 0, 6}}, 1);
    assert_slices(part("*.o", 1, 3, 4), (weft_slice[]){{O, 0, 6, 9, 3}}, 1);
    assert_slices(part("*.bias", 0, 2, 3), (weft_slice[]){{BIAS, 0, 1, 8, 4}}, 1);
    assert_slices(part("*.stack", 0, 2, 3), (weft_slice[]){{STACK, 8, 4, 0, 5}}, 1);
    assert_slices(part("*.stack", 1, 1, 2),
                  (weft_slice[]){{STACK, 2, 2, 0, 5}, {STACK, 6, 2, 0, 5}, {STACK, 10, 2, 0, 5}}, 3);
    assert_slices(part("*.stack", 2, 4, 5), (weft_slice[]){{STACK, 0, 12, 4, 1}}, 1);
}

static void padding_is_empty(void **state)
{
    (void)state;
    weft_share_rule rule = part("embed", 0, 0, 4);
    rule.pad = 16;
    assert_slices(rule, (weft_slice[]){{EMBED, 0, 4, 0, 6}}, 1);
    rule.part = 2;
    assert_slices(rule, (weft_slice[]){{EMBED, 8, 2, 0, 6}}, 1);
    rule.part = 3;
    assert_slices(rule, NULL, 0);
}

static void ranges_are_boxes(void **state)
{
    (void)state;
    static const weft_range list[] = {{0, 1}, {2, 2}};
    assert_slices(ranges("*.q", 0, list, 2), (weft_slice[]){{Q, 0, 1, 0, 6}, {Q, 2, 2, 0, 6}}, 2);
    assert_slices(ranges("*.o", 1, list, 2), (weft_slice[]){{O, 0, 6, 0, 1}, {O, 0, 6, 2, 2}}, 2);
    assert_slices(ranges("*.stack", 1, list, 2),
                  (weft_slice[]){{STACK, 0, 1, 0, 5},
                                 {STACK, 2, 2, 0, 5},
                                 {STACK, 4, 1, 0, 5},
                                 {STACK, 6, 2, 0, 5},
                                 {STACK, 8, 1, 0, 5},
                                 {STACK, 10, 2, 0, 5}},
                  6);
    assert_slices(ranges("*.q", 0, NULL, 0), NULL, 0);
}

static void elements_are_three_boxes_at_most(void **state)
{
    (void)state;
    static const weft_range all = {0, 72}, within = {13, 3}, three = {4, 20}, two = {6, 8}, none = {72, 0};
    assert_slices(elements("*.q", &all), (weft_slice[]){{Q, 0, 12, 0, 6}}, 1);
    assert_slices(elements("*.q", &within), (weft_slice[]){{Q, 2, 1, 1, 3}}, 1);
    assert_slices(elements("*.q", &three), (weft_slice[]){{Q, 0, 1, 4, 2}, {Q, 1, 3, 0, 6}}, 2);
    assert_slices(elements("*.o", &three), (weft_slice[]){{O, 0, 1, 4, 8}, {O, 1, 1, 0, 12}}, 2);
    assert_slices(elements("*.q", &two), (weft_slice[]){{Q, 1, 1, 0, 6}, {Q, 2, 1, 0, 2}}, 2);
    assert_slices(elements("*.q", &none), NULL, 0);
    static const weft_range torn = {5, 14};
    assert_slices(elements("*.q", &torn), (weft_slice[]){{Q, 0, 1, 5, 1}, {Q, 1, 2, 0, 6}, {Q, 3, 1, 0, 1}}, 3);
}

static void the_first_rule_decides(void **state)
{
    (void)state;
    weft_share_rule rules[] = {
        {.patterns = "*.experts.*", .group = 1, .groups = 2},
        {.patterns = "*.stack", .by_layer = true, .layers = {0, 3}},
        {.patterns = "layers.*", .by_layer = true, .layers = {1, 3}},
        {.patterns = "scalar, empty", .replica = true},
    };
    weft_share share = share_of(rules, COUNT(rules));
    static const uint64_t tensors[] = {O, BIAS, EXPERT_3, SCALAR};
    assert_int_equal(share.slice_count, COUNT(tensors));
    for (uint64_t i = 0; i < COUNT(tensors); i++) {
        assert_int_equal(share.slices[i].tensor, tensors[i]);
        assert_int_equal(share.contributed[i], tensors[i] != SCALAR);
    }
    assert_int_equal(share.portions[EMPTY].range_count, 1);
    assert_null(share.portions[EMBED].rule);
    weft_share_close(&share);
}

static void assert_refused(weft_share_rule rule, weft_status status, const char *text)
{
    weft_share share = {0};
    assert_int_equal(weft_share_open(layout, &rule, 1, &share), status);
    if (!strstr(weft_last_error(), text))
        fail_msg("'%s' has no '%s'", weft_last_error(), text);
    assert_null(share.slices);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    static const weft_range meet[] = {{0, 4}, {3, 1}}, wide[] = {{UINT64_MAX, 2}}, none[] = {{1, 0}};
    assert_refused((weft_share_rule){0}, WEFT_E_ARGUMENT, "rule 1 of the share: no patterns");
    assert_refused(part("*", 0, 0, 0), WEFT_E_ARGUMENT, "between 1 and 65536 parts");
    assert_refused(part("*", 0, 0, 65537), WEFT_E_ARGUMENT, "between 1 and 65536 parts");
    assert_refused(part("*", 0, 2, 2), WEFT_E_ARGUMENT, "not below");
    assert_refused(ranges("*.q", 0, meet, 2), WEFT_E_ARGUMENT, "range 2, 1 from 3 on");
    assert_refused(ranges("*.q", 0, wide, 1), WEFT_E_ARGUMENT, "range 1");
    assert_refused(ranges("*.q", 0, none, 1), WEFT_E_ARGUMENT, "not empty");
    assert_refused((weft_share_rule){.patterns = "*", .group = 2, .groups = 2}, WEFT_E_ARGUMENT, "groups of experts");
    assert_refused((weft_share_rule){.patterns = "*", .by_layer = true, .layers = {2, UINT64_MAX}}, WEFT_E_ARGUMENT,
                   "layers");
    assert_refused((weft_share_rule){.patterns = "*", .kind = WEFT_SHARE_ELEMENTS}, WEFT_E_ARGUMENT, "one range");
    weft_share share;
    assert_int_equal(weft_share_open(layout, NULL, WEFT_SHARE_RULES_MOST + 1, &share), WEFT_E_ARGUMENT);
}

static void misfits_are_refused(void **state)
{
    (void)state;
    static const weft_range past[] = {{11, 2}}, past_all[] = {{70, 3}}, odd[] = {{1, 2}};
    assert_refused(part("*.q", 0, 0, 5), WEFT_E_LAYOUT,
                   "layers.0.q: dimension 0 has 12, which 5 equal parts do not fit");
    assert_refused(part("*.q", 2, 0, 3), WEFT_E_LAYOUT, "has 2 dimensions, and the share cuts dimension 2");
    assert_refused(part("scalar", 0, 0, 1), WEFT_E_LAYOUT, "has 0 dimensions");
    assert_refused(ranges("*.q", 0, past, 1), WEFT_E_LAYOUT, "layers.0.q has 12 in that dimension");
    assert_refused(elements("*.q", past_all), WEFT_E_LAYOUT, "layers.0.q has 72 elements");
    assert_refused(ranges("packed", 1, odd, 1), WEFT_E_LAYOUT, "do not fill whole bytes");
    assert_refused((weft_share_rule){.patterns = "*.experts.*", .groups = 3}, WEFT_E_LAYOUT,
                   "3 equal groups do not fit the 4 experts");
    assert_refused((weft_share_rule){.patterns = "*.q", .groups = 3}, WEFT_E_LAYOUT, "the 0 experts");
}

/* The number of experts is that of all tensors that match, in whatever order these stand. */
static void experts_in_any_order(void **state)
{
    static const uint64_t shape[] = {2, 2};
    const weft_tensor tensors[] = {{"experts.3", WEFT_F32, 2, shape}, {"experts.0", WEFT_F32, 2, shape}};
    weft_layout *falling = NULL;
    (void)state;
    assert_int_equal(weft_layout_create(tensors, 2, &falling), WEFT_OK);
    for (uint64_t group = 0; group < 2; group++) {
        weft_share share;
        const weft_share_rule rule = {.patterns = "*", .group = group, .groups = 2};
        assert_int_equal(weft_share_open(falling, &rule, 1, &share), WEFT_OK);
        assert_int_equal(share.slice_count, 1);
        assert_int_equal(share.slices[0].tensor, 1 - group);
        weft_share_close(&share);
    }
    weft_layout_free(falling);
}

/* ---- keys */

static const weft_cut cuts[] = {{.name = "q", .patterns = "*.q, *.bias", .kind = WEFT_CUT_ROWS, .parts = 3},
                                {.name = "o", .patterns = "*.o", .kind = WEFT_CUT_COLUMNS, .parts = 4},
                                {.name = "experts", .kind = WEFT_CUT_EXPERT, .parts = 4}};

static weft_status keys_of(const weft_share_rule *rules, uint64_t count, bool *wanted, weft_cells *cells)
{
    weft_share share = share_of(rules, count);
    assert_int_equal(weft_cells_open(layout, cuts, COUNT(cuts), cells), WEFT_OK);
    const weft_status status = weft_share_keys(&share, cells, wanted);
    weft_share_close(&share);
    return status;
}

static void whole_keys_are_found(void **state)
{
    (void)state;
    const weft_share_rule rules[] = {
        part("*.q, *.bias", 0, 1, 3), part("*.o", 1, 1, 2), {.patterns = "*.experts.*", .group = 1, .groups = 2}};
    bool wanted[64] = {0};
    weft_cells cells;
    assert_int_equal(keys_of(rules, COUNT(rules), wanted, &cells), WEFT_OK);
    for (uint32_t k = 0; k < cells.key_count; k++) {
        const weft_cell_key *key = &cells.keys[k];
        const bool is = key->experts    ? key->experts == 4
                        : key->cut == 1 ? key->part == 1
                                        : key->cut == 2 && key->part >= 2;
        assert_int_equal(wanted[k], is);
    }
    weft_cells_close(&cells);
}

static void assert_no_keys(weft_share_rule rule, const char *text)
{
    bool wanted[64] = {0};
    weft_cells cells;
    assert_int_equal(keys_of(&rule, 1, wanted, &cells), WEFT_E_LAYOUT);
    if (!strstr(weft_last_error(), text))
        fail_msg("'%s' has no '%s'", weft_last_error(), text);
    weft_cells_close(&cells);
}

static void parts_of_keys_name_the_cut_that_is_missing(void **state)
{
    (void)state;
    static const weft_range list[] = {{2, 4}};
    assert_no_keys(part("*.q", 0, 0, 6), "not all of layers.0.q, 4 rows from 0 of 12, 6 columns from 0 of 6");
    assert_no_keys(part("*.q", 0, 0, 6), "[cut.NAME] with tensors = layers.0.q, rows = 6 would");
    assert_no_keys(part("*.q", 1, 0, 6), ", columns = 6 would");
    assert_no_keys(part("*.stack", 1, 0, 2), ", middle = 2 would");
    assert_no_keys(ranges("*.q", 0, list, 1), ", by = rows, at = 2, 6 would");
    assert_no_keys((weft_share_rule){.patterns = "embed"}, "nothing of layers.3.stack, 12 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_boxes),        cmocka_unit_test(padding_is_empty),
        cmocka_unit_test(ranges_are_boxes),       cmocka_unit_test(elements_are_three_boxes_at_most),
        cmocka_unit_test(the_first_rule_decides), cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(misfits_are_refused),    cmocka_unit_test(experts_in_any_order),
        cmocka_unit_test(whole_keys_are_found),   cmocka_unit_test(parts_of_keys_name_the_cut_that_is_missing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

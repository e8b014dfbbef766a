/* [cut.NAME] sections: which go together, and the rules that they come to. */
#include "tests/support/site_refused.h"

#include "shard/cut.h"
#include "site/site_text.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static weft_site *load(const char *text, const char *const *overrides, size_t count)
{
    weft_site *site = NULL;
    site_scratch_write(&scratch, text, strlen(text));
    if (weft_site_load(scratch.path, overrides, count, &site) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return site;
}

static void bad_cuts_are_refused(void **state)
{
    static const bad_site bad[] = {
        {"[cut]\n", 1, "[cut]: need [cut.NAME], such as [cut.heads]"},
        {"[cut.]\n", 1, "[cut.]: a cut's name is 1 to 63 of a-z 0-9 _ -"},
        {"[cut.a*]\n", 1, "[cut.a*]: a cut's name is 1 to 63"},
        {"[cut.a]\nrows = 0\n", 2, "[cut.a] rows = 0: need none or a whole number without a unit (1..65536)"},
        {"[cut.a]\nrows = 65537\n", 2, "[cut.a] rows = 65537: need none or"},
        {"[cut.a]\nat = 4, 4\n", 2, "[cut.a] at = 4, 4: need 1 to 128 rising numbers between commas, or empty"},
        {"[cut.a]\nat = 4, 3\n", 2, "[cut.a] at = 4, 3: need"},
        {"[cut.a]\nat = 4,\n", 2, "[cut.a] at = 4,: need"},
        {"[cut.a]\nat = -1\n", 2, "[cut.a] at = -1: need"},
        {"[cut.a]\nat = 18446744073709551616\n", 2, "[cut.a] at = 18446744073709551616: need"},
        {"[cut.a]\nby = head\n", 2, "[cut.a] by = head: need none | rows | columns | middle | layer | expert"},
        {"[cut.a]\ngroups = many\n", 2, "[cut.a] groups = many: need"},
        {"[peers]\ngroups = 8\n", 2, "[peers] groups: this key belongs to [cut.NAME]"},
        {"[cut.a]\nrow = 8\n", 2, "[cut.a] row: no such key; did you mean rows?"},
        {"\n[cut.a]\ntensors = x\nrows = 8\ncolumns = 8\n", 2, "[cut.a]: rows, columns and middle exclude each other"},
        {"[cut.a]\ntensors = x\nrows = 8\nby = rows\nat = 8\n", 1, "[cut.a]: by goes with at or groups: leave rows"},
        {"[cut.a]\nby = expert\n", 1, "[cut.a]: by = expert needs groups, and no at"},
        {"[cut.a]\nby = expert\ngroups = 2\nat = 4\n", 1, "[cut.a]: by = expert needs groups, and no at"},
        {"[cut.a]\nby = layer\n", 1, "[cut.a]: by needs at = where parts begin"},
        {"[cut.a]\ntensors = x\nat = 4\n", 1, "[cut.a]: at needs by = rows, columns, middle or layer"},
        {"[cut.a]\ngroups = 4\n", 1, "[cut.a]: groups needs by = expert"},
        {"[cut.a]\nby = layer\nat = 4\npad = 4\n", 1, "[cut.a]: pad needs rows, columns or middle"},
        {"[cut.a]\nrows = 4\n", 1, "[cut.a]: need tensors = patterns of names, such as *.o_proj.weight"},
        {"[cut.a]\nby = columns\nat = 4\n", 1, "[cut.a]: need tensors"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_refused(&bad[i], NULL);
}

static void sections_come_to_rules(void **state)
{
    static const char text[] = "[cut.o]\ntensors = *.o_proj.weight, *.down_proj.weight\ncolumns = 8\n"
                               "[cut.vocabulary]\ntensors = *embed_tokens*\nrows = 8\npad = 64\n"
                               "[cut.fused]\ntensors = *.qkv.weight\nby = rows\nat = 0, 4096, 5120\n"
                               "[cut.stages]\nby = layer\nat = 24\n"
                               "[cut.experts]\nby = expert\ngroups = 8\n"
                               "[cut.scales]\ntensors = fp8/*\n"
                               "[cut.stacked]\ntensors = *.experts\nmiddle = 4\n"
                               "[cut.nothing]\n";
    static const weft_cut_kind kinds[] = {WEFT_CUT_COLUMNS, WEFT_CUT_ROWS,  WEFT_CUT_ROWS,   WEFT_CUT_LAYER,
                                          WEFT_CUT_EXPERT,  WEFT_CUT_ALONE, WEFT_CUT_MIDDLE, WEFT_CUT_ALONE};
    static const uint64_t parts[] = {8, 8, 0, 0, 8, 0, 4, 0};
    weft_cut cuts[COUNT(kinds)];
    (void)state;
    weft_site *site = load(text, NULL, 0), *copy;
    assert_int_equal(weft_site_copy(site, &copy), WEFT_OK);
    weft_site_free(site); /* rules borrow from the copy */
    assert_int_equal(copy->cut_count, COUNT(kinds));
    weft_site_cuts(copy, cuts);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        assert_int_equal(cuts[i].kind, kinds[i]);
        assert_int_equal(cuts[i].parts, parts[i]);
        assert_int_equal(cuts[i].pad, i == 1 ? 64 : 0);
    }
    assert_string_equal(cuts[0].name, "o");
    assert_true(weft_cut_matches(&cuts[0], "model.layers.3.mlp.down_proj.weight"));
    assert_int_equal(cuts[2].at_count, 3);
    assert_int_equal(cuts[2].at[2], 5120);
    assert_int_equal(cuts[3].at[0], 24);
    assert_true(weft_cut_matches(&cuts[3], "anything") && weft_cut_matches(&cuts[4], "anything"));
    assert_false(weft_cut_matches(&cuts[7], "anything"));
    weft_site_free(copy);
}

static void overrides_make_cuts(void **state)
{
    static const char *const overrides[] = {"cut.o.columns=4", "cut.new.tensors=*.norm.weight", "cut.stages.by=layer",
                                            "cut.stages.at=1, 2"};
    char text[64];
    (void)state;
    weft_site *site = load("[cut.o]\ntensors = *.o_proj.weight\ncolumns = 8\n", overrides, COUNT(overrides));
    assert_int_equal(site->cut_count, 3);
    assert_int_equal(site->cuts[0].columns, 4);
    assert_string_equal(site->cuts[1].name, "new");
    assert_int_equal(site->cuts[2].number_count, 2);
    assert_int_equal(weft_site_get(site, NULL, "cut.stages.at", text, sizeof text), WEFT_OK);
    assert_string_equal(text, "1, 2");
    assert_int_equal(weft_site_get(site, NULL, "cut.o.rows", text, sizeof text), WEFT_OK);
    assert_string_equal(text, "none");
    assert_int_equal(weft_site_get(site, NULL, "cut.none.rows", text, sizeof text), WEFT_E_ARGUMENT);
    assert_int_equal(weft_site_get(site, NULL, "cut.rows", text, sizeof text), WEFT_E_ARGUMENT);
    weft_site_free(site);
}

static void lists_have_bounds(void **state)
{
    char text[600] = "";
    uint64_t numbers[WEFT_SITE_NUMBERS];
    (void)state;
    for (uint32_t i = 0, at = 0; i <= WEFT_SITE_NUMBERS; i++) {
        at += (uint32_t)snprintf(text + at, sizeof text - at, "%s%u", i ? "," : "", i);
        assert_int_equal(weft_site_numbers(text, numbers), i < WEFT_SITE_NUMBERS ? i + 1 : 0);
    }
    assert_int_equal(weft_site_numbers("0, 18446744073709551615", numbers), 2);
    assert_true(numbers[1] == UINT64_MAX);
    assert_int_equal(weft_site_numbers("", NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_cuts_are_refused), cmocka_unit_test(sections_come_to_rules),
                                       cmocka_unit_test(overrides_make_cuts), cmocka_unit_test(lists_have_bounds)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

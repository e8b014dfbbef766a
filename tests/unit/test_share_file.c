/* Share files: every key is read, what is written is read back, and what is wrong is refused with its rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/share_file.h"
#include "tests/support/model_scratch.h"

#define RULES(rules) "{\"form\": \"weft share 1\", \"rules\": [" rules "]}"

static weft_share_file read_text(const char *text)
{
    weft_share_file file;
    if (weft_share_file_read(text, strlen(text), &file) != WEFT_OK)
        fail_msg("%s: %s", text, weft_last_error());
    return file;
}

static const char every_key[] =
    RULES("{\"tensors\": \"*.q, *.k\", \"dimension\": 1, \"part\": 2, \"parts\": 8, \"pad\": 64},"
          "{\"tensors\": \"fused\", \"ranges\": [[0, 5], [7, 9]], \"dimension\": 0},"
          "{\"tensors\": \"none\", \"ranges\": [], \"dimension\": 0, \"contributes\": true},"
          "{\"tensors\": \"flat\", \"elements\": [3, 4]},"
          "{\"tensors\": \"*\", \"layers\": [1, 2], \"experts\": [1, 4], \"contributes\": false}");

static void assert_every_key(const weft_share_file *file)
{
    const weft_share_rule *rules = file->rules;
    assert_int_equal(file->count, 5);
    assert_string_equal(rules[0].patterns, "*.q, *.k");
    assert_int_equal(rules[0].kind, WEFT_SHARE_PART);
    assert_int_equal(rules[0].dimension, 1);
    assert_int_equal(rules[0].part, 2);
    assert_int_equal(rules[0].parts, 8);
    assert_int_equal(rules[0].pad, 64);
    assert_int_equal(rules[1].kind, WEFT_SHARE_RANGES);
    assert_int_equal(rules[1].range_count, 2);
    assert_memory_equal(rules[1].ranges, ((weft_range[]){{0, 5}, {7, 9}}), 2 * sizeof(weft_range));
    assert_int_equal(rules[2].kind, WEFT_SHARE_RANGES);
    assert_int_equal(rules[2].range_count, 0);
    assert_false(rules[2].replica);
    assert_int_equal(rules[3].kind, WEFT_SHARE_ELEMENTS);
    assert_memory_equal(rules[3].ranges, &((weft_range){3, 4}), sizeof(weft_range));
    assert_int_equal(rules[4].kind, WEFT_SHARE_WHOLE);
    assert_true(rules[4].by_layer && rules[4].replica);
    assert_memory_equal(&rules[4].layers, &((weft_range){1, 2}), sizeof(weft_range));
    assert_int_equal(rules[4].group, 1);
    assert_int_equal(rules[4].groups, 4);
}

static void every_key_is_read(void **state)
{
    (void)state;
    weft_share_file file = read_text(every_key);
    assert_every_key(&file);
    weft_share_file_close(&file);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    weft_share_file file = read_text(every_key), again;
    snprintf(path, sizeof path, "%s/rank.json", folder);
    assert_int_equal(weft_share_file_save(file.rules, file.count, path), WEFT_OK);
    weft_share_file_close(&file);
    assert_int_equal(weft_share_file_open(path, &again), WEFT_OK);
    assert_every_key(&again);
    weft_share_file_close(&again);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } wrong[] = {
        {"", "no JSON at line 1"},
        {"{", "no JSON at line 1"},
        {"[]", "no share file"},
        {"{\"form\": \"weft share 2\", \"rules\": []}", "need \"form\": \"weft share 1\""},
        {"{\"form\": \"weft share 1\"}", "needs a list of rules"},
        {"{\"form\": \"weft share 1\", \"rules\": [], \"rule\": 1}", "no 'rule'"},
        {"{\"form\": \"weft share 1\", \"form\": \"weft share 1\", \"rules\": []}", "duplicate"},
        {RULES("7"), "rule 1: need an object"},
        {RULES("{\"tensors\": \"*\"}, {}"), "rule 2: no tensors"},
        {RULES("{\"tensors\": \" ,\", \"elements\": [0, 1]}"), "rule 1: tensors"},
        {RULES("{\"tensors\": 1}"), "rule 1: tensors"},
        {RULES("{\"tensors\": \"*\", \"colour\": 1}"), "has the key 'colour'"},
        {RULES("{\"tensors\": \"*\", \"part\": 1, \"dimension\": 0}"), "part and parts go together"},
        {RULES("{\"tensors\": \"*\", \"part\": 0, \"parts\": 1}"), "dimension goes with"},
        {RULES("{\"tensors\": \"*\", \"dimension\": 0}"), "dimension goes with"},
        {RULES("{\"tensors\": \"*\", \"pad\": 2}"), "pad goes with"},
        {RULES("{\"tensors\": \"*\", \"ranges\": [], \"elements\": [0, 1], \"dimension\": 0}"), "exclude each other"},
        {RULES("{\"tensors\": \"*\", \"part\": -1, \"parts\": 1, \"dimension\": 0}"), "part: need"},
        {RULES("{\"tensors\": \"*\", \"part\": 0, \"parts\": 1.5, \"dimension\": 0}"), "parts: need"},
        {RULES("{\"tensors\": \"*\", \"part\": 0, \"parts\": 1, \"dimension\": 16}"), "dimension: need"},
        {RULES("{\"tensors\": \"*\", \"part\": 0, \"parts\": 1, \"dimension\": 0, \"pad\": 0}"), "pad: need"},
        {RULES("{\"tensors\": \"*\", \"ranges\": [[1]], \"dimension\": 0}"), "ranges: need"},
        {RULES("{\"tensors\": \"*\", \"ranges\": 4, \"dimension\": 0}"), "ranges: need"},
        {RULES("{\"tensors\": \"*\", \"elements\": [0, 1, 2]}"), "elements: need"},
        {RULES("{\"tensors\": \"*\", \"layers\": [0]}"), "layers: need"},
        {RULES("{\"tensors\": \"*\", \"experts\": [0, 0]}"), "experts: need"},
        {RULES("{\"tensors\": \"*\", \"contributes\": 1}"), "contributes: need"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        weft_share_file file;
        assert_int_equal(weft_share_file_read(wrong[i].text, strlen(wrong[i].text), &file), WEFT_E_LAYOUT);
        if (!strstr(weft_last_error(), wrong[i].error))
            fail_msg("%s: '%s' has no '%s'", wrong[i].text, weft_last_error(), wrong[i].error);
        assert_null(file.rules);
    }
}

static void files_that_are_none_are_refused(void **state)
{
    (void)state;
    weft_share_file file;
    snprintf(path, sizeof path, "%s/rank.json", folder);
    assert_int_equal(weft_share_file_open(path, &file), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "rank.json: cannot be opened"));
    assert_int_equal(weft_share_file_open(folder, &file), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "not a regular file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, folder_make, folder_remove),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test_setup_teardown(files_that_are_none_are_refused, folder_make, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

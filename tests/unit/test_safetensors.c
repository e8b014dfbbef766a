/* Safetensors: which headers and files are refused and why, and what is read from good ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layout/layout.h"
#include "tests/support/model_scratch.h"

static void open_refused(weft_status wanted, const char *words)
{
    weft_model *model = NULL;
    weft_status status = weft_model_open(path, 0, &model);
    assert_null(model);
    if (status != wanted || !strstr(weft_last_error(), words))
        fail_msg("wanted %s with \"%s\", got %s with \"%s\"", weft_status_name(wanted), words, weft_status_name(status),
                 weft_last_error());
    assert_non_null(strstr(weft_last_error(), path));
}

static void bad_headers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t data;
        const char *words;
    } table[] = {
        {"[]", 0, "does not begin with '{'"},
        {"  ", 0, "does not begin with '{'"},
        {"{\"a\":", 0, "JSON header is wrong at byte"},
        {"{} x", 0, "JSON header is wrong"},
        {"{\"a\"}", 0, "':' is missing"},
        {"{7:8}", 0, "a name in quotes is missing"},
        {"{" T("a", "U8", "[1]", 0, 1) ",}", 1, "a name in quotes is missing"},
        {"{" T("a", "U8", "[1]", 0, 1) " " T("b", "U8", "[1]", 1, 2) "}", 2, "',' or '}' is missing"},
        {"{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}", 2, "tensor a: a gap before it"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate object key"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ is there twice"},
        {"{\"a\":[\"U8\",[1],[0,1],1]}", 1, "tensor a: not described by an object"},
        {"{\"a\\u0000\":[\"U8\",[1],[0,1]]}", 1, "tensor a: a zero byte in its name"},
        {"{\"__metadata__\\u0000\":{}}", 0, "tensor __metadata__: a zero byte in its name"},
        {"{\"a\":7}", 0, "tensor a: not described by an object"},
        {"{\"a\":{\"shape\":[],\"data_offsets\":[0,1]}}", 1, "tensor a: dtype is missing"},
        {"{" T("a", "BF17", "[1]", 0, 2) "}", 2, "tensor a: unknown dtype BF17"},
        {"{" T("a", "bf16", "[1]", 0, 2) "}", 2, "unknown dtype bf16"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "tensor a: shape is missing"},
        {"{" T("a", "U8", "[-1]", 0, 1) "}", 1, "size 0 of its shape"},
        {"{" T("a", "U8", "[1, 1.5]", 0, 1) "}", 1, "size 1 of its shape"},
        {"{" T("a", "U8", "[\"1\"]", 0, 1) "}", 1, "size 0 of its shape"},
        {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, "17 sizes; at most 16"},
        {"{" T("a", "U8", "[99999999999999999999]", 0, 1) "}", 1, "JSON header is wrong"},
        {"{" T("a", "U8", "[4294967296,4294967296]", 0, 0) "}", 0, "overflows 64 bits"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "tensor a: data_offsets are missing"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "not two whole numbers"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "not two whole numbers"},
        {"{" T("a", "U8", "[1]", -1, 0) "}", 1, "not two whole numbers"},
        {"{" T("a", "U8", "[2]", 2, 0) "}", 2, "tensor a: its data ends at 0 before it begins at 2"},
        {"{" T("a", "BF16", "[2,3]", 0, 10) "}", 10, "0 to 10 hold 10 bytes, dtype and shape need 12"},
        {"{" T("a", "F4", "[3]", 0, 1) "}", 1, "tensor a: 3 elements of F4 do not fill whole bytes"},
        {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 3, 7) "}", 7,
         "tensor b: its data begins at 3 and overlaps a, which ends at 4"},
        {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 0, 4) "}", 4,
         "tensor b: its data begins at 0 and overlaps a"},
        {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 6, 10) "}", 10,
         "tensor b: a gap before it: bytes 4 to 5"},
        {"{" T("a", "U8", "[4]", 1, 5) "}", 5, "tensor a: a gap before it: bytes 0 to 0"},
        {"{" T("a", "U8", "[4]", 0, 4) "}", 3, "cut short: tensor a ends at byte 4 of the data, the file has only 3"},
        {"{" T("a", "U8", "[1152921504606846976]", 0, 1152921504606846976) "}", 3, "units"},
        {"{" T("a", "U8", "[8589934592]", 0, 8589934592) "}", 3, "cut short: tensor a ends at byte 8589934592"},
        {"{" T("a", "U8", "[4]", 0, 4) "}", 6, "2 bytes after the last tensor"},
        {"{\"__metadata__\":7}", 0, "__metadata__ is no object"},
        {"{\"__metadata__\":{\"k\":7}}", 0, "value of k is no string"},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no name"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        file_write_padded(table[i].json, table[i].data);
        open_refused(WEFT_E_LAYOUT, table[i].words);
    }
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    const char *json = "{" T("a", "F32", "[1]", 0, 4) "}";
    unlink(path);
    open_refused(WEFT_E_FILE, "No such file");
    file_write("", 0, 0);
    open_refused(WEFT_E_LAYOUT, "says its JSON has 0");
    bytes_write(path, "1234567", 7);
    open_refused(WEFT_E_LAYOUT, "cut short: 7 bytes");
    file_write("{}", 3, 0);
    open_refused(WEFT_E_LAYOUT, "cut short: its header has 3 bytes, the file only 2");
    file_write("{}", 100000001, 0);
    open_refused(WEFT_E_LAYOUT, "too long: it says 100000001");
    file_write("{}", UINT64_MAX, 0);
    open_refused(WEFT_E_LAYOUT, "too long");
    file_write(json, strlen(json), 3);
    open_refused(WEFT_E_LAYOUT, "cut short: tensor a ends at byte 4");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    open_refused(WEFT_E_FILE, "which is the model?");
    assert_int_equal(rmdir(path), 0);
}

static void every_dtype_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        weft_dtype dtype;
        uint64_t bytes; /* of 8 elements */
    } dtypes[] = {
        {"F64", WEFT_F64, 64},
        {"I64", WEFT_I64, 64},
        {"U64", WEFT_U64, 64},
        {"C64", WEFT_C64, 64},
        {"F32", WEFT_F32, 32},
        {"I32", WEFT_I32, 32},
        {"U32", WEFT_U32, 32},
        {"BF16", WEFT_BF16, 16},
        {"F16", WEFT_F16, 16},
        {"I16", WEFT_I16, 16},
        {"U16", WEFT_U16, 16},
        {"F8_E4M3", WEFT_F8_E4M3, 8},
        {"F8_E5M2", WEFT_F8_E5M2, 8},
        {"F8_E8M0", WEFT_F8_E8M0, 8},
        {"BOOL", WEFT_BOOL, 8},
        {"U8", WEFT_U8, 8},
        {"I8", WEFT_I8, 8},
        {"F6_E2M3", WEFT_F6_E2M3, 6},
        {"F6_E3M2", WEFT_F6_E3M2, 6},
        {"F4", WEFT_F4, 4},
        {"F8_E4M3FNUZ", WEFT_F8_E4M3FNUZ, 8},
        {"F8_E5M2FNUZ", WEFT_F8_E5M2FNUZ, 8},
    };
    enum { COUNT = sizeof dtypes / sizeof dtypes[0] };
    char json[4096] = "{\"__metadata__\":{\"format\":\"pt\"}";
    uint64_t at = 0;
    for (int i = 0; i < COUNT; i++) {
        size_t used = strlen(json);
        snprintf(json + used, sizeof json - used,
                 ",\"t.%s\":{\"data_offsets\":[%d,%d],\"dtype\":\"%s\",\"shape\":[2,4]}", dtypes[i].name, (int)at,
                 (int)(at + dtypes[i].bytes), dtypes[i].name);
        at += dtypes[i].bytes;
    }
    strcat(json, "}");
    file_write_padded(json, at);
    weft_model *model = model_of(0);
    const weft_layout *layout = weft_model_layout(model);
    assert_int_equal(weft_layout_count(layout), COUNT);
    uint64_t count, value = 0;
    const weft_piece *pieces = weft_model_pieces(model, &count);
    assert_int_equal(count, COUNT);
    for (uint64_t t = 0; t < COUNT; t++) {
        weft_tensor tensor;
        assert_int_equal(weft_layout_tensor(layout, t, &tensor), WEFT_OK);
        assert_string_equal(tensor.name + 2, dtypes[t].name);
        assert_int_equal(tensor.dtype, dtypes[t].dtype);
        assert_int_equal(pieces[t].tensor, t);
        assert_int_equal(pieces[t].count, 8);
        for (uint64_t b = 0; b < dtypes[t].bytes; b++)
            assert_int_equal(((const uint8_t *)pieces[t].data)[b], (uint8_t)value++);
    }
    weft_binding binding;
    assert_int_equal(weft_binding_open((weft_layout *)(uintptr_t)layout, pieces, count, &binding), WEFT_OK);
    weft_binding_close(&binding);
    weft_model_close(model);
}

/* By data offset; empty tensors before the one they stand at, among themselves as in the header. */
static void tensors_go_by_offset(void **state)
{
    (void)state;
    file_write_padded("{" T("c", "U8", "[4]", 2, 6) "," T("e2", "F64", "[0]", 0, 0) "," T("a", "U8", "[2]", 0, 2) "," T(
                          "e1", "U8", "[3,0]", 0, 0) "," T("last", "BF16", "[0]", 6, 6) "}",
                      6);
    weft_model *model = model_of(0);
    const char *wanted[] = {"e2", "e1", "a", "c", "last"};
    for (uint64_t t = 0; t < 5; t++) {
        weft_tensor tensor;
        assert_int_equal(weft_layout_tensor(weft_model_layout(model), t, &tensor), WEFT_OK);
        assert_string_equal(tensor.name, wanted[t]);
    }
    weft_model_close(model);
    file_write_padded("{}", 0);
    weft_model_close(model_of(1));
}

/* The data of every tensor counts up from 0 through the file, wherever the tensor lies. */
static void counts_up(const weft_model *model)
{
    const weft_layout *layout = weft_model_layout(model);
    uint64_t count;
    uint8_t value = 0;
    const weft_piece *pieces = weft_model_pieces(model, &count);
    for (uint64_t t = 0; t < count; t++)
        for (uint64_t b = 0; b < layout->entries[t].bytes; b++)
            assert_int_equal(((const uint8_t *)pieces[t].data)[b], value++);
    weft_binding binding;
    if (weft_binding_open((weft_layout *)(uintptr_t)layout, pieces, count, &binding) != WEFT_OK)
        fail_msg("not to be bound: %s", weft_last_error());
    weft_binding_close(&binding);
}

/* As the format's own reader has it: headers of any length with blanks around, tensors at odd offsets, a tensor twice,
 * descriptions as lists. */
static void what_others_take_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t data, tensors;
    } table[] = {
        {"\n {} \t\r\n", 0, 0},
        {"{\"__metadata__\":null}", 0, 0},
        {"{\"__metadata__\":{\"a\":\"\\u0000\",\"a\":\"c\"}}", 0, 0},
        {"{" T("a", "F32", "[1]", 0, 4) "}", 4, 1},
        {"{" T("a", "F64", "[2]", 0, 16) "," T("b", "U8", "[3]", 16, 19) "," T("c", "BF16", "[5]", 19, 29) "}", 29, 3},
        {"{" T("a", "U8", "[3]", 0, 3) "," T("b", "C64", "[1]", 3, 11) "," T("n", "F64", "[0]", 3, 3) "}", 11, 3},
        {"{" T("a", "U8", "[9]", 7, 1) "," T("b", "U8", "[1]", 4, 5) "," T("a", "F32", "[1]", 0, 4) "}", 5, 2},
        {"{\"a\":[\"U8\",[1],[0,1]]}", 1, 1},
        {"{\"a\":{\"more\":[1,{\"b\":2.5}],\"dtype\":{\"U8\":null},\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (uint64_t blanks = 0; blanks < 9; blanks++) {
            char json[512];
            snprintf(json, sizeof json, "%s%*s", table[i].json, (int)blanks, "");
            file_write(json, strlen(json), table[i].data);
            weft_model *model = model_of(blanks % 2);
            assert_int_equal(weft_layout_count(weft_model_layout(model)), table[i].tensors);
            counts_up(model);
            weft_model_close(model);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_headers_are_refused),  cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(every_dtype_is_read),      cmocka_unit_test(tensors_go_by_offset),
        cmocka_unit_test(what_others_take_is_read),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

/* Safetensors: what is refused and why, what is mapped, what is saved, and files that change underneath. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layout.h"
#include "model/safetensors.h"

static char folder[64];
static char path[128];  /* the file under test */
static char other[128]; /* what is saved */

static int folder_make(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/weft-safetensors-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(other, sizeof other, "%s/saved.safetensors", folder);
    return 0;
}

static int folder_remove(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(folder); /* fails if a temporary was left behind */
}

static void bytes_write(const char *name, const void *bytes, size_t length)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Writes a file: the length, the JSON, `data` bytes of data that count up from 0. */
static void file_write(const char *json, uint64_t length, uint64_t data)
{
    static uint8_t bytes[1 << 20];
    uint64_t json_bytes = strlen(json);
    assert_true(8 + json_bytes + data <= sizeof bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> (8 * i));
    memcpy(bytes + 8, json, json_bytes);
    for (uint64_t i = 0; i < data; i++)
        bytes[8 + json_bytes + i] = (uint8_t)i;
    bytes_write(path, bytes, 8 + json_bytes + data);
}

/* The same with the JSON padded to 8 bytes as writers do. */
static void file_write_padded(const char *json, uint64_t data)
{
    char padded[8192];
    size_t length = (strlen(json) + 7) / 8 * 8;
    assert_true(length < sizeof padded);
    memset(padded, ' ', length);
    memcpy(padded, json, strlen(json));
    padded[length] = 0;
    file_write(padded, length, data);
}

static weft_model *model_of(int writable)
{
    weft_model *model = NULL;
    if (weft_model_open(path, writable, &model) != WEFT_OK)
        fail_msg("refused: %s", weft_last_error());
    return model;
}

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

#define T(name, dtype, shape, begin, end)                                                                              \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void bad_headers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t data;
        const char *words;
    } table[] = {
        {"[]", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"{\"a\":", 0, "JSON header is wrong at byte"},
        {"{} x", 0, "JSON header is wrong"},
        {"{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}", 2, "duplicate object key"},
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
        {"{" T("a", "U8", "[4]", 0, 4) "}", 6, "2 bytes behind the last tensor"},
        {"{" T("a", "U8", "[3]", 0, 3) "," T("b", "F32", "[1]", 3, 7) "}", 7,
         "tensor b: its data begins at 3, misaligned for F32 (4 bytes)"},
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
    file_write(json, strlen(json), 4);
    assert_true(strlen(json) % 4 != 0);
    open_refused(WEFT_E_LAYOUT, "pad the header with spaces");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    open_refused(WEFT_E_FILE, "not a regular file");
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
        {"F64", WEFT_F64, 64},        {"I64", WEFT_I64, 64},        {"U64", WEFT_U64, 64},
        {"C64", WEFT_C64, 64},        {"F32", WEFT_F32, 32},        {"I32", WEFT_I32, 32},
        {"U32", WEFT_U32, 32},        {"BF16", WEFT_BF16, 16},      {"F16", WEFT_F16, 16},
        {"I16", WEFT_I16, 16},        {"U16", WEFT_U16, 16},        {"F8_E4M3", WEFT_F8_E4M3, 8},
        {"F8_E5M2", WEFT_F8_E5M2, 8}, {"F8_E8M0", WEFT_F8_E8M0, 8}, {"BOOL", WEFT_BOOL, 8},
        {"U8", WEFT_U8, 8},           {"I8", WEFT_I8, 8},           {"F6_E2M3", WEFT_F6_E2M3, 6},
        {"F6_E3M2", WEFT_F6_E3M2, 6}, {"F4", WEFT_F4, 4},
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

static uint64_t file_bytes(const char *name, uint8_t *bytes, uint64_t capacity)
{
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    uint64_t length = fread(bytes, 1, capacity, file);
    fclose(file);
    return length;
}

static void saved_is_original(const char *saved)
{
    static uint8_t one[1 << 20], two[1 << 20];
    uint64_t length = file_bytes(path, one, sizeof one);
    assert_int_equal(file_bytes(saved, two, sizeof two), length);
    assert_memory_equal(one, two, length);
}

/* Keys in an unusual order, metadata, odd spaces: the raw header carries them. */
static const char *plain =
    "{  \"__metadata__\" : {\"x\":\"\\u00e9\"}," T("b", "BF16", "[100,3]", 8, 608) "," T("a", "F64", "[]", 0, 8) "}";

static void save_is_byte_identical(void **state)
{
    (void)state;
    file_write_padded(plain, 608);
    weft_model *model = model_of(0);
    uint64_t bytes;
    const void *header = weft_model_header(model, &bytes);
    assert_int_equal(weft_model_save(model, header, bytes, other), WEFT_OK);
    saved_is_original(other);
    struct stat facts;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(other, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0666 & ~mask);
    assert_int_equal(weft_model_save(model, header, bytes, path), WEFT_OK); /* over the file that is mapped */
    saved_is_original(other);
    weft_model_close(model);
}

/* A model of zeros with another layout order in memory than in the file. */
static void created_model_saves_in_file_order(void **state)
{
    (void)state;
    file_write_padded("{" T("a", "U8", "[8]", 0, 8) "," T("b", "F64", "[2]", 8, 24) "," T("c", "U8", "[3]", 24, 27) "}",
                      27);
    weft_model *original = model_of(0), *made = NULL;
    uint64_t count, bytes;
    const void *header = weft_model_header(original, &bytes);
    assert_int_equal(weft_model_create(weft_model_layout(original), &made), WEFT_OK);
    const weft_piece *from = weft_model_pieces(original, &count), *to = weft_model_pieces(made, &count);
    for (uint64_t t = 0; t < count; t++) {
        uint64_t tensor_bytes = weft_layout_tensor_bytes(weft_model_layout(made), t);
        for (uint64_t b = 0; b < tensor_bytes; b++)
            assert_int_equal(((uint8_t *)to[t].data)[b], 0);
        memcpy(to[t].data, from[t].data, tensor_bytes);
    }
    assert_int_equal(weft_model_save(made, header, bytes, other), WEFT_OK);
    saved_is_original(other);
    assert_null(weft_model_header(made, &bytes));
    assert_int_equal(bytes, 0);
    weft_model_close(original);
    weft_model_close(made);
}

static void save_checks_the_header(void **state)
{
    (void)state;
    file_write_padded(plain, 608);
    weft_model *model = model_of(0), *foreign;
    unlink(other);
    file_write_padded("{" T("b", "BF16", "[3,100]", 8, 608) "," T("a", "F64", "[]", 0, 8) "}", 608);
    foreign = model_of(0);
    uint64_t bytes;
    const void *header = weft_model_header(foreign, &bytes);
    assert_int_equal(weft_model_save(model, header, bytes, other), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "does not describe"));
    assert_int_equal(weft_model_save(model, header, bytes - 1, other), WEFT_E_LAYOUT);
    assert_int_equal(weft_model_save(model, NULL, 0, other), WEFT_E_LAYOUT);
    assert_int_equal(access(other, F_OK), -1);
    weft_model_close(model);
    weft_model_close(foreign);
}

static int files_in_folder(void)
{
    DIR *listing = opendir(folder);
    int count = 0;
    assert_non_null(listing);
    while (readdir(listing))
        count++;
    closedir(listing);
    return count - 2;
}

/* A limit on file sizes fails a write in the middle just as a full disk does. */
static void failed_save_leaves_the_old_file(void **state)
{
    (void)state;
    struct rlimit before, limit;
    file_write_padded(plain, 608);
    bytes_write(other, "old", 3);
    weft_model *model = model_of(0);
    uint64_t bytes;
    const void *header = weft_model_header(model, &bytes);
    int files = files_in_folder();
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 300;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    weft_status status = weft_model_save(model, header, bytes, other);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "File too large"));
    assert_non_null(strstr(weft_last_error(), other));
    assert_int_equal(files_in_folder(), files);
    uint8_t old[8];
    assert_int_equal(file_bytes(other, old, sizeof old), 3);
    assert_memory_equal(old, "old", 3);
    char nowhere[256];
    snprintf(nowhere, sizeof nowhere, "%s/absent/x", folder);
    assert_int_equal(weft_model_save(model, header, bytes, nowhere), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "No such file"));
    weft_model_close(model);
}

static void writable_mapping_spares_the_file(void **state)
{
    (void)state;
    file_write_padded(plain, 608);
    weft_model *model = model_of(1);
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(model, &count);
    memset(pieces[1].data, 0xff, 600);
    assert_int_equal(weft_model_unchanged(model), WEFT_OK);
    weft_model *fresh = model_of(0);
    const weft_piece *kept = weft_model_pieces(fresh, &count);
    assert_memory_not_equal(kept[1].data, pieces[1].data, 600);
    weft_model_close(model);
    weft_model_close(fresh);
}

static void change_is_noticed(void **state)
{
    (void)state;
    file_write_padded(plain, 608);
    weft_model *model = model_of(0);
    assert_int_equal(weft_model_unchanged(model), WEFT_OK);
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(weft_model_unchanged(model), WEFT_E_FILE);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(weft_model_unchanged(model), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "now it has 20"));
    weft_model_close(model);
}

/* Sums a whole model: the read that hits the missing page. */
static weft_status model_sum(void *user)
{
    weft_model *model = user;
    uint64_t count, sum = 0;
    const weft_piece *piece = weft_model_pieces(model, &count);
    for (uint64_t b = 0; b < piece[0].count; b++)
        sum += ((const volatile uint8_t *)piece[0].data)[b];
    return sum > 0 ? WEFT_OK : WEFT_E_STATE;
}

static void shrunken_file_is_an_error(void **state)
{
    (void)state;
    file_write_padded("{" T("a", "U8", "[100000]", 0, 100000) "}", 100000);
    weft_model *model = model_of(0);
    for (int round = 0; round < 2; round++)
        assert_int_equal(weft_model_guard(model, model_sum, model), WEFT_OK);
    assert_int_equal(truncate(path, 5000), 0);
    for (int round = 0; round < 2; round++) { /* the guard is whole again after it fired */
        assert_int_equal(weft_model_guard(model, model_sum, model), WEFT_E_FILE);
        assert_non_null(strstr(weft_last_error(), "cut short"));
    }
    uint64_t bytes;
    const void *header = weft_model_header(model, &bytes);
    unlink(other);
    assert_int_equal(weft_model_save(model, header, bytes, other), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "cut short"));
    assert_int_equal(access(other, F_OK), -1);
    weft_model_close(model);
}

static sigjmp_buf outer;
static void outer_handler(int number)
{
    (void)number;
    siglongjmp(outer, 1);
}

static weft_status read_elsewhere(void *user)
{
    return *(const volatile uint8_t *)user == 0 ? WEFT_OK : WEFT_E_STATE;
}

/* A fault outside the model's mapping goes to whoever cared before. */
static void foreign_fault_is_handed_on(void **state)
{
    (void)state;
    char name[160];
    snprintf(name, sizeof name, "%s/foreign", folder);
    int file = open(name, O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0);
    uint8_t *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0); /* of an empty file: any read faults */
    assert_ptr_not_equal(page, MAP_FAILED);
    close(file);
    unlink(name);
    file_write_padded(plain, 608);
    weft_model *model = model_of(0);
    struct sigaction action = {.sa_handler = outer_handler}, before;
    assert_int_equal(sigaction(SIGBUS, &action, &before), 0);
    volatile int handed_on = 0;
    if (sigsetjmp(outer, 1) == 0)
        weft_model_guard(model, read_elsewhere, page);
    else
        handed_on = 1;
    sigaction(SIGBUS, &before, NULL);
    assert_int_equal(handed_on, 1);
    munmap(page, 4096);
    weft_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_headers_are_refused),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(every_dtype_is_read),
        cmocka_unit_test(tensors_go_by_offset),
        cmocka_unit_test(save_is_byte_identical),
        cmocka_unit_test(created_model_saves_in_file_order),
        cmocka_unit_test(save_checks_the_header),
        cmocka_unit_test(failed_save_leaves_the_old_file),
        cmocka_unit_test(writable_mapping_spares_the_file),
        cmocka_unit_test(change_is_noticed),
        cmocka_unit_test(shrunken_file_is_an_error),
        cmocka_unit_test(foreign_fault_is_handed_on), /* last: its guard stays taken */
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

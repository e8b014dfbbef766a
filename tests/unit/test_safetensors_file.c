/* Safetensors files: saved whole or not at all, and changed underneath. */
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

#include "tests/support/model_scratch.h"

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

/* The header has any length, and the tensors are not aligned. */
static void unpadded_is_saved_as_it_is(void **state)
{
    (void)state;
    for (uint64_t blanks = 0; blanks < 8; blanks++) {
        char json[400];
        snprintf(json, sizeof json, " %s%*s", plain, (int)blanks, "");
        file_write(json, strlen(json), 608);
        weft_model *model = model_of(0);
        uint64_t bytes;
        const void *header = weft_model_header(model, &bytes);
        assert_int_equal(weft_model_save(model, header, bytes, other), WEFT_OK);
        saved_is_original(other);
        weft_model_close(model);
    }
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
    assert_non_null(strstr(weft_last_error(), "'b' is [3,100] in the header and [100,3] in the model"));
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
    char nowhere[620];
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
        assert_non_null(strstr(weft_last_error(), path));
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

/* A fault outside the model's mapping goes to the handler that was there before. */
static void foreign_fault_is_handed_on(void **state)
{
    (void)state;
    char name[620];
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
        cmocka_unit_test(save_is_byte_identical),
        cmocka_unit_test(unpadded_is_saved_as_it_is),
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

/* Whether a model file has all of its bytes, on file systems of the test's making: one that compresses has fewer blocks
 * than bytes and knows its holes, and another tells by blocks alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/safetensors.h"

#define BTRFS    0x9123683eu
#define NFS      0x6969u
#define ELEMENTS 4096u

static char path[300];
static unsigned kind;
static bool compressed;

int __real_fstat(int file, struct stat *facts);
int __wrap_fstat(int file, struct stat *facts);
int __wrap_fstatfs(int file, struct statfs *facts);

int __wrap_fstat(int file, struct stat *facts)
{
    const int result = __real_fstat(file, facts);
    if (compressed)
        facts->st_blocks /= 2;
    return result;
}

int __wrap_fstatfs(int file, struct statfs *facts)
{
    (void)file;
    *facts = (struct statfs){.f_type = (__typeof__(facts->f_type))kind};
    return 0;
}

static weft_status written(bool hole)
{
    char header[128] = "";
    snprintf(header + 8, sizeof header - 8, "{\"w\":{\"dtype\":\"BF16\",\"shape\":[%u],\"data_offsets\":[0,%u]}}",
             ELEMENTS, 2 * ELEMENTS);
    header[0] = (char)strlen(header + 8);
    const size_t bytes = 8 + strlen(header + 8);
    uint8_t data[2 * ELEMENTS];
    weft_model *model = NULL;
    memset(data, 7, sizeof data);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(header, 1, bytes, file), bytes);
    assert_int_equal(hole ? sizeof data : fwrite(data, 1, sizeof data, file), sizeof data);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(ftruncate(fileno(file), (off_t)(bytes + sizeof data)), 0);
    assert_int_equal(fsync(fileno(file)), 0); /* else there are no blocks yet */
    fclose(file);
    assert_int_equal(weft_model_open(path, 0, &model), WEFT_OK);
    const weft_status status = weft_model_written(model);
    weft_model_close(model);
    unlink(path);
    return status;
}

static int setup(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)state;
    snprintf(path, sizeof path, "%s/weft-written-XXXXXX", base ? base : "/tmp");
    const int file = mkstemp(path);
    return file >= 0 ? close(file) : -1;
}

static void test_fewer_blocks_where_files_are_compressed(void **state)
{
    (void)state;
    kind = BTRFS;
    compressed = true;
    assert_int_equal(written(false), WEFT_OK);
    assert_int_equal(written(true), WEFT_E_FILE);
}

static void test_fewer_blocks_elsewhere(void **state)
{
    (void)state;
    kind = NFS;
    compressed = false;
    assert_int_equal(written(false), WEFT_OK);
    compressed = true;
    assert_int_equal(written(false), WEFT_E_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewer_blocks_where_files_are_compressed),
        cmocka_unit_test(test_fewer_blocks_elsewhere),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}

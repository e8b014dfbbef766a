/* Packed byte strings of update files: what is packed comes back, and every zstd but one whole frame that says its size
 * is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "base/log.h"
#include "base/mem.h"
#include "tests/support/quiet.h"
#include "tests/support/zstd_bad.h"
#include "update/update_pack.h"

/* In memory of exactly their size. */
static weft_status unpack(const uint8_t *packed, uint64_t packed_bytes, uint64_t bytes, uint8_t **plain)
{
    uint8_t *exact = malloc(packed_bytes ? packed_bytes : 1);
    assert_non_null(exact);
    memcpy(exact, packed, packed_bytes);
    weft_status status = weft_update_unpack(exact, packed_bytes, bytes, plain);
    free(exact);
    return status;
}

static void what_is_packed_comes_back(void **state)
{
    static const uint64_t sizes[] = {1, 2, 10, 1000, 100000};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int noise = 0; noise < 2; noise++) {
            uint8_t *plain = malloc(sizes[i]), *packed, *back;
            uint64_t bytes, told, x = 1;
            assert_non_null(plain);
            for (uint64_t k = 0; k < sizes[i]; k++)
                plain[k] = (uint8_t)((x = x * 6364136223846793005u + 1) >> (noise ? 40 : 62));
            assert_int_equal(weft_update_pack(plain, sizes[i], &packed, &bytes), WEFT_OK);
            assert_in_range(bytes, 1, sizes[i]);
            assert_int_equal(unpack(packed, bytes, sizes[i], &back), WEFT_OK);
            assert_memory_equal(back, plain, sizes[i]);
            weft_mem_give(back);
            if (bytes < sizes[i]) {
                assert_int_equal(weft_update_unpacked(packed, bytes, sizes[i], &told), WEFT_OK);
                assert_int_equal(told, sizes[i]);
                assert_int_equal(weft_update_unpacked(packed, bytes, sizes[i] - 1, &told), WEFT_E_CORRUPT);
            }
            weft_mem_give(packed);
            free(plain);
        }
    }
}

/* More than a MiB is packed at a level that is soon done. */
static void much_is_packed_fast(void **state)
{
    static const uint64_t most = UINT64_C(1) << 20;
    (void)state;
    for (uint64_t bytes = most; bytes <= most + 1; bytes++) {
        uint8_t *plain = malloc(bytes), *packed, *wanted = malloc(bytes);
        uint64_t used, x = 1;
        assert_true(plain && wanted);
        for (uint64_t k = 0; k < bytes; k++)
            plain[k] = (uint8_t)((x = x * 6364136223846793005u + 1) >> 61);
        assert_int_equal(weft_update_pack(plain, bytes, &packed, &used), WEFT_OK);
        assert_int_equal(used, ZSTD_compress(wanted, bytes, plain, bytes, bytes > most ? 3 : 19));
        assert_memory_equal(packed, wanted, used);
        weft_mem_give(packed);
        free(wanted);
        free(plain);
    }
}

static void refused(void *user, const char *what, const uint8_t *packed, uint64_t bytes)
{
    uint32_t *count = user;
    uint8_t *plain = NULL;
    weft_status status = unpack(packed, bytes, ZSTD_BAD_PLAIN, &plain);
    if (status != WEFT_E_CORRUPT)
        fail_msg("%s: status %d", what, status);
    ++*count;
}

static void bad_zstd_is_refused(void **state)
{
    uint8_t packed[ZSTD_BAD_ROOM], *plain;
    uint32_t count = 0;
    (void)state;
    size_t bytes = zstd_bad_made(packed, ZSTD_BAD_PLAIN);
    assert_int_equal(unpack(packed, bytes, ZSTD_BAD_PLAIN, &plain), WEFT_OK); /* what the others are beside */
    weft_mem_give(plain);
    zstd_bad_each(refused, &count);
    assert_true(count > 20);
}

static void more_bytes_than_they_unpack_to_are_refused(void **state)
{
    uint8_t packed[ZSTD_BAD_ROOM], *plain;
    (void)state;
    size_t bytes = zstd_bad_made(packed, 10); /* a frame of more bytes than it holds */
    assert_true(bytes > 10);
    assert_int_equal(unpack(packed, bytes, 10, &plain), WEFT_E_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_comes_back),
        cmocka_unit_test(much_is_packed_fast),
        cmocka_unit_test(bad_zstd_is_refused),
        cmocka_unit_test(more_bytes_than_they_unpack_to_are_refused),
    };
    return cmocka_run_group_tests(tests, be_quiet, be_heard);
}

/* The slab of change lists: how much fits, where arrays lie, and that the need is what is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backends/host/host.h"
#include "encode/staging.h"
#include "layout/digest.h"

#define LISTS 4096

static const uint8_t widths[] = {1, 2, 4, 8};

/* Each byte of an array says which list and array it belongs to, so that overlaps show. */
static void paint(const weft_changes *changes, uint8_t width, uint64_t list)
{
    memset(changes->position, (int)(uint8_t)(3 * list), 4ull * changes->capacity);
    memset(changes->before, (int)(uint8_t)(3 * list + 1), (uint64_t)changes->capacity * width);
    memset(changes->after, (int)(uint8_t)(3 * list + 2), (uint64_t)changes->capacity * width);
}

static bool is_all(const void *memory, uint64_t bytes, uint8_t value)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (((const uint8_t *)memory)[i] != value)
            return false;
    return true;
}

static void is_painted(const weft_changes *changes, uint8_t width, uint64_t list)
{
    assert_true(is_all(changes->position, 4ull * changes->capacity, (uint8_t)(3 * list)));
    assert_true(is_all(changes->before, (uint64_t)changes->capacity * width, (uint8_t)(3 * list + 1)));
    assert_true(is_all(changes->after, (uint64_t)changes->capacity * width, (uint8_t)(3 * list + 2)));
}

static void is_aligned(const weft_changes *changes, uint8_t width)
{
    assert_int_equal((uintptr_t)changes % _Alignof(weft_changes), 0);
    assert_int_equal((uintptr_t)changes->position % 4, 0);
    assert_int_equal((uintptr_t)changes->before % width, 0);
    assert_int_equal((uintptr_t)changes->after % width, 0);
}

/* Takes random lists until one does not fit; the number taken, each painted, and what they need. */
static uint64_t take_until_full(weft_staging *staging, uint64_t seed, uint8_t width_of[LISTS])
{
    uint64_t list = 0, need = 0;
    for (;; list++) {
        uint32_t changed = (uint32_t)(weft_mix64(++seed) % 1000);
        uint8_t width = widths[weft_mix64(++seed) % 4];
        assert_true(list < LISTS);
        weft_changes *changes = weft_staging_take(staging, (uint32_t)list, changed, width);
        need += weft_staging_need(changed, width);
        if (!changes)
            break;
        assert_int_equal(changes->unit, list);
        assert_int_equal(changes->count, 0);
        assert_int_equal(changes->capacity, changed);
        is_aligned(changes, width);
        paint(changes, width, list);
        width_of[list] = width;
        assert_true(need <= staging->bytes);
    }
    assert_true(need > staging->bytes); /* it was refused for want of room, not before */
    return list;
}

static weft_status staging_open(weft_staging *staging, uint64_t bytes)
{
    return weft_staging_open(staging, &weft_backend_host, NULL, bytes, LISTS, "a test");
}

static void until_full(void **state)
{
    (void)state;
    static uint8_t width_of[LISTS];
    weft_staging staging;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(staging_open(&staging, (100u << 10) + 4096 * seed + seed), WEFT_OK);
        uint64_t lists = take_until_full(&staging, 1000 * seed, width_of);
        assert_int_equal(staging.count, lists);
        for (uint64_t i = 0; i < lists; i++) {
            const weft_changes *changes = weft_staging_at(&staging, i);
            assert_int_equal(changes->unit, i);
            assert_true((const uint8_t *)changes->after >= staging.memory);
            assert_true((const uint8_t *)(changes->position + changes->capacity) <= staging.memory + staging.used);
            is_painted(changes, width_of[i], i);
        }
        weft_staging_close(&staging);
    }
}

static void clear(void **state)
{
    (void)state;
    static uint8_t width_of[LISTS];
    weft_staging staging;
    assert_int_equal(staging_open(&staging, 1u << 20), WEFT_OK);
    uint64_t lists = take_until_full(&staging, 7, width_of);
    const weft_changes *first = weft_staging_at(&staging, 0);
    for (int round = 0; round < 3; round++) {
        weft_staging_clear(&staging);
        assert_int_equal(staging.count, 0);
        assert_int_equal(take_until_full(&staging, 7, width_of), lists);
        assert_ptr_equal(weft_staging_at(&staging, 0), first);
    }
    weft_staging_close(&staging);
    weft_staging_close(&staging); /* closing twice is no harm */
}

/* The trainer counts with the need: staging of just the sum takes all lists, one of a step less does not. */
static void need_is_exact(void **state)
{
    (void)state;
    for (uint32_t changed = 0; changed < 40; changed++) {
        for (size_t w = 0; w < 4; w++) {
            const uint64_t lists = 2 * (1 + changed % 7); /* two needs are whole steps of 16 bytes */
            uint64_t sum = lists * weft_staging_need(changed, widths[w]);
            weft_staging staging;
            assert_int_equal(sum % 16, 0);
            for (uint64_t less = 0; less <= 16; less += 16) {
                assert_int_equal(staging_open(&staging, sum - less), WEFT_OK);
                for (uint64_t i = 0; i < lists; i++) {
                    bool taken = weft_staging_take(&staging, 0, changed, widths[w]) != NULL;
                    assert_int_equal(taken, less == 0 || i + 1 < lists);
                }
                weft_staging_close(&staging);
            }
        }
    }
}

static void too_many(void **state)
{
    (void)state;
    weft_staging staging;
    assert_int_equal(weft_staging_open(&staging, &weft_backend_host, NULL, 1u << 20, 3, "a test"), WEFT_OK);
    for (int list = 0; list < 3; list++)
        assert_non_null(weft_staging_take(&staging, 0, 1, 8));
    assert_null(weft_staging_take(&staging, 0, 1, 8));
    weft_staging_clear(&staging);
    assert_non_null(weft_staging_take(&staging, 0, 1, 8));
    weft_staging_close(&staging);
}

static void too_large(void **state)
{
    (void)state;
    weft_staging staging;
    assert_int_equal(staging_open(&staging, 1u << 20), WEFT_OK);
    assert_null(weft_staging_take(&staging, 0, UINT32_MAX, 8));
    assert_int_equal(staging.count, 0);
    assert_int_equal(staging.used, 0);
    assert_non_null(weft_staging_take(&staging, 0, 1, 8));
    weft_staging_close(&staging);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_full), cmocka_unit_test(clear),     cmocka_unit_test(need_is_exact),
        cmocka_unit_test(too_many),   cmocka_unit_test(too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

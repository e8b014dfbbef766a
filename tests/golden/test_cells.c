/* Lists of cells in update files: these bytes, back to the cells, and nothing else taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mix64.h"
#include "tests/support/golden_files.h"
#include "update/update_cells.h"

static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};

/* The model of docs/WIRE_FORMAT.md's example, its matrix cut into two parts of rows, and a holding without the last
 * rows. */
static weft_cell cells[] = {{{1, 0, 1, 0, 1}, 0}, {{0, 0, 128, 0, 3}, 1}, {{0, 128, 100, 0, 3}, 2}};

static weft_layout *model_make(void)
{
    static const uint64_t shape[] = {256, 3};
    static const weft_tensor tensors[] = {{"a.w", WEFT_BF16, 2, shape}, {"b", WEFT_F64, 0, NULL}};
    weft_layout *layout = NULL;
    assert_int_equal(weft_layout_create(tensors, 2, &layout), WEFT_OK);
    return layout;
}

/* Sums that zstd cannot pack, because its bytes depend on its version. */
static void list_make(const weft_layout *model, uint8_t **bytes, uint64_t *length)
{
    const weft_cells all = {.cells = cells, .count = 3, .key_count = 3};
    weft_update_cells list;
    assert_int_equal(weft_update_cells_open(model, &all, &list), WEFT_OK);
    assert_int_equal(list.share_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        list.shares[i].base = weft_mix64(i + 1);
        list.shares[i].target = weft_mix64(i + 101);
    }
    uint32_t at = 0;
    weft_update_cells_begin(&list);
    weft_update_cells_note(&list, &at, 0, 24);
    weft_update_cells_note(&list, &at, 2, 300);
    weft_update_cells_note(&list, &at, 2, 28);
    assert_int_equal(weft_update_cells_write(&list, bytes, length), WEFT_OK);
    weft_update_cells_close(&list);
}

static void cells_are_listed_by_these_bytes(void **state)
{
    (void)state;
    static const uint64_t frames[] = {1, 0, 2}, sizes[] = {24, 0, 328};
    weft_layout *model = model_make();
    weft_update_cells read;
    uint8_t *bytes;
    uint64_t length;
    list_make(model, &bytes, &length);
    golden_is("cells.bin", bytes, length);
    assert_int_equal(weft_update_cells_read(bytes, length, model, &read), WEFT_OK);
    assert_int_equal(read.cells.count, 3);
    assert_int_equal(read.cells.key_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_memory_equal(&read.cells.cells[i].slice, &cells[i].slice, sizeof(weft_slice));
        assert_int_equal(read.cells.cells[i].key, i);
        assert_int_equal(read.shares[i].key, i);
        assert_int_equal(read.shares[i].cells, 1);
        assert_true(read.shares[i].base == weft_mix64(i + 1));
        assert_true(read.shares[i].target == weft_mix64(i + 101));
        assert_int_equal(read.shares[i].frames, frames[i]);
        assert_int_equal(read.shares[i].bytes, sizes[i]);
    }
    weft_update_cells_free(&read);
    weft_mem_give(bytes);
    weft_layout_free(model);
}

/* In memory of exactly its size. */
static weft_status read_exact(const weft_layout *model, const uint8_t *bytes, uint64_t length)
{
    weft_update_cells read;
    weft_key_share *shares = NULL;
    uint32_t count;
    uint8_t *exact = malloc(length ? length : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, length);
    const weft_status status = weft_update_cells_read(exact, length, (weft_layout *)(uintptr_t)model, &read);
    if (status == WEFT_OK) {
        for (uint64_t i = 0; i < read.cells.count; i++)
            assert_int_equal(weft_slice_check(model, &read.cells.cells[i].slice), WEFT_OK);
        assert_int_equal(weft_update_shares_read(exact, length, &shares, &count), WEFT_OK);
        assert_int_equal(count, read.share_count);
        weft_mem_give(shares);
        weft_update_cells_free(&read);
    }
    free(exact);
    return status;
}

static void others_list_none(void **state)
{
    (void)state;
    weft_layout *model = model_make();
    uint8_t *bytes;
    uint64_t length;
    list_make(model, &bytes, &length);
    for (uint64_t cut = 1; cut <= length; cut++)
        assert_int_equal(read_exact(model, bytes, length - cut), WEFT_E_CORRUPT);
    static const struct {
        uint32_t at;
        uint8_t byte;
    } bad[] = {
        {0, 2},     /* another form */
        {1, 2},     /* a key less */
        {1, 4},     /* a key more */
        {3, 0},     /* a key without cells */
        {3, 2},     /* a cell more */
        {22, 0},    /* the second key is the first again */
        {63, 2},    /* a tensor that is not there */
        {66, 1},    /* a column of a scalar */
        {67, 2},    /* two columns */
        {79, 0x83}, /* a number that is cut short */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const uint8_t before = bytes[bad[i].at];
        bytes[bad[i].at] = bad[i].byte;
        if (read_exact(model, bytes, length) != WEFT_E_CORRUPT)
            fail_msg("byte %u = %u is taken", bad[i].at, bad[i].byte);
        bytes[bad[i].at] = before;
    }
    uint8_t *longer = calloc(1, length + 1); /* a byte more */
    assert_non_null(longer);
    memcpy(longer, bytes, length);
    assert_int_equal(read_exact(model, longer, length + 1), WEFT_E_CORRUPT);
    longer[3] = 0; /* a reader of the shares alone sees no cells, and refuses a key without them too */
    assert_int_equal(weft_update_shares_read(longer, length, &(weft_key_share *){NULL}, &(uint32_t){0}),
                     WEFT_E_CORRUPT);
    free(longer);
    weft_mem_give(bytes);
    weft_layout_free(model);
}

/* Whatever is taken lies within the model. */
static void any_byte_may_be_another(void **state)
{
    (void)state;
    weft_layout *model = model_make();
    uint8_t *bytes;
    uint64_t length;
    list_make(model, &bytes, &length);
    for (uint64_t at = 0; at < length; at++)
        for (unsigned byte = 0; byte < 256; byte++) {
            const uint8_t before = bytes[at];
            bytes[at] = (uint8_t)byte;
            read_exact(model, bytes, length);
            bytes[at] = before;
        }
    weft_mem_give(bytes);
    weft_layout_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_listed_by_these_bytes),
        cmocka_unit_test(others_list_none),
        cmocka_unit_test(any_byte_may_be_another),
    };
    weft_log_enter(&quiet);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

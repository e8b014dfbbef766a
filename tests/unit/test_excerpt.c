/* Excerpts: keys become ranges, and numbers of all cells' layout become those of the view's and back. A unit of a view
 * is the same unit in both layouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "layout/digest.h"
#include "shard/excerpt.h"
#include "shard/holding.h"

#define KEYS 9u

static weft_layout *model, *whole;
static weft_cells cells;

/* Small tensors between large ones, so that units are tiles and packs, and a tensor without elements. */
static int setup(void **state)
{
    static const uint64_t q[] = {16, 6000}, bias[] = {8}, none[] = {0, 8}, wide[] = {8, 70000};
    const weft_tensor tensors[] = {{"q", WEFT_BF16, 2, q},       {"a.bias", WEFT_BF16, 1, bias},
                                   {"none", WEFT_BF16, 2, none}, {"b.bias", WEFT_F32, 1, bias},
                                   {"wide", WEFT_BF16, 2, wide}, {"norm", WEFT_F32, 1, bias}};
    const weft_cut cuts[] = {{.name = "q", .patterns = "q, *.bias, none", .kind = WEFT_CUT_ROWS, .parts = 4},
                             {.name = "w", .patterns = "wide", .kind = WEFT_CUT_COLUMNS, .parts = 4}};
    (void)state;
    return weft_layout_create(tensors, 6, &model) != WEFT_OK || weft_cells_open(model, cuts, 2, &cells) != WEFT_OK ||
           weft_holding_layout(model, cells.cells, cells.count, &whole) != WEFT_OK || cells.key_count != KEYS;
}

static int teardown(void **state)
{
    (void)state;
    weft_layout_free(whole);
    weft_cells_close(&cells);
    weft_layout_free(model);
    return 0;
}

static void check_map(const weft_number_map *map, uint64_t all, uint64_t own_count)
{
    uint64_t found = 0;
    for (uint64_t number = 0; number < all; number++) {
        uint64_t own, left, end;
        const bool there = weft_number_to_own(map, number, &own);
        const uint64_t next = weft_number_next(map, number, &end);
        assert_true(there == (next == number));
        assert_true(next == UINT64_MAX || next < end);
        if (!there)
            continue;
        assert_int_equal(own, found++);
        assert_int_equal(weft_number_of_own(map, own, &left), number);
        assert_int_equal(left, end - number);
    }
    assert_int_equal(found, own_count);
    assert_int_equal(weft_number_next(map, all, &(uint64_t){0}), UINT64_MAX);
}

static void check_units(const weft_excerpt *view)
{
    for (uint64_t own = 0; own < view->layout->unit_count; own++) {
        uint64_t left, tensor;
        const weft_unit *mine = &view->layout->units[own],
                        *theirs = &whole->units[weft_number_of_own(&view->units, own, &left)];
        assert_true(weft_number_to_own(&view->tensors, theirs->tensor, &tensor));
        assert_int_equal(tensor, mine->tensor);
        assert_int_equal(theirs->first, mine->first);
        assert_int_equal(theirs->count, mine->count);
        assert_int_equal(theirs->tensor_count, mine->tensor_count);
        assert_int_equal(theirs->width, mine->width);
    }
}

/* The root of a view is that of its own layout, from whatever digests. */
static void check_root(const weft_excerpt *view)
{
    uint64_t all[64], own[64];
    assert_true(whole->part_count <= 64);
    for (uint64_t part = 0; part < whole->part_count; part++) {
        uint64_t at;
        all[part] = weft_mix64(part + 1);
        if (weft_number_to_own(&view->parts, part, &at))
            own[at] = all[part];
    }
    assert_true(weft_excerpt_root(view, whole, all) == weft_digest_parts_root(view->layout, own));
}

static void every_view(void **state)
{
    (void)state;
    for (uint32_t taken = 1; taken < 1u << KEYS; taken++) {
        bool wanted[KEYS];
        weft_view_keys keys;
        weft_excerpt view;
        for (uint32_t key = 0; key < KEYS; key++)
            wanted[key] = taken >> key & 1;
        assert_int_equal(weft_view_keys_of(wanted, KEYS, &keys), WEFT_OK);
        assert_true(weft_view_keys_fit(&keys, KEYS));
        assert_int_equal(weft_excerpt_open(model, &cells, whole, &keys, &view), WEFT_OK);
        check_map(&view.tensors, whole->count, view.layout->count);
        check_map(&view.units, whole->unit_count, view.layout->unit_count);
        check_map(&view.parts, whole->part_count, view.layout->part_count);
        check_units(&view);
        check_root(&view);
        if (keys.count == 0)
            assert_memory_equal(view.layout->hash, whole->hash, sizeof whole->hash);
        for (uint64_t c = 0; c < view.cell_count; c++)
            assert_true(wanted[view.cells[c].key]);
        weft_excerpt_close(&view);
    }
}

/* Opens the view of the last key of the tensors in that order, of which the last one is alone in its key. */
static void open_last(const weft_tensor tensors[4], weft_excerpt *view)
{
    const weft_cut cuts[] = {{.name = "w", .patterns = "w", .kind = WEFT_CUT_ROWS, .parts = 1}};
    weft_layout *all = NULL, *cut = NULL;
    weft_cells parted;
    assert_int_equal(weft_layout_create(tensors, 4, &all), WEFT_OK);
    assert_int_equal(weft_cells_open(all, cuts, 1, &parted), WEFT_OK);
    assert_int_equal(parted.key_count, 2);
    assert_int_equal(weft_holding_layout(all, parted.cells, parted.count, &cut), WEFT_OK);
    const weft_view_keys keys = {{{1, 1}}, 1};
    assert_int_equal(weft_excerpt_open(all, &parted, cut, &keys, view), WEFT_OK);
    weft_layout_free(cut);
    weft_cells_close(&parted);
    weft_layout_free(all);
}

/* Frames name units by the numbers of all cells. So a view is another one if these are other numbers, even where all of
 * its own tensors are the same. */
static void numbers_are_in_the_hash(void **state)
{
    static const uint64_t wide[] = {8, 70000}, bias[] = {8};
    const weft_tensor a = {"a", WEFT_BF16, 1, bias}, b = {"b", WEFT_BF16, 1, bias}, big = {"big", WEFT_BF16, 2, wide},
                      w = {"w", WEFT_BF16, 2, wide};
    weft_excerpt first, same, other;
    (void)state;
    open_last((const weft_tensor[]){a, b, big, w}, &first);
    open_last((const weft_tensor[]){b, a, big, w}, &same);
    open_last((const weft_tensor[]){a, big, b, w}, &other);
    assert_int_equal(first.units.range[0].first, same.units.range[0].first);
    assert_memory_equal(first.layout->hash, same.layout->hash, sizeof first.layout->hash);
    assert_int_not_equal(first.units.range[0].first, other.units.range[0].first);
    assert_memory_not_equal(first.layout->hash, other.layout->hash, sizeof first.layout->hash);
    weft_excerpt_close(&other);
    weft_excerpt_close(&same);
    weft_excerpt_close(&first);
}

/* Opens the view of v and w, between which are the tensors of another key. */
static void open_ends(const weft_tensor between[3], weft_excerpt *view)
{
    static const uint64_t wide[] = {8, 70000};
    const weft_tensor tensors[] = {
        {"v", WEFT_BF16, 2, wide}, between[0], between[1], between[2], {"w", WEFT_BF16, 2, wide}};
    const weft_cut cuts[] = {{.name = "v", .patterns = "v", .kind = WEFT_CUT_ALONE},
                             {.name = "m", .patterns = "m*", .kind = WEFT_CUT_ALONE},
                             {.name = "w", .patterns = "w", .kind = WEFT_CUT_ALONE}};
    weft_layout *all = NULL, *cut = NULL;
    weft_cells parted;
    assert_int_equal(weft_layout_create(tensors, 5, &all), WEFT_OK);
    assert_int_equal(weft_cells_open(all, cuts, 3, &parted), WEFT_OK);
    assert_int_equal(parted.key_count, 3);
    assert_int_equal(weft_holding_layout(all, parted.cells, parted.count, &cut), WEFT_OK);
    const weft_view_keys keys = {{{0, 1}, {2, 1}}, 2};
    assert_int_equal(weft_excerpt_open(all, &parted, cut, &keys, view), WEFT_OK);
    weft_layout_free(cut);
    weft_cells_close(&parted);
    weft_layout_free(all);
}

static void numbers_of_each_range_are_in_the_hash(void **state)
{
    static const uint64_t wide[] = {8, 70000}, bias[] = {8};
    const weft_tensor a = {"ma", WEFT_BF16, 1, bias}, b = {"mb", WEFT_BF16, 1, bias}, big = {"m", WEFT_BF16, 2, wide};
    weft_excerpt first, same, other;
    (void)state;
    open_ends((const weft_tensor[]){a, b, big}, &first);
    open_ends((const weft_tensor[]){b, a, big}, &same);
    open_ends((const weft_tensor[]){a, big, b}, &other);
    assert_int_equal(first.units.range[0].first, other.units.range[0].first);
    assert_int_not_equal(first.units.range[1].first, other.units.range[1].first);
    assert_memory_equal(first.layout->hash, same.layout->hash, sizeof first.layout->hash);
    assert_memory_not_equal(first.layout->hash, other.layout->hash, sizeof first.layout->hash);
    weft_excerpt_close(&other);
    weft_excerpt_close(&same);
    weft_excerpt_close(&first);
}

static void keys_become_ranges(void **state)
{
    bool wanted[4 * WEFT_EXCERPT_RANGES] = {false};
    const uint32_t all = sizeof wanted;
    weft_view_keys keys;
    (void)state;
    assert_int_equal(weft_view_keys_of(wanted, all, &keys), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "takes nothing"));
    for (uint32_t i = 0; i < WEFT_EXCERPT_RANGES; i++)
        wanted[2 * i + 1] = true;
    assert_int_equal(weft_view_keys_of(wanted, all, &keys), WEFT_OK);
    assert_int_equal(keys.count, WEFT_EXCERPT_RANGES);
    wanted[all - 1] = true;
    assert_int_equal(weft_view_keys_of(wanted, all, &keys), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "more than 64 places"));
    memset(wanted, true, sizeof wanted);
    assert_int_equal(weft_view_keys_of(wanted, all, &keys), WEFT_OK);
    assert_int_equal(keys.count, 0);
}

static void ranges_from_outside(void **state)
{
    static const struct {
        weft_view_keys keys;
        bool fit;
    } cases[] = {{{{{0, 1}, {2, 7}}, 2}, true},
                 {{{{0, 1}, {1, 1}}, 2}, false},
                 {{{{3, 1}, {1, 1}}, 2}, false},
                 {{{{8, 2}}, 1}, false},
                 {{{{8, 1}}, 1}, true},
                 {{{{0, 0}}, 1}, false},
                 {{{{UINT32_MAX, UINT32_MAX}}, 1}, false},
                 {{{{0, 9}}, 1}, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(weft_view_keys_fit(&cases[i].keys, KEYS) == cases[i].fit);
    assert_true(weft_view_keys_equal(&cases[0].keys, &cases[0].keys));
    assert_false(weft_view_keys_equal(&cases[0].keys, &cases[1].keys));
    assert_false(weft_view_keys_equal(&cases[0].keys, &cases[4].keys));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_view),
        cmocka_unit_test(numbers_are_in_the_hash),
        cmocka_unit_test(numbers_of_each_range_are_in_the_hash),
        cmocka_unit_test(keys_become_ranges),
        cmocka_unit_test(ranges_from_outside),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

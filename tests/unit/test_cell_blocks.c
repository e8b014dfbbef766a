/* Weights as their caller names them, parted where cells end: boxes with strides of every kind, and pieces. Each cell
 * has the bits that its box of the dense model has. Boxes outside of the cells are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/mix64.h"
#include "base/status.h"
#include "shard/cell_blocks.h"
#include "tests/support/sim_view.h"

#define ROUNDS 120u

static weft_layout *layout;
static uint64_t seed;

static uint64_t below(uint64_t limit)
{
    seed += WEFT_PHI;
    return weft_mix64(seed) % limit;
}

static int setup(void **state)
{
    static const uint64_t q[] = {16, 24}, bias[] = {24}, stack[] = {3, 8, 6}, packed[] = {6, 16}, ragged[] = {4, 3};
    const weft_tensor tensors[] = {
        {"q", WEFT_BF16, 2, q},         {"bias", WEFT_F32, 1, bias},    {"stack", WEFT_F8_E4M3, 3, stack},
        {"packed", WEFT_F4, 2, packed}, {"ragged", WEFT_F4, 2, ragged}, {"wide", WEFT_F64, 2, q},
        {"scalar", WEFT_F32, 0, NULL}};
    (void)state;
    return weft_layout_create(tensors, sizeof tensors / sizeof *tensors, &layout) != WEFT_OK;
}

static int teardown(void **state)
{
    (void)state;
    weft_layout_free(layout);
    return 0;
}

/* Cuts that change from round to round; packed columns part at whole bytes. */
static weft_cells draw_cells(void)
{
    uint64_t at[] = {1 + below(7), 9 + below(6)}, even[] = {2 * (1 + below(7))};
    const weft_cut cuts[] = {
        {.name = "q",
         .patterns = "q, wide",
         .kind = below(2) ? WEFT_CUT_ROWS : WEFT_CUT_COLUMNS,
         .at = at,
         .at_count = 2},
        {.name = "b", .patterns = "bias", .kind = WEFT_CUT_ROWS, .parts = below(2) ? 3 : 8},
        {.name = "s", .patterns = "stack", .kind = WEFT_CUT_MIDDLE, .parts = below(2) ? 2 : 4},
        {.name = "p", .patterns = "packed", .kind = WEFT_CUT_COLUMNS, .at = even, .at_count = 1},
    };
    weft_cells cells;
    if (weft_cells_open(layout, cuts, sizeof cuts / sizeof *cuts, &cells) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return cells;
}

/* Brings the bits of blocks of cells into the image of the cells' layout, by the blocks' own formula. */
static void gather(const weft_layout *of, const weft_cell_blocks *made, uint8_t *image)
{
    for (uint64_t i = 0; i < made->count; i++) {
        const weft_block *block = &made->blocks[i];
        const weft_layout_entry *entry = &of->entries[block->slice.tensor];
        const weft_slice *slice = &block->slice, whole = weft_slice_whole(of, slice->tensor);
        const uint64_t width = block_width(entry->row), all = block_steps(entry->row, whole.columns);
        if (whole.columns * entry->row->bits % 8 != 0) {
            memcpy(image + entry->offset + slice->row * whole.columns * entry->row->bits / 8, block->data,
                   slice->rows * whole.columns * entry->row->bits / 8);
            continue;
        }
        for (uint64_t r = 0; r < slice->rows; r++)
            for (uint64_t c = 0; c < block_steps(entry->row, slice->columns); c++)
                memcpy(image + entry->offset +
                           ((slice->row + r) * all + block_steps(entry->row, slice->column) + c) * width,
                       block_at(entry->row, block, r, c), width);
    }
}

static void expect(sim_view *view, const weft_cell_blocks *made, const uint8_t *dense)
{
    weft_binding binding;
    uint8_t *image = calloc(1, view->layout->bytes + 1);
    assert_non_null(image);
    if (weft_binding_open_blocks(view->layout, made->blocks, made->count, &binding) != WEFT_OK)
        fail_msg("round of seed %llx: %s", (unsigned long long)seed, weft_last_error());
    weft_binding_close(&binding);
    sim_view_put(view, dense);
    gather(view->layout, made, image);
    for (uint64_t t = 0; t < view->layout->count; t++)
        assert_memory_equal(image + view->layout->entries[t].offset, view->image + view->layout->entries[t].offset,
                            view->layout->entries[t].bytes);
    free(image);
}

/* The dense model: tensors in their order, nothing in between. */
static uint8_t *draw_dense(void)
{
    uint64_t bytes = 0;
    for (uint64_t t = 0; t < layout->count; t++)
        bytes += layout->entries[t].bytes;
    uint8_t *dense = malloc(bytes);
    assert_non_null(dense);
    for (uint64_t i = 0; i < bytes; i++)
        dense[i] = (uint8_t)below(256);
    return dense;
}

static sim_view *view_of(const weft_cells *cells)
{
    bool wanted[64];
    assert_true(cells->key_count <= 64);
    memset(wanted, true, sizeof wanted);
    return sim_view_open(layout, cells, wanted, seed);
}

static void boxes_are_parted(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        seed = round << 20;
        weft_cells cells = draw_cells();
        sim_view *view = view_of(&cells);
        uint8_t *dense = draw_dense();
        block_world world;
        weft_cell_blocks made;
        block_world_open(&world, layout, round, false);
        block_world_put(&world, dense);
        if (weft_cell_blocks_open(layout, view->cells, view->count, world.blocks, world.count, false, &made) != WEFT_OK)
            fail_msg("%s", weft_last_error());
        expect(view, &made, dense);
        weft_cell_blocks_close(&made);
        block_world_close(&world);
        free(dense);
        sim_view_close(view);
        weft_cells_close(&cells);
    }
}

/* Splits tensors at any element, but a packed one at whole bytes. Their bits lie in `memory`, where each is aligned. */
static uint64_t draw_pieces(const uint8_t *dense, uint8_t *memory, weft_piece *pieces)
{
    uint64_t count = 0, at = 0, to = 0;
    for (uint64_t t = 0; t < layout->count; t++) {
        const weft_layout_entry *entry = &layout->entries[t];
        const bool packed = entry->row->bits % 8 != 0, ragged = strcmp(entry->tensor.name, "ragged") == 0;
        memcpy(memory + to, dense + at, entry->bytes);
        for (uint64_t first = 0, take; first < entry->elements; first += take) {
            const uint64_t left = entry->elements - first;
            take = ragged ? left : packed ? 2 * (1 + below(left / 2)) : 1 + below(left);
            pieces[count++] = (weft_piece){t, first, take, memory + to + first * entry->row->bits / 8};
        }
        at += entry->bytes;
        to += (entry->bytes + 15) / 16 * 16;
    }
    return count;
}

static void pieces_are_parted(void **state)
{
    static _Alignas(16) uint8_t memory[8192];
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        seed = round << 20;
        weft_cells cells = draw_cells();
        sim_view *view = view_of(&cells);
        uint8_t *dense = draw_dense();
        weft_piece pieces[512];
        weft_cell_blocks boxes, made;
        const uint64_t count = draw_pieces(dense, memory, pieces);
        assert_int_equal(weft_piece_blocks(layout, pieces, count, &boxes), WEFT_OK);
        if (weft_cell_blocks_open(layout, view->cells, view->count, boxes.blocks, boxes.count, false, &made) != WEFT_OK)
            fail_msg("%s", weft_last_error());
        expect(view, &made, dense);
        weft_cell_blocks_close(&made);
        weft_cell_blocks_close(&boxes);
        free(dense);
        sim_view_close(view);
        weft_cells_close(&cells);
    }
}

static void what_is_outside_is_refused(void **state)
{
    static uint8_t memory[16 * 24 * 8];
    const weft_cut cut = {.name = "q", .patterns = "q", .kind = WEFT_CUT_ROWS, .parts = 2};
    const weft_block whole = {.slice = {0, 0, 16, 0, 24}, .data = memory},
                     past = {.slice = {0, 8, 9, 0, 24}, .data = memory},
                     split = {.slice = {0, 0, 8, 0, 24}, .data = memory, .row = {{3, 48}}},
                     wraps = {.slice = {0, 0, 8, 0, 24},
                              .data = memory,
                              .row = {{(UINT64_C(1) << 61) + 1, 0}, {8, 48}}},
                     wide = {.slice = {0, 0, 8, 0, 24}, .data = memory, .column = {{5, 2}, {5, 10}}};
    const struct {
        const weft_block *block;
        const char *words;
    } cases[] = {
        {&whole, "q, 16 rows from 0 of 16, 24 columns from 0 of 24: 192 of its elements are not in the slices"},
        {&past, "reaches past the tensor"},
        {&split, "the extents of its strides do not multiply to its rows"},
        {&wraps, "the extents of its strides do not multiply to its rows"}, /* but modulo 2^64 */
        {&wide, "the extents of its strides do not multiply to its columns"}};
    weft_cells cells;
    (void)state;
    assert_int_equal(weft_cells_open(layout, &cut, 1, &cells), WEFT_OK);
    uint64_t first = 0;
    while (cells.cells[first].slice.tensor != 0)
        first++;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_cell_blocks made;
        assert_int_equal(weft_cell_blocks_open(layout, &cells.cells[first], 1, cases[i].block, 1, false, &made),
                         WEFT_E_LAYOUT);
        assert_null(made.blocks);
        if (!strstr(weft_last_error(), cases[i].words))
            fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), cases[i].words);
        assert_int_equal(weft_cell_blocks_open(layout, &cells.cells[first], 1, cases[i].block, 1, true, &made),
                         i == 0 ? WEFT_OK
                                : WEFT_E_LAYOUT); /* what is in no cell may be passed over, and nothing else */
        uint64_t elements = 0;
        for (uint64_t b = 0; b < made.count; b++)
            elements += weft_slice_elements(&made.blocks[b].slice);
        assert_int_equal(elements, i == 0 ? 8 * 24 : 0);
        weft_cell_blocks_close(&made);
    }
    weft_cells_close(&cells);
}

static void bad_pieces_are_refused(void **state)
{
    static const weft_piece bad[] = {{7, 0, 1, NULL}, {1, 20, 5, NULL}, {1, 25, 0, NULL}, {0, UINT64_MAX, 2, NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_cell_blocks made;
        assert_int_equal(weft_piece_blocks(layout, &bad[i], 1, &made), WEFT_E_LAYOUT);
        assert_null(made.blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_are_parted),
        cmocka_unit_test(pieces_are_parted),
        cmocka_unit_test(what_is_outside_is_refused),
        cmocka_unit_test(bad_pieces_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* Random cuts of random tensors: each element is in one cell; sources that part the model at random cover each view
 * once; one slice less or one more is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/mix64.h"
#include "shard/cover.h"
#include "shard/holding.h"

enum { ROUNDS = 3000, TENSORS = 6, SOURCES = 4, CUTS = 4, SLICES_MOST = 64 };

static uint64_t seed;

static uint64_t below(uint64_t bound)
{
    seed += WEFT_PHI;
    return weft_mix64(seed) % bound;
}

typedef struct world {
    weft_layout *layout;
    weft_cells cells;
    weft_slice slices[SLICES_MOST]; /* they part the model */
    uint32_t source[SLICES_MOST];
    uint64_t count;
    weft_cell *entries[SOURCES];
    weft_contribution contributions[SOURCES];
} world;

static weft_layout *random_layout(void)
{
    static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F32, WEFT_U8, WEFT_F64};
    uint64_t shapes[TENSORS][4];
    char names[TENSORS][32];
    weft_tensor tensors[TENSORS];
    weft_layout *layout;
    for (unsigned t = 0; t < TENSORS; t++) {
        for (unsigned i = 0; i < 4; i++)
            shapes[t][i] = below(12) == 0 ? 0 : 2 * (1 + below(6));
        snprintf(names[t], sizeof names[t], below(2) ? "layers.%u.t%u" : "layers.1.experts.%u.t%u", (unsigned)below(4),
                 t);
        tensors[t] = (weft_tensor){names[t], dtypes[below(4)], (uint32_t)below(5), shapes[t]};
    }
    assert_int_equal(weft_layout_create(tensors, TENSORS, &layout), WEFT_OK);
    return layout;
}

/* Cuts that do not fit are drawn again. */
static void random_cells(world *w)
{
    static const char *const patterns[] = {"*.t0, *.t1", "*.t2,*.t3", "*.t[45]", NULL};
    static const weft_cut_kind boxes[] = {WEFT_CUT_ALONE, WEFT_CUT_ROWS, WEFT_CUT_COLUMNS, WEFT_CUT_MIDDLE};
    uint64_t at[CUTS] = {0};
    weft_cut cuts[CUTS];
    do {
        for (unsigned i = 0; i < CUTS; i++) {
            const bool named = i == CUTS - 1, equal = below(2), layers = below(2);
            at[i] = 1 + below(3);
            cuts[i] = (weft_cut){.name = "c", .patterns = patterns[i], .kind = boxes[below(4)], .pad = below(2) * 4};
            if (named)
                cuts[i] = (weft_cut){.name = "n", .kind = layers ? WEFT_CUT_LAYER : WEFT_CUT_EXPERT};
            if (cuts[i].kind != WEFT_CUT_ALONE && (named ? !layers : equal))
                cuts[i].parts = 1 + below(3);
            else if (cuts[i].kind != WEFT_CUT_ALONE)
                cuts[i].at = &at[i], cuts[i].at_count = 1;
            if (cuts[i].parts == 0)
                cuts[i].pad = 0;
        }
    } while (weft_cells_open(w->layout, cuts, (uint32_t)below(CUTS + 1), &w->cells) != WEFT_OK);
}

/* Halves one of the slices, by rows or columns. */
static void slice_halve(world *w)
{
    weft_slice *slice = &w->slices[below(w->count)], other = *slice;
    uint64_t *first = below(2) ? &slice->rows : &slice->columns;
    if (*first < 2 || w->count == SLICES_MOST)
        return;
    const uint64_t left = 1 + below(*first - 1), right = *first - left;
    const bool rows = first == &slice->rows;
    *first = left;
    *(rows ? &other.row : &other.column) += left;
    *(rows ? &other.rows : &other.columns) = right;
    w->slices[w->count++] = other;
}

static void hold(world *w)
{
    weft_slice mine[SLICES_MOST];
    for (uint32_t s = 0; s < SOURCES; s++) {
        uint64_t count = 0;
        weft_mem_give(w->entries[s]);
        for (uint64_t i = 0; i < w->count; i++) {
            if (w->source[i] == s)
                mine[count++] = w->slices[i];
        }
        assert_int_equal(
            weft_holding_open(w->layout, &w->cells, mine, count, &w->entries[s], &w->contributions[s].count), WEFT_OK);
        w->contributions[s].entries = w->entries[s];
    }
}

static void world_open(world *w)
{
    *w = (world){.layout = random_layout()};
    random_cells(w);
    for (uint64_t t = 0; t < TENSORS; t++) {
        const weft_slice whole = weft_slice_whole(w->layout, t);
        if (weft_slice_elements(&whole) > 0)
            w->slices[w->count++] = whole;
    }
    for (uint64_t i = below(40); w->count > 0 && i > 0; i--)
        slice_halve(w);
    for (uint64_t i = 0; i < w->count; i++)
        w->source[i] = (uint32_t)below(SOURCES);
    hold(w);
}

static void world_close(world *w)
{
    for (uint32_t s = 0; s < SOURCES; s++)
        weft_mem_give(w->entries[s]);
    weft_cells_close(&w->cells);
    weft_layout_free(w->layout);
}

/* Counts, element by element of one tensor, how many boxes have it. */
static void assert_painted_once(const weft_layout *layout, const weft_cell *cells, uint64_t count)
{
    for (uint64_t t = 0; t < layout->count; t++) {
        const weft_slice whole = weft_slice_whole(layout, t);
        uint8_t *seen = weft_mem_take(layout->entries[t].elements + 1, 1);
        for (uint64_t c = 0; c < count; c++) {
            const weft_slice *box = &cells[c].slice;
            for (uint64_t r = 0; box->tensor == t && r < box->rows; r++) {
                for (uint64_t k = 0; k < box->columns; k++)
                    seen[(box->row + r) * whole.columns + box->column + k]++;
            }
        }
        for (uint64_t i = 0; i < layout->entries[t].elements; i++)
            assert_int_equal(seen[i], 1);
        weft_mem_give(seen);
    }
}

static void assert_keys_rise(const weft_cells *cells)
{
    for (uint64_t c = 1; c < cells->count; c++) {
        assert_true(cells->cells[c].key == cells->cells[c - 1].key ||
                    cells->cells[c].key == cells->cells[c - 1].key + 1);
        assert_true(cells->cells[c].key != cells->cells[c - 1].key ||
                    weft_slice_order(&cells->cells[c - 1].slice, &cells->cells[c].slice) < 0);
    }
}

static bool key_is_wanted_of(const world *w, const bool *wanted, const weft_slice *slice)
{
    for (uint64_t c = 0; c < w->cells.count; c++) {
        const weft_slice both = weft_slice_common(&w->cells.cells[c].slice, slice);
        if (wanted[w->cells.cells[c].key] && weft_slice_elements(&both) > 0)
            return true;
    }
    return false;
}

/* A slice that is taken away, or given to a second source, matters to the views that have a key of it, and to no other.
 */
static void change_one(world *w, const bool *wanted)
{
    const uint64_t chosen = below(w->count);
    const bool matters = key_is_wanted_of(w, wanted, &w->slices[chosen]);
    const uint32_t before = w->source[chosen];
    w->source[chosen] = SOURCES;
    hold(w);
    assert_int_equal(weft_cover_check(w->layout, &w->cells, wanted, w->contributions, SOURCES),
                     matters ? WEFT_E_LAYOUT : WEFT_OK);
    assert_true(!matters || strstr(weft_last_error(), "no source contributes"));
    w->source[chosen] = before;
    hold(w);
    if (w->count == SLICES_MOST)
        return;
    w->slices[w->count] = w->slices[chosen];
    w->source[w->count++] = (before + 1) % SOURCES;
    hold(w);
    assert_int_equal(weft_cover_check(w->layout, &w->cells, wanted, w->contributions, SOURCES),
                     matters ? WEFT_E_LAYOUT : WEFT_OK);
    assert_true(!matters || strstr(weft_last_error(), "both contribute"));
}

static void cells_and_covers(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        static world w;
        bool wanted[256];
        seed = round;
        world_open(&w);
        assert_true(w.cells.key_count <= sizeof wanted);
        assert_painted_once(w.layout, w.cells.cells, w.cells.count);
        assert_keys_rise(&w.cells);
        for (uint32_t k = 0; k < w.cells.key_count; k++)
            wanted[k] = below(3) > 0;
        assert_int_equal(weft_cover_check(w.layout, &w.cells, wanted, w.contributions, SOURCES), WEFT_OK);
        if (w.count > 0)
            change_one(&w, wanted);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cells_and_covers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

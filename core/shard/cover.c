/* cover.c - contributions laid over the wanted cells: entries of all sources in one order, then cell by cell. */
#include "shard/cover.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

typedef unsigned long long ull;

/* An entry of a source. */
typedef struct laid {
    weft_slice slice;
    uint32_t key;
    uint32_t source;
} laid;

static int laid_order(const void *left, const void *right)
{
    const laid *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return weft_slice_order(&a->slice, &b->slice);
}

static uint64_t lay_out(const bool *wanted, const weft_contribution *sources, uint32_t count, laid *entries)
{
    uint64_t used = 0;
    for (uint32_t s = 0; s < count; s++) {
        for (uint64_t i = 0; i < sources[s].count; i++) {
            const weft_cell *entry = &sources[s].entries[i];
            if (!wanted[entry->key])
                continue;
            if (entries)
                entries[used] = (laid){entry->slice, entry->key, s};
            used++;
        }
    }
    return used;
}

static weft_status twice(const weft_layout *layout, const laid *a, const laid *b)
{
    char name[WEFT_SLICE_TEXT];
    const weft_slice both = weft_slice_common(&a->slice, &b->slice);
    weft_slice_name(layout, &both, name);
    return weft_fail(WEFT_E_LAYOUT, "sources %u and %u both contribute %s: only one of them may",
                     a->source < b->source ? a->source : b->source, a->source < b->source ? b->source : a->source,
                     name);
}

static weft_status entries_apart(const weft_layout *layout, const laid *entries, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const weft_slice *slice = &entries[i].slice;
        for (uint64_t j = i + 1; j < count && entries[j].slice.row - slice->row < slice->rows; j++) {
            const weft_slice both = weft_slice_common(slice, &entries[j].slice);
            if (weft_slice_elements(&both) > 0)
                return twice(layout, &entries[i], &entries[j]);
        }
    }
    return WEFT_OK;
}

static bool covered(const laid *entries, uint64_t count, uint64_t row, uint64_t column)
{
    for (uint64_t i = 0; i < count; i++) {
        const weft_slice *slice = &entries[i].slice;
        if (row >= slice->row && row - slice->row < slice->rows && column >= slice->column &&
            column - slice->column < slice->columns)
            return true;
    }
    return false;
}

/* Takes a place as the first missing one if the place is in the cell, earlier, and covered by no entry. */
static void missing_try(const weft_slice *cell, const laid *entries, uint64_t count, uint64_t row, uint64_t column,
                        weft_slice *first)
{
    const bool inside = row - cell->row < cell->rows && column - cell->column < cell->columns;
    const bool earlier = first->rows == 0 || row < first->row || (row == first->row && column < first->column);
    if (inside && earlier && !covered(entries, count, row, column))
        *first = (weft_slice){cell->tensor, row, 1, column, 1};
}

/* Finds the first missing element. Its row is the cell's first row or the end of an entry, and so is its column. */
static weft_slice missing_find(const weft_slice *cell, const laid *entries, uint64_t count)
{
    weft_slice first = {0};
    for (uint64_t i = 0; i <= count; i++) {
        const uint64_t row = i < count ? entries[i].slice.row + entries[i].slice.rows : cell->row;
        for (uint64_t j = 0; j <= count; j++) {
            const uint64_t column = j < count ? entries[j].slice.column + entries[j].slice.columns : cell->column;
            missing_try(cell, entries, count, row, column, &first);
        }
    }
    return first;
}

static weft_status missing(const weft_layout *layout, const weft_slice *cell, const laid *entries, uint64_t count)
{
    char name[WEFT_SLICE_TEXT];
    const weft_slice first = missing_find(cell, entries, count);
    weft_slice_name(layout, count > 0 ? &first : cell, name);
    return weft_fail(WEFT_E_LAYOUT, "no source contributes %s%s", count > 0 ? "what begins at " : "", name);
}

static weft_status cell_check(const weft_layout *layout, const weft_slice *cell, const laid *entries, uint64_t count)
{
    uint64_t elements = 0;
    for (uint64_t i = 0; i < count; i++)
        elements += weft_slice_elements(&entries[i].slice);
    weft_status status = entries_apart(layout, entries, count);
    if (status != WEFT_OK)
        return status;
    return elements == weft_slice_elements(cell) ? WEFT_OK : missing(layout, cell, entries, count);
}

/* Counts the entries at *entries that have the cell's key and tensor, and elements of the cell. */
static uint64_t entries_of(const weft_cell *cell, const laid *entries, uint64_t left)
{
    uint64_t count = 0;
    while (count < left && entries[count].key == cell->key) {
        const weft_slice both = weft_slice_common(&entries[count].slice, &cell->slice);
        if (weft_slice_elements(&both) == 0)
            break;
        count++;
    }
    return count;
}

static weft_status cells_check(const weft_layout *layout, const weft_cells *cells, const bool *wanted,
                               const laid *entries, uint64_t count)
{
    weft_status status = WEFT_OK;
    for (uint64_t c = 0; c < cells->count && status == WEFT_OK; c++) {
        const weft_cell *cell = &cells->cells[c];
        if (!wanted[cell->key] || weft_slice_elements(&cell->slice) == 0)
            continue;
        const uint64_t here = entries_of(cell, entries, count);
        status = cell_check(layout, &cell->slice, entries, here);
        entries += here;
        count -= here;
    }
    return status;
}

weft_status weft_cover_check(const weft_layout *layout, const weft_cells *cells, const bool *wanted,
                             const weft_contribution *sources, uint32_t count)
{
    const uint64_t used = lay_out(wanted, sources, count, NULL);
    laid *entries = weft_mem_take(used + 1, sizeof *entries);
    if (!entries)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu entries of %u sources", (ull)used, count);
    lay_out(wanted, sources, count, entries);
    qsort(entries, used, sizeof *entries, laid_order);
    const weft_status status = cells_check(layout, cells, wanted, entries, used);
    weft_mem_give(entries);
    return status;
}

/* holding.c - slices met with cells. */
#include "shard/holding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

typedef unsigned long long ull;

/* ---- slices */

static weft_status overlap(const weft_layout *layout, const weft_slice *a, const weft_slice *b)
{
    char first[WEFT_SLICE_TEXT], second[WEFT_SLICE_TEXT];
    weft_slice_name(layout, a, first);
    weft_slice_name(layout, b, second);
    return weft_fail(WEFT_E_LAYOUT, "two slices share elements: %s; %s", first, second);
}

/* Checks sorted slices. A slice that begins after another's last row shares nothing with that one. */
static weft_status slices_apart(const weft_layout *layout, const weft_slice *slices, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        for (uint64_t j = i + 1;
             j < count && slices[j].tensor == slices[i].tensor && slices[j].row - slices[i].row < slices[i].rows; j++) {
            const weft_slice both = weft_slice_common(&slices[i], &slices[j]);
            if (weft_slice_elements(&both) > 0)
                return overlap(layout, &slices[i], &slices[j]);
        }
    }
    return WEFT_OK;
}

static weft_status slices_sort(const weft_layout *layout, const weft_slice *slices, uint64_t count, weft_slice *sorted)
{
    for (uint64_t i = 0; i < count; i++) {
        weft_status status = weft_slice_check(layout, &slices[i]);
        if (status != WEFT_OK)
            return status;
        sorted[i] = slices[i];
    }
    qsort(sorted, count, sizeof *sorted, weft_slice_order);
    return slices_apart(layout, sorted, count);
}

/* ---- entries */

/* Finds the first sorted slice of a tensor. */
static uint64_t slices_of(const weft_slice *sorted, uint64_t count, uint64_t tensor)
{
    uint64_t low = 0, high = count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (sorted[middle].tensor < tensor)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Puts the entries in order. Without `entries` the function only counts. */
static uint64_t entries_put(const weft_cells *cells, const weft_slice *sorted, uint64_t count, weft_cell *entries)
{
    uint64_t used = 0;
    for (uint64_t c = 0; c < cells->count; c++) {
        const weft_slice *cell = &cells->cells[c].slice;
        for (uint64_t s = slices_of(sorted, count, cell->tensor); s < count && sorted[s].tensor == cell->tensor; s++) {
            const weft_slice both = weft_slice_common(cell, &sorted[s]);
            if (weft_slice_elements(&both) == 0)
                continue;
            if (entries)
                entries[used] = (weft_cell){both, cells->cells[c].key};
            used++;
        }
    }
    return used;
}

weft_status weft_holding_open(const weft_layout *layout, const weft_cells *cells, const weft_slice *slices,
                              uint64_t count, weft_cell **entries, uint64_t *entry_count)
{
    weft_slice *sorted = count < UINT64_MAX ? weft_mem_take(count + 1, sizeof *sorted) : NULL;
    if (!sorted)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu slices", (ull)count);
    weft_cell *made = NULL;
    uint64_t used = 0;
    weft_status status = slices_sort(layout, slices, count, sorted);
    if (status == WEFT_OK) {
        used = entries_put(cells, sorted, count, NULL);
        made = weft_mem_take(used + 1, sizeof *made);
        status = made ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for %llu entries", (ull)used);
    }
    if (status == WEFT_OK) {
        entries_put(cells, sorted, count, made);
        *entries = made;
        *entry_count = used;
    }
    weft_mem_give(sorted);
    return status;
}

/* ---- the layout of entries */

typedef struct entry_tensor {
    uint64_t shape[2];
    char name[WEFT_MAX_NAME + 1];
} entry_tensor;

/* Writes "q_proj.weight#7[512+512,0+4096]". Of a long name the end is kept. */
static void name_entry(const weft_layout *layout, const weft_slice *slice, char name[WEFT_MAX_NAME + 1])
{
    char box[96];
    const char *whole = layout->entries[slice->tensor].tensor.name;
    const size_t length = strlen(whole);
    const int used = snprintf(box, sizeof box, "#%llu[%llu+%llu,%llu+%llu]", (ull)slice->tensor, (ull)slice->row,
                              (ull)slice->rows, (ull)slice->column, (ull)slice->columns);
    const size_t room = WEFT_MAX_NAME - (size_t)used;
    snprintf(name, WEFT_MAX_NAME + 1, "%s%s", length > room ? whole + length - room : whole, box);
}

weft_status weft_holding_layout(const weft_layout *layout, const weft_cell *entries, uint64_t count, weft_layout **made)
{
    weft_tensor *tensors = weft_mem_take(count + 1, sizeof *tensors);
    entry_tensor *texts = weft_mem_take(count + 1, sizeof *texts);
    uint32_t *keys = weft_mem_take(count + 1, sizeof *keys);
    weft_status status = WEFT_E_MEMORY;
    for (uint64_t i = 0; tensors && texts && keys && i < count; i++) {
        const weft_slice *slice = &entries[i].slice;
        name_entry(layout, slice, texts[i].name);
        texts[i].shape[0] = slice->rows;
        texts[i].shape[1] = slice->columns;
        keys[i] = entries[i].key;
        tensors[i] = (weft_tensor){texts[i].name, layout->entries[slice->tensor].tensor.dtype, 2, texts[i].shape};
    }
    if (tensors && texts && keys)
        status = weft_layout_create_keyed(tensors, keys, count, made);
    else
        weft_fail(WEFT_E_MEMORY, "no memory for the layout of %llu entries", (ull)count);
    weft_mem_give(keys);
    weft_mem_give(texts);
    weft_mem_give(tensors);
    return status;
}

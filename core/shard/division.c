/* division.c - cells of a process, from cuts and slices, and weights bound by them. */
#include "shard/division.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "shard/cell_blocks.h"
#include "shard/holding.h"
#include "shard/share.h"

static void undivided(const weft_layout *model, weft_division *division)
{
    memset(division, 0, sizeof *division);
    division->model = weft_layout_hold((weft_layout *)model);
    division->layout = weft_layout_hold((weft_layout *)model);
}

static weft_status divide(const weft_cut *cuts, uint32_t count, weft_division *division)
{
    weft_layout *whole = NULL;
    weft_status status = weft_cells_open(division->model, cuts, count, &division->cells);
    if (status == WEFT_OK)
        status = weft_holding_layout(division->model, division->cells.cells, division->cells.count, &whole);
    if (status != WEFT_OK)
        return status;
    weft_layout_free(division->layout);
    division->layout = whole;
    return WEFT_OK;
}

/* Leaves the entries of a holding: what its slices and the cells have in common. */
static weft_status narrow(const weft_slice_list *holding, weft_division *division)
{
    weft_cell *entries = NULL;
    uint64_t count = 0;
    weft_layout *held = NULL;
    weft_status status =
        weft_holding_open(division->model, &division->cells, holding->slice, holding->count, &entries, &count);
    if (status == WEFT_OK)
        status = weft_holding_layout(division->model, entries, count, &held);
    if (status != WEFT_OK) {
        weft_mem_give(entries);
        return status;
    }
    weft_mem_give(division->cells.cells);
    division->cells.cells = entries;
    division->cells.count = count;
    weft_layout_free(division->layout);
    division->layout = held;
    return WEFT_OK;
}

weft_status weft_division_open_source(const weft_layout *model, const weft_cut *cuts, uint32_t count,
                                      const weft_slice_list *holding, weft_division *division)
{
    undivided(model, division);
    weft_status status = count > 0 || holding->slice ? divide(cuts, count, division) : WEFT_OK;
    if (status == WEFT_OK && holding->slice)
        status = narrow(holding, division);
    if (status != WEFT_OK)
        weft_division_close(division);
    return status;
}

/* Finds the keys of the slices. */
static weft_status find_keys(const weft_division *division, const weft_slice_list *view, weft_view_keys *keys)
{
    const weft_share share = {
        .layout = division->model, .slices = (weft_slice *)view->slice, .slice_count = view->count};
    bool *wanted = weft_mem_take(division->cells.key_count + 1u, sizeof *wanted);
    if (!wanted)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u keys", division->cells.key_count);
    weft_status status = weft_share_keys(&share, &division->cells, wanted);
    if (status == WEFT_OK)
        status = weft_view_keys_of(wanted, division->cells.key_count, keys);
    weft_mem_give(wanted);
    return status;
}

/* Turns the division of a trainer into that of the rollout that takes these keys. */
static weft_status take_excerpt(const weft_view_keys *keys, weft_division *division)
{
    weft_status status =
        weft_excerpt_open(division->model, &division->cells, division->layout, keys, &division->excerpt);
    if (status != WEFT_OK)
        return status;
    weft_layout_free(division->layout);
    division->layout = weft_layout_hold(division->excerpt.layout);
    weft_cells_close(&division->cells);
    return WEFT_OK;
}

/* Without cuts there is one key, so the slices must be all of the model. */
static weft_status check_whole(const weft_slice_list *view, weft_division *division)
{
    weft_view_keys keys;
    weft_layout *model = weft_layout_hold(division->model);
    weft_status status = divide(NULL, 0, division);
    if (status == WEFT_OK)
        status = find_keys(division, view, &keys);
    weft_division_close(division);
    undivided(model, division);
    weft_layout_free(model);
    return status;
}

weft_status weft_division_open_view(const weft_layout *model, const weft_cut *cuts, uint32_t count,
                                    const weft_slice_list *holding, const weft_slice_list *view,
                                    weft_division *division)
{
    weft_view_keys keys = {.count = 0};
    undivided(model, division);
    weft_status status = WEFT_OK;
    if (count > 0 || holding->slice) {
        status = divide(cuts, count, division);
        if (status == WEFT_OK && view->slice)
            status = find_keys(division, view, &keys);
        if (status == WEFT_OK && holding->slice)
            status = narrow(holding, division);
        if (status == WEFT_OK)
            status = take_excerpt(&keys, division);
    } else if (view->slice) {
        status = check_whole(view, division);
    }
    if (status != WEFT_OK)
        weft_division_close(division);
    return status;
}

void weft_division_close(weft_division *division)
{
    weft_excerpt_close(&division->excerpt);
    weft_cells_close(&division->cells);
    weft_layout_free(division->layout);
    weft_layout_free(division->model);
    weft_mem_give(division->order);
    memset(division, 0, sizeof *division);
}

/* ---- bind */

weft_status weft_division_bind(const weft_division *division, const weft_piece *pieces, const weft_block *blocks,
                               uint64_t count, bool beyond, weft_binding *binding)
{
    weft_cell_blocks whole = {0}, parted = {0};
    uint64_t cell_count;
    const weft_cell *cells = weft_division_cells(division, &cell_count);
    weft_status status = blocks ? WEFT_OK : weft_piece_blocks(division->model, pieces, count, &whole);
    if (status == WEFT_OK)
        status = weft_cell_blocks_open(division->model, cells, cell_count, blocks ? blocks : whole.blocks,
                                       blocks ? count : whole.count, beyond, &parted);
    if (status == WEFT_OK)
        status = weft_binding_open_blocks(division->layout, parted.blocks, parted.count, binding);
    weft_cell_blocks_close(&parted);
    weft_cell_blocks_close(&whole);
    return status;
}

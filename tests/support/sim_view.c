/* sim_view.c - cells of a view, cut out of a dense model. */
#include "tests/support/sim_view.h"

#include <stdlib.h>
#include <string.h>

#include "shard/holding.h"

static void *must_take(uint64_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    if (!memory)
        abort();
    return memory;
}

sim_view *sim_view_open(const weft_layout *model, const weft_cells *cells, const bool *wanted, uint64_t seed)
{
    sim_view *view = must_take(sizeof *view);
    view->model = model;
    view->cells = must_take(cells->count * sizeof *view->cells);
    view->slices = must_take(cells->count * sizeof *view->slices);
    for (uint64_t c = 0; c < cells->count; c++)
        if (wanted[cells->cells[c].key]) {
            view->slices[view->count] = cells->cells[c].slice;
            view->cells[view->count++] = cells->cells[c];
        }
    if (weft_holding_layout(model, view->cells, view->count, &view->layout) != WEFT_OK)
        abort();
    view->image = must_take(view->layout->bytes);
    block_world_open(&view->world, view->layout, seed, true);
    return view;
}

void sim_view_close(sim_view *view)
{
    if (!view)
        return;
    block_world_close(&view->world);
    weft_layout_free(view->layout);
    free(view->image);
    free(view->roots);
    free(view->slices);
    free(view->cells);
    free(view);
}

weft_status sim_view_bind(const sim_view *view, weft_session *session, uint32_t flags)
{
    weft_block *blocks = must_take(view->world.count * sizeof *blocks);
    for (uint64_t i = 0; i < view->world.count; i++) {
        const weft_slice *cell = &view->cells[view->world.blocks[i].slice.tensor].slice;
        blocks[i] = view->world.blocks[i];
        blocks[i].slice.tensor = cell->tensor;
        blocks[i].slice.row += cell->row;
        blocks[i].slice.column += cell->column;
    }
    weft_status status = weft_bind_blocks(session, blocks, view->world.count, NULL, 0, flags);
    free(blocks);
    return status;
}

static uint64_t bytes_of(const weft_layout *model, uint64_t tensor, uint64_t elements)
{
    return elements * model->entries[tensor].row->bits / 8;
}

/* Copies one cell, row by row; rows that are whole are copied together, because a packed row may end within a byte. */
static void cut_cell(const sim_view *view, const uint8_t *tensor, uint64_t number)
{
    const weft_slice *cell = &view->cells[number].slice, whole = weft_slice_whole(view->model, cell->tensor);
    const bool together = cell->columns == whole.columns;
    const uint64_t rows = together ? 1 : cell->rows, columns = together ? cell->rows * cell->columns : cell->columns,
                   bytes = bytes_of(view->model, cell->tensor, columns);
    uint8_t *out = view->image + view->layout->entries[number].offset;
    for (uint64_t r = 0; r < rows; r++)
        memcpy(out + r * bytes,
               tensor + bytes_of(view->model, cell->tensor, (cell->row + r) * whole.columns + cell->column), bytes);
}

static void cut(sim_view *view, const uint8_t *dense)
{
    for (uint64_t c = 0; c < view->count; c++) {
        uint64_t at = 0;
        for (uint64_t t = 0; t < view->cells[c].slice.tensor; t++)
            at += view->model->entries[t].bytes;
        cut_cell(view, dense + at, c);
    }
}

void sim_view_put(sim_view *view, const uint8_t *dense)
{
    cut(view, dense);
    block_world_put(&view->world, view->image);
}

bool sim_view_has(sim_view *view, const uint8_t *dense)
{
    uint8_t *mine = must_take(view->layout->bytes);
    cut(view, dense);
    block_world_get(&view->world, mine);
    const bool same = memcmp(mine, view->image, view->layout->bytes) == 0 && block_world_is_whole(&view->world);
    free(mine);
    return same;
}

uint64_t sim_view_root(sim_view *view, const uint8_t *dense)
{
    uint64_t root = 0;
    weft_piece *pieces = must_take(view->count * sizeof *pieces);
    cut(view, dense);
    for (uint64_t c = 0; c < view->count; c++)
        pieces[c] =
            (weft_piece){c, 0, view->layout->entries[c].elements, view->image + view->layout->entries[c].offset};
    if (weft_digest_tensors(view->layout, pieces, view->count, NULL, NULL, &root) != WEFT_OK)
        abort();
    free(pieces);
    return root;
}

#include "update/update_cells.h"

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "update/update_format.h"
#include "update/update_pack.h"

typedef unsigned long long ull;

#define FORM       1u
#define PACKED     UINT32_C(0xfd2fb528) /* zstd's beginning, which no section has that stands as it is */
#define CELL_MOST  50u                  /* bytes of a cell: five numbers */
#define CELL_LEAST 5u
#define KEY_MOST   56u /* bytes of a key: two words, and four numbers */
#define KEY_LEAST  20u

/* ---- keys */

static uint32_t keys_count(const weft_cells *cells)
{
    uint32_t count = cells->count > 0;
    for (uint64_t i = 1; i < cells->count; i++)
        count += cells->cells[i].key != cells->cells[i - 1].key;
    return count;
}

static weft_status shares_take(weft_update_cells *made, uint32_t count)
{
    made->share_count = count;
    made->shares = weft_mem_take(count + 1u, sizeof *made->shares);
    return made->shares ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for %u keys", count);
}

weft_status weft_update_cells_open(const weft_layout *model, const weft_cells *cells, weft_update_cells *made)
{
    uint32_t at = 0;
    *made = (weft_update_cells){.model = (weft_layout *)(uintptr_t)model, .cells = *cells};
    weft_status status = shares_take(made, keys_count(cells));
    for (uint64_t i = 0; status == WEFT_OK && i < cells->count; i++) {
        at += i > 0 && cells->cells[i].key != cells->cells[i - 1].key;
        made->shares[at].key = cells->cells[i].key;
        made->shares[at].cells++;
    }
    return status;
}

void weft_update_cells_close(weft_update_cells *made)
{
    weft_mem_give(made->shares);
    *made = (weft_update_cells){0};
}

void weft_update_cells_free(weft_update_cells *made)
{
    weft_layout_free(made->model);
    weft_mem_give(made->cells.cells);
    weft_update_cells_close(made);
}

/* ---- shares */

/* Adds up `count` tensors of the layout from *tensor on, of which tensor t is cell t. */
static uint64_t share_sum(const weft_layout *layout, const uint64_t *digests, uint64_t count, uint64_t *tensor)
{
    uint64_t sum = 0;
    for (uint64_t end = *tensor + count; *tensor < end; ++*tensor)
        sum += weft_digest_term(*tensor, weft_digest_tensor(layout, digests, *tensor));
    return sum;
}

void weft_update_cells_base(weft_update_cells *cells, const weft_layout *layout, const uint64_t *digests)
{
    uint64_t tensor = 0;
    for (uint32_t i = 0; i < cells->share_count; i++)
        cells->shares[i].base = share_sum(layout, digests, cells->shares[i].cells, &tensor);
}

void weft_update_cells_target(weft_update_cells *cells, const weft_layout *layout, const uint64_t *digests)
{
    uint64_t tensor = 0;
    for (uint32_t i = 0; i < cells->share_count; i++)
        cells->shares[i].target = share_sum(layout, digests, cells->shares[i].cells, &tensor);
}

void weft_update_cells_begin(weft_update_cells *cells)
{
    for (uint32_t i = 0; i < cells->share_count; i++)
        cells->shares[i].frames = cells->shares[i].bytes = 0;
}

void weft_update_cells_note(weft_update_cells *cells, uint32_t *at, uint32_t key, uint64_t bytes)
{
    while (*at + 1 < cells->share_count && cells->shares[*at].key < key)
        ++*at;
    cells->shares[*at].frames++;
    cells->shares[*at].bytes += bytes;
}

/* ---- write */

static void shares_put(weft_out *out, const weft_update_cells *cells)
{
    uint32_t key = 0;
    weft_number_put(out, cells->share_count);
    for (uint32_t i = 0; i < cells->share_count; i++) {
        const weft_key_share *share = &cells->shares[i];
        weft_number_put(out, share->key - key);
        weft_number_put(out, share->cells);
        weft_out_word(out, share->base, 8);
        weft_out_word(out, share->target, 8);
        weft_number_put(out, share->frames);
        weft_number_put(out, share->bytes);
        key = share->key;
    }
}

static void cells_put(weft_out *out, const weft_cells *cells)
{
    for (uint64_t i = 0; i < cells->count; i++) {
        const weft_slice *slice = &cells->cells[i].slice;
        const bool first = i == 0 || cells->cells[i - 1].key != cells->cells[i].key;
        weft_number_put(out, slice->tensor - (first ? 0 : cells->cells[i - 1].slice.tensor));
        weft_number_put(out, slice->row);
        weft_number_put(out, slice->rows);
        weft_number_put(out, slice->column);
        weft_number_put(out, slice->columns);
    }
}

weft_status weft_update_cells_write(const weft_update_cells *cells, uint8_t **bytes, uint64_t *length)
{
    const uint64_t room = 16 + CELL_MOST * cells->cells.count + KEY_MOST * (uint64_t)cells->share_count;
    uint8_t *plain = weft_mem_take(room, 1);
    if (!plain)
        return weft_fail(WEFT_E_MEMORY, "no memory for a list of %llu cells", (ull)cells->cells.count);
    weft_out out = {plain, room, 0, false};
    weft_out_word(&out, FORM, 1);
    shares_put(&out, cells);
    cells_put(&out, &cells->cells);
    const weft_status status = weft_update_pack(plain, out.used, bytes, length);
    weft_mem_give(plain);
    return status;
}

/* ---- read */

static weft_status damaged(const char *what)
{
    return weft_fail(WEFT_E_CORRUPT, "the update's list of cells is damaged: %s", what);
}

static bool share_get(weft_in *in, uint32_t before, bool first, weft_key_share *share)
{
    const uint64_t step = weft_number_get(in);
    share->key = before + (uint32_t)step;
    share->cells = weft_number_get(in);
    share->base = weft_in_word(in, 8);
    share->target = weft_in_word(in, 8);
    share->frames = weft_number_get(in);
    share->bytes = weft_number_get(in);
    return !in->bad && step < WEFT_CELLS_MOST - before && (step > 0 || first) && share->cells > 0;
}

static weft_status shares_get(weft_in *in, weft_update_cells *made)
{
    const uint64_t form = weft_in_word(in, 1), count = weft_number_get(in);
    if (in->bad || form != FORM)
        return damaged("it is of another form");
    if (count > (in->length - in->used) / KEY_LEAST)
        return damaged("it has more keys than bytes");
    weft_status status = shares_take(made, (uint32_t)count);
    for (uint32_t i = 0; status == WEFT_OK && i < made->share_count; i++) {
        const weft_key_share *before = i > 0 ? &made->shares[i - 1] : NULL;
        if (!share_get(in, before ? before->key : 0, !before, &made->shares[i]))
            return damaged("a key is cut short, or out of order");
        if (made->shares[i].cells > WEFT_CELLS_MOST - made->cells.count)
            return damaged("it has too many cells");
        made->cells.count += made->shares[i].cells;
        made->cells.key_count = made->shares[i].key + 1;
    }
    return status;
}

static bool cell_get(weft_in *in, uint64_t before, weft_slice *slice)
{
    const uint64_t step = weft_number_get(in);
    slice->tensor = before + step;
    slice->row = weft_number_get(in);
    slice->rows = weft_number_get(in);
    slice->column = weft_number_get(in);
    slice->columns = weft_number_get(in);
    return !in->bad && slice->tensor >= step;
}

static weft_status cells_get(weft_in *in, weft_update_cells *made)
{
    weft_cell *cell = made->cells.cells;
    for (uint32_t i = 0; i < made->share_count; i++) {
        uint64_t tensor = 0;
        for (uint64_t c = 0; c < made->shares[i].cells; c++, cell++) {
            cell->key = made->shares[i].key;
            if (!cell_get(in, tensor, &cell->slice))
                return damaged("a cell is cut short, or its numbers are too large");
            if (weft_slice_check(made->model, &cell->slice) != WEFT_OK)
                return damaged("a cell lies beyond its tensor");
            tensor = cell->slice.tensor;
        }
    }
    return weft_in_done(in) ? WEFT_OK : damaged("it is longer than its cells");
}

static weft_status section_get(weft_in *in, weft_update_cells *made)
{
    weft_status status = shares_get(in, made);
    if (status != WEFT_OK)
        return status;
    if (made->cells.count > (in->length - in->used) / CELL_LEAST)
        return damaged("it has more cells than bytes");
    made->cells.cells = weft_mem_take(made->cells.count + 1, sizeof *made->cells.cells);
    return made->cells.cells ? cells_get(in, made)
                             : weft_fail(WEFT_E_MEMORY, "no memory for %llu cells", (ull)made->cells.count);
}

static weft_status section_unpack(const uint8_t *bytes, uint64_t length, uint8_t **plain, uint64_t *plain_bytes)
{
    *plain_bytes = length;
    weft_status status = WEFT_OK;
    if (length >= 4 && weft_bytes_get(bytes, 4) == PACKED)
        status = weft_update_unpacked(bytes, length, WEFT_LAYOUT_MAX, plain_bytes);
    return status == WEFT_OK ? weft_update_unpack(bytes, length, *plain_bytes, plain) : status;
}

weft_status weft_update_cells_read(const uint8_t *bytes, uint64_t length, weft_layout *model, weft_update_cells *made)
{
    uint8_t *plain = NULL;
    uint64_t plain_bytes;
    *made = (weft_update_cells){0};
    weft_status status = section_unpack(bytes, length, &plain, &plain_bytes);
    if (status != WEFT_OK)
        return status;
    made->model = weft_layout_hold(model);
    weft_in in = {plain, plain_bytes, 0, false};
    status = section_get(&in, made);
    weft_mem_give(plain);
    if (status != WEFT_OK)
        weft_update_cells_free(made);
    return status;
}

weft_status weft_update_shares_read(const uint8_t *bytes, uint64_t length, weft_key_share **shares, uint32_t *count)
{
    uint8_t *plain = NULL;
    uint64_t plain_bytes;
    weft_update_cells made = {0};
    weft_status status = section_unpack(bytes, length, &plain, &plain_bytes);
    if (status != WEFT_OK)
        return status;
    weft_in in = {plain, plain_bytes, 0, false};
    status = shares_get(&in, &made);
    weft_mem_give(plain);
    if (status != WEFT_OK) {
        weft_mem_give(made.shares);
        return status;
    }
    *shares = made.shares;
    *count = made.share_count;
    return WEFT_OK;
}

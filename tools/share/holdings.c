/* holdings.c - share files of sources, and their slices in a whole model. */
#include "tools/share/holdings.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "site/site.h"

bool weft_holdings_named(const weft_site *site)
{
    bool named = false;
    for (uint64_t r = 0; r < site->source_count; r++)
        named = named || site->sources[r].holding[0];
    return named;
}

/* Keeps the slices that the source contributes; the others are replicas of another's. */
static weft_status take_contributed(const weft_share *share, uint32_t r, weft_holdings *holdings)
{
    weft_slice *slices = weft_mem_take(share->slice_count + 1, sizeof *slices);
    uint64_t count = 0;
    if (!slices)
        return weft_fail(WEFT_E_MEMORY, "no memory for the slices of source %u", r);
    for (uint64_t i = 0; i < share->slice_count; i++)
        if (share->contributed[i])
            slices[count++] = share->slices[i];
    holdings->slices[r] = slices;
    holdings->source[r] = (weft_trainer_source){.slices = slices, .slice_count = count};
    return WEFT_OK;
}

static weft_status open_one(const weft_site *site, const weft_layout *model, uint32_t r, weft_holdings *holdings)
{
    const char *path = site->sources[r].holding;
    weft_share_file file = {0};
    weft_share share = {0};
    if (!path[0])
        return weft_fail(WEFT_E_CONFIG, "%s: [source.%u] has no holding, and others do", site->path, r);
    weft_status status = weft_share_file_open(path, &file); /* which names the path */
    if (status != WEFT_OK)
        return status;
    status = weft_share_open(model, file.rules, file.count, &share);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    if (status == WEFT_OK)
        status = take_contributed(&share, r, holdings);
    if (share.portions)
        weft_share_close(&share);
    weft_share_file_close(&file);
    return status;
}

weft_status weft_holdings_open(const weft_site *site, const weft_layout *model, weft_holdings *holdings)
{
    weft_status status = WEFT_OK;
    memset(holdings, 0, sizeof *holdings);
    if (!weft_holdings_named(site))
        return WEFT_OK;
    holdings->count = (uint32_t)site->source_count;
    for (uint32_t r = 0; r < holdings->count && status == WEFT_OK; r++)
        status = open_one(site, model, r, holdings);
    return status;
}

void weft_holdings_close(weft_holdings *holdings)
{
    for (uint32_t r = 0; r < holdings->count; r++)
        weft_mem_give(holdings->slices[r]);
    memset(holdings, 0, sizeof *holdings);
}

static uint64_t bytes_of(const weft_layout *model, uint64_t tensor, uint64_t elements)
{
    return elements * model->entries[tensor].row->bits / 8;
}

void weft_holdings_blocks(const weft_layout *model, const weft_trainer_source *source, const weft_piece *pieces,
                          weft_block *blocks)
{
    for (uint64_t i = 0; i < source->slice_count; i++) {
        const weft_slice *slice = &source->slices[i], whole = weft_slice_whole(model, slice->tensor);
        const uint64_t first = slice->row * whole.columns + slice->column;
        blocks[i] = (weft_block){.slice = *slice,
                                 .data = (uint8_t *)pieces[slice->tensor].data + bytes_of(model, slice->tensor, first)};
        if (slice->columns != whole.columns)
            blocks[i].row[0] = (weft_stride){slice->rows, bytes_of(model, slice->tensor, whole.columns)};
    }
}

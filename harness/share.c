#include "harness/share.h"

#include <stdlib.h>
#include <string.h>

#include "harness/session.h"
#include "layout/layout.h"
#include "shard/cut.h"

static weft_slice slice_of(const weft_layout *layout, uint64_t tensor, fleet_cut cut)
{
    weft_slice slice = weft_slice_whole(layout, tensor);
    uint64_t *from = slice.rows > 1 ? &slice.row : &slice.column,
             *count = slice.rows > 1 ? &slice.rows : &slice.columns;
    const uint64_t all = *count;
    *from = all * cut.first / cut.of;
    *count = all * (cut.first + cut.take) / cut.of - *from;
    return slice;
}

static uint64_t width_of(const weft_layout *layout, const weft_slice *slice)
{
    return layout->entries[slice->tensor].row->bits / 8;
}

static uint64_t bytes_of(const weft_layout *layout, const weft_slice *slice)
{
    return slice->rows * slice->columns * width_of(layout, slice);
}

static uint8_t *in_model(const weft_model *model, const weft_slice *slice)
{
    uint64_t count;
    const weft_layout *layout = weft_model_layout(model);
    const uint64_t columns = weft_slice_whole(layout, slice->tensor).columns;
    uint8_t *data = weft_model_pieces(model, &count)[slice->tensor].data;
    return data + (slice->row * columns + slice->column) * width_of(layout, slice);
}

/* Lays the slices out one behind the other. */
static void image_open(fleet_share *share, const weft_layout *layout)
{
    uint64_t bytes = 0, at = 0;
    for (uint64_t i = 0; i < share->count; i++)
        bytes += (bytes_of(layout, &share->slices[i]) + 63) & ~UINT64_C(63);
    share->image = aligned_alloc(64, bytes + 64);
    if (!share->image)
        fleet_fail("no memory for %llu bytes of weights", (unsigned long long)bytes);
    for (uint64_t i = 0; i < share->count; i++) {
        share->blocks[i].data = share->image + at;
        at += (bytes_of(layout, &share->slices[i]) + 63) & ~UINT64_C(63);
    }
}

void fleet_share_open(fleet_share *share, const weft_model *model, fleet_cut cut, bool own)
{
    const weft_layout *layout = weft_model_layout(model);
    *share = (fleet_share){.slices = calloc(layout->count, sizeof *share->slices),
                           .blocks = calloc(layout->count, sizeof *share->blocks),
                           .whole = cut.take == cut.of && cut.each == 1};
    if (!share->slices || !share->blocks)
        fleet_fail("no memory for %llu slices", (unsigned long long)layout->count);
    for (uint64_t t = cut.at; t < layout->count; t += cut.each) {
        weft_slice *slice = &share->slices[share->count];
        *slice = slice_of(layout, t, cut);
        share->blocks[share->count++] = (weft_block){.slice = *slice, .data = in_model(model, slice)};
    }
    if (!own)
        return;
    image_open(share, layout);
    fleet_share_fill(share, model);
}

void fleet_share_close(fleet_share *share)
{
    free(share->slices);
    free(share->blocks);
    free(share->image);
    memset(share, 0, sizeof *share);
}

void fleet_share_fill(const fleet_share *share, const weft_model *model)
{
    for (uint64_t i = 0; i < share->count; i++)
        memcpy(share->blocks[i].data, in_model(model, &share->slices[i]),
               bytes_of(weft_model_layout(model), &share->slices[i]));
}

void fleet_share_bind(const fleet_share *share, weft_session *session, uint32_t flags)
{
    fleet_need(weft_bind_blocks(session, share->blocks, share->count, NULL, 0, flags), "bind");
}

/* gpu_encode_chain.c - batches of level fast alone, as one chain from the weights to payloads on the host:
 *
 *   diff, scan   as in every batch
 *   fast_lists   memory for the lists and the frames of each job, for as long as there is memory
 *   gather       the changes
 *   fast_frame   counts, parameters, planes
 *
 * The host puts the headers in front. If jobs lacked memory, the launches after scan are repeated for those. A payload
 * that is not worth a frame is refused, and its job goes by rounds (gpu_encode_round.c). */
#include <stddef.h>
#include <string.h>

#include "backends/gpu/gpu_encode.h"

#define QUAD WEFT_GPU_HEADER_ROOM
_Static_assert(QUAD == 16, "a header takes a quad");
_Static_assert(offsetof(weft_k_fast_job, changes) == 0, "a job's address is that of its changes");

static bool is_fast(const weft_encode_job *job)
{
    return job->levels == 1u << WEFT_LEVEL_FAST;
}

bool weft_gpu_chain_fits(const weft_gpu_slab *slab)
{
    bool fits = true;
    for (uint32_t i = 0; i < slab->count && fits; i++)
        fits = is_fast(slab->jobs[i]);
    return fits;
}

/* ---- rows */

static uint64_t job_rows(const weft_encode_job *job)
{
    return sizeof(weft_k_fast_job) + weft_gpu_tiles(&job->now) * sizeof(weft_k_gather);
}

weft_gpu_need weft_gpu_chain_need(const weft_encode_job *job)
{
    const uint64_t rows = is_fast(job) ? job_rows(job) : 0;
    return (weft_gpu_need){.device = rows, .pinned = rows + (is_fast(job) ? sizeof(weft_k_fast_made) : 0)};
}

uint64_t weft_gpu_chain_rows(const weft_gpu_slab *slab)
{
    uint64_t bytes = sizeof(weft_k_fast_lists) + 4 * WEFT_GPU_ROW_ALIGN;
    for (uint32_t i = 0; i < slab->count; i++)
        bytes += job_rows(slab->jobs[i]);
    return bytes;
}

/* The bytes of the largest payload that may be a frame (weft_encode_fits). */
static uint32_t payload_most(const weft_encode_job *job)
{
    const uint64_t dense = weft_frame_full_payload(job->now.count, job->now.width) - WEFT_FRAME_ALIGN;
    const uint64_t frame = job->largest_frame - WEFT_FRAME_HEADER_BYTES;
    return (uint32_t)(job->now.units == 1 || dense < frame ? dense : frame);
}

static void jobs_make(weft_gpu_batch *batch, weft_gpu_sheet *rows, uint64_t made)
{
    const uint32_t count = batch->slab->count;
    weft_k_fast_job *row = weft_gpu_rows_add(rows, count * sizeof *row, &batch->chain.jobs);
    for (uint32_t i = 0; i < count; i++) {
        const weft_gpu_encoding *encoding = &batch->encodings[i];
        const weft_view *now = &encoding->job->now;
        row[i] = (weft_k_fast_job){.changes = {.width = now->width, .is_float = now->is_float, .elements = now->count},
                                   .made = made + i * sizeof(weft_k_fast_made),
                                   .total = encoding->pair.counts + encoding->pair.slices * sizeof(uint32_t),
                                   .changed_most = now->units > 1 ? WEFT_FRAME_RUN_CHANGES : UINT32_MAX,
                                   .payload_most = payload_most(encoding->job)};
    }
}

static void gathers_make(weft_gpu_batch *batch, weft_gpu_sheet *rows)
{
    uint32_t tiles = 0;
    for (uint32_t i = 0; i < batch->slab->count; i++)
        tiles += batch->encodings[i].pair.tile_count;
    weft_k_gather *row = weft_gpu_rows_add(rows, tiles * sizeof *row, &batch->chain.gathers);
    for (uint32_t i = 0; i < batch->slab->count; i++) {
        const weft_gpu_encoding *encoding = &batch->encodings[i];
        for (uint32_t t = 0; t < encoding->pair.tile_count; t++)
            *row++ = (weft_k_gather){.tile = encoding->pair.tiles + t * sizeof(weft_k_diff),
                                     .changes = batch->chain.jobs + i * sizeof(weft_k_fast_job),
                                     .sums = encoding->device_sums};
    }
    batch->chain.tiles = tiles;
}

/* Returns what is left of a room, in whole quads. */
static uint64_t room_left(const weft_gpu_room *room)
{
    const uint64_t used = (room->used + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
    return used < room->bytes ? (room->bytes - used) / QUAD * QUAD : 0;
}

/* Bytes that the frames of a batch take at most. */
static uint64_t frames_most(const weft_gpu_slab *slab)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < slab->count; i++)
        bytes += WEFT_GPU_HEADER_ROOM + weft_gpu_payload_room(payload_most(slab->jobs[i]));
    return (bytes + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
}

/* Frames get what they need at most, or two fifths of the device's memory that is left, because a job's lists take
 * somewhat more than the room for its payload. Both have room for the largest job, because weft_gpu_round_least has. */
static void memory_take(weft_gpu_batch *batch, weft_k_fast_lists *row)
{
    weft_gpu_slab *slab = batch->slab;
    const uint64_t share = room_left(&slab->device) * 2 / 5 / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
    const uint64_t need = frames_most(slab), most = share < need ? share : need;
    const uint64_t pinned = room_left(&slab->pinned), frames = most < pinned ? most : pinned;
    row->payloads = weft_gpu_take_device(slab, frames);
    batch->chain.frames = weft_gpu_take_pinned(slab, frames, &row->copies);
    const uint64_t lists = room_left(&slab->device);
    row->lists = weft_gpu_take_device(slab, lists);
    row->frame_quads = (uint32_t)(frames / QUAD);
    row->list_quads = (uint32_t)(lists / QUAD);
}

void weft_gpu_chain_make(weft_gpu_batch *batch, weft_gpu_sheet *rows)
{
    const uint32_t count = batch->slab->count;
    uint64_t made;
    batch->chain.made = memset(weft_gpu_take_pinned(batch->slab, count * sizeof *batch->chain.made, &made), 0,
                               count * sizeof *batch->chain.made);
    jobs_make(batch, rows, made);
    gathers_make(batch, rows);
    weft_k_fast_lists *row = weft_gpu_rows_add(rows, sizeof *row, &batch->chain.lists);
    *row = (weft_k_fast_lists){.jobs = batch->chain.jobs, .count = count};
    memory_take(batch, row);
}

weft_status weft_gpu_chain_launch(weft_gpu_batch *batch)
{
    weft_gpu *gpu = batch->gpu;
    weft_gpu_slab *slab = batch->slab;
    const weft_gpu_chain *chain = &batch->chain;
    weft_status status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_fast_lists, 1, chain->lists);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_gather, chain->tiles * WEFT_K_SLICES, chain->gathers);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_fast_frame, slab->count, chain->jobs);
    if (status == WEFT_OK)
        status = weft_gpu_sheet_fetch(gpu, slab, &batch->sums);
    return status;
}

/* ---- frames */

static weft_gpu_frame frame_of(const weft_gpu_chain *chain, const weft_gpu_encoding *encoding,
                               const weft_k_fast_made *made)
{
    const weft_view *now = &encoding->job->now;
    const weft_fast_shape shape = {
        .exceptions = made->exceptions, .gap_bits = made->gap_bits, .magnitude_bits = made->magnitude_bits};
    return (weft_gpu_frame){.header = {.unit = now->unit,
                                       .units = now->units,
                                       .level = WEFT_LEVEL_FAST,
                                       .payload_bytes = made->bytes,
                                       .changed = encoding->changed,
                                       .parameters = weft_fast_parameters(&shape)},
                            .copy = chain->frames + (uint64_t)QUAD * made->place};
}

/* Ends the jobs that have a payload. */
static void frames_end(weft_gpu_batch *batch, bool lend)
{
    for (uint32_t i = 0; i < batch->slab->count; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        if (encoding->changed == 0 || batch->chain.made[i].bytes == 0)
            continue;
        encoding->frames[WEFT_LEVEL_FAST] = frame_of(&batch->chain, encoding, &batch->chain.made[i]);
        weft_gpu_encoding_end(batch->slab, encoding, lend);
        encoding->changed = 0;
    }
}

weft_status weft_gpu_chain_end(weft_gpu_batch *batch)
{
    const uint32_t before = batch->chain.pending;
    uint32_t refused = 0, made = 0;
    for (uint32_t i = 0; i < batch->slab->count; i++) {
        made += batch->chain.made[i].bytes > 0;
        refused += batch->chain.made[i].place > 0 && batch->chain.made[i].bytes == 0;
    }
    batch->chain.pending = batch->chain.wanted - made;
    const bool again = batch->chain.pending > refused && batch->chain.pending < before;
    frames_end(batch, batch->chain.pending == 0);
    if (again || batch->chain.pending == 0)
        return again ? WEFT_AGAIN : WEFT_OK;
    return weft_gpu_clear(batch->gpu, batch->slab, batch->sums.address, batch->sums.used); /* the rounds add them up */
}

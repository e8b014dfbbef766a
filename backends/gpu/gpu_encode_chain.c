/* gpu_encode_chain.c - batches of level fast alone, as one chain from the weights to payloads on the host:
 *
 *   diff, scan   as in every batch
 *   fast_lists   memory for the lists and the frames of each job, for as long as there is memory
 *   gather       the changes
 *   fast_frame   counts, parameters, planes
 *
 * The host puts the headers in front. Once a caller has all frames of a batch that took one pass, the shadow can follow
 * from the lists (gpu_follow.c). If jobs lacked memory, the launches after scan are repeated for those. A payload
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

uint64_t weft_gpu_chain_rows(uint32_t jobs, uint32_t tiles)
{
    return sizeof(weft_k_fast_lists) + jobs * sizeof(weft_k_fast_job) + tiles * sizeof(weft_k_gather) +
           4 * WEFT_GPU_ROW_ALIGN;
}

/* The bytes of the largest payload that may be a frame (weft_encode_fits). */
static uint32_t payload_most(const weft_encode_job *job)
{
    const uint64_t dense = weft_frame_full_payload(job->now.count, job->now.width) - WEFT_FRAME_ALIGN;
    const uint64_t frame = job->largest_frame - WEFT_FRAME_HEADER_BYTES;
    return (uint32_t)(job->now.units == 1 || dense < frame ? dense : frame);
}

void weft_gpu_chain_open(weft_gpu_batch *batch, weft_gpu_sheet *rows, uint32_t tiles)
{
    weft_gpu_chain *chain = &batch->chain;
    const uint32_t count = batch->slab->count;
    const uint64_t made = count * sizeof *chain->made;
    chain->made = memset(weft_gpu_take_pinned(batch->slab, made, &chain->made_at), 0, made);
    chain->job_rows = weft_gpu_rows_add(rows, count * sizeof *chain->job_rows, &chain->jobs);
    chain->next_gather = weft_gpu_rows_add(rows, tiles * sizeof *chain->next_gather, &chain->gathers);
    chain->list_row = weft_gpu_rows_add(rows, sizeof *chain->list_row, &chain->lists);
    chain->tiles = tiles;
}

void weft_gpu_chain_put(weft_gpu_batch *batch, uint32_t place)
{
    weft_gpu_chain *chain = &batch->chain;
    const weft_gpu_encoding *encoding = &batch->encodings[place];
    const weft_view *now = &encoding->job->now;
    const uint32_t most = payload_most(encoding->job);
    chain->job_rows[place] =
        (weft_k_fast_job){.changes = {.width = now->width, .is_float = now->is_float, .elements = now->count},
                          .made = chain->made_at + place * sizeof *chain->made,
                          .total = encoding->pair.counts + encoding->pair.slices * sizeof(uint32_t),
                          .changed_most = now->units > 1 ? WEFT_FRAME_RUN_CHANGES : UINT32_MAX,
                          .payload_most = most};
    for (uint32_t t = 0; t < encoding->pair.tile_count; t++)
        *chain->next_gather++ = (weft_k_gather){.tile = encoding->pair.tiles + t * sizeof(weft_k_diff),
                                                .changes = chain->jobs + place * sizeof(weft_k_fast_job),
                                                .sums = encoding->device_sums};
    chain->frames_most += WEFT_GPU_HEADER_ROOM + weft_gpu_payload_room(most);
}

/* Returns what is left of a room, in whole quads. */
static uint64_t room_left(const weft_gpu_room *room)
{
    const uint64_t used = (room->used + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
    return used < room->bytes ? (room->bytes - used) / QUAD * QUAD : 0;
}

/* Frames get what they need at most, or a third of the device's memory that is left, because a job's lists take two to
 * three times the room for its payload. Both have room for the largest job, because weft_gpu_round_least has. */
void weft_gpu_chain_memory(weft_gpu_batch *batch)
{
    weft_gpu_slab *slab = batch->slab;
    weft_gpu_chain *chain = &batch->chain;
    const uint64_t share = room_left(&slab->device) / 3 / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
    const uint64_t need = (chain->frames_most + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN;
    const uint64_t most = share < need ? share : need, pinned = room_left(&slab->pinned);
    const uint64_t frames = most < pinned ? most : pinned;
    *chain->list_row = (weft_k_fast_lists){.jobs = chain->jobs,
                                           .count = slab->count,
                                           .payloads = weft_gpu_take_device(slab, frames),
                                           .frame_quads = (uint32_t)(frames / QUAD)};
    chain->frames = weft_gpu_take_pinned(slab, frames, &chain->list_row->copies);
    chain->frame_bytes = frames;
    const uint64_t lists = room_left(&slab->device);
    chain->list_row->lists = weft_gpu_take_device(slab, lists);
    chain->list_row->list_quads = (uint32_t)(lists / QUAD);
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

/* Jobs ahead of which the place of the header is fetched, because the device wrote there last and no cache has it. */
#define AHEAD 8u

static uint8_t *payload_of(const weft_gpu_chain *chain, uint32_t place)
{
    return chain->frames + (uint64_t)QUAD * chain->made[place].place;
}

static void frame_end(weft_gpu_batch *batch, weft_gpu_encoding *encoding, uint32_t place, bool lend)
{
    const weft_k_fast_made *made = &batch->chain.made[place];
    const weft_view *now = &encoding->job->now;
    const weft_fast_shape shape = {
        .exceptions = made->exceptions, .gap_bits = made->gap_bits, .magnitude_bits = made->magnitude_bits};
    const weft_gpu_frame frame = {.header = {.unit = now->unit,
                                             .units = now->units,
                                             .level = WEFT_LEVEL_FAST,
                                             .payload_bytes = made->bytes,
                                             .changed = encoding->changed,
                                             .parameters = weft_fast_parameters(&shape)},
                                  .copy = payload_of(&batch->chain, place)};
    weft_gpu_digests_end(encoding);
    weft_gpu_frame_end(batch->slab, encoding, WEFT_LEVEL_FAST, &frame, lend);
    encoding->job->follows = encoding->lent && batch->chain.follows;
    encoding->changed = 0;
}

/* Ends the jobs that have a payload. */
static void frames_end(weft_gpu_batch *batch, double each, bool lend)
{
    const weft_gpu_chain *chain = &batch->chain;
    const uint32_t count = batch->slab->count;
    for (uint32_t i = 0; i < count; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        if (i + AHEAD < count && chain->made[i + AHEAD].place > 0)
            __builtin_prefetch(payload_of(chain, i + AHEAD) - QUAD, 1);
        encoding->job->encode_ms += each;
        if (!chain->ended)
            weft_gpu_changed_note(batch, i);
        if (encoding->changed > 0 && chain->made[i].bytes > 0)
            frame_end(batch, encoding, i, lend);
    }
}

/* The host writes a header and reads a payload where the device says that they are. */
static bool made_fits(const weft_gpu_chain *chain, const weft_encode_job *job, const weft_k_fast_made *made)
{
    const uint64_t end = (uint64_t)QUAD * made->place + made->bytes;
    return made->bytes == 0 || (made->place > 0 && made->bytes <= payload_most(job) && end <= chain->frame_bytes);
}

weft_status weft_gpu_chain_end(weft_gpu_batch *batch, double each)
{
    weft_gpu_chain *chain = &batch->chain;
    uint32_t wanted = 0, refused = 0, made = 0, still = 0;
    const weft_status status = chain->ended ? WEFT_OK : weft_gpu_totals_check(batch);
    if (status != WEFT_OK)
        return status;
    for (uint32_t i = 0; i < batch->slab->count; i++) {
        if (!made_fits(chain, batch->slab->jobs[i], &chain->made[i]))
            return weft_gpu_wrong_fail(batch->gpu, "a frame that is not in the memory for frames");
        wanted += weft_gpu_coded(batch, i) > 0;
        made += chain->made[i].bytes > 0;
        refused += chain->made[i].place > 0 && chain->made[i].bytes == 0;
        still += chain->made[i].still;
    }
    const uint32_t pending = wanted - made, before = chain->ended ? chain->pending : wanted;
    const bool again = pending > refused && pending < before;
    chain->pending = pending;
    chain->follows = !chain->ended && pending == 0 && still == 0;
    frames_end(batch, each, pending == 0);
    chain->ended = true;
    if (again || pending == 0)
        return again ? WEFT_AGAIN : WEFT_OK;
    return weft_gpu_clear(batch->gpu, batch->slab, batch->sums.address, batch->sums.used); /* the rounds add them up */
}

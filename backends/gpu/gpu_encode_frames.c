/* gpu_encode_frames.c - a round of encode jobs: the planes of their frames, and the frames. */
#include "backends/gpu/gpu_encode.h"

#include <string.h>

#include "backends/host/host_state.h"

uint64_t weft_gpu_planes_rows(const weft_encode_job *job)
{
    return sizeof(weft_k_fast_write) + sizeof(weft_k_pairs_write) +
           WEFT_LEVEL_COUNT * weft_gpu_tiles(&job->now) * sizeof(weft_k_full_write) + sizeof(weft_k_tight_write) +
           WEFT_TIGHT_LISTS * sizeof(weft_k_list_write) + 8 * WEFT_GPU_ROW_ALIGN;
}

uint64_t weft_gpu_round_bytes(const weft_gpu_batch *batch, uint64_t (*of)(const weft_encode_job *job))
{
    uint64_t bytes = 0;
    for (uint32_t i = batch->first; i < batch->end; i++)
        bytes += of(batch->encodings[i].job);
    return bytes;
}

/* ---- planes */

/* Notes a frame and takes room for its payload. A level without a coded frame becomes full, if possible. False: the
 * units go alone. */
static bool frame_take(weft_gpu_batch *batch, weft_gpu_encoding *encoding, weft_level wanted, weft_frame_header header,
                       bool coded)
{
    weft_encode_job *job = encoding->job;
    weft_gpu_frame *frame = &encoding->frames[wanted];
    if (!coded && job->now.units > 1) {
        job->alone |= 1u << wanted;
        return false;
    }
    if (!coded)
        header = (weft_frame_header){.level = WEFT_LEVEL_FULL,
                                     .payload_bytes = (uint32_t)weft_frame_full_payload(job->now.count, job->now.width),
                                     .changed = job->now.count,
                                     .parameters = wanted >= WEFT_LEVEL_FAST ? WEFT_FULL_STEPS : WEFT_FULL_BITS};
    header.unit = job->now.unit;
    header.units = job->now.units;
    const uint64_t at = batch->payload_used + WEFT_GPU_HEADER_ROOM;
    *frame = (weft_gpu_frame){.header = header, .payload = batch->payload + at, .copy = batch->payload_copy + at};
    batch->payload_used = at + weft_gpu_payload_room(header.payload_bytes);
    return coded;
}

/* Rows of the round's planes, each sort in a stretch of its own. */
typedef struct plane_rows {
    weft_k_fast_write *fast;
    weft_k_pairs_write *pairs;
    weft_k_full_write *full;
    weft_k_list_write *lists, *next_list;
    weft_k_tight_write *tight, *next_tight;
    uint64_t fast_at, pairs_at, full_at, lists_at, tight_at;
    uint32_t fast_count, pairs_count, full_count;
} plane_rows;

static void full_put(const weft_gpu_encoding *encoding, const weft_gpu_frame *frame, plane_rows *rows)
{
    for (uint32_t t = 0; t < encoding->pair.tile_count; t++)
        rows->full[rows->full_count++] = (weft_k_full_write){.tile = encoding->pair.tiles + t * sizeof(weft_k_diff),
                                                             .payload = frame->payload,
                                                             .steps = weft_frame_has_full_steps(&frame->header),
                                                             .is_float = encoding->job->now.is_float};
}

static void fast_put(weft_gpu_batch *batch, weft_gpu_encoding *encoding, plane_rows *rows)
{
    const weft_fast_plan plan = weft_gpu_fast_plan(encoding);
    const uint64_t bytes = weft_fast_payload(&plan.shape, plan.unary_bits, plan.magnitude_bits);
    const weft_frame_header header = {.level = WEFT_LEVEL_FAST,
                                      .payload_bytes = (uint32_t)bytes,
                                      .changed = encoding->changed,
                                      .parameters = weft_fast_parameters(&plan.shape)};
    if (frame_take(batch, encoding, WEFT_LEVEL_FAST, header, weft_encode_fits(encoding->job, bytes)))
        rows->fast[rows->fast_count++] = weft_gpu_fast_row(encoding, &plan, encoding->frames[WEFT_LEVEL_FAST].payload);
}

static void pairs_put(weft_gpu_batch *batch, weft_gpu_encoding *encoding, plane_rows *rows)
{
    const weft_view *now = &encoding->job->now;
    const uint64_t bytes = weft_frame_pairs_payload(encoding->changed, now->width);
    const weft_frame_header header = {
        .level = WEFT_LEVEL_PAIRS, .payload_bytes = (uint32_t)bytes, .changed = encoding->changed};
    const bool coded = now->units == 1 && bytes < weft_frame_full_payload(now->count, now->width);
    if (frame_take(batch, encoding, WEFT_LEVEL_PAIRS, header, coded))
        rows->pairs[rows->pairs_count++] =
            (weft_k_pairs_write){encoding->changes, encoding->frames[WEFT_LEVEL_PAIRS].payload};
}

static void tight_put(weft_gpu_batch *batch, weft_gpu_encoding *encoding, plane_rows *rows)
{
    const uint64_t bytes = weft_gpu_tight_plan(encoding);
    const weft_frame_header header = {.level = WEFT_LEVEL_TIGHT,
                                      .payload_bytes = (uint32_t)bytes,
                                      .changed = encoding->changed,
                                      .parameters = weft_tight_parameters(&encoding->tight->shape)};
    if (frame_take(batch, encoding, WEFT_LEVEL_TIGHT, header, weft_encode_fits(encoding->job, bytes)))
        weft_gpu_tight_planes(encoding, encoding->frames[WEFT_LEVEL_TIGHT].payload, &rows->next_list,
                              &rows->next_tight);
}

static void planes_put(weft_gpu_batch *batch, weft_gpu_encoding *encoding, plane_rows *rows)
{
    memset(encoding->frames, 0, sizeof encoding->frames);
    if (weft_gpu_wants(encoding, WEFT_LEVEL_FULL))
        frame_take(batch, encoding, WEFT_LEVEL_FULL, (weft_frame_header){0}, false);
    if (weft_gpu_wants(encoding, WEFT_LEVEL_PAIRS))
        pairs_put(batch, encoding, rows);
    if (weft_gpu_wants(encoding, WEFT_LEVEL_FAST))
        fast_put(batch, encoding, rows);
    if (weft_gpu_wants(encoding, WEFT_LEVEL_TIGHT))
        tight_put(batch, encoding, rows);
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++) {
        const weft_gpu_frame *frame = &encoding->frames[level];
        if (frame->header.payload_bytes > 0 && frame->header.level == WEFT_LEVEL_FULL)
            full_put(encoding, frame, rows);
    }
}

static void plane_rows_make(const weft_gpu_batch *batch, weft_gpu_sheet *rows, plane_rows *made)
{
    const uint32_t jobs = batch->end - batch->first;
    uint64_t tiles = 0;
    for (uint32_t i = batch->first; i < batch->end; i++)
        tiles += batch->encodings[i].pair.tile_count;
    *made = (plane_rows){0};
    made->fast = weft_gpu_rows_add(rows, jobs * sizeof *made->fast, &made->fast_at);
    made->pairs = weft_gpu_rows_add(rows, jobs * sizeof *made->pairs, &made->pairs_at);
    made->full = weft_gpu_rows_add(rows, WEFT_LEVEL_COUNT * tiles * sizeof *made->full, &made->full_at);
    made->lists = weft_gpu_rows_add(rows, WEFT_TIGHT_LISTS * jobs * sizeof *made->lists, &made->lists_at);
    made->tight = weft_gpu_rows_add(rows, jobs * sizeof *made->tight, &made->tight_at);
    made->next_list = made->lists;
    made->next_tight = made->tight;
}

static weft_status planes_launch(weft_gpu_batch *batch, const plane_rows *rows)
{
    weft_gpu *gpu = batch->gpu;
    weft_gpu_slab *slab = batch->slab;
    weft_status status = weft_gpu_clear(gpu, slab, batch->payload, batch->payload_used);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_fast_write, rows->fast_count, rows->fast_at);
    if (status == WEFT_OK)
        status =
            weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_pairs_write, rows->pairs_count * WEFT_K_SLICES, rows->pairs_at);
    if (status == WEFT_OK)
        status =
            weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_full_write, rows->full_count * WEFT_K_SLICES, rows->full_at);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_list_write, (uint32_t)(rows->next_list - rows->lists),
                                 rows->lists_at);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_tight_write, (uint32_t)(rows->next_tight - rows->tight),
                                 rows->tight_at);
    if (status == WEFT_OK)
        status =
            weft_gpu_copy(gpu, slab, (uint64_t)(uintptr_t)batch->payload_copy, batch->payload, batch->payload_used);
    return status;
}

weft_status weft_gpu_round_planes(weft_gpu_batch *batch)
{
    plane_rows planes;
    weft_gpu_sheet rows = weft_gpu_sheet_open(batch->slab, weft_gpu_round_bytes(batch, weft_gpu_planes_rows), true);
    batch->payload = weft_gpu_take_device(batch->slab, batch->payload_bytes);
    batch->payload_copy = weft_gpu_take_pinned(batch->slab, batch->payload_bytes, NULL);
    batch->payload_used = 0;
    plane_rows_make(batch, &rows, &planes);
    for (uint32_t i = batch->first; i < batch->end; i++) {
        if (batch->encodings[i].changed > 0)
            planes_put(batch, &batch->encodings[i], &planes);
    }
    if (batch->payload_used > batch->payload_bytes)
        return weft_gpu_wrong_fail(batch->gpu, "counts that no changes have");
    weft_status status = weft_gpu_sheet_send(batch->gpu, batch->slab, &rows);
    return status == WEFT_OK ? planes_launch(batch, &planes) : status;
}

/* ---- frames */

/* Completes a frame where its payload was copied to. */
static uint8_t *frame_finish(const weft_gpu_encoding *encoding, const weft_gpu_frame *frame)
{
    uint8_t *begin = frame->copy - WEFT_FRAME_HEADER_BYTES;
    weft_frame_write_header(begin, &frame->header);
    if (frame->header.level == WEFT_LEVEL_TIGHT)
        weft_tight_write_lists(&encoding->tight->shape, frame->copy);
    return begin;
}

static void frame_put(const uint8_t *frame, uint32_t bytes, weft_frame_sink *sink, uint32_t *frame_bytes)
{
    uint8_t *out = weft_host_sink_take(sink, bytes);
    if (out)
        memcpy(out, frame, bytes);
    *frame_bytes = out ? bytes : 0;
}

void weft_gpu_digests_end(const weft_gpu_encoding *encoding)
{
    for (uint32_t s = 0; s < encoding->pair.sum_count; s++)
        encoding->job->tensor_delta[encoding->pair.parts[s]] += encoding->sums[s];
}

void weft_gpu_frame_end(weft_gpu_slab *slab, weft_gpu_encoding *encoding, weft_level wanted,
                        const weft_gpu_frame *frame, bool lend)
{
    weft_encode_job *job = encoding->job;
    const uint8_t *made = frame_finish(encoding, frame);
    uint32_t *bytes = &job->frame_bytes[wanted];
    *bytes = WEFT_FRAME_HEADER_BYTES + frame->header.payload_bytes;
    if (!lend || !job->lend) {
        frame_put(made, *bytes, &job->sinks[wanted], bytes);
        return;
    }
    job->lent[wanted] = made;
    slab->lent += !encoding->lent;
    encoding->lent = true;
}

static void encoding_end(weft_gpu_slab *slab, weft_gpu_encoding *encoding, bool lend)
{
    weft_gpu_digests_end(encoding);
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++) {
        if (encoding->frames[level].header.payload_bytes > 0)
            weft_gpu_frame_end(slab, encoding, (weft_level)level, &encoding->frames[level], lend);
    }
}

/* Frames of the last round can be lent, because the next round takes the memory of those before it. */
void weft_gpu_round_end(weft_gpu_batch *batch)
{
    for (uint32_t i = batch->first; i < batch->end; i++) {
        if (batch->encodings[i].changed > 0)
            encoding_end(batch->slab, &batch->encodings[i], batch->end == batch->slab->count);
    }
}

void weft_gpu_lent_end(weft_gpu_slab *slab, uint32_t place, bool follow)
{
    weft_gpu_batch *batch = slab->plan;
    batch->encodings[place].lent = false;
    batch->encodings[place].follows = follow;
    slab->follows += follow;
    slab->lent--;
}

/* Touches no byte of a job that has nothing on loan, because the caller has that job again. */
void weft_gpu_lent_settle(weft_gpu_slab *slab)
{
    const weft_gpu_batch *batch = slab->plan;
    for (uint32_t i = 0; i < slab->count; i++) {
        weft_encode_job *job = batch->encodings[i].job;
        for (unsigned level = 0; batch->encodings[i].lent && level < WEFT_LEVEL_COUNT; level++) {
            if (job->lent[level])
                frame_put(job->lent[level], job->frame_bytes[level], &job->sinks[level], &job->frame_bytes[level]);
            job->lent[level] = NULL;
            job->follows = false;
        }
    }
    slab->lent = 0;
}

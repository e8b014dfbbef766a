/* gpu_encode_frames.c - a round of encode jobs: their changes, the planes of their frames, and the frames. */
#include "backends/gpu_encode.h"

#include <string.h>

#include "backends/host_state.h"

#define UNIT_BYTES    (1u << 20)
#define UNIT_ELEMENTS (1u << 18)
#define ALIGNED(n)    (((n) + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN)
#define PAYLOAD_ALIGN 16u

static uint64_t payload_room(uint64_t bytes)
{
    return (bytes + PAYLOAD_ALIGN - 1) / PAYLOAD_ALIGN * PAYLOAD_ALIGN;
}

static bool wants(const weft_encode_job *job, weft_level level)
{
    return job->levels >> level & 1;
}

/* ---- memory */

/* Bytes that the payload of a level can have at most, the full one in its stead included. Of a change, planes have no
 * more than its gap's low bits and 5.2 for what is above them, three times (itself, an exception, a further one), and
 * 16 bits and two widths for its magnitude. */
static uint64_t payload_most(const weft_encode_job *job, weft_level level, uint32_t changed)
{
    const uint64_t dense = payload_room(weft_frame_full_payload(job->now.count, job->now.width));
    const uint64_t bits = 3 * (weft_fast_rice(job->now.count, changed) + 6) + 16 + 16 * (uint64_t)job->now.width;
    uint64_t most = dense;
    if (level == WEFT_LEVEL_PAIRS)
        most = weft_frame_pairs_payload(changed, job->now.width);
    if (level == WEFT_LEVEL_FAST || level == WEFT_LEVEL_TIGHT)
        most = changed * bits / 8 + 256;
    return payload_room(most < dense ? most : dense);
}

/* Device memory of one job's lists. */
static uint64_t lists_bytes(const weft_encode_job *job, uint32_t changed)
{
    const uint64_t words = ALIGNED(changed * sizeof(uint32_t)), elements = ALIGNED((uint64_t)changed * job->now.width);
    return words + 2 * elements + (wants(job, WEFT_LEVEL_FAST) ? words : 0);
}

static uint64_t payloads_bytes(const weft_encode_job *job, uint32_t changed)
{
    uint64_t bytes = 0;
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++)
        bytes += wants(job, (weft_level)level) ? payload_most(job, (weft_level)level, changed) : 0;
    return bytes;
}

weft_gpu_need weft_gpu_round_least(void)
{
    const uint64_t payloads = WEFT_LEVEL_COUNT * (uint64_t)UNIT_BYTES + WEFT_GPU_ALIGN;
    return (weft_gpu_need){.device = 2 * sizeof(uint32_t) * (uint64_t)UNIT_ELEMENTS + 2 * (uint64_t)UNIT_BYTES +
                                     payloads + 8 * WEFT_GPU_ALIGN,
                           .pinned = payloads + 4 * WEFT_GPU_ALIGN};
}

/* Rows of one job in a round: for its lists and for its planes. */
#define LISTS_ROW (sizeof(weft_k_changes) + sizeof(weft_k_fast_count) + 16)
#define PLANE_ROW (sizeof(weft_k_fast_write) + sizeof(weft_k_pairs_write) + 16)

static uint64_t lists_rows(const weft_encode_job *job)
{
    return LISTS_ROW + weft_gpu_tiles(&job->now) * sizeof(weft_k_gather);
}

static uint64_t planes_rows(const weft_encode_job *job)
{
    return PLANE_ROW + WEFT_LEVEL_COUNT * weft_gpu_tiles(&job->now) * sizeof(weft_k_full_write);
}

weft_gpu_need weft_gpu_round_rows(const weft_encode_job *job)
{
    const uint64_t rows = lists_rows(job) + planes_rows(job);
    return (weft_gpu_need){.device = rows, .pinned = rows + sizeof(weft_k_fast_counts)};
}

/* Ends the round behind the last job for which there is memory. */
static void round_choose(weft_gpu_batch *batch)
{
    const weft_gpu_slab *slab = batch->slab;
    uint64_t device = 16 * WEFT_GPU_ALIGN, pinned = 16 * WEFT_GPU_ALIGN;
    batch->payload_bytes = 0;
    for (batch->end = batch->first; batch->end < slab->count; batch->end++) {
        const weft_encode_job *job = batch->encodings[batch->end].job;
        const uint32_t changed = batch->encodings[batch->end].changed;
        if (changed == 0)
            continue;
        const weft_gpu_need rows = weft_gpu_round_rows(job);
        const uint64_t payloads = payloads_bytes(job, changed);
        device += rows.device + lists_bytes(job, changed) + payloads;
        pinned += rows.pinned + payloads;
        if (batch->end > batch->first &&
            (device > slab->device.bytes - slab->device.used || pinned > slab->pinned.bytes - slab->pinned.used))
            break;
        batch->payload_bytes += payloads;
    }
}

/* ---- lists */

static void changes_make(weft_gpu_batch *batch, weft_gpu_encoding *encoding, weft_gpu_rows *rows)
{
    const weft_view *now = &encoding->job->now;
    const uint64_t words = encoding->changed * sizeof(uint32_t), elements = (uint64_t)encoding->changed * now->width;
    weft_k_changes *changes = weft_gpu_rows_add(rows, sizeof *changes, &encoding->changes);
    *changes = (weft_k_changes){.position = weft_gpu_take_device(batch->slab, words),
                                .before = weft_gpu_take_device(batch->slab, elements),
                                .after = weft_gpu_take_device(batch->slab, elements),
                                .count = encoding->changed,
                                .width = now->width,
                                .is_float = now->is_float,
                                .elements = now->count};
}

/* Rows of one launch, filled as they come. */
typedef struct launch_rows {
    uint64_t address;
    uint32_t count;
} launch_rows;

static launch_rows gathers_make(weft_gpu_batch *batch, weft_gpu_rows *rows)
{
    launch_rows made = {0, 0};
    for (uint32_t i = batch->first; i < batch->end; i++) {
        const weft_gpu_encoding *encoding = &batch->encodings[i];
        for (uint32_t t = 0; encoding->changed > 0 && t < encoding->pair.tile_count; t++) {
            uint64_t address;
            weft_k_gather *row = weft_gpu_rows_add(rows, sizeof *row, &address);
            *row = (weft_k_gather){.tile = encoding->pair.tiles + t * sizeof(weft_k_diff),
                                   .changes = encoding->changes,
                                   .sums = encoding->device_sums};
            made.address = made.count++ ? made.address : address;
        }
    }
    return made;
}

static launch_rows fast_counts_make(weft_gpu_batch *batch, weft_gpu_rows *rows)
{
    launch_rows made = {0, 0};
    for (uint32_t i = batch->first; i < batch->end; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        uint64_t address, counts;
        if (encoding->changed == 0 || !wants(encoding->job, WEFT_LEVEL_FAST))
            continue;
        encoding->ranks = weft_gpu_take_device(batch->slab, encoding->changed * sizeof(uint32_t));
        encoding->fast_counts = weft_gpu_take_pinned(batch->slab, sizeof(weft_k_fast_counts), &counts);
        weft_k_fast_count *row = weft_gpu_rows_add(rows, sizeof *row, &address);
        *row = (weft_k_fast_count){.changes = encoding->changes, .ranks = encoding->ranks, .counts = counts};
        made.address = made.count++ ? made.address : address;
    }
    return made;
}

static uint64_t round_rows(const weft_gpu_batch *batch, uint64_t (*of)(const weft_encode_job *job))
{
    uint64_t bytes = 0;
    for (uint32_t i = batch->first; i < batch->end; i++)
        bytes += of(batch->encodings[i].job);
    return bytes;
}

weft_status weft_gpu_round_lists(weft_gpu_batch *batch)
{
    weft_gpu *gpu = batch->gpu;
    weft_gpu_slab *slab = batch->slab;
    round_choose(batch);
    weft_gpu_rows rows = weft_gpu_rows_take(slab, round_rows(batch, lists_rows));
    for (uint32_t i = batch->first; i < batch->end; i++) {
        if (batch->encodings[i].changed > 0)
            changes_make(batch, &batch->encodings[i], &rows);
    }
    const launch_rows gathers = gathers_make(batch, &rows), fast = fast_counts_make(batch, &rows);
    weft_status status = weft_gpu_rows_send(gpu, slab, &rows);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_gather, gathers.count * WEFT_K_SLICES, gathers.address);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_fast_count, fast.count, fast.address);
    if (status == WEFT_OK)
        status = weft_gpu_copy(gpu, slab, (uint64_t)(uintptr_t)batch->host_sums, batch->sums, batch->sums_bytes);
    return status;
}

/* ---- planes */

/* Notes a frame and takes room for its payload; a level that has none of its own is full in its stead, where that can
 * be. False: the units go alone. */
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
                                     .changed = job->now.count};
    header.unit = job->now.unit;
    header.units = job->now.units;
    *frame = (weft_gpu_frame){.header = header,
                              .payload = batch->payload + batch->payload_used,
                              .copy = batch->payload_copy + batch->payload_used};
    batch->payload_used += payload_room(header.payload_bytes);
    return coded;
}

/* Rows of the round's planes, each sort in a stretch of its own. */
typedef struct plane_rows {
    weft_k_fast_write *fast;
    weft_k_pairs_write *pairs;
    weft_k_full_write *full;
    uint64_t fast_at, pairs_at, full_at;
    uint32_t fast_count, pairs_count, full_count;
} plane_rows;

static void full_put(const weft_gpu_encoding *encoding, const weft_gpu_frame *frame, plane_rows *rows)
{
    for (uint32_t t = 0; t < encoding->pair.tile_count; t++)
        rows->full[rows->full_count++] =
            (weft_k_full_write){.tile = encoding->pair.tiles + t * sizeof(weft_k_diff), .payload = frame->payload};
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

static void planes_put(weft_gpu_batch *batch, weft_gpu_encoding *encoding, plane_rows *rows)
{
    const weft_encode_job *job = encoding->job;
    memset(encoding->frames, 0, sizeof encoding->frames);
    if (wants(job, WEFT_LEVEL_FULL))
        frame_take(batch, encoding, WEFT_LEVEL_FULL, (weft_frame_header){0}, false);
    if (wants(job, WEFT_LEVEL_PAIRS))
        pairs_put(batch, encoding, rows);
    if (wants(job, WEFT_LEVEL_FAST))
        fast_put(batch, encoding, rows);
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++) {
        const weft_gpu_frame *frame = &encoding->frames[level];
        if (frame->header.payload_bytes > 0 && frame->header.level == WEFT_LEVEL_FULL)
            full_put(encoding, frame, rows);
    }
}

static void plane_rows_make(const weft_gpu_batch *batch, weft_gpu_rows *rows, plane_rows *made)
{
    const uint32_t jobs = batch->end - batch->first;
    uint64_t tiles = 0;
    for (uint32_t i = batch->first; i < batch->end; i++)
        tiles += batch->encodings[i].pair.tile_count;
    *made = (plane_rows){0};
    made->fast = weft_gpu_rows_add(rows, jobs * sizeof *made->fast, &made->fast_at);
    made->pairs = weft_gpu_rows_add(rows, jobs * sizeof *made->pairs, &made->pairs_at);
    made->full = weft_gpu_rows_add(rows, WEFT_LEVEL_COUNT * tiles * sizeof *made->full, &made->full_at);
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
        status =
            weft_gpu_copy(gpu, slab, (uint64_t)(uintptr_t)batch->payload_copy, batch->payload, batch->payload_used);
    return status;
}

weft_status weft_gpu_round_planes(weft_gpu_batch *batch)
{
    plane_rows planes;
    weft_gpu_rows rows = weft_gpu_rows_take(batch->slab, round_rows(batch, planes_rows));
    batch->payload = weft_gpu_take_device(batch->slab, batch->payload_bytes);
    batch->payload_copy = weft_gpu_take_pinned(batch->slab, batch->payload_bytes, NULL);
    batch->payload_used = 0;
    plane_rows_make(batch, &rows, &planes);
    for (uint32_t i = batch->first; i < batch->end; i++) {
        if (batch->encodings[i].changed > 0)
            planes_put(batch, &batch->encodings[i], &planes);
    }
    weft_status status = weft_gpu_rows_send(batch->gpu, batch->slab, &rows);
    return status == WEFT_OK ? planes_launch(batch, &planes) : status;
}

/* ---- frames */

static void frame_write(const weft_gpu_frame *frame, weft_frame_sink *sink, uint32_t *frame_bytes)
{
    const uint32_t bytes = WEFT_FRAME_HEADER_BYTES + frame->header.payload_bytes;
    uint8_t *out = weft_host_sink_take(sink, bytes);
    if (!out)
        return;
    weft_frame_write_header(out, &frame->header);
    memcpy(out + WEFT_FRAME_HEADER_BYTES, frame->copy, frame->header.payload_bytes);
    *frame_bytes = bytes;
}

static void encoding_end(const weft_gpu_encoding *encoding)
{
    weft_encode_job *job = encoding->job;
    for (uint32_t s = 0; s < encoding->pair.sum_count; s++)
        job->tensor_delta[encoding->pair.parts[s]] += encoding->sums[s];
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++) {
        if (encoding->frames[level].header.payload_bytes > 0)
            frame_write(&encoding->frames[level], &job->sinks[level], &job->frame_bytes[level]);
    }
}

void weft_gpu_round_end(weft_gpu_batch *batch)
{
    for (uint32_t i = batch->first; i < batch->end; i++) {
        if (batch->encodings[i].changed > 0)
            encoding_end(&batch->encodings[i]);
    }
}

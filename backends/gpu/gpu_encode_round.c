/* gpu_encode_round.c - a round of encode jobs, as many as memory allows: their changes and sets. */
#include "backends/gpu/gpu_encode.h"

#define UNIT_BYTES    (1u << 20)
#define UNIT_ELEMENTS (1u << 18)
#define ALIGNED(n)    (((n) + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN)

static bool wants(const weft_encode_job *job, weft_level level)
{
    return job->levels >> level & 1;
}

/* ---- memory */

/* Returns the most bytes that the payload of a level can have, or of the full level in its stead. Each change takes the
 * low bits of its gap and 5.2 bits for the high part, a bit for its direction, at most 1.3 in each of the sets of
 * exceptions and of further ones, and 16 bits and two widths for its magnitude. */
static uint64_t payload_most(const weft_encode_job *job, weft_level level, uint32_t changed)
{
    const uint64_t dense = weft_gpu_payload_room(weft_frame_full_payload(job->now.count, job->now.width));
    const uint64_t bits = weft_fast_rice(job->now.count, changed) + 10 + 16 + 16 * (uint64_t)job->now.width;
    uint64_t most = dense;
    if (level == WEFT_LEVEL_PAIRS)
        most = weft_frame_pairs_payload(changed, job->now.width);
    if (level == WEFT_LEVEL_FAST || level == WEFT_LEVEL_TIGHT)
        most = changed * bits / 8 + 256;
    return weft_gpu_payload_room(most < dense ? most : dense);
}

/* Device memory of one job's lists. */
static uint64_t lists_bytes(const weft_encode_job *job, uint32_t changed)
{
    const uint64_t words = ALIGNED(changed * sizeof(uint32_t)), elements = ALIGNED((uint64_t)changed * job->now.width);
    return words + 2 * elements + (wants(job, WEFT_LEVEL_FAST) ? words : 0) +
           (wants(job, WEFT_LEVEL_TIGHT) ? weft_gpu_tight_memory(job, changed) : 0);
}

static uint64_t payloads_bytes(const weft_encode_job *job, uint32_t changed)
{
    uint64_t bytes = 0;
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++)
        bytes +=
            wants(job, (weft_level)level) ? WEFT_GPU_HEADER_ROOM + payload_most(job, (weft_level)level, changed) : 0;
    return bytes;
}

uint64_t weft_gpu_round_bytes_of(const weft_encode_job *job, uint32_t changed)
{
    return changed ? lists_bytes(job, changed) + payloads_bytes(job, changed) : 0;
}

weft_gpu_need weft_gpu_round_least(void)
{
    weft_encode_job largest = {.now = {.count = UNIT_ELEMENTS, .width = UNIT_BYTES / UNIT_ELEMENTS},
                               .levels = (1u << WEFT_LEVEL_COUNT) - 1};
    const uint64_t payloads = WEFT_LEVEL_COUNT * (uint64_t)(UNIT_BYTES + WEFT_GPU_HEADER_ROOM) + WEFT_GPU_ALIGN;
    const uint64_t unit = lists_bytes(&largest, UNIT_ELEMENTS);
    largest.now.count <<= WEFT_RUN_SHIFT_MAX;
    const uint64_t run = lists_bytes(&largest, WEFT_FRAME_RUN_CHANGES);
    return (weft_gpu_need){.device = (unit > run ? unit : run) + payloads + 16 * WEFT_GPU_ALIGN,
                           .pinned = payloads + 16 * WEFT_GPU_ALIGN};
}

/* Rows of one job in a round: for its lists, its sets and its planes. */
static uint64_t lists_rows(const weft_encode_job *job)
{
    return sizeof(weft_k_changes) + sizeof(weft_k_fast_count) + weft_gpu_tiles(&job->now) * sizeof(weft_k_gather) +
           (wants(job, WEFT_LEVEL_TIGHT) ? weft_gpu_tight_rows(job) : 0) + 16 * WEFT_GPU_ROW_ALIGN;
}

static uint64_t sets_rows(const weft_encode_job *job)
{
    return wants(job, WEFT_LEVEL_TIGHT) ? WEFT_TIGHT_LISTS * sizeof(weft_k_list_make) : 0;
}

weft_gpu_need weft_gpu_round_rows(const weft_encode_job *job)
{
    const uint64_t rows = lists_rows(job) + sets_rows(job) + weft_gpu_planes_rows(job);
    uint64_t counts = ALIGNED(sizeof(weft_k_fast_counts));
    if (wants(job, WEFT_LEVEL_TIGHT))
        counts += ALIGNED(sizeof(weft_k_tight_counts)) + ALIGNED(WEFT_TIGHT_LISTS * 32 * sizeof(uint32_t));
    return (weft_gpu_need){.device = rows, .pinned = rows + counts};
}

/* Ends the round after the last job for which there is memory. */
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

static void changes_make(weft_gpu_batch *batch, weft_gpu_encoding *encoding, weft_gpu_sheet *rows)
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

/* Rows of one launch. */
typedef struct launch_rows {
    uint64_t address;
    uint32_t count;
} launch_rows;

/* The number of the round's jobs that want a level, and of their tiles. */
typedef struct wanted {
    uint32_t jobs, tiles;
} wanted;

static wanted wanted_by(const weft_gpu_batch *batch, uint32_t levels)
{
    wanted all = {0, 0};
    for (uint32_t i = batch->first; i < batch->end; i++) {
        const weft_gpu_encoding *encoding = &batch->encodings[i];
        const bool wants_it = encoding->changed > 0 && encoding->job->levels & levels;
        all.jobs += wants_it;
        all.tiles += wants_it ? encoding->pair.tile_count : 0;
    }
    return all;
}

static launch_rows gathers_make(weft_gpu_batch *batch, weft_gpu_sheet *rows)
{
    launch_rows made = {0, wanted_by(batch, UINT32_MAX).tiles};
    weft_k_gather *row = weft_gpu_rows_add(rows, made.count * sizeof *row, &made.address);
    for (uint32_t i = batch->first; i < batch->end; i++) {
        const weft_gpu_encoding *encoding = &batch->encodings[i];
        for (uint32_t t = 0; encoding->changed > 0 && t < encoding->pair.tile_count; t++)
            *row++ = (weft_k_gather){.tile = encoding->pair.tiles + t * sizeof(weft_k_diff),
                                     .changes = encoding->changes,
                                     .sums = encoding->device_sums};
    }
    return made;
}

static launch_rows fast_counts_make(weft_gpu_batch *batch, weft_gpu_sheet *rows)
{
    launch_rows made = {0, wanted_by(batch, 1u << WEFT_LEVEL_FAST).jobs};
    weft_k_fast_count *row = weft_gpu_rows_add(rows, made.count * sizeof *row, &made.address);
    for (uint32_t i = batch->first; i < batch->end; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        uint64_t counts;
        if (!weft_gpu_wants(encoding, WEFT_LEVEL_FAST))
            continue;
        encoding->ranks = weft_gpu_take_device(batch->slab, encoding->changed * sizeof(uint32_t));
        encoding->fast_counts = weft_gpu_take_pinned(batch->slab, sizeof(weft_k_fast_counts), &counts);
        *row++ = (weft_k_fast_count){.changes = encoding->changes, .ranks = encoding->ranks, .counts = counts};
    }
    return made;
}

/* Level tight: the launches, and the sets, which are to be zero. */
typedef struct tight_rows {
    launch_rows ranks, scans, counts;
    uint64_t zeros, zeros_bytes;
} tight_rows;

static void tight_zeros(weft_gpu_batch *batch, tight_rows *made)
{
    for (uint32_t i = batch->first; i < batch->end; i++) {
        if (weft_gpu_wants(&batch->encodings[i], WEFT_LEVEL_TIGHT))
            made->zeros_bytes += weft_gpu_tight_zeros(batch->encodings[i].job, batch->encodings[i].changed);
    }
    made->zeros = weft_gpu_take_device(batch->slab, made->zeros_bytes);
}

static tight_rows tight_make(weft_gpu_batch *batch, weft_gpu_sheet *rows)
{
    const wanted all = wanted_by(batch, 1u << WEFT_LEVEL_TIGHT);
    tight_rows made = {.ranks = {0, all.tiles}, .counts = {0, all.jobs}};
    weft_k_class_rank *rank = weft_gpu_rows_add(rows, all.tiles * sizeof *rank, &made.ranks.address);
    weft_k_scan *first = weft_gpu_rows_add(rows, all.jobs * WEFT_K_CLASSES * sizeof *first, &made.scans.address);
    weft_k_scan *scan = first;
    weft_k_tight_count *count = weft_gpu_rows_add(rows, all.jobs * sizeof *count, &made.counts.address);
    tight_zeros(batch, &made);
    batch->classes->of = 0;
    uint64_t zeros = made.zeros;
    for (uint32_t i = batch->first; i < batch->end; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        if (!weft_gpu_wants(encoding, WEFT_LEVEL_TIGHT))
            continue;
        weft_gpu_tight_job(batch, encoding, rows, zeros);
        zeros += weft_gpu_tight_zeros(encoding->job, encoding->changed);
        weft_gpu_tight_ranks(encoding, &rank);
        weft_gpu_tight_scans(encoding, &scan);
        *count++ = weft_gpu_tight_count(batch, encoding);
    }
    made.scans.count = (uint32_t)(scan - first);
    return made;
}

static weft_status tight_launch(weft_gpu_batch *batch, const tight_rows *rows)
{
    weft_gpu *gpu = batch->gpu;
    weft_gpu_slab *slab = batch->slab;
    weft_status status = weft_gpu_clear(gpu, slab, rows->zeros, rows->zeros_bytes);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_class_rank, rows->ranks.count * WEFT_K_SLICES,
                                 rows->ranks.address);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_scan, rows->scans.count, rows->scans.address);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_tight_count, rows->counts.count, rows->counts.address);
    return status;
}

weft_status weft_gpu_round_lists(weft_gpu_batch *batch)
{
    weft_gpu *gpu = batch->gpu;
    weft_gpu_slab *slab = batch->slab;
    round_choose(batch);
    weft_gpu_sheet rows = weft_gpu_sheet_open(slab, weft_gpu_round_bytes(batch, lists_rows), true);
    for (uint32_t i = batch->first; i < batch->end; i++) {
        if (batch->encodings[i].changed > 0)
            changes_make(batch, &batch->encodings[i], &rows);
    }
    const launch_rows gathers = gathers_make(batch, &rows), fast = fast_counts_make(batch, &rows);
    const tight_rows tight = tight_make(batch, &rows);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &rows);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_gather, gathers.count * WEFT_K_SLICES, gathers.address);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_fast_count, fast.count, fast.address);
    if (status == WEFT_OK)
        status = tight_launch(batch, &tight);
    if (status == WEFT_OK)
        status = weft_gpu_sheet_fetch(gpu, slab, &batch->sums);
    return status;
}

/* ---- sets */

weft_status weft_gpu_round_sets(weft_gpu_batch *batch)
{
    uint64_t address;
    if (wanted_by(batch, 1u << WEFT_LEVEL_TIGHT).jobs == 0)
        return WEFT_AGAIN;
    weft_gpu_sheet rows = weft_gpu_sheet_open(batch->slab, weft_gpu_round_bytes(batch, sets_rows), true);
    weft_k_list_make *first = weft_gpu_rows_add(&rows, rows.bytes, &address), *row = first;
    for (uint32_t i = batch->first; i < batch->end; i++) {
        if (weft_gpu_wants(&batch->encodings[i], WEFT_LEVEL_TIGHT))
            weft_gpu_tight_lists(batch, &batch->encodings[i], &row);
    }
    weft_status status = weft_gpu_sheet_send(batch->gpu, batch->slab, &rows);
    if (status == WEFT_OK)
        status = weft_gpu_launch(batch->gpu, batch->slab, WEFT_GPU_KERNEL_list_make, (uint32_t)(row - first), address);
    return status;
}

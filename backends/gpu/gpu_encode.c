/* gpu_encode.c - the encode jobs: a pass that finds the differing elements, then rounds of jobs for the rest. */
#include "backends/gpu/gpu_encode.h"

#include <string.h>

#include "base/clock.h"

/* Bytes that a take may lose to alignment. */
#define SLACK WEFT_GPU_ALIGN

enum step { STEP_DIFF, STEP_CHAIN, STEP_LISTS, STEP_SETS, STEP_PLANES };

static weft_gpu_need need_base(void)
{
    weft_gpu_need need = weft_gpu_round_least();
    need.device += 8 * SLACK;
    need.pinned += 8 * SLACK;
    need.plain += sizeof(weft_gpu_batch) + sizeof(weft_gpu_classes) + SLACK +
                  WEFT_GPU_JOBS * sizeof(weft_gpu_encoding) + 2 * SLACK;
    return need;
}

static weft_gpu_need encode_need(const weft_gpu *gpu, const void *job)
{
    const weft_encode_job *encode = job;
    (void)gpu;
    if (!job)
        return need_base();
    const weft_gpu_pair_need pair = weft_gpu_pair_needs(&encode->now, &encode->shadow);
    weft_gpu_need need = weft_gpu_round_rows(encode);
    const uint64_t rows = pair.rows + sizeof(weft_k_scan), sums = pair.pieces * sizeof(uint64_t);
    need.device += rows + pair.bits + pair.counts + sums + 4 * SLACK;
    need.pinned += rows + sums + sizeof(uint32_t) + SLACK;
    need.plain += pair.pieces * sizeof(uint64_t) + 2 * SLACK;
    const weft_gpu_need chain = weft_gpu_chain_need(encode);
    need.device += chain.device;
    need.pinned += chain.pinned;
    if (encode->levels >> WEFT_LEVEL_TIGHT & 1)
        need.plain += sizeof(weft_gpu_tight);
    return need;
}

static void *encode_stream(weft_gpu *gpu, const void *from, bool *ordered)
{
    const weft_encode_job *job = from;
    return weft_gpu_order(gpu, &job->now, job->stream, ordered);
}

static uint32_t tiles_all(const weft_gpu_slab *slab)
{
    uint32_t tiles = 0;
    for (uint32_t i = 0; i < slab->count; i++)
        tiles += weft_gpu_tiles(&((const weft_encode_job *)slab->jobs[i])->now);
    return tiles;
}

/* Writes the rows of all jobs for the pass over all elements, their tiles in one stretch. Returns the address of the
 * tiles. */
static uint64_t pairs_make(weft_gpu_batch *batch, weft_gpu_sheet *rows)
{
    uint64_t address;
    weft_k_diff *tiles = weft_gpu_rows_add(rows, tiles_all(batch->slab) * sizeof *tiles, &address);
    uint32_t made = 0;
    for (uint32_t i = 0; i < batch->slab->count; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        const weft_encode_job *job = encoding->job;
        const weft_gpu_pair_need need = weft_gpu_pair_needs(&job->now, &job->shadow);
        encoding->pair = (weft_gpu_pair){.now = &job->now,
                                         .shadow = &job->shadow,
                                         .parts = weft_gpu_take_plain(batch->slab, need.pieces * sizeof(uint64_t)),
                                         .tile_count = weft_gpu_tiles(&job->now),
                                         .tiles = address + made * sizeof *tiles,
                                         .counts = weft_gpu_take_device(batch->slab, need.counts)};
        weft_gpu_pair_make(&encoding->pair, rows, tiles + made, weft_gpu_take_device(batch->slab, need.bits));
        made += encoding->pair.tile_count;
    }
    return address;
}

static uint64_t rows_bytes(const weft_gpu_slab *slab)
{
    uint64_t bytes = slab->count * sizeof(weft_k_scan) + 4 * WEFT_GPU_ROW_ALIGN;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_encode_job *job = slab->jobs[i];
        const weft_gpu_pair_need need = weft_gpu_pair_needs(&job->now, &job->shadow);
        bytes += need.rows + need.pieces * sizeof(uint64_t);
    }
    return bytes;
}

/* Digests of all jobs stand in one array, which goes to the device with the rows. */
static void sums_make(weft_gpu_batch *batch, weft_gpu_sheet *rows)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < batch->slab->count; i++)
        count += batch->encodings[i].pair.sum_count;
    void *sums;
    batch->sums = weft_gpu_sheet_part(rows, count * sizeof(uint64_t));
    weft_gpu_sheet_take(&batch->sums, count * sizeof(uint64_t), &sums);
    const uint64_t *host = sums;
    count = 0;
    for (uint32_t i = 0; i < batch->slab->count; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        encoding->sums = host + count;
        encoding->device_sums = batch->sums.address + count * sizeof(uint64_t);
        count += encoding->pair.sum_count;
    }
}

static weft_status diff_launch(weft_gpu_batch *batch)
{
    weft_gpu *gpu = batch->gpu;
    weft_gpu_slab *slab = batch->slab;
    const bool chain = weft_gpu_chain_fits(slab);
    weft_gpu_sheet rows = weft_gpu_sheet_open(slab, rows_bytes(slab) + (chain ? weft_gpu_chain_rows(slab) : 0), true);
    uint64_t scans, totals;
    const uint64_t tiles = pairs_make(batch, &rows);
    sums_make(batch, &rows);
    batch->totals = weft_gpu_take_pinned(slab, slab->count * sizeof(uint32_t), &totals);
    weft_k_scan *scan = weft_gpu_rows_add(&rows, slab->count * sizeof *scan, &scans);
    for (uint32_t i = 0; i < slab->count; i++)
        scan[i] = (weft_k_scan){.words = batch->encodings[i].pair.counts,
                                .total = totals + i * sizeof(uint32_t),
                                .count = batch->encodings[i].pair.slices};
    batch->device_used = slab->device.used;
    batch->pinned_used = slab->pinned.used;
    if (chain)
        weft_gpu_chain_make(batch, &rows);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &rows);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_diff, tiles_all(slab) * WEFT_K_SLICES, tiles);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_scan, slab->count, scans);
    if (status == WEFT_OK && chain)
        status = weft_gpu_chain_launch(batch);
    return status;
}

static weft_status encode_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_gpu_batch *batch = weft_gpu_take_plain(slab, sizeof *batch);
    weft_gpu_encoding *encodings = weft_gpu_take_plain(slab, slab->count * sizeof *encodings);
    *batch = (weft_gpu_batch){.gpu = gpu, .slab = slab, .encodings = encodings, .since_ns = weft_clock_ns()};
    slab->plan = batch;
    batch->classes = weft_gpu_take_plain(slab, sizeof *batch->classes);
    for (uint32_t i = 0; i < slab->count; i++) {
        weft_encode_job *job = slab->jobs[i];
        encodings[i] = (weft_gpu_encoding){.job = job};
        if (job->levels >> WEFT_LEVEL_TIGHT & 1)
            encodings[i].tight = weft_gpu_take_plain(slab, sizeof *encodings[i].tight);
        memset(job->frame_bytes, 0, sizeof job->frame_bytes);
        memset(job->lent, 0, sizeof job->lent);
        job->alone = 0;
    }
    weft_status status = diff_launch(batch);
    slab->step = batch->chain.jobs ? STEP_CHAIN : STEP_DIFF;
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

/* Since the last step, as the part of each job. */
static double elapsed_ms(weft_gpu_batch *batch, uint32_t jobs)
{
    const uint64_t now = weft_clock_ns();
    const double all = weft_clock_ms(batch->since_ns, now);
    batch->since_ns = now;
    return jobs ? all / jobs : 0;
}

static void diff_end(weft_gpu_batch *batch)
{
    for (uint32_t i = 0; i < batch->slab->count; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        weft_encode_job *job = encoding->job;
        encoding->changed = batch->totals[i];
        if (job->now.units > 1 && encoding->changed > WEFT_FRAME_RUN_CHANGES) {
            job->alone = job->levels;
            encoding->changed = 0; /* nothing is done with it */
            continue;
        }
        job->changed = encoding->changed;
        batch->chain.wanted += encoding->changed > 0;
    }
    batch->chain.pending = batch->chain.wanted;
    batch->compared = true;
}

/* Goes on to the next round, if jobs are left. */
static weft_status round_begin(weft_gpu_batch *batch)
{
    batch->slab->device.used = batch->device_used;
    batch->slab->pinned.used = batch->pinned_used;
    batch->first = batch->end;
    while (batch->first < batch->slab->count && batch->encodings[batch->first].changed == 0)
        batch->first++;
    batch->end = batch->first;
    if (batch->first == batch->slab->count)
        return WEFT_OK;
    batch->slab->step = STEP_LISTS;
    weft_status status = weft_gpu_round_lists(batch);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

/* Each pass of a chain finds changes and codes them, so its time is that of coding. */
static weft_status chain_step(weft_gpu_batch *batch)
{
    weft_gpu_slab *slab = batch->slab;
    const double each = elapsed_ms(batch, slab->count);
    for (uint32_t i = 0; i < slab->count; i++)
        batch->encodings[i].job->encode_ms += each;
    if (!batch->compared)
        diff_end(batch);
    weft_status status = weft_gpu_chain_end(batch);
    if (status == WEFT_AGAIN)
        status = weft_gpu_chain_launch(batch);
    else if (status == WEFT_OK)
        return round_begin(batch);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

static weft_status encode_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_gpu_batch *batch = slab->plan;
    weft_status status;
    double each;
    (void)gpu;
    switch ((enum step)slab->step) {
    case STEP_DIFF:
        each = elapsed_ms(batch, slab->count);
        for (uint32_t i = 0; i < slab->count; i++)
            batch->encodings[i].job->diff_ms += each;
        diff_end(batch);
        return round_begin(batch);
    case STEP_CHAIN:
        return chain_step(batch);
    case STEP_LISTS:
        slab->step = STEP_SETS;
        status = weft_gpu_round_sets(batch);
        if (status != WEFT_AGAIN)
            return status == WEFT_OK ? WEFT_AGAIN : status;
        /* fall through */
    case STEP_SETS:
        slab->step = STEP_PLANES;
        status = weft_gpu_round_planes(batch);
        return status == WEFT_OK ? WEFT_AGAIN : status;
    default:
        weft_gpu_round_end(batch);
        each = elapsed_ms(batch, batch->end - batch->first);
        for (uint32_t i = batch->first; i < batch->end; i++)
            batch->encodings[i].job->encode_ms += each;
        return round_begin(batch);
    }
}

static weft_view *encode_view(void *job)
{
    return &((weft_encode_job *)job)->now;
}

const weft_gpu_kind weft_gpu_encode = {.name = "encode",
                                       .need = encode_need,
                                       .view = encode_view,
                                       .stream = encode_stream,
                                       .begin = encode_begin,
                                       .advance = encode_advance};

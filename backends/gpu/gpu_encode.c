/* gpu_encode.c - the encode jobs: a pass that finds the differing elements, then rounds of jobs for the rest. */
#include "backends/gpu/gpu_encode.h"

#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"

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
    /* Bits leave most of the memory to lists, because a sample may have missed what changed. */
    const uint64_t lists = weft_gpu_round_bytes_of(encode, encode->expected),
                   least = pair.bits * (encode->expected ? 1 : 2);
    need.later = lists > least ? lists : least;
    return need;
}

static void *encode_stream(weft_gpu *gpu, const void *from, bool *ordered)
{
    const weft_encode_job *job = from;
    return weft_gpu_order(gpu, &job->now, job->stream, ordered);
}

static bool encode_behind(const void *job)
{
    return ((const weft_encode_job *)job)->behind;
}

/* What the rows of a batch come to. */
typedef struct batch_sizes {
    uint64_t rows, pieces;
    uint32_t tiles;
} batch_sizes;

static batch_sizes sizes_of(const weft_gpu_slab *slab)
{
    batch_sizes sum = {0};
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_encode_job *job = slab->jobs[i];
        const weft_gpu_pair_need need = weft_gpu_pair_needs(&job->now, &job->shadow);
        sum.rows += need.rows;
        sum.pieces += need.pieces;
        sum.tiles += weft_gpu_tiles(&job->now);
    }
    sum.rows += slab->count * sizeof(weft_k_scan) + sum.pieces * sizeof(uint64_t) + 4 * WEFT_GPU_ROW_ALIGN;
    return sum;
}

/* The rows of a batch for the pass over all elements, each sort in a stretch of its own; and what the next job takes of
 * them. */
typedef struct batch_rows {
    weft_gpu_sheet sheet;
    weft_k_diff *tile;
    uint64_t tile_at; /* address of `tile` */
    uint64_t *parts;
    uint32_t sums; /* sums of the jobs before */
    weft_k_scan *scans;
    uint64_t scans_at, totals_at;
} batch_rows;

/* Digests of all jobs stand in one array, which goes to the device with the rows. */
static batch_rows rows_open(weft_gpu_batch *batch, const batch_sizes *sizes, uint64_t bytes)
{
    weft_gpu_slab *slab = batch->slab;
    batch_rows rows = {.sheet = weft_gpu_sheet_open(slab, bytes, true),
                       .parts = weft_gpu_take_plain(slab, sizes->pieces * sizeof(uint64_t))};
    rows.tile = weft_gpu_rows_add(&rows.sheet, sizes->tiles * sizeof *rows.tile, &rows.tile_at);
    batch->sums = weft_gpu_sheet_part(&rows.sheet, sizes->pieces * sizeof(uint64_t));
    batch->totals = weft_gpu_take_pinned(slab, slab->count * sizeof(uint32_t), &rows.totals_at);
    rows.scans = weft_gpu_rows_add(&rows.sheet, slab->count * sizeof *rows.scans, &rows.scans_at);
    return rows;
}

/* Writes the rows of the next pair, and says where its sums stand. */
static void pair_put(weft_gpu_batch *batch, weft_gpu_encoding *encoding, batch_rows *rows)
{
    const weft_encode_job *job = encoding->job;
    const weft_gpu_pair_need need = weft_gpu_pair_needs(&job->now, &job->shadow);
    weft_gpu_pair *pair = &encoding->pair;
    *pair = (weft_gpu_pair){.now = &job->now,
                            .shadow = &job->shadow,
                            .parts = rows->parts,
                            .tile_count = weft_gpu_tiles(&job->now),
                            .tiles = rows->tile_at,
                            .counts = weft_gpu_take_device(batch->slab, need.counts)};
    weft_gpu_pair_make(pair, &rows->sheet, rows->tile, weft_gpu_take_device(batch->slab, need.bits));
    encoding->sums = (const uint64_t *)(const void *)batch->sums.host + rows->sums;
    encoding->device_sums = batch->sums.address + rows->sums * sizeof(uint64_t);
    rows->tile += pair->tile_count;
    rows->tile_at += pair->tile_count * sizeof *rows->tile;
    rows->parts += pair->sum_count;
    rows->sums += pair->sum_count;
}

/* Forgets what a job had of an earlier pass. */
static void encoding_begin(weft_gpu_slab *slab, weft_gpu_encoding *encoding, weft_encode_job *job)
{
    memset(encoding, 0, offsetof(weft_gpu_encoding, frames));
    encoding->job = job;
    if (job->levels >> WEFT_LEVEL_TIGHT & 1)
        encoding->tight = weft_gpu_take_plain(slab, sizeof *encoding->tight);
    memset(job->frame_bytes, 0, sizeof job->frame_bytes);
    memset(job->lent, 0, sizeof job->lent);
    job->follows = false;
    job->alone = 0;
}

/* Writes all rows, job by job, because the records of all jobs together are larger than the nearer caches. */
static void rows_put(weft_gpu_batch *batch, batch_rows *rows)
{
    for (uint32_t i = 0; i < batch->slab->count; i++) {
        weft_gpu_encoding *encoding = &batch->encodings[i];
        encoding_begin(batch->slab, encoding, batch->slab->jobs[i]);
        pair_put(batch, encoding, rows);
        rows->scans[i] = (weft_k_scan){.words = encoding->pair.counts,
                                       .total = rows->totals_at + i * sizeof(uint32_t),
                                       .count = encoding->pair.slices};
        if (batch->chain.jobs)
            weft_gpu_chain_put(batch, i);
    }
    batch->sums.used = rows->sums * sizeof(uint64_t);
}

static weft_status diff_launch(weft_gpu_batch *batch)
{
    weft_gpu *gpu = batch->gpu;
    weft_gpu_slab *slab = batch->slab;
    const bool chain = weft_gpu_chain_fits(slab);
    const batch_sizes sizes = sizes_of(slab);
    batch_rows rows =
        rows_open(batch, &sizes, sizes.rows + (chain ? weft_gpu_chain_rows(slab->count, sizes.tiles) : 0));
    const uint64_t tiles = rows.tile_at;
    if (chain)
        weft_gpu_chain_open(batch, &rows.sheet, sizes.tiles);
    rows_put(batch, &rows);
    batch->device_used = slab->device.used;
    batch->pinned_used = slab->pinned.used;
    if (chain)
        weft_gpu_chain_memory(batch);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &rows.sheet);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_diff, sizes.tiles * WEFT_K_SLICES, tiles);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_scan, slab->count, rows.scans_at);
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

weft_status weft_gpu_wrong_fail(const weft_gpu *gpu, const char *what)
{
    return weft_fail(WEFT_E_DEVICE, "%s device %d: the device tells of %s; the device is lost to this session",
                     gpu->driver->name, gpu->driver->number(gpu->device), what);
}

weft_status weft_gpu_totals_check(const weft_gpu_batch *batch)
{
    bool fits = true;
    for (uint32_t i = 0; i < batch->slab->count; i++)
        fits = fits && batch->totals[i] <= batch->encodings[i].job->now.count;
    return fits ? WEFT_OK : weft_gpu_wrong_fail(batch->gpu, "more changes than there are elements");
}

uint32_t weft_gpu_coded(const weft_gpu_batch *batch, uint32_t place)
{
    const uint32_t changed = batch->totals[place];
    return changed > WEFT_FRAME_RUN_CHANGES && batch->encodings[place].job->now.units > 1 ? 0 : changed;
}

void weft_gpu_changed_note(const weft_gpu_batch *batch, uint32_t place)
{
    weft_gpu_encoding *encoding = &batch->encodings[place];
    encoding->changed = weft_gpu_coded(batch, place);
    if (encoding->changed == batch->totals[place])
        encoding->job->changed = encoding->changed;
    else
        encoding->job->alone = encoding->job->levels;
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
    weft_status status = weft_gpu_chain_end(batch, elapsed_ms(batch, batch->slab->count));
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
        status = weft_gpu_totals_check(batch);
        if (status != WEFT_OK)
            return status;
        each = elapsed_ms(batch, slab->count);
        for (uint32_t i = 0; i < slab->count; i++) {
            batch->encodings[i].job->diff_ms += each;
            weft_gpu_changed_note(batch, i);
        }
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
                                       .behind = encode_behind,
                                       .begin = encode_begin,
                                       .advance = encode_advance};

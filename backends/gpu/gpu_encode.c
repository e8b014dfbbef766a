/* gpu_encode.c - the encode jobs: a pass that finds the differing elements, the chain that codes them, and the rest. */
#include "backends/gpu/gpu_encode.h"

#include <string.h>

#include "base/clock.h"
#include "base/status.h"

/* Bytes that a take may lose to alignment. */
#define SLACK WEFT_GPU_ALIGN

enum step { STEP_CHAIN, STEP_REST };

static weft_gpu_need need_base(void)
{
    weft_gpu_need need = weft_gpu_chain_least();
    need.device += 8 * SLACK;
    need.pinned += 8 * SLACK;
    need.plain += sizeof(weft_gpu_batch) + sizeof(weft_gpu_classes) + SLACK +
                  WEFT_GPU_JOBS * sizeof(weft_gpu_encoding) + 2 * SLACK + weft_gpu_rest_plain();
    return need;
}

static weft_gpu_need encode_need(const weft_gpu *gpu, const void *job)
{
    const weft_encode_job *encode = job;
    (void)gpu;
    if (!job)
        return need_base();
    const weft_gpu_pair_need pair = weft_gpu_pair_needs(&encode->now, &encode->shadow);
    const weft_gpu_need chain = weft_gpu_chain_need(encode), rest = weft_gpu_rest_need(encode);
    const uint64_t rows = pair.rows + sizeof(weft_k_scan), sums = pair.pieces * sizeof(uint64_t);
    weft_gpu_need need = {.device = rows + pair.bits + pair.counts + sums + chain.device + rest.device + 4 * SLACK,
                          .pinned = rows + sums + chain.pinned + rest.pinned + sizeof(uint32_t) + SLACK,
                          .plain = pair.pieces * sizeof(uint64_t) + rest.plain + 2 * SLACK};
    /* Bits leave most of the memory to lists, because a sample may have missed what changed. */
    const uint64_t lists = weft_gpu_chain_later(encode, encode->expected),
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
static void encoding_begin(weft_gpu_encoding *encoding, weft_encode_job *job)
{
    *encoding = (weft_gpu_encoding){.job = job};
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
        encoding_begin(encoding, batch->slab->jobs[i]);
        pair_put(batch, encoding, rows);
        rows->scans[i] = (weft_k_scan){.words = encoding->pair.counts,
                                       .total = rows->totals_at + i * sizeof(uint32_t),
                                       .count = encoding->pair.slices};
        weft_gpu_chain_put(batch, &rows->sheet, i);
    }
    batch->sums.used = rows->sums * sizeof(uint64_t);
}

static weft_status diff_launch(weft_gpu_batch *batch)
{
    weft_gpu *gpu = batch->gpu;
    weft_gpu_slab *slab = batch->slab;
    const batch_sizes sizes = sizes_of(slab);
    batch_rows rows = rows_open(batch, &sizes, sizes.rows + weft_gpu_chain_rows(slab, sizes.tiles));
    const uint64_t tiles = rows.tile_at;
    weft_gpu_chain_open(batch, &rows.sheet, sizes.tiles);
    rows_put(batch, &rows);
    batch->device_used = slab->device.used;
    batch->pinned_used = slab->pinned.used;
    batch->plain_used = slab->plain.used;
    weft_gpu_chain_memory(batch);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &rows.sheet);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_diff, sizes.tiles * WEFT_K_SLICES, tiles);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_scan, slab->count, rows.scans_at);
    return status == WEFT_OK ? weft_gpu_chain_launch(batch) : status;
}

static weft_status encode_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_gpu_batch *batch = weft_gpu_take_plain(slab, sizeof *batch);
    weft_gpu_encoding *encodings = weft_gpu_take_plain(slab, slab->count * sizeof *encodings);
    *batch = (weft_gpu_batch){.gpu = gpu, .slab = slab, .encodings = encodings, .since_ns = weft_clock_ns()};
    slab->plan = batch;
    slab->step = STEP_CHAIN;
    batch->classes = weft_gpu_take_plain(slab, sizeof *batch->classes);
    batch->classes->of = 0;
    weft_status status = diff_launch(batch);
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

/* Checks the numbers of changes that the device counted. */
static weft_status totals_check(const weft_gpu_batch *batch)
{
    bool fits = true;
    for (uint32_t i = 0; i < batch->slab->count; i++)
        fits = fits && batch->totals[i] <= batch->encodings[i].job->now.count;
    return fits ? WEFT_OK : weft_gpu_wrong_fail(batch->gpu, "more changes than there are elements");
}

/* Each pass of a chain finds changes and codes them, so its time is that of coding. */
static weft_status encode_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_gpu_batch *batch = slab->plan;
    weft_status status;
    (void)gpu;
    if (slab->step == STEP_REST) {
        status = weft_gpu_rest_end(batch);
        return status == WEFT_OK ? weft_gpu_rest_begin(batch) : status;
    }
    status = batch->chain.ended ? WEFT_OK : totals_check(batch);
    if (status == WEFT_OK)
        status = weft_gpu_chain_end(batch, elapsed_ms(batch, slab->count));
    if (status == WEFT_AGAIN) {
        status = weft_gpu_chain_launch(batch);
        return status == WEFT_OK ? WEFT_AGAIN : status;
    }
    slab->step = STEP_REST;
    return status == WEFT_OK ? weft_gpu_rest_begin(batch) : status;
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

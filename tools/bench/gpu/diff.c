/* diff.c - the bitmap pass alone: rows as encode jobs have them, for all weights at once, in one launch. */
#include "backends/gpu/gpu_encode.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tools/bench/gpu/inside.h"

/* Bytes of the rows of all runs. */
typedef struct diff_need {
    uint64_t rows, bits, counts, tiles, sums;
} diff_need;

typedef struct diff_walk {
    weft_bench_gpu *rig;
    uint32_t shift;
} diff_walk;

static diff_need need_of(const diff_walk *walk)
{
    diff_need need = {0};
    const weft_layout *layout = walk->rig->layout;
    for (uint64_t unit = 0, units; unit < layout->unit_count; unit += units) {
        units = weft_layout_run(layout, unit, walk->shift);
        const weft_view now = weft_binding_span(&walk->rig->now_binding, unit, (uint32_t)units);
        const weft_view shadow = weft_binding_span(&walk->rig->shadow_binding, unit, (uint32_t)units);
        const weft_gpu_pair_need one = weft_gpu_pair_needs(&now, &shadow);
        need.rows += one.rows;
        need.bits += one.bits;
        need.counts += one.counts;
        need.tiles += weft_gpu_tiles(&now);
        need.sums = one.pieces > need.sums ? one.pieces : need.sums;
    }
    need.rows += 4 * WEFT_GPU_ALIGN;
    return need;
}

/* Fills a sheet with the rows against one of the shadows; `parts` is scratch. */
static uint64_t rows_fill(const diff_walk *walk, const diff_need *need, const weft_binding *shadows, uint64_t bits,
                          weft_gpu_sheet *sheet, uint64_t *parts)
{
    uint64_t address, made = 0, counts = walk->rig->diff.counts;
    const weft_layout *layout = walk->rig->layout;
    weft_k_diff *tiles = weft_gpu_rows_add(sheet, need->tiles * sizeof *tiles, &address);
    for (uint64_t unit = 0, units; unit < layout->unit_count; unit += units) {
        units = weft_layout_run(layout, unit, walk->shift);
        const weft_view now = weft_binding_span(&walk->rig->now_binding, unit, (uint32_t)units);
        const weft_view shadow = weft_binding_span(shadows, unit, (uint32_t)units);
        const weft_gpu_pair_need one = weft_gpu_pair_needs(&now, &shadow);
        weft_gpu_pair pair = {.now = &now,
                              .shadow = &shadow,
                              .parts = parts,
                              .tile_count = weft_gpu_tiles(&now),
                              .tiles = address + made * sizeof *tiles,
                              .counts = counts};
        weft_gpu_pair_make(&pair, sheet, tiles + made, bits);
        made += pair.tile_count;
        bits += one.bits;
        counts += one.counts;
    }
    return address;
}

static weft_status slab_open(weft_bench_gpu *rig, const diff_need *need)
{
    const weft_gpu_driver *driver = rig->gpu->driver;
    weft_bench_diff *diff = &rig->diff;
    weft_gpu_slab *slab = &diff->slab;
    slab->stream = rig->stream;
    slab->device.bytes = 2 * need->rows + need->bits + need->counts + 8 * WEFT_GPU_ALIGN;
    slab->pinned.bytes = 2 * need->rows + need->counts + 8 * WEFT_GPU_ALIGN;
    weft_status status = driver->memory_take(rig->gpu->device, slab->device.bytes, &slab->device.address);
    if (status == WEFT_OK)
        status = driver->pinned_take(rig->gpu->device, slab->pinned.bytes, &diff->pinned, &slab->pinned.address);
    slab->pinned.host = diff->pinned;
    return status;
}

static weft_status rows_open(const diff_walk *walk, const diff_need *need, uint64_t *parts)
{
    weft_bench_gpu *rig = walk->rig;
    weft_bench_diff *diff = &rig->diff;
    const weft_binding *shadows[] = {&rig->shadow_binding, &rig->host_binding};
    diff->counts_bytes = need->counts;
    diff->counts = weft_gpu_take_device(&diff->slab, need->counts);
    diff->host_copy = weft_gpu_take_pinned(&diff->slab, need->counts, &diff->copy);
    diff->blocks = (uint32_t)need->tiles * WEFT_K_SLICES;
    const uint64_t bits = weft_gpu_take_device(&diff->slab, need->bits);
    weft_status status = weft_gpu_clear(rig->gpu, &diff->slab, diff->counts, diff->counts_bytes);
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        weft_gpu_sheet sheet = weft_gpu_sheet_open(&diff->slab, need->rows, true);
        diff->rows[i] = rows_fill(walk, need, shadows[i], bits, &sheet, parts);
        status = weft_gpu_sheet_send(rig->gpu, &diff->slab, &sheet);
    }
    return status == WEFT_OK ? weft_bench_gpu_settle(rig) : status;
}

weft_status weft_bench_diff_open(weft_bench_gpu *rig, uint32_t shift)
{
    const diff_walk walk = {rig, shift};
    const diff_need need = need_of(&walk);
    uint64_t *parts = weft_mem_take(need.sums + 1, sizeof *parts);
    weft_status status = parts ? slab_open(rig, &need) : WEFT_E_MEMORY;
    if (status == WEFT_OK)
        status = rows_open(&walk, &need, parts);
    weft_mem_give(parts);
    return status;
}

void weft_bench_diff_close(weft_bench_gpu *rig)
{
    rig->gpu->driver->memory_give(rig->gpu->device, rig->diff.slab.device.address);
    rig->gpu->driver->pinned_give(rig->gpu->device, rig->diff.pinned);
}

weft_status weft_bench_diff_run(weft_bench_gpu *rig, bool host, double *ms)
{
    const uint64_t begun = weft_clock_ns();
    weft_status status =
        weft_gpu_launch(rig->gpu, &rig->diff.slab, WEFT_GPU_KERNEL_diff, rig->diff.blocks, rig->diff.rows[host]);
    if (status == WEFT_OK)
        status = weft_bench_gpu_settle(rig);
    *ms = weft_clock_ms(begun, weft_clock_ns());
    return status;
}

weft_status weft_bench_diff_count(weft_bench_gpu *rig, uint64_t *changed)
{
    const weft_bench_diff *diff = &rig->diff;
    weft_status status = weft_gpu_copy(rig->gpu, &rig->diff.slab, diff->copy, diff->counts, diff->counts_bytes);
    if (status == WEFT_OK)
        status = weft_bench_gpu_settle(rig);
    *changed = 0;
    for (uint64_t i = 0; i < diff->counts_bytes / sizeof *diff->host_copy; i++)
        *changed += diff->host_copy[i]; /* the words between the runs' are zero */
    return status;
}

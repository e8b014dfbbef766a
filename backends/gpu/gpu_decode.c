/* gpu_decode.c - decodes frames into change lists on the device. Rows and payloads go there in one copy, the launches
 * follow without a step of the host, and the results of all frames come back in one copy. */
#include <string.h>

#include "backends/gpu/gpu_copy_away.h"
#include "backends/gpu/gpu_decode.h"

/* In the order in which they need each other; those of different levels stand beside one another. */
static const struct {
    enum weft_gpu_kernel kernel;
    weft_gpu_cut cut;
} launches[] = {
    {WEFT_GPU_KERNEL_decode_ones, WEFT_GPU_CUT_UNARY},
    {WEFT_GPU_KERNEL_decode_lows, WEFT_GPU_CUT_LOWS},
    {WEFT_GPU_KERNEL_decode_classes, WEFT_GPU_CUT_BASE},
    {WEFT_GPU_KERNEL_decode_differ, WEFT_GPU_CUT_FULL},
    {WEFT_GPU_KERNEL_decode_pairs, WEFT_GPU_CUT_PAIRS},
    {WEFT_GPU_KERNEL_decode_lists, WEFT_GPU_CUT_UNARY},
    {WEFT_GPU_KERNEL_decode_elements, WEFT_GPU_CUT_FULL},
    {WEFT_GPU_KERNEL_decode_kept, WEFT_GPU_CUT_PAIRS},
    {WEFT_GPU_KERNEL_decode_sizes, WEFT_GPU_CUT_EXCEPTIONS},
    {WEFT_GPU_KERNEL_decode_populations, WEFT_GPU_CUT_FRAME},
    {WEFT_GPU_KERNEL_decode_exceptions, WEFT_GPU_CUT_EXCEPTIONS},
    {WEFT_GPU_KERNEL_decode_bounds, WEFT_GPU_CUT_BOUNDS},
    {WEFT_GPU_KERNEL_decode_steps, WEFT_GPU_CUT_FAST},
    {WEFT_GPU_KERNEL_decode_places, WEFT_GPU_CUT_BASE},
    {WEFT_GPU_KERNEL_decode_further, WEFT_GPU_CUT_TIGHT},
    {WEFT_GPU_KERNEL_decode_lengths, WEFT_GPU_CUT_TIGHT},
    {WEFT_GPU_KERNEL_decode_magnitudes, WEFT_GPU_CUT_TIGHT},
};

static weft_gpu_need decode_need(const weft_gpu *gpu, const void *job)
{
    (void)gpu;
    if (!job)
        return (weft_gpu_need){.device = 2 * WEFT_GPU_ALIGN,
                               .pinned = WEFT_GPU_ALIGN,
                               .plain = sizeof(weft_gpu_decode_plan) + WEFT_GPU_ALIGN};
    const weft_gpu_frame_bytes bytes = weft_gpu_frame_need(job);
    const uint64_t sent = bytes.results + bytes.payload + bytes.rows;
    return (weft_gpu_need){.device = sent + bytes.scratch, .pinned = sent};
}

static void sheets_open(weft_gpu_slab *slab, weft_gpu_decode_plan *plan)
{
    weft_gpu_frame_bytes sum = {0};
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_gpu_frame_bytes bytes = weft_gpu_frame_need(slab->jobs[i]);
        sum.results += bytes.results;
        sum.payload += bytes.payload;
        sum.rows += bytes.rows;
        sum.scratch += bytes.scratch;
    }
    plan->rows = weft_gpu_sheet_open(slab, sum.results + sum.payload + sum.rows, true);
    plan->results = weft_gpu_sheet_part(&plan->rows, sum.results);
    plan->payloads = weft_gpu_sheet_stretch(&plan->rows, sum.payload);
    plan->scratch = weft_gpu_sheet_open(slab, sum.scratch, false);
}

static void frames_plan(weft_gpu_slab *slab, weft_gpu_decode_plan *plan)
{
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_decode_job *job = slab->jobs[i];
        job->changes->unit = job->frame.header.unit;
        job->changes->units = job->frame.header.units;
        job->changes->count = 0;
        weft_status status = weft_gpu_decoding_plan(plan, job, &plan->frames[i]);
        if (status != WEFT_OK)
            weft_gpu_job_fail(slab, i, status);
        for (int cut = 0; cut < WEFT_GPU_CUTS && status == WEFT_OK; cut++)
            plan->blocks[cut] += plan->frames[i].parts[cut];
    }
}

/* Rows of one cut over all frames. */
typedef struct cut_rows {
    uint64_t address;
    uint32_t blocks;
} cut_rows;

static weft_k_part *frame_parts(const weft_gpu_decoding *frame, weft_gpu_cut cut, weft_k_part *row)
{
    if (cut != WEFT_GPU_CUT_LOWS)
        return weft_gpu_parts_put(row, frame->address, frame->parts[cut], 0);
    for (uint32_t l = 0; l < frame->list_count; l++)
        row = weft_gpu_parts_put(row, frame->address, weft_gpu_parts(frame->lists[l].members, WEFT_K_MEMBERS), l);
    return row;
}

static cut_rows cut_plan(weft_gpu_decode_plan *plan, uint32_t frames, weft_gpu_cut cut)
{
    cut_rows made = {.blocks = plan->blocks[cut]};
    void *rows;
    made.address = weft_gpu_sheet_take(&plan->rows, made.blocks * sizeof(weft_k_part), &rows);
    weft_k_part *row = rows;
    for (uint32_t i = 0; i < frames && made.blocks > 0; i++) {
        if (plan->frames[i].address)
            row = frame_parts(&plan->frames[i], cut, row);
    }
    return made;
}

static weft_status decode_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    weft_gpu_decode_plan *plan = weft_gpu_take_plain(slab, sizeof *plan);
    cut_rows cuts[WEFT_GPU_CUTS];
    slab->plan = plan;
    plan->classes.of = 0;
    memset(plan->blocks, 0, sizeof plan->blocks);
    sheets_open(slab, plan);
    frames_plan(slab, plan);
    weft_gpu_copy_away_end();
    for (int cut = 0; cut < WEFT_GPU_CUTS; cut++)
        cuts[cut] = cut_plan(plan, slab->count, (weft_gpu_cut)cut);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &plan->rows);
    for (size_t i = 0; i < sizeof launches / sizeof *launches && status == WEFT_OK; i++) {
        const cut_rows *cut = &cuts[launches[i].cut];
        status = weft_gpu_launch(gpu, slab, launches[i].kernel, cut->blocks, cut->address);
    }
    if (status == WEFT_OK)
        status = weft_gpu_sheet_fetch(gpu, slab, &plan->results);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

/* Digests of the changes that were kept, run by run. */
static void deltas_add(const weft_gpu_decoding *frame)
{
    const weft_view *base = &frame->job->base;
    uint32_t row = 0;
    for (uint32_t r = 0; r < base->run_count; r++) {
        if (base->runs[r].count > 0)
            frame->job->tensor_delta[base->runs[r].part] += frame->deltas[row++];
    }
}

static weft_status decode_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    (void)gpu;
    const weft_gpu_decode_plan *plan = slab->plan;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_gpu_decoding *frame = &plan->frames[i];
        if (!frame->address)
            continue;
        weft_status status = weft_gpu_decoding_judge(frame);
        if (status != WEFT_OK) {
            weft_gpu_job_fail(slab, i, status);
            continue;
        }
        frame->job->changes->count = *frame->kept;
        deltas_add(frame);
    }
    return WEFT_OK;
}

static weft_view *decode_view(void *job)
{
    return &((weft_decode_job *)job)->base;
}

const weft_gpu_kind weft_gpu_decode = {
    .name = "decode", .need = decode_need, .view = decode_view, .begin = decode_begin, .advance = decode_advance};

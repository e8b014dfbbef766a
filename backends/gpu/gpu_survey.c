/* gpu_survey.c - surveys a sample of two views: brings its stretches to the host, packed, and has the host backend
 * count them. The counts depend only on an element's place in its stretch, because stretches begin at multiples of 64
 * elements, in the view and when packed. */
#include "backends/gpu/gpu_sheet.h"
#include "backends/host/host.h"
#include "base/status.h"

typedef struct survey_plan {
    weft_gpu_sheet rows, dense;
    struct {
        void *now, *shadow; /* the sample's elements */
        uint32_t count;
    } jobs[WEFT_GPU_JOBS];
} survey_plan;

#define PACKED_ALIGN 64u

static uint32_t sample_count(const weft_survey_job *job)
{
    const uint64_t whole = (uint64_t)job->now.count / job->stride * job->count;
    const uint32_t rest = job->now.count % job->stride;
    return (uint32_t)(whole + (rest < job->count ? rest : job->count));
}

/* Pieces that a view's runs cut the sample into, at most. */
static uint64_t pieces_most(const weft_survey_job *job, const weft_view *view)
{
    return weft_gpu_parts(job->now.count, job->stride) + (uint64_t)view->run_count;
}

static uint64_t view_bytes(const weft_survey_job *job, const weft_view *view)
{
    return weft_gpu_row_bytes(sizeof(weft_k_copy)) + weft_gpu_row_bytes(pieces_most(job, view) * sizeof(weft_k_run)) +
           (view->boxes ? weft_gpu_row_bytes(pieces_most(job, view)) : 0);
}

static uint64_t dense_bytes(const weft_survey_job *job)
{
    return 2 * weft_gpu_row_bytes((uint64_t)sample_count(job) * job->now.width);
}

static uint64_t rows_bytes(const weft_survey_job *job)
{
    return view_bytes(job, &job->now) + view_bytes(job, &job->shadow) +
           2 * weft_gpu_row_bytes(weft_gpu_parts(sample_count(job), WEFT_K_ELEMENTS) * sizeof(weft_k_part));
}

static weft_gpu_need survey_need(const weft_gpu *gpu, const void *job)
{
    (void)gpu;
    if (!job)
        return (weft_gpu_need){
            .device = 2 * WEFT_GPU_ALIGN, .pinned = 2 * WEFT_GPU_ALIGN, .plain = sizeof(survey_plan) + WEFT_GPU_ALIGN};
    const uint64_t bytes = rows_bytes(job) + dense_bytes(job);
    return (weft_gpu_need){.device = bytes, .pinned = bytes};
}

static void *survey_stream(weft_gpu *gpu, const void *from, bool *ordered)
{
    const weft_survey_job *job = from;
    return weft_gpu_order(gpu, &job->now, job->stream, ordered);
}

/* ---- what is brought */

static void sheets_open(weft_gpu_slab *slab, survey_plan *plan)
{
    uint64_t rows = 0, dense = 0;
    for (uint32_t i = 0; i < slab->count; i++) {
        rows += rows_bytes(slab->jobs[i]);
        dense += dense_bytes(slab->jobs[i]);
    }
    plan->rows = weft_gpu_sheet_open(slab, rows, true);
    plan->dense = weft_gpu_sheet_open(slab, dense, true);
}

/* Writes the part of a run that lies in a stretch, as a piece of the packed elements, and how it is cast. */
static weft_k_run *piece_put(weft_k_run *row, uint8_t *casts, const weft_view *view, const weft_run *run,
                             uint64_t begin, uint64_t end, uint32_t packed)
{
    const uint64_t first = weft_run_position(view, run), last = first + run->count;
    const uint64_t from = begin > first ? begin : first, to = end < last ? end : last;
    if (from >= to)
        return row;
    const weft_gpu_place place = weft_gpu_place_of(view, run);
    if (casts)
        *casts = place.cast;
    *row = (weft_k_run){.data = place.data + (from - first) * place.width,
                        .element = run->element + (from - first),
                        .position = packed + (uint32_t)(from - begin),
                        .count = (uint32_t)(to - from)};
    return row + 1;
}

/* Both runs and stretches go up: each is looked at once. */
static uint32_t pieces_put(weft_k_run *row, uint8_t *casts, const weft_survey_job *job, const weft_view *view)
{
    const weft_k_run *first = row;
    uint32_t r = 0, packed = 0;
    for (uint64_t begin = 0; begin < view->count; begin += job->stride, packed += job->count) {
        const uint64_t end = begin + job->count < view->count ? begin + job->count : view->count;
        while (r < view->run_count && (uint64_t)weft_run_position(view, &view->runs[r]) + view->runs[r].count <= begin)
            r++;
        for (uint32_t k = r; k < view->run_count && weft_run_position(view, &view->runs[k]) < end; k++)
            row = piece_put(row, casts ? casts + (row - first) : NULL, view, &view->runs[k], begin, end, packed);
    }
    return (uint32_t)(row - first);
}

/* Returns the address of the copy's row; `*dense` is where its elements will be. */
static uint64_t copy_put(survey_plan *plan, const weft_survey_job *job, const weft_view *view, void **dense)
{
    void *made, *runs, *casts = NULL;
    const uint32_t count = sample_count(job);
    const uint64_t address = weft_gpu_sheet_take(&plan->rows, sizeof(weft_k_copy), &made);
    const uint64_t there = weft_gpu_sheet_take(&plan->rows, pieces_most(job, view) * sizeof(weft_k_run), &runs);
    *(weft_k_copy *)made =
        (weft_k_copy){.view = {.runs = there, .count = count, .width = view->width, .is_float = view->is_float},
                      .bytes = weft_gpu_sheet_take(&plan->dense, (uint64_t)count * view->width, dense)};
    if (view->boxes) {
        ((weft_k_copy *)made)->casts = weft_gpu_sheet_take(&plan->rows, pieces_most(job, view), &casts);
        ((weft_k_copy *)made)->view.width = WEFT_K_CAST;
    }
    ((weft_k_copy *)made)->view.run_count = pieces_put(runs, casts, job, view);
    return address;
}

/* Writes the rows of all jobs, then the rows of their parts; returns the number of parts. */
static uint32_t rows_put(weft_gpu_slab *slab, survey_plan *plan, uint64_t *parts)
{
    uint64_t now[WEFT_GPU_JOBS], shadow[WEFT_GPU_JOBS];
    uint32_t blocks = 0;
    void *made;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_survey_job *job = slab->jobs[i];
        plan->jobs[i].count = sample_count(job);
        now[i] = copy_put(plan, job, &job->now, &plan->jobs[i].now);
        shadow[i] = copy_put(plan, job, &job->shadow, &plan->jobs[i].shadow);
        blocks += 2 * weft_gpu_parts(plan->jobs[i].count, WEFT_K_ELEMENTS);
    }
    *parts = weft_gpu_sheet_take(&plan->rows, blocks * sizeof(weft_k_part), &made);
    weft_k_part *row = made;
    for (uint32_t i = 0; i < slab->count; i++) {
        const uint32_t each = weft_gpu_parts(plan->jobs[i].count, WEFT_K_ELEMENTS);
        row = weft_gpu_parts_put(row, now[i], each, 0);
        row = weft_gpu_parts_put(row, shadow[i], each, 0);
    }
    return blocks;
}

static weft_status survey_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    survey_plan *plan = slab->plan = weft_gpu_take_plain(slab, sizeof *plan);
    uint64_t parts;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_survey_job *job = slab->jobs[i];
        if (job->count % PACKED_ALIGN != 0 || job->stride % PACKED_ALIGN != 0 || job->stride < job->count)
            return weft_fail(WEFT_E_ARGUMENT, "survey of %u elements of every %u: need multiples of %u", job->count,
                             job->stride, PACKED_ALIGN);
    }
    sheets_open(slab, plan);
    const uint32_t blocks = rows_put(slab, plan, &parts);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &plan->rows);
    if (status == WEFT_OK)
        status = weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_load, blocks, parts);
    if (status == WEFT_OK)
        status = weft_gpu_sheet_fetch(gpu, slab, &plan->dense);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

/* ---- what is counted */

static weft_view packed_view(const weft_view *view, weft_run *run, void *dense, uint32_t count)
{
    weft_view packed = *view;
    *run = (weft_run){.data = dense, .position = view->first, .count = count};
    packed.runs = run;
    packed.run_count = 1;
    packed.count = count;
    return packed;
}

static weft_status survey_advance(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const survey_plan *plan = slab->plan;
    for (uint32_t i = 0; i < slab->count; i++) {
        const weft_survey_job *job = slab->jobs[i];
        const uint32_t count = plan->jobs[i].count;
        weft_run now, shadow;
        weft_survey_job packed = {.now = packed_view(&job->now, &now, plan->jobs[i].now, count),
                                  .shadow = packed_view(&job->shadow, &shadow, plan->jobs[i].shadow, count),
                                  .count = job->count,
                                  .stride = job->count,
                                  .survey = job->survey};
        weft_status status = weft_backend_host.survey(gpu->host, &packed);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static weft_view *survey_view(void *job)
{
    return &((weft_survey_job *)job)->now;
}

const weft_gpu_kind weft_gpu_survey = {.name = "survey",
                                       .need = survey_need,
                                       .view = survey_view,
                                       .stream = survey_stream,
                                       .begin = survey_begin,
                                       .advance = survey_advance};

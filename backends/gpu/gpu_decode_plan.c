/* gpu_decode_plan.c - the rows for one frame. Header and descriptors are read by the functions that all backends share.
 * Their numbers decide which memory the kernels may touch. */
#include "backends/gpu/gpu_copy_away.h"
#include "backends/gpu/gpu_decode.h"
#include "base/status.h"

/* Rows and arrays of a frame, and those of its results: each may lose so much to alignment. */
#define TAKES         128u
#define TAKES_RESULTS 4u
/* Classes of a part's elements. */
#define PLANES_BYTES (UINT64_C(16) * WEFT_GPU_BLOCK)

static uint32_t unary_parts(uint64_t payload_bytes)
{
    return weft_gpu_parts(8 * payload_bytes + 32, WEFT_K_UNARY_BITS);
}

/* The most parts of all cuts together. */
static uint64_t parts_most(const weft_decode_job *job)
{
    const uint64_t changed = job->frame.header.changed, elements = weft_gpu_parts(job->base.count, WEFT_K_ELEMENTS);
    return unary_parts(job->frame.header.payload_bytes) + 3 * changed / WEFT_K_MEMBERS + WEFT_TIGHT_LISTS +
           2 * weft_gpu_parts(changed, WEFT_K_CHANGES) + 2 * elements + 2;
}

static uint64_t scratch_most(const weft_decode_job *job)
{
    const uint64_t changed = job->frame.header.changed, parts = weft_gpu_parts(job->base.count, WEFT_K_ELEMENTS) + 1;
    const uint64_t words = unary_parts(job->frame.header.payload_bytes) + 3 * changed / WEFT_K_MEMBERS +
                           WEFT_TIGHT_LISTS + 4 * (uint64_t)weft_gpu_parts(changed, WEFT_K_CHANGES);
    switch (job->frame.header.level) {
    case WEFT_LEVEL_FAST:
        return 4 * (words + 2 * changed + 1);
    case WEFT_LEVEL_TIGHT:
        return 4 * (words + 4 * changed + 1) + changed +
               parts * (WEFT_K_CLASSES * (2 * sizeof(uint32_t) + sizeof(weft_k_bound)) + PLANES_BYTES);
    case WEFT_LEVEL_PAIRS:
        return 4 * (WEFT_GPU_BLOCK + 1) * (uint64_t)weft_gpu_parts(changed, WEFT_K_CHANGES);
    default:
        return 4 * (WEFT_GPU_BLOCK + 1) * parts;
    }
}

/* The most lists of a level. */
static uint64_t lists_most(weft_level level)
{
    return level == WEFT_LEVEL_TIGHT ? WEFT_TIGHT_LISTS : level == WEFT_LEVEL_FAST;
}

weft_gpu_frame_bytes weft_gpu_frame_need(const weft_decode_job *job)
{
    const uint64_t waste = TAKES * WEFT_GPU_ROW_ALIGN;
    const uint64_t changes = weft_gpu_parts(job->frame.header.changed, WEFT_K_CHANGES);
    return (weft_gpu_frame_bytes){
        .rows = waste + sizeof(weft_k_decode) + sizeof(weft_k_tight) + weft_gpu_view_bytes(&job->base) +
                lists_most(job->frame.header.level) * sizeof(weft_k_list) + weft_gpu_classes_bytes(&job->base) +
                parts_most(job) * sizeof(weft_k_part),
        .payload = weft_gpu_row_bytes(job->frame.header.payload_bytes),
        .results = TAKES_RESULTS * WEFT_GPU_ROW_ALIGN + (WEFT_K_LAUNCHES + 1 + changes) * sizeof(uint32_t) +
                   job->base.run_count * sizeof(uint64_t),
        .scratch = waste + scratch_most(job)};
}

static uint64_t words_take(weft_gpu_sheet *sheet, uint64_t count)
{
    return weft_gpu_sheet_take(sheet, count * sizeof(uint32_t), NULL);
}

/* The lists of a frame found so far, and the place of the next one. */
typedef struct list_row {
    weft_k_list *next;
    uint64_t low; /* bit */
    uint32_t one;
} list_row;

static void unary_plan(weft_gpu_decode_plan *plan, weft_gpu_decoding *frame, weft_k_decode *row, uint64_t offset)
{
    row->unary = (uint32_t)(8 * offset);
    row->unary_parts = weft_gpu_parts(32 * (uint64_t)row->words - row->unary / 32 * 32, WEFT_K_UNARY_BITS);
    row->ones = words_take(&plan->scratch, row->unary_parts);
    frame->parts[WEFT_GPU_CUT_UNARY] = row->unary_parts;
}

static void list_put(weft_gpu_decode_plan *plan, weft_gpu_decoding *frame, list_row *at, const weft_k_list *list)
{
    const uint32_t parts = weft_gpu_parts(list->members, WEFT_K_MEMBERS);
    *at->next = *list;
    at->next->lows = at->low;
    at->next->one = at->one;
    at->next->sums = words_take(&plan->scratch, parts);
    at->low += (uint64_t)list->members * list->stride;
    at->one += list->members;
    at->next++;
    frame->parts[WEFT_GPU_CUT_LOWS] += parts;
    frame->list_count++;
}

/* ---- level fast */

static weft_status fast_plan(weft_gpu_decode_plan *plan, const weft_decode_job *job, weft_gpu_decoding *frame,
                             weft_k_decode *row)
{
    weft_fast_shape shape;
    void *made;
    weft_status status = weft_fast_shape_read(&job->frame.header, job->base.count, job->base.width, &shape);
    if (status != WEFT_OK)
        return status;
    const uint32_t parts = weft_gpu_parts(shape.exceptions, WEFT_K_CHANGES);
    list_row at = {.next = frame->lists, .low = 1};
    unary_plan(plan, frame, row, weft_fast_unary_offset(&shape));
    list_put(plan, frame, &at,
             &(weft_k_list){.ranks = row->position,
                            .stride = shape.gap_bits + 1,
                            .low_bits = shape.gap_bits,
                            .members = shape.changed,
                            .directions = 1});
    row->list_ones = shape.changed;
    row->tail_least = row->tail_most = 2 * shape.exceptions;
    row->ends = words_take(&plan->scratch, row->tail_most + UINT64_C(1));
    row->lengths = words_take(&plan->scratch, parts);
    row->level = weft_gpu_sheet_take(&plan->rows, sizeof(weft_k_fast), &made);
    *(weft_k_fast *)made = (weft_k_fast){.ranks = 8 * weft_fast_ranks_offset(&shape),
                                         .gaps = words_take(&plan->scratch, parts),
                                         .exceptions = shape.exceptions,
                                         .rank_bits = shape.rank_bits,
                                         .magnitude_bits = shape.magnitude_bits,
                                         .field_bits = shape.gap_bits + 1};
    frame->parts[WEFT_GPU_CUT_EXCEPTIONS] = parts;
    frame->parts[WEFT_GPU_CUT_FAST] = weft_gpu_parts(shape.changed, WEFT_K_CHANGES);
    return WEFT_OK;
}

/* ---- level tight */

static weft_k_set set_plan(weft_gpu_decode_plan *plan, weft_gpu_decoding *frame, list_row *at,
                           const weft_tight_list *list)
{
    weft_k_set set = {.count = list->members, .inverted = list->inverted};
    if (list->members == 0)
        return set;
    set.ranks = words_take(&plan->scratch, list->members);
    list_put(plan, frame, at,
             &(weft_k_list){
                 .ranks = set.ranks, .stride = list->low_bits, .low_bits = list->low_bits, .members = list->members});
    return set;
}

static void classes_plan(const weft_gpu_classes *classes, weft_k_tight *tight)
{
    const weft_class_map *map = &classes->map;
    tight->of = classes->of;
    tight->classes = map->count;
    tight->shift = map->shift;
    tight->mask = map->mask;
    tight->magnitude_base = map->classes->magnitude_base;
    tight->rice_most = map->width == 8 ? 56 : 8 * map->width - 2;
}

static void tight_scratch(weft_gpu_decode_plan *plan, weft_gpu_decoding *frame, weft_k_decode *row, weft_k_tight *tight)
{
    const uint32_t changes = weft_gpu_parts(row->changed, WEFT_K_CHANGES);
    const uint64_t parts = weft_gpu_parts(row->view.count, WEFT_K_ELEMENTS);
    tight->parts = (uint32_t)parts;
    tight->planes = weft_gpu_sheet_take(&plan->scratch, parts * PLANES_BYTES, NULL);
    tight->populations = words_take(&plan->scratch, parts * WEFT_K_CLASSES);
    tight->starts = words_take(&plan->scratch, (parts + 1) * WEFT_K_CLASSES);
    tight->bounds = weft_gpu_sheet_take(&plan->scratch, (parts + 1) * WEFT_K_CLASSES * sizeof(weft_k_bound), NULL);
    tight->states = weft_gpu_sheet_take(&plan->scratch, row->changed, NULL);
    tight->large = words_take(&plan->results, changes); /* which are zero */
    tight->coded = words_take(&plan->scratch, changes);
    row->lengths = words_take(&plan->scratch, changes);
    row->tail_most = row->changed;
    row->ends = words_take(&plan->scratch, row->tail_most + UINT64_C(1));
    frame->parts[WEFT_GPU_CUT_BASE] = tight->parts;
    frame->parts[WEFT_GPU_CUT_FRAME] = 1;
    frame->parts[WEFT_GPU_CUT_BOUNDS] = weft_gpu_parts((parts + 1) * WEFT_K_CLASSES, WEFT_GPU_BLOCK);
    frame->parts[WEFT_GPU_CUT_TIGHT] = changes;
}

static weft_status tight_plan(weft_gpu_decode_plan *plan, const weft_decode_job *job, weft_gpu_decoding *frame,
                              weft_k_decode *row)
{
    weft_tight_shape shape;
    void *made;
    weft_gpu_classes_put(&plan->classes, &plan->rows, job->parameters, &job->base);
    weft_status status = weft_tight_shape_read(&job->frame.header, job->frame.payload, plan->classes.map.count, &shape);
    if (status != WEFT_OK)
        return status;
    list_row at = {.next = frame->lists, .low = 8 * weft_tight_lows_offset(&shape)};
    row->level = weft_gpu_sheet_take(&plan->rows, sizeof(weft_k_tight), &made);
    weft_k_tight *tight = made;
    *tight = (weft_k_tight){.directions = 8 * weft_tight_lists_bytes(&shape)};
    unary_plan(plan, frame, row, weft_tight_unary_offset(&shape));
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++)
        tight->positions[c] = set_plan(plan, frame, &at, &shape.positions[c]);
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++)
        tight->exceptions[c] = set_plan(plan, frame, &at, &shape.exceptions[c]);
    tight->further = set_plan(plan, frame, &at, &shape.further);
    tight->lows_end = at.low;
    row->list_ones = at.one;
    classes_plan(&plan->classes, tight);
    tight_scratch(plan, frame, row, tight);
    return WEFT_OK;
}

/* ---- levels full and pairs */

static void dense_plan(weft_gpu_decode_plan *plan, const weft_frame_header *header, weft_gpu_decoding *frame,
                       weft_k_decode *row)
{
    const bool pairs = header->level == WEFT_LEVEL_PAIRS;
    void *made;
    const uint32_t parts =
        pairs ? weft_gpu_parts(row->changed, WEFT_K_CHANGES) : weft_gpu_parts(row->view.count, WEFT_K_ELEMENTS);
    row->level = weft_gpu_sheet_take(&plan->rows, sizeof(weft_k_dense), &made);
    *(weft_k_dense *)made = (weft_k_dense){.masks = words_take(&plan->scratch, (uint64_t)parts * WEFT_GPU_BLOCK),
                                           .counts = words_take(&plan->scratch, parts),
                                           .parts = parts,
                                           .steps = weft_frame_has_full_steps(header)};
    frame->parts[pairs ? WEFT_GPU_CUT_PAIRS : WEFT_GPU_CUT_FULL] = parts;
}

/* ---- a frame */

static void results_plan(weft_gpu_decode_plan *plan, weft_gpu_decoding *frame, weft_k_decode *row)
{
    void *faults, *kept, *deltas;
    row->faults = weft_gpu_sheet_take(&plan->results, WEFT_K_LAUNCHES * sizeof(uint32_t), &faults);
    row->kept = weft_gpu_sheet_take(&plan->results, sizeof(uint32_t), &kept);
    row->deltas = weft_gpu_sheet_take(&plan->results, row->view.run_count * sizeof(uint64_t), &deltas);
    frame->faults = faults;
    frame->kept = kept;
    frame->deltas = deltas;
}

static weft_status level_plan(weft_gpu_decode_plan *plan, const weft_decode_job *job, weft_gpu_decoding *frame,
                              weft_k_decode *row)
{
    switch (job->frame.header.level) {
    case WEFT_LEVEL_FAST:
        return fast_plan(plan, job, frame, row);
    case WEFT_LEVEL_TIGHT:
        return tight_plan(plan, job, frame, row);
    default:
        dense_plan(plan, &job->frame.header, frame, row);
        return WEFT_OK;
    }
}

weft_status weft_gpu_decoding_plan(weft_gpu_decode_plan *plan, const weft_decode_job *job, weft_gpu_decoding *frame)
{
    const weft_frame_header *header = &job->frame.header;
    const weft_changes *changes = job->changes;
    void *made, *lists, *payload;
    *frame = (weft_gpu_decoding){.job = job};
    if (header->changed > changes->capacity)
        return weft_fail(WEFT_E_BUDGET, "frame of unit %u codes %u elements, the change list holds %u", header->unit,
                         header->changed, changes->capacity);
    uint64_t address = weft_gpu_sheet_take(&plan->rows, sizeof(weft_k_decode), &made);
    weft_k_decode *row = made;
    *row = (weft_k_decode){.position = (uintptr_t)changes->position,
                           .before = (uintptr_t)changes->before,
                           .after = (uintptr_t)changes->after,
                           .words = header->payload_bytes / 4,
                           .changed = header->changed,
                           .limit = job->limit ? job->limit : job->base.count};
    row->view = weft_gpu_view_put(&plan->rows, &job->base);
    row->payload = weft_gpu_sheet_take(&plan->payloads, header->payload_bytes, &payload);
    weft_gpu_copy_away(payload, job->frame.payload, header->payload_bytes);
    row->lists = weft_gpu_sheet_take(&plan->rows, lists_most(header->level) * sizeof(weft_k_list), &lists);
    frame->lists = lists;
    results_plan(plan, frame, row);
    weft_status status = level_plan(plan, job, frame, row);
    row->list_count = frame->list_count;
    if (status == WEFT_OK)
        frame->address = address;
    return status;
}

/* ---- what came of it */

static const char *fault_text(uint32_t faults)
{
    static const char *const texts[] = {"a position or rank beyond its elements",
                                        "positions that do not rise",
                                        "the unary plane runs past the payload",
                                        "an exception beyond its changes",
                                        "a magnitude that is out of range",
                                        "the planes do not end where the payload does",
                                        "padding that is not zero",
                                        "the base gives other numbers of changes: not its base"};
    return texts[__builtin_ctz(faults)];
}

weft_status weft_gpu_decoding_judge(const weft_gpu_decoding *frame)
{
    for (uint32_t launch = 0; launch < WEFT_K_LAUNCHES; launch++) {
        const uint32_t faults = frame->faults[launch];
        if (faults != 0)
            return weft_fail(faults & WEFT_K_FAULT_BASE ? WEFT_E_BASE : WEFT_E_CORRUPT, "frame of unit %u: %s",
                             frame->job->frame.header.unit, fault_text(faults));
    }
    return WEFT_OK;
}

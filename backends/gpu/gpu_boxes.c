/* gpu_boxes.c - strided runs of a batch as dense memory, and back. */
#include "backends/gpu/gpu_boxes.h"

#include <string.h>

/* A job's view as the caller gave it. */
typedef struct own_view {
    struct own_view *next;
    weft_view *place;
    weft_view view;
} own_view;

typedef struct boxed_plan {
    own_view *views;
    weft_gpu_sheet rows, dense;
    uint64_t parts; /* address of their rows */
    uint32_t blocks;
} boxed_plan;

static bool is_strided(const weft_view *view, const weft_run *run)
{
    return run->count > 0 && !run->data && !weft_gpu_flat_box(view, run);
}

static bool has_strided(const weft_view *view)
{
    bool found = false;
    for (uint32_t r = 0; view->boxes && r < view->run_count && !found; r++)
        found = is_strided(view, &view->runs[r]);
    return found;
}

/* ---- sizes */

/* Elements of a run that one job of the device moves: all of them, or those of one row where rows are long. */
typedef struct span {
    uint64_t element; /* index in the tensor of the first */
    uint32_t count;
    uint64_t row, column; /* of the first element */
    uint64_t all;         /* elements of a row */
    bool alone;           /* the span has one row, from whose first element columns count */
} span;

/* Returns the span that begins `done` elements after the run's first. */
static span span_of(const weft_view *view, const weft_run *run, uint32_t done)
{
    span s = {.element = run->element + done, .count = run->count - done};
    s.all = view->boxes->box[view->boxes->first[run->tensor]].all;
    s.row = s.element / s.all;
    s.column = s.element % s.all;
    s.alone = s.all > WEFT_K_BOX_ROW;
    if (s.alone && s.count > s.all - s.column)
        s.count = (uint32_t)(s.all - s.column);
    return s;
}

/* Finds the boxes that may have elements of a span: so many from *first on. */
static uint32_t boxes_of(const weft_view *view, const weft_run *run, const span *s, const weft_box **first)
{
    const uint64_t bottom = (s->element + s->count - 1) / s->all;
    const weft_box *end, *box = weft_boxes_from(view->boxes, run->tensor, s->row, &end);
    *first = box;
    while (box < end && box->row <= bottom)
        box++;
    return (uint32_t)(box - *first);
}

typedef struct boxed_bytes {
    uint64_t rows, dense;
    uint32_t parts, spans;
} boxed_bytes;

static boxed_bytes run_bytes(const weft_view *view, const weft_run *run)
{
    boxed_bytes sum = {.dense = weft_gpu_row_bytes((uint64_t)run->count * view->width)};
    for (uint32_t done = 0; done < run->count;) {
        const weft_box *first;
        const span s = span_of(view, run, done);
        sum.rows += weft_gpu_row_bytes(sizeof(weft_k_boxed)) +
                    weft_gpu_row_bytes(boxes_of(view, run, &s, &first) * sizeof(weft_k_box));
        sum.parts += weft_gpu_parts(s.count, WEFT_K_ELEMENTS);
        sum.spans++;
        done += s.count;
    }
    return sum;
}

static boxed_bytes view_bytes(const weft_view *view)
{
    boxed_bytes sum = {0};
    for (uint32_t r = 0; view->boxes && r < view->run_count; r++) {
        if (!is_strided(view, &view->runs[r]))
            continue;
        const boxed_bytes bytes = run_bytes(view, &view->runs[r]);
        sum.rows += bytes.rows;
        sum.dense += bytes.dense;
        sum.parts += bytes.parts;
        sum.spans += bytes.spans;
    }
    return sum;
}

weft_gpu_need weft_gpu_boxes_need(const weft_view *view)
{
    if (!has_strided(view))
        return (weft_gpu_need){0};
    const boxed_bytes bytes = view_bytes(view);
    const uint64_t rows = bytes.rows + bytes.parts * sizeof(weft_k_part) + WEFT_GPU_ALIGN;
    return (weft_gpu_need){.device = rows + bytes.dense + WEFT_GPU_ALIGN,
                           .pinned = rows,
                           .plain = sizeof(boxed_plan) + sizeof(own_view) + view->run_count * sizeof(weft_run) +
                                    3 * WEFT_GPU_ALIGN};
}

/* ---- rows */

static uint32_t clamped(uint64_t count)
{
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static weft_k_divisor divisor_of(uint64_t number)
{
    uint32_t bits = 0;
    if (number == 0 || number > 2 * WEFT_K_BOX_ROW)
        return (weft_k_divisor){0};
    while (UINT64_C(1) << bits < number)
        bits++;
    const uint64_t factor = ((UINT64_C(1) << bits) - number) * (UINT64_C(1) << 32) / number + 1;
    return (weft_k_divisor){(uint32_t)number, (uint32_t)factor, bits > 0, bits > 0 ? bits - 1 : 0};
}

/* Writes the digits of an index, which begins at `start`. */
static uint32_t digits_put(const weft_box_index *at, uint64_t start, weft_k_digit *digits)
{
    for (uint32_t i = at->count; i-- > 0;) {
        const uint64_t extent = at->part[i].extent;
        digits[i] = (weft_k_digit){extent, at->part[i].stride, i > 0 ? start % extent : start, divisor_of(extent)};
        start = i > 0 ? start / extent : 0;
    }
    return at->count;
}

/* A range of the box, from the place on that counts as 0: where it begins, how long it is, and what of it lies before.
 */
typedef struct range {
    uint32_t begin, count;
    uint64_t before;
} range;

static range range_of(uint64_t zero, uint64_t first, uint64_t count)
{
    if (first >= zero)
        return (range){clamped(first - zero), clamped(count), 0};
    const uint64_t before = zero - first;
    return (range){0, before < count ? clamped(count - before) : 0, before};
}

static void box_put(const weft_box *box, const span *s, weft_k_box *row)
{
    const range rows = range_of(s->row, box->row, box->rows);
    const range columns = range_of(s->alone ? s->column : 0, box->column, box->columns);
    *row = (weft_k_box){.data = (uintptr_t)box->data,
                        .row = rows.begin,
                        .rows = rows.count,
                        .column = columns.begin,
                        .columns = columns.count,
                        .beside = box->side > 1,
                        .cast = box->cast};
    row->row_digits = digits_put(&box->row_at, rows.before, row->row_at);
    row->column_digits = digits_put(&box->column_at, columns.before, row->column_at);
}

/* Writes the rows of a span and of its boxes. Returns the address of the span's. */
static uint64_t span_put(weft_gpu_sheet *sheet, const weft_view *view, const weft_run *run, const span *s,
                         uint64_t dense)
{
    const weft_box *first;
    void *made, *boxes;
    const uint32_t count = boxes_of(view, run, s, &first);
    const uint64_t address = weft_gpu_sheet_take(sheet, sizeof(weft_k_boxed), &made);
    *(weft_k_boxed *)made = (weft_k_boxed){.boxes = weft_gpu_sheet_take(sheet, count * sizeof(weft_k_box), &boxes),
                                           .dense = dense,
                                           .all = divisor_of(s->alone ? 0 : s->all),
                                           .column = s->alone ? 0 : (uint32_t)s->column,
                                           .count = s->count,
                                           .width = view->width,
                                           .box_count = count};
    for (uint32_t i = 0; i < count; i++)
        box_put(&first[i], s, (weft_k_box *)boxes + i);
    return address;
}

/* Gives a run dense memory, and writes the rows that fill it. Returns the row after those of the parts. */
static weft_k_part *run_put(boxed_plan *plan, const weft_view *view, weft_run *run, weft_k_part *parts)
{
    const uint64_t dense = weft_gpu_sheet_take(&plan->dense, (uint64_t)run->count * view->width, NULL);
    for (uint32_t done = 0; done < run->count;) {
        const span s = span_of(view, run, done);
        const uint64_t address = span_put(&plan->rows, view, run, &s, dense + (uint64_t)done * view->width);
        parts = weft_gpu_parts_put(parts, address, weft_gpu_parts(s.count, WEFT_K_ELEMENTS), 0);
        done += s.count;
    }
    run->data = (uint8_t *)(uintptr_t)dense;
    return parts;
}

/* Replaces the strided runs of a view. Returns the row after those of their parts. */
static weft_k_part *view_put(weft_gpu_slab *slab, boxed_plan *plan, weft_view *view, weft_k_part *parts)
{
    own_view *own = weft_gpu_take_plain(slab, sizeof *own);
    weft_run *runs = weft_gpu_take_plain(slab, view->run_count * sizeof *runs);
    bool boxes = false;
    *own = (own_view){plan->views, view, *view};
    plan->views = own;
    memcpy(runs, view->runs, view->run_count * sizeof *runs);
    for (uint32_t r = 0; r < view->run_count; r++) {
        if (is_strided(view, &runs[r]))
            parts = run_put(plan, view, &runs[r], parts);
        boxes = boxes || !runs[r].data;
    }
    view->runs = runs;
    if (!boxes)
        view->boxes = NULL;
    return parts;
}

static boxed_plan *plan_make(weft_gpu_slab *slab, const boxed_bytes *bytes)
{
    boxed_plan *plan = weft_gpu_take_plain(slab, sizeof *plan);
    const uint64_t parts = bytes->parts * sizeof(weft_k_part);
    void *made;
    *plan = (boxed_plan){.rows = weft_gpu_sheet_open(slab, parts + bytes->rows, true),
                         .dense = weft_gpu_sheet_open(slab, bytes->dense, false),
                         .blocks = bytes->parts};
    plan->parts = weft_gpu_sheet_take(&plan->rows, parts, &made);
    weft_k_part *row = made;
    for (uint32_t i = 0; i < slab->count; i++) {
        weft_view *view = slab->kind->view(slab->jobs[i]);
        if (has_strided(view))
            row = view_put(slab, plan, view, row);
    }
    return plan;
}

weft_status weft_gpu_boxes_begin(weft_gpu *gpu, weft_gpu_slab *slab)
{
    boxed_bytes sum = {0};
    for (uint32_t i = 0; slab->kind->view && i < slab->count; i++) {
        const boxed_bytes bytes = view_bytes(slab->kind->view(slab->jobs[i]));
        sum.rows += bytes.rows;
        sum.dense += bytes.dense;
        sum.parts += bytes.parts;
    }
    if (sum.parts == 0)
        return WEFT_OK;
    const boxed_plan *plan = slab->boxed = plan_make(slab, &sum);
    weft_status status = weft_gpu_sheet_send(gpu, slab, &plan->rows);
    return status == WEFT_OK ? weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_boxes_load, plan->blocks, plan->parts)
                             : status;
}

weft_status weft_gpu_boxes_return(weft_gpu *gpu, weft_gpu_slab *slab)
{
    const boxed_plan *plan = slab->boxed;
    return plan ? weft_gpu_launch(gpu, slab, WEFT_GPU_KERNEL_boxes_store, plan->blocks, plan->parts) : WEFT_OK;
}

void weft_gpu_boxes_end(weft_gpu_slab *slab)
{
    const boxed_plan *plan = slab->boxed;
    for (const own_view *own = plan ? plan->views : NULL; own; own = own->next)
        *own->place = own->view;
    slab->boxed = NULL;
}

/* ---- rows for jobs that touch few elements */

uint64_t weft_gpu_boxed_view_bytes(const weft_view *view)
{
    const boxed_bytes bytes = view_bytes(view);
    return weft_gpu_row_bytes((view->run_count + bytes.spans) * sizeof(weft_k_run)) + bytes.rows;
}

/* Writes a run for each span of a strided one. Returns the run after them. */
static weft_k_run *spans_put(weft_gpu_sheet *sheet, const weft_view *view, const weft_run *run, weft_k_run *row)
{
    for (uint32_t done = 0; done < run->count;) {
        const span s = span_of(view, run, done);
        *row++ = (weft_k_run){.element = span_put(sheet, view, run, &s, 0),
                              .position = weft_run_position(view, run) + done,
                              .count = s.count};
        done += s.count;
    }
    return row;
}

weft_k_view weft_gpu_boxed_view_put(weft_gpu_sheet *sheet, const weft_view *view, bool *boxed)
{
    void *rows;
    *boxed = has_strided(view);
    if (!*boxed)
        return weft_gpu_view_put(sheet, view);
    const uint64_t runs = view->run_count + view_bytes(view).spans;
    weft_k_view made = {.count = view->count, .width = view->width, .is_float = view->is_float};
    made.runs = weft_gpu_sheet_take(sheet, runs * sizeof(weft_k_run), &rows);
    weft_k_run *row = rows;
    for (uint32_t r = 0; r < view->run_count; r++) {
        const weft_run *run = &view->runs[r];
        if (is_strided(view, run))
            row = spans_put(sheet, view, run, row);
        else if (run->count > 0)
            *row++ = (weft_k_run){.data = weft_gpu_place_of(view, run).data,
                                  .element = run->element,
                                  .position = weft_run_position(view, run),
                                  .count = run->count};
    }
    made.run_count = (uint32_t)(row - (weft_k_run *)rows);
    return made;
}

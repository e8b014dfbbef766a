/* update_inspect.c - the contents of an update file: its header, and its changes of each tensor, frame by frame. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "update/update_cursor.h"
#include "update/update_fit.h"
#include "update/update_pass.h"

_Static_assert(WEFT_THRESHOLDS_MAX == WEFT_CLASS_MAX - 1, "the caller has room for all thresholds");

uint32_t weft_update_thresholds(const weft_update_file *update, weft_dtype dtype,
                                uint32_t thresholds[WEFT_THRESHOLDS_MAX])
{
    WEFT_ALONE(update, "weft_update_thresholds");
    const weft_dtype_row *row = weft_dtype_find(dtype);
    if (!row)
        return 0;
    const weft_classes *classes = &update->header.parameters.classes[weft_kind_of(row->width, row->exponent_bits)];
    for (uint32_t i = 0; i < classes->thresholds; i++)
        thresholds[i] = classes->threshold[i];
    return classes->thresholds;
}

weft_status weft_update_describe(weft_update_file *update, weft_update_header *header)
{
    WEFT_ALONE(update, "weft_update_describe");
    const weft_layout *layout;
    int named;
    weft_status status = weft_size_check(header, "weft_update_header");
    if (status == WEFT_OK)
        status = weft_update_layout(update, &layout, &named);
    if (status != WEFT_OK)
        return status;
    weft_update_header all = {.base = update->header.base,
                              .target = update->header.target,
                              .level = weft_level_name(update->header.level),
                              .layout = {update->header.layout[0], update->header.layout[1]},
                              .elements = layout->elements,
                              .dense_bytes = layout->bytes,
                              .tensors = layout->count,
                              .changed = update->trailer.changed,
                              .bytes = update->source.bytes,
                              .frame_bytes = update->trailer.frame_bytes,
                              .frames = update->trailer.frames,
                              .attachment_bytes = update->header.attachment_bytes,
                              .run_shift = update->header.parameters.run_shift,
                              .named = named};
    size_t size = header->size < sizeof all ? header->size : sizeof all;
    all.size = size;
    memcpy(header, &all, size);
    return WEFT_OK;
}

/* ---- by tensor */

typedef struct weft_update_sums {
    weft_update_file *file;
    const weft_layout *layout;
    weft_binding base; /* of the pieces, or of zeros that all tensors share */
    bool bound;
    uint8_t *zeros;
    uint64_t zeros_bytes;
    uint64_t *discard; /* digests */
    weft_update_pass pass;
    weft_update_cursor cursor;
    weft_update_tensor *tensors;
    bool exact;
} sums;

/* Binds zeros for the base, because levels fast and pairs give positions without it. */
static weft_status bind_zeros(sums *s)
{
    weft_piece *pieces = weft_mem_take(s->layout->count + 1, sizeof *pieces);
    for (uint64_t t = 0; t < s->layout->count; t++)
        if (s->layout->entries[t].bytes > s->zeros_bytes)
            s->zeros_bytes = s->layout->entries[t].bytes;
    s->zeros = weft_mem_map(s->zeros_bytes ? s->zeros_bytes : 1);
    if (!pieces || !s->zeros) {
        weft_mem_give(pieces);
        return weft_fail(WEFT_E_MEMORY, "no memory for a tensor of %llu bytes", (unsigned long long)s->zeros_bytes);
    }
    for (uint64_t t = 0; t < s->layout->count; t++)
        pieces[t] = (weft_piece){t, 0, s->layout->entries[t].elements, s->zeros};
    weft_status status = weft_binding_open((weft_layout *)(uintptr_t)s->layout, pieces, s->layout->count, &s->base);
    weft_mem_give(pieces);
    return status;
}

/* Another base would not always be noticed by the frames, and tell of other tensors. */
static weft_status base_judge(sums *s)
{
    const weft_version *base = &s->file->header.base;
    const weft_status status =
        weft_update_digest_units(&s->pass, s->pass.workers, &s->base, 0, s->layout->unit_count, s->discard);
    uint64_t root = weft_digest_parts_root(s->layout, s->discard);
    if (status != WEFT_OK || root == base->root)
        return status;
    return weft_fail(WEFT_E_BASE, "the weights have digest %016llx, the update starts from %016llx (version %llu)",
                     (unsigned long long)root, (unsigned long long)base->root, (unsigned long long)base->number);
}

/* Where positions are unknown, each tensor gets a share by its elements. New bits do not say which of the elements that
 * a frame codes differ from the base. */
static void share_out(sums *s, const weft_view *view, const weft_frame_header *header, uint64_t bytes)
{
    for (uint32_t r = 0; r < view->run_count; r++) {
        const weft_run *run = &view->runs[r];
        s->tensors[run->tensor].bytes += (double)bytes * run->count / view->count;
        s->tensors[run->tensor].changed += (uint64_t)header->changed * run->count / view->count;
    }
    s->exact = s->exact && view->run_count == 1 && header->level != WEFT_LEVEL_FULL;
}

static void count_positions(sums *s, const weft_view *view, const weft_changes *changes, uint64_t bytes)
{
    for (uint32_t r = 0, from = 0, end; r < view->run_count; r++, from = end) {
        const weft_run *run = &view->runs[r];
        uint32_t limit = weft_run_position(view, run) + run->count;
        for (end = from; end < changes->count && changes->position[end] < limit; end++)
            continue;
        s->tensors[run->tensor].changed += end - from;
        s->tensors[run->tensor].bytes += (double)bytes * (end - from) / changes->count;
    }
}

/* Lists all that a frame of pairs names. Without the base, decoding drops those whose new bits are the zeros' own. */
static void pairs_list(const weft_frame *frame, weft_changes *changes)
{
    changes->count = frame->header.changed;
    memcpy(changes->position, frame->payload, (uint64_t)changes->count * sizeof *changes->position);
}

static weft_status frame_count(sums *s, const uint8_t *bytes, uint64_t length)
{
    weft_update_worker *worker = &s->pass.workers[0];
    weft_decode_job job = {
        .parameters = &s->file->header.parameters, .changes = &worker->changes, .tensor_delta = s->discard};
    uint64_t used;
    weft_status status = weft_planes_admit(&worker->unpacker, s->layout, bytes, length, &job.frame, &used);
    if (status != WEFT_OK)
        return status;
    const weft_frame_header *header = &job.frame.header;
    job.base = weft_binding_span(&s->base, header->unit, header->units);
    const bool told =
        header->level == WEFT_LEVEL_FAST || header->level == WEFT_LEVEL_PAIRS || weft_frame_has_full_steps(header);
    if (!s->bound && !told) {
        share_out(s, &job.base, header, length);
        return WEFT_OK;
    }
    status = weft_backend_wait(s->pass.backend, worker->device, s->pass.backend->decode(worker->device, &job), &job);
    if (status == WEFT_OK && !s->bound && header->level == WEFT_LEVEL_PAIRS)
        pairs_list(&job.frame, &worker->changes);
    if (status == WEFT_OK && worker->changes.count > 0)
        count_positions(s, &job.base, &worker->changes, length);
    return status;
}

static weft_status frames_count(sums *s)
{
    const uint8_t *frame;
    uint64_t bytes;
    weft_status status;
    do {
        status = weft_update_cursor_next(&s->cursor, s->layout->unit_count, &frame, &bytes);
        if (status == WEFT_OK && bytes > 0)
            status = frame_count(s, frame, bytes);
    } while (status == WEFT_OK && bytes > 0);
    return status == WEFT_OK ? weft_update_cursor_finish(&s->cursor) : status;
}

weft_status weft_update_tensors(weft_update_file *update, const weft_layout *layout, const weft_piece *pieces,
                                uint64_t piece_count, weft_update_tensor *tensors, int *exact)
{
    WEFT_ALONE(update, "weft_update_tensors");
    sums s = {.file = update, .layout = layout, .bound = pieces != NULL, .exact = true};
    weft_status status = s.bound ? weft_update_layout_fits(update, layout) : bind_zeros(&s);
    if (status == WEFT_OK && s.bound)
        status = weft_binding_open((weft_layout *)(uintptr_t)layout, pieces, piece_count, &s.base);
    s.discard = weft_mem_take(layout->part_count + 1, sizeof *s.discard);
    s.tensors = weft_mem_take(layout->count + 1, sizeof *s.tensors);
    if (status == WEFT_OK && (!s.discard || !s.tensors))
        status = weft_fail(WEFT_E_MEMORY, "no memory for %llu digests and the sums of %llu tensors",
                           (unsigned long long)layout->part_count, (unsigned long long)layout->count);
    if (status == WEFT_OK)
        status = weft_update_pass_open(&s.pass, layout, NULL);
    if (status == WEFT_OK)
        status = weft_update_cursor_open(&s.cursor, update, layout);
    if (status == WEFT_OK && s.bound)
        status = base_judge(&s);
    if (status == WEFT_OK)
        status = frames_count(&s);
    if (status == WEFT_OK)
        memcpy(tensors, s.tensors, layout->count * sizeof *tensors);
    if (status == WEFT_OK && exact)
        *exact = s.exact;
    weft_update_cursor_close(&s.cursor);
    weft_update_pass_close(&s.pass);
    weft_mem_give(s.tensors);
    weft_mem_give(s.discard);
    weft_binding_close(&s.base);
    if (s.zeros)
        weft_mem_unmap(s.zeros, s.zeros_bytes ? s.zeros_bytes : 1);
    return status;
}

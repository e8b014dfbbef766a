#include "update/update_part.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"

typedef unsigned long long ull;

/* The frames of keys that follow each other. */
typedef struct weft_part_stretch {
    weft_number_range units; /* units of the file's layout, and where they begin in the excerpt's */
    uint64_t frame, at;      /* number and offset of the first frame */
    uint64_t frame_end, end;
} weft_part_stretch;

/* ---- open and close */

static weft_status sums_take(weft_update_part *part)
{
    const weft_excerpt *excerpt = part->excerpt;
    uint32_t count = 0;
    for (uint64_t c = 0; c < excerpt->cell_count; c++)
        count += c == 0 || excerpt->cells[c].key != excerpt->cells[c - 1].key;
    part->sum_count = count;
    part->sums = weft_mem_take(count + 1u, sizeof *part->sums);
    return part->sums ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for %u keys", count);
}

static weft_status memory_take(weft_update_part *part)
{
    const weft_layout *layout = part->excerpt->layout;
    part->digests = weft_mem_take(layout->part_count + 1, sizeof *part->digests);
    part->delta = weft_mem_take(layout->part_count + 1, sizeof *part->delta);
    part->stretches = weft_mem_take(WEFT_EXCERPT_RANGES, sizeof *part->stretches);
    part->opposites = weft_mem_take(part->pass.lanes.count, part->whole->largest_frame);
    if (!part->digests || !part->delta || !part->stretches || !part->opposites)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu digests", (ull)layout->part_count);
    return sums_take(part);
}

weft_status weft_update_part_open(weft_update_part *part, const weft_excerpt *excerpt, const weft_layout *whole,
                                  const weft_piece *pieces, const weft_work *work)
{
    *part = (weft_update_part){.excerpt = excerpt, .whole = whole, .pieces = pieces, .work = work};
    weft_status status = weft_binding_open(excerpt->layout, pieces, excerpt->layout->count, &part->image);
    if (status == WEFT_OK)
        status = weft_update_pass_open(&part->pass, excerpt->layout, work);
    if (status == WEFT_OK)
        status = memory_take(part);
    if (status != WEFT_OK)
        weft_update_part_close(part);
    return status;
}

void weft_update_part_close(weft_update_part *part)
{
    weft_mem_give(part->sums);
    weft_mem_give(part->opposites);
    weft_mem_give(part->stretches);
    weft_mem_give(part->delta);
    weft_mem_give(part->digests);
    weft_update_pass_close(&part->pass);
    weft_binding_close(&part->image);
    *part = (weft_update_part){0};
}

/* ---- weights and digests */

static weft_status units_copy(weft_update_part *part, const weft_binding *from, const weft_binding *to)
{
    const weft_backend *backend = part->pass.backend;
    weft_update_worker *worker = &part->pass.workers[0];
    weft_status status = WEFT_OK;
    for (uint64_t unit = 0; unit < part->excerpt->layout->unit_count && status == WEFT_OK; unit++) {
        weft_load_job load = {.view = weft_binding_view(from, unit), .bytes = part->pass.groups[0].data};
        weft_store_job store = {.view = weft_binding_view(to, unit), .bytes = load.bytes};
        status = weft_backend_wait(backend, worker->device, backend->load(worker->device, &load), &load);
        if (status == WEFT_OK)
            status = weft_backend_wait(backend, worker->device, backend->store(worker->device, &store), &store);
    }
    return status;
}

weft_status weft_update_part_load(weft_update_part *part, const weft_binding *weights)
{
    return units_copy(part, weights, &part->image);
}

weft_status weft_update_part_store(weft_update_part *part, const weft_binding *weights)
{
    return units_copy(part, &part->image, weights);
}

/* A term's index is the tensor's number in the layout of all cells. */
static void sums_make(weft_update_part *part)
{
    const weft_excerpt *excerpt = part->excerpt;
    uint32_t at = 0;
    for (uint32_t i = 0; i < excerpt->tensors.count; i++) {
        const weft_number_range *range = &excerpt->tensors.range[i];
        for (uint64_t t = 0; t < range->count; t++) {
            const uint64_t own = range->own + t, digest = weft_digest_tensor(excerpt->layout, part->digests, own);
            const uint32_t key = excerpt->cells[own].key;
            at += own > 0 && excerpt->cells[own - 1].key != key;
            if (own == 0 || excerpt->cells[own - 1].key != key)
                part->sums[at] = (weft_key_sum){key, 0};
            part->sums[at].sum += weft_digest_term(range->first + t, digest);
        }
    }
}

weft_status weft_update_part_measure(weft_update_part *part)
{
    const weft_layout *layout = part->excerpt->layout;
    const weft_work work = {.size = sizeof work, .threads = part->work ? part->work->threads : 1};
    memset(part->digests, 0, layout->part_count * sizeof *part->digests);
    const weft_status status = weft_update_digest(layout, part->pieces, layout->count, &work, part->digests);
    sums_make(part);
    return status;
}

/* ---- the frames of the keys */

/* Finds the frames of each range of keys. Keys before the first range, and between ranges, are passed over. */
static void stretches_find(weft_update_part *part, const weft_update_cells *cells)
{
    const weft_excerpt *excerpt = part->excerpt;
    weft_part_stretch now = {0};
    uint32_t share = 0;
    for (uint32_t i = 0; i < excerpt->units.count; i++) {
        const weft_key_range all = {0, UINT32_MAX}, *keys = excerpt->keys.count ? &excerpt->keys.range[i] : &all;
        for (; share < cells->share_count && cells->shares[share].key < keys->first; share++) {
            now.frame_end += cells->shares[share].frames;
            now.end += cells->shares[share].bytes;
        }
        now.frame = now.frame_end;
        now.at = now.end;
        now.units = excerpt->units.range[i];
        for (; share < cells->share_count && cells->shares[share].key - keys->first < keys->count; share++) {
            now.frame_end += cells->shares[share].frames;
            now.end += cells->shares[share].bytes;
        }
        part->stretches[i] = now;
    }
}

static void stretch_begin(weft_update_part *part)
{
    const weft_part_stretch *stretch = &part->stretches[part->stretch];
    if (part->stretch < part->excerpt->units.count)
        weft_update_cursor_seek(&part->cursor, stretch->frame, stretch->at, stretch->units.first);
}

static weft_status damaged(const weft_update_part *part)
{
    return weft_fail(WEFT_E_CORRUPT, "%s: the frames of a key are not where its list of cells says",
                     weft_update_name(part->file));
}

/* Reads the next frame of a stretch, if the frame is the group's. */
static weft_status frame_take(weft_update_part *part, const weft_part_stretch *stretch, weft_update_group *group,
                              bool *taken)
{
    const weft_number_range *units = &stretch->units;
    const bool all = units->own + units->count <= group->end;
    const uint64_t limit = all ? UINT64_MAX : units->first + (group->end - units->own);
    const uint8_t *frame;
    uint64_t bytes;
    weft_status status = weft_update_cursor_next(&part->cursor, limit, &frame, &bytes);
    *taken = status == WEFT_OK && bytes > 0;
    if (!*taken)
        return status == WEFT_OK && all ? damaged(part) : status;
    const uint64_t unit = weft_bytes_get(frame, 4);
    if (unit - units->first >= units->count || bytes > group->capacity - group->used || part->cursor.at > stretch->end)
        return damaged(part);
    memcpy(group->data + group->used, frame, bytes);
    weft_bytes_put(group->data + group->used, units->own + (unit - units->first), 4);
    group->used += bytes;
    part->bytes += bytes;
    return WEFT_OK;
}

static weft_status group_read(weft_update_part *part, weft_update_group *group)
{
    weft_status status = WEFT_OK;
    bool taken = true;
    while (status == WEFT_OK && taken && part->stretch < part->excerpt->units.count) {
        const weft_part_stretch *stretch = &part->stretches[part->stretch];
        if (part->cursor.frame < stretch->frame_end) {
            if (stretch->units.own >= group->end)
                break;
            status = frame_take(part, stretch, group, &taken);
            continue;
        }
        if (part->cursor.at != stretch->end)
            return damaged(part);
        part->stretch++;
        stretch_begin(part);
    }
    return status;
}

/* ---- frames into the memory */

static weft_status admit(weft_update_part *part, weft_update_worker *worker, const uint8_t *bytes, uint64_t length,
                         weft_frame *frame)
{
    const weft_layout *layout = part->excerpt->layout;
    weft_invert_job job = {.layout = layout};
    uint64_t used;
    weft_status status = weft_planes_admit(&worker->unpacker, layout, bytes, length, frame, &used);
    if (status == WEFT_OK && used != length)
        status = weft_fail(WEFT_E_CORRUPT, "update file: a frame of %llu bytes in %llu", (ull)used, (ull)length);
    if (status != WEFT_OK || !part->back)
        return status;
    job.frame = *frame;
    job.bytes = part->opposites + (uint64_t)(worker - part->pass.workers) * part->whole->largest_frame;
    status =
        weft_backend_wait(part->pass.backend, worker->device, part->pass.backend->invert(worker->device, &job), &job);
    if (status != WEFT_OK)
        return status;
    weft_frame_read_header(job.bytes, &frame->header);
    frame->payload = job.bytes + WEFT_FRAME_HEADER_BYTES;
    return WEFT_OK;
}

static weft_status frame_apply(weft_update_part *part, weft_update_worker *worker, const uint8_t *bytes,
                               uint64_t length)
{
    const weft_backend *backend = part->pass.backend;
    weft_decode_job decode = {
        .parameters = &part->file->header.parameters, .changes = &worker->changes, .tensor_delta = part->delta};
    weft_status status = admit(part, worker, bytes, length, &decode.frame);
    if (status != WEFT_OK)
        return status;
    decode.base = weft_binding_span(&part->image, decode.frame.header.unit, decode.frame.header.units);
    status = weft_backend_wait(backend, worker->device, backend->decode(worker->device, &decode), &decode);
    if (status != WEFT_OK)
        return status;
    weft_apply_job apply = {.target = decode.base, .changes = &worker->changes};
    return weft_backend_wait(backend, worker->device, backend->apply(worker->device, &apply), &apply);
}

/* A frame that fails is told when the base is proved, because a wrong base is then the reason. */
static weft_status apply_group(weft_update_pass *pass, weft_update_worker *worker, weft_update_group *group)
{
    weft_update_part *part = pass->user;
    for (uint64_t at = 0, bytes; at < group->used && !group->failed; at += bytes) {
        bytes = weft_frame_measure(group->data + at, group->used - at);
        group->failed = frame_apply(part, worker, group->data + at, bytes) != WEFT_OK;
    }
    return WEFT_OK;
}

static weft_status round_run(weft_update_part *part)
{
    weft_update_pass *pass = &part->pass;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < pass->filled && status == WEFT_OK; i++)
        status = group_read(part, &pass->groups[i]);
    if (status == WEFT_OK)
        status = weft_update_pass_run(pass);
    for (uint32_t i = 0; i < pass->filled; i++)
        part->failed = part->failed || pass->groups[i].failed;
    return status;
}

static weft_status frames_apply(weft_update_part *part)
{
    weft_status status = WEFT_OK;
    part->stretch = 0;
    part->failed = false;
    stretch_begin(part);
    weft_update_pass_begin(&part->pass, part->file->header.parameters.run_shift, apply_group, part);
    while (status == WEFT_OK && !part->failed && weft_update_pass_fill(&part->pass))
        status = round_run(part);
    return status == WEFT_OK && part->failed
               ? weft_fail(WEFT_E_CORRUPT, "%s: a frame does not decode", weft_update_name(part->file))
               : status;
}

/* ---- proofs */

/* Tells whether the memory has the sums of a version: of the update's base, or of its target. */
static bool sums_equal(const weft_update_part *part, const weft_update_cells *cells, bool base)
{
    uint32_t share = 0;
    for (uint32_t i = 0; i < part->sum_count; i++) {
        while (share < cells->share_count && cells->shares[share].key < part->sums[i].key)
            share++;
        if (share == cells->share_count || cells->shares[share].key != part->sums[i].key ||
            (base ? cells->shares[share].base : cells->shares[share].target) != part->sums[i].sum)
            return false;
    }
    return true;
}

static weft_status judge(const weft_update_part *part, const weft_update_cells *cells, bool base)
{
    const weft_wire_update *header = &part->file->header;
    if (sums_equal(part, cells, base))
        return WEFT_OK;
    return weft_fail(base == part->back ? WEFT_E_TARGET : WEFT_E_BASE, "%s: the weights are not those of version %llu",
                     weft_update_name(part->file), (ull)(base ? header->base.number : header->target.number));
}

static weft_status cells_check(const weft_update_part *part, const weft_update_cells **cells)
{
    weft_update_file *file = part->file;
    weft_status status = weft_update_division(file, cells);
    if (status != WEFT_OK)
        return status;
    const bool same = *cells && memcmp(file->header.layout, part->whole->hash, sizeof part->whole->hash) == 0;
    return same ? WEFT_OK : weft_fail(WEFT_E_LAYOUT, "%s: it has other cells", weft_update_name(file));
}

weft_status weft_update_part_apply(weft_update_part *part, weft_update_file *file, bool back)
{
    const weft_layout *layout = part->excerpt->layout;
    const weft_update_cells *cells;
    part->file = file;
    part->back = back;
    weft_status status = cells_check(part, &cells);
    if (status == WEFT_OK)
        status = judge(part, cells, !back);
    if (status == WEFT_OK)
        status = weft_update_cursor_open(&part->cursor, file, part->whole);
    if (status != WEFT_OK)
        return status;
    memset(part->delta, 0, layout->part_count * sizeof *part->delta);
    stretches_find(part, cells);
    status = frames_apply(part);
    weft_update_cursor_close(&part->cursor);
    for (uint64_t i = 0; i < layout->part_count; i++)
        part->digests[i] += part->delta[i];
    sums_make(part);
    return status == WEFT_OK ? judge(part, cells, back) : status;
}

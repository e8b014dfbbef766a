/* update_diff.c - two sets of weights compared, into an update file. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "encode/encode.h"
#include "journal/journal.h"
#include "layout/digest.h"
#include "update/update_grid.h"
#include "update/update_work.h"
#include "update/update_writer.h"

typedef unsigned long long ull;

typedef struct weft_update_diff {
    const weft_layout *layout;
    weft_binding base, target;
    weft_wire_update header;
    weft_encoder encoder;
    uint64_t *digests; /* of the base, by part */
    uint64_t *delta;   /* what the target's have more */
    const weft_work *work;
    weft_update_writer writer;
} diff;

/* ---- open */

static weft_status options_take(const weft_diff_options *given, weft_diff_options *options, weft_level *level)
{
    *options = (weft_diff_options){0};
    weft_status status = weft_size_check(given, "weft_diff_options");
    if (status != WEFT_OK)
        return status;
    if (given)
        memcpy(options, given, given->size < sizeof *options ? given->size : sizeof *options);
    *level = WEFT_LEVEL_TIGHT;
    if (options->names && strcmp(options->names, "always") != 0 && strcmp(options->names, "never") != 0)
        return weft_fail(WEFT_E_ARGUMENT, "diff: names = '%s': must be always or never", options->names);
    status = weft_blob_check("diff", options->attachment, options->attachment_bytes);
    return status == WEFT_OK && options->level ? weft_level_by_name(options->level, level) : status;
}

/* Checks labels as for merged updates: within a run the target's number must not be lower. Without labels both are 0.
 */
static weft_status labels_check(const weft_version *base, const weft_version *target)
{
    if (base->run != target->run || base->number <= target->number)
        return WEFT_OK;
    return weft_fail(WEFT_E_ARGUMENT, "diff: the base is version %llu, the target version %llu: numbers must grow",
                     (ull)base->number, (ull)target->number);
}

static weft_status workers_open(diff *d)
{
    static const weft_backend_options options = {-1, "auto", 0, 0};
    uint32_t workers = weft_team_workers(d->work ? d->work->threads : 1);
    d->digests = weft_mem_take(d->layout->part_count + 1, sizeof *d->digests);
    d->delta = weft_mem_take(d->layout->part_count + 1, sizeof *d->delta);
    if (!d->digests || !d->delta)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu digests", (ull)d->layout->part_count);
    return weft_encoder_open(&d->encoder, weft_backend_find("host"), &options, NULL, d->layout, workers);
}

static void finish(diff *d)
{
    weft_update_writer_close(&d->writer);
    weft_encoder_close(&d->encoder);
    weft_mem_give(d->delta);
    weft_mem_give(d->digests);
    weft_binding_close(&d->target);
    weft_binding_close(&d->base);
}

/* ---- work */

static weft_status frame_write(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    diff *d = user;
    (void)level;
    return weft_update_writer_frame(&d->writer, d->layout, frame, bytes);
}

static weft_status moved(void *user, uint64_t unit)
{
    const diff *d = user;
    return weft_update_progress(d->work, unit, d->layout->unit_count);
}

static void report(const diff *d, const weft_encode_pass *pass, weft_update_info *info)
{
    weft_update_info all = {.base = d->header.base,
                            .target = d->header.target,
                            .level = weft_level_name(d->header.level),
                            .elements = d->layout->elements,
                            .changed = pass->changed,
                            .dense_bytes = d->layout->bytes,
                            .bytes = d->writer.bytes,
                            .diff_ms = pass->diff_ms,
                            .encode_ms = pass->encode_ms + d->writer.pack_ms};
    size_t size = info->size < sizeof all ? info->size : sizeof all;
    all.size = size;
    memcpy(info, &all, size);
}

static weft_status frames_write(diff *d, const weft_diff_options *options, const weft_sink *sink,
                                weft_encode_pass *pass)
{
    weft_wire_update *header = &d->header;
    weft_status status = WEFT_OK;
    if (header->level >= WEFT_LEVEL_FAST) /* lower levels code one unit a frame, from that unit alone */
        status = weft_encoder_choose_for(&d->encoder, pass, &header->parameters);
    if (status == WEFT_OK) /* the choice tells at intervals, and may end before the first */
        status = moved(d, 0);
    if (status == WEFT_OK)
        status = weft_update_writer_begin(&d->writer, sink, header, options->attachment, options->attachment_bytes);
    return status == WEFT_OK ? weft_encoder_run(&d->encoder, pass) : status;
}

static weft_status write_file(diff *d, const weft_diff_options *options, const weft_sink *sink, weft_update_info *info)
{
    weft_wire_update *header = &d->header;
    weft_encode_pass pass = {.now = &d->target,
                             .shadow = &d->base,
                             .parameters = &header->parameters,
                             .levels = 1u << header->level,
                             .delta = d->delta,
                             .digests = d->digests,
                             .emit = frame_write,
                             .moved = moved,
                             .user = d};
    weft_status status = frames_write(d, options, sink, &pass);
    if (status != WEFT_OK)
        return status;
    header->base.root = weft_digest_parts_root(d->layout, d->digests);
    for (uint64_t part = 0; part < d->layout->part_count; part++)
        d->digests[part] += d->delta[part];
    header->target.root = weft_digest_parts_root(d->layout, d->digests);
    const bool named = !options->names || strcmp(options->names, "always") == 0;
    status = weft_update_writer_finish(&d->writer, d->layout, named, header->base.root, &header->target, pass.changed);
    if (status == WEFT_OK && info)
        report(d, &pass, info);
    return status;
}

weft_status weft_diff(const weft_layout *layout, const weft_piece *base, uint64_t base_count, const weft_piece *target,
                      uint64_t target_count, const weft_diff_options *options, const weft_work *work,
                      const weft_sink *sink, weft_update_info *info)
{
    weft_work own;
    diff d = {.layout = layout, .work = weft_update_work_take(work, &own)};
    weft_diff_options taken = {0};
    weft_layout *bound = (weft_layout *)(uintptr_t)layout; /* bindings only read it */
    weft_status status = weft_update_sizes_check(work, info, "weft_update_info");
    if (status == WEFT_OK)
        status = options_take(options, &taken, &d.header.level);
    if (status == WEFT_OK)
        status = labels_check(&taken.base, &taken.target);
    d.header.base = taken.base;
    d.header.target = taken.target;
    memcpy(d.header.layout, layout->hash, sizeof d.header.layout);
    if (status == WEFT_OK)
        status = weft_update_grid_room(layout);
    if (status == WEFT_OK)
        status = weft_binding_open(bound, base, base_count, &d.base);
    if (status == WEFT_OK)
        status = weft_binding_open(bound, target, target_count, &d.target);
    if (status == WEFT_OK)
        status = workers_open(&d);
    if (status == WEFT_OK)
        status = write_file(&d, &taken, sink, info);
    finish(&d);
    return status;
}

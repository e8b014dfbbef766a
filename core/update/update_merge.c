/* update_merge.c - merges updates that follow each other, with their base at hand.
 *
 * One stretch of units after another is copied from the base, moved through all updates, and compared with the base. An
 * element that came back to its old bits is no change. Any level can be read and written. The way back of one update is
 * made alike, with both sides of the comparison exchanged. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "encode/encode_blocks.h"
#include "layout/digest.h"
#include "update/update_invert.h"
#include "update/update_prove.h"
#include "update/update_work.h"

#define SPAN_SHIFT WEFT_RUN_SHIFT_MAX /* runs of every update end where these runs do */

typedef unsigned long long ull;

typedef struct weft_update_merger {
    weft_update_chain chain;
    const weft_layout *layout;
    const weft_work *work;
    weft_binding base;
    weft_binding moved; /* the base's runs, of which those of one span point to `dense` */
    uint8_t *dense;
    uint64_t dense_bytes;
    weft_update_pass pass; /* its first worker decodes */
    weft_encoder encoder;
    uint64_t *digests, *delta, *discard; /* by part */
    bool back;                           /* the new update leads from the last target to the base */
    uint32_t at;                         /* of the passes */
} merger;

/* ---- open */

static weft_status memory_take(merger *m)
{
    uint64_t parts = m->layout->part_count + 1, units = UINT64_C(1) << SPAN_SHIFT;
    units = units < m->layout->unit_count ? units : m->layout->unit_count + 1;
    m->dense_bytes = units * m->layout->largest_frame + 1;
    m->dense = weft_mem_map(m->dense_bytes);
    m->digests = weft_mem_take(parts, sizeof *m->digests);
    m->delta = weft_mem_take(parts, sizeof *m->delta);
    m->discard = weft_mem_take(parts, sizeof *m->discard);
    m->moved = m->base;
    m->moved.runs = weft_mem_take(m->base.run_count + 1, sizeof *m->moved.runs);
    if (!m->dense || !m->digests || !m->delta || !m->discard || !m->moved.runs)
        return weft_fail(WEFT_E_MEMORY, "no memory to merge %zu updates", m->chain.count);
    memcpy(m->moved.runs, m->base.runs, m->base.run_count * sizeof *m->moved.runs);
    return WEFT_OK;
}

static weft_status merger_open(merger *m, weft_update_file *const *updates, size_t count, const weft_piece *base,
                               uint64_t base_count)
{
    static const weft_backend_options options = {-1, "auto", 0, 0};
    weft_status status = weft_update_layout_fits(updates[0], m->layout);
    if (status == WEFT_OK)
        status = weft_update_chain_open(&m->chain, updates, count, m->layout);
    if (status == WEFT_OK)
        status = weft_binding_open((weft_layout *)(uintptr_t)m->layout, base, base_count, &m->base);
    if (status == WEFT_OK)
        status = memory_take(m);
    if (status == WEFT_OK)
        status = weft_update_pass_open(&m->pass, m->layout, NULL);
    return status == WEFT_OK ? weft_encoder_open(&m->encoder, weft_backend_find("host"), &options, NULL, m->layout, 1)
                             : status;
}

static void merger_close(merger *m)
{
    weft_encoder_close(&m->encoder);
    weft_update_pass_close(&m->pass);
    weft_mem_give(m->moved.runs);
    weft_mem_give(m->discard);
    weft_mem_give(m->delta);
    weft_mem_give(m->digests);
    if (m->dense)
        weft_mem_unmap(m->dense, m->dense_bytes);
    weft_binding_close(&m->base);
    weft_update_chain_close(&m->chain);
}

/* The base is digested, the parameters are chosen, the frames are made: a pass each. */
enum { PASS_DIGEST, PASS_CHOICE, PASS_FRAMES, PASSES };

static weft_status progress(void *user, uint64_t unit)
{
    const merger *m = user;
    const uint64_t units = m->layout->unit_count;
    return weft_update_progress(m->work, m->at * units + unit, PASSES * units);
}

/* ---- a span of units */

static weft_status frame_apply(merger *m, const weft_update_file *file, const uint8_t *bytes, uint64_t length)
{
    const weft_backend *backend = m->pass.backend;
    weft_update_worker *worker = &m->pass.workers[0];
    weft_decode_job job = {
        .parameters = &file->header.parameters, .changes = &worker->changes, .tensor_delta = m->discard};
    uint64_t used;
    weft_status status = weft_planes_admit(&worker->unpacker, m->layout, bytes, length, &job.frame, &used);
    if (status != WEFT_OK)
        return status;
    job.base = weft_binding_span(&m->moved, job.frame.header.unit, job.frame.header.units);
    status = weft_backend_wait(backend, worker->device, backend->decode(worker->device, &job), &job);
    if (status != WEFT_OK)
        return status;
    weft_apply_job apply = {.target = job.base, .changes = &worker->changes};
    return weft_backend_wait(backend, worker->device, backend->apply(worker->device, &apply), &apply);
}

/* Takes the frames of a span, and applies them if it is `wanted`. */
static weft_status frames_take(merger *m, uint64_t end, bool wanted)
{
    const uint8_t *frame;
    uint64_t bytes;
    for (size_t i = 0; i < m->chain.count; i++) {
        do {
            weft_status status = weft_update_cursor_next(&m->chain.cursors[i], end, &frame, &bytes);
            if (status == WEFT_OK && bytes > 0 && wanted)
                status = frame_apply(m, m->chain.updates[i], frame, bytes);
            if (status != WEFT_OK)
                return status;
        } while (bytes > 0);
    }
    return WEFT_OK;
}

static weft_status span_load(merger *m, uint64_t unit, uint32_t units)
{
    weft_update_worker *worker = &m->pass.workers[0];
    weft_load_job job = {.view = weft_binding_span(&m->base, unit, units), .bytes = m->dense};
    weft_run *moved = m->moved.runs + (job.view.runs - m->base.runs);
    for (uint32_t r = 0; r < job.view.run_count; r++)
        moved[r].data = m->dense + (uint64_t)weft_run_position(&job.view, &moved[r]) * job.view.width;
    return weft_backend_wait(m->pass.backend, worker->device, m->pass.backend->load(worker->device, &job), &job);
}

/* Makes the next span stand in `dense`, moved to the last update's target. */
static weft_status span_stand(void *user, uint64_t unit, uint32_t units, bool wanted, bool *any)
{
    merger *m = user;
    (void)any;
    if (unit == 0)
        weft_update_chain_rewind(&m->chain);
    const weft_status status = wanted ? span_load(m, unit, units) : WEFT_OK;
    return status == WEFT_OK ? frames_take(m, unit + units, wanted) : status;
}

/* ---- the new update */

static weft_status frame_write(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    merger *m = user;
    (void)level;
    return weft_update_writer_frame(&m->chain.writer, m->layout, frame, bytes);
}

static weft_status digested(void *user, uint64_t done, uint64_t total)
{
    (void)total;
    return progress(user, done);
}

static weft_status judge_base(merger *m, const weft_piece *base, uint64_t count)
{
    weft_work work = {.size = sizeof work, .threads = m->work ? m->work->threads : 1, .progress = digested, .user = m};
    weft_status status = weft_update_digest(m->layout, base, count, &work, m->digests);
    uint64_t root = status == WEFT_OK ? weft_digest_parts_root(m->layout, m->digests) : 0;
    if (status == WEFT_OK && root != m->chain.updates[0]->header.base.root)
        status = weft_fail(WEFT_E_BASE, "the weights have digest %016llx, the first update starts from %016llx",
                           (ull)root, (ull)m->chain.updates[0]->header.base.root);
    return status;
}

static weft_status judge_target(merger *m)
{
    for (uint64_t part = 0; part < m->layout->part_count; part++)
        m->digests[part] += m->back ? 0 - m->delta[part] : m->delta[part];
    const weft_update_file *last = m->chain.updates[m->chain.count - 1];
    uint64_t root = weft_digest_parts_root(m->layout, m->digests), want = last->header.target.root;
    return root == want ? WEFT_OK
                        : weft_fail(WEFT_E_TARGET, "base and changes have digest %016llx, the last target %016llx",
                                    (ull)root, (ull)want);
}

static weft_status write_file(merger *m, const weft_sink *sink, const weft_encode_blocks *blocks)
{
    weft_status status = weft_update_chain_begin(&m->chain, sink);
    m->at = PASS_FRAMES;
    if (status == WEFT_OK)
        status = weft_encode_blocks_run(blocks);
    if (status == WEFT_OK)
        status = weft_update_chain_end(&m->chain);
    if (status == WEFT_OK)
        status = judge_target(m);
    return status == WEFT_OK ? weft_update_chain_finish(&m->chain, true, blocks->pass->changed) : status;
}

static weft_status merge_bound(merger *m, const weft_piece *base, uint64_t base_count, const weft_sink *sink,
                               weft_update_info *info)
{
    weft_wire_update *header = &m->chain.header;
    weft_encode_pass pass = {.now = m->back ? &m->base : &m->moved,
                             .shadow = m->back ? &m->moved : &m->base,
                             .parameters = &header->parameters,
                             .levels = 1u << header->level,
                             .delta = m->delta,
                             .emit = frame_write,
                             .user = m};
    weft_encode_blocks blocks = {.encoder = &m->encoder,
                                 .pass = &pass,
                                 .parameters = &header->parameters,
                                 .shift = SPAN_SHIFT,
                                 .stand = span_stand,
                                 .moved = progress,
                                 .user = m};
    weft_status status = judge_base(m, base, base_count);
    m->at = PASS_CHOICE;
    if (status == WEFT_OK && header->level >= WEFT_LEVEL_FAST)
        status = weft_encode_blocks_choose(&blocks);
    if (status == WEFT_OK)
        status = write_file(m, sink, &blocks);
    if (status == WEFT_OK && info)
        weft_update_chain_report(&m->chain, pass.changed, pass.diff_ms, pass.encode_ms, info);
    return status;
}

static weft_status merge(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                         const weft_piece *base, uint64_t base_count, const char *level, const weft_work *work,
                         const weft_sink *sink, weft_update_info *info)
{
    weft_work own;
    merger m = {.layout = layout, .work = weft_update_work_take(work, &own)};
    weft_level wanted = WEFT_LEVEL_TIGHT;
    weft_status status = weft_update_sizes_check(work, info, "weft_update_info");
    if (status != WEFT_OK)
        return status;
    if (count == 0)
        return weft_fail(WEFT_E_ARGUMENT, "no updates to merge");
    if (!base)
        return weft_update_merge_free(updates, count, layout, level, m.work, sink, info);
    status = level ? weft_level_by_name(level, &wanted) : WEFT_OK;
    if (status == WEFT_OK)
        status = merger_open(&m, updates, count, base, base_count);
    m.chain.header.level = wanted;
    if (status == WEFT_OK)
        status = merge_bound(&m, base, base_count, sink, info);
    merger_close(&m);
    return status;
}

weft_status weft_update_invert_bound(weft_update_file *update, const weft_layout *layout, const weft_piece *base,
                                     uint64_t base_count, weft_level level, const weft_update_attachment_of *attachment,
                                     const weft_work *work, const weft_sink *sink, weft_update_info *info)
{
    merger m = {.layout = layout, .work = work, .back = true};
    weft_status status = merger_open(&m, &update, 1, base, base_count);
    m.chain.header.level = level;
    m.chain.attachment = attachment;
    weft_update_turn(&m.chain);
    if (status == WEFT_OK)
        status = merge_bound(&m, base, base_count, sink, info);
    merger_close(&m);
    return status;
}

weft_status weft_update_merge(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                              const weft_piece *base, uint64_t base_count, const char *level, const weft_work *work,
                              const weft_sink *sink, weft_update_info *info)
{
    for (size_t i = 0; WEFT_ALONE_LOOKS && i < count; i++)
        weft_alone_begin(&updates[i]->alone_in, "weft_update_merge");
    const weft_status status = merge(updates, count, layout, base, base_count, level, work, sink, info);
    for (size_t i = 0; WEFT_ALONE_LOOKS && i < count; i++)
        weft_alone_end(&(weft_alone_call){&updates[i]->alone_in});
    return status;
}

/* update_merge.c - merges updates that follow each other, with their base at hand.
 *
 * One stretch of units after another is copied from the base, moved through all updates, and compared with the base. An
 * element that came back to its old bits is no change. Any level can be read and written. The way back of one update is
 * made alike, with both sides of the comparison exchanged. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "codec/chooser.h"
#include "encode/encode.h"
#include "layout/digest.h"
#include "update/update_invert.h"
#include "update/update_prove.h"
#include "update/update_work.h"

#define SPAN_SHIFT  WEFT_RUN_SHIFT_MAX /* runs of every update end where these runs do */
#define SAMPLE_EACH 8u                 /* one of so many spans is surveyed for the parameters, if there are many */
#define SAMPLE_ALL  64u

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

static weft_status progress(const merger *m, uint32_t pass, uint64_t unit)
{
    const uint64_t units = m->layout->unit_count;
    return weft_update_progress(m->work, pass * units + unit, PASSES * units);
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
static weft_status span_move(merger *m, uint64_t unit, uint32_t units, bool wanted)
{
    weft_status status = wanted ? span_load(m, unit, units) : WEFT_OK;
    return status == WEFT_OK ? frames_take(m, unit + units, wanted) : status;
}

/* ---- parameters */

static weft_status span_survey(merger *m, uint64_t unit, uint32_t units, weft_survey *survey)
{
    const weft_backend *backend = m->pass.backend;
    weft_backend_state *device = m->pass.workers[0].device;
    weft_survey_plan plan = weft_survey_plan_for(m->layout->elements, 1u << m->chain.header.level);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < units && status == WEFT_OK; i++) {
        const weft_binding *now = m->back ? &m->base : &m->moved, *shadow = m->back ? &m->moved : &m->base;
        weft_survey_job job = {.now = weft_binding_view(now, unit + i),
                               .shadow = weft_binding_view(shadow, unit + i),
                               .count = plan.count,
                               .stride = plan.stride,
                               .survey = survey,
                               .stream = NULL};
        status = weft_backend_wait(backend, device, backend->survey(device, &job), &job);
    }
    return status;
}

static weft_status choose(merger *m)
{
    weft_survey *survey = weft_mem_take(1, sizeof *survey);
    uint64_t spans = m->layout->unit_count >> SPAN_SHIFT, number = 0;
    uint32_t units;
    weft_status status = survey ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for a survey");
    weft_update_chain_rewind(&m->chain);
    for (uint64_t unit = 0; unit < m->layout->unit_count && status == WEFT_OK; unit += units) {
        bool wanted = spans < SAMPLE_ALL || number++ % SAMPLE_EACH == 0;
        units = weft_layout_run(m->layout, unit, SPAN_SHIFT);
        status = span_move(m, unit, units, wanted);
        if (status == WEFT_OK && wanted)
            status = span_survey(m, unit, units, survey);
        if (status == WEFT_OK)
            status = progress(m, PASS_CHOICE, unit + units);
    }
    if (status == WEFT_OK)
        weft_parameters_choose(survey, 1u << m->chain.header.level, &m->chain.header.parameters);
    weft_mem_give(survey);
    return status;
}

/* ---- the new update */

static weft_status frame_write(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    merger *m = user;
    (void)level;
    return weft_update_writer_frame(&m->chain.writer, m->layout, frame, bytes);
}

static weft_status span_encode(merger *m, weft_encode_pass *pass, uint64_t unit, uint64_t end)
{
    weft_status status = WEFT_OK;
    for (uint32_t units; unit < end && status == WEFT_OK; unit += units) {
        units = weft_layout_run(m->layout, unit, m->chain.header.parameters.run_shift);
        status = weft_encoder_one(&m->encoder, pass, unit, units);
    }
    return status;
}

static weft_status encode(merger *m, weft_encode_pass *pass)
{
    weft_status status = WEFT_OK;
    uint32_t units;
    weft_update_chain_rewind(&m->chain);
    for (uint64_t unit = 0; unit < m->layout->unit_count && status == WEFT_OK; unit += units) {
        units = weft_layout_run(m->layout, unit, SPAN_SHIFT);
        status = span_move(m, unit, units, true);
        if (status == WEFT_OK)
            status = span_encode(m, pass, unit, unit + units);
        if (status == WEFT_OK)
            status = progress(m, PASS_FRAMES, unit + units);
    }
    return status == WEFT_OK ? weft_update_chain_end(&m->chain) : status;
}

static weft_status digested(void *user, uint64_t done, uint64_t total)
{
    (void)total;
    return progress(user, PASS_DIGEST, done);
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

static weft_status write_file(merger *m, const weft_sink *sink, weft_encode_pass *pass)
{
    weft_status status = weft_update_chain_begin(&m->chain, sink);
    if (status == WEFT_OK)
        status = encode(m, pass);
    if (status == WEFT_OK)
        status = judge_target(m);
    return status == WEFT_OK ? weft_update_chain_finish(&m->chain, true, pass->changed) : status;
}

static weft_status merge_bound(merger *m, const weft_piece *base, uint64_t base_count, const weft_sink *sink,
                               weft_update_info *info)
{
    weft_wire_update *header = &m->chain.header;
    weft_status status = judge_base(m, base, base_count);
    if (status == WEFT_OK && header->level >= WEFT_LEVEL_FAST)
        status = choose(m);
    weft_encode_pass pass = {.now = m->back ? &m->base : &m->moved,
                             .shadow = m->back ? &m->moved : &m->base,
                             .parameters = &header->parameters,
                             .levels = 1u << header->level,
                             .delta = m->delta,
                             .emit = frame_write,
                             .user = m};
    if (status == WEFT_OK)
        status = write_file(m, sink, &pass);
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

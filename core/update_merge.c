/* update_merge.c - updates that follow each other made one, with their base at hand.
 *
 * Stretch of units by stretch of units the base is copied, moved through all updates, and compared with itself: what
 * came back to its old bits is no change, and any level can be read and written. */
#include <string.h>

#include "codec/chooser.h"
#include "digest.h"
#include "encode.h"
#include "mem.h"
#include "status.h"
#include "update_cursor.h"
#include "update_team.h"
#include "update_writer.h"

#define SPAN_SHIFT  WEFT_RUN_SHIFT_MAX /* runs of any update end where these do */
#define SAMPLE_EACH 8u                 /* one of so many spans is looked at for the parameters, if there are many */
#define SAMPLE_ALL  64u

typedef unsigned long long ull;

typedef struct weft_update_merger {
    weft_update_file *const *updates;
    size_t count;
    const weft_layout *layout;
    const weft_work *work;
    weft_binding base;
    weft_binding moved; /* the base's runs, of which those of one span point to `dense` */
    uint8_t *dense;
    uint64_t dense_bytes;
    weft_update_cursor *cursors; /* one an update */
    weft_update_team team;       /* its first lane decodes */
    weft_encoder encoder;
    uint64_t *digests, *delta, *discard; /* by part */
    weft_wire_update header;
    weft_update_writer writer;
} merger;

/* ---- open */

static weft_status chain_check(const merger *m)
{
    for (size_t i = 0; i < m->count; i++) {
        const weft_wire_update *header = &m->updates[i]->header;
        const weft_version *before = i > 0 ? &m->updates[i - 1]->header.target : &header->base;
        if (header->layout[0] != m->layout->hash[0] || header->layout[1] != m->layout->hash[1])
            return weft_fail(WEFT_E_LAYOUT, "update %zu is for another layout than the base's", i + 1);
        if (before->root != header->base.root)
            return weft_fail(WEFT_E_ARGUMENT, "update %zu starts from %016llx, the one before ends at %016llx", i + 1,
                             (ull)header->base.root, (ull)before->root);
    }
    return WEFT_OK;
}

static weft_status memory_take(merger *m)
{
    uint64_t parts = m->layout->part_count + 1, units = UINT64_C(1) << SPAN_SHIFT;
    units = units < m->layout->unit_count ? units : m->layout->unit_count + 1;
    m->dense_bytes = units * m->layout->largest_frame + 1;
    m->dense = weft_mem_map(m->dense_bytes);
    m->digests = weft_mem_take(parts, sizeof *m->digests);
    m->delta = weft_mem_take(parts, sizeof *m->delta);
    m->discard = weft_mem_take(parts, sizeof *m->discard);
    m->cursors = weft_mem_take(m->count, sizeof *m->cursors);
    m->moved = m->base;
    m->moved.runs = weft_mem_take(m->base.run_count + 1, sizeof *m->moved.runs);
    if (!m->dense || !m->digests || !m->delta || !m->discard || !m->cursors || !m->moved.runs)
        return weft_fail(WEFT_E_MEMORY, "no memory to merge %zu updates", m->count);
    memcpy(m->moved.runs, m->base.runs, m->base.run_count * sizeof *m->moved.runs);
    return WEFT_OK;
}

static weft_status merger_open(merger *m, const weft_piece *base, uint64_t base_count)
{
    static const weft_backend_options options = {-1, "auto", 0};
    weft_status status = chain_check(m);
    if (status == WEFT_OK)
        status = weft_binding_open((weft_layout *)(uintptr_t)m->layout, base, base_count, &m->base);
    if (status == WEFT_OK)
        status = memory_take(m);
    for (size_t i = 0; i < m->count && status == WEFT_OK; i++)
        status = weft_update_cursor_open(&m->cursors[i], m->updates[i], m->layout);
    if (status == WEFT_OK)
        status = weft_update_team_open(&m->team, m->layout, NULL);
    return status == WEFT_OK ? weft_encoder_open(&m->encoder, weft_backend_find("host"), &options, NULL, m->layout, 1)
                             : status;
}

static void merger_close(merger *m)
{
    weft_update_writer_close(&m->writer);
    weft_encoder_close(&m->encoder);
    weft_update_team_close(&m->team);
    for (size_t i = 0; m->cursors && i < m->count; i++)
        weft_update_cursor_close(&m->cursors[i]);
    weft_mem_give(m->cursors);
    weft_mem_give(m->moved.runs);
    weft_mem_give(m->discard);
    weft_mem_give(m->delta);
    weft_mem_give(m->digests);
    if (m->dense)
        weft_mem_unmap(m->dense, m->dense_bytes);
    weft_binding_close(&m->base);
}

/* ---- a span of units */

static weft_status frame_apply(merger *m, const weft_update_file *file, const uint8_t *bytes, uint64_t length)
{
    const weft_backend *backend = m->team.backend;
    weft_update_lane *lane = &m->team.lanes[0];
    weft_decode_job job = {
        .parameters = &file->header.parameters, .changes = &lane->changes, .tensor_delta = m->discard};
    uint64_t used;
    weft_status status = weft_planes_admit(&lane->unpacker, m->layout, bytes, length, &job.frame, &used);
    if (status != WEFT_OK)
        return status;
    job.base = weft_binding_span(&m->moved, job.frame.header.unit, job.frame.header.units);
    status = weft_backend_wait(backend, lane->device, backend->decode(lane->device, &job), &job);
    if (status != WEFT_OK)
        return status;
    weft_apply_job apply = {.target = job.base, .changes = &lane->changes};
    return weft_backend_wait(backend, lane->device, backend->apply(lane->device, &apply), &apply);
}

/* Takes the frames of a span, and applies them if it is `wanted`. */
static weft_status frames_take(merger *m, uint64_t end, bool wanted)
{
    const uint8_t *frame;
    uint64_t bytes;
    for (size_t i = 0; i < m->count; i++) {
        do {
            weft_status status = weft_update_cursor_next(&m->cursors[i], end, &frame, &bytes);
            if (status == WEFT_OK && bytes > 0 && wanted)
                status = frame_apply(m, m->updates[i], frame, bytes);
            if (status != WEFT_OK)
                return status;
        } while (bytes > 0);
    }
    return WEFT_OK;
}

static weft_status span_load(merger *m, uint64_t unit, uint32_t units)
{
    weft_update_lane *lane = &m->team.lanes[0];
    weft_load_job job = {weft_binding_span(&m->base, unit, units), m->dense};
    weft_run *moved = m->moved.runs + (job.view.runs - m->base.runs);
    for (uint32_t r = 0; r < job.view.run_count; r++)
        moved[r].data = m->dense + (uint64_t)weft_run_position(&job.view, &moved[r]) * job.view.width;
    return weft_backend_wait(m->team.backend, lane->device, m->team.backend->load(lane->device, &job), &job);
}

/* Makes the next span stand in `dense`, moved to the last update's target. */
static weft_status span_move(merger *m, uint64_t unit, uint32_t units, bool wanted)
{
    weft_status status = wanted ? span_load(m, unit, units) : WEFT_OK;
    return status == WEFT_OK ? frames_take(m, unit + units, wanted) : status;
}

static void cursors_begin(merger *m)
{
    for (size_t i = 0; i < m->count; i++)
        weft_update_cursor_begin(&m->cursors[i]);
}

/* ---- parameters */

static weft_status span_survey(merger *m, uint64_t unit, uint32_t units, weft_survey *survey)
{
    const weft_backend *backend = m->team.backend;
    weft_backend_state *device = m->team.lanes[0].device;
    weft_survey_plan plan = weft_survey_plan_for(m->layout->elements);
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < units && status == WEFT_OK; i++) {
        weft_survey_job job = {weft_binding_view(&m->moved, unit + i), weft_binding_view(&m->base, unit + i),
                               plan.count, plan.stride, survey};
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
    cursors_begin(m);
    for (uint64_t unit = 0; unit < m->layout->unit_count && status == WEFT_OK; unit += units) {
        bool wanted = spans < SAMPLE_ALL || number++ % SAMPLE_EACH == 0;
        units = weft_layout_run(m->layout, unit, SPAN_SHIFT);
        status = span_move(m, unit, units, wanted);
        if (status == WEFT_OK && wanted)
            status = span_survey(m, unit, units, survey);
    }
    if (status == WEFT_OK)
        weft_parameters_choose(survey, &m->header.parameters);
    if (m->header.level == WEFT_LEVEL_FAST)
        memset(m->header.parameters.classes, 0, sizeof m->header.parameters.classes);
    weft_mem_give(survey);
    return status;
}

/* ---- the new update */

static weft_status frame_write(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    merger *m = user;
    (void)level;
    return weft_update_writer_frame(&m->writer, m->layout, frame, bytes);
}

static weft_status span_encode(merger *m, weft_encode_pass *pass, uint64_t unit, uint64_t end)
{
    weft_status status = WEFT_OK;
    for (uint32_t units; unit < end && status == WEFT_OK; unit += units) {
        units = weft_layout_run(m->layout, unit, m->header.parameters.run_shift);
        status = weft_encoder_one(&m->encoder, pass, unit, units);
    }
    return status;
}

static weft_status encode(merger *m, weft_encode_pass *pass)
{
    weft_status status = WEFT_OK;
    uint32_t units;
    cursors_begin(m);
    for (uint64_t unit = 0; unit < m->layout->unit_count && status == WEFT_OK; unit += units) {
        units = weft_layout_run(m->layout, unit, SPAN_SHIFT);
        status = span_move(m, unit, units, true);
        if (status == WEFT_OK)
            status = span_encode(m, pass, unit, unit + units);
        if (status == WEFT_OK && m->work && m->work->progress)
            status = m->work->progress(m->work->user, unit + units, m->layout->unit_count);
    }
    for (size_t i = 0; i < m->count && status == WEFT_OK; i++)
        status = weft_update_cursor_finish(&m->cursors[i]);
    return status;
}

static weft_status judge_base(merger *m, const weft_piece *base, uint64_t count)
{
    weft_work work = {.threads = m->work ? m->work->threads : 1};
    weft_status status = weft_update_digest(m->layout, base, count, &work, m->digests);
    uint64_t root = status == WEFT_OK ? weft_digest_parts_root(m->layout, m->digests) : 0;
    if (status == WEFT_OK && root != m->updates[0]->header.base.root)
        status = weft_fail(WEFT_E_BASE, "the weights have digest %016llx, the first update starts from %016llx",
                           (ull)root, (ull)m->updates[0]->header.base.root);
    return status;
}

static weft_status judge_target(merger *m)
{
    for (uint64_t part = 0; part < m->layout->part_count; part++)
        m->digests[part] += m->delta[part];
    uint64_t root = weft_digest_parts_root(m->layout, m->digests), want = m->header.target.root;
    return root == want ? WEFT_OK
                        : weft_fail(WEFT_E_TARGET, "base and changes have digest %016llx, the last target %016llx",
                                    (ull)root, (ull)want);
}

/* The newest attachment that one of them carries; *data comes from weft_mem_take, NULL if there is none. */
static weft_status attachment_take(const merger *m, uint8_t **data, uint64_t *bytes)
{
    weft_update_file *last = NULL;
    for (size_t i = 0; i < m->count; i++)
        last = m->updates[i]->header.attachment_bytes ? m->updates[i] : last;
    *bytes = last ? last->header.attachment_bytes : 0;
    *data = last ? weft_mem_take(*bytes, 1) : NULL;
    if (last && !*data)
        return weft_fail(WEFT_E_MEMORY, "no memory for an attachment of %llu bytes", (ull)*bytes);
    return last ? weft_update_attachment(last, *data, *bytes, bytes) : WEFT_OK;
}

static weft_status write_file(merger *m, const weft_sink *sink, weft_encode_pass *pass)
{
    uint8_t *attachment = NULL;
    uint64_t bytes;
    weft_status status = attachment_take(m, &attachment, &bytes);
    if (status == WEFT_OK)
        status = weft_update_writer_begin(&m->writer, sink, &m->header, attachment, bytes);
    weft_mem_give(attachment);
    if (status == WEFT_OK)
        status = encode(m, pass);
    if (status == WEFT_OK)
        status = judge_target(m);
    return status == WEFT_OK ? weft_update_writer_finish(&m->writer, m->layout, true, m->header.base.root,
                                                         &m->header.target, pass->changed)
                             : status;
}

static void report(const merger *m, const weft_encode_pass *pass, weft_update_info *info)
{
    weft_update_info all = {.base = m->header.base,
                            .target = m->header.target,
                            .level = weft_level_name(m->header.level),
                            .elements = m->layout->elements,
                            .changed = pass->changed,
                            .dense_bytes = m->layout->bytes,
                            .bytes = m->writer.bytes,
                            .diff_ms = pass->diff_ms,
                            .encode_ms = pass->encode_ms + m->writer.pack_ms};
    size_t size = info->size < sizeof all ? info->size : sizeof all;
    all.size = size;
    memcpy(info, &all, size);
}

weft_status weft_update_merge(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                              const weft_piece *base, uint64_t base_count, const char *level, const weft_work *work,
                              const weft_sink *sink, weft_update_info *info)
{
    merger m = {.updates = updates, .count = count, .layout = layout, .work = work};
    m.header.level = WEFT_LEVEL_TIGHT;
    if (count == 0)
        return weft_fail(WEFT_E_ARGUMENT, "no updates to merge");
    if (!base)
        return weft_fail(WEFT_E_ARGUMENT, "updates are merged with their base; give it");
    m.header.base = updates[0]->header.base;
    m.header.target = updates[count - 1]->header.target;
    memcpy(m.header.layout, layout->hash, sizeof m.header.layout);
    weft_status status = level ? weft_level_by_name(level, &m.header.level) : WEFT_OK;
    if (status == WEFT_OK)
        status = merger_open(&m, base, base_count);
    if (status == WEFT_OK)
        status = judge_base(&m, base, base_count);
    if (status == WEFT_OK && m.header.level >= WEFT_LEVEL_FAST)
        status = choose(&m);
    weft_encode_pass pass = {.now = &m.moved,
                             .shadow = &m.base,
                             .parameters = &m.header.parameters,
                             .levels = 1u << m.header.level,
                             .delta = m.delta,
                             .emit = frame_write,
                             .user = &m};
    if (status == WEFT_OK)
        status = write_file(&m, sink, &pass);
    if (status == WEFT_OK && info)
        report(&m, &pass, info);
    merger_close(&m);
    return status;
}

#include "update/update_move.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "update/update_work.h"

#define SPAN_ALIGN     8u /* the spans of a window begin at multiples of so many bytes */
#define MEMORY_DEFAULT (UINT64_C(1) << 30)

typedef unsigned long long ull;

/* ---- open and close */

static weft_mem_list memory_of(weft_mover *m)
{
    const uint64_t parts = m->part.layout->part_count + 1;
    m->window_bytes = m->pass.groups[0].capacity + WEFT_PASS_UNITS * SPAN_ALIGN;
    return (weft_mem_list){{WEFT_MEM_PAGES(m->windows, m->pass.group_count * m->window_bytes),
                            WEFT_MEM_TAKEN(m->opposites, m->pass.lanes.count * m->part.whole->largest_frame),
                            WEFT_MEM_TAKEN(m->digests, parts), WEFT_MEM_TAKEN(m->delta, parts),
                            WEFT_MEM_TAKEN(m->reached, parts)}};
}

weft_status weft_mover_open(weft_mover *m, const weft_layout *layout, const weft_excerpt *excerpt,
                            const weft_binding *weights, const weft_work *work)
{
    *m = (weft_mover){.weights = weights, .work = work, .passes = 1};
    m->memory_bytes = work && work->memory_bytes ? work->memory_bytes : MEMORY_DEFAULT;
    weft_status status = weft_update_part_open(&m->part, layout, excerpt);
    if (status == WEFT_OK)
        status = weft_update_pass_open(&m->pass, m->part.layout, work);
    if (status == WEFT_OK)
        status = weft_mem_list_take(memory_of(m), "for windows and digests");
    if (status == WEFT_OK)
        status = weft_binding_open_image((weft_layout *)(uintptr_t)m->part.layout, m->windows, &m->image);
    if (status != WEFT_OK)
        weft_mover_close(m);
    return status;
}

void weft_mover_leave(weft_mover *m)
{
    for (size_t i = 0; i < m->count; i++)
        weft_update_step_close(&m->steps[i]);
    m->count = 0;
}

void weft_mover_close(weft_mover *m)
{
    weft_mover_leave(m);
    weft_binding_close(&m->image);
    if (m->pass.lanes.count > 0)
        weft_mem_list_give(memory_of(m));
    weft_update_pass_close(&m->pass);
    weft_update_part_close(&m->part);
    *m = (weft_mover){0};
}

weft_status weft_mover_way(weft_mover *m, weft_update_step *steps, size_t count, bool zeros)
{
    uint64_t keep = m->memory_bytes;
    weft_status status = WEFT_OK;
    weft_mover_leave(m);
    m->steps = steps;
    m->measured = m->measured && !zeros && !m->zeros;
    m->zeros = zeros;
    while (m->count < count && status == WEFT_OK) {
        const bool anchor = zeros && m->count == 0; /* whose frames would be a copy of the weights */
        const uint64_t frames = anchor ? 0 : steps[m->count].file->trailer.frame_bytes;
        const uint64_t kept = frames < keep ? frames : keep;
        m->fault = m->count;
        status = weft_update_step_open(&steps[m->count++], &m->part, m->passes > 1 ? kept : 0);
        keep -= kept;
    }
    return status;
}

/* ---- windows */

static weft_status wait(const weft_mover *m, weft_update_worker *worker, weft_status status, void *job)
{
    return weft_backend_wait(m->pass.backend, worker->device, status, job);
}

/* Calls `act` for each span, which is a run of units, of the group, with the place of the span in the group's window.
 */
static weft_status each_span(weft_mover *m, weft_update_worker *worker, const weft_update_group *group,
                             weft_status (*act)(weft_mover *, weft_update_worker *, const weft_view *, uint8_t *))
{
    const weft_layout *layout = m->part.layout;
    uint8_t *at = m->windows + (uint64_t)(group - m->pass.groups) * m->window_bytes;
    weft_status status = WEFT_OK;
    uint32_t units;
    for (uint64_t unit = group->unit; unit < group->end && status == WEFT_OK; unit += units) {
        units = weft_layout_run(layout, unit, m->pass.shift);
        const weft_view view = weft_binding_span(&m->image, unit, units);
        status = act(m, worker, &view, at);
        at += ((uint64_t)view.count * view.width + SPAN_ALIGN - 1) / SPAN_ALIGN * SPAN_ALIGN;
    }
    return status;
}

static weft_status span_load(weft_mover *m, weft_update_worker *worker, const weft_view *view, uint8_t *bytes)
{
    weft_run *runs = m->image.runs + (view->runs - m->image.runs);
    for (uint32_t r = 0; r < view->run_count; r++)
        runs[r].data = bytes + (uint64_t)weft_run_position(view, &runs[r]) * view->width;
    if (m->zeros) {
        memset(bytes, 0, (uint64_t)view->count * view->width);
        return WEFT_OK;
    }
    weft_load_job job = {.view = weft_binding_span(m->weights, view->unit, view->units), .bytes = bytes};
    return wait(m, worker, m->pass.backend->load(worker->device, &job), &job);
}

static weft_status span_write(weft_mover *m, weft_update_worker *worker, const weft_view *view, uint8_t *bytes)
{
    weft_store_job job = {.view = weft_binding_span(m->to, view->unit, view->units), .bytes = bytes};
    return wait(m, worker, m->pass.backend->store(worker->device, &job), &job);
}

static weft_status span_out(weft_mover *m, weft_update_worker *worker, const weft_view *view, uint8_t *bytes)
{
    (void)worker;
    return m->out(m->user, bytes, (uint64_t)view->count * view->width);
}

/* ---- frames */

static weft_status frame_admit(weft_mover *m, weft_update_worker *worker, const uint8_t *bytes, uint64_t length,
                               weft_frame *frame)
{
    const weft_update_step *step = &m->steps[m->at];
    weft_invert_job job = {.layout = m->part.layout};
    uint64_t used;
    weft_status status = weft_planes_admit(&worker->unpacker, m->part.layout, bytes, length, frame, &used);
    if (status == WEFT_OK && used != length)
        status = weft_fail(WEFT_E_CORRUPT, "update file: a frame of %llu bytes in %llu", (ull)used, (ull)length);
    if (status != WEFT_OK || !step->back)
        return status;
    job.frame = *frame;
    job.bytes = m->opposites + (uint64_t)(worker - m->pass.workers) * m->part.whole->largest_frame;
    status = wait(m, worker, m->pass.backend->invert(worker->device, &job), &job);
    if (status != WEFT_OK)
        return status;
    weft_frame_read_header(job.bytes, &frame->header);
    frame->payload = job.bytes + WEFT_FRAME_HEADER_BYTES;
    return WEFT_OK;
}

static weft_status frame_move(weft_mover *m, weft_update_worker *worker, const uint8_t *bytes, uint64_t length,
                              weft_changes *changes)
{
    const weft_backend *backend = m->pass.backend;
    weft_decode_job job = {
        .parameters = &m->steps[m->at].file->header.parameters, .changes = changes, .tensor_delta = m->delta};
    weft_status status = frame_admit(m, worker, bytes, length, &job.frame);
    if (status != WEFT_OK)
        return status;
    job.base = weft_binding_span(m->windowed ? &m->image : m->weights, job.frame.header.unit, job.frame.header.units);
    status = wait(m, worker, backend->decode(worker->device, &job), &job);
    if (status != WEFT_OK || !m->windowed || (m->at + 1 == m->limit && m->proof))
        return status; /* nobody reads what the last step of a proof would make of the window */
    weft_apply_job apply = {.target = job.base, .changes = changes};
    return wait(m, worker, backend->apply(worker->device, &apply), &apply);
}

/* A frame that fails is told when the base is proved, because a wrong base is then the reason. */
static void frames_move(weft_mover *m, weft_update_worker *worker, weft_update_group *group)
{
    uint64_t list = group->first_list;
    for (uint64_t at = 0, bytes; at < group->used && group->failure == WEFT_OK; at += bytes) {
        bytes = weft_frame_measure(group->data + at, group->used - at);
        weft_changes *changes = m->staging ? weft_staging_at(m->staging, list++) : &worker->changes;
        group->failure = frame_move(m, worker, group->data + at, bytes, changes);
        group->changed += group->failure == WEFT_OK ? changes->count : 0;
    }
    if (group->failure != WEFT_OK)
        snprintf(group->text, sizeof group->text, "%s", weft_last_error());
}

/* ---- a group on a lane */

static weft_status group_work(weft_update_pass *pass, weft_update_worker *worker, weft_update_group *group)
{
    weft_mover *m = pass->user;
    const uint64_t begun = weft_clock_ns();
    weft_status status = WEFT_OK;
    if (m->at == 0 && m->windowed)
        status = each_span(m, worker, group, span_load);
    if (status == WEFT_OK && m->at == 0 && !m->measured)
        status = weft_update_digest_units(pass, worker, m->windowed ? &m->image : m->weights, group->unit, group->end,
                                          m->digests);
    const uint64_t middle = weft_clock_ns();
    if (status == WEFT_OK)
        frames_move(m, worker, group);
    if (status == WEFT_OK && m->to && group->failure == WEFT_OK && m->at + 1 == m->limit)
        status = each_span(m, worker, group, span_write);
    worker->digest_ms += m->proof ? weft_clock_ms(begun, middle) : 0;
    worker->decode_ms += m->proof ? weft_clock_ms(middle, weft_clock_ns()) : 0;
    return status;
}

/* ---- a round */

static weft_status lists_take(weft_mover *m, weft_update_group *group)
{
    group->first_list = m->staging->count;
    for (uint64_t at = 0; at < group->used; at += weft_frame_measure(group->data + at, group->used - at)) {
        const uint8_t *frame = group->data + at;
        const weft_unit *unit = &m->part.layout->units[weft_bytes_get(frame, 4)];
        const uint32_t changed = (uint32_t)weft_bytes_get(frame + 8, 4) & ((1u << 20) - 1);
        if (!weft_staging_take(m->staging, (uint32_t)weft_bytes_get(frame, 4), changed, unit->width))
            return weft_fail(WEFT_E_BUDGET,
                             "the changes need more than memory_bytes = %llu; give more, or use weft_update_rewrite",
                             (ull)m->memory_bytes);
    }
    return WEFT_OK;
}

/* Takes the frames of a step for all groups of the round. */
static weft_status frames_take(weft_mover *m)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < m->pass.filled && status == WEFT_OK; i++) {
        weft_update_group *group = &m->pass.groups[i];
        group->used = 0;
        group->failure = WEFT_OK;
        if (m->at < m->limit)
            status = weft_update_step_take(&m->steps[m->at], group);
        if (status == WEFT_OK && m->staging)
            status = lists_take(m, group);
        if (m->skipped)
            group->used = 0;
    }
    return status;
}

/* Has no later step taken after a frame that failed, because that frame spoilt what the step starts from. */
static void failures_note(weft_mover *m)
{
    for (uint32_t i = 0; i < m->pass.filled && m->at < m->limit; i++) {
        const weft_update_group *group = &m->pass.groups[i];
        if (group->failure == WEFT_OK)
            continue;
        m->limit = m->at;
        m->failure = group->failure;
        memcpy(m->text, group->text, sizeof m->text);
    }
}

static weft_status round_run(weft_mover *m)
{
    weft_status status = WEFT_OK;
    for (m->at = 0; status == WEFT_OK && (m->at == 0 || m->at < m->limit); m->at++) {
        m->fault = m->at;
        status = frames_take(m);
        if (status == WEFT_OK)
            status = weft_update_pass_run(&m->pass);
        failures_note(m);
    }
    if (status == WEFT_OK && m->failure != WEFT_OK && (m->to || m->out))
        status = weft_fail(m->failure, "%s", m->text);
    for (uint32_t i = 0; i < m->pass.filled && status == WEFT_OK; i++) {
        m->changed += m->pass.groups[i].changed;
        if (m->out)
            status = each_span(m, m->pass.workers, &m->pass.groups[i], span_out);
    }
    return status;
}

/* ---- a pass */

static weft_status progress(const weft_mover *m)
{
    const uint64_t units = m->part.layout->unit_count;
    if (m->nth >= m->passes)
        return WEFT_OK;
    const weft_status status =
        weft_update_progress(m->work, m->nth * units + m->pass.next_unit, (uint64_t)m->passes * units);
    return m->to ? WEFT_OK : status;
}

/* Returns the shift of the longest runs of these steps, so that no frame goes beyond a group. */
static uint32_t shift_of(const weft_mover *m, size_t count)
{
    uint32_t shift = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t own = m->steps[i].file->header.parameters.run_shift;
        shift = own > shift ? own : shift;
    }
    return shift;
}

static void pass_begin(weft_mover *m, size_t count, uint32_t shift)
{
    const uint64_t parts = m->part.layout->part_count;
    weft_update_pass_begin(&m->pass, shift, group_work, m);
    memset(m->delta, 0, parts * sizeof *m->delta);
    if (!m->measured)
        memset(m->digests, 0, parts * sizeof *m->digests);
    for (size_t i = 0; i < count; i++)
        weft_update_step_begin(&m->steps[i]);
    if (m->staging)
        weft_staging_clear(m->staging);
    m->limit = count;
    m->changed = 0;
    m->failure = WEFT_OK;
}

static weft_status pass_run(weft_mover *m, size_t count)
{
    weft_status status = WEFT_OK;
    pass_begin(m, count, shift_of(m, count));
    m->proof = !m->to && !m->out;
    m->windowed = count > 1 || m->zeros || !m->proof;
    while (status == WEFT_OK && weft_update_pass_fill(&m->pass)) {
        status = round_run(m);
        if (status == WEFT_OK)
            status = progress(m);
    }
    m->measured = m->measured || status == WEFT_OK;
    return status;
}

static weft_status start_judge(weft_mover *m)
{
    m->fault = 0;
    return weft_update_step_judge(&m->steps[0], &m->part, m->digests, true);
}

/* Judges what a pass over `count` steps came to. */
static weft_status end_judge(weft_mover *m, size_t count)
{
    weft_status status = WEFT_OK;
    m->fault = m->limit < count ? m->limit : count - 1;
    if (m->limit < count)
        return weft_fail(m->failure, "%s", m->text);
    for (uint64_t part = 0; part < m->part.layout->part_count; part++)
        m->reached[part] = m->digests[part] + m->delta[part];
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status = weft_update_step_finish(&m->steps[i]);
    return status == WEFT_OK ? weft_update_step_judge(&m->steps[count - 1], &m->part, m->reached, false) : status;
}

static weft_status attempt(weft_mover *m, size_t count)
{
    const weft_status status = pass_run(m, count);
    return status == WEFT_OK ? end_judge(m, count) : status;
}

/* Finds the first step that fails, because a later one may fail for what an earlier one did. `status` is the failure of
 * the whole way. */
static weft_status trace(weft_mover *m, weft_status status)
{
    size_t right = 0, wrong = m->count;
    bool last = true; /* the attempt was at `wrong` */
    while (wrong - right > 1) {
        const size_t middle = right + (wrong - right) / 2;
        const weft_status found = attempt(m, middle);
        last = found != WEFT_OK;
        *(last ? &wrong : &right) = middle;
        status = last ? found : status;
    }
    if (!last)
        status = attempt(m, wrong);
    m->fault = wrong - 1;
    return status;
}

weft_status weft_mover_measure(weft_mover *m, bool told)
{
    m->measured = m->measured && !m->zeros;
    m->zeros = false;
    m->nth = told ? 0 : m->passes;
    return m->measured ? WEFT_OK : pass_run(m, 0);
}

weft_status weft_mover_prove(weft_mover *m)
{
    m->nth = 0;
    weft_status status = pass_run(m, m->count);
    if (status == WEFT_OK)
        status = start_judge(m);
    if (status != WEFT_OK)
        return status;
    status = end_judge(m, m->count);
    m->nth = m->passes;
    return status == WEFT_OK ? status : trace(m, status);
}

static weft_status write_run(weft_mover *m)
{
    m->nth = 1;
    const weft_status status = attempt(m, m->count);
    m->to = NULL;
    m->out = NULL;
    return status;
}

weft_status weft_mover_write(weft_mover *m, const weft_binding *to)
{
    m->to = to;
    const weft_status status = write_run(m);
    m->measured = status == WEFT_OK; /* the weights are where the way ends now, and the next one begins there */
    m->zeros = false;
    if (m->measured)
        memcpy(m->digests, m->reached, m->part.layout->part_count * sizeof *m->digests);
    return status;
}

weft_status weft_mover_stream(weft_mover *m, weft_mover_out *out, void *user)
{
    m->out = out;
    m->user = user;
    return write_run(m);
}

weft_status weft_mover_stand(weft_mover *m, uint64_t unit, uint32_t units, bool wanted)
{
    if (unit == 0)
        pass_begin(m, m->count, WEFT_RUN_SHIFT_MAX);
    m->windowed = wanted;
    m->proof = false;
    m->skipped = !wanted;
    weft_update_pass_take(&m->pass, unit, units);
    const weft_status status = round_run(m);
    m->skipped = false;
    return status == WEFT_OK && m->limit < m->count ? weft_fail(m->failure, "%s", m->text) : status;
}

/* ---- reports */

void weft_mover_report(const weft_mover *m, double apply_ms, weft_apply_info *info)
{
    const weft_update_step *last = &m->steps[m->count - 1];
    const weft_wire_update *header = &last->file->header;
    weft_apply_info all = {
        .version = last->back ? header->base : header->target, .changed = m->changed, .apply_ms = apply_ms};
    const uint32_t workers = m->pass.lanes.count;
    for (uint32_t i = 0; i < workers; i++) {
        all.digest_ms += m->pass.workers[i].digest_ms / workers;
        all.decode_ms += m->pass.workers[i].decode_ms / workers;
    }
    const size_t size = info->size < sizeof all ? info->size : sizeof all;
    all.size = size;
    memcpy(info, &all, size);
}

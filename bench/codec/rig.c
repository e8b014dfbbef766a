#include "bench/codec/rig.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "encode/encode.h"

/* A frame, and where its change list lies. */
typedef struct slot {
    uint64_t frame, bytes;
    weft_changes changes;
    uint64_t check;
} slot;

struct weft_bench_rig {
    weft_layout *layout;
    const weft_backend *backend;
    uint32_t lanes;
    weft_binding before, after, work;
    weft_encoder encoder;
    weft_parameters parameters;
    weft_team team; /* of decode and apply */
    weft_backend_state *devices[WEFT_TEAM_MAX];
    uint64_t *delta; /* one word per part */
    uint8_t *frames, *lists;
    uint64_t frame_bytes, frames_used, list_bytes, lists_used;
    slot *slots;
    uint64_t slot_count; /* at most a slot a unit */
    _Atomic uint64_t next;
    _Atomic int failed; /* a weft_status */
};

/* ---- open */

static weft_status bindings_open(weft_bench_rig *rig, const weft_bench_weights *weights)
{
    weft_status status = weft_binding_open(rig->layout, weights->before, weights->count, &rig->before);
    if (status == WEFT_OK)
        status = weft_binding_open(rig->layout, weights->after, weights->count, &rig->after);
    return status == WEFT_OK ? weft_binding_open(rig->layout, weights->work, weights->count, &rig->work) : status;
}

static weft_status memory_open(weft_bench_rig *rig)
{
    const weft_layout *layout = rig->layout;
    rig->frame_bytes = (layout->unit_count + 1) * (layout->largest_frame + UINT64_C(64));
    rig->list_bytes =
        layout->elements * 20 + (layout->unit_count + 1) * 256; /* position and twice the widest element */
    rig->delta = weft_mem_take(layout->part_count + 1, sizeof *rig->delta);
    rig->slots = weft_mem_take(layout->unit_count + 1, sizeof *rig->slots);
    rig->frames = weft_mem_map(rig->frame_bytes); /* pages never touched cost nothing */
    rig->lists = weft_mem_map(rig->list_bytes);
    if (rig->delta && rig->slots && rig->frames && rig->lists)
        return WEFT_OK;
    return weft_fail(WEFT_E_MEMORY, "no memory for the frames and change lists of %llu bytes of weights",
                     (unsigned long long)layout->bytes);
}

static weft_status rig_open(weft_bench_rig *rig, const weft_bench_weights *weights, const char *kernels)
{
    const weft_backend_options options = {-1, kernels, 0, 0};
    weft_status status = bindings_open(rig, weights);
    if (status == WEFT_OK)
        status = memory_open(rig);
    if (status == WEFT_OK)
        status = weft_team_open(&rig->team, rig->lanes);
    for (uint32_t lane = 0; lane < rig->lanes && status == WEFT_OK; lane++)
        status = rig->backend->open(&options, &rig->devices[lane]);
    if (status == WEFT_OK)
        status = weft_encoder_open(&rig->encoder, rig->backend, &options, rig->devices[0], rig->layout, rig->lanes);
    return status;
}

weft_status weft_bench_rig_open(const weft_bench_weights *weights, const char *kernels, uint32_t threads,
                                weft_bench_rig **rig)
{
    weft_bench_rig *made = weft_mem_take(1, sizeof *made);
    if (!made || threads > WEFT_TEAM_MAX)
        return weft_fail(WEFT_E_MEMORY, "no memory for a rig of %u threads", threads);
    made->layout = weights->layout;
    made->backend = weft_backend_find("host");
    made->lanes = threads;
    weft_status status = rig_open(made, weights, kernels);
    if (status == WEFT_OK)
        *rig = made;
    else
        weft_bench_rig_close(made);
    return status;
}

void weft_bench_rig_close(weft_bench_rig *rig)
{
    if (!rig)
        return;
    weft_encoder_close(&rig->encoder);
    for (uint32_t lane = 0; lane < rig->lanes; lane++)
        if (rig->devices[lane])
            rig->backend->close(rig->devices[lane]);
    if (rig->team.workers)
        weft_team_close(&rig->team);
    if (rig->lists)
        weft_mem_unmap(rig->lists, rig->list_bytes);
    if (rig->frames)
        weft_mem_unmap(rig->frames, rig->frame_bytes);
    weft_mem_give(rig->slots);
    weft_mem_give(rig->delta);
    weft_binding_close(&rig->work);
    weft_binding_close(&rig->after);
    weft_binding_close(&rig->before);
    weft_mem_give(rig);
}

/* ---- encode */

static weft_status frame_keep(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    weft_bench_rig *rig = user;
    (void)level;
    if (bytes > rig->frame_bytes - rig->frames_used || rig->slot_count > rig->layout->unit_count)
        return weft_fail(WEFT_E_BUDGET, "more frames than the layout can have");
    memcpy(rig->frames + rig->frames_used, frame, bytes);
    rig->slots[rig->slot_count++] = (slot){.frame = rig->frames_used, .bytes = bytes};
    rig->frames_used += bytes;
    return WEFT_OK;
}

weft_status weft_bench_rig_encode(weft_bench_rig *rig, const char *level, double *ms, double *choose_ms)
{
    weft_level number;
    weft_status status = weft_level_by_name(level, &number);
    if (status != WEFT_OK)
        return status;
    weft_encode_pass pass = {.now = &rig->after,
                             .shadow = &rig->before,
                             .parameters = &rig->parameters,
                             .levels = 1u << number,
                             .delta = rig->delta,
                             .emit = frame_keep,
                             .user = rig};
    rig->frames_used = rig->slot_count = 0;
    uint64_t begun = weft_clock_ns();
    status = weft_encoder_choose(&rig->encoder, &rig->after, &rig->before, pass.levels, &rig->parameters);
    *choose_ms = weft_clock_ms(begun, weft_clock_ns());
    if (status == WEFT_OK)
        status = weft_encoder_run(&rig->encoder, &pass);
    *ms = weft_clock_ms(begun, weft_clock_ns());
    return status;
}

/* ---- decode and apply */

/* Gives each frame room for its changes, which its header counts. */
static weft_status lists_place(weft_bench_rig *rig)
{
    rig->lists_used = 0;
    for (uint64_t i = 0; i < rig->slot_count; i++) {
        weft_frame frame;
        slot *s = &rig->slots[i];
        weft_status status = weft_frame_admit(rig->layout, rig->frames + s->frame, s->bytes, &frame);
        if (status != WEFT_OK)
            return status;
        const uint64_t width = rig->layout->units[frame.header.unit].width;
        const uint64_t room = (frame.header.changed * width + 63) & ~UINT64_C(63);
        uint8_t *at = rig->lists + rig->lists_used;
        s->changes = (weft_changes){.capacity = frame.header.changed, .before = at, .after = at + room};
        s->changes.position = (uint32_t *)(void *)(at + 2 * room);
        rig->lists_used += 2 * room + ((frame.header.changed * UINT64_C(4) + 63) & ~UINT64_C(63));
        if (rig->lists_used > rig->list_bytes)
            return weft_fail(WEFT_E_BUDGET, "more changes than the layout has elements");
    }
    return WEFT_OK;
}

static weft_status slot_decode(weft_bench_rig *rig, uint32_t lane, slot *s)
{
    weft_decode_job job = {.parameters = &rig->parameters, .changes = &s->changes, .tensor_delta = rig->delta};
    weft_backend_state *device = rig->devices[lane];
    s->check = weft_frame_check(rig->frames + s->frame, s->bytes);
    weft_status status = weft_frame_admit(rig->layout, rig->frames + s->frame, s->bytes, &job.frame);
    if (status != WEFT_OK)
        return status;
    job.base = weft_binding_span(&rig->work, job.frame.header.unit, job.frame.header.units);
    return weft_backend_wait(rig->backend, device, rig->backend->decode(device, &job), &job);
}

static weft_status slot_apply(weft_bench_rig *rig, uint32_t lane, slot *s)
{
    weft_backend_state *device = rig->devices[lane];
    weft_apply_job job = {.target = weft_binding_span(&rig->work, s->changes.unit, s->changes.units),
                          .changes = &s->changes};
    weft_status status = weft_backend_wait(rig->backend, device, rig->backend->apply(device, &job), &job);
    return status == WEFT_OK && job.mismatch ? WEFT_E_BASE : status;
}

static void lane_decode(void *context, uint32_t lane)
{
    weft_bench_rig *rig = context;
    for (uint64_t i; (i = atomic_fetch_add(&rig->next, 1)) < rig->slot_count;) {
        weft_status status = slot_decode(rig, lane, &rig->slots[i]);
        if (status != WEFT_OK)
            atomic_store(&rig->failed, (int)status);
    }
}

static void lane_apply(void *context, uint32_t lane)
{
    weft_bench_rig *rig = context;
    for (uint64_t i; (i = atomic_fetch_add(&rig->next, 1)) < rig->slot_count;) {
        weft_status status = slot_apply(rig, lane, &rig->slots[i]);
        if (status != WEFT_OK)
            atomic_store(&rig->failed, (int)status);
    }
}

static weft_status slots_run(weft_bench_rig *rig, weft_team_task task)
{
    atomic_store(&rig->next, 0);
    atomic_store(&rig->failed, (int)WEFT_OK);
    weft_team_run(&rig->team, task, rig);
    weft_status status = (weft_status)atomic_load(&rig->failed);
    return status == WEFT_OK ? status : weft_fail(status, "frames that were just encoded do not decode");
}

weft_status weft_bench_rig_apply(weft_bench_rig *rig, double *ms)
{
    weft_status status = lists_place(rig);
    if (status != WEFT_OK)
        return status;
    uint64_t begun = weft_clock_ns();
    status = slots_run(rig, lane_decode);
    if (status == WEFT_OK)
        status = slots_run(rig, lane_apply);
    *ms = weft_clock_ms(begun, weft_clock_ns());
    return status;
}

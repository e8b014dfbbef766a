/* decode_world.h - tensors of one dtype with base and target bits, the base in scattered pieces, and frames that the
 * host backend and the kernels read side by side. */
#ifndef WEFT_TESTS_DECODE_WORLD_H
#define WEFT_TESTS_DECODE_WORLD_H

#include "backends/gpu/gpu.h"
#include "tests/emulation/driver.h"
#include "tests/support/unit_pair.h"

#define WORLD_TENSORS 400u
#define WORLD_FRAMES  64u

typedef struct decode_world {
    weft_layout *layout;
    const weft_dtype_row *row;
    uint8_t *base, *target; /* images */
    uint8_t *live;          /* the base again, in pieces */
    uint64_t live_bytes;
    weft_binding shadow, now, weights;
    weft_parameters parameters;
    weft_backend_state *host;
    weft_gpu *gpu;
} decode_world;

/* The result of one end for a frame. Arrays are as long as the frame says. */
typedef struct decode_side {
    weft_status status;
    weft_changes changes;
    uint64_t *delta;
} decode_side;

/* A frame of a batch, in memory of its own. */
typedef struct decode_case {
    uint8_t *bytes;
    uint64_t length;
    uint32_t limit;
    bool admitted;
    weft_decode_job job;
    decode_side host, gpu;
} decode_case;

static inline void world_pieces(decode_world *w, uint64_t *seed, uint32_t cuts)
{
    const uint8_t width = w->row->width;
    const uint64_t most = w->layout->count + cuts;
    weft_piece *pieces = pair_memory(most * sizeof *pieces);
    uint64_t used = 0, at = 0;
    w->live_bytes = w->layout->bytes + most * 64;
    w->live = pair_memory(w->live_bytes);
    for (uint64_t t = 0; t < w->layout->count; t++) {
        const uint64_t count = w->layout->entries[t].elements;
        for (uint64_t first = 0; first < count;) {
            uint64_t some = used + w->layout->count - t < most ? 1 + pair_below(seed, count - first) : count - first;
            at += width * pair_below(seed, 64 / width);
            pieces[used++] = (weft_piece){t, first, some, w->live + at};
            at += some * width;
            first += some;
        }
    }
    pair_must(weft_binding_open(w->layout, pieces, used, &w->weights), "binding");
    free(pieces);
}

/* The live bits are the base's. */
static inline void world_restore(decode_world *w)
{
    for (uint64_t u = 0; u < w->layout->unit_count; u++) {
        const weft_view from = weft_binding_view(&w->shadow, u), to = weft_binding_view(&w->weights, u);
        uint8_t *dense = pair_memory((uint64_t)from.count * from.width);
        weft_load_job load = {.view = from, .bytes = dense};
        weft_store_job store = {.view = to, .bytes = dense};
        weft_backend_host.load(w->host, &load);
        weft_backend_host.store(w->host, &store);
        free(dense);
    }
}

static inline void world_open(decode_world *w, uint64_t *seed, weft_dtype dtype, const uint64_t *sizes, uint64_t count,
                              uint32_t cuts)
{
    static weft_tensor tensors[WORLD_TENSORS];
    static char names[WORLD_TENSORS][8];
    const weft_backend_options options = {.device = -1, .kernels = "portable", .budget_bytes = UINT64_C(512) << 20};
    *w = (decode_world){.row = weft_dtype_find(dtype)};
    for (uint64_t t = 0; t < count; t++) {
        snprintf(names[t], sizeof names[t], "t%u", (unsigned)t);
        tensors[t] = (weft_tensor){names[t], dtype, 1, &sizes[t]};
    }
    pair_must(weft_layout_create(tensors, count, &w->layout), "layout");
    pair_must(weft_backend_host.open(&options, &w->host), "host");
    pair_must(weft_gpu_open(&weft_emulation_driver, &options, &w->gpu), "gpu");
    w->base = pair_memory(w->layout->bytes + 8);
    w->target = pair_memory(w->layout->bytes + 8);
    for (uint64_t i = 0; i < w->layout->elements; i++)
        pair_put(w->base, i, pair_bits(seed, w->row), w->row->width);
    memcpy(w->target, w->base, w->layout->bytes);
    pair_must(weft_binding_open_image(w->layout, w->base, &w->shadow), "image");
    pair_must(weft_binding_open_image(w->layout, w->target, &w->now), "image");
    pair_parameters(seed, &w->parameters);
    world_pieces(w, seed, cuts);
    world_restore(w);
}

static inline void world_close(decode_world *w)
{
    weft_gpu_close(w->gpu);
    weft_backend_host.close(w->host);
    weft_binding_close(&w->shadow);
    weft_binding_close(&w->now);
    weft_binding_close(&w->weights);
    weft_layout_free(w->layout);
    free(w->base);
    free(w->target);
    free(w->live);
}

/* Moves elements of the target: so many of a million, mostly by a step; above a million all, to any bits. */
static inline void world_change(decode_world *w, uint64_t *seed, uint64_t per_million)
{
    for (uint64_t i = 0; i < w->layout->elements; i++) {
        uint64_t bits = pair_get(w->base, i, w->row->width);
        if (per_million > 1000000) {
            bits = pair_random(seed);
        } else if (pair_below(seed, 1000000) < per_million) {
            const uint64_t how = pair_below(seed, 8);
            bits = how == 0   ? pair_bits(seed, w->row)
                   : how == 1 ? bits + pair_below(seed, 64)
                              : bits + (pair_below(seed, 2) ? 1 : UINT64_MAX);
        }
        pair_put(w->target, i, bits, w->row->width);
    }
}

/* The frame of `units` units at a level, in memory of its own; 0 bytes if there is none. */
static inline uint64_t world_encode(decode_world *w, uint64_t unit, uint32_t units, weft_level level, uint8_t **bytes)
{
    uint64_t *delta = pair_memory(w->layout->part_count * sizeof *delta);
    weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
    const uint64_t capacity = w->layout->largest_frame;
    *bytes = pair_memory(capacity);
    sinks[level] = (weft_frame_sink){.data = *bytes, .capacity = capacity};
    weft_encode_job job = {.now = weft_binding_span(&w->now, unit, units),
                           .shadow = weft_binding_span(&w->shadow, unit, units),
                           .parameters = &w->parameters,
                           .largest_frame = w->layout->largest_frame,
                           .levels = 1u << level,
                           .sinks = sinks,
                           .tensor_delta = delta};
    pair_must(weft_backend_host.encode(w->host, &job), "encode");
    free(delta);
    return job.frame_bytes[level];
}

static inline void side_open(const decode_world *w, const weft_frame *frame, uint8_t width, decode_side *side)
{
    const uint64_t count = frame->header.changed;
    side->changes = (weft_changes){.capacity = frame->header.changed};
    side->changes.position = pair_memory(4 * count);
    side->changes.before = pair_memory(count * width);
    side->changes.after = pair_memory(count * width);
    side->delta = pair_memory(w->layout->part_count * sizeof *side->delta);
}

static inline void side_close(decode_side *side)
{
    pair_changes_free(&side->changes);
    free(side->delta);
}

/* Takes a frame that belongs to the case from here on, if it can be admitted. */
static inline bool case_open(decode_world *w, decode_case *c, uint8_t *bytes, uint64_t length, uint32_t limit)
{
    weft_frame frame;
    *c = (decode_case){.bytes = bytes, .length = length, .limit = limit};
    c->admitted = weft_frame_admit(w->layout, bytes, length, &frame) == WEFT_OK;
    if (!c->admitted)
        return false;
    c->job = (weft_decode_job){.frame = frame,
                               .base = weft_binding_span(&w->weights, frame.header.unit, frame.header.units),
                               .parameters = &w->parameters,
                               .limit = limit};
    side_open(w, &frame, w->row->width, &c->host);
    side_open(w, &frame, w->row->width, &c->gpu);
    return true;
}

static inline void case_close(decode_case *c)
{
    if (c->admitted) {
        side_close(&c->host);
        side_close(&c->gpu);
    }
    free(c->bytes);
}

/* Reads all frames of a batch at both ends; at the kernels' they are under way together. */
static inline void cases_decode(decode_world *w, decode_case *cases, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        decode_case *c = &cases[i];
        c->job.changes = &c->host.changes;
        c->job.tensor_delta = c->host.delta;
        c->host.status = weft_backend_host.decode(w->host, &c->job);
        c->job.changes = &c->gpu.changes;
        c->job.tensor_delta = c->gpu.delta;
    }
    for (uint32_t i = 0; i < count; i++)
        cases[i].gpu.status = weft_gpu_submit(w->gpu, &weft_gpu_decode, &cases[i].job);
    for (uint32_t i = 0; i < count; i++) {
        while (cases[i].gpu.status == WEFT_AGAIN)
            cases[i].gpu.status = weft_gpu_poll(w->gpu, &cases[i].job);
    }
}

/* Both ends came to the same. */
static inline void case_agrees(const decode_world *w, const decode_case *c)
{
    const weft_changes *a = &c->host.changes, *b = &c->gpu.changes;
    if (c->host.status != c->gpu.status)
        fail_msg("level %d: host %s, kernels %s (%s)", (int)c->job.frame.header.level, weft_status_name(c->host.status),
                 weft_status_name(c->gpu.status), weft_last_error());
    assert_int_equal(a->unit, b->unit);
    assert_int_equal(a->units, b->units);
    assert_int_equal(a->count, b->count);
    if (a->count > 0) {
        assert_memory_equal(a->position, b->position, 4 * (uint64_t)a->count);
        assert_memory_equal(a->before, b->before, (uint64_t)w->row->width * a->count);
        assert_memory_equal(a->after, b->after, (uint64_t)w->row->width * a->count);
    }
    assert_memory_equal(c->host.delta, c->gpu.delta, w->layout->part_count * sizeof *c->host.delta);
}

#endif

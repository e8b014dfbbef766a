/* run_world.h - tensors of one dtype that change in runs of units: encoded in one pass, and landed on the base again.
 */
#ifndef WEFT_TESTS_RUN_WORLD_H
#define WEFT_TESTS_RUN_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "layout/part.h"
#include "tests/support/encode_pass.h"
#include "tests/support/unit_pair.h"

#define CODED (1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_TIGHT)
#define MOST  64u /* tensors */

/* Tensors of one dtype as three images, and what goes into an encoder. */
typedef struct world {
    weft_layout *layout;
    uint8_t *base, *target, *live;
    weft_binding shadow, now, weights;
    weft_parameters parameters;
    const char *kernels; /* that land its frames */
    uint64_t seed;
    uint8_t width;
} world;

static inline void world_open(world *w, weft_dtype dtype, const uint64_t *sizes, uint64_t count, uint32_t shift)
{
    weft_tensor tensors[MOST];
    char names[MOST][8];
    *w = (world){.kernels = "auto", .seed = shift, .width = weft_dtype_find(dtype)->width};
    for (uint64_t t = 0; t < count; t++) {
        snprintf(names[t], sizeof names[t], "t%u", (unsigned)t);
        tensors[t] = (weft_tensor){names[t], dtype, 1, &sizes[t]};
    }
    pair_must(weft_layout_create(tensors, count, &w->layout), "layout");
    uint64_t bytes = w->layout->bytes;
    w->base = pair_memory(bytes + 8);
    w->target = pair_memory(bytes);
    w->live = pair_memory(bytes);
    for (uint64_t at = 0; at < bytes; at += 8) {
        uint64_t word = pair_random(&w->seed);
        memcpy(w->base + at, &word, 8);
    }
    memcpy(w->target, w->base, bytes);
    memcpy(w->live, w->base, bytes);
    pair_must(weft_binding_open_image(w->layout, w->base, &w->shadow), "image");
    pair_must(weft_binding_open_image(w->layout, w->target, &w->now), "image");
    pair_must(weft_binding_open_image(w->layout, w->live, &w->weights), "image");
    pair_parameters(&w->seed, &w->parameters);
    w->parameters.run_shift = shift;
}

static inline void world_close(world *w)
{
    weft_binding_close(&w->shadow);
    weft_binding_close(&w->now);
    weft_binding_close(&w->weights);
    weft_layout_free(w->layout);
    free(w->base);
    free(w->target);
    free(w->live);
}

/* First element of a unit in the images, which hold the units in order. */
static inline uint64_t unit_at(const world *w, uint64_t unit)
{
    return (uint64_t)(weft_binding_view(&w->now, unit).runs[0].data - w->target) / w->width;
}

/* Changes one element of the target, which differs from the base afterwards. */
static inline void change_at(world *w, uint64_t at, bool any)
{
    uint64_t all = UINT64_MAX >> (64 - 8 * w->width), bits = pair_get(w->base, at, w->width);
    uint64_t other = any ? pair_random(&w->seed) & all : (bits + (pair_below(&w->seed, 2) ? 1 : all)) & all;
    pair_put(w->target, at, other == bits ? bits ^ 1 : other, w->width);
}

/* About so many changes in a unit; one in `sparse` is by more than a step. */
static inline void change_unit(world *w, uint64_t unit, uint32_t changes, uint64_t sparse)
{
    for (uint64_t at = unit_at(w, unit); changes > 0; changes--)
        change_at(w, at + pair_below(&w->seed, w->layout->units[unit].count), pair_below(&w->seed, sparse) == 0);
}

/* Every `apart`-th element of a unit from the first on, at most so many; all by any amount, or by a step. */
static inline uint32_t change_every(world *w, uint64_t unit, uint32_t apart, uint32_t most, bool any)
{
    uint32_t made = 0;
    for (uint64_t i = 0; i < w->layout->units[unit].count && made < most; i += apart, made++)
        change_at(w, unit_at(w, unit) + i, any);
    return made;
}

/* The digests of base and changes are those of the target. */
static inline void digests_add_up(const world *w, const uint64_t *base, const uint64_t *delta)
{
    uint64_t *target = pair_memory(w->layout->part_count * sizeof *target);
    weft_backend_state *state;
    pair_must(weft_backend_host.open(&(weft_backend_options){-1, "auto", 0, 0}, &state), "backend");
    for (uint64_t unit = 0; unit < w->layout->unit_count; unit++) {
        weft_digest_job job = {.view = weft_binding_view(&w->now, unit), .tensor_delta = target};
        pair_must(weft_backend_host.digest(state, &job), "digest");
    }
    for (uint64_t part = 0; part < w->layout->part_count; part++)
        assert_int_equal(base[part] + delta[part], target[part]);
    weft_backend_host.close(state);
    free(target);
}

static inline encode_result encode(const world *w, uint32_t levels, uint32_t lanes, const char *kernels)
{
    encode_result made;
    uint64_t *delta = pair_memory(2 * w->layout->part_count * sizeof *delta), *base = delta + w->layout->part_count;
    pair_must(encode_all(&w->now, &w->shadow, &w->parameters, levels, lanes, kernels, delta, base, &made), "encode");
    if (lanes == 1)
        digests_add_up(w, base, delta);
    free(delta);
    return made;
}

static inline void same_bytes(const encode_result *a, const encode_result *b)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        assert_int_equal(a->level[level].bytes, b->level[level].bytes);
        if (a->level[level].bytes > 0)
            assert_memory_equal(a->level[level].data, b->level[level].data, a->level[level].bytes);
    }
    assert_int_equal(a->changed, b->changed);
}

typedef struct tally {
    uint64_t frames, runs; /* frames, and those of more than one unit */
    uint64_t full;         /* as such instead */
} tally;

/* Admits, decodes and applies all frames of a level to the base; undone once on the way. The end is the target. */
static inline tally lands(world *w, const encode_result *made, weft_level level)
{
    tally sum = {0};
    weft_backend_state *state;
    weft_changes changes = pair_changes();
    uint64_t *delta = pair_memory(w->layout->part_count * sizeof *delta);
    const pass_frames *frames = &made->level[level];
    pair_must(weft_backend_host.open(&(weft_backend_options){-1, w->kernels, 0, 0}, &state), "backend");
    memcpy(w->live, w->base, w->layout->bytes);
    uint64_t next = 0;
    for (uint64_t at = 0, length; at < frames->bytes; at += length) {
        weft_frame frame;
        length = weft_frame_measure(frames->data + at, frames->bytes - at);
        assert_true(length > 0 && length <= w->layout->largest_frame);
        pair_must(weft_frame_admit(w->layout, frames->data + at, length, &frame), "admit");
        assert_true(frame.header.unit >= next);
        next = frame.header.unit + frame.header.units;
        if (frame.header.units > 1) {
            assert_int_equal(frame.header.units,
                             weft_layout_run(w->layout, frame.header.unit, w->parameters.run_shift));
            assert_int_equal(w->layout->units[frame.header.unit].place & ((1u << w->parameters.run_shift) - 1), 0);
        }
        weft_view view = weft_binding_span(&w->weights, frame.header.unit, frame.header.units);
        weft_decode_job decode = {
            .frame = frame, .base = view, .parameters = &w->parameters, .changes = &changes, .tensor_delta = delta};
        weft_apply_job apply = {.target = view, .changes = &changes};
        weft_undo_job undo = {.target = view, .changes = &changes};
        pair_must(weft_backend_host.decode(state, &decode), "decode");
        pair_must(weft_backend_host.apply(state, &apply), "apply");
        assert_false(apply.mismatch);
        pair_must(weft_backend_host.undo(state, &undo), "undo");
        uint64_t first = unit_at(w, frame.header.unit) * w->width, bytes = (uint64_t)view.count * w->width;
        assert_memory_equal(w->live + first, w->base + first, bytes);
        pair_must(weft_backend_host.apply(state, &apply), "apply");
        sum.frames++;
        sum.runs += frame.header.units > 1;
        sum.full += frame.header.level == WEFT_LEVEL_FULL;
    }
    assert_memory_equal(w->live, w->target, w->layout->bytes);
    weft_backend_host.close(state);
    pair_changes_free(&changes);
    free(delta);
    return sum;
}

#endif

/* Runs of units: one frame for what a few thousand changes are scattered over, at every run shift; unit by unit where
 * that would break a bound; the same bytes for any number of lanes and any kernel set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "part.h"
#include "tests/support/encode_pass.h"
#include "tests/support/unit_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CODED    (1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_TIGHT)
#define MOST     64u                 /* tensors */
#define TILE     (UINT64_C(1) << 18) /* elements of up to four bytes */

/* Tensors of one dtype as three images, and what goes into an encoder. */
typedef struct world {
    weft_layout *layout;
    uint8_t *base, *target, *live;
    weft_binding shadow, now, weights;
    weft_parameters parameters;
    uint64_t seed;
    uint8_t width;
} world;

static void world_open(world *w, weft_dtype dtype, const uint64_t *sizes, uint64_t count, uint32_t shift)
{
    weft_tensor tensors[MOST];
    char names[MOST][8];
    *w = (world){.seed = shift, .width = weft_dtype_find(dtype)->width};
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

static void world_close(world *w)
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
static uint64_t unit_at(const world *w, uint64_t unit)
{
    return (uint64_t)(weft_binding_view(&w->now, unit).runs[0].data - w->target) / w->width;
}

/* Changes one element of the target, which differs from the base afterwards. */
static void change_at(world *w, uint64_t at, bool any)
{
    uint64_t all = UINT64_MAX >> (64 - 8 * w->width), bits = pair_get(w->base, at, w->width);
    uint64_t other = any ? pair_random(&w->seed) & all : (bits + (pair_below(&w->seed, 2) ? 1 : all)) & all;
    pair_put(w->target, at, other == bits ? bits ^ 1 : other, w->width);
}

/* About so many changes in a unit; one in `sparse` is by more than a step. */
static void change_unit(world *w, uint64_t unit, uint32_t changes, uint64_t sparse)
{
    for (uint64_t at = unit_at(w, unit); changes > 0; changes--)
        change_at(w, at + pair_below(&w->seed, w->layout->units[unit].count), pair_below(&w->seed, sparse) == 0);
}

/* Every `apart`-th element of a unit from the first on, at most so many; all by any amount, or by a step. */
static uint32_t change_every(world *w, uint64_t unit, uint32_t apart, uint32_t most, bool any)
{
    uint32_t made = 0;
    for (uint64_t i = 0; i < w->layout->units[unit].count && made < most; i += apart, made++)
        change_at(w, unit_at(w, unit) + i, any);
    return made;
}

/* The digests of base and changes are those of the target. */
static void digests_add_up(const world *w, const uint64_t *base, const uint64_t *delta)
{
    uint64_t *target = pair_memory(w->layout->part_count * sizeof *target);
    weft_backend_state *state;
    pair_must(weft_backend_host.open(&(weft_backend_options){-1, "auto", 0}, &state), "backend");
    for (uint64_t unit = 0; unit < w->layout->unit_count; unit++) {
        weft_digest_job job = {weft_binding_view(&w->now, unit), target};
        pair_must(weft_backend_host.digest(state, &job), "digest");
    }
    for (uint64_t part = 0; part < w->layout->part_count; part++)
        assert_int_equal(base[part] + delta[part], target[part]);
    weft_backend_host.close(state);
    free(target);
}

static encode_result encode(const world *w, uint32_t levels, uint32_t lanes, const char *kernels)
{
    encode_result made;
    uint64_t *delta = pair_memory(2 * w->layout->part_count * sizeof *delta), *base = delta + w->layout->part_count;
    pair_must(encode_all(&w->now, &w->shadow, &w->parameters, levels, lanes, kernels, delta, base, &made), "encode");
    if (lanes == 1)
        digests_add_up(w, base, delta);
    free(delta);
    return made;
}

static void same_bytes(const encode_result *a, const encode_result *b)
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
static tally lands(world *w, const encode_result *made, weft_level level)
{
    tally sum = {0};
    weft_backend_state *state;
    weft_changes changes = pair_changes();
    uint64_t *delta = pair_memory(w->layout->part_count * sizeof *delta);
    const pass_frames *frames = &made->level[level];
    pair_must(weft_backend_host.open(&(weft_backend_options){-1, "auto", 0}, &state), "backend");
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

/* Runs that the units make, and those in which something changes. */
static void runs_count(const world *w, uint64_t *runs, uint64_t *changing)
{
    *runs = *changing = 0;
    for (uint64_t unit = 0, units; unit < w->layout->unit_count; unit += units, ++*runs) {
        units = weft_layout_run(w->layout, unit, w->parameters.run_shift);
        weft_view view = weft_binding_span(&w->now, unit, (uint32_t)units);
        uint64_t first = unit_at(w, unit) * w->width;
        *changing += memcmp(w->base + first, w->target + first, (uint64_t)view.count * w->width) != 0;
    }
}

/* Full runs and a shorter one at the end, in which tiles are cut short and small tensors make a pack. */
static void every_run_shift(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_F8_E4M3, WEFT_F8_E5M2, WEFT_U8};
    static const char *const sets[] = {"portable", "avx2", "avx512", "auto"};
    static const uint32_t lanes[] = {2, 3, 5};
    for (uint32_t shift = 0; shift <= WEFT_RUN_SHIFT_MAX; shift++) {
        world w;
        uint64_t tile = weft_tile_elements(weft_dtype_find(dtypes[shift])->width), runs, changing;
        const uint64_t sizes[] = {(tile << shift) - tile + 1, 900, 0, 3000, tile + 77};
        world_open(&w, dtypes[shift], sizes, COUNT(sizes), shift);
        for (uint64_t unit = 0; unit < w.layout->unit_count; unit++)
            change_unit(&w, unit, unit % 5 == 2 ? 0 : 300, unit % 3 ? 10 : 1000); /* some units do not change */
        runs_count(&w, &runs, &changing);
        encode_result made = encode(&w, CODED, 1, "auto"), other;
        assert_int_equal(made.jobs, runs);
        for (weft_level level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
            tally sum = lands(&w, &made, level);
            assert_int_equal(sum.frames, changing);
            assert_true(shift == 0 ? sum.runs == 0 : sum.runs > 0);
        }
        /* the portable set takes its time on many elements */
        for (size_t i = shift < 4 ? 0 : COUNT(sets) - 1; i < COUNT(sets); i++) {
            weft_backend_state *device;
            if (weft_backend_host.open(&(weft_backend_options){-1, sets[i], 0}, &device) != WEFT_OK)
                continue; /* not on this CPU */
            weft_backend_host.close(device);
            other = encode(&w, CODED, lanes[(shift + i) % COUNT(lanes)], sets[i]);
            same_bytes(&made, &other);
            encode_result_free(&other);
        }
        encode_result_free(&made);
        world_close(&w);
    }
}

/* Levels that have no runs beside those that do: each as if it were alone. */
static void levels_do_not_mind_each_other(void **state)
{
    (void)state;
    const uint64_t sizes[] = {5 * TILE + 9, 400};
    world w;
    world_open(&w, WEFT_BF16, sizes, COUNT(sizes), 2);
    for (uint64_t unit = 0; unit < w.layout->unit_count; unit++)
        change_unit(&w, unit, unit == 1 ? 60000 : 200, 20);
    for (uint32_t lanes = 1; lanes <= 3; lanes += 2) {
        encode_result all = encode(&w, 0xf, lanes, "auto");
        for (weft_level level = WEFT_LEVEL_FULL; level <= WEFT_LEVEL_TIGHT; level++) {
            encode_result one = encode(&w, 1u << level, 1, "auto");
            assert_int_equal(one.changed, all.changed);
            assert_int_equal(one.level[level].bytes, all.level[level].bytes);
            assert_memory_equal(one.level[level].data, all.level[level].data, one.level[level].bytes);
            if (lanes == 1)
                lands(&w, &one, level);
            encode_result_free(&one);
        }
        encode_result_free(&all);
    }
    world_close(&w);
}

/* A frame of a run codes at most 2^16 changes: one more, and its units are coded alone. */
static void too_many_changes_fall_back_to_units(void **state)
{
    (void)state;
    for (uint32_t more = 0; more < 2; more++) {
        const uint64_t sizes[] = {2 * TILE};
        world w;
        world_open(&w, WEFT_U8, sizes, 1, 1);
        uint32_t first = change_every(&w, 0, 3, 40000, false);
        assert_int_equal(first + change_every(&w, 1, 5, WEFT_FRAME_RUN_CHANGES - first + more, false),
                         WEFT_FRAME_RUN_CHANGES + more);
        encode_result made = encode(&w, CODED, 2, "auto");
        assert_int_equal(made.changed, WEFT_FRAME_RUN_CHANGES + more);
        assert_int_equal(made.jobs, more ? 3 : 1);
        for (weft_level level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
            tally sum = lands(&w, &made, level);
            assert_int_equal(sum.frames, more ? 2 : 1);
            assert_int_equal(sum.runs, more ? 0 : 1);
        }
        encode_result_free(&made);
        world_close(&w);
    }
}

/* A frame of a run is no larger than the largest of one unit: units that take half of a pack's room, and changes that
 * take many bits. */
static void large_frames_fall_back_to_units(void **state)
{
    (void)state;
    uint64_t sizes[MOST];
    world w;
    for (size_t t = 0; t < MOST; t++)
        sizes[t] = TILE / 2 + 1;
    world_open(&w, WEFT_U8, sizes, MOST, 6);
    assert_int_equal(w.layout->unit_count, MOST);
    w.parameters = (weft_parameters){.run_shift = 6};
    for (uint64_t unit = 0; unit < MOST; unit++) {
        for (int i = 0; i < 1023; i++) {
            uint64_t at = unit_at(&w, unit) + pair_below(&w.seed, TILE / 2);
            w.target[at] = (uint8_t)(w.base[at] + 64 + pair_below(&w.seed, 128));
        }
    }
    encode_result made = encode(&w, CODED, 1, "auto");
    assert_true(made.changed <= WEFT_FRAME_RUN_CHANGES);
    assert_int_equal(made.jobs, 1 + MOST);
    for (weft_level level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
        /* far more than the headers makes it larger than the largest frame */
        assert_true(made.level[level].bytes - MOST * 64 > w.layout->largest_frame);
        assert_int_equal(lands(&w, &made, level).runs, 0);
    }
    encode_result_free(&made);
    world_close(&w);
}

/* A run of few elements, all of which change, is not smaller than its dense bytes; nor are its units. */
static void dense_runs_fall_back_to_full_units(void **state)
{
    (void)state;
    const uint64_t sizes[] = {2 * TILE + 1, 3};
    world w;
    world_open(&w, WEFT_U8, sizes, COUNT(sizes), 1);
    assert_int_equal(w.layout->unit_count, 4);
    change_every(&w, 2, 1, UINT32_MAX, true);
    change_every(&w, 3, 1, UINT32_MAX, true);
    encode_result made = encode(&w, CODED, 1, "auto");
    assert_int_equal(made.changed, 4);
    for (weft_level level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
        tally sum = lands(&w, &made, level);
        assert_int_equal(sum.full, 2);
        assert_int_equal(made.level[level].bytes, 2 * (WEFT_FRAME_HEADER_BYTES + 4));
    }
    encode_result_free(&made);
    world_close(&w);
}

/* Runs end where the dtype does, and begin anew behind it. */
static void runs_end_with_their_stretch(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_U8, WEFT_U8, WEFT_I8, WEFT_U8, WEFT_U8};
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    const uint64_t sizes[] = {TILE + 5, 3 * TILE, 7, 2 * TILE, 0};
    weft_tensor tensors[COUNT(sizes)];
    for (size_t t = 0; t < COUNT(sizes); t++)
        tensors[t] = (weft_tensor){names[t], dtypes[t], 1, &sizes[t]};
    weft_layout *layout;
    pair_must(weft_layout_create(tensors, COUNT(sizes), &layout), "layout");
    assert_int_equal(layout->unit_count, 8); /* 2 + 3, 1, 2 */
    for (uint32_t shift = 0; shift <= WEFT_RUN_SHIFT_MAX; shift++) {
        const uint64_t stretch[] = {0, 5, 6, 8};
        for (size_t s = 0; s < 3; s++) {
            for (uint64_t unit = stretch[s]; unit < stretch[s + 1]; unit++) {
                uint64_t place = unit - stretch[s], end = ((place >> shift) + 1) << shift;
                uint64_t left = stretch[s + 1] - unit;
                assert_int_equal(weft_layout_run(layout, unit, shift), end - place < left ? end - place : left);
            }
        }
    }
    weft_layout_free(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_run_shift),
        cmocka_unit_test(levels_do_not_mind_each_other),
        cmocka_unit_test(too_many_changes_fall_back_to_units),
        cmocka_unit_test(large_frames_fall_back_to_units),
        cmocka_unit_test(dense_runs_fall_back_to_full_units),
        cmocka_unit_test(runs_end_with_their_stretch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Weights in boxes of every storage: each job of the host backend does with them as with the same bits in one piece,
 * and no other byte is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "codec/frame.h"
#include "tests/support/block_world.h"
#include "tests/support/unit_pair.h"

#define ROUNDS   40
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const weft_dtype dtypes[] = {WEFT_U8,  WEFT_F8_E4M3, WEFT_F4,  WEFT_F6_E2M3, WEFT_BF16,
                                    WEFT_F16, WEFT_F32,     WEFT_C64, WEFT_F64,     WEFT_I64};
static const char *const sets[] = {"portable", "avx2", "avx512"};

typedef struct trial {
    weft_layout *layout;
    uint8_t *base, *target; /* images */
    weft_binding base_image, target_image;
    block_world from, to; /* the same bits in boxes, cut in two ways */
    weft_binding from_boxes, to_boxes;
    weft_backend_state *state;
    weft_changes changes[2];
    uint8_t *frames[2];
    uint64_t room;
} trial;

static void layout_choose(trial *t, uint64_t *seed, bool large)
{
    weft_tensor tensors[PAIR_TENSORS];
    uint64_t shapes[PAIR_TENSORS][3];
    char names[PAIR_TENSORS][8];
    const uint64_t count = large ? 2 : 1 + pair_below(seed, PAIR_TENSORS);
    const weft_dtype dtype = large ? WEFT_BF16 : dtypes[pair_below(seed, COUNT(dtypes))];
    for (uint64_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "t%u", (unsigned)i);
        shapes[i][0] = 1 + pair_below(seed, 4);
        shapes[i][1] = large ? 300 + pair_below(seed, 200) : 1 + pair_below(seed, 40);
        shapes[i][2] = 4 * (large ? 150 + pair_below(seed, 20) : 1 + pair_below(seed, 20));
        const uint32_t rank = large ? 3 : (uint32_t)pair_below(seed, 4);
        tensors[i] = (weft_tensor){names[i], dtype, rank, shapes[i] + 3 - rank};
        if (rank == 0 && weft_dtype_find(dtype)->bits % 8)
            tensors[i].rank = 1, tensors[i].shape = shapes[i] + 2;
    }
    pair_must(weft_layout_create(tensors, count, &t->layout), "layout");
}

static void changes_take(const trial *t, weft_changes *changes)
{
    const uint64_t most = t->layout->elements;
    changes->capacity = (uint32_t)most;
    changes->position = pair_memory(4 * most + 64);
    changes->before = pair_memory(8 * most + 64);
    changes->after = pair_memory(8 * most + 64);
}

static void trial_open(trial *t, uint64_t *seed, bool large, const char *kernels)
{
    const weft_backend_options options = {.device = -1, .kernels = kernels};
    *t = (trial){0};
    layout_choose(t, seed, large);
    pair_must(weft_backend_host.open(&options, &t->state), "backend");
    t->base = pair_memory(t->layout->bytes);
    t->target = pair_memory(t->layout->bytes);
    for (uint64_t e = 0; e < t->layout->count; e++)
        for (uint64_t i = 0; i < t->layout->entries[e].coded; i++)
            pair_put(t->base + t->layout->entries[e].offset, i, pair_bits(seed, t->layout->entries[e].row),
                     t->layout->entries[e].row->width);
    memcpy(t->target, t->base, t->layout->bytes);
    unit_pair pair = {.layout = t->layout, .target = t->target};
    static const uint64_t densities[] = {1000, 11700, 79000, 400000, 1000000};
    pair_change(&pair, seed, densities[pair_below(seed, COUNT(densities))], pair_below(seed, 2));
    pair_must(weft_binding_open_image(t->layout, t->base, &t->base_image), "image");
    pair_must(weft_binding_open_image(t->layout, t->target, &t->target_image), "image");
    block_world_open(&t->from, t->layout, pair_random(seed), true);
    block_world_open(&t->to, t->layout, pair_random(seed), true);
    block_world_put(&t->from, t->base);
    block_world_put(&t->to, t->target);
    pair_must(weft_binding_open_blocks(t->layout, t->from.blocks, t->from.count, &t->from_boxes), "blocks");
    pair_must(weft_binding_open_blocks(t->layout, t->to.blocks, t->to.count, &t->to_boxes), "blocks");
    pair_must(weft_binding_apart(&t->from_boxes), "apart");
    changes_take(t, &t->changes[0]);
    changes_take(t, &t->changes[1]);
    t->room = t->layout->bytes * 2 + t->layout->unit_count * 64 + 4096;
    t->frames[0] = pair_memory(t->room);
    t->frames[1] = pair_memory(t->room);
}

static void trial_close(trial *t)
{
    for (int i = 0; i < 2; i++) {
        free(t->frames[i]);
        free(t->changes[i].position);
        free(t->changes[i].before);
        free(t->changes[i].after);
    }
    weft_binding_close(&t->base_image);
    weft_binding_close(&t->target_image);
    weft_binding_close(&t->from_boxes);
    weft_binding_close(&t->to_boxes);
    block_world_close(&t->from);
    block_world_close(&t->to);
    weft_backend_host.close(t->state);
    weft_layout_free(t->layout);
    free(t->base);
    free(t->target);
}

/* The bits in boxes are an image's, and every canary stands. */
static void holds(const trial *t, const block_world *world, const uint8_t *image)
{
    uint8_t *there = pair_memory(t->layout->bytes);
    block_world_get(world, there);
    assert_memory_equal(there, image, t->layout->bytes);
    assert_true(block_world_is_whole(world));
    free(there);
}

/* ---- jobs */

static void dense_and_digest(trial *t)
{
    const uint64_t parts = (t->layout->part_count + 1) * sizeof(uint64_t);
    uint64_t *wanted = pair_memory(parts), *found = pair_memory(parts);
    uint8_t *dense = pair_memory(1 << 20), *boxed = pair_memory(1 << 20);
    for (uint64_t u = 0; u < t->layout->unit_count; u++) {
        weft_load_job image = {.view = weft_binding_view(&t->base_image, u), .bytes = dense},
                      boxes = {.view = weft_binding_view(&t->from_boxes, u), .bytes = boxed};
        weft_digest_job a = {.view = image.view, .tensor_delta = wanted},
                        b = {.view = boxes.view, .tensor_delta = found};
        weft_backend_host.load(t->state, &image);
        weft_backend_host.load(t->state, &boxes);
        assert_memory_equal(dense, boxed, (uint64_t)image.view.count * image.view.width);
        weft_backend_host.digest(t->state, &a);
        weft_backend_host.digest(t->state, &b);
    }
    assert_memory_equal(wanted, found, parts);
    for (uint64_t u = 0; u < t->layout->unit_count; u++) {
        weft_load_job image = {.view = weft_binding_view(&t->target_image, u), .bytes = dense};
        weft_store_job boxes = {.view = weft_binding_view(&t->from_boxes, u), .bytes = dense};
        weft_backend_host.load(t->state, &image);
        weft_backend_host.store(t->state, &boxes);
    }
    holds(t, &t->from, t->target);
    block_world_put(&t->from, t->base);
    free(wanted);
    free(found);
    free(dense);
    free(boxed);
}

static void surveys(trial *t)
{
    weft_survey *counted = pair_memory(2 * sizeof *counted);
    for (uint64_t u = 0; u < t->layout->unit_count; u++) {
        weft_survey_job image = {.now = weft_binding_view(&t->target_image, u),
                                 .shadow = weft_binding_view(&t->base_image, u),
                                 .count = 128,
                                 .stride = 512,
                                 .survey = &counted[0],
                                 .stream = NULL},
                        boxes = {.now = weft_binding_view(&t->to_boxes, u),
                                 .shadow = weft_binding_view(&t->from_boxes, u),
                                 .count = 128,
                                 .stride = 512,
                                 .survey = &counted[1],
                                 .stream = NULL};
        weft_backend_host.survey(t->state, &image);
        weft_backend_host.survey(t->state, &boxes);
    }
    assert_memory_equal(&counted[0], &counted[1], sizeof *counted);
    free(counted);
}

/* Frames of `units` units of both bindings; bytes of one level. */
static uint64_t encode(trial *t, uint64_t unit, uint32_t units, weft_level level)
{
    uint64_t *delta[2], used[2];
    for (int i = 0; i < 2; i++) {
        weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
        sinks[level] = (weft_frame_sink){.data = t->frames[i], .capacity = t->room};
        delta[i] = pair_memory((t->layout->part_count + 1) * sizeof **delta);
        weft_encode_job job = {.now = weft_binding_span(i ? &t->to_boxes : &t->target_image, unit, units),
                               .shadow = weft_binding_span(i ? &t->from_boxes : &t->base_image, unit, units),
                               .largest_frame = t->layout->largest_frame,
                               .levels = 1u << level,
                               .sinks = sinks,
                               .tensor_delta = delta[i]};
        assert_int_equal(weft_backend_host.encode(t->state, &job), WEFT_OK);
        used[i] = sinks[level].used;
    }
    assert_int_equal(used[0], used[1]);
    assert_memory_equal(t->frames[0], t->frames[1], used[0]);
    assert_memory_equal(delta[0], delta[1], t->layout->part_count * sizeof **delta);
    free(delta[0]);
    free(delta[1]);
    return used[0];
}

static void decode(trial *t, const weft_frame *frame)
{
    uint64_t *delta = pair_memory((t->layout->part_count + 1) * sizeof *delta);
    for (int i = 0; i < 2; i++) {
        weft_decode_job job = {
            .frame = *frame,
            .base = weft_binding_span(i ? &t->from_boxes : &t->base_image, frame->header.unit, frame->header.units),
            .changes = &t->changes[i],
            .tensor_delta = delta};
        assert_int_equal(weft_backend_host.decode(t->state, &job), WEFT_OK);
    }
    const weft_changes *a = &t->changes[0], *b = &t->changes[1];
    const uint64_t bytes = (uint64_t)a->count * t->layout->units[frame->header.unit].width;
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->position, b->position, 4 * (uint64_t)a->count);
    assert_memory_equal(a->before, b->before, bytes);
    assert_memory_equal(a->after, b->after, bytes);
    free(delta);
}

/* Applies and undoes a frame's changes; `stay`: applies them once more. */
static void apply(trial *t, uint64_t unit, uint32_t units, bool stay)
{
    const weft_view view = weft_binding_span(&t->from_boxes, unit, units);
    weft_apply_job job = {.target = view, .changes = &t->changes[1]};
    weft_undo_job undo = {.target = view, .changes = &t->changes[1], .stream = NULL};
    assert_int_equal(weft_backend_host.apply(t->state, &job), WEFT_OK);
    assert_false(job.mismatch);
    assert_int_equal(weft_backend_host.apply(t->state, &job), WEFT_OK);
    assert_int_equal(job.mismatch, t->changes[1].count > 0);
    weft_backend_host.undo(t->state, &undo); /* what was there at the second */
    memcpy(t->changes[1].before, t->changes[0].before, (uint64_t)t->changes[0].count * view.width);
    weft_backend_host.undo(t->state, &undo);
    if (stay)
        weft_backend_host.apply(t->state, &job);
}

static void frames_land(trial *t, weft_level level, uint32_t shift)
{
    uint32_t units;
    for (uint64_t u = 0; u < t->layout->unit_count; u += units) {
        units = weft_layout_run(t->layout, u, shift);
        uint64_t used = encode(t, u, units, level);
        if (used == 0 && units > 1) {
            for (uint32_t i = 0; i < units; i++)
                encode(t, u + i, 1, level); /* the frames are compared; a run that has none is coded unit by unit */
            continue;
        }
        if (used == 0)
            continue;
        weft_frame frame;
        assert_int_equal(weft_frame_admit(t->layout, t->frames[0], used, &frame), WEFT_OK);
        decode(t, &frame);
        apply(t, u, units, shift == 0);
    }
    holds(t, &t->from, shift == 0 ? t->target : t->base);
    block_world_put(&t->from, t->base);
}

static void trial_run(uint64_t *seed, bool large, const char *kernels)
{
    trial t;
    trial_open(&t, seed, large, kernels);
    dense_and_digest(&t);
    surveys(&t);
    for (weft_level level = 0; level < WEFT_LEVEL_COUNT; level++) {
        frames_land(&t, level, 0);
        if (level != WEFT_LEVEL_FULL && level != WEFT_LEVEL_PAIRS)
            frames_land(&t, level, 3);
    }
    holds(&t, &t.to, t.target);
    trial_close(&t);
}

static bool has(const char *kernels)
{
    const weft_backend_options options = {.device = -1, .kernels = kernels};
    weft_backend_state *state;
    const bool opened = weft_backend_host.open(&options, &state) == WEFT_OK;
    if (opened)
        weft_backend_host.close(state);
    return opened;
}

static void boxes_are_as_pieces(void **state)
{
    (void)state;
    uint64_t seed = 20;
    for (size_t s = 0; s < COUNT(sets); s++) {
        for (int round = 0; has(sets[s]) && round < ROUNDS; round++)
            trial_run(&seed, false, sets[s]);
    }
}

static void boxes_of_many_units_are_as_pieces(void **state)
{
    (void)state;
    uint64_t seed = 21;
    for (int round = 0; round < 3; round++)
        trial_run(&seed, true, "auto");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(boxes_are_as_pieces),
                                       cmocka_unit_test(boxes_of_many_units_are_as_pieces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

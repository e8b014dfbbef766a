/* Masters of F32 that are read as BF16 and F16: every kernel set rounds by the rule, and each job of the host backend
 * that reads weights does with a master as with its mirror. WEFT_FULL=1 rounds all 2^32 patterns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "backends/host/host_state.h"
#include "base/status.h"
#include "layout/box.h"
#include "tests/support/cast_world.h"

#define ROUNDS   30
#define STEPS    4
#define SOME     4096u
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const sets[] = {"portable", "avx2", "avx512"};

/* NULL: this CPU does not run the set. */
static const weft_host_kernels *kernels_of(const char *name)
{
    const weft_host_kernels *kernels;
    return weft_host_choose(name, &kernels) == WEFT_OK ? kernels : NULL;
}

/* ---- the rule */

static const weft_dtype dtypes[WEFT_CASTS] = {[WEFT_CAST_BF16] = WEFT_BF16, [WEFT_CAST_F16] = WEFT_F16};

static void sets_compare_as(const uint32_t *from, uint32_t count, weft_cast cast)
{
    uint16_t to[SOME], wanted[SOME];
    for (uint32_t i = 0; i < count; i++)
        wanted[i] = cast_rule(dtypes[cast], from[i]);
    for (size_t s = 0; s < COUNT(sets); s++) {
        const weft_host_kernels *kernels = kernels_of(sets[s]);
        if (!kernels)
            continue;
        kernels->cast[cast]((const uint8_t *)from, count, (uint8_t *)to);
        for (uint32_t i = 0; memcmp(to, wanted, count * sizeof *to) != 0 && i < count; i++)
            if (to[i] != wanted[i])
                fail_msg("%s, cast %d: %08x becomes %04x, the rule says %04x", kernels->name, cast, from[i], to[i],
                         wanted[i]);
    }
}

/* Every set rounds `count` values as the rules do. */
static void sets_compare(const uint32_t *from, uint32_t count)
{
    for (weft_cast cast = WEFT_CAST_BF16; cast < WEFT_CASTS; cast++)
        sets_compare_as(from, count, cast);
}

/* Every upper half, with the lower halves at and beside the tie. */
static void upper_halves_round(void **state)
{
    static const uint16_t lows[] = {0, 1, 0x1234, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};
    uint32_t from[SOME], count = 0;
    (void)state;
    for (uint64_t i = 0; i < 65536 * COUNT(lows); i++) {
        from[count++] = (uint32_t)(i / COUNT(lows)) << 16 | lows[i % COUNT(lows)];
        if (count < SOME)
            continue;
        sets_compare(from, count);
        count = 0;
    }
}

/* Each value of F16 that is finite, the tie above it, and the neighbours of both. */
static void ties_of_halves_round(void **state)
{
    uint32_t from[12];
    (void)state;
    for (uint32_t half = 0; half < 0x7c00; half++) {
        const float low = cast_half_value(half), above = half < 0x7bff ? cast_half_value(half + 1) : 65536;
        const float tie = low + (above - low) / 2;
        memcpy(&from[0], &low, 4);
        memcpy(&from[3], &tie, 4);
        for (uint32_t i = 0; i < 6; i += 3) {
            from[i + 1] = from[i] + 1;
            from[i + 2] = from[i] - (from[i] > 0);
        }
        for (uint32_t i = 0; i < 6; i++)
            from[i + 6] = from[i] | 1u << 31;
        sets_compare(from, COUNT(from));
    }
}

/* No element of the lists' ends is lost or written beyond, wherever they begin. */
static void lists_of_every_length_round(void **state)
{
    uint64_t seed = 1;
    (void)state;
    for (size_t s = 0; s < COUNT(sets); s++) {
        const weft_host_kernels *kernels = kernels_of(sets[s]);
        for (uint32_t count = 0; kernels && count < 280; count++) {
            const weft_cast cast = count % 2 ? WEFT_CAST_F16 : WEFT_CAST_BF16;
            uint8_t *from = pair_memory(4 * (uint64_t)count + 1), *to = pair_memory(2 * (uint64_t)count + 2);
            for (uint32_t i = 0; i < count; i++)
                pair_put(from + 1, i, cast_bits(dtypes[cast], &seed), 4);
            to[2 * count + 1] = 0xa5;
            kernels->cast[cast](from + 1, count, to + 1);
            for (uint32_t i = 0; i < count; i++)
                assert_int_equal(pair_get(to + 1, i, 2), cast_rule(dtypes[cast], (uint32_t)pair_get(from + 1, i, 4)));
            assert_int_equal(to[2 * count + 1], 0xa5);
            free(from);
            free(to);
        }
    }
}

/* Of the stretches of patterns one in so many; WEFT_FULL=1: each. */
static void patterns_round(void **state)
{
    const uint64_t step = getenv("WEFT_FULL") ? SOME : 1021 * SOME;
    uint32_t from[SOME];
    (void)state;
    for (uint64_t begin = 0; begin <= UINT32_MAX; begin += step) {
        for (uint32_t i = 0; i < SOME; i++)
            from[i] = (uint32_t)begin + i;
        sets_compare(from, SOME);
    }
}

/* ---- jobs */

typedef struct trial {
    weft_layout *layout;
    cast_world masters;
    uint8_t *shadow, *mirror; /* images: the bits before the step, and after it */
    weft_binding shadow_image, mirror_image, casts;
    weft_backend_state *state;
    uint8_t *frames[2];
    uint64_t room;
} trial;

static void layout_choose(trial *t, uint64_t *seed, bool large)
{
    static const weft_dtype some[] = {WEFT_BF16, WEFT_BF16, WEFT_F16, WEFT_F16, WEFT_F32, WEFT_I8};
    weft_tensor tensors[PAIR_TENSORS];
    uint64_t shapes[PAIR_TENSORS][3];
    char names[PAIR_TENSORS][8];
    const uint64_t count = large ? 2 : 1 + pair_below(seed, PAIR_TENSORS);
    for (uint64_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "t%u", (unsigned)i);
        shapes[i][0] = 1 + pair_below(seed, 4);
        shapes[i][1] = large ? 300 + pair_below(seed, 200) : 1 + pair_below(seed, 40);
        shapes[i][2] = large ? 600 + pair_below(seed, 80) : 1 + pair_below(seed, 80);
        const uint32_t rank = large ? 3 : (uint32_t)pair_below(seed, 4);
        tensors[i] = (weft_tensor){names[i], large ? some[1 + i] : some[pair_below(seed, COUNT(some))], rank,
                                   shapes[i] + 3 - rank};
    }
    pair_must(weft_layout_create(tensors, count, &t->layout), "layout");
}

static void trial_open(trial *t, uint64_t *seed, bool large, const char *kernels)
{
    const weft_backend_options options = {.device = -1, .kernels = kernels};
    *t = (trial){0};
    layout_choose(t, seed, large);
    pair_must(weft_backend_host.open(&options, &t->state), "backend");
    cast_world_open(&t->masters, t->layout, seed);
    t->shadow = pair_memory(t->layout->bytes);
    t->mirror = pair_memory(t->layout->bytes);
    cast_mirror(&t->masters, t->shadow, true);
    cast_mirror(&t->masters, t->mirror, true);
    pair_must(weft_binding_open_image(t->layout, t->shadow, &t->shadow_image), "image");
    pair_must(weft_binding_open_image(t->layout, t->mirror, &t->mirror_image), "image");
    pair_must(weft_binding_open_blocks(t->layout, t->masters.world.blocks, t->masters.world.count, &t->casts),
              "blocks");
    t->room = t->layout->bytes * 2 + t->layout->unit_count * 64 + 4096;
    t->frames[0] = pair_memory(t->room);
    t->frames[1] = pair_memory(t->room);
}

static void trial_close(trial *t)
{
    weft_binding_close(&t->casts);
    weft_binding_close(&t->shadow_image);
    weft_binding_close(&t->mirror_image);
    cast_world_close(&t->masters);
    weft_backend_host.close(t->state);
    weft_layout_free(t->layout);
    free(t->frames[0]);
    free(t->frames[1]);
    free(t->shadow);
    free(t->mirror);
}

static void dense_and_digest(trial *t)
{
    const uint64_t parts = (t->layout->part_count + 1) * sizeof(uint64_t);
    uint64_t *wanted = pair_memory(parts), *found = pair_memory(parts);
    uint8_t *dense = pair_memory(1 << 20), *read = pair_memory(1 << 20);
    for (uint64_t u = 0; u < t->layout->unit_count; u++) {
        weft_load_job mirror = {.view = weft_binding_view(&t->mirror_image, u), .bytes = dense},
                      casts = {.view = weft_binding_view(&t->casts, u), .bytes = read};
        weft_digest_job a = {.view = mirror.view, .tensor_delta = wanted},
                        b = {.view = casts.view, .tensor_delta = found};
        weft_backend_host.load(t->state, &mirror);
        weft_backend_host.load(t->state, &casts);
        assert_memory_equal(dense, read, (uint64_t)mirror.view.count * mirror.view.width);
        weft_backend_host.digest(t->state, &a);
        weft_backend_host.digest(t->state, &b);
    }
    assert_memory_equal(wanted, found, parts);
    free(wanted);
    free(found);
    free(dense);
    free(read);
}

static void surveys(trial *t)
{
    weft_survey *counted = pair_memory(2 * sizeof *counted);
    for (uint64_t u = 0; u < t->layout->unit_count; u++) {
        for (int i = 0; i < 2; i++) {
            weft_survey_job job = {.now = weft_binding_view(i ? &t->casts : &t->mirror_image, u),
                                   .shadow = weft_binding_view(&t->shadow_image, u),
                                   .count = 128,
                                   .stride = 512,
                                   .survey = &counted[i]};
            weft_backend_host.survey(t->state, &job);
        }
    }
    assert_memory_equal(&counted[0], &counted[1], sizeof *counted);
    free(counted);
}

/* Frames of every level at once, as publish asks for them, or of one. */
static void frames_equal(trial *t, uint64_t unit, uint32_t units, uint32_t levels)
{
    uint64_t *delta[2], used[2][WEFT_LEVEL_COUNT];
    weft_encode_job job[2];
    for (int i = 0; i < 2; i++) {
        weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
        for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++)
            sinks[level] = (weft_frame_sink){.data = t->frames[i] + level * (t->room / WEFT_LEVEL_COUNT),
                                             .capacity = t->room / WEFT_LEVEL_COUNT};
        delta[i] = pair_memory((t->layout->part_count + 1) * sizeof **delta);
        job[i] = (weft_encode_job){.now = weft_binding_span(i ? &t->casts : &t->mirror_image, unit, units),
                                   .shadow = weft_binding_span(&t->shadow_image, unit, units),
                                   .largest_frame = t->layout->largest_frame,
                                   .levels = levels,
                                   .sinks = sinks,
                                   .tensor_delta = delta[i]};
        assert_int_equal(weft_backend_host.encode(t->state, &job[i]), WEFT_OK);
        for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++)
            used[i][level] = sinks[level].used;
    }
    assert_int_equal(job[0].alone, job[1].alone);
    assert_memory_equal(used[0], used[1], sizeof used[0]);
    assert_memory_equal(t->frames[0], t->frames[1], t->room);
    assert_memory_equal(delta[0], delta[1], t->layout->part_count * sizeof **delta);
    free(delta[0]);
    free(delta[1]);
}

static void frames(trial *t)
{
    uint32_t units;
    for (uint64_t u = 0; u < t->layout->unit_count; u++) {
        frames_equal(t, u, 1, (1u << WEFT_LEVEL_COUNT) - 1);
        for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++)
            frames_equal(t, u, 1, 1u << level);
    }
    for (uint64_t u = 0; u < t->layout->unit_count; u += units) {
        units = weft_layout_run(t->layout, u, 3);
        frames_equal(t, u, units, 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_TIGHT);
    }
}

/* The mirror takes each step after the master, and becomes the shadow of the next. */
static void trial_run(uint64_t *seed, bool large, const char *kernels)
{
    static const uint64_t per_mille[STEPS] = {1, 30, 400, 1000};
    trial t;
    trial_open(&t, seed, large, kernels);
    for (int step = 0; step < STEPS; step++) {
        cast_change(&t.masters, seed, per_mille[step]);
        cast_mirror(&t.masters, t.mirror, true);
        dense_and_digest(&t);
        surveys(&t);
        frames(&t);
        memcpy(t.shadow, t.mirror, t.layout->bytes);
    }
    assert_true(block_world_is_whole(&t.masters.world));
    trial_close(&t);
}

static void a_master_is_as_its_mirror(void **state)
{
    uint64_t seed = 40;
    (void)state;
    for (size_t s = 0; s < COUNT(sets); s++)
        for (int round = 0; kernels_of(sets[s]) && round < ROUNDS; round++)
            trial_run(&seed, false, sets[s]);
}

static void a_master_of_many_units_is_as_its_mirror(void **state)
{
    uint64_t seed = 41;
    (void)state;
    for (int round = 0; round < 2; round++)
        trial_run(&seed, true, "auto");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(upper_halves_round),
                                       cmocka_unit_test(lists_of_every_length_round),
                                       cmocka_unit_test(patterns_round),
                                       cmocka_unit_test(ties_of_halves_round),
                                       cmocka_unit_test(a_master_is_as_its_mirror),
                                       cmocka_unit_test(a_master_of_many_units_is_as_its_mirror)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

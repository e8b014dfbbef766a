/* Updates that follow each other, merged without a weight: what they make together, the bytes they become, and what is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/support/merge_world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const weft_dtype dtypes[] = {WEFT_BF16,    WEFT_F32, WEFT_F8_E4M3, WEFT_F64, WEFT_I8,
                                    WEFT_F8_E5M2, WEFT_F16, WEFT_I64,     WEFT_C64, WEFT_U16};

/* Packs of several tensors, tiles, and a short last unit: units of one stretch. */
static const uint64_t few[] = {262144 + 70, 1000, 0, 9};
static const uint64_t many[] = {200000, 140000, 262144, 1, 300000, 5000};

static weft_merger merger_of(merge_world *w)
{
    weft_merger merger;
    pair_must(weft_merger_open(&merger, &weft_backend_host, w->state, w->layout, WEFT_RUN_SHIFT_MAX), "merger");
    return merger;
}

static void free_all(update_frames *updates, size_t count)
{
    for (size_t i = 0; i < count; i++)
        frames_free(&updates[i]);
}

/* ---- level fast */

/* The merge of the chain from version 0 gives the bits of the chain's end, by the very bytes of the direct update. True
 * if some of those are of dense units. */
static bool chain_merges(merge_world *w, weft_merger *merger, update_frames *updates, size_t count)
{
    update_frames direct = world_encode(w, 0, (uint32_t)count, WEFT_LEVEL_FAST, updates[0].shift);
    update_frames merged;
    const bool dense = frames_have_full(&direct);
    for (size_t i = 1; i < count; i++)
        assert_true(updates[i].shift >= updates[0].shift);
    pair_must(world_merge(w, merger, updates, count, &merged), "merge");
    world_apply(w, 0, &merged);
    assert_true(world_is(w, (uint32_t)count));
    assert_int_equal(merged.bytes, direct.bytes);
    assert_memory_equal(merged.data, direct.data, direct.bytes);
    assert_int_equal(merged.changed, direct.changed);
    frames_free(&merged);
    frames_free(&direct);
    return dense;
}

/* Chains of any length, of sparse and dense updates, each with its own runs. The first has the shortest ones. */
static void chains_become_the_direct_update(void **state)
{
    static const uint64_t densities[] = {0, 20, 1000, 11700, 100000};
    (void)state;
    for (uint64_t round = 0; round < 20; round++) {
        uint64_t seed = round;
        merge_world w;
        update_frames updates[WORLD_VERSIONS];
        uint32_t length = 2 + (uint32_t)pair_below(&seed, 8), least = (uint32_t)pair_below(&seed, 4);
        const bool long_runs = round % 4 == 0;
        world_open(&w, &seed, dtypes[round % COUNT(dtypes)], long_runs ? many : few, long_runs ? 6 : 4);
        weft_merger merger = merger_of(&w);
        for (uint32_t i = 0; i < length; i++) {
            world_step(&w, &seed, densities[pair_below(&seed, COUNT(densities))]);
            updates[i] = world_encode(&w, i, i + 1, WEFT_LEVEL_FAST, least + (i ? (uint32_t)pair_below(&seed, 4) : 0));
        }
        chain_merges(&w, &merger, updates, length);
        free_all(updates, length);
        weft_merger_close(&merger);
        world_close(&w);
    }
}

/* Chains of updates that change everything, by any steps or by few: units as steps add up among themselves and with
 * level fast, packed in planes or not. */
static void everything_changes(void **state)
{
    (void)state;
    uint32_t dense = 0;
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        uint64_t seed = 100 + d;
        const uint64_t sizes[] = {3000, 500};
        merge_world w;
        update_frames updates[6];
        world_open(&w, &seed, dtypes[d], d % 3 ? sizes : few, d % 3 ? 2 : 4);
        weft_merger merger = merger_of(&w);
        for (uint32_t i = 0; i < COUNT(updates); i++) {
            if ((i + d) % 3)
                world_scatter(&w, &seed);
            else
                world_step(&w, &seed, 1000000);
            updates[i] = world_encode(&w, i, i + 1, WEFT_LEVEL_FAST, 1);
            assert_true((i + d) % 3 == 0 || frames_have_full(&updates[i]));
            if (i % 2) {
                update_frames plain = updates[i];
                updates[i] = world_pack(&w, &plain);
                frames_free(&plain);
            }
        }
        for (uint32_t count = 1; count <= COUNT(updates); count++)
            dense += chain_merges(&w, &merger, updates, count);
        free_all(updates, COUNT(updates));
        weft_merger_close(&merger);
        world_close(&w);
    }
    assert_in_range(dense, 30, 60);
}

/* Back to where it began: nothing is left. */
static void a_way_back_is_nothing(void **state)
{
    (void)state;
    uint64_t seed = 5;
    merge_world w;
    update_frames updates[2], merged;
    world_open(&w, &seed, WEFT_BF16, few, 4);
    weft_merger merger = merger_of(&w);
    world_step(&w, &seed, 30000);
    updates[0] = world_encode(&w, 0, 1, WEFT_LEVEL_FAST, 2);
    updates[1] = world_encode(&w, 1, 0, WEFT_LEVEL_FAST, 0);
    pair_must(world_merge(&w, &merger, updates, 2, &merged), "merge");
    assert_int_equal(merged.bytes, 0);
    assert_int_equal(merged.changed, 0);
    frames_free(&merged);
    free_all(updates, 2);
    world_scatter(&w, &seed);
    updates[0] = world_encode(&w, 1, 2, WEFT_LEVEL_FAST, 1);
    updates[1] = world_encode(&w, 2, 1, WEFT_LEVEL_FAST, 0);
    assert_true(frames_have_full(&updates[0]) && frames_have_full(&updates[1]));
    pair_must(world_merge(&w, &merger, updates, 2, &merged), "merge");
    assert_int_equal(merged.bytes, 0);
    frames_free(&merged);
    free_all(updates, 2);
    weft_merger_close(&merger);
    world_close(&w);
}

/* Puts each unit of one dtype as the version in `stands` left it. */
static void mix(merge_world *w, const uint32_t *stands)
{
    uint64_t at = 0;
    for (uint64_t unit = 0; unit < w->layout->unit_count; unit++) {
        uint64_t bytes = (uint64_t)w->layout->units[unit].count * w->layout->units[unit].width;
        memcpy(w->work + at, w->image[stands[unit]] + at, bytes);
        at += bytes;
    }
    assert_int_equal(at, w->layout->bytes);
}

/* Units read one after the other while versions come: later units stand at later versions. What each update says of
 * units that have it is left out, also in the middle of a run; what remains brings all to the last. */
static void units_of_several_versions_meet(void **state)
{
    (void)state;
    for (uint64_t seed = 1, rounds = 24; rounds > 0; rounds--) {
        enum { VERSIONS = 5, UNITS = 16 };
        merge_world w;
        update_frames updates[VERSIONS], merged;
        uint32_t stands[UNITS] = {0};
        world_open(&w, &seed, dtypes[rounds % COUNT(dtypes)], many, 6);
        assert_in_range(w.layout->unit_count, 2, UNITS);
        weft_merger merger = merger_of(&w);
        uint64_t sent = 0;
        for (uint32_t v = 1; v <= VERSIONS; v++) {
            sent += pair_below(&seed, w.layout->unit_count - sent + 1);
            if (rounds % 6 == 0 && v % 2)
                world_scatter(&w, &seed);
            else
                world_step(&w, &seed, 10000);
            updates[v - 1] = world_encode(&w, v - 1, v, WEFT_LEVEL_FAST, (uint32_t)pair_below(&seed, 4));
            updates[v - 1].unit_limit = sent;
            for (uint64_t unit = sent; unit < w.layout->unit_count; unit++)
                stands[unit] = v;
        }
        uint32_t skipped = 0; /* a limit of 0 says that there is none: such a version is left out as a whole */
        while (skipped < VERSIONS && updates[skipped].unit_limit == 0)
            skipped++;
        mix(&w, stands);
        if (skipped < VERSIONS) {
            pair_must(world_merge(&w, &merger, updates + skipped, VERSIONS - skipped, &merged), "merge");
            world_apply_on(&w, &merged);
            frames_free(&merged);
        }
        assert_true(world_is(&w, VERSIONS));
        free_all(updates, VERSIONS);
        weft_merger_close(&merger);
        world_close(&w);
    }
}

/* In any order of merging: the same bytes. */
static void merging_is_associative(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 6; round++) {
        uint64_t seed = 40 + round;
        merge_world w;
        update_frames u[4], left[2], right[2], at_once, stepwise, backwards;
        world_open(&w, &seed, dtypes[round], round % 2 ? many : few, round % 2 ? 6 : 4);
        weft_merger merger = merger_of(&w);
        for (uint32_t i = 0; i < 4; i++) {
            if (round == 5 && i == 2)
                world_scatter(&w, &seed);
            else
                world_step(&w, &seed, 500 + 4000 * pair_below(&seed, 3));
            u[i] = world_encode(&w, i, i + 1, WEFT_LEVEL_FAST, (uint32_t)pair_below(&seed, 4));
        }
        pair_must(world_merge(&w, &merger, u, 4, &at_once), "merge");
        pair_must(world_merge(&w, &merger, u, 2, &left[0]), "merge");
        pair_must(world_merge(&w, &merger, u + 2, 2, &left[1]), "merge");
        pair_must(world_merge(&w, &merger, left, 2, &stepwise), "merge");
        pair_must(world_merge(&w, &merger, u + 1, 3, &right[1]), "merge");
        right[0] = u[0];
        pair_must(world_merge(&w, &merger, right, 2, &backwards), "merge");
        assert_int_equal(at_once.bytes, stepwise.bytes);
        assert_memory_equal(at_once.data, stepwise.data, at_once.bytes);
        assert_int_equal(at_once.bytes, backwards.bytes);
        assert_memory_equal(at_once.data, backwards.data, at_once.bytes);
        frames_free(&at_once);
        frames_free(&stepwise);
        frames_free(&backwards);
        frames_free(&right[1]);
        free_all(left, 2);
        free_all(u, 4);
        weft_merger_close(&merger);
        world_close(&w);
    }
}

/* ---- absolute levels and mixtures */

/* A chain whose updates have levels of `mask`; whether it can be one. */
static bool mixture_merges(uint64_t seed, uint32_t mask, bool packed, uint64_t per_million)
{
    const uint64_t sizes[] = {4000, 262144, 300, 70};
    uint32_t length = 2 + (uint32_t)pair_below(&seed, 8);
    merge_world w;
    update_frames updates[WORLD_VERSIONS], merged;
    world_open(&w, &seed, dtypes[seed % COUNT(dtypes)], sizes, 4);
    weft_merger merger = merger_of(&w);
    for (uint32_t i = 0; i < length; i++) {
        uint32_t level = WEFT_LEVEL_FULL;
        do
            level = (uint32_t)pair_below(&seed, 3);
        while (!(mask & 1u << level));
        if (level == WEFT_LEVEL_FAST && pair_below(&seed, 8) == 0)
            world_scatter(&w, &seed); /* which says nothing of bits */
        else
            world_step(&w, &seed, per_million);
        updates[i] = world_encode(&w, i, i + 1, (weft_level)level, (uint32_t)pair_below(&seed, 3));
        if (packed) {
            update_frames plain = updates[i];
            updates[i] = world_pack(&w, &plain);
            frames_free(&plain);
        }
    }
    weft_status status = world_merge(&w, &merger, updates, length, &merged);
    if (status == WEFT_OK) {
        world_apply(&w, 0, &merged);
        assert_true(world_is(&w, length));
    } else {
        assert_int_equal(status, WEFT_E_ARGUMENT);
        assert_non_null(strstr(weft_last_error(), "give the base"));
    }
    frames_free(&merged);
    free_all(updates, length);
    weft_merger_close(&merger);
    world_close(&w);
    return status == WEFT_OK;
}

#define FULL  (1u << WEFT_LEVEL_FULL)
#define PAIRS (1u << WEFT_LEVEL_PAIRS)
#define FAST  (1u << WEFT_LEVEL_FAST)

static void absolute_levels_merge(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 8; round++) {
        assert_true(mixture_merges(200 + round, FULL, round % 2, 10000));
        assert_true(mixture_merges(300 + round, PAIRS, false, 3000));
        assert_true(mixture_merges(400 + round, FULL | PAIRS, round % 2, 3000));
        assert_true(mixture_merges(500 + round, FULL | FAST, round % 2, 3000));
    }
}

/* Steps and new bits in one unit: merged right, or not at all. */
static void mixtures_are_right_or_refused(void **state)
{
    (void)state;
    uint32_t merged = 0;
    for (uint64_t round = 0; round < 24; round++)
        merged += mixture_merges(600 + round, FULL | PAIRS | FAST, round % 2, round % 3 ? 2 : 3000);
    assert_in_range(merged, 1, 23);
}

static void tight_needs_the_base(void **state)
{
    (void)state;
    uint64_t seed = 1;
    merge_world w;
    update_frames updates[2], merged;
    world_open(&w, &seed, WEFT_BF16, few, 4);
    weft_merger merger = merger_of(&w);
    world_step(&w, &seed, 10000);
    updates[0] = world_encode(&w, 0, 1, WEFT_LEVEL_TIGHT, 0);
    updates[1] = world_encode(&w, 1, 0, WEFT_LEVEL_FAST, 0);
    assert_int_equal(world_merge(&w, &merger, updates, 2, &merged), WEFT_E_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "give the base"));
    updates[0].level = WEFT_LEVEL_FAST; /* a header that lies: its frames say what they are */
    assert_int_equal(world_merge(&w, &merger, updates, 2, &merged), WEFT_E_ARGUMENT);
    free_all(updates, 2);
    weft_merger_close(&merger);
    world_close(&w);
}

/* ---- hostile frames */

/* Frames with struck bits are refused or mean something; the merger is none the worse for it. */
static void struck_frames_do_no_harm(void **state)
{
    (void)state;
    uint64_t seed = 77;
    uint32_t refused = 0;
    const uint64_t sizes[] = {3000, 262144, 40000};
    merge_world w;
    update_frames updates[2], merged, again;
    world_open(&w, &seed, WEFT_BF16, sizes, 3);
    weft_merger merger = merger_of(&w);
    for (uint32_t i = 0; i < 2; i++) {
        world_step(&w, &seed, 2000);
        updates[i] = world_encode(&w, i, i + 1, WEFT_LEVEL_FAST, 1);
    }
    pair_must(world_merge(&w, &merger, updates, 2, &merged), "merge");
    for (uint32_t round = 0; round < 400; round++) {
        update_frames struck = {.level = WEFT_LEVEL_FAST, .shift = 1}, pair[2], out;
        frames_put(&struck, updates[1].data, updates[1].bytes);
        uint64_t limit = round % 2 ? 16 : struck.bytes;
        for (uint64_t n = 1 + pair_below(&seed, 3); n > 0; n--)
            struck.data[pair_below(&seed, limit)] ^= (uint8_t)(1u << pair_below(&seed, 8));
        pair[0] = updates[0];
        pair[1] = struck;
        weft_status status = world_merge(&w, &merger, pair, 2, &out);
        refused += status != WEFT_OK;
        assert_true(status == WEFT_OK || status == WEFT_E_CORRUPT || status == WEFT_E_ARGUMENT);
        frames_free(&out);
        frames_free(&struck);
    }
    assert_in_range(refused, 100, 400);
    pair_must(world_merge(&w, &merger, updates, 2, &again), "merge");
    assert_int_equal(again.bytes, merged.bytes);
    assert_memory_equal(again.data, merged.data, merged.bytes);
    frames_free(&again);
    frames_free(&merged);
    free_all(updates, 2);
    weft_merger_close(&merger);
    world_close(&w);
}

/* A frame that spans more units than its update's runs have could leave the room. */
static void frames_beyond_their_runs_are_refused(void **state)
{
    (void)state;
    uint64_t seed = 3;
    merge_world w;
    update_frames update, merged;
    world_open(&w, &seed, WEFT_I8, many, 6);
    world_step(&w, &seed, 500);
    update = world_encode(&w, 0, 1, WEFT_LEVEL_FAST, 2);
    for (uint32_t shift = 0; shift < 2; shift++) {
        weft_merger merger;
        pair_must(weft_merger_open(&merger, &weft_backend_host, w.state, w.layout, shift), "merger");
        assert_int_equal(world_merge(&w, &merger, &update, 1, &merged), WEFT_E_ARGUMENT);
        update.shift = shift;
        assert_int_equal(world_merge(&w, &merger, &update, 1, &merged), WEFT_E_CORRUPT);
        update.shift = 2;
        weft_merger_close(&merger);
    }
    frames_free(&update);
    world_close(&w);
}

/* A source that goes back to units which were merged already. */
static void frames_of_units_before_are_refused(void **state)
{
    (void)state;
    uint64_t seed = 4;
    merge_world w;
    update_frames swapped = {.level = WEFT_LEVEL_FAST}, merged;
    world_open(&w, &seed, WEFT_I8, many, 6);
    weft_merger merger = merger_of(&w);
    world_step(&w, &seed, 500);
    update_frames update = world_encode(&w, 0, 1, WEFT_LEVEL_FAST, 0);
    const uint64_t first = weft_frame_measure(update.data, update.bytes);
    frames_put(&swapped, update.data + first, update.bytes - first);
    frames_put(&swapped, update.data, first);
    assert_int_equal(world_merge(&w, &merger, &swapped, 1, &merged), WEFT_E_CORRUPT);
    assert_non_null(strstr(weft_last_error(), "unit 0 and 0 more: not in its place"));
    frames_free(&swapped);
    frames_free(&update);
    weft_merger_close(&merger);
    world_close(&w);
}

/* ---- a pass that ends early */

static uint32_t emits_left, moves_left;
static uint64_t told;

static weft_status emit(void *user, const uint8_t *frames, uint64_t bytes)
{
    return emits_left-- ? frames_merged(user, frames, bytes) : weft_fail(WEFT_E_STATE, "emit");
}

static weft_status moved(void *user, uint64_t unit)
{
    (void)user;
    assert_true(unit > told);
    told = unit;
    return moves_left-- ? WEFT_OK : weft_fail(WEFT_E_STATE, "moved");
}

/* The bytes of an update's frames of units below `unit`, and the unit of the frame after them. */
static uint64_t bytes_below(const update_frames *update, uint64_t unit, uint64_t *next)
{
    uint64_t at = 0;
    *next = UINT64_MAX;
    for (; at < update->bytes && *next == UINT64_MAX; at += weft_frame_measure(update->data + at, update->bytes - at)) {
        *next = pair_get(update->data + at, 0, 4);
        if (*next >= unit)
            return at;
        *next = UINT64_MAX;
    }
    return at;
}

/* Wherever a pass ends, another goes on from its end, and both together are the whole. */
static void a_pass_goes_on_where_one_ended(void **state)
{
    (void)state;
    uint64_t seed = 6, next = 0, frames = 0;
    merge_world w;
    world_open(&w, &seed, WEFT_I8, many, 6);
    weft_merger merger = merger_of(&w);
    world_step(&w, &seed, 10000);
    update_frames update = world_encode(&w, 0, 1, WEFT_LEVEL_FAST, 0);
    for (uint64_t unit = 0; bytes_below(&update, unit, &next) < update.bytes; unit = next + 1)
        frames++;
    const uint32_t units = (uint32_t)w.layout->unit_count;
    const weft_merge_source source = {&update, frames_next, WEFT_LEVEL_FAST, 0, 0};
    assert_true(frames > 3);
    for (uint32_t at = 0; at < frames + units; at++) {
        update_frames made = {.level = WEFT_LEVEL_FAST};
        weft_merge_pass pass = {.sources = &source, .count = 1, .level = WEFT_LEVEL_FAST, .emit = emit, .user = &made};
        pass.moved = moved;
        emits_left = at < frames ? at : UINT32_MAX;
        moves_left = at < frames ? UINT32_MAX : at - (uint32_t)frames;
        update.at = told = 0;
        assert_int_equal(weft_merger_run(&merger, &pass), WEFT_E_STATE);
        assert_string_equal(weft_last_error(), at < frames ? "emit" : "moved");
        assert_int_equal(pass.end, told);
        update.at = bytes_below(&update, pass.end, &next);
        assert_int_equal(made.bytes, update.at);
        assert_true(at < frames ? pass.end == next : pass.end == at - frames + 1);
        emits_left = moves_left = UINT32_MAX;
        pass.unit = pass.end;
        pair_must(weft_merger_run(&merger, &pass), "merge");
        assert_int_equal(pass.end, units);
        if (at == 0) /* all was left to the second */
            assert_int_equal(pass.changed, update.changed);
        assert_int_equal(made.bytes, update.bytes);
        assert_memory_equal(made.data, update.data, update.bytes);
        frames_free(&made);
    }
    frames_free(&update);
    weft_merger_close(&merger);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_become_the_direct_update),
        cmocka_unit_test(everything_changes),
        cmocka_unit_test(a_way_back_is_nothing),
        cmocka_unit_test(units_of_several_versions_meet),
        cmocka_unit_test(merging_is_associative),
        cmocka_unit_test(absolute_levels_merge),
        cmocka_unit_test(mixtures_are_right_or_refused),
        cmocka_unit_test(tight_needs_the_base),
        cmocka_unit_test(struck_frames_do_no_harm),
        cmocka_unit_test(frames_beyond_their_runs_are_refused),
        cmocka_unit_test(frames_of_units_before_are_refused),
        cmocka_unit_test(a_pass_goes_on_where_one_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

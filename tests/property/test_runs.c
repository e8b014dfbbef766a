/* Runs of units: one frame for what a few thousand changes are scattered over, at every run shift; unit by unit where
 * that would break a bound; the same bytes for any number of lanes and any kernel set. */
#include "tests/support/run_world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TILE     (UINT64_C(1) << 18) /* elements of up to four bytes */

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
            if (weft_backend_host.open(&(weft_backend_options){-1, sets[i], 0, 0}, &device) != WEFT_OK)
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

/* Where a backend has several jobs at once: a run that cannot be one frame is made again unit by unit, by itself. */
static void several_runs_at_once(void **state)
{
    static const pass_row rows[] = {
        {PASS_NEVER, PASS_NEVER, PASS_NEVER, true, WEFT_OK, NULL},
        {25, PASS_NEVER, PASS_NEVER, true, WEFT_E_DEVICE, "unit 25"},
        {PASS_NEVER, 30, PASS_NEVER, true, WEFT_E_STATE, "emit"}, /* among such units */
        {PASS_NEVER, PASS_NEVER, 1, true, WEFT_E_STATE, "moved"},
        {PASS_NEVER, PASS_NEVER, PASS_NEVER, false, WEFT_OK, NULL},
    };
    uint64_t sizes[MOST];
    world w;
    (void)state;
    for (size_t t = 0; t < MOST; t++)
        sizes[t] = TILE / 2 + 1;
    world_open(&w, WEFT_U8, sizes, MOST, 2);
    for (uint64_t unit = 0; unit < MOST; unit++)
        change_unit(&w, unit, 200, 3);
    passes_end_clean(&w.now, &w.shadow, &w.parameters, CODED, rows, COUNT(rows));
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

/* Runs end with the dtype, and begin anew after it. */
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
        cmocka_unit_test(several_runs_at_once),
        cmocka_unit_test(too_many_changes_fall_back_to_units),
        cmocka_unit_test(large_frames_fall_back_to_units),
        cmocka_unit_test(dense_runs_fall_back_to_full_units),
        cmocka_unit_test(runs_end_with_their_stretch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

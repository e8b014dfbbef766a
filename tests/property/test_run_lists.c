/* The lists of changes that the host backend makes of a unit or a run, with about as many changes as they hold, in
 * elements of every width. A list that ran over its end would write over the next one. */
#include "backends/host/host_state.h"
#include "tests/support/run_world.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define UNITS    3u /* of the run: two tiles and a short one */

static const world *listed; /* what is being encoded */

/* Positions of a unit's elements have room, and the bits of its bytes. */
static uint32_t list_room(uint8_t width)
{
    const uint32_t bits = WEFT_HOST_UNIT_BYTES / width;
    return bits < WEFT_HOST_UNIT_ELEMENTS ? bits : WEFT_HOST_UNIT_ELEMENTS;
}

/* A job lists the first differing elements, in order and with their bits. If it made frames, it lists all. */
static void list_check(const weft_backend_state *state, const weft_encode_job *job)
{
    const weft_changes *list = &state->changes;
    const uint8_t width = listed->width;
    const uint64_t first = unit_at(listed, job->now.unit) * width;
    uint32_t next = 0, at = 0;
    assert_true(list->count <= list_room(width));
    for (; at < job->now.count; at++) {
        const uint64_t before = pair_get(listed->base + first, at, width);
        const uint64_t after = pair_get(listed->target + first, at, width);
        if (before == after)
            continue;
        if (next == list->count)
            break;
        if (list->position[next] != at)
            fail_msg("change %u of %u is listed at element %u, not %u", next, list->count, list->position[next], at);
        assert_true(pair_get(list->before, next, width) == before);
        assert_true(pair_get(list->after, next, width) == after);
        next++;
    }
    assert_int_equal(next, list->count);
    assert_true(at == job->now.count || job->alone == job->levels);
}

typedef enum placing { FRONT, BACK, SPREAD, PLACINGS } placing;

/* So many changes in the run, all others as in the base; the last element changes if they are not in front. */
static void run_change(world *w, uint64_t changes, placing where)
{
    const uint64_t elements = w->layout->elements;
    memcpy(w->target, w->base, w->layout->bytes);
    for (uint64_t i = 0; i < changes; i++) {
        const uint64_t at[PLACINGS] = {i, elements - changes + i, (i + 1) * elements / changes - 1};
        change_at(w, at[where], i % 1000 == 0);
    }
}

/* Encodes the run with one kernel set, looks at every list and lands every frame. */
static void run_encode(world *w, uint32_t levels, uint64_t changes)
{
    const bool whole = changes <= WEFT_FRAME_RUN_CHANGES;
    encode_result made = encode(w, levels, 1, w->kernels);
    assert_int_equal(made.changed, changes);
    assert_int_equal(made.jobs, whole ? 1 : 1 + UNITS);
    for (weft_level level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
        if (levels >> level & 1)
            assert_int_equal(lands(w, &made, level).runs, whole ? 1 : 0);
    }
    encode_result_free(&made);
}

static bool set_runs(const char *kernels)
{
    weft_backend_state *state;
    const bool runs = weft_backend_host.open(&(weft_backend_options){-1, kernels, 0, 0}, &state) == WEFT_OK;
    if (runs)
        weft_backend_host.close(state);
    return runs;
}

/* Every number of changes at which something ends, by each set; from one to the next `turn` moves where they are. */
static void dtype_check(weft_dtype dtype, uint32_t levels, size_t turn)
{
    static const char *const sets[] = {"portable", "avx2", "avx512"};
    const uint8_t width = weft_dtype_find(dtype)->width;
    const uint64_t size = 2 * weft_tile_elements(width) + 77, room = list_room(width), frame = WEFT_FRAME_RUN_CHANGES;
    const uint64_t numbers[] = {frame - 1, frame, frame + 1, room - 1, room, room + 1, size};
    world w;
    world_open(&w, dtype, &size, 1, 2);
    assert_int_equal(w.layout->unit_count, UNITS);
    w.parameters = (weft_parameters){.run_shift = 2};
    listed = &w;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        run_change(&w, numbers[i], (turn + i) % PLACINGS);
        for (size_t s = 0; s < COUNT(sets); s++) {
            w.kernels = sets[s];
            if (set_runs(sets[s]))
                run_encode(&w, levels, numbers[i]);
        }
    }
    world_close(&w);
}

/* The lists alone. */
static void lists_end_where_their_room_does(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_F64, WEFT_I64, WEFT_F32, WEFT_BF16, WEFT_U8};
    for (size_t i = 0; i < COUNT(dtypes); i++)
        dtype_check(dtypes[i], 1u << WEFT_LEVEL_FAST, i);
}

/* While it lists changes, level tight looks elements up at the positions listed. */
static void ranks_are_of_what_is_listed(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_F64, WEFT_I64, WEFT_I32, WEFT_F16, WEFT_F8_E4M3};
    for (size_t i = 0; i < COUNT(dtypes); i++)
        dtype_check(dtypes[i], CODED, i + 2);
}

static int setup(void **state)
{
    (void)state;
    pass_look = list_check;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lists_end_where_their_room_does, setup),
        cmocka_unit_test_setup(ranks_are_of_what_is_listed, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The pass for backends that take several jobs at once: more places for small frames in the same rooms, large places
 * for large frames, and the same frames as with one job at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/encode_pass.h"

enum { UNITS = 1400, ELEMENTS = 1024, DEPTH = 512, DENSE = 700, DENSE_END = 760 };
#define LEVELS (1u << WEFT_LEVEL_PAIRS | 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_TIGHT)

typedef struct world {
    weft_layout *layout;
    uint32_t *base, *target;
    weft_binding now, shadow;
} world;

/* Units with one change each, but for a stretch in the middle and the last unit, where all has changed. The stretch
 * begins with a unit of many steps, which are short at each level but pairs. */
static void world_open(world *w)
{
    static const uint64_t size = ELEMENTS;
    static char names[UNITS][8];
    static weft_tensor tensors[UNITS];
    w->base = calloc((size_t)UNITS * ELEMENTS, 4);
    w->target = calloc((size_t)UNITS * ELEMENTS, 4);
    assert_true(w->base && w->target);
    for (uint32_t u = 0; u < UNITS; u++) {
        const bool dense = (u >= DENSE && u < DENSE_END) || u == UNITS - 1;
        snprintf(names[u], sizeof names[u], "t%u", u);
        tensors[u] = (weft_tensor){names[u], u % 2 ? WEFT_F32 : WEFT_I32, 1, &size};
        for (uint32_t e = 0; e < (dense ? ELEMENTS : 1u); e++)
            w->target[u * ELEMENTS + e] = u == DENSE ? e % 3 == 0 : (u + 1) * 2654435761u ^ e * 40503u;
    }
    assert_int_equal(weft_layout_create(tensors, UNITS, &w->layout), WEFT_OK);
    assert_int_equal(w->layout->unit_count, UNITS);
    assert_int_equal(weft_binding_open_image(w->layout, w->target, &w->now), WEFT_OK);
    assert_int_equal(weft_binding_open_image(w->layout, w->base, &w->shadow), WEFT_OK);
}

static void world_close(world *w)
{
    weft_binding_close(&w->now);
    weft_binding_close(&w->shadow);
    weft_layout_free(w->layout);
    free(w->base);
    free(w->target);
}

/* ---- a device */

/* As a device has them: jobs are with it until one of them is waited for, and then so many are done, the oldest ones.
 */
static struct {
    weft_encode_job *jobs[1024];
    uint32_t count, done;
    uint64_t waits;
} queued;

static weft_status queue_encode(weft_backend_state *state, weft_encode_job *job)
{
    (void)state;
    queued.jobs[queued.count++] = job;
    return job->ticket.status = WEFT_AGAIN;
}

static weft_status queue_poll(weft_backend_state *state, void *job)
{
    const weft_ticket *ticket = job;
    if (ticket->status != WEFT_AGAIN)
        return ticket->status;
    const uint32_t done = queued.count < queued.done ? queued.count : queued.done;
    for (uint32_t i = 0; i < done; i++)
        queued.jobs[i]->ticket.status = pass_encode(state, queued.jobs[i]);
    queued.count -= done;
    for (uint32_t i = 0; i < queued.count; i++)
        queued.jobs[i] = queued.jobs[i + done];
    queued.waits++;
    return ticket->status;
}

/* One pass; `found` gets the digests' moves, and `made` the frames. */
static void batch_encode(weft_encoder *encoder, const world *w, const weft_parameters *parameters, uint64_t *found,
                         encode_result *made)
{
    *made = (encode_result){0};
    memset(found, 0, w->layout->part_count * sizeof *found);
    weft_encode_pass pass = {.now = &w->now,
                             .shadow = &w->shadow,
                             .parameters = parameters,
                             .levels = LEVELS,
                             .delta = found,
                             .emit = pass_emit,
                             .user = made};
    assert_int_equal(weft_encoder_run(encoder, &pass), WEFT_OK);
    made->changed = pass.changed;
}

static void frames_have_room(void **state)
{
    (void)state;
    static const weft_parameters none;
    world w;
    encode_result alone, batch;
    world_open(&w);
    const uint64_t words = w.layout->part_count;
    uint64_t *wanted = calloc(words, sizeof *wanted), *found = calloc(words, sizeof *found);
    assert_true(wanted && found);
    assert_int_equal(encode_all(&w.now, &w.shadow, &none, LEVELS, 1, "portable", wanted, NULL, &alone), WEFT_OK);
    weft_backend several = weft_backend_host;
    const weft_backend_options options = {-1, "portable", 0, 0};
    weft_encoder encoder;
    several.depth = DEPTH;
    several.encode = queue_encode;
    several.poll = queue_poll;
    queued.done = 100;
    assert_int_equal(weft_encoder_open(&encoder, &several, &options, NULL, w.layout, 1), WEFT_OK);
    for (int times = 0; times < 2; times++) { /* the second pass begins with the places of the first one's end */
        const uint64_t before = atomic_load(&pass_jobs);
        batch_encode(&encoder, &w, &none, found, &batch);
        results_equal(&alone, &batch);
        assert_memory_equal(wanted, found, words * sizeof *found);
        /* Some runs were made again, and no more than two windows of them. */
        const uint64_t jobs = atomic_load(&pass_jobs) - before;
        assert_true(jobs > UNITS + 1 && jobs <= UNITS + 2 * DEPTH);
        encode_result_free(&batch);
    }
    weft_encoder_close(&encoder);
    encode_result_free(&alone);
    free(wanted);
    free(found);
    world_close(&w);
}

/* ---- runs that cannot be one frame */

enum { TILE = 1 << 18, LONG = 60, SHIFT = 2 };

/* Two runs of three have more changes than a frame may. */
static void tensor_open(world *w)
{
    static const uint64_t size = (uint64_t)LONG * TILE;
    uint8_t *target = calloc(size, 1);
    w->base = calloc(size, 1);
    assert_true(target && w->base);
    for (uint64_t i = 0; i < size; i += (i / TILE >> SHIFT) % 3 ? 11 : 301)
        target[i] = (uint8_t)(1 + i % 7);
    w->target = (uint32_t *)(void *)target;
    assert_int_equal(weft_layout_create(&(weft_tensor){"long", WEFT_U8, 1, &size}, 1, &w->layout), WEFT_OK);
    assert_int_equal(w->layout->unit_count, LONG);
    assert_int_equal(weft_binding_open_image(w->layout, target, &w->now), WEFT_OK);
    assert_int_equal(weft_binding_open_image(w->layout, w->base, &w->shadow), WEFT_OK);
}

/* Their units are done together, as many as there are places, and not run by run; no frame is another. */
static void runs_that_part_are_done_together(void **state)
{
    static const struct {
        uint32_t depth;
        uint64_t waits;
    } rows[] = {{2, 44}, {3, 43}, {8, 13}, {256, 2}};
    static const weft_parameters parameters = {.run_shift = SHIFT};
    static const weft_backend_options options = {-1, "portable", 0, 0};
    world w;
    encode_result alone;
    (void)state;
    tensor_open(&w);
    const uint64_t words = w.layout->part_count;
    uint64_t *wanted = calloc(words, sizeof *wanted), *found = calloc(words, sizeof *found);
    assert_true(wanted && found);
    assert_int_equal(encode_all(&w.now, &w.shadow, &parameters, LEVELS, 1, "portable", wanted, NULL, &alone), WEFT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_backend several = weft_backend_host;
        weft_encoder encoder;
        encode_result batch;
        several.depth = rows[i].depth;
        several.encode = queue_encode;
        several.poll = queue_poll;
        queued.waits = 0;
        queued.done = 1024;
        assert_int_equal(weft_encoder_open(&encoder, &several, &options, NULL, w.layout, 1), WEFT_OK);
        batch_encode(&encoder, &w, &parameters, found, &batch);
        results_equal(&alone, &batch);
        assert_memory_equal(wanted, found, words * sizeof *found);
        if (queued.waits > rows[i].waits)
            fail_msg("depth %u: %llu waits", rows[i].depth, (unsigned long long)queued.waits);
        encode_result_free(&batch);
        weft_encoder_close(&encoder);
    }
    encode_result_free(&alone);
    free(wanted);
    free(found);
    world_close(&w);
}

static void a_pass_ends_clean(void **state)
{
    static const pass_row rows[] = {
        {PASS_NEVER, PASS_NEVER, PASS_NEVER, false, WEFT_OK, NULL},
        {0, PASS_NEVER, PASS_NEVER, false, WEFT_E_DEVICE, "unit 0"},
        {300, PASS_NEVER, PASS_NEVER, false, WEFT_E_DEVICE, "unit 300"},
        {PASS_NEVER, 1000, PASS_NEVER, false, WEFT_E_STATE, "emit"},
        {PASS_NEVER, PASS_NEVER, 2, false, WEFT_E_STATE, "moved"},
        {PASS_NEVER, PASS_NEVER, PASS_NEVER, false, WEFT_OK, NULL},
    };
    static const weft_parameters none;
    world w;
    (void)state;
    world_open(&w);
    passes_end_clean(&w.now, &w.shadow, &none, LEVELS, rows, sizeof rows / sizeof rows[0]);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_have_room),
                                       cmocka_unit_test(runs_that_part_are_done_together),
                                       cmocka_unit_test(a_pass_ends_clean)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

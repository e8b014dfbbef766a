/* The encoder: lanes hand their frames on in order, and a failure anywhere ends the pass with its own words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/support/encode_pass.h"

#define UNITS    48u
#define ELEMENTS 50u
#define LEVELS   (1u << WEFT_LEVEL_PAIRS | 1u << WEFT_LEVEL_FAST | 1u << WEFT_LEVEL_TIGHT)
#define NEVER    UINT32_MAX

static const uint32_t lane_counts[] = {1, 2, 3, 5};

/* Tensors whose dtype differs from their neighbour's: each is a unit, and no two make a run. */
typedef struct world {
    weft_layout *layout;
    uint32_t *base, *target;
    weft_binding now, shadow;
    uint64_t *delta;
} world;

static world w;

static int world_open(void **state)
{
    (void)state;
    static const uint64_t size = ELEMENTS;
    static char names[UNITS][8];
    weft_tensor tensors[UNITS];
    weft_piece base[UNITS], target[UNITS];
    w.base = calloc(UNITS * ELEMENTS, 4);
    w.target = calloc(UNITS * ELEMENTS, 4);
    if (!w.base || !w.target)
        return -1;
    for (uint32_t u = 0; u < UNITS; u++) {
        snprintf(names[u], sizeof names[u], "t%u", u);
        tensors[u] = (weft_tensor){names[u], u % 2 ? WEFT_F32 : WEFT_I32, 1, &size};
        base[u] = (weft_piece){u, 0, size, w.base + u * ELEMENTS};
        target[u] = (weft_piece){u, 0, size, w.target + u * ELEMENTS};
        w.target[u * ELEMENTS + u % ELEMENTS] = 1;
    }
    if (weft_layout_create(tensors, UNITS, &w.layout) != WEFT_OK || w.layout->unit_count != UNITS)
        return -1;
    w.delta = calloc(w.layout->part_count, sizeof *w.delta);
    weft_team team; /* a sanitizer adds a thread of its own to the first one */
    if (weft_team_open(&team, 2) != WEFT_OK)
        return -1;
    weft_team_close(&team);
    return weft_binding_open(w.layout, target, UNITS, &w.now) != WEFT_OK ||
           weft_binding_open(w.layout, base, UNITS, &w.shadow) != WEFT_OK;
}

static int world_close(void **state)
{
    (void)state;
    weft_binding_close(&w.now);
    weft_binding_close(&w.shadow);
    weft_layout_free(w.layout);
    free(w.delta);
    free(w.base);
    free(w.target);
    return 0;
}

/* ---- a backend whose jobs take times of their own, and fail at a given unit or wait there for others */

static uint32_t fails_at, waits_at, waits_for;
static _Atomic uint32_t opened, opens_left, encoded, late; /* late: encoded when the one that waited went on */

/* The times that a job says of itself. */
#define DIFF_MS   3
#define ENCODE_MS 5

static weft_status slow_encode(weft_backend_state *state, weft_encode_job *job)
{
    const double diff_ms = job->diff_ms + DIFF_MS, encode_ms = job->encode_ms + ENCODE_MS;
    atomic_fetch_add(&encoded, 1);
    usleep((job->now.unit * 7919u + 13u) % 17u * 40u);
    for (int i = 0; job->now.unit == waits_at && encoded < waits_for && i < 10000; i++)
        usleep(1000);
    if (job->now.unit == waits_at) {
        usleep(20000); /* time for a worker that would go too far */
        late = encoded;
    }
    if (job->now.unit == fails_at)
        return weft_fail(WEFT_E_DEVICE, "unit %u does not come back", job->now.unit);
    const weft_status status = weft_backend_host.encode(state, job);
    job->diff_ms = diff_ms;
    job->encode_ms = encode_ms;
    return status;
}

static weft_status counted_open(const weft_backend_options *options, weft_backend_state **state)
{
    if (atomic_fetch_sub(&opens_left, 1) == 0)
        return weft_fail(WEFT_E_DEVICE, "no more devices");
    atomic_fetch_add(&opened, 1);
    return weft_backend_host.open(options, state);
}

static void counted_close(weft_backend_state *state)
{
    atomic_fetch_sub(&opened, 1);
    weft_backend_host.close(state);
}

static weft_backend slow_backend(void)
{
    weft_backend slow = weft_backend_host;
    slow.encode = slow_encode;
    slow.open = counted_open;
    slow.close = counted_close;
    return slow;
}

/* ---- who takes the frames */

typedef struct taker {
    encode_result got;
    uint32_t next[WEFT_LEVEL_COUNT]; /* units come in this order */
    uint64_t end;                    /* units reported so far */
    uint32_t refuses;                /* frames of this unit */
    uint64_t stops;                  /* unit at whose report it stops the pass */
    bool refused;                    /* nothing may come afterwards */
    bool wrong;                      /* something did, or out of order: lanes assert nothing */
} taker;

static weft_status take(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    taker *t = user;
    uint32_t unit = 0;
    memcpy(&unit, frame, 4);
    /* in order, and before its end is reported */
    t->wrong |= t->refused || unit != t->next[level]++ || unit != t->end;
    if (unit == t->refuses) {
        t->refused = true;
        return weft_fail(WEFT_E_FILE, "no room for unit %u", unit);
    }
    return pass_emit(&t->got, level, frame, bytes);
}

static weft_status told(void *user, uint64_t unit)
{
    taker *t = user;
    t->wrong |= t->refused || unit != t->end + 1;
    for (int level = WEFT_LEVEL_PAIRS; level < WEFT_LEVEL_COUNT; level++)
        t->wrong |= t->next[level] != unit;
    t->end = unit;
    t->refused = unit == t->stops;
    return t->refused ? weft_fail(WEFT_E_TIMEOUT, "stopped at unit %llu", (unsigned long long)unit) : WEFT_OK;
}

static weft_status pass_run(weft_encoder *encoder, taker *t)
{
    static const weft_parameters none;
    weft_encode_pass pass = {.now = &w.now,
                             .shadow = &w.shadow,
                             .parameters = &none,
                             .levels = LEVELS,
                             .delta = w.delta,
                             .emit = take,
                             .moved = told,
                             .user = t};
    const weft_status status = weft_encoder_run(encoder, &pass);
    if (status == WEFT_OK) {
        assert_true(fabs(pass.diff_ms * encoder->lanes.count - UNITS * DIFF_MS) < 1e-6);
        assert_true(fabs(pass.encode_ms * encoder->lanes.count - UNITS * ENCODE_MS) < 1e-6);
    }
    return status;
}

static void encoder_open(weft_encoder *encoder, const weft_backend *backend, uint32_t lanes)
{
    static const weft_backend_options options = {-1, "auto", 0, 0};
    opens_left = 100;
    fails_at = waits_at = NEVER;
    assert_int_equal(weft_encoder_open(encoder, backend, &options, NULL, w.layout, lanes), WEFT_OK);
}

static unsigned threads_there(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

/* A joined thread may still be listed for a moment. */
static void nothing_left(unsigned threads)
{
    for (int i = 0; i < 20000 && threads_there() != threads; i++)
        usleep(1000);
    assert_int_equal(threads_there(), threads);
    assert_int_equal(opened, 0);
}

static void whole(const taker *t)
{
    assert_false(t->wrong);
    assert_int_equal(t->end, UNITS);
    for (int level = WEFT_LEVEL_PAIRS; level < WEFT_LEVEL_COUNT; level++)
        assert_int_equal(t->got.level[level].count, UNITS);
}

static void frames_come_in_order(void **state)
{
    (void)state;
    const weft_backend backend = slow_backend();
    const unsigned threads = threads_there();
    encode_result first = {0};
    for (size_t i = 0; i < sizeof lane_counts / sizeof *lane_counts; i++) {
        weft_encoder encoder;
        encoder_open(&encoder, &backend, lane_counts[i]);
        assert_int_equal(opened, lane_counts[i]);
        for (int round = 0; round < 3; round++) {
            taker t = {.refuses = NEVER, .stops = NEVER};
            assert_int_equal(pass_run(&encoder, &t), WEFT_OK);
            whole(&t);
            for (int level = 0; level < WEFT_LEVEL_COUNT && first.level[3].bytes; level++) {
                assert_int_equal(t.got.level[level].bytes, first.level[level].bytes);
                if (t.got.level[level].bytes > 0)
                    assert_memory_equal(t.got.level[level].data, first.level[level].data, first.level[level].bytes);
            }
            if (first.level[3].bytes)
                encode_result_free(&t.got);
            else
                first = t.got;
        }
        weft_encoder_close(&encoder);
        nothing_left(threads);
    }
    encode_result_free(&first);
}

/* While a lane is at a run, the others go on as far ahead as they may, and no further. */
static void a_late_lane_keeps_none_from_working(void **state)
{
    (void)state;
    const weft_backend backend = slow_backend();
    for (uint32_t lanes = 2; lanes <= 5; lanes++) {
        weft_encoder encoder;
        taker t = {.refuses = NEVER, .stops = NEVER};
        encoder_open(&encoder, &backend, lanes);
        waits_at = UNITS / 2;
        waits_for = waits_at + 1 + (lanes - 1) * WEFT_LANE_AHEAD;
        encoded = 0;
        late = 0;
        assert_int_equal(pass_run(&encoder, &t), WEFT_OK);
        assert_int_equal(late, waits_for);
        whole(&t);
        encode_result_free(&t.got);
        weft_encoder_close(&encoder);
    }
}

static unsigned lines;

static void line_count(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)line;
    lines += level == WEFT_LOG_ERROR;
}

/* A pass that ends with this status and one text; the next pass is whole again. */
static void ends_with(weft_encoder *encoder, taker *t, weft_status status, const char *words, uint32_t unit)
{
    weft_log_sink sink = {WEFT_LOG_ERROR, line_count}, *before = weft_log_enter(&sink);
    lines = 0;
    encoded = 0;
    assert_int_equal(pass_run(encoder, t), status);
    weft_log_enter(before);
    assert_true(encoded <= unit + encoder->lanes.count * WEFT_LANE_AHEAD); /* what lanes had made ahead, and no more */
    assert_string_equal(weft_last_error(), words);
    assert_false(t->wrong);
    assert_int_equal(lines,
                     weft_status_scope(status) >= WEFT_SCOPE_PEER); /* workers log nothing, the caller gets the error */
    for (int level = WEFT_LEVEL_PAIRS; level < WEFT_LEVEL_COUNT; level++)
        assert_true(t->got.level[level].count <= unit);
    encode_result_free(&t->got);
    fails_at = NEVER;
    taker again = {.refuses = NEVER, .stops = NEVER};
    assert_int_equal(pass_run(encoder, &again), WEFT_OK);
    whole(&again);
    encode_result_free(&again.got);
}

static void failures_end_the_pass(void **state)
{
    (void)state;
    const weft_backend backend = slow_backend();
    const unsigned threads = threads_there();
    for (size_t i = 0; i < sizeof lane_counts / sizeof *lane_counts; i++) {
        for (uint32_t unit = 0; unit < UNITS; unit += UNITS / 2 - 1) {
            weft_encoder encoder;
            char words[64];
            encoder_open(&encoder, &backend, lane_counts[i]);
            taker refuses = {.refuses = unit, .stops = NEVER}, stops = {.refuses = NEVER, .stops = unit + 1};
            taker fails = {.refuses = NEVER, .stops = NEVER};
            snprintf(words, sizeof words, "no room for unit %u", unit);
            ends_with(&encoder, &refuses, WEFT_E_FILE, words, unit);
            snprintf(words, sizeof words, "stopped at unit %u", unit + 1);
            ends_with(&encoder, &stops, WEFT_E_TIMEOUT, words, unit + 1);
            snprintf(words, sizeof words, "unit %u does not come back", unit);
            fails_at = unit;
            ends_with(&encoder, &fails, WEFT_E_DEVICE, words, unit);
            weft_encoder_close(&encoder);
            nothing_left(threads);
        }
    }
}

/* If a worker cannot be opened, those before it are closed again, and their threads end. */
static void a_lane_that_cannot_be_opened_leaves_nothing(void **state)
{
    (void)state;
    static const weft_backend_options options = {-1, "auto", 0, 0};
    weft_log_sink quiet = {WEFT_LOG_ERROR, line_count};
    const weft_backend backend = slow_backend();
    const unsigned threads = threads_there();
    weft_log_enter(&quiet);
    for (uint32_t lane = 0; lane < 5; lane++) {
        weft_encoder encoder;
        opens_left = lane;
        assert_int_equal(weft_encoder_open(&encoder, &backend, &options, NULL, w.layout, 5), WEFT_E_DEVICE);
        assert_string_equal(weft_last_error(), "no more devices");
        nothing_left(threads);
    }
    weft_log_enter(NULL);
}

/* Run by run on the caller's thread: the same frames as a pass has. */
static void one_run_has_the_frames_of_a_pass(void **state)
{
    (void)state;
    const weft_backend backend = slow_backend();
    static const weft_parameters none;
    encode_result single = {0}, all;
    weft_encoder encoder;
    weft_encode_pass pass = {.now = &w.now,
                             .shadow = &w.shadow,
                             .parameters = &none,
                             .levels = LEVELS,
                             .delta = w.delta,
                             .emit = pass_emit,
                             .user = &single};
    encoder_open(&encoder, &backend, 1);
    for (uint32_t unit = 0; unit < UNITS; unit++)
        assert_int_equal(weft_encoder_one(&encoder, &pass, unit, 1), WEFT_OK);
    weft_encoder_close(&encoder);
    assert_int_equal(encode_all(&w.now, &w.shadow, &none, LEVELS, 2, "auto", w.delta, NULL, &all), WEFT_OK);
    assert_int_equal(pass.changed, all.changed);
    assert_int_equal(all.changed, UNITS);
    assert_int_equal(all.jobs, UNITS);
    for (int level = WEFT_LEVEL_PAIRS; level < WEFT_LEVEL_COUNT; level++) {
        assert_int_equal(single.level[level].bytes, all.level[level].bytes);
        assert_memory_equal(single.level[level].data, all.level[level].data, all.level[level].bytes);
    }
    encode_result_free(&single);
    encode_result_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_in_order),
        cmocka_unit_test(a_late_lane_keeps_none_from_working),
        cmocka_unit_test(failures_end_the_pass),
        cmocka_unit_test(a_lane_that_cannot_be_opened_leaves_nothing),
        cmocka_unit_test(one_run_has_the_frames_of_a_pass),
    };
    return cmocka_run_group_tests(tests, world_open, world_close);
}

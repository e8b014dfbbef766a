/* encode_pass.h - one pass of the encoder over two bindings: its frames by level, and what the backend was asked for.
 */
#ifndef WEFT_TESTS_ENCODE_PASS_H
#define WEFT_TESTS_ENCODE_PASS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/host/host.h"
#include "base/bytes.h"
#include "base/status.h"
#include "encode/encode.h"

/* Frames of one level back to back. */
typedef struct pass_frames {
    uint8_t *data;
    uint64_t bytes, capacity, count;
} pass_frames;

typedef struct encode_result {
    pass_frames level[WEFT_LEVEL_COUNT];
    uint64_t changed;
    uint64_t jobs; /* of encoding, of all lanes */
} encode_result;

static _Atomic uint64_t pass_jobs;
/* NULL, or is called after each job, on its lane. */
static void (*pass_look)(const weft_backend_state *state, const weft_encode_job *job);

static inline weft_status pass_encode(weft_backend_state *state, weft_encode_job *job)
{
    atomic_fetch_add(&pass_jobs, 1);
    weft_status status = weft_backend_host.encode(state, job);
    if (pass_look)
        pass_look(state, job);
    return status;
}

static inline weft_status pass_emit(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    pass_frames *frames = &((encode_result *)user)->level[level];
    if (frames->bytes + bytes > frames->capacity) {
        frames->capacity = 2 * (frames->bytes + bytes);
        frames->data = realloc(frames->data, frames->capacity);
        if (!frames->data)
            abort();
    }
    memcpy(frames->data + frames->bytes, frame, bytes);
    frames->bytes += bytes;
    frames->count++;
    return WEFT_OK;
}

/* Encodes all units by `lanes` lanes with a kernel set. `delta` and `digests` as in weft_encode_pass. */
static inline weft_status encode_all(const weft_binding *now, const weft_binding *shadow,
                                     const weft_parameters *parameters, uint32_t levels, uint32_t lanes,
                                     const char *kernels, uint64_t *delta, uint64_t *digests, encode_result *result)
{
    weft_backend counting = weft_backend_host;
    weft_backend_options options = {-1, kernels, 0, 0};
    weft_encoder encoder;
    memset(result, 0, sizeof *result);
    counting.encode = pass_encode;
    weft_status status = weft_encoder_open(&encoder, &counting, &options, NULL, now->layout, lanes);
    if (status != WEFT_OK)
        return status;
    weft_encode_pass pass = {.now = now,
                             .shadow = shadow,
                             .parameters = parameters,
                             .levels = levels,
                             .delta = delta,
                             .emit = pass_emit,
                             .user = result,
                             .digests = digests};
    uint64_t before = atomic_load(&pass_jobs);
    status = weft_encoder_run(&encoder, &pass);
    result->changed = pass.changed;
    result->jobs = atomic_load(&pass_jobs) - before;
    weft_encoder_close(&encoder);
    return status;
}

static inline void encode_result_free(encode_result *result)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        free(result->level[level].data);
    memset(result, 0, sizeof *result);
}

static inline void results_equal(const encode_result *a, const encode_result *b)
{
    assert_int_equal(a->changed, b->changed);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        assert_int_equal(a->level[level].count, b->level[level].count);
        assert_int_equal(a->level[level].bytes, b->level[level].bytes);
        if (a->level[level].bytes > 0)
            assert_memory_equal(a->level[level].data, b->level[level].data, a->level[level].bytes);
    }
}

/* ---- a backend that does a job when the job is polled, and lends the frames */

#define PASS_NEVER UINT32_MAX

/* How a pass goes: it fails at a unit, after so many frames or after so many calls of `moved`. */
typedef struct pass_row {
    uint32_t unit, emits, moves;
    bool again; /* each third run cannot be one frame at level fast */
    weft_status status;
    const char *text;
} pass_row;

static pass_row pass_now;
static uint32_t pass_with_it, pass_runs_with_it, pass_lent; /* jobs, those of runs among them, and frames */
static uint64_t pass_moved_to;
static bool pass_was_read; /* the weights, for the last time */

/* The host's work. What a run is not to say as one frame is left out. */
static inline weft_status pass_work(weft_backend_state *state, weft_encode_job *job)
{
    const uint64_t used = job->sinks[WEFT_LEVEL_FAST].used;
    assert_false(pass_was_read);
    weft_status status = weft_backend_host.encode(state, job);
    if (pass_now.again && job->now.units > 1 && job->now.unit / job->now.units % 3 == 0) {
        job->alone |= 1u << WEFT_LEVEL_FAST;
        job->frame_bytes[WEFT_LEVEL_FAST] = 0;
        job->sinks[WEFT_LEVEL_FAST].used = used;
    }
    return status;
}

static inline weft_status pass_take(weft_backend_state *state, weft_encode_job *job)
{
    (void)state;
    if (job->now.units == 1 && pass_now.again)
        assert_int_equal(pass_runs_with_it, 0); /* the other runs are over when the units of one are made again */
    pass_with_it++;
    pass_runs_with_it += job->now.units > 1;
    return WEFT_AGAIN;
}

static inline weft_status pass_poll(weft_backend_state *state, void *polled)
{
    weft_encode_job *job = polled;
    pass_with_it--;
    pass_runs_with_it -= job->now.units > 1;
    if (job->now.unit <= pass_now.unit && pass_now.unit - job->now.unit < job->now.units)
        return weft_fail(WEFT_E_DEVICE, "unit %u", pass_now.unit);
    weft_status status = pass_work(state, job);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (status == WEFT_OK && job->levels >> level & 1 && job->frame_bytes[level]) {
            uint8_t *frame = malloc(job->frame_bytes[level]);
            memcpy(frame, job->sinks[level].data, job->frame_bytes[level]);
            memset(job->sinks[level].data, 0xee, job->frame_bytes[level]);
            job->lent[level] = frame;
            pass_lent++;
        }
    return status;
}

static inline void pass_give(weft_backend_state *state, weft_encode_job *job)
{
    (void)state;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (job->lent[level]) {
            uint8_t *frame = (uint8_t *)(uintptr_t)job->lent[level];
            memset(frame, 0xee, job->frame_bytes[level]);
            free(frame);
            job->lent[level] = NULL;
            pass_lent--;
        }
}

/* Frames that were handed on and are read later. */
static struct {
    struct {
        weft_level level;
        const uint8_t *frame;
        uint32_t bytes;
    } frames[4096];
    uint32_t count, times;
} pass_kept;

static inline weft_status pass_emit_some(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    (void)user;
    assert_true(weft_bytes_get(frame, 4) >= pass_moved_to); /* units that were told of are over */
    assert_true(pass_kept.count < sizeof pass_kept.frames / sizeof pass_kept.frames[0]);
    pass_kept.frames[pass_kept.count].level = level;
    pass_kept.frames[pass_kept.count].frame = frame;
    pass_kept.frames[pass_kept.count++].bytes = bytes;
    return pass_now.emits-- ? WEFT_OK : weft_fail(WEFT_E_STATE, "emit");
}

static inline void pass_read(void *user, bool follows)
{
    (void)user;
    assert_false(pass_was_read || follows); /* the host's backend moves no shadow */
    pass_was_read = true;
}

static inline void pass_settle(void *user)
{
    for (uint32_t i = 0; i < pass_kept.count; i++)
        pass_emit(user, pass_kept.frames[i].level, pass_kept.frames[i].frame, pass_kept.frames[i].bytes);
    pass_kept.count = 0;
    pass_kept.times++;
}

static inline weft_status pass_moved(void *user, uint64_t unit)
{
    (void)user;
    assert_true(unit > pass_moved_to);
    assert_int_equal(pass_kept.count, 0);
    pass_moved_to = unit;
    return pass_now.moves-- ? WEFT_OK : weft_fail(WEFT_E_STATE, "moved");
}

/* Runs a pass by each row. Whatever ends it, no job is with the backend afterwards and all that was lent was given
 * back, so that the next pass makes what one job at a time makes. */
static inline void passes_end_clean(const weft_binding *now, const weft_binding *shadow,
                                    const weft_parameters *parameters, uint32_t levels, const pass_row *rows,
                                    size_t count)
{
    weft_backend alone = weft_backend_host, several = weft_backend_host;
    const weft_backend_options options = {-1, "portable", 0, 0};
    const pass_row well = {PASS_NEVER, PASS_NEVER, PASS_NEVER, false, WEFT_OK, NULL};
    const weft_layout *layout = now->layout;
    weft_encoder encoder[2]; /* of one job at a time, and of several */
    alone.encode = pass_work;
    several.depth = 512;
    several.encode = pass_take;
    several.poll = pass_poll;
    several.give = pass_give;
    assert_int_equal(weft_encoder_open(&encoder[0], &alone, &options, NULL, layout, 1), WEFT_OK);
    assert_int_equal(weft_encoder_open(&encoder[1], &several, &options, NULL, layout, 1), WEFT_OK);
    for (size_t i = 0; i < count; i++) {
        encode_result result[2] = {0};
        uint64_t *delta = calloc(2 * layout->part_count, sizeof *delta);
        for (int e = 0; e < 2; e++) {
            weft_encode_pass pass = {.now = now,
                                     .shadow = shadow,
                                     .parameters = parameters,
                                     .levels = levels,
                                     .delta = delta + (e ? layout->part_count : 0),
                                     .emit = e ? pass_emit_some : pass_emit,
                                     .settle = pass_settle,
                                     .read = pass_read,
                                     .user = &result[e],
                                     .moved = pass_moved};
            pass_now = e ? rows[i] : well;
            pass_now.again = rows[i].again;
            pass_moved_to = pass_kept.times = 0;
            pass_was_read = false;
            assert_int_equal(weft_encoder_run(&encoder[e], &pass), pass_now.status);
            result[e].changed = pass.changed;
        }
        assert_int_equal(pass_with_it + pass_lent + pass_kept.count, 0);
        /* The frames of runs that are over are read together. */
        assert_true(rows[i].again || rows[i].status != WEFT_OK || pass_kept.times <= 1 + layout->unit_count / 64);
        if (rows[i].status == WEFT_OK) {
            results_equal(&result[0], &result[1]);
            assert_memory_equal(delta, delta + layout->part_count, layout->part_count * sizeof *delta);
            assert_int_equal(pass_moved_to, layout->unit_count);
            assert_true(pass_was_read);
        } else {
            assert_string_equal(weft_last_error(), rows[i].text);
        }
        encode_result_free(&result[0]);
        encode_result_free(&result[1]);
        free(delta);
    }
    weft_encoder_close(&encoder[1]);
    weft_encoder_close(&encoder[0]);
}

#endif

/* encode.c - workers that take runs of units in turn; what they make is handed on in turn. */
#include "encode/encode.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/part.h"

/* State of one worker. */
typedef struct weft_encode_worker {
    weft_backend_state *device;
    bool owned;                              /* the device was opened for this worker */
    weft_frame_sink sinks[WEFT_LEVEL_COUNT]; /* frames of its runs; pages never touched cost nothing */
    weft_encode_job job;                     /* times add up in it */
    uint64_t changed;
    uint32_t waiting; /* of its runs, for their turn; guarded by the encoder's lock */
    char text[512];   /* of the run that failed, its last one */
} weft_encode_worker;

/* A run on its way from a worker to who takes the frames. */
typedef struct weft_encode_turn {
    weft_encode_worker *worker;
    uint64_t from[WEFT_LEVEL_COUNT], to[WEFT_LEVEL_COUNT]; /* its frames in the worker's sinks */
    uint64_t end;                                          /* the unit after it */
    weft_status status;
    bool made;
} weft_encode_turn;

static uint64_t room_bytes(const weft_layout *layout)
{
    uint64_t most = UINT64_C(1) << WEFT_RUN_SHIFT_MAX, units = layout->unit_count < most ? layout->unit_count : most;
    return (units ? units : 1) * (layout->largest_frame ? layout->largest_frame : 1);
}

uint64_t weft_encoder_need(const weft_layout *layout, uint32_t workers, uint32_t depth)
{
    const uint64_t places = depth < WEFT_ENCODE_PLACES ? depth : WEFT_ENCODE_PLACES;
    const uint64_t batch = depth > 1 ? 2 * places * WEFT_LEVEL_COUNT * layout->largest_frame : 0;
    workers = depth > 1 ? 1 : workers;
    return workers * (WEFT_LEVEL_COUNT * room_bytes(layout) + sizeof(weft_encode_worker) + sizeof(weft_survey) +
                      WEFT_ENCODE_AHEAD * sizeof(weft_encode_turn)) +
           batch;
}

/* ---- open */

static weft_status worker_open(weft_encoder *encoder, uint32_t number, const weft_backend_options *options)
{
    weft_encode_worker *worker = &encoder->workers[number];
    bool got = true;
    if (!worker->device) {
        weft_status status = encoder->backend->open(options, &worker->device);
        if (status != WEFT_OK)
            return status;
        worker->owned = true;
    }
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        worker->sinks[level] = (weft_frame_sink){.data = weft_mem_map(room_bytes(encoder->layout)),
                                                 .capacity = room_bytes(encoder->layout)};
        got = got && worker->sinks[level].data;
    }
    if (!got)
        return weft_fail(WEFT_E_MEMORY,
                         "no memory for the frames of one run of units: %llu bytes for each of %u threads; fewer "
                         "([trainer] threads) take less",
                         (unsigned long long)(WEFT_LEVEL_COUNT * room_bytes(encoder->layout)), encoder->team.workers);
    return weft_pipeline_open(&encoder->windows[number], encoder->backend, worker->device);
}

static void worker_close(weft_encoder *encoder, uint32_t number)
{
    weft_encode_worker *worker = &encoder->workers[number];
    weft_pipeline_close(&encoder->windows[number]);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (worker->sinks[level].data)
            weft_mem_unmap(worker->sinks[level].data, worker->sinks[level].capacity);
    if (worker->owned)
        encoder->backend->close(worker->device);
}

weft_status weft_encoder_open(weft_encoder *encoder, const weft_backend *backend, const weft_backend_options *options,
                              weft_backend_state *device, const weft_layout *layout, uint32_t workers)
{
    memset(encoder, 0, sizeof *encoder);
    encoder->backend = backend;
    encoder->layout = layout;
    workers = backend->depth == 1 ? workers : 1;
    weft_status status = weft_team_open(&encoder->team, workers);
    if (status != WEFT_OK)
        return status;
    pthread_mutex_init(&encoder->lock, NULL);
    pthread_cond_init(&encoder->moved, NULL);
    encoder->workers = weft_mem_take(workers, sizeof *encoder->workers);
    encoder->turns = weft_mem_take(workers * (uint64_t)WEFT_ENCODE_AHEAD, sizeof *encoder->turns);
    encoder->windows = weft_mem_take(workers, sizeof *encoder->windows);
    encoder->surveys = weft_mem_take(workers, sizeof *encoder->surveys); /* pages never touched cost nothing */
    if (!encoder->workers || !encoder->turns || !encoder->windows || !encoder->surveys)
        status = weft_fail(WEFT_E_MEMORY, "no memory for %u workers of encoding", workers);
    if (status == WEFT_OK)
        encoder->workers[0].device = device;
    for (uint32_t worker = 0; status == WEFT_OK && worker < workers; worker++)
        status = worker_open(encoder, worker, options);
    if (status == WEFT_OK && backend->depth > 1)
        status = weft_encode_batch_open(encoder);
    if (status != WEFT_OK)
        weft_encoder_close(encoder);
    return status;
}

void weft_encoder_close(weft_encoder *encoder)
{
    if (!encoder->layout)
        return;
    uint32_t workers = encoder->team.workers;
    weft_team_close(&encoder->team);
    weft_encode_batch_close(encoder);
    for (uint32_t worker = 0; encoder->workers && encoder->windows && worker < workers; worker++)
        worker_close(encoder, worker);
    weft_mem_give(encoder->surveys);
    weft_mem_give(encoder->windows);
    weft_mem_give(encoder->turns);
    weft_mem_give(encoder->workers);
    pthread_cond_destroy(&encoder->moved);
    pthread_mutex_destroy(&encoder->lock);
    memset(encoder, 0, sizeof *encoder);
}

/* ---- a pass */

/* Encodes `units` units as one view; `levels` that cannot be one frame come back in job.alone. */
static weft_status span_encode(weft_encoder *encoder, weft_encode_worker *worker, uint64_t unit, uint32_t units,
                               uint32_t levels)
{
    weft_encode_job *job = &worker->job;
    job->now = weft_binding_span(encoder->pass->now, unit, units);
    job->shadow = weft_binding_span(encoder->pass->shadow, unit, units);
    job->levels = levels;
    job->tensor_delta = encoder->pass->delta; /* a part belongs to one unit: workers share no word */
    job->stream = encoder->pass->stream;
    return weft_backend_wait(encoder->backend, worker->device, encoder->backend->encode(worker->device, job), job);
}

void weft_encode_delta_clear(const weft_layout *layout, uint64_t *delta, uint64_t unit, uint32_t units)
{
    uint64_t last = unit + units - 1, end = weft_part_of_unit(layout, last) + layout->units[last].tensor_count;
    for (uint64_t part = weft_part_of_unit(layout, unit); part < end; part++)
        delta[part] = 0;
}

/* The base while it is near: its words are in a cache when they are compared. */
static weft_status base_digest(const weft_encoder *encoder, const weft_encode_worker *worker, uint64_t unit,
                               uint32_t units)
{
    weft_digest_job job = {.view = weft_binding_span(encoder->pass->shadow, unit, units),
                           .tensor_delta = encoder->pass->digests};
    if (!encoder->pass->digests)
        return WEFT_OK;
    return weft_backend_wait(encoder->backend, worker->device, encoder->backend->digest(worker->device, &job), &job);
}

/* Encodes a run; what cannot be one frame unit by unit. */
static weft_status run_encode(weft_encoder *encoder, weft_encode_worker *worker, uint64_t unit, uint32_t units)
{
    weft_status status = base_digest(encoder, worker, unit, units);
    if (status == WEFT_OK)
        status = span_encode(encoder, worker, unit, units, encoder->pass->levels);
    const uint32_t alone = worker->job.alone;
    if (status != WEFT_OK || alone == 0) {
        worker->changed += worker->job.changed;
        return status;
    }
    weft_encode_delta_clear(encoder->layout, encoder->pass->delta, unit, units);
    for (uint32_t i = 0; status == WEFT_OK && i < units; i++) {
        status = span_encode(encoder, worker, unit + i, 1, alone);
        worker->changed += worker->job.changed;
    }
    return status;
}

/* Hands the frames from `from` to `to` of one level on. */
static weft_status level_emit(const weft_encode_pass *pass, weft_level level, const uint8_t *from, const uint8_t *to)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && from < to) {
        uint64_t bytes = weft_frame_measure(from, (uint64_t)(to - from));
        status = pass->emit(pass->user, level, from, (uint32_t)bytes);
        from += bytes;
    }
    return status;
}

static weft_status frames_emit(const weft_encode_pass *pass, const weft_encode_turn *turn)
{
    weft_status status = WEFT_OK;
    for (int level = 0; status == WEFT_OK && level < WEFT_LEVEL_COUNT; level++) {
        const uint8_t *data = turn->worker->sinks[level].data;
        status = level_emit(pass, (weft_level)level, data + turn->from[level], data + turn->to[level]);
    }
    return status;
}

/* ---- turns */

static void sinks_empty(weft_encode_worker *worker)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        worker->sinks[level].used = 0;
}

/* Whether a worker may make so many units more: their frames lie after those that wait for their turn. */
static bool room_is_there(const weft_encoder *encoder, weft_encode_worker *worker, uint32_t units)
{
    const uint64_t need = units * (uint64_t)encoder->layout->largest_frame;
    bool fits = worker->waiting < WEFT_ENCODE_AHEAD;
    if (worker->waiting == 0)
        sinks_empty(worker);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        fits = fits && worker->sinks[level].capacity - worker->sinks[level].used >= need;
    return fits;
}

/* The next run for a worker and its turn; false at the end or after a failure. */
static bool run_take(weft_encoder *encoder, weft_encode_worker *worker, uint64_t *unit, uint32_t *units,
                     uint64_t *number)
{
    bool taken = false;
    pthread_mutex_lock(&encoder->lock);
    while (!taken && !encoder->stopped && encoder->next_unit < encoder->layout->unit_count) {
        *unit = encoder->next_unit;
        *units = weft_layout_run(encoder->layout, *unit, encoder->pass->parameters->run_shift);
        taken = room_is_there(encoder, worker, *units);
        if (!taken)
            pthread_cond_wait(&encoder->moved, &encoder->lock);
    }
    if (taken) {
        *number = encoder->taken++;
        encoder->next_unit += *units;
    }
    pthread_mutex_unlock(&encoder->lock);
    return taken;
}

/* Hands the frames of a run on; the first failure in order is the pass's. */
static void turn_emit(weft_encoder *encoder, const weft_encode_turn *turn)
{
    weft_status status = turn->status;
    if (encoder->status != WEFT_OK)
        return;
    if (status != WEFT_OK) {
        memcpy(encoder->text, turn->worker->text, sizeof encoder->text);
    } else {
        status = frames_emit(encoder->pass, turn);
        if (status == WEFT_OK && encoder->pass->moved)
            status = encoder->pass->moved(encoder->pass->user, turn->end);
        if (status != WEFT_OK)
            snprintf(encoder->text, sizeof encoder->text, "%s", weft_last_error());
    }
    encoder->status = status;
}

/* Puts a run in its place, and hands on all whose turn it is, unless another worker is at that: it sees this one too.
 */
static void turn_end(weft_encoder *encoder, const weft_encode_turn *made, uint64_t number)
{
    const uint64_t places = encoder->team.workers * (uint64_t)WEFT_ENCODE_AHEAD;
    pthread_mutex_lock(&encoder->lock);
    encoder->turns[number % places] = *made;
    made->worker->waiting++;
    encoder->stopped |= made->status != WEFT_OK;
    if (!encoder->emitting) {
        encoder->emitting = true;
        for (weft_encode_turn *turn; (turn = &encoder->turns[encoder->emitted % places])->made; encoder->emitted++) {
            pthread_mutex_unlock(&encoder->lock);
            turn_emit(encoder, turn);
            pthread_mutex_lock(&encoder->lock);
            turn->made = false;
            turn->worker->waiting--;
            encoder->stopped |= encoder->status != WEFT_OK;
            pthread_cond_broadcast(&encoder->moved);
        }
        encoder->emitting = false;
    }
    pthread_mutex_unlock(&encoder->lock);
}

/* Encodes a run after what the worker's sinks hold. */
static weft_encode_turn turn_make(weft_encoder *encoder, weft_encode_worker *worker, uint64_t unit, uint32_t units)
{
    weft_encode_turn turn = {.worker = worker, .end = unit + units, .made = true};
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        turn.from[level] = worker->sinks[level].used;
    turn.status = run_encode(encoder, worker, unit, units);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        turn.to[level] = worker->sinks[level].used;
    if (turn.status != WEFT_OK)
        snprintf(worker->text, sizeof worker->text, "%s", weft_last_error());
    return turn;
}

static void worker_begin(const weft_encoder *encoder, weft_encode_worker *worker)
{
    worker->job = (weft_encode_job){.parameters = encoder->pass->parameters,
                                    .largest_frame = encoder->layout->largest_frame,
                                    .sinks = worker->sinks};
    worker->changed = worker->waiting = 0;
    sinks_empty(worker);
}

static void worker_run(void *context, uint32_t worker_number)
{
    weft_encoder *encoder = context;
    weft_encode_worker *worker = &encoder->workers[worker_number];
    uint64_t unit, number;
    uint32_t units;
    weft_log_sink *before = weft_log_quiet(); /* the caller says it */
    worker_begin(encoder, worker);
    while (run_take(encoder, worker, &unit, &units, &number)) {
        const weft_encode_turn turn = turn_make(encoder, worker, unit, units);
        turn_end(encoder, &turn, number);
    }
    weft_log_enter(before);
}

weft_status weft_encoder_one(weft_encoder *encoder, weft_encode_pass *pass, uint64_t unit, uint32_t units)
{
    weft_encode_worker *worker = &encoder->workers[0];
    encoder->pass = pass;
    worker_begin(encoder, worker);
    const weft_encode_turn turn = turn_make(encoder, worker, unit, units);
    pass->changed += worker->changed;
    pass->diff_ms += worker->job.diff_ms;
    pass->encode_ms += worker->job.encode_ms;
    return turn.status == WEFT_OK ? frames_emit(pass, &turn) : turn.status;
}

weft_status weft_encoder_run(weft_encoder *encoder, weft_encode_pass *pass)
{
    const uint32_t workers = encoder->team.workers;
    if (encoder->batch)
        return weft_encode_batch_run(encoder, pass);
    encoder->pass = pass;
    encoder->next_unit = encoder->taken = encoder->emitted = 0;
    encoder->stopped = false;
    encoder->status = WEFT_OK;
    pass->changed = 0;
    pass->diff_ms = pass->encode_ms = 0;
    weft_team_run(&encoder->team, worker_run, encoder);
    for (uint32_t i = 0; i < workers; i++) {
        const weft_encode_worker *worker = &encoder->workers[i];
        pass->changed += worker->changed;
        pass->diff_ms += worker->job.diff_ms / workers;
        pass->encode_ms += worker->job.encode_ms / workers;
    }
    return encoder->status == WEFT_OK ? WEFT_OK : weft_fail(encoder->status, "%s", encoder->text);
}

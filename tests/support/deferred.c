/* deferred.c - the queue of the deferred backend, and its table. */
#include "tests/support/deferred.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/host/host.h"
#include "base/status.h"
#include "tests/support/deferred_inside.h"

#define PENDING 4096u

static const char *const kind_names[] = {"encode", "decode", "survey", "apply", "undo", "digest", "load", "store"};

typedef struct pending {
    weft_backend_state *state;
    pthread_t thread;
    deferred_kind kind;
    void *job;
    uint64_t number; /* of its thread and state, in order */
    bool done;
    weft_status status;
    char text[256];
} pending;

struct weft_backend_state {
    weft_backend_state *host;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft_backend table;
static pending queue[PENDING];
static uint64_t numbers, jobs, fails_in, polls;
static weft_status fails_with;
static uint32_t states, largest;
static void *stream_seen, *stream_gone;
static bool dead;

void deferred_refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "deferred backend: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

/* ---- the queue */

static bool is_ours(const pending *p, const weft_backend_state *state)
{
    return p->state == state && pthread_equal(p->thread, pthread_self());
}

/* Spoils results that must not be read yet. */
static void spoil(deferred_kind job_kind, void *job)
{
    if (job_kind == DEFERRED_ENCODE) {
        ((weft_encode_job *)job)->changed = 0xdeadbeef;
        ((weft_encode_job *)job)->alone = 0xdeadbeef;
    } else if (job_kind == DEFERRED_DECODE) {
        ((weft_decode_job *)job)->changes->count = 0xdeadbeef;
    } else if (job_kind == DEFERRED_APPLY) {
        ((weft_apply_job *)job)->mismatch = true;
    }
}

static weft_status submit(weft_backend_state *state, deferred_kind job_kind, void *job, void *stream)
{
    uint32_t with = 0;
    pending *place = NULL;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < PENDING; i++) {
        pending *p = &queue[i];
        place = !p->state && !place ? p : place;
        if (!p->state || !is_ours(p, state))
            continue;
        with++;
        if (p->kind != job_kind)
            deferred_refuse("%s while a %s is under way", kind_names[job_kind], kind_names[p->kind]);
        if (p->job == job)
            deferred_refuse("a %s that is under way already", kind_names[job_kind]);
    }
    if (deferred_queue_open(state))
        deferred_refuse("%s while a commit is queued", kind_names[job_kind]);
    if (!place || with >= table.depth)
        deferred_refuse("%u jobs are under way, the depth is %u", with + 1, table.depth);
    if (stream && stream == stream_gone)
        deferred_refuse("a %s on a stream that is gone", kind_names[job_kind]);
    *place = (pending){
        .state = state, .thread = pthread_self(), .kind = job_kind, .job = job, .number = numbers++, .status = WEFT_OK};
    stream_seen = stream ? stream : stream_seen;
    pthread_mutex_unlock(&lock);
    spoil(job_kind, job);
    return WEFT_AGAIN;
}

/* Returns the failure of the job at the head of the count; after the device is lost all jobs fail. */
static weft_status fate(void)
{
    weft_status status = dead ? WEFT_E_DEVICE : WEFT_OK;
    jobs++;
    if (fails_in && --fails_in == 0) {
        status = fails_with;
        dead = dead || status == WEFT_E_DEVICE;
    }
    return status;
}

/* Does what the calling thread has waiting, the last first. */
static void batch(const weft_backend_state *state)
{
    pending *ours[PENDING];
    uint32_t count = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < PENDING; i++)
        if (queue[i].state && is_ours(&queue[i], state) && !queue[i].done)
            ours[count++] = &queue[i];
    largest = count > largest ? count : largest;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++)
            if (ours[j]->number > ours[i]->number) {
                pending *swap = ours[i];
                ours[i] = ours[j];
                ours[j] = swap;
            }
    for (uint32_t i = count; i-- > 0;) {
        ours[i]->status = fate();
        if (dead) /* none of the batch is done */
            for (uint32_t j = 0; j < count; j++)
                ours[j]->status = WEFT_E_DEVICE;
    }
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < count; i++) {
        pending *p = ours[i];
        if (p->status == WEFT_OK)
            p->status = deferred_do(p->state->host, p->kind, p->job);
        else
            weft_fail(p->status, "the deferred device is gone");
        if (p->status != WEFT_OK)
            snprintf(p->text, sizeof p->text, "%s", weft_last_error());
        p->done = true;
    }
}

static weft_status poll(weft_backend_state *state, void *job)
{
    pending *found = NULL;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < PENDING; i++) {
        pending *p = &queue[i];
        if (p->state && is_ours(p, state) && (!found || p->number < found->number))
            found = p;
    }
    if (!found || found->job != job)
        deferred_refuse("a job is asked for that is not the oldest");
    bool later = !found->done && polls++ % 3 == 0;
    pthread_mutex_unlock(&lock);
    if (later)
        return WEFT_AGAIN;
    if (!found->done)
        batch(state);
    weft_status status = found->status;
    if (status != WEFT_OK)
        weft_fail_quiet(status, "%s", found->text);
    pthread_mutex_lock(&lock);
    memset(found, 0, sizeof *found);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- the table */

static weft_status open_state(const weft_backend_options *options, weft_backend_state **state)
{
    weft_backend_state *made = calloc(1, sizeof *made);
    if (!made)
        abort();
    weft_status status = weft_backend_host.open(options, &made->host);
    if (status != WEFT_OK) {
        free(made);
        return status;
    }
    pthread_mutex_lock(&lock);
    states++;
    pthread_mutex_unlock(&lock);
    *state = made;
    return WEFT_OK;
}

static void close_state(weft_backend_state *state)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < PENDING; i++)
        if (queue[i].state == state)
            deferred_refuse("closed with a %s under way", kind_names[queue[i].kind]);
    if (deferred_queue_open(state))
        deferred_refuse("closed with a commit that is queued");
    states--;
    pthread_mutex_unlock(&lock);
    weft_backend_host.close(state->host);
    free(state);
}

static const char *kernels(const weft_backend_state *state)
{
    (void)state;
    return "deferred";
}

#define DEFER(name, kind, stream)                                                                                      \
    static weft_status name(weft_backend_state *state, weft_##name##_job *job)                                         \
    {                                                                                                                  \
        return submit(state, kind, job, stream);                                                                       \
    }
DEFER(encode, DEFERRED_ENCODE, job->stream)
DEFER(decode, DEFERRED_DECODE, NULL)
DEFER(survey, DEFERRED_SURVEY, job->stream)
DEFER(apply, DEFERRED_APPLY, job->stream)
DEFER(undo, DEFERRED_UNDO, job->stream)
DEFER(digest, DEFERRED_DIGEST, NULL)
DEFER(load, DEFERRED_LOAD, job->stream)
DEFER(store, DEFERRED_STORE, job->stream)
#undef DEFER

static weft_status merge(weft_backend_state *state, weft_merge_job *job)
{
    return weft_backend_host.merge(state->host, job);
}

static weft_status drain(weft_backend_state *state, weft_drain_job *job)
{
    return weft_backend_host.drain(state->host, job);
}

static weft_status invert(weft_backend_state *state, weft_invert_job *job)
{
    return weft_backend_host.invert(state->host, job);
}

void deferred_lend(uint32_t depth)
{
    table = weft_backend_host;
    table.name = "cuda";
    table.caps = WEFT_BACKEND_DEVICE | WEFT_BACKEND_CUDA;
    table.depth = depth;
    table.open = open_state;
    table.close = close_state;
    table.kernels = kernels;
    table.memory_take = deferred_memory_take;
    table.memory_give = deferred_memory_give;
    table.check = deferred_memory_check;
    table.encode = encode;
    table.decode = decode;
    table.survey = survey;
    table.apply = apply;
    table.undo = undo;
    table.digest = digest;
    table.load = load;
    table.store = store;
    table.merge = merge;
    table.drain = drain;
    table.invert = invert;
    table.poll = poll;
    table.queue = deferred_queue;
    table.queued = deferred_queued;
    jobs = fails_in = largest = 0;
    dead = false;
    stream_seen = stream_gone = NULL;
    weft_backend_lend(&table);
}

void deferred_take_back(void)
{
    weft_backend_lend(NULL);
    deferred_memory_none();
    if (states)
        deferred_refuse("%u states were not closed", states);
}

void deferred_fail(uint64_t nth, weft_status status)
{
    pthread_mutex_lock(&lock);
    fails_in = nth;
    fails_with = status;
    pthread_mutex_unlock(&lock);
}

uint64_t deferred_jobs(void)
{
    pthread_mutex_lock(&lock);
    uint64_t count = jobs;
    pthread_mutex_unlock(&lock);
    return count;
}

uint32_t deferred_largest(void)
{
    pthread_mutex_lock(&lock);
    uint32_t count = largest;
    pthread_mutex_unlock(&lock);
    return count;
}

void deferred_end_stream(void *stream)
{
    pthread_mutex_lock(&lock);
    stream_gone = stream;
    pthread_mutex_unlock(&lock);
}

void *deferred_stream(void)
{
    pthread_mutex_lock(&lock);
    void *stream = stream_seen;
    pthread_mutex_unlock(&lock);
    return stream;
}

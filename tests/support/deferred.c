#include "tests/support/deferred.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/host.h"
#include "status.h"

#define REGIONS 256u
#define PENDING 4096u

typedef enum kind { ENCODE, DECODE, SURVEY, APPLY, UNDO, DIGEST, LOAD, STORE } kind;
static const char *const kind_names[] = {"encode", "decode", "survey", "apply", "undo", "digest", "load", "store"};

/* Memory: `device` is what others are given; where it is not reachable the bytes are at `reach`. */
typedef struct region {
    uint8_t *device, *reach;
    uint64_t bytes;
} region;

typedef struct pending {
    weft_backend_state *state;
    pthread_t thread;
    kind kind;
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
static region regions[REGIONS];
static pending queue[PENDING];
static uint64_t numbers, jobs, fails_in, polls;
static weft_status fails_with;
static uint32_t states, largest;
static void *stream_seen;
static bool dead;

static void refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "deferred backend: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

/* ---- memory */

static region *region_of(const void *address)
{
    const uint8_t *at = address;
    for (uint32_t i = 0; i < REGIONS; i++)
        if (regions[i].bytes && at >= regions[i].device && at < regions[i].device + regions[i].bytes)
            return &regions[i];
    return NULL;
}

static void region_add(void *device, void *reach, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    uint32_t i = 0;
    while (i < REGIONS && regions[i].bytes)
        i++;
    if (i == REGIONS)
        refuse("more than %u regions of memory", REGIONS);
    regions[i] = (region){device, reach, bytes};
    pthread_mutex_unlock(&lock);
}

static void *map(uint64_t bytes, int protection)
{
    void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        refuse("no memory of %llu bytes", (unsigned long long)bytes);
    return memory;
}

void *deferred_take(uint64_t bytes, void **reach)
{
    bytes = bytes ? bytes : 1;
    void *device = map(bytes, PROT_NONE), *own = map(bytes, PROT_READ | PROT_WRITE);
    region_add(device, own, bytes);
    if (reach)
        *reach = own;
    return device;
}

void deferred_give(void *memory)
{
    pthread_mutex_lock(&lock);
    region *r = region_of(memory);
    if (!r || r->device != memory)
        refuse("%p is given back and was not taken", memory);
    if (r->reach != r->device)
        munmap(r->reach, r->bytes);
    munmap(r->device, r->bytes);
    memset(r, 0, sizeof *r);
    pthread_mutex_unlock(&lock);
}

static weft_status memory_take(weft_backend_state *state, uint64_t bytes, weft_memory_kind memory_kind, void **memory)
{
    (void)state;
    bytes = bytes ? bytes : 1;
    if (memory_kind == WEFT_MEMORY_HOST) {
        *memory = map(bytes, PROT_READ | PROT_WRITE);
        region_add(*memory, *memory, bytes);
    } else {
        *memory = deferred_take(bytes, NULL);
    }
    return WEFT_OK;
}

static void memory_give(weft_backend_state *state, void *memory, uint64_t bytes, weft_memory_kind memory_kind)
{
    (void)state;
    (void)bytes;
    (void)memory_kind;
    deferred_give(memory);
}

static const char *check(weft_backend_state *state, const void *data, uint64_t bytes)
{
    (void)state;
    pthread_mutex_lock(&lock);
    const region *r = region_of(data);
    bool inside = r && r->reach != r->device && (const uint8_t *)data + bytes <= r->device + r->bytes;
    pthread_mutex_unlock(&lock);
    return inside ? NULL : "lies in host memory";
}

/* Where the bytes of an address are that jobs may name. */
static void *reach(const void *address, bool any_host)
{
    pthread_mutex_lock(&lock);
    const region *r = region_of(address);
    pthread_mutex_unlock(&lock);
    if (!r && !any_host)
        refuse("a job names %p, which is no memory of the device", address);
    return r ? r->reach + ((const uint8_t *)address - r->device) : (void *)(uintptr_t)address;
}

/* ---- one job, by the host backend */

static weft_view view_reach(const weft_view *view)
{
    weft_view own = *view;
    weft_run *runs = malloc((view->run_count + 1) * sizeof *runs);
    if (!runs)
        abort();
    for (uint32_t i = 0; i < view->run_count; i++) {
        runs[i] = view->runs[i];
        runs[i].data = reach(runs[i].data, false);
    }
    own.runs = runs;
    return own;
}

static void view_end(const weft_view *view)
{
    free((void *)(uintptr_t)view->runs);
}

static weft_changes changes_reach(const weft_changes *changes)
{
    weft_changes own = *changes;
    own.position = reach(changes->position, false);
    own.before = reach(changes->before, false);
    own.after = reach(changes->after, false);
    return own;
}

static weft_status encode_do(weft_backend_state *host, weft_encode_job *job)
{
    weft_encode_job own = *job;
    own.now = view_reach(&job->now);
    own.shadow = view_reach(&job->shadow);
    weft_status status = weft_backend_host.encode(host, &own);
    view_end(&own.now);
    view_end(&own.shadow);
    own.now = job->now;
    own.shadow = job->shadow;
    *job = own;
    return status;
}

static weft_status survey_do(weft_backend_state *host, const weft_survey_job *job)
{
    weft_survey_job own = *job;
    own.now = view_reach(&job->now);
    own.shadow = view_reach(&job->shadow);
    weft_status status = weft_backend_host.survey(host, &own);
    view_end(&own.now);
    view_end(&own.shadow);
    return status;
}

static weft_status decode_do(weft_backend_state *host, const weft_decode_job *job)
{
    weft_decode_job own = *job;
    weft_changes changes = changes_reach(job->changes);
    own.base = view_reach(&job->base);
    own.changes = &changes;
    weft_status status = weft_backend_host.decode(host, &own);
    view_end(&own.base);
    job->changes->unit = changes.unit;
    job->changes->units = changes.units;
    job->changes->count = changes.count;
    return status;
}

static weft_status apply_do(weft_backend_state *host, weft_apply_job *job)
{
    weft_changes changes = changes_reach(job->changes);
    weft_apply_job own = {.target = view_reach(&job->target), .changes = &changes};
    weft_status status = weft_backend_host.apply(host, &own);
    view_end(&own.target);
    job->mismatch = own.mismatch;
    return status;
}

static weft_status undo_do(weft_backend_state *host, const weft_undo_job *job)
{
    weft_changes changes = changes_reach(job->changes);
    weft_undo_job own = {view_reach(&job->target), &changes, NULL};
    weft_status status = weft_backend_host.undo(host, &own);
    view_end(&own.target);
    return status;
}

static weft_status digest_do(weft_backend_state *host, const weft_digest_job *job)
{
    weft_digest_job own = {view_reach(&job->view), job->tensor_delta};
    weft_status status = weft_backend_host.digest(host, &own);
    view_end(&own.view);
    return status;
}

static weft_status load_do(weft_backend_state *host, const weft_load_job *job)
{
    weft_load_job own = {view_reach(&job->view), reach(job->bytes, true), NULL};
    weft_status status = weft_backend_host.load(host, &own);
    view_end(&own.view);
    return status;
}

static weft_status store_do(weft_backend_state *host, const weft_store_job *job)
{
    weft_store_job own = {view_reach(&job->view), reach(job->bytes, true), NULL};
    weft_status status = weft_backend_host.store(host, &own);
    view_end(&own.view);
    return status;
}

static weft_status job_do(const pending *p)
{
    weft_backend_state *host = p->state->host;
    switch (p->kind) {
    case ENCODE:
        return encode_do(host, p->job);
    case DECODE:
        return decode_do(host, p->job);
    case SURVEY:
        return survey_do(host, p->job);
    case APPLY:
        return apply_do(host, p->job);
    case UNDO:
        return undo_do(host, p->job);
    case DIGEST:
        return digest_do(host, p->job);
    case LOAD:
        return load_do(host, p->job);
    default:
        return store_do(host, p->job);
    }
}

/* ---- the queue */

static bool is_ours(const pending *p, const weft_backend_state *state)
{
    return p->state == state && pthread_equal(p->thread, pthread_self());
}

/* Results that nobody may look at yet. */
static void spoil(kind job_kind, void *job)
{
    if (job_kind == ENCODE) {
        ((weft_encode_job *)job)->changed = 0xdeadbeef;
        ((weft_encode_job *)job)->alone = 0xdeadbeef;
    } else if (job_kind == DECODE) {
        ((weft_decode_job *)job)->changes->count = 0xdeadbeef;
    } else if (job_kind == APPLY) {
        ((weft_apply_job *)job)->mismatch = true;
    }
}

static weft_status submit(weft_backend_state *state, kind job_kind, void *job, void *stream)
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
            refuse("%s while a %s is under way", kind_names[job_kind], kind_names[p->kind]);
        if (p->job == job)
            refuse("a %s that is under way already", kind_names[job_kind]);
    }
    if (!place || with >= table.depth)
        refuse("%u jobs are under way, the depth is %u", with + 1, table.depth);
    *place = (pending){
        .state = state, .thread = pthread_self(), .kind = job_kind, .job = job, .number = numbers++, .status = WEFT_OK};
    stream_seen = stream ? stream : stream_seen;
    pthread_mutex_unlock(&lock);
    spoil(job_kind, job);
    return WEFT_AGAIN;
}

/* Whether the job at the head of the count fails; with the device all are. */
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
            p->status = job_do(p);
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
        refuse("a job is asked for that is not the oldest");
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
            refuse("closed with a %s under way", kind_names[queue[i].kind]);
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

static weft_status encode(weft_backend_state *state, weft_encode_job *job)
{
    return submit(state, ENCODE, job, job->stream);
}

static weft_status decode(weft_backend_state *state, weft_decode_job *job)
{
    return submit(state, DECODE, job, NULL);
}

static weft_status survey(weft_backend_state *state, weft_survey_job *job)
{
    return submit(state, SURVEY, job, job->stream);
}

static weft_status apply(weft_backend_state *state, weft_apply_job *job)
{
    return submit(state, APPLY, job, job->stream);
}

static weft_status undo(weft_backend_state *state, weft_undo_job *job)
{
    return submit(state, UNDO, job, job->stream);
}

static weft_status digest(weft_backend_state *state, weft_digest_job *job)
{
    return submit(state, DIGEST, job, NULL);
}

static weft_status load(weft_backend_state *state, weft_load_job *job)
{
    return submit(state, LOAD, job, job->stream);
}

static weft_status store(weft_backend_state *state, weft_store_job *job)
{
    return submit(state, STORE, job, job->stream);
}

static weft_status merge(weft_backend_state *state, weft_merge_job *job)
{
    return weft_backend_host.merge(state->host, job);
}

static weft_status drain(weft_backend_state *state, weft_drain_job *job)
{
    return weft_backend_host.drain(state->host, job);
}

void deferred_lend(uint32_t depth)
{
    table = weft_backend_host;
    table.name = "cuda";
    table.caps = WEFT_BACKEND_DEVICE;
    table.depth = depth;
    table.open = open_state;
    table.close = close_state;
    table.kernels = kernels;
    table.memory_take = memory_take;
    table.memory_give = memory_give;
    table.check = check;
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
    table.poll = poll;
    jobs = fails_in = largest = 0;
    dead = false;
    stream_seen = NULL;
    weft_backend_lend(&table);
}

void deferred_take_back(void)
{
    weft_backend_lend(NULL);
    for (uint32_t i = 0; i < REGIONS; i++)
        if (regions[i].bytes)
            refuse("%llu bytes of memory were not given back", (unsigned long long)regions[i].bytes);
    if (states)
        refuse("%u states were not closed", states);
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

void *deferred_stream(void)
{
    pthread_mutex_lock(&lock);
    void *stream = stream_seen;
    pthread_mutex_unlock(&lock);
    return stream;
}

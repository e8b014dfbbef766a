/* host.c - the table of the host backend; every job completes inline. */
#include "backends/host/host.h"

#include <string.h>

#include "backends/host/host_state.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "codec/tight.h"

#define UNIT_WORDS(type) (WEFT_HOST_UNIT_ELEMENTS * (uint64_t)sizeof(type))
/* Every kind of list of a tight frame has at most as many members as the frame has changes, and an end mark;
 * seven words can be read after the last, and written where a list ends. */
#define MEMBERS_BYTES (3 * UNIT_WORDS(uint32_t) + (WEFT_TIGHT_LISTS + 7) * sizeof(uint32_t))
/* 64 words more may be written after the last. */
#define SORTED_BYTES (UNIT_WORDS(uint32_t) + 64 * sizeof(uint32_t))

#define SCRATCH_BYTES (22 * UNIT_WORDS(uint8_t) + 2 * (uint64_t)WEFT_HOST_UNIT_BYTES + SORTED_BYTES + MEMBERS_BYTES)

/* Hands out the arrays, words of eight bytes first. */
static void scratch_lay(weft_backend_state *state)
{
    uint8_t *at = state->scratch;
    const struct {
        void *array; /* the pointer to set */
        uint64_t bytes;
    } rows[] = {
        {&state->excess, UNIT_WORDS(uint64_t)},
        {&state->changes.before, WEFT_HOST_UNIT_BYTES},
        {&state->changes.after, WEFT_HOST_UNIT_BYTES},
        {&state->changes.position, UNIT_WORDS(uint32_t)},
        {&state->rank, UNIT_WORDS(uint32_t)},
        {&state->class_rank, UNIT_WORDS(uint32_t)},
        {&state->sorted, SORTED_BYTES},
        {&state->members, MEMBERS_BYTES},
        {&state->class_of, UNIT_WORDS(uint8_t)},
        {&state->rice, UNIT_WORDS(uint8_t)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(rows[i].array, &at, sizeof at);
        at += rows[i].bytes;
    }
}

/* Changes that the lists hold: those of the largest unit of this width. A run that has more has too many for a frame.
 */
static uint32_t room_of(uint8_t width)
{
    const uint32_t held = WEFT_HOST_UNIT_BYTES / width;
    return held < WEFT_HOST_UNIT_ELEMENTS ? held : WEFT_HOST_UNIT_ELEMENTS;
}

/* The loops of level tight that go with a kernel set. */
static const weft_host_tight_kernels *tight_of(const weft_host_kernels *kernels)
{
#ifdef WEFT_HAVE_AVX512
    if (kernels == &weft_host_avx512)
        return &weft_host_tight_avx512;
#endif
#ifdef WEFT_HAVE_AVX2
    if (kernels == &weft_host_avx2)
        return &weft_host_tight_avx2;
#endif
    (void)kernels;
    return &weft_host_tight_portable;
}

static weft_status host_open(const weft_backend_options *options, weft_backend_state **state)
{
    const weft_host_kernels *kernels;
    weft_status status = weft_host_choose(options->kernels, &kernels);
    if (status != WEFT_OK)
        return status;
    weft_backend_state *made = weft_mem_take(1, sizeof(*made));
    uint8_t *scratch = weft_mem_map(SCRATCH_BYTES);
    if (!made || !scratch) {
        weft_mem_unmap(scratch, scratch ? SCRATCH_BYTES : 0);
        weft_mem_give(made);
        return weft_fail(WEFT_E_MEMORY, "host backend: %llu bytes of scratch cannot be had",
                         (unsigned long long)SCRATCH_BYTES);
    }
    made->kernels = kernels;
    made->tight = tight_of(kernels);
    made->scratch = scratch;
    scratch_lay(made);
    made->ranker.tight = made->tight;
    made->ranker.rank = made->class_rank;
    made->ranker.class_of = made->class_of;
    pthread_mutex_init(&made->scratching, NULL);
    *state = made;
    return WEFT_OK;
}

static void host_close(weft_backend_state *state)
{
    if (!state)
        return;
    pthread_mutex_destroy(&state->scratching);
    weft_mem_unmap(state->scratch, SCRATCH_BYTES);
    weft_mem_give(state);
}

static const char *host_kernels(const weft_backend_state *state)
{
    return state->kernels->name;
}

/* All memory is the host's. */
static weft_status host_memory_take(weft_backend_state *state, uint64_t bytes, weft_memory_kind kind, void **memory)
{
    (void)state;
    if (kind == WEFT_MEMORY_DEVICE)
        return weft_fail(WEFT_E_ARGUMENT, "backend host has no device memory");
    void *made = weft_mem_map(bytes);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "%llu bytes cannot be had", (unsigned long long)bytes);
    *memory = made;
    return WEFT_OK;
}

static void host_memory_give(weft_backend_state *state, void *memory, uint64_t bytes, weft_memory_kind kind)
{
    (void)state;
    (void)kind;
    weft_mem_unmap(memory, bytes);
}

static uint64_t host_runs(const weft_backend_state *state)
{
    (void)state;
    return UINT64_MAX;
}

static const char *host_check(weft_backend_state *state, const void *data, uint64_t bytes)
{
    (void)state;
    (void)data;
    (void)bytes;
    return NULL;
}

static void levels_write(weft_backend_state *state, weft_encode_job *job)
{
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++) {
        if (job->levels & 1u << level)
            weft_host_write_frame(state, job, (weft_level)level);
    }
}

/* Lists the changes and counts their digests; false if a run has more than one frame may code. */
static bool changes_find(weft_backend_state *state, weft_encode_job *job)
{
    weft_host_ranker *ranker = job->levels >> WEFT_LEVEL_TIGHT & 1 ? &state->ranker : NULL;
    if (ranker) {
        memset(ranker->population, 0, sizeof ranker->population);
        weft_class_map_make(&ranker->map, job->parameters, job->now.width, job->now.exponent_bits);
    }
    state->changes.capacity = room_of(job->now.width);
    if (!weft_host_diff(state, &job->now, &job->shadow, &state->changes, ranker))
        return false;
    if (job->now.units > 1 && state->changes.count > WEFT_FRAME_RUN_CHANGES)
        return false;
    weft_host_delta(state->kernels, &job->shadow, &state->changes, job->tensor_delta);
    job->changed = state->changes.count;
    return true;
}

static weft_status host_encode(weft_backend_state *state, weft_encode_job *job)
{
    memset(job->frame_bytes, 0, sizeof(job->frame_bytes));
    job->alone = 0;
    pthread_mutex_lock(&state->scratching);
    uint64_t begin = weft_clock_ns();
    bool found = changes_find(state, job);
    uint64_t middle = weft_clock_ns();
    if (!found)
        job->alone = job->levels;
    else if (job->changed > 0)
        levels_write(state, job);
    pthread_mutex_unlock(&state->scratching);
    job->diff_ms += weft_clock_ms(begin, middle);
    job->encode_ms += weft_clock_ms(middle, weft_clock_ns());
    return WEFT_OK;
}

static weft_status host_apply(weft_backend_state *state, weft_apply_job *job)
{
    weft_changes *changes = job->changes;
    const unsigned slot = weft_host_slot(job->target.width);
    uint32_t from = 0;
    job->mismatch = false;
    for (uint32_t r = 0; r < job->target.run_count && from < changes->count; r++) {
        const weft_run *run = &job->target.runs[r];
        uint32_t first = weft_run_position(&job->target, run);
        uint32_t end = weft_host_run_end(&job->target, run, changes, from);
        uint8_t *before = (uint8_t *)changes->before + ((uint64_t)from << slot);
        const uint8_t *after = (const uint8_t *)changes->after + ((uint64_t)from << slot);
        const weft_host_spots spots = {&job->target, run, changes->position + from, end - from};
        job->mismatch |= run->data ? state->kernels->swap[slot](run->data, changes->position + from, first, end - from,
                                                                before, after)
                                   : weft_host_boxes_swap(&spots, before, after);
        from = end;
    }
    return WEFT_OK;
}

static weft_status host_undo(weft_backend_state *state, weft_undo_job *job)
{
    const weft_changes *changes = job->changes;
    const unsigned slot = weft_host_slot(job->target.width);
    uint32_t from = 0;
    for (uint32_t r = 0; r < job->target.run_count && from < changes->count; r++) {
        const weft_run *run = &job->target.runs[r];
        uint32_t first = weft_run_position(&job->target, run);
        uint32_t end = weft_host_run_end(&job->target, run, changes, from);
        const uint8_t *before = (const uint8_t *)changes->before + ((uint64_t)from << slot);
        if (run->data)
            state->kernels->scatter[slot](run->data, changes->position + from, first, end - from, before);
        else
            weft_host_boxes_scatter(&(weft_host_spots){&job->target, run, changes->position + from, end - from},
                                    before);
        from = end;
    }
    return WEFT_OK;
}

static weft_status host_digest(weft_backend_state *state, weft_digest_job *job)
{
    const unsigned slot = weft_host_slot(job->view.width);
    weft_host_tile_lock(state, &job->view);
    weft_host_reader weights = weft_host_reader_of(state->kernels, &job->view, weft_host_tile(state, 0));
    while (weft_host_reader_next(&weights)) {
        const uint32_t first = weights.begin - weft_run_position(&job->view, weights.run);
        job->tensor_delta[weights.run->part] +=
            state->kernels->digest[slot](weights.data, weights.run->element + first, weights.end - weights.begin);
    }
    weft_host_tile_unlock(state, &job->view);
    return WEFT_OK;
}

static weft_host_range range_of(const weft_view *view, const weft_run *run)
{
    return (weft_host_range){run->tensor, run->element, run->count, view->width};
}

void weft_host_load(const weft_host_kernels *kernels, const weft_view *view, uint8_t *bytes)
{
    for (uint32_t r = 0; r < view->run_count; r++) {
        const weft_run *run = &view->runs[r];
        const weft_host_range range = range_of(view, run);
        uint8_t *to = bytes + (uint64_t)weft_run_position(view, run) * view->width;
        if (run->data)
            memcpy(to, run->data, (uint64_t)run->count * view->width);
        else
            weft_host_boxes_load(kernels, view->boxes, &range, to);
    }
}

void weft_host_store(const weft_view *view, const uint8_t *bytes)
{
    for (uint32_t r = 0; r < view->run_count; r++) {
        const weft_run *run = &view->runs[r];
        const weft_host_range range = range_of(view, run);
        const uint8_t *from = bytes + (uint64_t)weft_run_position(view, run) * view->width;
        if (run->data)
            memcpy(run->data, from, (uint64_t)run->count * view->width);
        else
            weft_host_boxes_store(view->boxes, &range, from);
    }
}

static weft_status host_load(weft_backend_state *state, weft_load_job *job)
{
    weft_host_load(state->kernels, &job->view, job->bytes);
    return WEFT_OK;
}

static weft_status host_store(weft_backend_state *state, weft_store_job *job)
{
    (void)state;
    weft_host_store(&job->view, job->bytes);
    return WEFT_OK;
}

static weft_status host_poll(weft_backend_state *state, void *job)
{
    (void)state;
    (void)job;
    return WEFT_OK;
}

static void host_give(weft_backend_state *state, weft_encode_job *job)
{
    (void)state;
    (void)job;
}

static uint64_t host_memory_left(weft_backend_state *state)
{
    (void)state;
    return 0;
}

const weft_backend weft_backend_host = {
    .abi = WEFT_BACKEND_ABI,
    .name = "host",
    .depth = 1,
    .give = host_give,
    .memory_left = host_memory_left,
    .host_bytes = SCRATCH_BYTES + sizeof(weft_backend_state),
    .probe = weft_host_probe,
    .open = host_open,
    .close = host_close,
    .kernels = host_kernels,
    .memory_take = host_memory_take,
    .memory_give = host_memory_give,
    .runs = host_runs,
    .check = host_check,
    .encode = host_encode,
    .decode = weft_host_decode,
    .survey = weft_host_survey,
    .apply = host_apply,
    .undo = host_undo,
    .digest = host_digest,
    .load = host_load,
    .store = host_store,
    .merge = weft_host_merge,
    .drain = weft_host_drain,
    .invert = weft_host_invert,
    .poll = host_poll,
};

/* encode_batch.c - the pass for backends that take several jobs at once: as many runs as they take are with them.
 *
 * The rooms for frames are those of WEFT_ENCODE_PLACES frames of the largest size. A pass begins with so many places.
 * When frames turn out to be small, more and smaller places are laid out in the same rooms. A frame that is too large
 * for its place takes the pass back to the frame's run, with the large places again. */
#include "base/mem.h"
#include "base/status.h"
#include "encode/encode.h"

/* Frames of a ring that are looked at before more places are laid out, and the room that a place then has, in frames of
 * the largest size among those. */
#define SEEN_LEAST WEFT_ENCODE_PLACES
#define SPARE      4u

/* Jobs of runs, each with room of its own for the frame that it makes at each level. */
typedef struct weft_encode_ring {
    weft_pipeline *window;
    weft_frame_sink *sinks; /* WEFT_LEVEL_COUNT for each place in the window */
    uint8_t *room[WEFT_LEVEL_COUNT];
    uint64_t bytes;   /* of a room */
    uint64_t largest; /* bytes of the largest frame there can be */
    uint64_t stride;  /* of a room's places */
    uint32_t places;  /* at most the window's depth */
    uint32_t seen;    /* jobs that ended since the places were laid out */
    uint64_t most;    /* bytes of their largest frame */
    bool full;        /* a frame did not fit */
} weft_encode_ring;

typedef struct weft_encode_batch {
    weft_encode_ring runs;
    weft_encode_ring units; /* of runs that cannot be one frame */
    weft_pipeline window;   /* theirs */
    uint64_t ahead;         /* job of the runs' window up to which such runs have their units begun */
} weft_encode_batch;

/* ---- open */

static uint32_t places_of(uint32_t depth)
{
    return depth < WEFT_ENCODE_PLACES ? depth : WEFT_ENCODE_PLACES;
}

static uint32_t places_least(const weft_encode_ring *ring)
{
    return places_of(ring->window->depth);
}

/* Sizes the ring, and lists its memory. */
static weft_mem_list memory_of(weft_encode_ring *ring, const weft_layout *layout, uint32_t depth)
{
    weft_mem_list list = {{WEFT_MEM_TAKEN(ring->sinks, (uint64_t)depth * WEFT_LEVEL_COUNT)}};
    ring->largest = layout->largest_frame ? layout->largest_frame : 1;
    ring->bytes = places_of(depth) * ring->largest;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) /* pages never touched cost nothing */
        list.blocks[1 + level] = (weft_mem_block)WEFT_MEM_PAGES(ring->room[level], ring->bytes);
    return list;
}

uint64_t weft_encode_batch_need(const weft_layout *layout, uint32_t depth)
{
    return sizeof(weft_encode_batch) + 2 * weft_mem_list_bytes(memory_of(&(weft_encode_ring){0}, layout, depth));
}

/* Lays the places out anew; no job is under way. */
static void ring_lay(weft_encode_ring *ring, uint32_t places)
{
    ring->places = places;
    ring->stride = places == places_least(ring) ? ring->largest : ring->bytes / places;
    ring->seen = 0;
    ring->most = 0;
    ring->full = false;
}

static weft_status ring_open(weft_encode_ring *ring, weft_pipeline *window, const weft_layout *layout)
{
    ring->window = window;
    const weft_mem_list memory = memory_of(ring, layout, window->depth);
    ring_lay(ring, places_least(ring));
    return weft_mem_list_take(memory, "for the frames of %u runs of units", ring->places);
}

/* Returns how many places the frames so far allow. */
static uint32_t ring_wider(const weft_encode_ring *ring)
{
    const uint64_t each = ring->most > 0 ? SPARE * ring->most : 1, places = ring->bytes / each;
    return places < ring->window->depth ? (uint32_t)places : ring->window->depth;
}

/* True if the ring is to be emptied for more places, because there can be twice as many. */
static bool ring_turns(const weft_encode_ring *ring)
{
    return ring->seen == SEEN_LEAST && ring_wider(ring) / 2 >= ring->places;
}

/* Notes the frames of a job that ended. Those of each SEEN_LEAST jobs are judged together. */
static void ring_see(weft_encode_ring *ring, const weft_encode_job *job)
{
    if (ring->seen == SEEN_LEAST && !ring_turns(ring))
        ring->seen = ring->most = 0;
    ring->seen += ring->seen < SEEN_LEAST;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        ring->full |= job->levels >> level & 1 && job->sinks[level].full;
        ring->most = job->frame_bytes[level] > ring->most ? job->frame_bytes[level] : ring->most;
    }
}

weft_status weft_encode_batch_open(weft_encoder *encoder)
{
    encoder->batch = weft_mem_take(1, sizeof *encoder->batch);
    if (!encoder->batch)
        return weft_fail(WEFT_E_MEMORY, "no memory for an encoder");
    weft_encode_batch *batch = encoder->batch;
    weft_status status = weft_pipeline_open(&batch->window, encoder->backend, encoder->windows->device);
    if (status == WEFT_OK)
        status = ring_open(&batch->runs, encoder->windows, encoder->layout);
    return status == WEFT_OK ? ring_open(&batch->units, &batch->window, encoder->layout) : status;
}

void weft_encode_batch_close(weft_encoder *encoder)
{
    if (!encoder->batch)
        return;
    weft_mem_list_give(memory_of(&encoder->batch->units, encoder->layout, encoder->backend->depth));
    weft_mem_list_give(memory_of(&encoder->batch->runs, encoder->layout, encoder->backend->depth));
    weft_pipeline_close(&encoder->batch->window);
    weft_mem_give(encoder->batch);
    encoder->batch = NULL;
}

/* ---- a run */

/* Begins one, if there is a place. */
static bool span_begin(const weft_encoder *encoder, weft_encode_ring *ring, uint64_t unit, uint32_t units,
                       uint32_t levels)
{
    const weft_encode_pass *pass = encoder->pass;
    const weft_pipeline *window = ring->window;
    weft_job *job = window->begun - window->ended < ring->places ? weft_pipeline_next(ring->window) : NULL;
    if (!job)
        return false;
    const uint64_t place = window->begun % ring->places;
    weft_frame_sink *sinks = ring->sinks + place * WEFT_LEVEL_COUNT;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        sinks[level] = (weft_frame_sink){.data = ring->room[level] + place * ring->stride, .capacity = ring->stride};
    job->encode = (weft_encode_job){.now = weft_binding_span(pass->now, unit, units),
                                    .shadow = weft_binding_span(pass->shadow, unit, units),
                                    .parameters = pass->parameters,
                                    .largest_frame = encoder->layout->largest_frame,
                                    .levels = levels,
                                    .sinks = sinks,
                                    .tensor_delta = pass->delta, /* a part belongs to one unit: jobs share no word */
                                    .stream = pass->stream,
                                    .behind = pass->behind,
                                    .lend = true};
    job->encode.expected = (uint32_t)(encoder->density * job->encode.now.count);
    weft_pipeline_begin(ring->window, WEFT_JOB_ENCODE);
    return true;
}

static weft_status frames_emit(const weft_encode_pass *pass, const weft_encode_job *job)
{
    weft_status status = WEFT_OK;
    for (int level = 0; status == WEFT_OK && level < WEFT_LEVEL_COUNT; level++) {
        const uint8_t *frame = job->lent[level] ? job->lent[level] : job->sinks[level].data;
        if (job->levels >> level & 1 && job->frame_bytes[level] > 0)
            status = pass->emit(pass->user, (weft_level)level, frame, job->frame_bytes[level]);
    }
    return status;
}

/* Hands on what a job made, and sums up. */
static weft_status job_end(weft_encode_pass *pass, const weft_job *job)
{
    pass->diff_ms += job->encode.diff_ms;
    pass->encode_ms += job->encode.encode_ms;
    if (job->status != WEFT_OK)
        return job->status;
    if (job->encode.alone == 0)
        pass->changed += job->encode.changed;
    return frames_emit(pass, &job->encode);
}

/* Gives back the jobs that ended, from job `first` on. The shadow follows those before `handed`, whose frames were
 * handed on, if the caller of the pass wants that. */
static void jobs_give(const weft_encode_pass *pass, const weft_pipeline *window, uint64_t first, uint64_t handed)
{
    if (pass->settle)
        pass->settle(pass->user);
    for (uint64_t number = first; number < window->ended; number++) {
        weft_job *job = &window->jobs[number % window->depth];
        weft_encode_job *encode = &job->encode;
        encode->follow =
            number < handed && encode->follows && pass->follow && pass->follow(pass->user, encode->now.unit);
        weft_pipeline_give(window, job);
    }
}

/* Begins the units of a run, if there are places for all of them. */
static bool units_begin(const weft_encoder *encoder, const weft_encode_job *run)
{
    weft_encode_ring *ring = &encoder->batch->units;
    const uint64_t first = run->now.unit, places = ring->places - (ring->window->begun - ring->window->ended);
    if (places < run->now.units)
        return false;
    weft_encode_delta_clear(encoder->layout, encoder->pass->delta, first, run->now.units);
    for (uint32_t unit = 0; unit < run->now.units; unit++)
        span_begin(encoder, ring, first + unit, 1, run->alone);
    return true;
}

/* Begins the units of all runs that are over and cannot be one frame, from job `number` of the runs' window on: a
 * device does them together, and its wait for each run would be as long as a batch takes. */
static void units_ahead(const weft_encoder *encoder, uint64_t number)
{
    weft_encode_batch *batch = encoder->batch;
    const weft_pipeline *window = batch->runs.window;
    for (batch->ahead = number; batch->ahead < window->begun; batch->ahead++) {
        const weft_job *job = &window->jobs[batch->ahead % window->depth];
        if (job->status == WEFT_OK && job->encode.alone && !units_begin(encoder, &job->encode))
            break;
    }
}

/* The units of a run that cannot be one frame at some levels: the job that ended last. The other runs are over, and
 * wait.
 */
static weft_status units_encode(const weft_encoder *encoder, const weft_encode_job *run)
{
    weft_encode_batch *batch = encoder->batch;
    weft_encode_ring *ring = &batch->units;
    const uint64_t number = batch->runs.window->ended - 1, first = run->now.unit, end = first + run->now.units;
    weft_status status = WEFT_OK;
    if (number >= batch->ahead) {
        weft_pipeline_settle(batch->runs.window);
        units_ahead(encoder, number);
    }
    uint64_t unit = number < batch->ahead ? end : first;
    if (unit == first) /* the ring has fewer places than the run has units */
        weft_encode_delta_clear(encoder->layout, encoder->pass->delta, first, run->now.units);
    for (uint64_t ended = first; status == WEFT_OK && ended < end; ended++) {
        while (unit < end && span_begin(encoder, ring, unit, 1, run->alone))
            unit++;
        const uint64_t first_job = ring->window->ended;
        status = job_end(encoder->pass, weft_pipeline_end(ring->window));
        jobs_give(encoder->pass, ring->window, first_job, status == WEFT_OK ? ring->window->ended : first_job);
    }
    return status;
}

/* ---- the pass */

/* The units of a pass that are with the backend: from `ended` to before `begun`. */
typedef struct batch_course {
    uint64_t begun, ended;
    bool follows; /* the shadow can follow all runs that ended */
} batch_course;

/* True if the backend takes another run as it is. What it waits for may be the end of one that is over. */
static bool is_ready(const weft_encoder *encoder, const weft_pipeline *window)
{
    return !encoder->backend->ready || window->begun == window->ended || encoder->backend->ready(window->device);
}

/* Begins runs while there are places. A ring that is to have other places takes none. */
static void runs_begin(const weft_encoder *encoder, weft_encode_ring *ring, batch_course *course)
{
    const weft_encode_pass *pass = encoder->pass;
    const weft_layout *layout = encoder->layout;
    if (course->begun == course->ended && ring_turns(ring))
        ring_lay(ring, ring_wider(ring));
    for (uint32_t units; course->begun < layout->unit_count && !ring_turns(ring); course->begun += units) {
        if (!is_ready(encoder, ring->window))
            break;
        units = weft_layout_run(layout, course->begun, pass->parameters->run_shift);
        if (!span_begin(encoder, ring, course->begun, units, pass->levels))
            break;
    }
}

/* Goes back to the oldest run, whose frame did not fit. What was made since is made again. */
static void runs_again(const weft_encoder *encoder, weft_encode_ring *ring, batch_course *course)
{
    weft_pipeline_drop(encoder->batch->units.window);
    weft_pipeline_drop(ring->window);
    encoder->batch->ahead = 0;
    weft_encode_delta_clear(encoder->layout, encoder->pass->delta, course->ended,
                            (uint32_t)(course->begun - course->ended));
    course->begun = course->ended;
    ring_lay(ring, places_least(ring));
}

/* Ends the oldest run. `*on`: the next run is over and may be given back with this one. */
static weft_status run_end(weft_encode_ring *ring, weft_encode_pass *pass, batch_course *course, bool *on)
{
    const weft_job *job = weft_pipeline_end(ring->window);
    *on = false;
    if (job->status == WEFT_OK)
        ring_see(ring, &job->encode);
    if (ring->full)
        return WEFT_OK;
    course->ended = job->encode.now.unit + (uint64_t)job->encode.now.units;
    *on = job->encode.alone == 0 && weft_pipeline_is_over(ring->window);
    course->follows &= job->encode.follows || job->encode.changed == 0;
    return job_end(pass, job);
}

static void read_tell(const weft_encode_pass *pass, const batch_course *course)
{
    if (pass->read)
        pass->read(pass->user, course->follows);
}

/* Ends the oldest run and those after it that are over, because their frames are copied by several threads. */
static weft_status runs_end(weft_encoder *encoder, weft_encode_pass *pass, batch_course *course)
{
    weft_encode_ring *ring = &encoder->batch->runs;
    const uint64_t first = ring->window->ended;
    weft_status status = WEFT_OK;
    for (bool on = true; on && status == WEFT_OK;)
        status = run_end(ring, pass, course, &on);
    const weft_encode_job *last = &ring->window->jobs[(ring->window->ended - 1) % ring->window->depth].encode;
    const bool handed = status == WEFT_OK && !ring->full;
    const bool read = handed && course->ended == encoder->layout->unit_count;
    if (read && !last->alone)
        read_tell(pass, course); /* before the frames are copied, because that takes time */
    jobs_give(pass, ring->window, first, ring->window->ended - !handed);
    if (ring->full) {
        runs_again(encoder, ring, course);
        return status;
    }
    if (status == WEFT_OK && last->alone)
        status = units_encode(encoder, last);
    if (status == WEFT_OK && read && last->alone)
        read_tell(pass, course);
    if (status == WEFT_OK && pass->moved)
        status = pass->moved(pass->user, course->ended);
    return status;
}

weft_status weft_encode_batch_run(weft_encoder *encoder, weft_encode_pass *pass)
{
    weft_encode_ring *ring = &encoder->batch->runs;
    weft_status status = WEFT_OK;
    batch_course course = {.follows = true};
    encoder->pass = pass;
    encoder->batch->ahead = 0;
    pass->changed = 0;
    pass->diff_ms = pass->encode_ms = 0;
    while (status == WEFT_OK && course.ended < encoder->layout->unit_count) {
        runs_begin(encoder, ring, &course);
        status = runs_end(encoder, pass, &course);
    }
    weft_pipeline_drop(encoder->batch->units.window);
    weft_pipeline_drop(ring->window);
    const weft_status after =
        pass->follow && encoder->backend->followed ? encoder->backend->followed(ring->window->device) : WEFT_OK;
    return after == WEFT_OK ? status : after;
}

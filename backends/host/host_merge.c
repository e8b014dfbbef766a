/* host_merge.c - frames of updates that follow each other, added up without a weight.
 *
 * A room has a word and two bits an element: `touched` says that the word means something, `absolute` that it is the
 * element's new bits rather than the sum of its steps. Steps add modulo 2^(8w) and move new bits along the element
 * order; new bits replace what was there. Work is in proportion to the changes: only touched words are looked at. */
#include "backends/host/fast/host_fast.h"
#include "backends/host/host_element.h"
#include "base/status.h"

typedef struct room {
    uint8_t *word;
    uint64_t *touched, *absolute; /* bits */
    uint8_t width;
    bool is_float;
} room;

static room room_of(const weft_layout *layout, uint64_t unit, uint32_t units, const weft_merge_room *memory)
{
    const weft_unit *grid = &layout->units[unit];
    uint64_t count = weft_layout_count_units(layout, unit, units), words = (count + 63) / 64;
    uint64_t *bits = (uint64_t *)(void *)(memory->data + (count * grid->width + 7) / 8 * 8);
    return (room){memory->data, bits, bits + words, grid->width, grid->is_float};
}

static inline uint64_t bit_of(uint64_t index)
{
    return UINT64_C(1) << (index % 64);
}

/* ---- adding up */

WEFT_ALWAYS_INLINE void steps_add(const room *to, uint64_t first, const weft_changes *changes, unsigned width)
{
    for (uint32_t i = 0; i < changes->count; i++) {
        uint64_t index = first + changes->position[i];
        uint64_t sum = weft_element_get(to->word, index, width) + weft_element_get(changes->after, i, width);
        weft_element_put(to->word, index, sum, width);
        to->touched[index / 64] |= bit_of(index);
    }
}

/* The same where new bits may stand, which move along the order. */
WEFT_ALWAYS_INLINE void steps_move(const room *to, uint64_t first, const weft_changes *changes, unsigned width)
{
    for (uint32_t i = 0; i < changes->count; i++) {
        uint64_t index = first + changes->position[i], word = weft_element_get(to->word, index, width);
        bool moves = to->absolute[index / 64] & bit_of(index) && to->is_float;
        uint64_t sum = weft_element_order(word, width, moves) + weft_element_get(changes->after, i, width);
        weft_element_put(to->word, index, weft_element_order(sum & weft_element_mask(width), width, moves), width);
        to->touched[index / 64] |= bit_of(index);
    }
}

WEFT_ALWAYS_INLINE void bits_put(const room *to, uint64_t first, const weft_changes *changes, unsigned width)
{
    for (uint32_t i = 0; i < changes->count; i++) {
        uint64_t index = first + changes->position[i];
        weft_element_put(to->word, index, weft_element_get(changes->after, i, width), width);
        to->touched[index / 64] |= bit_of(index);
        to->absolute[index / 64] |= bit_of(index);
    }
}

WEFT_ALWAYS_INLINE void changes_add(const room *to, uint64_t first, const weft_changes *changes, bool steps, bool moves,
                                    unsigned width)
{
    if (!steps)
        bits_put(to, first, changes, width);
    else if (moves)
        steps_move(to, first, changes, width);
    else
        steps_add(to, first, changes, width);
}

static void list_add(const room *to, uint64_t first, const weft_changes *changes, bool steps, bool moves)
{
    switch (to->width) {
    case 1:
        changes_add(to, first, changes, steps, moves, 1);
        return;
    case 2:
        changes_add(to, first, changes, steps, moves, 2);
        return;
    case 4:
        changes_add(to, first, changes, steps, moves, 4);
        return;
    default:
        changes_add(to, first, changes, steps, moves, 8);
    }
}

/* The bits from `first` to below `end` of the word that `first` lies in. */
static uint64_t bits_between(uint64_t first, uint64_t end)
{
    uint64_t bits = UINT64_MAX << (first % 64);
    return end - first / 64 * 64 < 64 ? bits & ~(UINT64_MAX << (end % 64)) : bits;
}

/* Every element's steps, which are 0 where nothing changed. */
WEFT_ALWAYS_INLINE void words_add(const room *to, uint64_t first, const weft_frame *frame, unsigned width)
{
    const uint64_t end = first + frame->count;
    for (uint64_t at = first, stop; at < end; at = stop) {
        const uint64_t absolute = to->is_float ? to->absolute[at / 64] : 0;
        uint64_t bits = 0;
        stop = at / 64 * 64 + 64 < end ? at / 64 * 64 + 64 : end;
        for (uint64_t index = at; index < stop; index++) {
            const bool moves = absolute >> index % 64 & 1;
            const uint64_t steps = weft_element_get(frame->payload, index - first, width);
            const uint64_t word = weft_element_get(to->word, index, width);
            const uint64_t sum = (weft_element_order(word, width, moves) + steps) & weft_element_mask(width);
            weft_element_put(to->word, index, weft_element_order(sum, width, moves), width);
            bits |= (uint64_t)(steps != 0) << index % 64;
        }
        to->touched[at / 64] |= bits;
    }
}

static void full_steps_add(const room *to, uint64_t first, const weft_frame *frame)
{
    switch (to->width) {
    case 1:
        words_add(to, first, frame, 1);
        return;
    case 2:
        words_add(to, first, frame, 2);
        return;
    case 4:
        words_add(to, first, frame, 4);
        return;
    default:
        words_add(to, first, frame, 8);
    }
}

static void full_add(const room *to, uint64_t first, const weft_frame *frame)
{
    uint64_t end = first + frame->count;
    memcpy(to->word + first * to->width, frame->payload, (uint64_t)frame->count * to->width);
    for (uint64_t at = first; at < end; at = at / 64 * 64 + 64) {
        to->touched[at / 64] |= bits_between(at, end);
        to->absolute[at / 64] |= bits_between(at, end);
    }
}

/* Reads the frame's list; its view has the room's words in the place of weights, so that they come near in time. */
static weft_status list_read(weft_backend_state *state, const weft_frame *frame, const room *to, uint64_t first)
{
    const weft_run run = {.data = to->word + first * to->width, .count = frame->count};
    const weft_view view = {.runs = &run,
                            .run_count = 1,
                            .count = frame->count,
                            .unit = frame->header.unit,
                            .units = frame->header.units,
                            .width = to->width,
                            .is_float = to->is_float};
    return frame->header.level == WEFT_LEVEL_FAST ? weft_host_fast_read(state->kernels, frame, &view, &state->changes)
                                                  : weft_host_pairs_read(frame, to->width, &state->changes);
}

/* Leaves out the changes to the units after those kept. */
static void units_keep(const weft_merge_job *job, weft_changes *changes)
{
    if (job->kept >= job->frame.header.units)
        return;
    uint32_t limit = weft_layout_count_units(job->layout, job->frame.header.unit, job->kept);
    while (changes->count > 0 && changes->position[changes->count - 1] >= limit)
        changes->count--;
}

weft_status weft_host_merge(weft_backend_state *state, weft_merge_job *job)
{
    const weft_frame *frame = &job->frame;
    const room to = room_of(job->layout, job->unit, job->units, job->room);
    uint32_t before = (uint32_t)(frame->header.unit - job->unit);
    uint64_t first = before ? weft_layout_count_units(job->layout, job->unit, before) : 0;
    const bool steps = frame->header.level == WEFT_LEVEL_FAST;
    if (frame->header.level == WEFT_LEVEL_TIGHT)
        return weft_fail(WEFT_E_ARGUMENT, "frame of unit %u: level tight says nothing without its base",
                         frame->header.unit);
    if (weft_frame_has_full_steps(&frame->header)) {
        full_steps_add(&to, first, frame);
        return WEFT_OK;
    }
    if (frame->header.level == WEFT_LEVEL_FULL) {
        full_add(&to, first, frame);
        job->room->absolute = true;
        return WEFT_OK;
    }
    pthread_mutex_lock(&state->scratching);
    weft_status status = list_read(state, frame, &to, first);
    if (status == WEFT_OK)
        units_keep(job, &state->changes);
    if (status == WEFT_OK)
        list_add(&to, first, &state->changes, steps, job->room->absolute);
    pthread_mutex_unlock(&state->scratching);
    job->room->absolute |= !steps;
    return status;
}

/* ---- frames of the sum */

/* Contents of a range of a room. state->changes lists the changes, against a base whose elements all are 0, so that the
 * steps come out as they are. */
typedef struct sum {
    uint32_t steps;    /* changes known by their steps */
    uint32_t elements; /* known by their new bits */
    bool over;         /* there are more than the list may have */
} sum;

WEFT_ALWAYS_INLINE void words_list(const room *from, uint64_t first, uint64_t end, uint32_t limit,
                                   weft_changes *changes, sum *found, unsigned width)
{
    uint32_t count = 0;
    for (uint64_t at = first; at < end; at = at / 64 * 64 + 64) {
        uint64_t bits = from->touched[at / 64] & bits_between(at, end), absolute = from->absolute[at / 64];
        for (; bits; bits &= bits - 1) {
            uint64_t index = at / 64 * 64 + (unsigned)__builtin_ctzll(bits);
            uint64_t word = weft_element_get(from->word, index, width);
            bool known = absolute & bit_of(index);
            if (!known && word == 0)
                continue;
            if (count == limit) {
                found->over = true;
                return;
            }
            found->elements += known;
            changes->position[count] = (uint32_t)(index - first);
            weft_element_put(changes->after, count++, weft_element_order(word, width, from->is_float && !known), width);
        }
    }
    changes->count = count;
    found->steps = count - found->elements;
}

static sum sum_list(weft_backend_state *state, const room *from, uint64_t first, uint64_t end, uint32_t limit)
{
    weft_changes *changes = &state->changes;
    sum found = {0};
    switch (from->width) {
    case 1:
        words_list(from, first, end, limit, changes, &found, 1);
        break;
    case 2:
        words_list(from, first, end, limit, changes, &found, 2);
        break;
    case 4:
        words_list(from, first, end, limit, changes, &found, 4);
        break;
    default:
        words_list(from, first, end, limit, changes, &found, 8);
    }
    if (!found.over)
        memset(changes->before, 0, (uint64_t)changes->count * from->width);
    return found;
}

/* Writes the frame of state->changes; a unit is told its weights where all of them are known. False: there is no frame
 * of that level. */
static bool frame_write(weft_backend_state *state, weft_drain_job *job, uint64_t unit, uint32_t units,
                        const weft_run *weights, weft_level level)
{
    const weft_unit *grid = &job->layout->units[unit];
    weft_frame_sink sinks[WEFT_LEVEL_COUNT];
    weft_encode_job encode = {.now = {.runs = weights,
                                      .run_count = weights ? 1 : 0,
                                      .count = weft_layout_count_units(job->layout, unit, units),
                                      .unit = (uint32_t)unit,
                                      .units = units,
                                      .width = grid->width,
                                      .is_float = grid->is_float,
                                      .exponent_bits = grid->exponent_bits},
                              .largest_frame = job->layout->largest_frame,
                              .sinks = sinks};
    sinks[level] = *job->sink;
    weft_host_write_frame(state, &encode, level);
    *job->sink = sinks[level];
    job->changed += encode.alone ? 0 : state->changes.count;
    return encode.alone == 0;
}

static bool unit_write(weft_backend_state *state, weft_drain_job *job, const room *from, uint64_t unit, uint64_t first)
{
    uint32_t count = job->layout->units[unit].count;
    const weft_run weights = {.data = from->word + first * from->width, .count = count};
    sum found = sum_list(state, from, first, first + count, count);
    if (found.steps + found.elements == 0)
        return true;
    if (found.elements == count)
        return frame_write(state, job, unit, 1, &weights, WEFT_LEVEL_FULL);
    bool fits =
        job->level == WEFT_LEVEL_FAST ? found.elements == 0 : job->level == WEFT_LEVEL_PAIRS && found.steps == 0;
    return fits && frame_write(state, job, unit, 1, NULL, job->level);
}

/* A run of several units as one frame, if it can be one. */
static bool run_write(weft_backend_state *state, weft_drain_job *job, const room *from, uint64_t unit, uint32_t units,
                      uint64_t first, uint64_t end)
{
    if (units == 1 || job->level != WEFT_LEVEL_FAST)
        return false;
    sum found = sum_list(state, from, first, end, WEFT_FRAME_RUN_CHANGES);
    if (found.over || found.elements > 0)
        return false;
    return found.steps == 0 || frame_write(state, job, unit, units, NULL, WEFT_LEVEL_FAST);
}

WEFT_ALWAYS_INLINE void words_clear(const room *r, uint64_t count, unsigned width)
{
    for (uint64_t at = 0; at < count; at += 64) {
        for (uint64_t bits = r->touched[at / 64]; bits; bits &= bits - 1)
            weft_element_put(r->word, at + (unsigned)__builtin_ctzll(bits), 0, width);
        r->touched[at / 64] = r->absolute[at / 64] = 0;
    }
}

static void room_clear(const room *r, uint64_t count)
{
    switch (r->width) {
    case 1:
        words_clear(r, count, 1);
        return;
    case 2:
        words_clear(r, count, 2);
        return;
    case 4:
        words_clear(r, count, 4);
        return;
    default:
        words_clear(r, count, 8);
    }
}

static void room_write(weft_backend_state *state, weft_drain_job *job, const room *from)
{
    uint64_t unit = job->unit, limit = job->unit + job->units, first = 0, end;
    for (uint32_t units; unit < limit && !job->needs_base; unit += units, first = end) {
        units = weft_layout_run(job->layout, unit, job->run_shift);
        units = units < limit - unit ? units : (uint32_t)(limit - unit);
        end = first + weft_layout_count_units(job->layout, unit, units);
        if (run_write(state, job, from, unit, units, first, end))
            continue;
        uint64_t at = first;
        for (uint32_t i = 0; i < units && !job->needs_base; at += job->layout->units[unit + i++].count) {
            job->stuck = unit + i;
            job->needs_base = !unit_write(state, job, from, unit + i, at);
        }
    }
}

weft_status weft_host_drain(weft_backend_state *state, weft_drain_job *job)
{
    const room from = room_of(job->layout, job->unit, job->units, job->room);
    job->needs_base = false;
    if (job->level == WEFT_LEVEL_TIGHT)
        return weft_fail(WEFT_E_ARGUMENT, "level tight cannot be written without the base");
    pthread_mutex_lock(&state->scratching);
    room_write(state, job, &from);
    pthread_mutex_unlock(&state->scratching);
    if (job->needs_base)
        return WEFT_OK;
    room_clear(&from, weft_layout_count_units(job->layout, job->unit, job->units));
    job->room->absolute = false;
    return WEFT_OK;
}

/* host_survey.c - a sample of two views, counted by exponent of the base. */
#include "backends/host/host_ahead.h"
#include "backends/host/host_state.h"
#include "codec/survey.h"

#define LINE 64u /* bytes */

/* Where only the population of its exponent is counted, one element of four stands for all, each time another of the
 * four: weights may repeat in twos, fours or eights (real and imaginary parts, fused rows). `position` is the first
 * one's in the view: what is counted does not depend on where memory is cut. */
WEFT_ALWAYS_INLINE void population_count(const uint8_t *shadow, uint32_t position, uint32_t count, unsigned shift,
                                         uint64_t mask, weft_survey_kind *kind, unsigned width)
{
    for (uint32_t four = position / 4; four <= (position + count - 1) / 4; four++) {
        const uint32_t i = 4 * four + (four ^ four / 4) % 4 - position;
        if (i < count)
            kind->elements[weft_element_get(shadow, i, width) >> shift & mask] += 4;
    }
}

/* Elements of a stretch that both views hold in one piece of memory each; `sampled` of the unit's come before them. */
typedef struct piece {
    const uint8_t *now, *shadow;
    uint32_t position, sampled, count;
} piece;

static void exception_note(const weft_view *view, weft_survey_kind *kind, uint32_t exponent, uint64_t magnitude,
                           uint32_t sampled)
{
    const uint64_t excess = magnitude - 2;
    const weft_survey_magnitude exception = {exponent, excess < UINT32_MAX ? (uint32_t)excess : UINT32_MAX,
                                             weft_survey_key(view->unit, sampled)};
    weft_survey_note(kind, &exception);
}

WEFT_ALWAYS_INLINE void change_count(const weft_view *view, uint64_t before, uint64_t after, uint32_t exponent,
                                     uint32_t sampled, weft_survey_kind *kind, unsigned width)
{
    const uint64_t magnitude = weft_steps_magnitude(weft_element_steps(before, after, width, view->is_float), width);
    kind->changed[exponent]++;
    if (magnitude > 1)
        exception_note(view, kind, exponent, magnitude, sampled);
}

/* Whether words of 8 bytes are equal says it of several elements: few of them change. */
WEFT_ALWAYS_INLINE void width_count(const weft_view *view, const piece *p, weft_survey_kind *kind, unsigned width)
{
    const unsigned shift = view->exponent_bits ? 8 * width - 1 - view->exponent_bits : 0;
    const uint64_t mask = (UINT64_C(1) << view->exponent_bits) - 1;
    const uint32_t each = 8 / width, count = p->count;
    const uint8_t *now = p->now, *shadow = p->shadow;
    population_count(shadow, p->position, count, shift, mask, kind, width);
    for (uint32_t i = 0; i < count; i += each) {
        const uint32_t end = count - i < each ? count : i + each;
        if (end == i + each && weft_element_get(shadow, i / each, 8) == weft_element_get(now, i / each, 8))
            continue;
        for (uint32_t k = i; k < end; k++) {
            uint64_t before = weft_element_get(shadow, k, width), after = weft_element_get(now, k, width);
            if (before != after)
                change_count(view, before, after, (uint32_t)(before >> shift & mask), p->sampled + k, kind, width);
        }
    }
}

static void elements_count(const weft_view *view, const piece *p, weft_survey_kind *kind)
{
    switch (view->width) {
    case 1:
        width_count(view, p, kind, 1);
        return;
    case 2:
        width_count(view, p, kind, 2);
        return;
    case 4:
        width_count(view, p, kind, 4);
        return;
    default:
        width_count(view, p, kind, 8);
    }
}

/* Bisects: tensors of one element each make as many runs as elements. */
static const weft_run *run_of(const weft_view *view, uint32_t position)
{
    uint32_t low = 0, high = view->run_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (weft_run_position(view, &view->runs[middle]) <= position)
            low = middle;
        else
            high = middle;
    }
    return &view->runs[low];
}

/* Elements of a run from its element `from` on, copied into `tile` if they lie in boxes. */
static const uint8_t *elements_at(const weft_backend_state *state, const weft_view *view, const weft_run *run,
                                  uint32_t from, uint32_t count, uint8_t *tile)
{
    const weft_host_range range = {run->tensor, run->element + from, count, view->width};
    if (run->data)
        return run->data + (uint64_t)from * view->width;
    weft_host_boxes_load(state->kernels, view->boxes, &range, tile);
    return tile;
}

/* Returns the piece from `position` on, of at most `count` elements. */
static piece piece_at(const weft_backend_state *state, const weft_survey_job *job, uint32_t position, uint32_t count)
{
    const weft_run *now = run_of(&job->now, position), *shadow = run_of(&job->shadow, position);
    uint32_t a = position - weft_run_position(&job->now, now), b = position - weft_run_position(&job->shadow, shadow);
    count = now->count - a < count ? now->count - a : count;
    count = shadow->count - b < count ? shadow->count - b : count;
    return (piece){.now = elements_at(state, &job->now, now, a, count, weft_host_tile(state, 0)),
                   .shadow = elements_at(state, &job->shadow, shadow, b, count, weft_host_tile(state, 1)),
                   .position = position,
                   .sampled = position / job->stride * job->count + position % job->stride,
                   .count = count};
}

/* Asks for the lines of at most `count` elements of a view from `position` on, as far as they lie side by side. */
static void lines_ask(const weft_view *view, uint32_t position, uint32_t count)
{
    const weft_run *run = run_of(view, position);
    const uint32_t from = position - weft_run_position(view, run), left = run->count - from;
    uint64_t width = view->width;
    weft_segment there = {run->data, left};
    if (run->data) {
        there.data += from * width;
    } else {
        there = weft_boxes_segment(view->boxes, run->tensor, run->element + from);
        width = view->boxes->box[view->boxes->first[run->tensor]].width;
    }
    const uint64_t most = left < count ? left : count;
    for (uint64_t byte = 0; byte < (there.count < most ? there.count : most) * width; byte += LINE)
        weft_ahead_element(there.data + byte, 0);
}

/* Asks for what is looked at next, which is nowhere near. */
static void stretch_fetch(const weft_survey_job *job, uint64_t begin, uint32_t count)
{
    if (begin >= job->now.count)
        return;
    lines_ask(&job->now, (uint32_t)begin, count);
    lines_ask(&job->shadow, (uint32_t)begin, count);
}

/* Pages are asked for so many stretches ahead: finding out where one lies that was not seen lately takes as long as a
 * line from memory, and its lines can only be asked for when that is known. */
#define PAGES_AHEAD 4u

static void view_count(const weft_backend_state *state, const weft_survey_job *job)
{
    const weft_view *view = &job->now;
    weft_survey_kind *kind = &job->survey->kinds[weft_kind_of(view->width, view->exponent_bits)];
    stretch_fetch(job, 0, job->count);
    for (uint64_t begin = 0; begin < view->count; begin += job->stride) {
        uint64_t end = begin + job->count < view->count ? begin + job->count : view->count;
        stretch_fetch(job, begin + PAGES_AHEAD * (uint64_t)job->stride, 1);
        stretch_fetch(job, begin + job->stride, job->count);
        for (uint32_t at = (uint32_t)begin; at < end;) {
            const piece p = piece_at(state, job, at, (uint32_t)end - at);
            elements_count(view, &p, kind);
            at += p.count;
        }
    }
}

weft_status weft_host_survey(weft_backend_state *state, weft_survey_job *job)
{
    const bool boxes = job->now.boxes || job->shadow.boxes;
    if (boxes)
        pthread_mutex_lock(&state->scratching);
    view_count(state, job);
    if (boxes)
        pthread_mutex_unlock(&state->scratching);
    return WEFT_OK;
}

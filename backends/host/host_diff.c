/* host_diff.c - the differences of two views of one unit, whose runs may be cut differently. */
#include "backends/host/host_state.h"

/* Elements that are compared, and what is done with the changes found. */
typedef struct comparison {
    const weft_host_kernels *kernels;
    const weft_view *now;
    weft_changes *changes;
    weft_host_ranker *ranker; /* NULL: no ranks */
} comparison;

static const uint8_t *element_at(const weft_host_reader *reader, uint32_t position)
{
    return reader->data + (uint64_t)(position - reader->begin) * reader->view->width;
}

/* Compares `count` elements from `position` on and appends what differs. */
static void stretch_diff(const comparison *c, const weft_host_reader *now, const weft_host_reader *shadow,
                         uint32_t position, uint32_t count)
{
    const unsigned slot = weft_host_slot(c->now->width);
    weft_changes *changes = c->changes;
    const weft_host_pair pair = {element_at(now, position), element_at(shadow, position), count, position};
    uint32_t *places = changes->position + changes->count;
    uint8_t *before = (uint8_t *)changes->before + ((uint64_t)changes->count << slot);
    uint8_t *after = (uint8_t *)changes->after + ((uint64_t)changes->count << slot);
    if (c->ranker) {
        weft_host_ranker *ranker = c->ranker;
        const weft_host_found found = {places, before, after, ranker->rank + changes->count,
                                       ranker->class_of + changes->count};
        changes->count += ranker->tight->find[slot](c->kernels, &pair, &ranker->map, ranker->population, &found);
    } else {
        changes->count += c->kernels->diff[slot](pair.now, pair.shadow, count, position, places, before, after);
    }
}

bool weft_host_diff(const weft_backend_state *state, const weft_view *now, const weft_view *shadow,
                    weft_changes *changes, weft_host_ranker *ranker)
{
    const comparison c = {state->kernels, now, changes, ranker};
    weft_host_reader a = weft_host_reader_of(state->kernels, now, weft_host_tile(state, 0)),
                     b = weft_host_reader_of(state->kernels, shadow, weft_host_tile(state, 1));
    changes->unit = now->unit;
    changes->count = 0;
    for (uint32_t position = 0; position < now->count;) {
        if (a.end == position)
            weft_host_reader_next(&a);
        if (b.end == position)
            weft_host_reader_next(&b);
        uint32_t end = a.end < b.end ? a.end : b.end;
        uint32_t room = changes->capacity - changes->count, left = end - position;
        uint32_t count = left < room ? left : room;
        if (count == 0)
            return false;
        stretch_diff(&c, &a, &b, position, count);
        position += count;
    }
    return true;
}

void weft_host_delta(const weft_host_kernels *kernels, const weft_view *view, const weft_changes *changes,
                     uint64_t *tensor_delta)
{
    const unsigned slot = weft_host_slot(view->width);
    uint32_t from = 0;
    for (uint32_t r = 0; r < view->run_count && from < changes->count; r++) {
        const weft_run *run = &view->runs[r];
        uint32_t end = weft_host_run_end(view, run, changes, from);
        uint64_t offset = (uint64_t)from << slot;
        tensor_delta[run->part] += kernels->delta[slot](changes->position + from, weft_host_origin(view, run),
                                                        (const uint8_t *)changes->before + offset,
                                                        (const uint8_t *)changes->after + offset, end - from);
        from = end;
    }
}

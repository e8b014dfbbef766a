/* host_tight_decode.c - level tight: lists into positions and steps, believing neither the frame nor the base. */
#include <string.h>

#include "backends/host/fast/host_fast_loops.h"
#include "backends/host/host_bits.h"
#include "backends/host/host_element.h"
#include "backends/host/host_payload.h"
#include "backends/host/tight/host_tight.h"
#include "base/status.h"

/* A frame being read. */
typedef struct tight_reader {
    uint32_t unit;
    const weft_view *base;
    weft_changes *changes;
    weft_class_map map;
    weft_tight_shape shape;
    weft_bit_source source;
    weft_bit_walker unary;
    uint64_t lows;                       /* bit at which the next low bits begin */
    uint64_t magnitudes;                 /* bit at which the next magnitude's begin */
    uint32_t *members[WEFT_TIGHT_LISTS]; /* each ends with UINT32_MAX */
    weft_host_class positions[WEFT_CLASS_MAX], exceptions[WEFT_CLASS_MAX], further;
} tight_reader;

static weft_status wrong_base(const tight_reader *reader, const char *what, uint32_t there, uint32_t wanted)
{
    return weft_fail(WEFT_E_BASE, "frame of unit %u: the base gives %u %s, the frame has %u: not its base",
                     reader->unit, there, what, wanted);
}

/* Says what a kernel refused. */
static weft_status list_refuse(const tight_reader *reader, const weft_tight_list *list, uint32_t *member)
{
    weft_bit_walker unary = reader->unary;
    uint64_t next = weft_loop_gap_places(&reader->source, reader->lows, &unary, list->low_bits, reader->base->count,
                                         list->members, member);
    if (next == UINT64_MAX)
        return weft_host_unary_short(reader->unit, &reader->source);
    return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: rank %llu among %u elements", reader->unit,
                     (unsigned long long)(next - 1), reader->base->count);
}

static weft_status list_read(const weft_host_kernels *kernels, tight_reader *reader, const weft_tight_list *list,
                             uint32_t *member)
{
    if (list->members > 0 && !kernels->gap_places(&reader->source, reader->lows, &reader->unary, list->low_bits,
                                                  reader->base->count, list->members, member))
        return list_refuse(reader, list, member);
    member[list->members] = UINT32_MAX;
    reader->lows += (uint64_t)list->members * list->low_bits;
    return WEFT_OK;
}

static weft_status lists_read(const weft_host_kernels *kernels, tight_reader *reader, uint32_t *members)
{
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_tight_list *list = weft_tight_list_at(&reader->shape, i);
        weft_status status = list_read(kernels, reader, list, members);
        if (status != WEFT_OK)
            return status;
        weft_host_class class = {0, list->inverted, members};
        if (i < WEFT_CLASS_MAX)
            reader->positions[i] = class;
        else if (i < 2 * WEFT_CLASS_MAX)
            reader->exceptions[i - WEFT_CLASS_MAX] = class;
        else
            reader->further = class;
        members += list->members + 1;
    }
    return WEFT_OK;
}

/* Positions of the changes and the bits there. */
static weft_status places_find(const weft_backend_state *state, tight_reader *reader)
{
    const weft_view *base = reader->base;
    weft_changes *changes = reader->changes;
    const unsigned slot = weft_host_slot(base->width);
    const uint32_t wanted = reader->shape.changed;
    uint32_t found = 0;
    weft_host_reader weights = weft_host_reader_of(state->kernels, base, weft_host_tile(state, 0));
    while (weft_host_reader_next(&weights)) {
        uint32_t here =
            state->tight->place[slot](weights.data, weights.end - weights.begin, weights.begin, &reader->map,
                                      reader->positions, changes->position + found, wanted - found);
        if (here > wanted - found)
            return wrong_base(reader, "changes and more", wanted + 1, wanted);
        state->kernels->gather[slot](weights.data, changes->position + found, weights.begin, here,
                                     (uint8_t *)changes->before + ((uint64_t)found << slot));
        found += here;
    }
    if (found != wanted)
        return wrong_base(reader, "changes", found, wanted);
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        if (*reader->positions[c].next != UINT32_MAX)
            return wrong_base(reader, "elements of a class", reader->positions[c].population,
                              *reader->positions[c].next);
    }
    changes->count = found;
    return WEFT_OK;
}

/* Whether the next of a class belongs to its set. */
static bool belongs(weft_host_class *class)
{
    uint32_t listed = *class->next == class->population++;
    class->next += listed;
    return listed ^ class->inverted;
}

/* State with which the exceptions' magnitudes are read. */
typedef struct coded {
    uint32_t count;
    uint32_t *index; /* in the change list */
    uint64_t *rice;  /* Rice parameter, and whether the base is large */
} coded;
#define LARGE_BASE UINT64_C(256)

/* Steps of the four changes whose directions are the low bits of `down`, in elements of two bytes: the product has bit
 * i at bit 16 i, since no two of its sixteen partial ones meet, and an element is 1, or -1 by its other 15 bits. */
static inline uint64_t directions_four(uint64_t down)
{
    const uint64_t ones = UINT64_C(0x0001000100010001);
    return ones ^ ((down & 15) * UINT64_C(0x0000200040008001) & ones) * 0xfffe;
}

/* One step up or down for each of at most 32 changes. */
WEFT_ALWAYS_INLINE void directions_some(uint64_t down, uint32_t first, uint32_t count, uint8_t *steps, unsigned width)
{
    uint32_t i = 0;
    if (width == 2)
        for (; count - i >= 4; i += 4)
            weft_element_put(steps + 2 * (uint64_t)(first + i), 0, directions_four(down >> i), 8);
    for (; i < count; i++)
        weft_element_put(steps, first + i, 1 - 2 * (down >> i & 1), width);
}

WEFT_ALWAYS_INLINE void directions_put(const weft_bit_source *source, uint64_t at, uint32_t count, uint8_t *steps,
                                       unsigned width)
{
    for (uint32_t i = 0; i < count; i += 32) {
        const uint32_t some = count - i < 32 ? count - i : 32;
        directions_some(weft_bits_get(source, at + i, some), i, some, steps, width);
    }
}

static void directions_read(const tight_reader *reader)
{
    const uint64_t at = 8 * weft_tight_lists_bytes(&reader->shape);
    const weft_changes *changes = reader->changes;
    switch (reader->map.width) {
    case 1:
        directions_put(&reader->source, at, changes->count, changes->after, 1);
        return;
    case 2:
        directions_put(&reader->source, at, changes->count, changes->after, 2);
        return;
    case 4:
        directions_put(&reader->source, at, changes->count, changes->after, 4);
        return;
    default:
        directions_put(&reader->source, at, changes->count, changes->after, 8);
    }
}

/* An exception has two steps, or is one of those to whose magnitude a code is added. */
static void exception_step(tight_reader *reader, uint32_t index, coded *list)
{
    const weft_class_map *map = &reader->map;
    const weft_changes *changes = reader->changes;
    uint32_t exponent = weft_class_exponent(map, weft_element_get(changes->before, index, map->width));
    bool large = exponent > map->classes->magnitude_base;
    bool down = weft_steps_down(weft_element_get(changes->after, index, map->width), map->width);
    weft_element_put(changes->after, index, 2 - 4 * (uint64_t)down, map->width);
    if (large && !belongs(&reader->further))
        return;
    list->index[list->count] = index;
    list->rice[list->count++] = large ? LARGE_BASE : weft_class_magnitude_bits(map, exponent);
}

/* Exceptions lie among the changes as changes do among the elements. */
static void exceptions_find(const weft_backend_state *state, tight_reader *reader, coded *list)
{
    const weft_changes *changes = reader->changes;
    uint32_t found = state->tight->place[weft_host_slot(reader->base->width)](
        changes->before, changes->count, 0, &reader->map, reader->exceptions, list->index, changes->count);
    for (uint32_t i = 0; i < found; i++) /* what is listed overtakes nothing that is still to be read */
        exception_step(reader, list->index[i], list);
}

/* Steps of all changes but those whose magnitude is coded: these are listed. */
static weft_status steps_read(const weft_backend_state *state, tight_reader *reader, coded *list)
{
    directions_read(reader);
    if (reader->shape.exceptional)
        exceptions_find(state, reader, list);
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        if ((reader->shape.exceptional >> c & 1) && *reader->exceptions[c].next != UINT32_MAX)
            return wrong_base(reader, "changes of a class", reader->exceptions[c].population,
                              *reader->exceptions[c].next);
    }
    return *reader->further.next == UINT32_MAX
               ? WEFT_OK
               : wrong_base(reader, "exceptions", reader->further.population, *reader->further.next);
}

/* The next coded value; UINT64_MAX if it is out of any range. */
static uint64_t value_read(tight_reader *reader, uint32_t rice)
{
    uint64_t unary = weft_bits_unary(&reader->unary), order = rice + WEFT_TIGHT_ESCAPE_LOW;
    uint64_t length = unary < WEFT_TIGHT_ESCAPE ? rice : unary - WEFT_TIGHT_ESCAPE + order;
    if (length > 63)
        return UINT64_MAX;
    uint64_t low = weft_bits_get_long(&reader->source, reader->magnitudes, (unsigned)length);
    reader->magnitudes += length;
    if (unary < WEFT_TIGHT_ESCAPE)
        return unary << rice | low;
    uint64_t value = (low | UINT64_C(1) << length) - (UINT64_C(1) << order);
    uint64_t least = (uint64_t)WEFT_TIGHT_ESCAPE << rice;
    return value < UINT64_MAX - least ? value + least : UINT64_MAX;
}

static weft_status magnitudes_read(tight_reader *reader, const coded *list)
{
    weft_changes *changes = reader->changes;
    const unsigned width = reader->base->width;
    const uint64_t top = weft_element_top(width);
    for (uint32_t j = 0; j < list->count; j++) {
        bool large = list->rice[j] == LARGE_BASE;
        uint64_t value = value_read(reader, large ? 0 : (uint32_t)list->rice[j]), add = large ? 3 : 2;
        bool down = weft_steps_down(weft_element_get(changes->after, list->index[j], width), width);
        if (value > top - add || (value == top - add && !down))
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: magnitude of change %u is out of range", reader->unit,
                             list->index[j]);
        weft_element_put(changes->after, list->index[j], ((value + add) ^ (0 - (uint64_t)down)) + down, width);
    }
    return WEFT_OK;
}

weft_status weft_host_tight_read(weft_backend_state *state, const weft_decode_job *job)
{
    const weft_frame_header *header = &job->frame.header;
    tight_reader reader = {.unit = header->unit,
                           .base = &job->base,
                           .changes = job->changes,
                           .source = {job->frame.payload, header->payload_bytes}};
    coded list = {0, state->rank, state->excess};
    weft_class_map_make(&reader.map, job->parameters, job->base.width, job->base.exponent_bits);
    weft_status status = weft_tight_shape_read(header, job->frame.payload, reader.map.count, &reader.shape);
    if (status != WEFT_OK)
        return status;
    reader.lows = 8 * weft_tight_lows_offset(&reader.shape);
    reader.unary = weft_bits_walk(reader.source, weft_tight_unary_offset(&reader.shape));
    status = lists_read(state->kernels, &reader, state->members);
    if (status == WEFT_OK)
        status = places_find(state, &reader);
    if (status == WEFT_OK)
        status = steps_read(state, &reader, &list);
    if (status == WEFT_OK)
        status = weft_host_magnitudes_find(reader.unit, &reader.source, &reader.unary, list.count, &reader.magnitudes);
    if (status == WEFT_OK)
        status = magnitudes_read(&reader, &list);
    if (status != WEFT_OK)
        return status;
    const uint64_t directions_end = 8 * weft_tight_lists_bytes(&reader.shape) + reader.shape.changed;
    return weft_host_payload_end(reader.unit, &reader.source, directions_end, reader.lows, reader.magnitudes);
}

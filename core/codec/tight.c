/* tight.c - descriptors of level `tight`. */
#include "codec/tight.h"

#include "base/bytes.h"
#include "base/status.h"

#define MEMBER_BITS 18u
#define LOW_BITS    5u

const weft_tight_list *weft_tight_list_at(const weft_tight_shape *shape, uint32_t index)
{
    if (index < WEFT_CLASS_MAX)
        return &shape->positions[index];
    index -= WEFT_CLASS_MAX;
    return index < WEFT_CLASS_MAX ? &shape->exceptions[index] : &shape->further;
}

/* Whether the payload has a descriptor for the list. */
static bool list_there(const weft_tight_shape *shape, uint32_t index)
{
    if (index < WEFT_CLASS_MAX)
        return shape->positioned >> index & 1;
    index -= WEFT_CLASS_MAX;
    return index < WEFT_CLASS_MAX ? shape->exceptional >> index & 1 : shape->exceptional != 0;
}

uint32_t weft_tight_parameters(const weft_tight_shape *shape)
{
    return shape->positioned | shape->exceptional << WEFT_CLASS_MAX;
}

void weft_tight_write_lists(const weft_tight_shape *shape, uint8_t *payload)
{
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_tight_list *list = weft_tight_list_at(shape, i);
        if (!list_there(shape, i))
            continue;
        uint32_t word =
            list->members | list->low_bits << MEMBER_BITS | (uint32_t)list->inverted << (MEMBER_BITS + LOW_BITS);
        weft_bytes_put(payload, word, WEFT_TIGHT_LIST_BYTES);
        payload += WEFT_TIGHT_LIST_BYTES;
    }
}

static weft_status list_read(const weft_frame_header *header, uint32_t word, weft_tight_list *list)
{
    list->members = word & ((1u << MEMBER_BITS) - 1);
    list->low_bits = word >> MEMBER_BITS & ((1u << LOW_BITS) - 1);
    list->inverted = word >> (MEMBER_BITS + LOW_BITS) & 1;
    if (list->members > WEFT_TIGHT_LIST_MAX || list->low_bits > WEFT_TIGHT_LOW_MAX ||
        (list->members == 0 && list->low_bits > 0))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: a list of %u members with %u low bits", header->unit,
                         list->members, list->low_bits);
    return WEFT_OK;
}

static weft_status totals_check(const weft_frame_header *header, const weft_tight_shape *shape)
{
    uint64_t positions = 0, exceptions = 0;
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        positions += shape->positions[c].members;
        exceptions += shape->exceptions[c].members;
    }
    if (positions > shape->changed || exceptions > shape->changed || shape->further.members > shape->changed)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: lists of %llu, %llu and %u members for %u changes",
                         header->unit, (unsigned long long)positions, (unsigned long long)exceptions,
                         shape->further.members, shape->changed);
    return WEFT_OK;
}

weft_status weft_tight_shape_read(const weft_frame_header *header, const uint8_t *payload, uint32_t classes,
                                  weft_tight_shape *shape)
{
    *shape = (weft_tight_shape){.changed = header->changed};
    shape->positioned = header->parameters & ((1u << WEFT_CLASS_MAX) - 1);
    shape->exceptional = header->parameters >> WEFT_CLASS_MAX;
    if (shape->positioned >> classes || (shape->exceptional & ~shape->positioned))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: masks 0x%x and 0x%x of %u classes", header->unit,
                         shape->positioned, shape->exceptional, classes);
    if (header->payload_bytes < weft_tight_lists_bytes(shape))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: payload of %u bytes cannot hold its lists", header->unit,
                         header->payload_bytes);
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        if (!list_there(shape, i))
            continue;
        weft_tight_list *list = (weft_tight_list *)weft_tight_list_at(shape, i); /* of `shape`, which is ours to fill */
        weft_status status = list_read(header, (uint32_t)weft_bytes_get(payload, WEFT_TIGHT_LIST_BYTES), list);
        if (status != WEFT_OK)
            return status;
        payload += WEFT_TIGHT_LIST_BYTES;
    }
    weft_status status = totals_check(header, shape);
    if (status == WEFT_OK && header->payload_bytes < weft_tight_unary_offset(shape))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: payload of %u bytes, at least %llu for its lists",
                         header->unit, header->payload_bytes, (unsigned long long)weft_tight_unary_offset(shape));
    return status;
}

uint64_t weft_tight_lists_bytes(const weft_tight_shape *shape)
{
    unsigned lists = (unsigned)__builtin_popcount(shape->positioned) +
                     (unsigned)__builtin_popcount(shape->exceptional) + (shape->exceptional != 0);
    return lists * (uint64_t)WEFT_TIGHT_LIST_BYTES;
}

uint64_t weft_tight_low_bits(const weft_tight_shape *shape)
{
    uint64_t bits = (uint64_t)shape->further.members * shape->further.low_bits;
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        bits += (uint64_t)shape->positions[c].members * shape->positions[c].low_bits;
        bits += (uint64_t)shape->exceptions[c].members * shape->exceptions[c].low_bits;
    }
    return bits;
}

/* tight.h - the law of level `tight`: its lists and where its planes lie. Bytes are in docs/WIRE_FORMAT.md.
 *
 * Everything that is a set - which elements of a class changed, which changes are exceptions (more than one step),
 * which exceptions on a large base are more than two steps - is a *list*: strictly rising ranks in a universe, Rice-
 * coded by their gaps (Rice 1979); where most of the universe belongs to the set, the list is of what does not
 * (inverted).
 *
 *   descriptors  3 bytes a list: positions by class, exceptions by class, further
 *   directions   m bits in order of position (1: down)
 *   lows         the low bits of all gaps, list after list
 *   unary        the high parts of all gaps, list after list; then a number for each coded magnitude
 *   magnitudes   the low bits of the magnitudes
 */
#ifndef WEFT_CORE_CODEC_TIGHT_H
#define WEFT_CORE_CODEC_TIGHT_H

#include "codec/classes.h"
#include "codec/frame.h"

#define WEFT_TIGHT_LIST_BYTES 3u
#define WEFT_TIGHT_LIST_MAX   (1u << 17) /* members */
#define WEFT_TIGHT_LOW_MAX    24u        /* low bits of a gap */
#define WEFT_TIGHT_LISTS      (2u * WEFT_CLASS_MAX + 1u)
#define WEFT_TIGHT_ESCAPE     8u /* unary numbers from here on are lengths */
#define WEFT_TIGHT_ESCAPE_LOW 4u /* bits that an escaped magnitude has more than its Rice parameter */

typedef struct weft_tight_list {
    uint32_t members;  /* 0..WEFT_TIGHT_LIST_MAX */
    uint32_t low_bits; /* Rice parameter, 0..WEFT_TIGHT_LOW_MAX */
    bool inverted;     /* the members are those outside the set */
} weft_tight_list;

/* Lists of one frame; those of absent classes have no members and are not inverted. */
typedef struct weft_tight_shape {
    uint32_t changed;     /* m */
    uint32_t positioned;  /* mask of the classes that have a list of positions */
    uint32_t exceptional; /* mask of the classes that have a list of exceptions */
    weft_tight_list positions[WEFT_CLASS_MAX];
    weft_tight_list exceptions[WEFT_CLASS_MAX];
    weft_tight_list further; /* there if any class has exceptions */
} weft_tight_shape;

/* Whether a set of so many members is listed by what is not in it. */
static inline bool weft_tight_inverts(uint32_t members, uint32_t universe)
{
    return 2 * (uint64_t)members > universe;
}

/* The lists in the payload's order, index below WEFT_TIGHT_LISTS; absent ones are empty. */
const weft_tight_list *weft_tight_list_at(const weft_tight_shape *shape, uint32_t index);
uint32_t weft_tight_parameters(const weft_tight_shape *shape);
/* Descriptors in the order of the payload. */
void weft_tight_write_lists(const weft_tight_shape *shape, uint8_t *payload);
/* Reads and checks header and descriptors. Errors: WEFT_E_CORRUPT. */
weft_status weft_tight_shape_read(const weft_frame_header *header, const uint8_t *payload, uint32_t classes,
                                  weft_tight_shape *shape);

/* Byte offsets of the planes whose sizes the lists determine. */
uint64_t weft_tight_lists_bytes(const weft_tight_shape *shape);
uint64_t weft_tight_low_bits(const weft_tight_shape *shape);

static inline uint64_t weft_tight_lows_offset(const weft_tight_shape *shape)
{
    return weft_tight_lists_bytes(shape) + ((uint64_t)shape->changed + 7) / 8;
}

static inline uint64_t weft_tight_unary_offset(const weft_tight_shape *shape)
{
    return weft_tight_lows_offset(shape) + (weft_tight_low_bits(shape) + 7) / 8;
}

/* Payload for unary and magnitude planes of given bits. */
static inline uint64_t weft_tight_payload(const weft_tight_shape *shape, uint64_t unary_bits, uint64_t magnitude_bits)
{
    return weft_frame_pad(weft_tight_unary_offset(shape) + (unary_bits + 7) / 8 + (magnitude_bits + 7) / 8);
}

/* The magnitude's code at a Rice parameter (docs/WIRE_FORMAT.md): a unary number, and low bits. */
typedef struct weft_tight_code {
    uint32_t unary;
    uint32_t low_count;
    uint64_t low;
} weft_tight_code;

static inline weft_tight_code weft_tight_code_of(uint64_t value, uint32_t rice)
{
    uint64_t quotient = value >> rice;
    if (quotient < WEFT_TIGHT_ESCAPE)
        return (weft_tight_code){(uint32_t)quotient, rice, value & ((UINT64_C(1) << rice) - 1)};
    const uint32_t order = rice + WEFT_TIGHT_ESCAPE_LOW;
    uint64_t y = value - ((uint64_t)WEFT_TIGHT_ESCAPE << rice) + (UINT64_C(1) << order);
    uint32_t length = 63 - (uint32_t)__builtin_clzll(y);
    return (weft_tight_code){WEFT_TIGHT_ESCAPE + length - order, length, y ^ UINT64_C(1) << length};
}

#endif

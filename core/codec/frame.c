/* frame.c - headers: written, read, and checked against the layout. */
#include "codec/frame.h"

#include <xxhash.h>

#include "base/bytes.h"
#include "base/status.h"
#include "codec/fast.h"
#include "codec/tight.h"

#define PAYLOAD_BITS 24u
#define LEVEL_BITS   4u
#define CHANGED_BITS 20u

void weft_frame_write_header(uint8_t *out, const weft_frame_header *header)
{
    weft_bytes_put(out, header->unit, 4);
    weft_bytes_put(out + 4, header->payload_bytes | (uint32_t)header->level << PAYLOAD_BITS, 4);
    weft_bytes_put(out + 8, header->changed | (header->units - 1) << CHANGED_BITS, 4);
    weft_bytes_put(out + 12, header->parameters, 4);
}

void weft_frame_read_header(const uint8_t *bytes, weft_frame_header *header)
{
    uint32_t size = (uint32_t)weft_bytes_get(bytes + 4, 4);
    uint32_t counts = (uint32_t)weft_bytes_get(bytes + 8, 4);
    header->unit = (uint32_t)weft_bytes_get(bytes, 4);
    header->payload_bytes = size & ((1u << PAYLOAD_BITS) - 1);
    header->level = (weft_level)(size >> PAYLOAD_BITS);
    header->changed = counts & ((1u << CHANGED_BITS) - 1);
    header->units = (counts >> CHANGED_BITS) + 1;
    header->parameters = (uint32_t)weft_bytes_get(bytes + 12, 4);
}

uint64_t weft_frame_measure(const uint8_t *bytes, uint64_t available)
{
    weft_frame_header header;
    if (available < WEFT_FRAME_HEADER_BYTES)
        return 0;
    weft_frame_read_header(bytes, &header);
    uint64_t total = WEFT_FRAME_HEADER_BYTES + (uint64_t)header.payload_bytes;
    bool known = (unsigned)header.level < WEFT_LEVEL_COUNT && header.changed > 0 && header.payload_bytes > 0;
    return known && total % WEFT_FRAME_ALIGN == 0 && total <= available ? total : 0;
}

/* Checks all that does not depend on the unit. */
static weft_status header_check(const weft_frame_header *header, uint64_t available)
{
    if ((unsigned)header->level >= WEFT_LEVEL_COUNT)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: unknown level or reserved bits %u", header->unit,
                         (unsigned)header->level);
    if (header->units > (header->level >= WEFT_LEVEL_FAST ? 1u << WEFT_RUN_SHIFT_MAX : 1u))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: %u units in one frame (%s)", header->unit, header->units,
                         weft_level_name(header->level));
    if (header->units > 1 && header->changed > WEFT_FRAME_RUN_CHANGES)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: %u changes in a run of %u units, at most %u", header->unit,
                         header->changed, header->units, WEFT_FRAME_RUN_CHANGES);
    if (header->payload_bytes % WEFT_FRAME_ALIGN != 0)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: payload of %u bytes is not padded to %u", header->unit,
                         header->payload_bytes, WEFT_FRAME_ALIGN);
    if (header->payload_bytes > available - WEFT_FRAME_HEADER_BYTES)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: payload of %u bytes, %llu are there", header->unit,
                         header->payload_bytes, (unsigned long long)(available - WEFT_FRAME_HEADER_BYTES));
    return WEFT_OK;
}

/* A payload of exactly `used` bytes and zeros up to the alignment. */
static weft_status plain_check(const weft_frame_header *header, const uint8_t *payload, uint64_t used)
{
    if (header->payload_bytes != weft_frame_pad(used))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: payload of %u bytes, %llu expected for %u elements (%s)",
                         header->unit, header->payload_bytes, (unsigned long long)weft_frame_pad(used), header->changed,
                         weft_level_name(header->level));
    for (uint64_t i = used; i < header->payload_bytes; i++) {
        if (payload[i] != 0)
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: padding byte %llu is 0x%02x, not zero", header->unit,
                             (unsigned long long)i, payload[i]);
    }
    return WEFT_OK;
}

/* The units that the header names, against which a payload is judged. */
typedef struct span {
    uint32_t count;
    uint8_t width;
    uint32_t largest; /* frame of one unit in this layout */
} span;

/* A coded frame is smaller than the dense one: else the encoder would have sent that. */
static weft_status smaller_check(const weft_frame_header *header, const span *units)
{
    uint64_t dense = weft_frame_full_payload(units->count, units->width);
    if (header->payload_bytes >= dense)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: payload of %u bytes reaches the dense %llu (%s)",
                         header->unit, header->payload_bytes, (unsigned long long)dense,
                         weft_level_name(header->level));
    if (WEFT_FRAME_HEADER_BYTES + header->payload_bytes > units->largest)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: payload of %u bytes, the largest frame has %u",
                         header->unit, header->payload_bytes, units->largest);
    return WEFT_OK;
}

static weft_status full_check(const weft_frame_header *header, const uint8_t *payload, const span *units)
{
    if (header->changed != units->count)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: full with %u of %u elements", header->unit, header->changed,
                         units->count);
    if (header->parameters > WEFT_FULL_STEPS)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: level full has parameters 0 to %u, got 0x%08x",
                         header->unit, WEFT_FULL_STEPS, header->parameters);
    if (weft_frame_has_planes(header))
        return smaller_check(header, units);
    return plain_check(header, payload, (uint64_t)units->count * units->width);
}

static weft_status pairs_check(const weft_frame_header *header, const uint8_t *payload, const span *units)
{
    if (header->parameters != 0)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: level pairs has no parameters, got 0x%08x", header->unit,
                         header->parameters);
    weft_status status = plain_check(header, payload, (uint64_t)header->changed * (4u + units->width));
    return status == WEFT_OK ? smaller_check(header, units) : status;
}

static weft_status fast_check(const weft_frame_header *header, const span *units)
{
    weft_fast_shape shape;
    weft_status status = weft_fast_shape_read(header, units->count, units->width, &shape);
    if (status != WEFT_OK)
        return status;
    uint64_t least = weft_fast_payload_least(&shape);
    if (header->payload_bytes < least)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: payload of %u bytes, at least %llu for %u changes",
                         header->unit, header->payload_bytes, (unsigned long long)least, header->changed);
    return smaller_check(header, units);
}

/* How many classes there are is the update's to say: the decoder checks the masks again. */
static weft_status tight_check(const weft_frame_header *header, const uint8_t *payload, const span *units)
{
    weft_tight_shape shape;
    weft_status status = weft_tight_shape_read(header, payload, WEFT_CLASS_MAX, &shape);
    return status == WEFT_OK ? smaller_check(header, units) : status;
}

static weft_status payload_check(const weft_frame_header *header, const uint8_t *payload, const span *units)
{
    if (header->changed == 0 || header->changed > units->count)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: %u changed of %u elements", header->unit, header->changed,
                         units->count);
    switch (header->level) {
    case WEFT_LEVEL_FULL:
        return full_check(header, payload, units);
    case WEFT_LEVEL_PAIRS:
        return pairs_check(header, payload, units);
    case WEFT_LEVEL_FAST:
        return fast_check(header, units);
    default:
        return tight_check(header, payload, units);
    }
}

static weft_status units_check(const weft_frame_header *header, const weft_layout *layout)
{
    if (header->unit >= layout->unit_count || header->units > layout->unit_count - header->unit)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u and %u more: the layout has %llu units", header->unit,
                         header->units - 1, (unsigned long long)layout->unit_count);
    if (!weft_layout_joined(layout, header->unit, header->units))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: its %u units are not of one dtype", header->unit,
                         header->units);
    return WEFT_OK;
}

weft_status weft_frame_admit_packed(const weft_layout *layout, const uint8_t *bytes, uint64_t available,
                                    weft_frame *frame)
{
    weft_frame_header header;
    if (available < WEFT_FRAME_HEADER_BYTES)
        return weft_fail(WEFT_E_CORRUPT, "a frame's header needs %u bytes, %llu are there", WEFT_FRAME_HEADER_BYTES,
                         (unsigned long long)available);
    weft_frame_read_header(bytes, &header);
    weft_status status = header_check(&header, available);
    if (status == WEFT_OK)
        status = units_check(&header, layout);
    if (status != WEFT_OK)
        return status;
    const span units = {weft_layout_count_units(layout, header.unit, header.units), layout->units[header.unit].width,
                        layout->largest_frame};
    status = payload_check(&header, bytes + WEFT_FRAME_HEADER_BYTES, &units);
    if (status != WEFT_OK)
        return status;
    *frame = (weft_frame){header, units.count, bytes + WEFT_FRAME_HEADER_BYTES};
    return WEFT_OK;
}

weft_status weft_frame_admit(const weft_layout *layout, const uint8_t *bytes, uint64_t available, weft_frame *frame)
{
    weft_frame any;
    weft_status status = weft_frame_admit_packed(layout, bytes, available, &any);
    if (status != WEFT_OK)
        return status;
    if (weft_frame_has_planes(&any.header))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: full in byte planes where none are taken", any.header.unit);
    *frame = any;
    return WEFT_OK;
}

uint64_t weft_frame_check(const uint8_t *frame, uint64_t bytes)
{
    return XXH3_64bits(frame, bytes);
}

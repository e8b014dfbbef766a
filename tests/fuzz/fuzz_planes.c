/* Any bytes as a full frame in byte planes: refused, or a verbatim frame that packs and unpacks to itself. */
#include "base/bytes.h"
#include "codec/planes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/world.h"

#define FLAG_PLANES 4u /* the header says full, of every element, in planes .. */
#define FLAG_STEPS  8u /* .. of steps */

static weft_packer packer;
static weft_unpacker unpacker;

/* A header that passes, so that the planes after it are met. */
static void header_force(const weft_layout *layout, uint32_t parameters, uint8_t *bytes, uint64_t length)
{
    if (length < WEFT_FRAME_HEADER_BYTES)
        return;
    uint64_t unit = weft_bytes_get(bytes, 4) % layout->unit_count;
    weft_frame_header header = {(uint32_t)unit, 1, WEFT_LEVEL_FULL, 0, 0, parameters};
    header.payload_bytes = (uint32_t)((length - WEFT_FRAME_HEADER_BYTES) & ~(uint64_t)(WEFT_FRAME_ALIGN - 1));
    header.changed = layout->units[unit].count;
    weft_frame_write_header(bytes, &header);
}

/* Packs a copy of the frame and reads that again. */
static void packs_again(const weft_layout *layout, const weft_frame *frame)
{
    const weft_unit *unit = &layout->units[frame->header.unit];
    const uint64_t dense = WEFT_FRAME_HEADER_BYTES + (uint64_t)frame->header.payload_bytes;
    uint8_t *plain = malloc(dense), *packed = malloc(dense);
    weft_frame again;
    uint64_t length;
    FUZZ_MUST(plain && packed);
    weft_frame_write_header(plain, &frame->header);
    memcpy(plain + WEFT_FRAME_HEADER_BYTES, frame->payload, frame->header.payload_bytes);
    memcpy(packed, plain, dense);
    uint32_t bytes = weft_planes_pack(&packer, unit, packed);
    FUZZ_MUST(bytes <= dense);
    uint8_t *exact = fuzz_copy(packed, bytes);
    FUZZ_MUST(weft_planes_admit(&unpacker, layout, exact, bytes, &again, &length) == WEFT_OK);
    FUZZ_MUST(length == bytes);
    FUZZ_MUST(memcmp(&again.header, &frame->header, sizeof again.header) == 0);
    FUZZ_MUST(memcmp(again.payload, plain + WEFT_FRAME_HEADER_BYTES, again.header.payload_bytes) == 0);
    free(exact);
    free(packed);
    free(plain);
}

static void frame_read(const weft_layout *layout, const uint8_t *bytes, uint64_t available)
{
    weft_frame frame;
    uint64_t length = 0;
    weft_status status = weft_planes_admit(&unpacker, layout, bytes, available, &frame, &length);
    FUZZ_MUST(status == WEFT_OK || status == WEFT_E_CORRUPT);
    FUZZ_MUST(length == (status == WEFT_OK ? weft_frame_measure(bytes, available) : 0));
    if (status != WEFT_OK || frame.header.level != WEFT_LEVEL_FULL)
        return;
    const weft_unit *unit = &layout->units[frame.header.unit];
    FUZZ_MUST(frame.header.parameters == WEFT_FULL_BITS || frame.header.parameters == WEFT_FULL_STEPS);
    FUZZ_MUST(frame.header.changed == unit->count);
    FUZZ_MUST(frame.header.payload_bytes == weft_frame_full_payload(unit->count, unit->width));
    packs_again(layout, &frame);
}

/* Three bytes choose a world, one has the flag, the rest is the frame. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_sets(); /* opens what the world needs, and silences the log */
    if (!packer.context)
        FUZZ_MUST(weft_packer_open(&packer) == WEFT_OK && weft_unpacker_open(&unpacker) == WEFT_OK);
    if (size <= FUZZ_CHOICES)
        return 0;
    const weft_layout *layout = fuzz_world_of(data)->layout;
    const uint64_t length = size - FUZZ_CHOICES - 1;
    uint8_t *bytes = fuzz_copy(data + FUZZ_CHOICES + 1, length);
    if (data[FUZZ_CHOICES] & FLAG_PLANES)
        header_force(layout, data[FUZZ_CHOICES] & FLAG_STEPS ? WEFT_FULL_STEP_PLANES : WEFT_FULL_PLANES, bytes, length);
    frame_read(layout, bytes, length);
    free(bytes);
    return 0;
}

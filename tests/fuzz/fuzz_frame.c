/* Any bytes as a frame: refused, or changes that every kernel set agrees on and that code again to the same changes.
 *
 * Input: three bytes that choose the world, one of flags, then the frame. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/world.h"

#define FLAG_LENGTH 1u /* the header's length becomes the true one */
#define FLAG_COUNTS 2u /* unit and count become possible ones */

static void put32(uint8_t *at, uint32_t word)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (uint8_t)(word >> (8 * i));
}

static uint32_t get32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Random bytes seldom pass the first checks: with these flags they meet the planes behind. */
static void header_mend(const fuzz_world *world, unsigned flags, uint8_t *bytes, size_t length)
{
    if (length < WEFT_FRAME_HEADER_BYTES)
        return;
    if (flags & FLAG_LENGTH) {
        uint32_t payload = (uint32_t)((length - WEFT_FRAME_HEADER_BYTES) & ~(size_t)(WEFT_FRAME_ALIGN - 1));
        put32(bytes + 4, (get32(bytes + 4) & 0xff000000u) | payload);
    }
    if (flags & FLAG_COUNTS) {
        uint32_t unit = get32(bytes) % (uint32_t)world->layout->unit_count, counts = get32(bytes + 8);
        put32(bytes, unit);
        put32(bytes + 8, (counts & 0xfff00000u) | (1 + (counts & 0xfffffu) % world->layout->units[unit].count));
    }
}

/* The changes, put on the target, are encoded to a frame that decodes to themselves. */
static void codes_again(const fuzz_world *world, fuzz_decoded *decoded, const weft_frame *frame)
{
    weft_frame again;
    fuzz_encoded made = fuzz_encode(world, 0, frame->header.unit, frame->header.level);
    FUZZ_MUST(made.changed == decoded->changes.count);
    FUZZ_MUST(memcmp(made.delta, decoded->delta, sizeof(made.delta)) == 0);
    FUZZ_MUST((made.length == 0) == (made.changed == 0));
    if (made.length > 0) {
        FUZZ_MUST(weft_frame_admit(world->layout, made.bytes, made.length, &again) == WEFT_OK);
        fuzz_decoded twice = fuzz_decode(world, 0, &again);
        fuzz_decoded_same(decoded, &twice);
        fuzz_decoded_free(&twice);
    }
    fuzz_encoded_free(&made);
}

static void land(const fuzz_world *world, fuzz_decoded *decoded, const weft_frame *frame)
{
    fuzz_decoded_hold(decoded);
    for (unsigned set = 0; set < fuzz_sets(); set++) {
        FUZZ_MUST(fuzz_apply(set, decoded));
        if (set == 0)
            codes_again(world, decoded, frame);
        fuzz_undo(set, decoded);
        FUZZ_MUST(memcmp(world->target, world->base, world->layout->bytes) == 0);
    }
}

static void frame_decode(const fuzz_world *world, const weft_frame *frame)
{
    static const uint64_t untouched[FUZZ_TENSORS];
    fuzz_decoded first = fuzz_decode(world, 0, frame);
    FUZZ_MUST(first.status == WEFT_OK || first.status == WEFT_E_CORRUPT);
    for (unsigned set = 1; set < fuzz_sets(); set++) {
        fuzz_decoded other = fuzz_decode(world, set, frame);
        fuzz_decoded_same(&first, &other);
        fuzz_decoded_free(&other);
    }
    if (first.status == WEFT_OK) {
        land(world, &first, frame);
    } else {
        FUZZ_MUST(memcmp(first.delta, untouched, sizeof(untouched)) == 0);
    }
    fuzz_decoded_free(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= FUZZ_CHOICES)
        return 0;
    fuzz_sets();
    const fuzz_world *world = fuzz_world_of(data);
    const size_t length = size - FUZZ_CHOICES - 1;
    uint8_t *bytes = fuzz_copy(data + FUZZ_CHOICES + 1, length);
    weft_frame frame;
    header_mend(world, data[FUZZ_CHOICES], bytes, length);
    weft_status status = weft_frame_admit(world->layout, bytes, length, &frame);
    FUZZ_MUST(status == WEFT_OK || status == WEFT_E_CORRUPT);
    uint64_t measure = weft_frame_measure(bytes, length);
    FUZZ_MUST(measure <= length);
    if (status == WEFT_OK) {
        FUZZ_MUST(measure == WEFT_FRAME_HEADER_BYTES + (uint64_t)frame.header.payload_bytes);
        frame_decode(world, &frame);
    }
    free(bytes);
    return 0;
}

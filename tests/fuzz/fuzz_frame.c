/* Any bytes as a frame: refused, or changes that every kernel set agrees on and that code again to the same changes. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/world.h"

/* The changes, put on the target, are encoded to a frame that decodes to themselves. */
static void codes_again(const fuzz_world *world, fuzz_decoded *decoded, const weft_frame_header *header)
{
    weft_frame again;
    fuzz_encoded made = fuzz_encode(world, 0, header->unit, header->units, header->level);
    if (!made.alone) {
        FUZZ_MUST(made.changed == decoded->changes.count);
        FUZZ_MUST(memcmp(made.delta, decoded->delta, sizeof(made.delta)) == 0);
        FUZZ_MUST((made.length == 0) == (made.changed == 0));
    }
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
            codes_again(world, decoded, &frame->header);
        fuzz_undo(set, decoded);
        FUZZ_MUST(memcmp(world->target, world->base, world->layout->bytes) == 0);
    }
}

static void frame_decode(const fuzz_world *world, const weft_frame *frame)
{
    static const uint64_t untouched[FUZZ_PARTS];
    fuzz_decoded first = fuzz_decode(world, 0, frame);
    FUZZ_MUST(first.status == WEFT_OK || first.status == WEFT_E_CORRUPT ||
              (first.status == WEFT_E_BASE && frame->header.level == WEFT_LEVEL_TIGHT));
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
    fuzz_frame_input input;
    weft_frame frame;
    fuzz_sets();
    if (!fuzz_frame_input_read(data, size, &input))
        return 0;
    weft_status status = weft_frame_admit(input.world->layout, input.bytes, input.length, &frame);
    uint64_t measure = weft_frame_measure(input.bytes, input.length);
    FUZZ_MUST(status == WEFT_OK || status == WEFT_E_CORRUPT);
    FUZZ_MUST(measure <= input.length);
    if (status == WEFT_OK) {
        FUZZ_MUST(measure == WEFT_FRAME_HEADER_BYTES + (uint64_t)frame.header.payload_bytes);
        frame_decode(input.world, &frame);
    }
    free(input.bytes);
    return 0;
}

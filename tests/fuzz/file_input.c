#include "tests/fuzz/file_input.h"

#include "base/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "update/update_format.h"

#define FLAG_CHECKS 1u /* the checks become those of the bytes */
#define FLAG_BASE   2u /* the base's root becomes the world's */

static void frames_mend(uint8_t *frames, uint64_t bytes, uint8_t *checks, uint64_t count)
{
    for (uint64_t i = 0; i < count && bytes > 0; i++) {
        uint64_t length = weft_frame_measure(frames, bytes);
        if (length == 0)
            return;
        weft_bytes_put(checks + 8 * i, weft_frame_check(frames, length), 8);
        frames += length;
        bytes -= length;
    }
}

/* Mutated bytes never have the right checks: with these flags they meet what lies behind. */
static void file_mend(const fuzz_world *world, unsigned flags, uint8_t *bytes, uint64_t length)
{
    weft_update_tail tail;
    weft_wire_trailer trailer;
    if (length < WEFT_UPDATE_HEADER_BYTES + WEFT_TAIL_BYTES + WEFT_UPDATE_TRAILER_BYTES)
        return;
    uint8_t *end = bytes + length - WEFT_UPDATE_TRAILER_BYTES, *tail_at = end - WEFT_TAIL_BYTES;
    weft_update_tail_get(tail_at, &tail);
    if (weft_wire_get_trailer(end, WEFT_UPDATE_TRAILER_BYTES, &trailer) != WEFT_OK)
        return;
    uint64_t head = weft_frame_pad(WEFT_UPDATE_HEADER_BYTES + 2 * weft_bytes_get(bytes + 110, 2));
    uint64_t rest = length - WEFT_TAIL_BYTES - WEFT_UPDATE_TRAILER_BYTES, shape = tail.shape_bytes;
    if (head > rest || trailer.frame_bytes > rest || shape > rest || tail.packed_bytes > rest ||
        trailer.frames > rest / 8)
        return;
    const uint64_t told = head + trailer.frame_bytes + shape + tail.packed_bytes + 8 * trailer.frames;
    if (told > rest || (told < rest && !tail.divided))
        return;
    const uint64_t cells = rest - told;
    uint8_t *shape_at = bytes + head + trailer.frame_bytes, *packed_at = shape_at + shape + cells;
    uint8_t *checks_at = packed_at + tail.packed_bytes;
    frames_mend(bytes + head, trailer.frame_bytes, checks_at, trailer.frames);
    if (flags & FLAG_BASE)
        tail.base_root = fuzz_root(world, &world->base_binding);
    weft_update_tail_put(tail_at, &tail);
    const weft_update_sections sections = {.head = bytes,
                                           .head_bytes = head,
                                           .shape = shape_at,
                                           .shape_bytes = shape,
                                           .cells = shape_at + shape,
                                           .cells_bytes = cells,
                                           .packed = packed_at,
                                           .packed_bytes = tail.packed_bytes,
                                           .checks = checks_at,
                                           .checks_bytes = 8 * trailer.frames,
                                           .tail = tail_at,
                                           .trailer = end};
    tail.check = weft_update_check(&sections);
    weft_update_tail_put(tail_at, &tail);
}

bool fuzz_file_input_read(const uint8_t *data, size_t size, fuzz_file_input *input)
{
    if (size <= FUZZ_CHOICES)
        return false;
    const fuzz_world *world = fuzz_world_of(data);
    *input = (fuzz_file_input){.world = world, .length = size - FUZZ_CHOICES - 1};
    for (uint64_t t = 0; t < world->layout->count; t++) {
        const weft_layout_entry *entry = &world->layout->entries[t];
        input->pieces[t] = (weft_piece){t, 0, entry->elements, world->target + entry->offset};
    }
    input->bytes = fuzz_copy(data + FUZZ_CHOICES + 1, input->length);
    if (data[FUZZ_CHOICES] & FLAG_CHECKS)
        file_mend(world, data[FUZZ_CHOICES], input->bytes, input->length);
    return true;
}

static weft_status bytes_read(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    const fuzz_file_input *in = user;
    FUZZ_MUST(offset <= in->length && bytes <= in->length - offset);
    memcpy(data, in->bytes + offset, bytes);
    return WEFT_OK;
}

weft_status fuzz_file_open(fuzz_file_input *input, weft_update_file **file)
{
    const weft_source source = {input, bytes_read, input->length};
    return weft_update_open(NULL, &source, file);
}

/* Any bytes as an update file: refused with the weights untouched, or applied and rewritten to the same target.
 *
 * Input: three bytes that choose the world, one of flags, then the file. */
#include "bytes.h"
#include "digest.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/world.h"
#include "update_format.h"

#define FLAG_CHECKS    1u /* the checks become those of the bytes */
#define FLAG_BASE      2u /* the base's root becomes the world's */
#define ATTACHMENT_MAX 65536u

typedef struct input {
    const fuzz_world *world;
    weft_piece pieces[FUZZ_TENSORS]; /* of the world's target, which holds the base's bits */
    uint8_t *bytes;
    uint64_t length;
} input;

typedef struct written {
    uint8_t *bytes;
    uint64_t used, capacity;
} written;

static uint64_t root_of(const fuzz_world *world, const weft_binding *binding)
{
    uint64_t parts[FUZZ_PARTS] = {0};
    fuzz_digest(world, binding, parts);
    return weft_digest_parts_root(world->layout, parts);
}

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
        trailer.frames > rest / 8 ||
        head + trailer.frame_bytes + shape + tail.packed_bytes + 8 * trailer.frames != rest)
        return;
    uint8_t *shape_at = bytes + head + trailer.frame_bytes, *packed_at = shape_at + shape;
    uint8_t *checks_at = packed_at + tail.packed_bytes;
    frames_mend(bytes + head, trailer.frame_bytes, checks_at, trailer.frames);
    if (flags & FLAG_BASE)
        tail.base_root = root_of(world, &world->base_binding);
    weft_update_tail_put(tail_at, &tail);
    const weft_update_sections sections = {.head = bytes,
                                           .head_bytes = head,
                                           .shape = shape_at,
                                           .shape_bytes = shape,
                                           .packed = packed_at,
                                           .packed_bytes = tail.packed_bytes,
                                           .checks = checks_at,
                                           .checks_bytes = 8 * trailer.frames,
                                           .tail = tail_at,
                                           .trailer = end};
    tail.check = weft_update_check(&sections);
    weft_update_tail_put(tail_at, &tail);
}

static weft_status bytes_read(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    const input *in = user;
    FUZZ_MUST(offset <= in->length && bytes <= in->length - offset);
    memcpy(data, in->bytes + offset, bytes);
    return WEFT_OK;
}

static weft_status bytes_write(void *user, const void *data, uint64_t bytes)
{
    written *out = user;
    FUZZ_MUST(bytes <= out->capacity - out->used);
    memcpy(out->bytes + out->used, data, bytes);
    out->used += bytes;
    return WEFT_OK;
}

static void refusal_holds(weft_status status)
{
    FUZZ_MUST(status == WEFT_OK || status == WEFT_E_FILE || status == WEFT_E_CORRUPT || status == WEFT_E_CHECK ||
              status == WEFT_E_PROTOCOL || status == WEFT_E_LAYOUT || status == WEFT_E_BASE || status == WEFT_E_TARGET);
}

/* Everything that a file says of itself. */
static void inspect(weft_update_file *file, const input *in)
{
    weft_update_header header = {.size = sizeof(header)};
    uint32_t thresholds[WEFT_CLASS_MAX];
    weft_update_tensor tensors[FUZZ_TENSORS];
    static uint8_t attachment[ATTACHMENT_MAX];
    const weft_layout *layout;
    uint64_t bytes;
    size_t classes;
    int named, exact;
    weft_status status = weft_update_describe(file, &header);
    refusal_holds(status);
    FUZZ_MUST(status != WEFT_OK || header.bytes == in->length);
    refusal_holds(weft_update_layout(file, &layout, &named));
    FUZZ_MUST(weft_update_classes(file, in->world->layout->entries[0].row->dtype, thresholds, WEFT_CLASS_MAX,
                                  &classes) == WEFT_OK);
    refusal_holds(weft_update_attachment(file, attachment, sizeof(attachment), &bytes));
    refusal_holds(weft_update_tensors(file, in->world->layout, NULL, 0, tensors, &exact));
    refusal_holds(weft_update_tensors(file, in->world->layout, in->pieces, in->world->layout->count, tensors, NULL));
}

static void apply(weft_update_file *file, const input *in)
{
    const fuzz_world *world = in->world;
    const uint64_t bytes = world->layout->bytes;
    written out = {.bytes = malloc(bytes), .capacity = bytes};
    const weft_sink sink = {&out, bytes_write};
    weft_apply_info info = {.size = sizeof(info)};
    if (!out.bytes)
        abort();
    weft_status rewritten =
        weft_update_rewrite(file, world->layout, in->pieces, world->layout->count, NULL, &sink, NULL);
    weft_status status = weft_update_apply(file, world->layout, in->pieces, world->layout->count, NULL, &info);
    refusal_holds(status);
    FUZZ_MUST(rewritten == status);
    if (status == WEFT_OK) {
        FUZZ_MUST(info.version.root == root_of(world, &world->target_binding));
        FUZZ_MUST(out.used == bytes && memcmp(out.bytes, world->target, bytes) == 0);
        memcpy(world->target, world->base, bytes);
    }
    FUZZ_MUST(memcmp(world->target, world->base, bytes) == 0);
    free(out.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= FUZZ_CHOICES)
        return 0;
    fuzz_sets();
    input in = {.world = fuzz_world_of(data), .length = size - FUZZ_CHOICES - 1};
    const weft_layout *layout = in.world->layout;
    weft_update_file *file;
    in.bytes = fuzz_copy(data + FUZZ_CHOICES + 1, in.length);
    for (uint64_t t = 0; t < layout->count; t++)
        in.pieces[t] = (weft_piece){t, 0, layout->entries[t].elements, in.world->target + layout->entries[t].offset};
    if (data[FUZZ_CHOICES] & FLAG_CHECKS)
        file_mend(in.world, data[FUZZ_CHOICES], in.bytes, in.length);
    const weft_source source = {&in, bytes_read, in.length};
    weft_status status = weft_update_open(&source, &file);
    refusal_holds(status);
    if (status == WEFT_OK) {
        inspect(file, &in);
        apply(file, &in);
        weft_update_close(file);
    }
    free(in.bytes);
    return 0;
}

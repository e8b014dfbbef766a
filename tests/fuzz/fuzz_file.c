/* Any bytes as an update file: refused with the weights untouched, or applied and rewritten to the same target. */
#include "tests/fuzz/file_input.h"
#include "tests/fuzz/fuzz.h"

#define ATTACHMENT_MAX 65536u

typedef struct written {
    uint8_t *bytes;
    uint64_t used, capacity;
} written;

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
static void inspect(weft_update_file *file, const fuzz_file_input *in)
{
    weft_update_header header = {.size = sizeof(header)};
    weft_update_tensor tensors[FUZZ_TENSORS];
    static uint8_t attachment[ATTACHMENT_MAX];
    uint32_t thresholds[WEFT_THRESHOLDS_MAX];
    const weft_layout *layout;
    uint64_t bytes;
    int named, exact;
    weft_status status = weft_update_describe(file, &header);
    refusal_holds(status);
    FUZZ_MUST(status != WEFT_OK || header.bytes == in->length);
    refusal_holds(weft_update_layout(file, &layout, &named));
    FUZZ_MUST(weft_update_thresholds(file, in->world->layout->entries[0].row->dtype, thresholds) <=
              WEFT_THRESHOLDS_MAX);
    refusal_holds(weft_update_attachment(file, attachment, sizeof(attachment), &bytes));
    refusal_holds(weft_update_tensors(file, in->world->layout, NULL, 0, tensors, &exact));
    refusal_holds(weft_update_tensors(file, in->world->layout, in->pieces, in->world->layout->count, tensors, NULL));
}

static void apply(weft_update_file *file, const fuzz_file_input *in)
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
        FUZZ_MUST(info.version.root == fuzz_root(world, &world->target_binding));
        FUZZ_MUST(out.used == bytes && memcmp(out.bytes, world->target, bytes) == 0);
        memcpy(world->target, world->base, bytes);
    }
    FUZZ_MUST(memcmp(world->target, world->base, bytes) == 0);
    free(out.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file_input in;
    weft_update_file *file;
    fuzz_sets();
    if (!fuzz_file_input_read(data, size, &in))
        return 0;
    weft_status status = fuzz_file_open(&in, &file);
    refusal_holds(status);
    if (status == WEFT_OK) {
        inspect(file, &in);
        apply(file, &in);
        weft_update_close(file);
    }
    free(in.bytes);
    return 0;
}

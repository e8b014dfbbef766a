/* Plays the update files of the fuzz corpus and writes what this library says to each, as cases for the independent
 * decoder. */
#include "base/status.h"
#include "tests/fuzz/file_input.h"
#include "tests/fuzz/fuzz.h"
#include "tests/independent/cases.h"

static void part_status(const char *part, weft_status status)
{
    const char *name = weft_status_name(status);
    case_part(part, name, strlen(name));
}

static weft_status judge(fuzz_file_input *input)
{
    const fuzz_world *world = input->world;
    const weft_layout *layout;
    weft_update_file *file;
    int named;
    weft_status status = fuzz_file_open(input, &file);
    if (status != WEFT_OK)
        return status;
    part_status("shape", weft_update_layout(file, &layout, &named));
    status = weft_update_apply(file, world->layout, input->pieces, world->layout->count, NULL, NULL);
    weft_update_close(file);
    if (status == WEFT_OK)
        case_part("target", world->target, world->layout->bytes);
    memcpy(world->target, world->base, world->layout->bytes);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file_input input;
    fuzz_sets();
    if (!fuzz_file_input_read(data, size, &input))
        return 0;
    case_begin("file");
    case_layout(input.world->layout);
    case_part("hash", input.world->layout->hash, sizeof(input.world->layout->hash));
    case_part("base", input.world->base, input.world->layout->bytes);
    case_part("file", input.bytes, input.length);
    part_status("status", judge(&input));
    free(input.bytes);
    return 0;
}

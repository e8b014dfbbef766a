/* Plays the frames of the fuzz corpus and writes what this library says to each, as cases for the independent decoder.
 */
#include "base/status.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/world.h"
#include "tests/independent/cases.h"

static weft_status judge(fuzz_frame_input *input)
{
    weft_frame frame;
    weft_status status = weft_frame_admit(input->world->layout, input->bytes, input->length, &frame);
    if (status != WEFT_OK)
        return status;
    fuzz_decoded decoded = fuzz_decode(input->world, 0, &frame);
    status = decoded.status;
    if (status == WEFT_OK) {
        FUZZ_MUST(fuzz_apply(0, &decoded));
        case_part("target", input->world->target, input->world->layout->bytes);
        fuzz_undo(0, &decoded);
    }
    fuzz_decoded_free(&decoded);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_frame_input input;
    fuzz_sets();
    if (!fuzz_frame_input_read(data, size, &input))
        return 0;
    case_begin("judged");
    case_layout(input.world->layout);
    case_words(input.world->parameters);
    case_part("base", input.world->base, input.world->layout->bytes);
    case_part("frame", input.bytes, input.length);
    const char *name = weft_status_name(judge(&input));
    case_part("status", name, strlen(name));
    free(input.bytes);
    return 0;
}

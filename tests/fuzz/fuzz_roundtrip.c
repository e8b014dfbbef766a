/* Two versions of a unit, coded at every level: equal bits after the decoder, equal bytes from every kernel set.
 *
 * Input: three bytes that choose the world and its parameters, then edits of the target, each of a kind, a start, a
 * count, a stride and what the kind needs. */
#include "base/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/world.h"
#include "tests/support/unit_pair.h"

static const weft_level levels[] = {WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST, WEFT_LEVEL_TIGHT};
#define SURVEY 0x80u /* in the third byte: the parameters come from a sample */
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static uint64_t bits_edited(unsigned kind, uint64_t bits, uint64_t word, uint64_t *seed, const weft_dtype_row *row)
{
    switch (kind) {
    case 0:
        return bits + 1;
    case 1:
        return bits - 1;
    case 2:
        return bits + (pair_below(seed, 2) ? 1 : UINT64_MAX);
    case 3:
        return bits + word;
    case 4:
        return bits ^ (UINT64_C(1) << (8 * row->width - 1));
    case 5:
        return word;
    case 6:
        return pair_bits(seed, row);
    default:
        return bits ^ (pair_random(seed) & word);
    }
}

/* One edit: `count` elements from `start` on, `stride` apart. Counts from 128 on stand for many. Returns the count. */
static uint64_t edit(fuzz_world *world, weft_in *in)
{
    const weft_dtype_row *row = world->layout->entries[0].row;
    unsigned kind = (unsigned)weft_in_word(in, 1) % 8;
    uint64_t start = weft_in_word(in, 3), count = weft_in_word(in, 1), stride = 1 + weft_in_word(in, 1);
    uint64_t word = kind == 3 || kind == 5 || kind == 7 ? weft_in_word(in, row->width) : 0;
    uint64_t seed = start ^ count << 24 ^ stride << 32;
    if (in->bad)
        return 0;
    count = count < 128 ? count : (count - 127) * (world->layout->elements / 128 + 1);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = (start + i * stride) % world->layout->elements;
        uint64_t bits = pair_get(world->target, at, row->width);
        pair_put(world->target, at, bits_edited(kind, bits, word, &seed, row), row->width);
    }
    return count;
}

/* Stops unless the changes are the difference of base and target, element by element. */
static void changes_are_the_difference(const fuzz_decoded *decoded)
{
    const weft_view *base = &decoded->view, *target = &decoded->target;
    const weft_changes *changes = &decoded->changes;
    uint32_t next = 0, position = 0;
    for (uint32_t r = 0; r < base->run_count; r++) {
        for (uint32_t i = 0; i < base->runs[r].count; i++, position++) {
            uint64_t before = pair_get(base->runs[r].data, i, base->width);
            uint64_t after = pair_get(target->runs[r].data, i, base->width);
            if (before == after)
                continue;
            FUZZ_MUST(next < changes->count);
            FUZZ_MUST(changes->position[next] == position);
            FUZZ_MUST(pair_get(changes->before, next, base->width) == before);
            FUZZ_MUST(pair_get(changes->after, next, base->width) == after);
            next++;
        }
    }
    FUZZ_MUST(next == changes->count);
}

static void frame_lands(const fuzz_world *world, const fuzz_encoded *made)
{
    weft_frame frame;
    FUZZ_MUST(made->length <= world->layout->largest_frame);
    uint8_t *exact = fuzz_copy(made->bytes, made->length);
    FUZZ_MUST(weft_frame_admit(world->layout, exact, made->length, &frame) == WEFT_OK);
    FUZZ_MUST(made->length <=
              WEFT_FRAME_HEADER_BYTES + weft_frame_full_payload(frame.count, world->layout->units[0].width));
    fuzz_decoded first = fuzz_decode(world, 0, &frame);
    FUZZ_MUST(first.status == WEFT_OK);
    FUZZ_MUST(memcmp(first.delta, made->delta, sizeof(made->delta)) == 0);
    fuzz_decoded_hold(&first);
    changes_are_the_difference(&first);
    for (unsigned set = 1; set < fuzz_sets(); set++) {
        fuzz_decoded other = fuzz_decode(world, set, &frame);
        fuzz_decoded_same(&first, &other);
        fuzz_decoded_free(&other);
    }
    fuzz_decoded_free(&first);
    free(exact);
}

/* Codes units that lie in one run; false if that takes more than one frame. */
static bool run_round(const fuzz_world *world, uint64_t unit, uint32_t units, weft_level level)
{
    fuzz_encoded first = fuzz_encode(world, 0, unit, units, level);
    FUZZ_MUST(first.alone || (first.length == 0) == (first.changed == 0));
    for (unsigned set = 1; set < fuzz_sets(); set++) {
        fuzz_encoded other = fuzz_encode(world, set, unit, units, level);
        FUZZ_MUST(first.alone == other.alone && first.length == other.length && first.changed == other.changed);
        FUZZ_MUST(memcmp(first.bytes, other.bytes, first.length) == 0);
        FUZZ_MUST(memcmp(first.delta, other.delta, sizeof(first.delta)) == 0);
        fuzz_encoded_free(&other);
    }
    if (first.length > 0)
        frame_lands(world, &first);
    fuzz_encoded_free(&first);
    return !first.alone;
}

static void level_round(const fuzz_world *world, weft_level level)
{
    const uint32_t shift = world->parameters ? world->parameters->run_shift : 0;
    uint32_t units;
    for (uint64_t unit = 0; unit < world->layout->unit_count; unit += units) {
        units = weft_layout_run(world->layout, unit, shift);
        if (run_round(world, unit, units, level))
            continue;
        for (uint32_t u = 0; u < units; u++)
            FUZZ_MUST(run_round(world, unit + u, 1, level));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= FUZZ_CHOICES)
        return 0;
    fuzz_sets();
    fuzz_world *world = fuzz_world_of(data);
    weft_in in = {.data = data + FUZZ_CHOICES, .length = size - FUZZ_CHOICES};
    for (uint64_t edited = 0; edited <= world->layout->elements && !in.bad && in.used < in.length;)
        edited += 1 + edit(world, &in);
    if (data[2] & SURVEY)
        fuzz_survey(world);
    for (size_t i = 0; i < LEVELS; i++)
        level_round(world, levels[i]);
    memcpy(world->target, world->base, world->layout->bytes);
    return 0;
}

#include "tests/fuzz/world.h"

#include "base/bytes.h"
#include "base/log.h"
#include "codec/chooser.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/unit_pair.h"

#define DTYPES   ((unsigned)WEFT_DTYPE_LAST)
#define OLDER    20u /* dtypes when the corpus was made: its choices above them keep their meaning */
#define PATTERNS 3u
#define NONE     UINT64_MAX
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Coded elements of each tensor: single elements, packs with an empty tensor; then tiles that are cut. */
static const uint64_t shapes[][FUZZ_TENSORS] = {
    {1, NONE, NONE},      {2, NONE, NONE},   {7, NONE, NONE},    {64, NONE, NONE},  {100, NONE, NONE},
    {255, NONE, NONE},    {900, NONE, NONE}, {4096, NONE, NONE}, {64, 100, NONE},   {3, 0, 5},
    {1500, 40, NONE},     {33, 1, 31},       {2500, 1, NONE},    {512, NONE, NONE}, {16, NONE, NONE},
    {262145, NONE, NONE}, {131073, 5, NONE},
};
#define SMALL 15u /* of them: the others take long, so that few inputs may choose them */

static weft_backend_state *sets[4];
static unsigned set_count;
static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};

unsigned fuzz_sets(void)
{
    static const char *const names[] = {"portable", "avx2", "avx512"};
    if (set_count > 0)
        return set_count;
    weft_log_enter(&quiet);
    for (size_t i = 0; i < COUNT(names); i++) {
        const weft_backend_options options = {.device = -1, .kernels = names[i]};
        if (weft_backend_host.open(&options, &sets[set_count]) == WEFT_OK)
            set_count++;
    }
    FUZZ_MUST(set_count > 0);
    return set_count;
}

/* Elements of a dtype that fill `coded` words, or a few words more where it takes that. */
static uint64_t elements_of(const weft_dtype_row *row, uint64_t coded)
{
    if (row->dtype == WEFT_C64)
        return (coded + 1) / 2;
    if (row->bits == 4)
        return 2 * coded;
    return row->bits == 6 ? (coded + 2) / 3 * 4 : coded;
}

/* Pattern 0: any bits with the strange ones among them; 1: numbers as weights are; 2: zeros. */
static uint64_t pattern_bits(unsigned pattern, uint64_t *seed, const weft_dtype_row *row)
{
    const unsigned bits = 8u * row->width;
    if (pattern == 2)
        return 0;
    if (pattern == 0 || !row->exponent_bits)
        return pair_bits(seed, row);
    unsigned fraction = bits - 1 - row->exponent_bits, bias = (1u << (row->exponent_bits - 1)) - 1;
    unsigned fall = (unsigned)__builtin_ctzll(pair_random(seed) | 1u << 20);
    uint64_t exponent = bias > fall ? bias - fall : 0;
    uint64_t rest = pair_random(seed) & ((UINT64_C(1) << fraction) - 1);
    return pair_below(seed, 2) << (bits - 1) | exponent << fraction | rest;
}

static void world_open(fuzz_world *world, const weft_dtype_row *row, const uint64_t *shape, unsigned pattern)
{
    static const char *const names[FUZZ_TENSORS] = {"a", "b", "c"};
    weft_tensor tensors[FUZZ_TENSORS];
    uint64_t sizes[FUZZ_TENSORS], count = 0, seed = row->dtype;
    for (; count < FUZZ_TENSORS && shape[count] != NONE; count++) {
        sizes[count] = elements_of(row, shape[count]);
        tensors[count] = (weft_tensor){names[count], row->dtype, 1, &sizes[count]};
    }
    pair_must(weft_layout_create(tensors, count, &world->layout), "layout");
    world->base = pair_memory(world->layout->bytes);
    world->target = pair_memory(world->layout->bytes);
    for (uint64_t i = 0; i < world->layout->elements; i++)
        pair_put(world->base, i, pattern_bits(pattern, &seed, row), row->width);
    memcpy(world->target, world->base, world->layout->bytes);
    FUZZ_MUST(world->layout->part_count <= FUZZ_PARTS);
    pair_must(weft_binding_open_image(world->layout, world->base, &world->base_binding), "base");
    pair_must(weft_binding_open_image(world->layout, world->target, &world->target_binding), "target");
}

/* Parameters that no sample gave: many classes; few and runs of two; hardly any and the longest runs. */
static const weft_parameters *parameters_of(unsigned choice)
{
    static weft_parameters made[3];
    static const uint32_t thresholds[] = {WEFT_CLASS_MAX - 1, 3, 1};
    if (choice == 0)
        return NULL;
    weft_parameters *parameters = &made[choice - 1];
    parameters->run_shift = (choice - 1) * WEFT_RUN_SHIFT_MAX / 2;
    for (unsigned k = 0; k < WEFT_KIND_COUNT; k++) {
        if (!weft_kinds[k].exponent_bits)
            continue;
        weft_classes *classes = &parameters->classes[k];
        uint32_t bias = (1u << (weft_kinds[k].exponent_bits - 1)) - 1;
        classes->thresholds = thresholds[choice - 1];
        classes->magnitude_base = bias;
        for (uint32_t c = 0; c < classes->thresholds; c++)
            classes->threshold[c] = c + 1 + (bias > classes->thresholds ? bias - classes->thresholds : 0);
    }
    return parameters;
}

fuzz_world *fuzz_world_of(const uint8_t choices[FUZZ_CHOICES])
{
    static fuzz_world worlds[DTYPES][COUNT(shapes)][PATTERNS];
    const unsigned dtype = choices[0] < DTYPES ? choices[0] : choices[0] % OLDER, pattern = choices[2] % PATTERNS;
    const bool large =
        choices[0] >= FUZZ_LARGE_DTYPE && choices[1] >= FUZZ_LARGE && choices[1] < FUZZ_LARGE + COUNT(shapes) - SMALL;
    const unsigned shape = large ? SMALL + choices[1] - FUZZ_LARGE : choices[1] % SMALL;
    fuzz_world *world = &worlds[dtype][shape][pattern];
    if (!world->layout)
        world_open(world, weft_dtype_find((weft_dtype)(dtype + 1)), shapes[shape], pattern);
    world->parameters = parameters_of(choices[2] / PATTERNS % 4);
    return world;
}

#define FLAG_LENGTH 1u /* the header's length becomes the true one */
#define FLAG_COUNTS 2u /* unit and count become possible ones */
#define FLAG_FULL   4u /* level full, of every element of a unit: of new bits or of steps */

/* Random bytes seldom pass the first checks: with these flags they meet the planes behind. */
static void header_mend(const fuzz_world *world, unsigned flags, uint8_t *bytes, size_t length)
{
    if (length < WEFT_FRAME_HEADER_BYTES)
        return;
    if (flags & FLAG_LENGTH) {
        uint64_t payload = (length - WEFT_FRAME_HEADER_BYTES) & ~(uint64_t)(WEFT_FRAME_ALIGN - 1);
        weft_bytes_put(bytes + 4, payload, 3);
    }
    if (flags & FLAG_FULL) {
        uint64_t unit = weft_bytes_get(bytes, 4) % world->layout->unit_count, count = world->layout->units[unit].count;
        uint64_t payload = weft_frame_full_payload((uint32_t)count, world->layout->units[unit].width);
        weft_bytes_put(bytes, unit, 4);
        weft_bytes_put(bytes + 4, payload, 4);
        weft_bytes_put(bytes + 8, count, 4);
        weft_bytes_put(bytes + 12, weft_bytes_get(bytes + 12, 4) % 2 * WEFT_FULL_STEPS, 4);
    } else if (flags & FLAG_COUNTS) {
        uint64_t unit = weft_bytes_get(bytes, 4) % world->layout->unit_count, counts = weft_bytes_get(bytes + 8, 4);
        weft_bytes_put(bytes, unit, 4);
        weft_bytes_put(bytes + 8, (counts & 0xfff00000u) | (1 + (counts & 0xfffffu) % world->layout->units[unit].count),
                       4);
    }
}

bool fuzz_frame_input_read(const uint8_t *data, size_t size, fuzz_frame_input *input)
{
    if (size <= FUZZ_CHOICES)
        return false;
    input->world = fuzz_world_of(data);
    input->length = size - FUZZ_CHOICES - 1;
    input->bytes = fuzz_copy(data + FUZZ_CHOICES + 1, input->length);
    header_mend(input->world, data[FUZZ_CHOICES], input->bytes, input->length);
    return true;
}

static weft_view view_of(const weft_binding *binding, const weft_frame *frame)
{
    return weft_binding_span(binding, frame->header.unit, frame->header.units);
}

fuzz_decoded fuzz_decode(const fuzz_world *world, unsigned set, const weft_frame *frame)
{
    const uint64_t capacity = frame->header.changed;
    fuzz_decoded decoded = {.view = view_of(&world->base_binding, frame),
                            .target = view_of(&world->target_binding, frame),
                            .changes.capacity = frame->header.changed};
    decoded.changes.position = pair_memory(capacity * sizeof(uint32_t));
    decoded.changes.before = pair_memory(capacity * decoded.view.width);
    decoded.changes.after = pair_memory(capacity * decoded.view.width);
    weft_decode_job job = {.frame = *frame,
                           .base = decoded.view,
                           .parameters = world->parameters,
                           .changes = &decoded.changes,
                           .tensor_delta = decoded.delta};
    decoded.status = weft_backend_host.decode(sets[set], &job);
    return decoded;
}

void fuzz_decoded_free(fuzz_decoded *decoded)
{
    free(decoded->changes.position);
    free(decoded->changes.before);
    free(decoded->changes.after);
}

void fuzz_decoded_same(const fuzz_decoded *a, const fuzz_decoded *b)
{
    FUZZ_MUST(a->status == b->status);
    FUZZ_MUST(memcmp(a->delta, b->delta, sizeof(a->delta)) == 0);
    if (a->status != WEFT_OK)
        return;
    const uint64_t bytes = (uint64_t)a->changes.count * a->view.width;
    FUZZ_MUST(a->changes.count == b->changes.count);
    FUZZ_MUST(memcmp(a->changes.position, b->changes.position, a->changes.count * sizeof(uint32_t)) == 0);
    FUZZ_MUST(memcmp(a->changes.before, b->changes.before, bytes) == 0);
    FUZZ_MUST(memcmp(a->changes.after, b->changes.after, bytes) == 0);
}

void fuzz_decoded_hold(const fuzz_decoded *decoded)
{
    const weft_changes *changes = &decoded->changes;
    const weft_view *view = &decoded->view;
    uint64_t moved[FUZZ_PARTS] = {0};
    uint32_t i = 0;
    FUZZ_MUST(changes->count <= changes->capacity);
    for (uint32_t r = 0; r < view->run_count; r++) {
        const weft_run *run = &view->runs[r];
        const uint32_t begin = weft_run_position(view, run);
        for (; i < changes->count && changes->position[i] < begin + run->count; i++) {
            FUZZ_MUST(i == 0 || changes->position[i] > changes->position[i - 1]);
            uint32_t at = changes->position[i] - begin;
            uint64_t before = pair_get(changes->before, i, view->width),
                     after = pair_get(changes->after, i, view->width);
            FUZZ_MUST(before == pair_get(run->data, at, view->width));
            FUZZ_MUST(before != after);
            moved[run->part] += weft_digest_term(run->element + at, after);
            moved[run->part] -= weft_digest_term(run->element + at, before);
        }
    }
    FUZZ_MUST(i == changes->count);
    FUZZ_MUST(memcmp(moved, decoded->delta, sizeof(moved)) == 0);
}

fuzz_encoded fuzz_encode(const fuzz_world *world, unsigned set, uint64_t unit, uint32_t units, weft_level level)
{
    const uint64_t capacity = world->layout->largest_frame;
    fuzz_encoded encoded = {.bytes = pair_memory(capacity)};
    weft_frame_sink sinks[WEFT_LEVEL_COUNT] = {{0}};
    sinks[level] = (weft_frame_sink){.data = encoded.bytes, .capacity = capacity};
    weft_encode_job job = {.now = weft_binding_span(&world->target_binding, unit, units),
                           .shadow = weft_binding_span(&world->base_binding, unit, units),
                           .parameters = world->parameters,
                           .largest_frame = world->layout->largest_frame,
                           .levels = 1u << level,
                           .sinks = sinks,
                           .tensor_delta = encoded.delta};
    pair_must(weft_backend_host.encode(sets[set], &job), "encode");
    FUZZ_MUST(!sinks[level].full && sinks[level].used == job.frame_bytes[level]);
    FUZZ_MUST(job.alone == 0 || (job.alone == 1u << level && units > 1 && sinks[level].used == 0));
    encoded.alone = job.alone != 0;
    encoded.length = job.frame_bytes[level];
    encoded.changed = job.changed;
    return encoded;
}

void fuzz_encoded_free(fuzz_encoded *encoded)
{
    free(encoded->bytes);
}

void fuzz_survey(fuzz_world *world)
{
    static weft_survey survey;
    static weft_parameters chosen;
    const weft_survey_plan plan = weft_survey_plan_for(world->layout->elements, 1u << WEFT_LEVEL_TIGHT);
    memset(&survey, 0, sizeof(survey));
    for (uint64_t unit = 0; unit < world->layout->unit_count; unit++) {
        weft_survey_job job = {.now = weft_binding_view(&world->target_binding, unit),
                               .shadow = weft_binding_view(&world->base_binding, unit),
                               .count = plan.count,
                               .stride = plan.stride,
                               .survey = &survey,
                               .stream = NULL};
        pair_must(weft_backend_host.survey(sets[0], &job), "survey");
    }
    weft_parameters_choose(&survey, world->layout->elements, 1u << WEFT_LEVEL_TIGHT, &chosen);
    world->parameters = &chosen;
}

void fuzz_digest(const fuzz_world *world, const weft_binding *binding, uint64_t digests[FUZZ_PARTS])
{
    for (uint64_t unit = 0; unit < world->layout->unit_count; unit++) {
        weft_digest_job job = {.view = weft_binding_view(binding, unit), .tensor_delta = digests};
        pair_must(weft_backend_host.digest(sets[0], &job), "digest");
    }
}

uint64_t fuzz_root(const fuzz_world *world, const weft_binding *binding)
{
    uint64_t parts[FUZZ_PARTS] = {0};
    fuzz_digest(world, binding, parts);
    return weft_digest_parts_root(world->layout, parts);
}

bool fuzz_apply(unsigned set, fuzz_decoded *decoded)
{
    weft_apply_job job = {.target = decoded->target, .changes = &decoded->changes};
    pair_must(weft_backend_host.apply(sets[set], &job), "apply");
    return !job.mismatch;
}

void fuzz_undo(unsigned set, const fuzz_decoded *decoded)
{
    weft_undo_job job = {.target = decoded->target, .changes = &decoded->changes};
    pair_must(weft_backend_host.undo(sets[set], &job), "undo");
}

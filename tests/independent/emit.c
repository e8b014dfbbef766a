/* Makes cases for the independent decoder: fresh frames of all dtypes and densities, and the grids of random layouts.
 */
#include "layout/digest.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/world.h"
#include "tests/independent/cases.h"
#include "tests/support/unit_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const weft_level levels[] = {WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST, WEFT_LEVEL_TIGHT};

static void digests_write(const char *name, const fuzz_world *world, const weft_binding *binding)
{
    uint64_t parts[FUZZ_PARTS] = {0}, words[FUZZ_TENSORS + 1];
    fuzz_digest(world, binding, parts);
    for (uint64_t t = 0; t < world->layout->count; t++)
        words[t] = weft_digest_tensor(world->layout, parts, t);
    words[world->layout->count] = weft_digest_parts_root(world->layout, parts);
    case_part(name, words, (world->layout->count + 1) * sizeof(uint64_t));
}

/* One element changed at least; the others as the density has it. */
static void change(fuzz_world *world, uint64_t *seed, uint64_t per_million)
{
    unit_pair pair = {.layout = world->layout, .target = world->target};
    uint8_t width = world->layout->entries[0].row->width;
    uint64_t at = pair_below(seed, world->layout->elements);
    pair_change(&pair, seed, per_million, per_million % 2);
    if (memcmp(world->base, world->target, world->layout->bytes) == 0)
        pair_put(world->target, at, pair_get(world->target, at, width) + 1, width);
}

/* Appends the frame of some units; false if they cannot be coded together. */
static bool append(const fuzz_world *world, uint64_t unit, uint32_t units, weft_level level, uint8_t *frames,
                   uint64_t *used)
{
    fuzz_encoded made = fuzz_encode(world, 0, unit, units, level);
    memcpy(frames + *used, made.bytes, made.length);
    *used += made.length;
    fuzz_encoded_free(&made);
    return !made.alone;
}

static void part_frames(const fuzz_world *world, weft_level level)
{
    const uint32_t shift = world->parameters ? world->parameters->run_shift : 0;
    uint8_t *frames = pair_memory(world->layout->unit_count * world->layout->largest_frame);
    uint64_t used = 0;
    uint32_t units;
    for (uint64_t unit = 0; unit < world->layout->unit_count; unit += units) {
        units = weft_layout_run(world->layout, unit, shift);
        if (append(world, unit, units, level, frames, &used))
            continue;
        for (uint32_t u = 0; u < units; u++)
            FUZZ_MUST(append(world, unit + u, 1, level, frames, &used));
    }
    case_part("frames", frames, used);
    free(frames);
}

/* Parameters 0: the default ones; 1 to 3: some; 4: as a sample has it. */
static void fresh(uint8_t dtype, uint8_t shape, unsigned parameters, uint64_t per_million, weft_level level)
{
    fuzz_world *world = fuzz_world_of((uint8_t[]){dtype, shape, (uint8_t)(3 * (parameters % 4) + (dtype + shape) % 2)});
    uint64_t seed = dtype + 1000 * shape + per_million;
    change(world, &seed, per_million);
    if (parameters == 4)
        fuzz_survey(world);
    case_begin("fresh");
    case_layout(world->layout);
    case_words(world->parameters);
    case_part("base", world->base, world->layout->bytes);
    case_part("target", world->target, world->layout->bytes);
    part_frames(world, level);
    digests_write("before", world, &world->base_binding);
    digests_write("after", world, &world->target_binding);
    memcpy(world->target, world->base, world->layout->bytes);
}

static void fresh_all(void)
{
    static const uint64_t densities[] = {0, 3000, 11701, 120000, 500001, 1000000};
    static const uint8_t shapes[] = {0, 5, 9}; /* one element; 255; 3, 0 and 5 */
    for (uint8_t dtype = 0; dtype < WEFT_DTYPE_LAST; dtype++) {
        for (size_t d = 0; d < COUNT(densities); d++) {
            for (size_t l = 0; l < COUNT(levels); l++) {
                for (size_t s = 0; s < COUNT(shapes); s++)
                    fresh(dtype, shapes[s], levels[l] == WEFT_LEVEL_TIGHT ? (unsigned)d % 5 : 0, densities[d],
                          levels[l]);
            }
        }
    }
}

/* Several units: alone, in runs of two, in runs as long as can be. */
static void fresh_tiles(void)
{
    static const weft_dtype dtypes[] = {WEFT_F8_E5M2, WEFT_BF16, WEFT_F32, WEFT_F64};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        for (unsigned parameters = (unsigned)d % 2; parameters < 5; parameters += 3)
            fresh((uint8_t)(FUZZ_LARGE_DTYPE + dtypes[d] - 1), FUZZ_LARGE, parameters, d % 2 ? 1000 : 11700,
                  parameters == 3 ? WEFT_LEVEL_FAST : WEFT_LEVEL_TIGHT);
    }
    fresh(FUZZ_LARGE_DTYPE + WEFT_I64 - 1, FUZZ_LARGE + 1, 3, 100, WEFT_LEVEL_TIGHT);
}

/* Tensors of every size around the tile's, of three dtypes or fewer. */
static void grid(uint64_t seed)
{
    enum { TENSORS = 12 };
    static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_F64, WEFT_F32, WEFT_U8};
    static const uint64_t sizes[] = {0, 1, 1000, 65536, 131071, 131072, 131073, 262143, 262144, 262145, 600000};
    weft_tensor tensors[TENSORS];
    uint64_t elements[TENSORS];
    char names[TENSORS][4];
    weft_layout *layout;
    for (unsigned t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof(names[t]), "%u", t);
        elements[t] = sizes[pair_below(&seed, COUNT(sizes))];
        tensors[t] = (weft_tensor){names[t], dtypes[pair_below(&seed, 4) * pair_below(&seed, 2)], 1, &elements[t]};
    }
    pair_must(weft_layout_create(tensors, TENSORS, &layout), "layout");
    uint8_t *units = pair_memory(24 * layout->unit_count);
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        weft_bytes_put(units + 24 * u, layout->units[u].tensor, 8);
        weft_bytes_put(units + 24 * u + 8, layout->units[u].first, 8);
        weft_bytes_put(units + 24 * u + 16, layout->units[u].count, 4);
        weft_bytes_put(units + 24 * u + 20, layout->units[u].width, 4);
    }
    case_begin("grid");
    case_layout(layout);
    case_part("units", units, 24 * layout->unit_count);
    free(units);
    weft_layout_free(layout);
}

int main(void)
{
    fuzz_sets();
    fresh_all();
    fresh_tiles();
    for (uint64_t seed = 0; seed < 200; seed++)
        grid(seed);
    return fflush(stdout) != 0;
}

/* gpu_encode_tight.c - level tight on the device: the rows for its kernels, and the host's decisions between them. */
#include "backends/gpu/gpu_encode.h"
#include "codec/fast.h"

_Static_assert(WEFT_K_CLASSES == WEFT_CLASS_MAX && WEFT_K_EXPONENTS == WEFT_EXPONENTS_MAX, "as core has them");

#define ALIGNED(n) (((n) + WEFT_GPU_ALIGN - 1) / WEFT_GPU_ALIGN * WEFT_GPU_ALIGN)

/* Bytes of the bits of all classes, and of one set. */
static uint64_t sets_bytes(uint32_t elements)
{
    return ALIGNED(((uint64_t)elements + WEFT_K_CLASSES * WEFT_K_SET_ALIGN) / 8);
}

static uint64_t set_bytes(uint32_t members)
{
    return ALIGNED(((uint64_t)members + WEFT_K_SET_ALIGN) / 8);
}

static uint64_t counts_bytes(uint32_t slices)
{
    return ALIGNED(WEFT_K_CLASSES * ((uint64_t)slices + 1) * sizeof(uint32_t));
}

uint64_t weft_gpu_tight_zeros(const weft_encode_job *job, uint32_t changed)
{
    return 2 * sets_bytes(job->now.count) + set_bytes(changed);
}

uint64_t weft_gpu_tight_memory(const weft_encode_job *job, uint32_t changed)
{
    const uint64_t words = changed * sizeof(uint32_t); /* of the ranks; each of three sorts of lists has no more */
    return weft_gpu_tight_zeros(job, changed) + counts_bytes(weft_gpu_parts(job->now.count, WEFT_K_SLICE)) +
           2 * WEFT_GPU_ALIGN + 4 * words;
}

uint64_t weft_gpu_tight_rows(const weft_encode_job *job)
{
    return sizeof(weft_k_encode_classes) + weft_gpu_classes_bytes(&job->now) + weft_gpu_view_bytes(&job->shadow) +
           weft_gpu_tiles(&job->now) * sizeof(weft_k_class_rank) + WEFT_K_CLASSES * sizeof(weft_k_scan) +
           sizeof(weft_k_tight_count);
}

/* ---- ranks and sets */

static void classes_put(weft_gpu_batch *batch, weft_gpu_encoding *encoding, weft_gpu_sheet *rows)
{
    const weft_encode_job *job = encoding->job;
    weft_gpu_tight *tight = encoding->tight;
    const weft_class_map *map = &batch->classes->map;
    weft_gpu_classes_put(batch->classes, rows, job->parameters, &job->now);
    weft_k_encode_classes *row = weft_gpu_rows_add(rows, sizeof *row, &tight->job);
    *row = (weft_k_encode_classes){.base = weft_gpu_view_put(rows, &job->shadow),
                                   .counts = weft_gpu_take_device(batch->slab, counts_bytes(encoding->pair.slices)),
                                   .ranks = weft_gpu_take_device(batch->slab, encoding->changed * sizeof(uint32_t)),
                                   .changes = encoding->changes,
                                   .slices = encoding->pair.slices,
                                   .of = batch->classes->of,
                                   .classes = map->count,
                                   .shift = map->shift,
                                   .mask = map->mask,
                                   .magnitude_base = map->classes->magnitude_base,
                                   .rice_most = job->now.width == 8 ? 56 : 8u * job->now.width - 2};
    tight->class_counts = row->counts;
    tight->classes = map->count;
}

void weft_gpu_tight_job(weft_gpu_batch *batch, weft_gpu_encoding *encoding, weft_gpu_sheet *rows, uint64_t zeros)
{
    const uint64_t sets = sets_bytes(encoding->job->now.count);
    weft_gpu_tight *tight = encoding->tight;
    classes_put(batch, encoding, rows);
    tight->positions = zeros;
    tight->exceptions = zeros + sets;
    tight->further = zeros + 2 * sets;
}

void weft_gpu_tight_ranks(const weft_gpu_encoding *encoding, weft_k_class_rank **row)
{
    for (uint32_t t = 0; t < encoding->pair.tile_count; t++)
        *(*row)++ =
            (weft_k_class_rank){.tile = encoding->pair.tiles + t * sizeof(weft_k_diff), .job = encoding->tight->job};
}

void weft_gpu_tight_scans(const weft_gpu_encoding *encoding, weft_k_scan **row)
{
    const uint32_t slices = encoding->pair.slices;
    for (uint32_t c = 0; c < encoding->tight->classes; c++)
        *(*row)++ = (weft_k_scan){.words = encoding->tight->class_counts + c * (slices + 1ull) * sizeof(uint32_t),
                                  .count = slices};
}

weft_k_tight_count weft_gpu_tight_count(weft_gpu_batch *batch, const weft_gpu_encoding *encoding)
{
    weft_gpu_tight *tight = encoding->tight;
    weft_k_tight_count row = {
        .job = tight->job, .positions = tight->positions, .exceptions = tight->exceptions, .further = tight->further};
    tight->counts = weft_gpu_take_pinned(batch->slab, sizeof *tight->counts, &row.counts);
    return row;
}

/* ---- lists */

/* Finds the sets of the lists of all classes, and of the further exceptions. */
static void sets_find(weft_gpu_tight *tight)
{
    const weft_k_tight_counts *counts = tight->counts;
    weft_gpu_set *positions = tight->sets, *exceptions = tight->sets + WEFT_CLASS_MAX;
    uint64_t begin = 0;
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        positions[c] = (weft_gpu_set){tight->positions + begin, counts->changed[c], counts->population[c]};
        exceptions[c] = (weft_gpu_set){tight->exceptions + begin, counts->exceptions[c], counts->changed[c]};
        begin += (counts->population[c] + WEFT_K_SET_ALIGN - 1) / WEFT_K_SET_ALIGN * (WEFT_K_SET_ALIGN / 8);
    }
    tight->sets[WEFT_TIGHT_LISTS - 1] = (weft_gpu_set){tight->further, counts->further, counts->large};
}

static weft_tight_list *list_at(weft_gpu_tight *tight, uint32_t index)
{
    return (weft_tight_list *)weft_tight_list_at(&tight->shape, index); /* of a shape that is ours to fill */
}

/* Finds the lists and their members; returns the number of all members. */
static uint64_t lists_size(weft_gpu_encoding *encoding)
{
    weft_gpu_tight *tight = encoding->tight;
    uint64_t members = 0;
    tight->shape = (weft_tight_shape){.changed = encoding->changed};
    sets_find(tight);
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_gpu_set set = tight->sets[i];
        weft_tight_list *list = list_at(tight, i);
        if (set.size > 0 && i < WEFT_CLASS_MAX)
            tight->shape.positioned |= 1u << i;
        else if (set.size > 0 && i < WEFT_TIGHT_LISTS - 1)
            tight->shape.exceptional |= 1u << (i - WEFT_CLASS_MAX);
        list->inverted = weft_tight_inverts(set.size, set.universe);
        list->members = list->inverted ? set.universe - set.size : set.size;
        members += list->members;
    }
    return members;
}

void weft_gpu_tight_lists(weft_gpu_batch *batch, weft_gpu_encoding *encoding, weft_k_list_make **row)
{
    weft_gpu_tight *tight = encoding->tight;
    const uint64_t members = lists_size(encoding);
    uint64_t at = weft_gpu_take_device(batch->slab, members * sizeof(uint32_t)), ones;
    uint32_t *gap_ones = weft_gpu_take_pinned(batch->slab, WEFT_TIGHT_LISTS * 32 * sizeof(uint32_t), &ones);
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_tight_list *list = weft_tight_list_at(&tight->shape, i);
        const weft_gpu_set set = tight->sets[i];
        tight->members[i] = at;
        tight->gap_ones[i] = gap_ones + (size_t)32 * i;
        if (list->members == 0)
            continue;
        *(*row)++ = (weft_k_list_make){.bits = set.bits,
                                       .members = at,
                                       .gap_ones = ones + (size_t)32 * i * sizeof(uint32_t),
                                       .universe = set.universe,
                                       .inverted = list->inverted};
        at += list->members * sizeof(uint32_t);
    }
}

/* ---- planes */

/* As weft_rice_lower with a weight of 1, of numbers below `universe`: each sum follows from the one before. */
static uint32_t rice_lower(const uint32_t ones[32], uint32_t universe, uint32_t count, uint64_t *high)
{
    uint32_t bits = weft_fast_rice(universe, count);
    uint64_t sum = 0;
    for (uint32_t b = 32 - (uint32_t)__builtin_clz(universe); b-- > bits;)
        sum = 2 * sum + ones[b];
    for (uint64_t below; bits > 0 && (below = 2 * sum + ones[bits - 1]) < sum + count; bits--)
        sum = below;
    *high = sum;
    return bits;
}

uint64_t weft_gpu_tight_plan(weft_gpu_encoding *encoding)
{
    weft_gpu_tight *tight = encoding->tight;
    tight->unary_bits = 0;
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        weft_tight_list *list = list_at(tight, i);
        uint64_t highs;
        if (list->members == 0)
            continue;
        list->low_bits = rice_lower(tight->gap_ones[i], tight->sets[i].universe, list->members, &highs);
        tight->highs[i] = (uint32_t)(highs + list->members);
        tight->unary_bits += tight->highs[i];
    }
    return weft_tight_payload(&tight->shape, tight->unary_bits + tight->counts->unary_bits,
                              tight->counts->magnitude_bits);
}

void weft_gpu_tight_planes(const weft_gpu_encoding *encoding, uint64_t payload, weft_k_list_write **list_row,
                           weft_k_tight_write **row)
{
    const weft_gpu_tight *tight = encoding->tight;
    const uint64_t begin = 8 * weft_tight_unary_offset(&tight->shape);
    uint64_t lows = 8 * weft_tight_lows_offset(&tight->shape), unary = begin;
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_tight_list *list = weft_tight_list_at(&tight->shape, i);
        if (list->members == 0)
            continue;
        *(*list_row)++ = (weft_k_list_write){.members = tight->members[i],
                                             .payload = payload,
                                             .count = list->members,
                                             .low_bits = list->low_bits,
                                             .lows_at = (uint32_t)lows,
                                             .unary_at = (uint32_t)unary};
        lows += (uint64_t)list->members * list->low_bits;
        unary += tight->highs[i];
    }
    *(*row)++ = (weft_k_tight_write){
        .job = tight->job,
        .payload = payload,
        .directions_at = (uint32_t)(8 * weft_tight_lists_bytes(&tight->shape)),
        .unary_at = (uint32_t)unary,
        .magnitudes_at = (uint32_t)(begin + (tight->unary_bits + tight->counts->unary_bits + 7) / 8 * 8)};
}

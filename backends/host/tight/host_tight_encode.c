/* host_tight_encode.c - level tight: changes sorted into lists by class, parameters by exact rules, then the planes. */
#include <string.h>

#include "backends/host/host_element.h"
#include "backends/host/tight/host_tight.h"
#include "codec/fast.h"

/* The lists while they grow: one after the other in the state's scratch. */
typedef struct list_maker {
    const weft_host_kernels *kernels;
    uint32_t *members; /* the next free place */
    uint64_t unary_bits;
} list_maker;

/* A list whose gaps are summed. */
typedef struct listed {
    const weft_host_kernels *kernels;
    const uint32_t *members;
    uint32_t count;
} listed;

static uint64_t gaps_sum(const void *list, uint32_t bits)
{
    const listed *of = list;
    return of->kernels->gap_sum(of->members, of->count, bits);
}

static void low_bits_choose(list_maker *maker, weft_tight_list *list, uint32_t universe)
{
    const listed of = {maker->kernels, maker->members, list->members};
    uint64_t highs;
    list->low_bits = weft_rice_lower(gaps_sum, &of, list->members, 1, weft_fast_rice(universe, list->members), &highs);
    maker->unary_bits += highs + list->members;
}

/* Ranks that are written at a time. */
#define RANKS_AT_ONCE 4u

/* Replaces the ranks at `member` by those that are not among them, no more than there are; `spare` holds as many. Where
 * most belong, the ranks between two of them are few: so many are written without asking whether there are any. */
static uint32_t complement(uint32_t *member, uint32_t count, uint32_t universe, uint32_t *spare)
{
    uint32_t made = 0, next = 0;
    memcpy(spare, member, count * sizeof *spare);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t end = spare[i], few = end - next;
        for (uint32_t k = 0; k < RANKS_AT_ONCE; k++)
            member[made + k] = next + k;
        for (uint32_t k = RANKS_AT_ONCE; k < few; k++)
            member[made + k] = next + k;
        made += few;
        next = end + 1;
    }
    for (; next < universe; next++)
        member[made++] = next;
    return made;
}

/* Ends a list whose set stands at the maker's place: what does not belong to the set is listed where that is less. */
static void list_end(list_maker *maker, weft_tight_list *list, uint32_t set, uint32_t universe, uint32_t *spare)
{
    list->inverted = weft_tight_inverts(set, universe);
    list->members = list->inverted ? complement(maker->members, set, universe, spare) : set;
    if (list->members > 0)
        low_bits_choose(maker, list, universe);
    maker->members += list->members;
}

/* Numbers of changes by class, and where each class begins when they are sorted by it. */
typedef struct class_counts {
    uint32_t changed[WEFT_CLASS_MAX];
    uint32_t exceptions[WEFT_CLASS_MAX];
    uint32_t begin[WEFT_CLASS_MAX];
} class_counts;

static void exceptions_mark(const weft_backend_state *state, uint32_t exceptions)
{
    for (uint32_t j = 0; j < exceptions; j++)
        state->class_rank[state->rank[j]] |= WEFT_HOST_MARK;
}

static void ranks_sort(const weft_backend_state *state, class_counts *counts)
{
    memset(counts, 0, sizeof *counts);
    state->tight->sort(state->class_of, state->class_rank, state->changes.count, counts->changed, state->sorted);
    for (uint32_t c = 1; c < WEFT_CLASS_MAX; c++)
        counts->begin[c] = counts->begin[c - 1] + counts->changed[c - 1];
}

static void positions_list(weft_backend_state *state, class_counts *counts, const uint32_t *population,
                           list_maker *maker, weft_tight_shape *shape)
{
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        const uint32_t changed = counts->changed[c];
        if (changed == 0)
            continue;
        shape->positioned |= 1u << c;
        counts->exceptions[c] = state->tight->split(state->sorted + counts->begin[c], changed, maker->members);
        list_end(maker, &shape->positions[c], changed, population[c], state->class_rank);
    }
}

static void exceptions_list(weft_backend_state *state, const class_counts *counts, list_maker *maker,
                            weft_tight_shape *shape)
{
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        const uint32_t exceptions = counts->exceptions[c];
        if (exceptions == 0)
            continue;
        shape->exceptional |= 1u << c;
        memcpy(maker->members, state->sorted + counts->begin[c], exceptions * sizeof *maker->members);
        list_end(maker, &shape->exceptions[c], exceptions, counts->changed[c], state->class_rank);
    }
}

/* Exceptions by the size of their base. */
typedef struct exception_counts {
    uint32_t coded;   /* those whose magnitude has a code: its values and Rice parameters come first now */
    uint32_t large;   /* those on a base above E */
    uint32_t further; /* and of more than two steps */
} exception_counts;

/* Makes values to code of the excesses, lists the further ones; exceptions of all kinds mix, so there is no branch. */
WEFT_ALWAYS_INLINE exception_counts magnitudes_sort(weft_backend_state *state, const weft_class_map *map,
                                                    uint32_t exceptions, uint32_t *further, unsigned width)
{
    exception_counts counts = {0, 0, 0};
    for (uint32_t j = 0; j < exceptions; j++) {
        const uint64_t excess = state->excess[j], bits = weft_element_get(state->changes.before, state->rank[j], width);
        const uint32_t exponent = weft_class_exponent(map, bits);
        const uint32_t large = exponent > map->classes->magnitude_base, more = excess > 0;
        state->excess[counts.coded] = excess - large;
        state->rice[counts.coded] = (uint8_t)(weft_class_magnitude_bits(map, exponent) & (large - 1));
        further[counts.further] = counts.large;
        counts.coded += more | !large;
        counts.large += large;
        counts.further += large & more;
    }
    return counts;
}

static exception_counts magnitudes_find(weft_backend_state *state, const weft_class_map *map, uint32_t exceptions,
                                        uint32_t *further)
{
    switch (map->width) {
    case 1:
        return magnitudes_sort(state, map, exceptions, further, 1);
    case 2:
        return magnitudes_sort(state, map, exceptions, further, 2);
    case 4:
        return magnitudes_sort(state, map, exceptions, further, 4);
    default:
        return magnitudes_sort(state, map, exceptions, further, 8);
    }
}

static void magnitudes_count(const weft_backend_state *state, weft_host_tight_plan *plan)
{
    for (uint32_t j = 0; j < plan->magnitudes; j++) {
        const weft_tight_code code = weft_tight_code_of(state->excess[j], state->rice[j]);
        plan->unary_bits += code.unary + 1;
        plan->magnitude_bits += code.low_count;
    }
}

void weft_host_tight_plan_make(weft_backend_state *state, const weft_view *shadow, weft_host_tight_plan *plan)
{
    const weft_changes *changes = &state->changes;
    const weft_class_map *map = &state->ranker.map;
    class_counts counts;
    list_maker maker = {state->kernels, state->members, 0};
    *plan = (weft_host_tight_plan){.shape = {.changed = changes->count}};
    const uint32_t exceptions = state->kernels->exceptions[weft_host_slot(shadow->width)](
        changes->before, changes->after, changes->count, shadow->is_float, state->rank, state->excess);
    exceptions_mark(state, exceptions);
    ranks_sort(state, &counts);
    positions_list(state, &counts, state->ranker.population, &maker, &plan->shape);
    if (exceptions > 0) {
        exceptions_list(state, &counts, &maker, &plan->shape);
        exception_counts found = magnitudes_find(state, map, exceptions, maker.members);
        list_end(&maker, &plan->shape.further, found.further, found.large, state->class_rank);
        plan->magnitudes = found.coded;
        magnitudes_count(state, plan);
    }
    plan->unary_bits += maker.unary_bits;
}

/* ---- planes */

/* The low bits of the gaps. */
static uint8_t *lows_write(const weft_backend_state *state, const weft_tight_shape *shape, uint8_t *out,
                           const uint8_t *end)
{
    const uint32_t *member = state->members;
    weft_bit_writer lows = {out, end, 0, 0};
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_tight_list *list = weft_tight_list_at(shape, i);
        if (list->low_bits > 0)
            state->kernels->gap_lows(member, list->members, list->low_bits, &lows);
        member += list->members;
    }
    return weft_bits_end(&lows);
}

/* The high parts in unary. */
static void highs_write(const weft_backend_state *state, const weft_tight_shape *shape, weft_bit_writer *unary)
{
    const uint32_t *member = state->members;
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_tight_list *list = weft_tight_list_at(shape, i);
        if (list->members > 0)
            state->kernels->gap_ones(member, list->members, list->low_bits, unary);
        member += list->members;
    }
}

static void magnitudes_put(const weft_backend_state *state, const weft_host_tight_plan *plan, weft_bit_writer *unary,
                           weft_bit_writer *lows)
{
    for (uint32_t j = 0; j < plan->magnitudes; j++) {
        const weft_tight_code code = weft_tight_code_of(state->excess[j], state->rice[j]);
        weft_bits_put_unary(unary, code.unary);
        weft_bits_put_long(lows, code.low, code.low_count);
    }
}

void weft_host_tight_write(const weft_backend_state *state, const weft_view *now, const weft_host_tight_plan *plan,
                           uint8_t *payload, uint64_t bytes)
{
    const weft_changes *changes = &state->changes;
    const uint8_t *end = payload + bytes;
    uint8_t *at = payload + weft_tight_lists_bytes(&plan->shape);
    weft_tight_write_lists(&plan->shape, payload);
    at = state->kernels->fields[weft_host_slot(now->width)](changes->position, changes->before, changes->after,
                                                            changes->count, now->is_float, 0, at, end);
    at = lows_write(state, &plan->shape, at, end);
    uint8_t *after = at + (plan->unary_bits + 7) / 8; /* the unary plane must not store over the magnitudes */
    weft_bit_writer unary = {at, after, 0, 0}, magnitudes = {after, end, 0, 0};
    highs_write(state, &plan->shape, &unary);
    magnitudes_put(state, plan, &unary, &magnitudes);
    at = weft_bits_end(&magnitudes);
    memset(at, 0, (size_t)(end - at));
}

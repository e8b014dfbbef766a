/* host_tight_encode.c - level tight: changes sorted into lists by class, parameters by exact rules, then the planes. */
#include <string.h>

#include "backends/host_fast_loops.h"
#include "backends/host_tight.h"
#include "codec/fast.h"

/* The lists while they grow: one behind the other in the state's scratch. */
typedef struct list_maker {
    const weft_host_kernels *kernels;
    uint32_t *members; /* the next free place */
    uint64_t unary_bits;
} list_maker;

/* The Rice parameter of a list: from the rule on counts downwards for as long as the coded bits shrink. */
static void low_bits_choose(list_maker *maker, weft_tight_list *list, uint32_t universe)
{
    uint32_t k = weft_fast_rice(universe, list->members);
    uint64_t sum = maker->kernels->gap_sum(maker->members, list->members, k);
    while (k > 0) {
        uint64_t below = maker->kernels->gap_sum(maker->members, list->members, k - 1);
        if (below >= sum + list->members)
            break;
        sum = below;
        k--;
    }
    list->low_bits = k;
    maker->unary_bits += sum + list->members;
}

/* Replaces the ranks at `member` by those that are not among them; `spare` holds as many as there are. */
static uint32_t complement(uint32_t *member, uint32_t count, uint32_t universe, uint32_t *spare)
{
    uint32_t made = 0, next = 0;
    memcpy(spare, member, count * sizeof *spare);
    for (uint32_t i = 0; i < count; i++) {
        for (; next < spare[i]; next++)
            member[made++] = next;
        next = spare[i] + 1;
    }
    for (; next < universe; next++)
        member[made++] = next;
    return made;
}

/* Ends a list whose set stands at the maker's place: what does not belong to the set is listed where that is less. */
static void list_end(list_maker *maker, weft_tight_list *list, uint32_t set, uint32_t universe, uint32_t *spare)
{
    list->inverted = 2 * (uint64_t)set > universe;
    list->members = list->inverted ? complement(maker->members, set, universe, spare) : set;
    if (list->members > 0)
        low_bits_choose(maker, list, universe);
    maker->members += list->members;
}

static uint64_t before_at(const weft_changes *changes, uint32_t index, unsigned width)
{
    return weft_element_get(changes->before, index, width);
}

/* Numbers of changes by class, and where each class begins when they are sorted by it. */
typedef struct class_counts {
    uint32_t changed[WEFT_CLASS_MAX];
    uint32_t exceptions[WEFT_CLASS_MAX];
    uint32_t begin[WEFT_CLASS_MAX];
} class_counts;

/* Counts alternate between two rows: neighbours are often of one class, and wait for one another. */
static void classes_count(const weft_backend_state *state, class_counts *counts)
{
    uint32_t changed[2][WEFT_CLASS_MAX] = {{0}};
    memset(counts, 0, sizeof *counts);
    for (uint32_t i = 0; i < state->changes.count; i++)
        changed[i % 2][state->class_of[i]]++;
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++)
        counts->changed[c] = changed[0][c] + changed[1][c];
    for (uint32_t c = 1; c < WEFT_CLASS_MAX; c++)
        counts->begin[c] = counts->begin[c - 1] + counts->changed[c - 1];
}

/* Sorts the changes' ranks by class into state->sorted. */
static void ranks_sort(const weft_backend_state *state, const class_counts *counts)
{
    const uint8_t *class_of = state->class_of;
    const uint32_t *rank = state->class_rank, count = state->changes.count;
    uint32_t *next[WEFT_CLASS_MAX];
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++)
        next[c] = state->sorted + counts->begin[c];
    for (uint32_t i = 0; i < count; i++)
        *next[class_of[i]]++ = rank[i];
}

static void positions_list(weft_backend_state *state, const class_counts *counts, const uint32_t *population,
                           list_maker *maker, weft_tight_shape *shape)
{
    ranks_sort(state, counts);
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        if (counts->changed[c] == 0)
            continue;
        shape->positioned |= 1u << c;
        memcpy(maker->members, state->sorted + counts->begin[c], counts->changed[c] * sizeof *maker->members);
        list_end(maker, &shape->positions[c], counts->changed[c], population[c], state->class_rank);
    }
}

/* Sorts the exceptions' ranks among the changes of their class by class into state->sorted: they lie among the changes
 * as changes do among the elements. */
static void exceptions_sort(const weft_backend_state *state, const weft_class_map *map, uint32_t exceptions,
                            class_counts *counts)
{
    uint32_t population[WEFT_CLASS_MAX] = {0};
    state->tight->rank[weft_host_slot((uint8_t)map->width)](state->changes.before, state->changes.count, 0, map,
                                                            state->rank, exceptions, population, state->class_rank);
    for (uint32_t j = 0; j < exceptions; j++) {
        uint32_t class = state->class_of[state->rank[j]];
        state->sorted[counts->begin[class] + counts->exceptions[class]++] = state->class_rank[j];
    }
}

static void exceptions_list(weft_backend_state *state, const weft_host_tight_plan *plan, class_counts *counts,
                            list_maker *maker, weft_tight_shape *shape)
{
    exceptions_sort(state, plan->map, plan->exceptions, counts);
    for (uint32_t c = 0; c < WEFT_CLASS_MAX; c++) {
        if (counts->exceptions[c] == 0)
            continue;
        shape->exceptional |= 1u << c;
        memcpy(maker->members, state->sorted + counts->begin[c], counts->exceptions[c] * sizeof *maker->members);
        list_end(maker, &shape->exceptions[c], counts->exceptions[c], counts->changed[c], state->class_rank);
    }
}

static uint32_t exception_exponent(const weft_backend_state *state, const weft_class_map *map, uint32_t j)
{
    return weft_class_exponent(map, before_at(&state->changes, state->rank[j], map->width));
}

/* The code of exception j; false if it has none, being two steps on a large base. */
static bool exception_code(const weft_backend_state *state, const weft_class_map *map, uint32_t j,
                           weft_tight_code *code)
{
    uint32_t exponent = exception_exponent(state, map, j);
    bool large = exponent > map->classes->magnitude_base;
    if (large && state->excess[j] == 0)
        return false;
    *code = large ? weft_tight_code_of(state->excess[j] - 1, 0)
                  : weft_tight_code_of(state->excess[j], weft_class_magnitude_bits(map, exponent));
    return true;
}

static void further_list(weft_backend_state *state, weft_host_tight_plan *plan, list_maker *maker)
{
    uint32_t large = 0, set = 0;
    for (uint32_t j = 0; j < plan->exceptions; j++) {
        if (exception_exponent(state, plan->map, j) <= plan->map->classes->magnitude_base)
            continue;
        if (state->excess[j] > 0)
            maker->members[set++] = large;
        large++;
    }
    list_end(maker, &plan->shape.further, set, large, state->class_rank);
}

static void magnitudes_count(const weft_backend_state *state, weft_host_tight_plan *plan)
{
    for (uint32_t j = 0; j < plan->exceptions; j++) {
        weft_tight_code code;
        if (!exception_code(state, plan->map, j, &code))
            continue;
        plan->unary_bits += code.unary + 1;
        plan->magnitude_bits += code.low_count;
    }
}

void weft_host_tight_plan_make(weft_backend_state *state, const weft_view *shadow, weft_host_tight_plan *plan)
{
    const weft_changes *changes = &state->changes;
    class_counts counts;
    list_maker maker = {state->kernels, state->members, 0};
    plan->map = &state->ranker.map;
    plan->shape = (weft_tight_shape){.changed = changes->count};
    plan->unary_bits = plan->magnitude_bits = 0;
    classes_count(state, &counts);
    positions_list(state, &counts, state->ranker.population, &maker, &plan->shape);
    plan->exceptions = state->kernels->exceptions[weft_host_slot(shadow->width)](
        changes->before, changes->after, changes->count, shadow->is_float, state->rank, state->excess);
    if (plan->exceptions > 0) {
        exceptions_list(state, plan, &counts, &maker, &plan->shape);
        further_list(state, plan, &maker);
        magnitudes_count(state, plan);
    }
    plan->unary_bits += maker.unary_bits;
}

/* ---- planes */

/* The low bits of a list's gaps. */
static void lows_put(const weft_tight_list *list, const uint32_t *member, weft_ones_writer *writer)
{
    const uint32_t k = list->low_bits, mask = (UINT32_C(1) << k) - 1;
    weft_ones_writer local = *writer;
    uint32_t next = 0;
    for (uint32_t i = 0; k > 0 && i < list->members; i++) {
        weft_ones_add(&local, (member[i] - next) & mask, k);
        next = member[i] + 1;
    }
    *writer = local;
}

static uint8_t *lows_write(const weft_backend_state *state, const weft_tight_shape *shape, uint8_t *out,
                           const uint8_t *end)
{
    const uint32_t *member = state->members;
    weft_ones_writer writer = {out, 0, 0};
    weft_bit_writer last = {out, end, 0, 0};
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_tight_list *list = weft_tight_list_at(shape, i);
        lows_put(list, member, &writer);
        member += list->members;
    }
    weft_ones_end(&writer, &last);
    return weft_bits_end(&last);
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
    for (uint32_t j = 0; j < plan->exceptions; j++) {
        weft_tight_code code;
        if (!exception_code(state, plan->map, j, &code))
            continue;
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
    uint8_t *behind = at + (plan->unary_bits + 7) / 8; /* the unary plane must not store over the magnitudes */
    weft_bit_writer unary = {at, behind, 0, 0}, magnitudes = {behind, end, 0, 0};
    highs_write(state, &plan->shape, &unary);
    magnitudes_put(state, plan, &unary, &magnitudes);
    at = weft_bits_end(&magnitudes);
    memset(at, 0, (size_t)(end - at));
}

/* host_tight_encode.c - level tight: changes sorted into lists by class, parameters by exact rules, then the planes. */
#include <string.h>

#include "backends/host_bits.h"
#include "backends/host_element.h"
#include "backends/host_tight.h"
#include "codec/fast.h"

/* The lists while they grow: one behind the other in the state's scratch. */
typedef struct list_maker {
    uint32_t *members; /* the next free place */
    uint64_t unary_bits;
} list_maker;

static uint64_t high_sum(const uint32_t *member, uint32_t count, uint32_t low_bits)
{
    uint64_t sum = 0;
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (member[i] - next) >> low_bits;
        next = member[i] + 1;
    }
    return sum;
}

/* The Rice parameter of a list: from the rule on counts downwards for as long as the coded bits shrink. */
static void low_bits_choose(list_maker *maker, weft_tight_list *list, uint32_t universe)
{
    const uint32_t *member = maker->members;
    uint32_t k = weft_fast_rice(universe, list->members);
    uint64_t sum = high_sum(member, list->members, k);
    while (k > 0) {
        uint64_t below = high_sum(member, list->members, k - 1);
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

static void classes_count(const weft_backend_state *state, const weft_class_map *map, class_counts *counts)
{
    const weft_changes *changes = &state->changes;
    memset(counts, 0, sizeof *counts);
    for (uint32_t i = 0; i < changes->count; i++) {
        state->class_of[i] = map->of[weft_class_exponent(map, before_at(changes, i, map->width))];
        counts->changed[state->class_of[i]]++;
    }
    for (uint32_t c = 1; c < WEFT_CLASS_MAX; c++)
        counts->begin[c] = counts->begin[c - 1] + counts->changed[c - 1];
}

/* Sorts the changes' ranks by class into state->sorted. */
static void ranks_sort(const weft_backend_state *state, const class_counts *counts)
{
    uint32_t next[WEFT_CLASS_MAX];
    memcpy(next, counts->begin, sizeof next);
    for (uint32_t i = 0; i < state->changes.count; i++)
        state->sorted[next[state->class_of[i]]++] = state->class_rank[i];
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

/* Sorts the exceptions' ranks among the changes of their class by class into state->sorted. */
static void exceptions_sort(const weft_backend_state *state, uint32_t exceptions, class_counts *counts)
{
    uint32_t seen[WEFT_CLASS_MAX] = {0}, at = 0;
    for (uint32_t j = 0; j < exceptions; j++) {
        for (; at < state->rank[j]; at++)
            seen[state->class_of[at]]++;
        uint32_t class = state->class_of[at];
        state->sorted[counts->begin[class] + counts->exceptions[class]++] = seen[class];
    }
}

static void exceptions_list(weft_backend_state *state, uint32_t exceptions, class_counts *counts, list_maker *maker,
                            weft_tight_shape *shape)
{
    exceptions_sort(state, exceptions, counts);
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
    list_maker maker = {state->members, 0};
    plan->map = &state->ranker.map;
    plan->shape = (weft_tight_shape){.changed = changes->count};
    plan->unary_bits = plan->magnitude_bits = 0;
    classes_count(state, plan->map, &counts);
    positions_list(state, &counts, state->ranker.population, &maker, &plan->shape);
    plan->exceptions = state->kernels->exceptions[weft_host_slot(shadow->width)](
        changes->before, changes->after, changes->count, shadow->is_float, state->rank, state->excess);
    if (plan->exceptions > 0) {
        exceptions_list(state, plan->exceptions, &counts, &maker, &plan->shape);
        further_list(state, plan, &maker);
        magnitudes_count(state, plan);
    }
    plan->unary_bits += maker.unary_bits;
}

/* ---- planes */

static uint8_t *directions_write(const weft_changes *changes, const weft_view *now, uint8_t *out, const uint8_t *end)
{
    weft_bit_writer writer = {out, end, 0, 0};
    for (uint32_t i = 0; i < changes->count; i++) {
        uint64_t steps = weft_element_steps(weft_element_get(changes->before, i, now->width),
                                            weft_element_get(changes->after, i, now->width), now->width, now->is_float);
        weft_bits_put(&writer, weft_steps_down(steps, now->width), 1);
    }
    return weft_bits_end(&writer);
}

/* A list's gaps: their low bits, or their high parts in unary. */
static void lows_put(const weft_tight_list *list, const uint32_t *member, weft_bit_writer *writer)
{
    uint64_t mask = (UINT64_C(1) << list->low_bits) - 1;
    uint32_t next = 0;
    for (uint32_t i = 0; i < list->members; i++) {
        weft_bits_put(writer, (member[i] - next) & mask, list->low_bits);
        next = member[i] + 1;
    }
}

static void highs_put(const weft_tight_list *list, const uint32_t *member, weft_bit_writer *writer)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < list->members; i++) {
        weft_bits_put_unary(writer, (member[i] - next) >> list->low_bits);
        next = member[i] + 1;
    }
}

static void lists_put(const weft_backend_state *state, const weft_tight_shape *shape, weft_bit_writer *writer,
                      void (*put)(const weft_tight_list *, const uint32_t *, weft_bit_writer *))
{
    const uint32_t *member = state->members;
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_tight_list *list = weft_tight_list_at(shape, i);
        put(list, member, writer);
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
    const uint8_t *end = payload + bytes;
    uint8_t *at = payload + weft_tight_lists_bytes(&plan->shape);
    weft_tight_write_lists(&plan->shape, payload);
    at = directions_write(&state->changes, now, at, end);
    weft_bit_writer lows = {at, end, 0, 0};
    lists_put(state, &plan->shape, &lows, lows_put);
    at = weft_bits_end(&lows);
    uint8_t *behind = at + (plan->unary_bits + 7) / 8; /* the unary plane must not store over the magnitudes */
    weft_bit_writer unary = {at, behind, 0, 0}, magnitudes = {behind, end, 0, 0};
    lists_put(state, &plan->shape, &unary, highs_put);
    magnitudes_put(state, plan, &unary, &magnitudes);
    at = weft_bits_end(&magnitudes);
    memset(at, 0, (size_t)(end - at));
}

/* share.c - the slices of a share: every tensor finds its rule, the rule makes a portion, the portion makes boxes. */
#include "shard/share.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

typedef unsigned long long ull;

/* ---- a rule by itself */

static weft_status contradicts(uint64_t number, const char *what)
{
    return weft_fail(WEFT_E_ARGUMENT, "rule %llu of the share: %s", (ull)number + 1, what);
}

static weft_status ranges_check(const weft_share_rule *rule, uint64_t number)
{
    uint64_t reached = 0, end;
    for (uint64_t i = 0; i < rule->range_count; i++) {
        const weft_range *range = &rule->ranges[i];
        if (range->first < reached || __builtin_add_overflow(range->first, range->count, &end) ||
            (range->count == 0 && rule->kind == WEFT_SHARE_RANGES))
            return weft_fail(WEFT_E_ARGUMENT,
                             "rule %llu of the share: range %llu, %llu from %llu on: need ranges that rise, do not "
                             "meet and are not empty",
                             (ull)number + 1, (ull)i + 1, (ull)range->count, (ull)range->first);
        reached = end;
    }
    return WEFT_OK;
}

static weft_status rule_check(const weft_share_rule *rule, uint64_t number)
{
    uint64_t end;
    if (!rule->patterns)
        return contradicts(number, "no patterns of tensors' names");
    if (rule->kind == WEFT_SHARE_PART && (rule->parts == 0 || rule->parts > WEFT_CUT_PARTS))
        return contradicts(number, "need between 1 and 65536 parts");
    if (rule->kind == WEFT_SHARE_PART && rule->part >= rule->parts)
        return contradicts(number, "the number of the part is not below that of the parts");
    if (rule->groups > WEFT_CUT_PARTS || (rule->groups > 0 && rule->group >= rule->groups))
        return contradicts(number,
                           "need at most 65536 groups of experts, and a group's number below that of the groups");
    if (rule->by_layer && __builtin_add_overflow(rule->layers.first, rule->layers.count, &end))
        return contradicts(number, "the layers reach past 2^64");
    if (rule->kind == WEFT_SHARE_ELEMENTS && rule->range_count != 1)
        return contradicts(number, "need one range of the elements");
    return ranges_check(rule, number);
}

/* ---- the rule of a tensor */

/* Tells whether a tensor is of the layers and experts that its rule names. `experts` is the number that the model has.
 */
static weft_status rule_takes(const weft_share_rule *rule, uint64_t experts, const char *name, bool *takes)
{
    uint64_t number = 0;
    *takes = true;
    if (rule->by_layer)
        *takes = weft_cut_layer_of(name, &number) && number >= rule->layers.first &&
                 number - rule->layers.first < rule->layers.count;
    if (rule->groups == 0 || !*takes)
        return WEFT_OK;
    if (experts == 0 || experts % rule->groups != 0)
        return weft_fail(WEFT_E_LAYOUT, "%s: %llu equal groups do not fit the %llu experts that '%.80s' matches", name,
                         (ull)rule->groups, (ull)experts, rule->patterns);
    *takes = weft_cut_expert_of(name, &number) && number / (experts / rule->groups) == rule->group;
    return WEFT_OK;
}

static uint64_t rule_experts(const weft_layout *layout, const weft_share_rule *rule)
{
    const weft_cut cut = {.patterns = rule->patterns};
    uint64_t experts = 0, number;
    for (uint64_t t = 0; rule->groups > 0 && t < layout->count; t++) {
        const char *name = layout->entries[t].tensor.name;
        if (weft_cut_matches(&cut, name) && weft_cut_expert_of(name, &number) && number >= experts)
            experts = number + 1;
    }
    return experts;
}

/* ---- portions */

static weft_status part_of(const weft_share_rule *rule, const char *name, uint64_t size, weft_range *range)
{
    const uint64_t over = rule->pad > 0 ? size % rule->pad : 0;
    uint64_t padded = size;
    if ((over > 0 && __builtin_add_overflow(size, rule->pad - over, &padded)) || padded % rule->parts != 0)
        return weft_fail(WEFT_E_LAYOUT, "%s: dimension %u has %llu, which %llu equal parts%s do not fit", name,
                         rule->dimension, (ull)size, (ull)rule->parts, rule->pad ? " of the padded size" : "");
    const uint64_t each = padded / rule->parts, begin = rule->part * each, end = begin + each;
    range->first = begin < size ? begin : size;
    range->count = (end < size ? end : size) - range->first;
    return WEFT_OK;
}

static weft_status ranges_fit(const weft_share_rule *rule, const char *name, const char *what, uint64_t size)
{
    const weft_range *last = rule->range_count > 0 ? &rule->ranges[rule->range_count - 1] : NULL;
    if (!last || (last->first <= size && last->count <= size - last->first))
        return WEFT_OK;
    return weft_fail(WEFT_E_LAYOUT, "%s has %llu %s: a range of %llu from %llu on reaches past them", name, (ull)size,
                     what, (ull)last->count, (ull)last->first);
}

static weft_status portion_cut(const weft_layout_entry *entry, const weft_share_rule *rule, weft_portion *portion)
{
    const weft_tensor *tensor = &entry->tensor;
    if (rule->dimension >= tensor->rank)
        return weft_fail(WEFT_E_LAYOUT, "%s has %u dimensions, and the share cuts dimension %u, counted from 0",
                         tensor->name, tensor->rank, rule->dimension);
    const uint64_t size = tensor->shape[rule->dimension];
    portion->dimension = rule->dimension;
    if (rule->kind == WEFT_SHARE_PART) {
        const weft_status status = part_of(rule, tensor->name, size, &portion->only);
        portion->range_count = portion->only.count > 0;
        return status;
    }
    portion->ranges = rule->ranges;
    portion->range_count = rule->range_count;
    return ranges_fit(rule, tensor->name, "in that dimension", size);
}

static weft_status portion_make(const weft_layout *layout, uint64_t tensor, const weft_share_rule *rule,
                                uint64_t experts, weft_portion *portion)
{
    const weft_layout_entry *entry = &layout->entries[tensor];
    bool takes;
    weft_status status = rule_takes(rule, experts, entry->tensor.name, &takes);
    *portion = (weft_portion){.rule = rule};
    if (status != WEFT_OK || !takes)
        return status;
    if (rule->kind == WEFT_SHARE_WHOLE) {
        portion->only = (weft_range){0, entry->elements};
        portion->range_count = 1;
        return WEFT_OK;
    }
    if (rule->kind != WEFT_SHARE_ELEMENTS)
        return portion_cut(entry, rule, portion);
    portion->only = rule->ranges[0];
    portion->range_count = portion->only.count > 0;
    return ranges_fit(rule, entry->tensor.name, "elements", entry->elements);
}

uint64_t weft_portion_size(const weft_portion *portion)
{
    uint64_t size = 0;
    for (uint64_t i = 0; i < portion->range_count; i++)
        size += weft_portion_range(portion, i).count;
    return size;
}

static weft_status portions_make(weft_share *share, const weft_share_rule *rules, uint64_t count)
{
    weft_status status = WEFT_OK;
    for (uint64_t r = 0; r < count && status == WEFT_OK; r++) {
        const weft_cut cut = {.patterns = rules[r].patterns};
        const uint64_t experts = rule_experts(share->layout, &rules[r]);
        for (uint64_t t = 0; t < share->layout->count && status == WEFT_OK; t++) {
            weft_portion *portion = &share->portions[t];
            if (!portion->rule && weft_cut_matches(&cut, share->layout->entries[t].tensor.name))
                status = portion_make(share->layout, t, &rules[r], experts, portion);
        }
    }
    return status;
}

/* ---- boxes */

/* A taker of slices. Without `slices` the taker only counts. */
typedef struct taker {
    const weft_layout *layout;
    weft_slice *slices;
    bool *contributed;
    bool contributes;
    uint64_t count;
} taker;

static weft_status slice_take(taker *to, weft_slice slice)
{
    if (weft_slice_elements(&slice) == 0)
        return WEFT_OK;
    if (to->count >= WEFT_CELLS_MOST)
        return weft_fail(WEFT_E_LAYOUT, "a share of more than %llu boxes", (ull)WEFT_CELLS_MOST);
    if (to->slices) {
        to->slices[to->count] = slice;
        to->contributed[to->count] = to->contributes;
    }
    to->count++;
    return weft_slice_check(to->layout, &slice);
}

/* Takes elements in row-major order: what is left of a row, whole rows, and the begin of a row. */
static weft_status elements_take(taker *to, weft_slice whole, weft_range range)
{
    const uint64_t columns = whole.columns, end = range.first + range.count;
    weft_status status = WEFT_OK;
    for (uint64_t at = range.first; at < end && status == WEFT_OK;) {
        const uint64_t column = at % columns, left = end - at, rest = columns - column;
        weft_slice box = {.tensor = whole.tensor, .row = at / columns, .rows = 1, .column = column};
        box.columns = left < rest ? left : rest;
        if (column == 0 && left >= columns)
            box.rows = left / columns;
        status = slice_take(to, box);
        at += weft_slice_elements(&box);
    }
    return status;
}

/* Takes a range of a dimension that is not the last: a box for each index of the dimensions before. */
static weft_status rows_take(taker *to, weft_slice whole, const weft_portion *portion)
{
    const weft_tensor *tensor = &to->layout->entries[whole.tensor].tensor;
    uint64_t outer = 1, inner = 1;
    weft_status status = WEFT_OK;
    for (uint32_t d = 0; d + 1 < tensor->rank; d++)
        *(d < portion->dimension ? &outer : &inner) *= d == portion->dimension ? 1 : tensor->shape[d];
    for (uint64_t o = 0; o < outer && status == WEFT_OK; o++) {
        for (uint64_t i = 0; i < portion->range_count && status == WEFT_OK; i++) {
            const weft_range range = weft_portion_range(portion, i);
            weft_slice box = whole;
            box.row = (o * tensor->shape[portion->dimension] + range.first) * inner;
            box.rows = range.count * inner;
            status = slice_take(to, box);
        }
    }
    return status;
}

static weft_status columns_take(taker *to, weft_slice whole, const weft_portion *portion)
{
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < portion->range_count && status == WEFT_OK; i++) {
        const weft_range range = weft_portion_range(portion, i);
        weft_slice box = whole;
        box.column = range.first;
        box.columns = range.count;
        status = slice_take(to, box);
    }
    return status;
}

static weft_status portion_take(taker *to, uint64_t tensor, const weft_portion *portion)
{
    const weft_slice whole = weft_slice_whole(to->layout, tensor);
    const uint32_t rank = to->layout->entries[tensor].tensor.rank;
    if (portion->range_count == 0 || weft_slice_elements(&whole) == 0)
        return WEFT_OK;
    to->contributes = !portion->rule->replica;
    if (portion->rule->kind == WEFT_SHARE_WHOLE)
        return slice_take(to, whole);
    if (portion->rule->kind == WEFT_SHARE_ELEMENTS)
        return elements_take(to, whole, portion->only);
    return portion->dimension + 1 == rank ? columns_take(to, whole, portion) : rows_take(to, whole, portion);
}

static weft_status portions_take(const weft_share *share, taker *to)
{
    weft_status status = WEFT_OK;
    to->count = 0;
    for (uint64_t t = 0; t < share->layout->count && status == WEFT_OK; t++)
        status = portion_take(to, t, &share->portions[t]);
    return status;
}

static weft_status slices_make(weft_share *share)
{
    taker to = {.layout = share->layout};
    weft_status status = portions_take(share, &to);
    if (status != WEFT_OK)
        return status;
    share->slices = weft_mem_take(to.count + 1, sizeof *share->slices);
    share->contributed = weft_mem_take(to.count + 1, sizeof *share->contributed);
    if (!share->slices || !share->contributed)
        return weft_fail(WEFT_E_MEMORY, "no memory for the %llu slices of a share", (ull)to.count);
    to.slices = share->slices;
    to.contributed = share->contributed;
    status = portions_take(share, &to);
    share->slice_count = to.count;
    return status;
}

weft_status weft_share_open(const weft_layout *layout, const weft_share_rule *rules, uint64_t count, weft_share *share)
{
    weft_share made = {.layout = layout};
    weft_status status = WEFT_OK;
    if (count > WEFT_SHARE_RULES_MOST)
        return weft_fail(WEFT_E_ARGUMENT, "a share of %llu rules: at most %u", (ull)count, WEFT_SHARE_RULES_MOST);
    for (uint64_t i = 0; i < count && status == WEFT_OK; i++)
        status = rule_check(&rules[i], i);
    if (status != WEFT_OK)
        return status;
    made.portions = weft_mem_take(layout->count + 1, sizeof *made.portions);
    status = made.portions ? portions_make(&made, rules, count)
                           : weft_fail(WEFT_E_MEMORY, "no memory for a share of %llu tensors", (ull)layout->count);
    if (status == WEFT_OK)
        status = slices_make(&made);
    if (status == WEFT_OK)
        *share = made;
    else
        weft_share_close(&made);
    return status;
}

void weft_share_close(weft_share *share)
{
    weft_mem_give(share->portions);
    weft_mem_give(share->slices);
    weft_mem_give(share->contributed);
    *share = (weft_share){0};
}

/* share_keys.c - the keys that a share takes: whole ones, or the cut that is missing. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "shard/holding.h"
#include "shard/share.h"

typedef unsigned long long ull;

enum { RULE_TEXT = 192 };

/* Writes the lines of a cut, without patterns, that would part a tensor as its portion does. NULL: slices came without
 * rules, and nothing is written. */
static void cut_write(const weft_layout *layout, uint64_t tensor, const weft_portion *portion, char text[RULE_TEXT])
{
    const weft_share_rule *rule = portion ? portion->rule : NULL;
    const uint32_t rank = layout->entries[tensor].tensor.rank;
    const char *kind = !portion                                                               ? ""
                       : rank > 1 && portion->dimension + 1 == rank                           ? "columns"
                       : rank > 2 && portion->dimension > 0 && portion->dimension + 2 == rank ? "middle"
                                                                                              : "rows";
    text[0] = 0;
    if (rule && rule->groups > 0)
        snprintf(text, RULE_TEXT, ", by = expert, groups = %llu", (ull)rule->groups);
    else if (rule && rule->by_layer)
        snprintf(text, RULE_TEXT, ", by = layer, at = 0, %llu", (ull)rule->layers.first);
    else if (rule && rule->kind == WEFT_SHARE_PART)
        snprintf(text, RULE_TEXT, ", %s = %llu", kind, (ull)rule->parts);
    else if (rule && rule->kind == WEFT_SHARE_RANGES && rule->range_count > 0)
        snprintf(text, RULE_TEXT, ", by = %s, at = %llu, %llu", kind, (ull)rule->ranges[0].first,
                 (ull)(rule->ranges[0].first + rule->ranges[0].count));
}

/* Counts the elements that the share has of a cell. */
static uint64_t cell_held(const weft_cell *cell, const weft_cell *entries, uint64_t count)
{
    uint64_t held = 0;
    for (uint64_t i = 0; i < count; i++) {
        const weft_slice both = weft_slice_common(&cell->slice, &entries[i].slice);
        held += weft_slice_elements(&both);
    }
    return held;
}

/* Names a cell of a key that the share has not all of. The tensor that the share has in part is the one to be cut;
 * where there is none, the first cell that is missing needs a key of its own. `cell` is the key's first. */
static weft_status key_refuse(const weft_share *share, const weft_cell *cell, uint64_t cell_count,
                              const weft_cell *entries, uint64_t count)
{
    const weft_cell *missing = cell;
    const uint32_t key = cell->key;
    bool part = false, found = false;
    for (uint64_t c = 0; c < cell_count && !part; c++) {
        const uint64_t held = cell_held(&cell[c], entries, count);
        part = held > 0 && held < weft_slice_elements(&cell[c].slice);
        missing = part || (held == 0 && !found) ? &cell[c] : missing;
        found = found || held == 0;
    }
    const weft_slice *slice = &missing->slice;
    char name[WEFT_SLICE_TEXT], rule[RULE_TEXT];
    weft_slice_name(share->layout, slice, name);
    cut_write(share->layout, slice->tensor, share->portions ? &share->portions[slice->tensor] : NULL, rule);
    return weft_fail(
        WEFT_E_LAYOUT,
        "the share has a part of key %u, and %s %s: a section [cut.NAME] with tensors = %s%s would part them", key,
        part ? "not all of" : "nothing of", name, share->layout->entries[slice->tensor].tensor.name, rule);
}

static weft_status keys_judge(const weft_share *share, const weft_cells *cells, const weft_cell *entries,
                              uint64_t count, bool *wanted)
{
    for (uint64_t c = 0, e = 0; c < cells->count;) {
        const uint32_t key = cells->cells[c].key;
        const uint64_t first = c, first_entry = e;
        uint64_t all = 0, held = 0;
        for (; c < cells->count && cells->cells[c].key == key; c++)
            all += weft_slice_elements(&cells->cells[c].slice);
        for (; e < count && entries[e].key == key; e++)
            held += weft_slice_elements(&entries[e].slice);
        if (held > 0 && held < all)
            return key_refuse(share, &cells->cells[first], c - first, &entries[first_entry], e - first_entry);
        wanted[key] = held == all;
    }
    return WEFT_OK;
}

weft_status weft_share_keys(const weft_share *share, const weft_cells *cells, bool *wanted)
{
    weft_cell *entries;
    uint64_t count;
    weft_status status = weft_holding_open(share->layout, cells, share->slices, share->slice_count, &entries, &count);
    if (status != WEFT_OK)
        return status;
    status = keys_judge(share, cells, entries, count, wanted);
    weft_mem_give(entries);
    return status;
}

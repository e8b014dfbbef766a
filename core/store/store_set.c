/* store_set.c - versions whose files several sources wrote, each its own. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/mix64.h"
#include "base/status.h"
#include "store/store.h"

typedef unsigned long long ull;

/* ---- sets */

weft_store *weft_store_each(weft_store *store, uint32_t number)
{
    if (number == 0)
        return store;
    return number <= store->shelf_count ? store->shelves[number - 1] : NULL;
}

weft_store *weft_store_source(weft_store *store, uint32_t source, uint32_t sources)
{
    weft_store *each;
    for (uint32_t i = 0; (each = weft_store_each(store, i)); i++)
        if (each->source == source && each->sources == sources)
            return each;
    return NULL;
}

/* Takes the stores of S sources that have a version. False: one that is needed has not. */
static bool set_take(weft_store *store, uint32_t sources, const weft_version *version, weft_store_set *set)
{
    weft_store *each;
    bool found[WEFT_SOURCES_MAX] = {false};
    *set = (weft_store_set){.first = WEFT_SOURCES_MAX, .version = {version->run, version->number, 0}};
    for (uint32_t i = 0; (each = weft_store_each(store, i)); i++) {
        if (each->sources != sources)
            continue;
        const uint64_t index = weft_store_find(each, version->run, version->number);
        found[each->source] = index != WEFT_STORE_NONE || !weft_store_view_needs(each, version->run);
        set->shelf[each->source] = each;
        set->index[each->source] = index;
        if (index != WEFT_STORE_NONE && each->source < set->first)
            set->first = each->source;
    }
    while (set->count < sources && found[set->count])
        set->count++;
    return set->first != WEFT_SOURCES_MAX && set->count == sources;
}

static bool is_divided(const weft_store_set *set)
{
    const weft_store_file *like = weft_store_like(set->shelf[set->first], set->index[set->first]);
    return set->count > 1 || (like && like->divided);
}

weft_status weft_store_set_find(weft_store *store, const weft_version *version, weft_store_set *set)
{
    const char *name = store->name;
    weft_store_set best = {.count = 0};
    uint64_t best_run = 0;
    weft_store *each;
    for (uint32_t i = 0; (each = weft_store_each(store, i)); i++) {
        for (uint64_t at = each->count; at-- > 0;) {
            const weft_version *v = &each->versions[at].version;
            if (v->number != version->number || (version->run && v->run != version->run) || v->run < best_run)
                continue;
            if (!set_take(store, each->sources, v, set))
                continue;
            best = *set;
            best_run = v->run;
            break;
        }
    }
    *set = best;
    if (best.count == 0)
        return weft_fail(WEFT_E_MISSING, "%s: version %llu is not there; weft_store_list lists those that are", name,
                         (ull)version->number);
    set->divided = is_divided(set);
    return WEFT_OK;
}

uint64_t weft_store_set_root(const weft_store_set *set)
{
    uint64_t root = 0;
    if (set->count == 1)
        return set->shelf[0]->versions[set->index[0]].version.root;
    for (uint32_t r = 0; r < set->count; r++)
        if (set->index[r] == WEFT_STORE_NONE)
            return 0;
    for (uint32_t r = 0; r < set->count; r++)
        root = weft_mix64(root + set->shelf[r]->versions[set->index[r]].version.root);
    return root;
}

/* ---- listing */

static weft_store_entry entry_of(const weft_store_version *v, bool reachable)
{
    const weft_store_file *update = &v->files[WEFT_STORE_UPDATE], *anchor = &v->files[WEFT_STORE_ANCHOR],
                          *merge = &v->files[WEFT_STORE_MERGE], *tight = &v->files[WEFT_STORE_TIGHT];
    return (weft_store_entry){
        .version = v->version,
        .base = update->base,
        .update_bytes = update->item.bytes,
        .anchor_bytes = anchor->item.bytes,
        .time_s = update->item.bytes   ? update->item.time_s
                  : anchor->item.bytes ? anchor->item.time_s
                                       : merge->item.time_s,
        .damaged = update->status != WEFT_OK || anchor->status != WEFT_OK || merge->status != WEFT_OK ||
                   tight->status != WEFT_OK,
        .reachable = reachable,
        .merge_bytes = merge->item.bytes,
        .tight_bytes = tight->item.bytes,
    };
}

/* One flag for each version of each store of weft_store_each: whole files lead there. */
typedef struct reach {
    weft_store *store;
    bool **reached;
    uint32_t count;
} reach;

static void reach_close(reach *all)
{
    for (uint32_t i = 0; all->reached && i < all->count; i++)
        weft_mem_give(all->reached[i]);
    weft_mem_give(all->reached);
}

static weft_status reach_open(weft_store *store, reach *all)
{
    weft_status status = WEFT_OK;
    *all = (reach){.store = store, .count = store->shelf_count + 1};
    all->reached = weft_mem_take(all->count, sizeof *all->reached);
    for (uint32_t i = 0; all->reached && i < all->count && status == WEFT_OK; i++) {
        const weft_store *each = weft_store_each(store, i);
        all->reached[i] = weft_mem_take(each->count + 1, sizeof **all->reached);
        status = all->reached[i] ? weft_store_reach(each, 0, all->reached[i]) : WEFT_E_MEMORY;
    }
    if (all->reached && status == WEFT_OK)
        return WEFT_OK;
    reach_close(all);
    return weft_fail(WEFT_E_MEMORY, "no memory for the versions of a store");
}

/* Adds up the files that the sources have of a version. */
static weft_store_entry entry_sum(const reach *all, const weft_store_set *set)
{
    weft_store_entry sum = {.version = set->version, .reachable = 1};
    weft_store *each;
    for (uint32_t i = 0; (each = weft_store_each(all->store, i)); i++) {
        const uint64_t index = each->sources == set->count ? set->index[each->source] : WEFT_STORE_NONE;
        if (index == WEFT_STORE_NONE)
            continue;
        const weft_store_entry one = entry_of(&each->versions[index], all->reached[i][index]);
        if (each->source == set->first)
            sum.base = one.base;
        sum.reachable = sum.reachable && (one.reachable || !weft_store_view_needs(each, set->version.run));
        sum.update_bytes += one.update_bytes;
        sum.anchor_bytes += one.anchor_bytes;
        sum.merge_bytes += one.merge_bytes;
        sum.tight_bytes += one.tight_bytes;
        sum.time_s = one.time_s > sum.time_s ? one.time_s : sum.time_s;
        sum.damaged |= one.damaged;
    }
    sum.version.root = weft_store_set_root(set);
    return sum;
}

static int entries_compare(const void *a, const void *b)
{
    const weft_version *x = &((const weft_store_entry *)a)->version, *y = &((const weft_store_entry *)b)->version;
    if (x->run != y->run)
        return x->run < y->run ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Lists the versions that the sources have. Without `entries` the function only counts. */
static size_t entries_put(const reach *all, weft_store_entry *entries)
{
    size_t count = 0;
    weft_store_set set;
    weft_store *each;
    for (uint32_t i = 0; (each = weft_store_each(all->store, i)); i++) {
        weft_store *before = each->source > 0 ? weft_store_source(all->store, 0, each->sources) : NULL;
        for (uint64_t v = 0; v < each->count; v++) {
            const weft_version *version = &each->versions[v].version;
            if (before && weft_store_find(before, version->run, version->number) != WEFT_STORE_NONE)
                continue; /* listed there, as nearly all are */
            if (!set_take(all->store, each->sources, version, &set) || set.first != each->source)
                continue;
            if (entries)
                entries[count] = entry_sum(all, &set);
            count++;
        }
    }
    return count;
}

weft_status weft_store_list(const weft_store *store, weft_store_entry *entries, size_t capacity, size_t *count)
{
    WEFT_ALONE(store, "weft_store_list");
    reach all;
    weft_status status = reach_open((weft_store *)(uintptr_t)store, &all);
    if (status != WEFT_OK)
        return status;
    *count = entries_put(&all, NULL);
    weft_store_entry *made = weft_mem_take(*count + 1, sizeof *made);
    if (!made)
        status = weft_fail(WEFT_E_MEMORY, "no memory for %zu versions", *count);
    if (made) {
        entries_put(&all, made);
        qsort(made, *count, sizeof *made, entries_compare);
        for (size_t i = 0; i < *count && i < capacity; i++)
            entries[i] = made[i];
    }
    weft_mem_give(made);
    reach_close(&all);
    return status;
}

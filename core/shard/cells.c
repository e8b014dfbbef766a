/* cells.c - the cells of a layout: all tensors go through the cuts, and cells are sorted by their keys. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "shard/cut_boxes.h"

typedef unsigned long long ull;

typedef struct keyed {
    weft_cell_key key;
    weft_slice slice;
} keyed;

/* A walk over the tensors. Without `cells` the walk only counts. */
typedef struct walk {
    weft_box_taker boxes; /* first member, because put gets its address */
    const weft_layout *layout;
    const weft_cut *cuts;
    uint32_t cut_count;
    uint64_t experts[WEFT_CUT_MOST]; /* number of experts among the tensors that each cut matches */
    bool used[WEFT_CUT_MOST];
    weft_cell_key key; /* key of the tensor at hand */
    keyed *cells;
    uint64_t count;
} walk;

static weft_status put(weft_box_taker *boxes, const weft_slice *box, uint32_t part)
{
    walk *at = (walk *)(void *)boxes;
    if (at->count >= WEFT_CELLS_MOST)
        return weft_fail(WEFT_E_LAYOUT, "the cuts make more than %llu cells", (ull)WEFT_CELLS_MOST);
    at->key.part = part;
    if (at->cells)
        at->cells[at->count] = (keyed){at->key, *box};
    at->count++;
    return WEFT_OK;
}

/* Finds the one rule for boxes that matches a tensor. *cut is 0 if there is none. */
static weft_status box_cut(walk *at, const char *name, uint32_t *cut)
{
    *cut = 0;
    for (uint32_t i = 0; i < at->cut_count; i++) {
        if (!weft_cut_is_for_boxes(&at->cuts[i]) || !weft_cut_matches(&at->cuts[i], name))
            continue;
        if (*cut > 0)
            return weft_fail(WEFT_E_LAYOUT, "[cut.%s] and [cut.%s] both cut %s: leave one of them its pattern",
                             at->cuts[*cut - 1].name, at->cuts[i].name, name);
        *cut = i + 1;
        at->used[i] = true;
    }
    return WEFT_OK;
}

/* Finds the block that rules of one kind put a tensor into. At most one rule of a kind does. */
static weft_status name_cut(walk *at, const char *name, weft_cut_kind kind, uint32_t *block)
{
    const weft_cut *by = NULL;
    *block = 0;
    for (uint32_t i = 0; i < at->cut_count; i++) {
        uint32_t here;
        if (at->cuts[i].kind != kind || !weft_cut_matches(&at->cuts[i], name))
            continue;
        weft_status status = weft_cut_block(&at->cuts[i], name, at->experts[i], &here);
        if (status != WEFT_OK)
            return status;
        if (here > 0 && by)
            return weft_fail(WEFT_E_LAYOUT, "[cut.%s] and [cut.%s] both take %s: leave one of them its pattern",
                             by->name, at->cuts[i].name, name);
        if (here == 0)
            continue;
        by = &at->cuts[i];
        *block = here;
        at->used[i] = true;
    }
    return WEFT_OK;
}

static weft_status tensor_walk(walk *at, uint64_t tensor)
{
    const char *name = at->layout->entries[tensor].tensor.name;
    at->key = (weft_cell_key){0};
    weft_status status = name_cut(at, name, WEFT_CUT_LAYER, &at->key.layers);
    if (status == WEFT_OK)
        status = name_cut(at, name, WEFT_CUT_EXPERT, &at->key.experts);
    if (status == WEFT_OK)
        status = box_cut(at, name, &at->key.cut);
    if (status != WEFT_OK)
        return status;
    if (at->key.cut > 0)
        return weft_cut_boxes(at->layout, tensor, &at->cuts[at->key.cut - 1], &at->boxes);
    const weft_slice whole = weft_slice_whole(at->layout, tensor);
    return put(&at->boxes, &whole, 0);
}

static weft_status walk_all(walk *at)
{
    weft_status status = WEFT_OK;
    at->count = 0;
    for (uint64_t t = 0; t < at->layout->count && status == WEFT_OK; t++)
        status = tensor_walk(at, t);
    return status;
}

/* Counts the experts that each rule by expert parts: the largest number that the rule matches, and one. */
static void experts_count(walk *at)
{
    for (uint32_t i = 0; i < at->cut_count; i++) {
        for (uint64_t t = 0; at->cuts[i].kind == WEFT_CUT_EXPERT && t < at->layout->count; t++) {
            const char *name = at->layout->entries[t].tensor.name;
            uint64_t expert;
            if (weft_cut_matches(&at->cuts[i], name) && weft_cut_expert_of(name, &expert) && expert >= at->experts[i])
                at->experts[i] = expert + 1;
        }
    }
}

static int number_order(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

static int key_order(const weft_cell_key *a, const weft_cell_key *b)
{
    int order = number_order(a->experts, b->experts);
    order = order ? order : number_order(a->cut, b->cut);
    order = order ? order : number_order(a->part, b->part);
    return order ? order : number_order(a->layers, b->layers);
}

static int keyed_order(const void *left, const void *right)
{
    const keyed *a = left, *b = right;
    const int order = key_order(&a->key, &b->key);
    return order ? order : weft_slice_order(&a->slice, &b->slice);
}

static uint32_t keys_count(const walk *at)
{
    uint32_t count = at->count > 0;
    for (uint64_t i = 1; i < at->count; i++)
        count += key_order(&at->cells[i - 1].key, &at->cells[i].key) != 0;
    return count;
}

static weft_status cells_fill(const walk *at, weft_cells *cells)
{
    weft_cells made = {.count = at->count, .key_count = keys_count(at)};
    made.cells = weft_mem_take(made.count + 1, sizeof *made.cells);
    made.keys = weft_mem_take((uint64_t)made.key_count + 1, sizeof *made.keys);
    if (!made.cells || !made.keys) {
        weft_cells_close(&made);
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu cells", (ull)at->count);
    }
    uint32_t key = 0;
    for (uint64_t i = 0; i < at->count; i++) {
        key += i > 0 && key_order(&at->cells[i - 1].key, &at->cells[i].key) != 0;
        made.keys[key] = at->cells[i].key;
        made.cells[i] = (weft_cell){at->cells[i].slice, key};
    }
    *cells = made;
    return WEFT_OK;
}

/* Warns of rules that match nothing. They are no error, because one site file serves more than one model. */
static void warn_of_unused(const walk *at)
{
    for (uint32_t i = 0; i < at->cut_count; i++) {
        if (!at->used[i])
            weft_log(WEFT_LOG_WARN, "[cut.%s] cuts no tensor of this layout", at->cuts[i].name);
    }
}

static weft_status cells_make(walk *at, weft_cells *cells)
{
    experts_count(at);
    weft_status status = walk_all(at);
    if (status != WEFT_OK)
        return status;
    at->cells = weft_mem_take(at->count + 1, sizeof *at->cells);
    if (!at->cells)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu cells", (ull)at->count);
    status = walk_all(at);
    qsort(at->cells, at->count, sizeof *at->cells, keyed_order);
    if (status == WEFT_OK)
        status = cells_fill(at, cells);
    if (status == WEFT_OK)
        warn_of_unused(at);
    weft_mem_give(at->cells);
    return status;
}

weft_status weft_cells_open(const weft_layout *layout, const weft_cut *cuts, uint32_t count, weft_cells *cells)
{
    weft_status status = WEFT_OK;
    if (count > WEFT_CUT_MOST)
        return weft_fail(WEFT_E_ARGUMENT, "%u cuts: at most %u", count, WEFT_CUT_MOST);
    for (uint32_t i = 0; i < count && status == WEFT_OK; i++)
        status = weft_cut_check(&cuts[i]);
    if (status != WEFT_OK)
        return status;
    walk *at = weft_mem_take(1, sizeof *at);
    if (!at)
        return weft_fail(WEFT_E_MEMORY, "no memory to cut a layout");
    *at = (walk){.boxes = {put}, .layout = layout, .cuts = cuts, .cut_count = count};
    status = cells_make(at, cells);
    weft_mem_give(at);
    return status;
}

void weft_cells_close(weft_cells *cells)
{
    weft_mem_give(cells->keys);
    weft_mem_give(cells->cells);
    *cells = (weft_cells){0};
}

bool weft_cells_find(const weft_cells *cells, const weft_cell_key *key, uint32_t *number)
{
    uint32_t low = 0, high = cells->key_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = key_order(&cells->keys[middle], key);
        if (order == 0) {
            *number = middle;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

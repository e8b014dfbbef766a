/* excerpt.c - keys of a view, the layout of their cells, and numbers from one layout to the other. */
#include "shard/excerpt.h"

#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "layout/part.h"
#include "shard/holding.h"

typedef unsigned long long ull;

/* ---- keys */

weft_status weft_view_keys_of(const bool *wanted, uint32_t key_count, weft_view_keys *keys)
{
    uint32_t all = 0;
    memset(keys, 0, sizeof *keys);
    for (uint32_t key = 0; key < key_count; key++) {
        all += wanted[key];
        if (!wanted[key])
            continue;
        if (key > 0 && wanted[key - 1])
            keys->range[keys->count - 1].count++;
        else if (keys->count < WEFT_EXCERPT_RANGES)
            keys->range[keys->count++] = (weft_key_range){key, 1};
        else
            return weft_fail(WEFT_E_LAYOUT,
                             "the view takes keys in more than %u places: name cuts so that they follow each other",
                             WEFT_EXCERPT_RANGES);
    }
    if (all == 0)
        return weft_fail(WEFT_E_LAYOUT, "the view takes nothing of the model: a rank without weights opens no session");
    if (all == key_count)
        keys->count = 0;
    return WEFT_OK;
}

bool weft_view_keys_fit(const weft_view_keys *keys, uint32_t key_count)
{
    uint64_t next = 0;
    bool fit = keys->count <= WEFT_EXCERPT_RANGES;
    for (uint32_t i = 0; fit && i < keys->count; i++) {
        const weft_key_range *range = &keys->range[i];
        fit = range->count > 0 && range->first >= next && (uint64_t)range->first + range->count <= key_count;
        next = (uint64_t)range->first + range->count + 1;
    }
    return fit;
}

bool weft_view_keys_equal(const weft_view_keys *a, const weft_view_keys *b)
{
    return a->count == b->count && memcmp(a->range, b->range, a->count * sizeof *a->range) == 0;
}

/* ---- the excerpt */

static bool takes(const weft_view_keys *keys, uint32_t key)
{
    bool found = keys->count == 0;
    for (uint32_t i = 0; i < keys->count && !found; i++)
        found = key - keys->range[i].first < keys->range[i].count;
    return found;
}

static weft_status cells_take(const weft_cells *cells, weft_excerpt *excerpt)
{
    excerpt->cells = weft_mem_take(cells->count + 1, sizeof *excerpt->cells);
    if (!excerpt->cells)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu cells", (ull)cells->count);
    for (uint64_t c = 0; c < cells->count; c++)
        if (takes(&excerpt->keys, cells->cells[c].key))
            excerpt->cells[excerpt->cell_count++] = cells->cells[c];
    return WEFT_OK;
}

/* Finds the first unit whose tensor is not before `tensor`. */
static uint64_t unit_from(const weft_layout *layout, uint64_t tensor)
{
    uint64_t low = 0, high = layout->unit_count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (layout->units[middle].tensor < tensor)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t part_from(const weft_layout *layout, uint64_t tensor)
{
    return tensor < layout->count ? layout->entries[tensor].part : layout->part_count;
}

static void map_add(weft_number_map *map, uint64_t first, uint64_t end, uint64_t *own)
{
    map->range[map->count++] = (weft_number_range){first, end - first, *own};
    *own += end - first;
}

/* Maps tensors [first, end) of the layout of all cells, with their units and parts. Ranges without units stay, because
 * the ranges of all kinds stand beside each other. */
static void maps_add(const weft_layout *whole, uint64_t first, uint64_t end, uint64_t own[3], weft_excerpt *excerpt)
{
    map_add(&excerpt->tensors, first, end, &own[0]);
    map_add(&excerpt->units, unit_from(whole, first), unit_from(whole, end), &own[1]);
    map_add(&excerpt->parts, part_from(whole, first), part_from(whole, end), &own[2]);
}

static void maps_fill(const weft_cells *cells, const weft_layout *whole, weft_excerpt *excerpt)
{
    uint64_t own[3] = {0, 0, 0}, cell = 0;
    if (excerpt->keys.count == 0)
        maps_add(whole, 0, cells->count, own, excerpt);
    for (uint32_t i = 0; i < excerpt->keys.count; i++) {
        const weft_key_range *range = &excerpt->keys.range[i];
        while (cell < cells->count && cells->cells[cell].key < range->first)
            cell++;
        const uint64_t first = cell;
        while (cell < cells->count && cells->cells[cell].key - range->first < range->count)
            cell++;
        maps_add(whole, first, cell, own, excerpt);
    }
}

/* Takes the numbers of the cut layout into the hash of the view's layout, because frames name units by them. Models
 * whose other keys have other orders may have the same view, and other numbers for it. */
static void hash_numbered(const weft_excerpt *excerpt, uint64_t hash[2])
{
    uint8_t words[40];
    for (uint32_t i = 0; excerpt->keys.count > 0 && i < excerpt->units.count; i++) {
        weft_bytes_put(words, hash[0], 8);
        weft_bytes_put(words + 8, hash[1], 8);
        weft_bytes_put(words + 16, excerpt->tensors.range[i].first, 8);
        weft_bytes_put(words + 24, excerpt->units.range[i].first, 8);
        weft_bytes_put(words + 32, excerpt->parts.range[i].first, 8);
        const XXH128_hash_t next = XXH3_128bits(words, sizeof words);
        hash[0] = next.low64;
        hash[1] = next.high64;
    }
}

weft_status weft_excerpt_open(const weft_layout *model, const weft_cells *cells, const weft_layout *whole,
                              const weft_view_keys *keys, weft_excerpt *excerpt)
{
    memset(excerpt, 0, sizeof *excerpt);
    excerpt->keys = *keys;
    weft_status status = cells_take(cells, excerpt);
    if (status == WEFT_OK)
        status = weft_holding_layout(model, excerpt->cells, excerpt->cell_count, &excerpt->layout);
    if (status == WEFT_OK) {
        maps_fill(cells, whole, excerpt);
        hash_numbered(excerpt, excerpt->layout->hash);
    } else {
        weft_excerpt_close(excerpt);
    }
    return status;
}

void weft_excerpt_close(weft_excerpt *excerpt)
{
    weft_layout_free(excerpt->layout);
    weft_mem_give(excerpt->cells);
    memset(excerpt, 0, sizeof *excerpt);
}

uint64_t weft_excerpt_root(const weft_excerpt *excerpt, const weft_layout *whole, const uint64_t *digests)
{
    uint64_t root = 0;
    for (uint32_t i = 0; i < excerpt->tensors.count; i++) {
        const weft_number_range *range = &excerpt->tensors.range[i];
        for (uint64_t at = 0; at < range->count; at++)
            root += weft_digest_term(range->own + at, weft_digest_tensor(whole, digests, range->first + at));
    }
    return root;
}

/* ---- numbers */

bool weft_number_to_own(const weft_number_map *map, uint64_t number, uint64_t *own)
{
    for (uint32_t i = 0; i < map->count; i++) {
        const weft_number_range *range = &map->range[i];
        if (number - range->first >= range->count)
            continue;
        *own = range->own + (number - range->first);
        return true;
    }
    return false;
}

uint64_t weft_number_of_own(const weft_number_map *map, uint64_t own, uint64_t *left)
{
    uint32_t i = 0;
    while (i + 1 < map->count && own - map->range[i].own >= map->range[i].count)
        i++;
    const uint64_t within = own - map->range[i].own;
    *left = map->range[i].count - within;
    return map->range[i].first + within;
}

uint64_t weft_number_next(const weft_number_map *map, uint64_t number, uint64_t *end)
{
    for (uint32_t i = 0; i < map->count; i++) {
        const weft_number_range *range = &map->range[i];
        *end = range->first + range->count;
        if (range->count > 0 && number < *end)
            return number > range->first ? number : range->first;
    }
    return UINT64_MAX;
}

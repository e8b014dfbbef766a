/* grid.c - the units of a layout: tiles of large segments, packs of consecutive small ones. */
#include "layout/grid.h"

#define MIB (UINT32_C(1) << 20)

uint32_t weft_tile_elements(uint8_t width)
{
    uint32_t elements = UINT32_C(1) << 18;
    while (elements * width > MIB)
        elements /= 2;
    return elements;
}

/* A walk over the entries in order. Without `units` it only counts, in O(entries) however large they are. */
typedef struct grid_walk {
    weft_unit *units;
    uint64_t unit_count;
    uint64_t largest_bytes;
    weft_unit pack; /* the open pack; count 0: none is open */
    weft_dtype pack_dtype;
    uint32_t pack_key;
} grid_walk;

static void walk_note(grid_walk *walk, uint64_t bytes)
{
    if (bytes > walk->largest_bytes)
        walk->largest_bytes = bytes;
}

static void walk_close_pack(grid_walk *walk)
{
    if (walk->pack.count == 0)
        return;
    walk_note(walk, (uint64_t)walk->pack.count * walk->pack.width);
    if (walk->units)
        walk->units[walk->unit_count] = walk->pack;
    walk->unit_count++;
    walk->pack.count = 0;
}

static void walk_pack(grid_walk *walk, const weft_layout_entry *entry, uint64_t tensor)
{
    uint64_t room = weft_tile_elements(entry->row->width) - (uint64_t)walk->pack.count;
    if (walk->pack.count > 0 &&
        (walk->pack_dtype != entry->row->dtype || walk->pack_key != entry->key || entry->coded > room))
        walk_close_pack(walk);
    if (walk->pack.count == 0) {
        walk->pack = (weft_unit){.tensor = tensor, .width = entry->row->width, .is_float = entry->row->is_float};
        walk->pack_dtype = entry->row->dtype;
        walk->pack_key = entry->key;
    }
    walk->pack.count += (uint32_t)entry->coded;
    walk->pack.tensor_count = (uint32_t)(tensor - walk->pack.tensor + 1);
}

static void walk_cut(grid_walk *walk, const weft_layout_entry *entry, uint64_t tensor)
{
    uint64_t tile = weft_tile_elements(entry->row->width);
    uint64_t tiles = entry->coded / tile + (entry->coded % tile != 0);
    walk_close_pack(walk);
    walk_note(walk, tile * entry->row->width);
    for (uint64_t i = 0; walk->units && i < tiles; i++) {
        uint64_t left = entry->coded - i * tile;
        walk->units[walk->unit_count + i] = (weft_unit){.tensor = tensor,
                                                        .first = i * tile,
                                                        .count = (uint32_t)(left < tile ? left : tile),
                                                        .tensor_count = 1,
                                                        .width = entry->row->width,
                                                        .is_float = entry->row->is_float};
    }
    walk->unit_count += tiles;
}

static void walk_all(grid_walk *walk, const weft_layout_entry *entries, uint64_t count)
{
    for (uint64_t t = 0; t < count; t++) {
        if (entries[t].coded > weft_tile_elements(entries[t].row->width))
            walk_cut(walk, &entries[t], t);
        else if (entries[t].coded > 0)
            walk_pack(walk, &entries[t], t);
    }
    walk_close_pack(walk);
}

uint64_t weft_grid_count(const weft_layout_entry *entries, uint64_t count, uint64_t *largest_bytes)
{
    grid_walk walk = {0};
    walk_all(&walk, entries, count);
    *largest_bytes = walk.largest_bytes;
    return walk.unit_count;
}

void weft_grid_fill(const weft_layout_entry *entries, uint64_t count, weft_unit *units)
{
    grid_walk walk = {.units = units};
    walk_all(&walk, entries, count);
    for (uint64_t u = 0; u < walk.unit_count; u++) {
        const weft_layout_entry *entry = &entries[units[u].tensor],
                                *before = u > 0 ? &entries[units[u - 1].tensor] : NULL;
        bool joins = before && before->row == entry->row && before->key == entry->key;
        units[u].place = joins ? units[u - 1].place + 1 : 0;
        units[u].exponent_bits = entry->row->exponent_bits;
    }
}

uint32_t weft_layout_run(const weft_layout *layout, uint64_t unit, uint32_t shift)
{
    const weft_unit *first = &layout->units[unit];
    uint32_t wanted = (UINT32_C(1) << shift) - (first->place & ((UINT32_C(1) << shift) - 1)), units = 1;
    while (units < wanted && unit + units < layout->unit_count && first[units].place > 0)
        units++;
    return units;
}

bool weft_layout_joined(const weft_layout *layout, uint64_t unit, uint32_t units)
{
    return layout->units[unit + units - 1].place == (uint64_t)layout->units[unit].place + units - 1;
}

uint32_t weft_layout_count_units(const weft_layout *layout, uint64_t unit, uint32_t units)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < units; i++)
        count += layout->units[unit + i].count;
    return count;
}

#include "tools/check/check.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "shard/cut.h"
#include "tools/output.h"

#define KEYS_PRINTED 64u

typedef unsigned long long ull;

json_t *weft_check_cuts(const weft_site *site)
{
    json_t *cuts = json_array();
    for (uint64_t i = 0; i < site->cut_count; i++) {
        json_t *cut = json_pack("{s:s}", "name", site->cuts[i].name);
        const weft_key *key;
        for (size_t k = 0; (key = weft_key_at(k)); k++) {
            char name[128], value[WEFT_SITE_TEXT];
            snprintf(name, sizeof name, "cut.%s.%s", site->cuts[i].name, key->key);
            if (strcmp(key->section, "cut") == 0 && weft_site_get(site, NULL, name, value, sizeof value) == WEFT_OK &&
                strcmp(value, key->fallback) != 0)
                json_object_set_new(cut, key->key, weft_json_text(value));
        }
        json_array_append_new(cuts, cut);
    }
    return cuts;
}

/* ---- cells */

static uint64_t cell_bytes(const weft_layout *layout, const weft_cell *cell)
{
    return weft_slice_elements(&cell->slice) * layout->entries[cell->slice.tensor].row->bits / 8;
}

static json_t *key_json(const weft_site *site, const weft_cells *cells, uint32_t number, uint64_t count, uint64_t bytes)
{
    const weft_cell_key *key = &cells->keys[number];
    return json_pack("{s:i, s:i, s:s?, s:i, s:i, s:I, s:I}", "key", (int)number, "experts", (int)key->experts, "cut",
                     key->cut ? site->cuts[key->cut - 1].name : NULL, "part", (int)key->part, "layers",
                     (int)key->layers, "cells", (json_int_t)count, "bytes", (json_int_t)bytes);
}

static json_t *cells_json(const weft_site *site, const weft_layout *layout, const weft_cells *cells)
{
    json_t *keys = json_array();
    for (uint64_t c = 0, next; c < cells->count; c = next) {
        uint64_t bytes = 0;
        for (next = c; next < cells->count && cells->cells[next].key == cells->cells[c].key; next++)
            bytes += cell_bytes(layout, &cells->cells[next]);
        json_array_append_new(keys, key_json(site, cells, cells->cells[c].key, next - c, bytes));
    }
    return json_pack("{s:I, s:o}", "cells", (json_int_t)cells->count, "keys", keys);
}

weft_status weft_check_cells(const weft_site *site, const weft_layout *layout, json_t **cells)
{
    weft_cells made;
    weft_cut *cuts = weft_mem_take(site->cut_count, sizeof *cuts);
    if (!cuts)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu cuts", (ull)site->cut_count);
    weft_site_cuts(site, cuts);
    const weft_status status = weft_cells_open(layout, cuts, (uint32_t)site->cut_count, &made);
    weft_mem_give(cuts);
    if (status != WEFT_OK)
        return status;
    *cells = cells_json(site, layout, &made);
    weft_cells_close(&made);
    return WEFT_OK;
}

/* ---- for people */

static ull number(const json_t *object, const char *key)
{
    return (ull)json_integer_value(json_object_get(object, key));
}

static void print_cut(const json_t *cut)
{
    const char *key;
    json_t *value;
    printf("  %-16s", json_string_value(json_object_get(cut, "name")));
    json_object_foreach((json_t *)cut, key, value)
    {
        if (strcmp(key, "name") != 0)
            printf(" %s=%s", key, weft_output_plain(json_string_value(value)).text);
    }
    putchar('\n');
}

static void print_key(const json_t *key)
{
    const char *cut = json_string_value(json_object_get(key, "cut"));
    printf("  %-6llu", number(key, "key"));
    if (number(key, "experts"))
        printf(" experts group %llu", number(key, "experts"));
    if (cut)
        printf(" cut %s part %llu", cut, number(key, "part"));
    if (number(key, "layers"))
        printf(" layers block %llu", number(key, "layers"));
    if (!cut && !number(key, "experts") && !number(key, "layers"))
        printf(" what no cut names");
    printf(": %llu cells, %.1f MB\n", number(key, "cells"), (double)number(key, "bytes") / 1e6);
}

static void print_cells(const json_t *cells)
{
    const json_t *keys = json_object_get(cells, "keys");
    const size_t count = json_array_size(keys);
    printf("cells: %llu, of %zu keys that rollouts can take\n", number(cells, "cells"), count);
    for (size_t i = 0; i < count && i < KEYS_PRINTED; i++)
        print_key(json_array_get(keys, i));
    if (count > KEYS_PRINTED)
        printf("  and %zu more: --json lists all\n", count - KEYS_PRINTED);
}

void weft_check_cuts_print(const json_t *cuts, const json_t *cells)
{
    size_t index;
    json_t *cut;
    if (json_array_size(cuts) == 0)
        return;
    printf("cuts: %zu\n", json_array_size(cuts));
    json_array_foreach((json_t *)cuts, index, cut) print_cut(cut);
    if (cells)
        print_cells(cells);
}

/* check_sources.c - the holdings of a site's sources, before anything is started. */
#include <stdio.h>

#include "base/mem.h"
#include "base/status.h"
#include "shard/cover.h"
#include "shard/holding.h"
#include "tools/check/check.h"
#include "tools/output.h"
#include "tools/share/holdings.h"

typedef unsigned long long ull;

/* Entries of all sources, as the cover's proof takes them. */
typedef struct parts {
    weft_cell *entries[WEFT_SOURCES_MAX];
    weft_contribution source[WEFT_SOURCES_MAX];
} parts;

static weft_status parts_open(const weft_layout *layout, const weft_cells *cells, const weft_holdings *holdings,
                              parts *made)
{
    weft_status status = WEFT_OK;
    *made = (parts){{0}, {{0}}};
    for (uint32_t r = 0; r < holdings->count && status == WEFT_OK; r++) {
        uint64_t count = 0;
        const weft_trainer_source *source = &holdings->source[r];
        status = weft_holding_open(layout, cells, source->slices, source->slice_count, &made->entries[r], &count);
        if (status != WEFT_OK)
            weft_fail_about("source %u", r);
        made->source[r] = (weft_contribution){made->entries[r], count};
    }
    return status;
}

static void parts_close(parts *made)
{
    for (uint32_t r = 0; r < WEFT_SOURCES_MAX; r++)
        weft_mem_give(made->entries[r]);
}

static weft_status prove_cover(const weft_layout *layout, const weft_cells *cells, const parts *made, uint32_t count)
{
    bool *wanted = weft_mem_take(cells->key_count + 1u, sizeof *wanted);
    if (!wanted)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u keys", cells->key_count);
    for (uint32_t key = 0; key < cells->key_count; key++)
        wanted[key] = true;
    const weft_status status = weft_cover_check(layout, cells, wanted, made->source, count);
    weft_mem_give(wanted);
    return status;
}

static json_t *source_json(const weft_site *site, const weft_layout *layout, const weft_holdings *holdings,
                           const parts *made, uint32_t r)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < holdings->source[r].slice_count; i++)
        bytes += weft_check_slice_bytes(layout, &holdings->source[r].slices[i]);
    return json_pack("{s:I, s:o, s:o, s:I, s:I}", "source", (json_int_t)r, "listen",
                     weft_json_text(site->sources[r].listen), "holding", weft_json_text(site->sources[r].holding),
                     "entries", (json_int_t)made->source[r].count, "bytes", (json_int_t)bytes);
}

static weft_status sources_json(const weft_site *site, const weft_layout *layout, const weft_cells *cells,
                                const weft_holdings *holdings, json_t **sources)
{
    parts made;
    weft_status status = parts_open(layout, cells, holdings, &made);
    if (status == WEFT_OK)
        status = prove_cover(layout, cells, &made, holdings->count);
    if (status == WEFT_OK) {
        *sources = json_array();
        for (uint32_t r = 0; r < holdings->count; r++)
            json_array_append_new(*sources, source_json(site, layout, holdings, &made, r));
    }
    parts_close(&made);
    return status;
}

weft_status weft_check_sources(const weft_site *site, const weft_layout *layout, json_t **sources)
{
    weft_holdings holdings;
    weft_cells cells;
    *sources = NULL;
    weft_status status = weft_holdings_open(site, layout, &holdings);
    if (status == WEFT_OK && holdings.count > 0)
        status = weft_check_cells_open(site, layout, &cells);
    if (status == WEFT_OK && holdings.count > 0) {
        status = sources_json(site, layout, &cells, &holdings, sources);
        weft_cells_close(&cells);
    }
    weft_holdings_close(&holdings);
    return status;
}

void weft_check_sources_print(const json_t *sources)
{
    size_t index;
    json_t *source;
    if (!sources)
        return;
    printf("sources: %zu, which have the model together, each element once\n", json_array_size(sources));
    json_array_foreach((json_t *)sources, index, source)
    {
        printf("  source %zu on %s: %.1f MB in %llu parts, of %s\n", index,
               json_string_value(json_object_get(source, "listen")),
               (double)json_integer_value(json_object_get(source, "bytes")) / 1e6,
               (ull)json_integer_value(json_object_get(source, "entries")),
               weft_output_plain(json_string_value(json_object_get(source, "holding"))).text);
    }
}

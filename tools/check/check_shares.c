/* check_shares.c - what share files come to: slices, bytes, and the keys that a view of them takes. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "model/share_file.h"
#include "tools/check/check.h"
#include "tools/output.h"

#define SLICES_PRINTED 24u

typedef unsigned long long ull;

weft_status weft_check_cells_open(const weft_site *site, const weft_layout *layout, weft_cells *cells)
{
    weft_cut *cuts = weft_mem_take(site->cut_count + 1, sizeof *cuts);
    if (!cuts)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu cuts", (ull)site->cut_count);
    weft_site_cuts(site, cuts);
    const weft_status status = weft_cells_open(layout, cuts, (uint32_t)site->cut_count, cells);
    weft_mem_give(cuts);
    return status;
}

uint64_t weft_check_slice_bytes(const weft_layout *layout, const weft_slice *slice)
{
    return weft_slice_elements(slice) * layout->entries[slice->tensor].row->bits / 8;
}

/* Lists each slice with its bytes. */
static json_t *slices_json(const weft_share *share, uint64_t *bytes, uint64_t *contributed)
{
    json_t *slices = json_array();
    *bytes = *contributed = 0;
    for (uint64_t i = 0; i < share->slice_count; i++) {
        const weft_slice *slice = &share->slices[i];
        const uint64_t each = weft_check_slice_bytes(share->layout, slice);
        *bytes += each;
        *contributed += share->contributed[i] ? each : 0;
        json_array_append_new(slices,
                              json_pack("{s:o, s:I, s:I, s:I, s:I, s:b, s:I}", "tensor",
                                        weft_json_text(share->layout->entries[slice->tensor].tensor.name), "row",
                                        (json_int_t)slice->row, "rows", (json_int_t)slice->rows, "column",
                                        (json_int_t)slice->column, "columns", (json_int_t)slice->columns, "contributes",
                                        share->contributed[i], "bytes", (json_int_t)each));
    }
    return slices;
}

/* Returns the keys that a view of the share takes, or null and the text of the cut that is missing. */
static json_t *keys_json(const weft_share *share, const weft_cells *cells, json_t **missing)
{
    bool *wanted = weft_mem_take((uint64_t)cells->key_count + 1, sizeof *wanted);
    json_t *keys = NULL;
    weft_log_sink *before = weft_log_quiet();
    const weft_status status = wanted ? weft_share_keys(share, cells, wanted) : WEFT_E_MEMORY;
    weft_log_enter(before);
    *missing = status == WEFT_OK ? json_null() : weft_json_text(weft_last_error());
    if (status == WEFT_OK) {
        keys = json_array();
        for (uint32_t k = 0; k < cells->key_count; k++) {
            if (wanted[k])
                json_array_append_new(keys, json_integer(k));
        }
    }
    weft_mem_give(wanted);
    return keys ? keys : json_null();
}

static weft_status share_json(const weft_layout *layout, const weft_cells *cells, const char *path, json_t **made)
{
    weft_share_file file;
    weft_share share;
    weft_status status = weft_share_file_open(path, &file);
    if (status != WEFT_OK)
        return status;
    status = weft_share_open(layout, file.rules, file.count, &share);
    if (status == WEFT_OK) {
        uint64_t bytes, contributed;
        json_t *missing, *slices = slices_json(&share, &bytes, &contributed),
                         *keys = keys_json(&share, cells, &missing);
        *made = json_pack("{s:o, s:o, s:I, s:I, s:o, s:o}", "share", weft_json_text(path), "slices", slices, "bytes",
                          (json_int_t)bytes, "contributed_bytes", (json_int_t)contributed, "keys", keys, "missing_cut",
                          missing);
        weft_share_close(&share);
    } else {
        weft_fail_about("%s", path);
    }
    weft_share_file_close(&file);
    return status;
}

weft_status weft_check_shares(const weft_site *site, const weft_layout *layout, const char *const *paths, size_t count,
                              json_t **shares)
{
    weft_cells cells;
    weft_status status = weft_check_cells_open(site, layout, &cells);
    if (status != WEFT_OK)
        return status;
    *shares = json_array();
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        json_t *share = NULL;
        status = share_json(layout, &cells, paths[i], &share);
        if (status == WEFT_OK)
            json_array_append_new(*shares, share);
    }
    weft_cells_close(&cells);
    return status;
}

/* ---- for people */

static ull number(const json_t *object, const char *key)
{
    return (ull)json_integer_value(json_object_get(object, key));
}

static void print_slice(const json_t *slice)
{
    printf("    %s: rows %llu+%llu, columns %llu+%llu, %llu bytes%s\n",
           weft_output_plain(json_string_value(json_object_get(slice, "tensor"))).text, number(slice, "row"),
           number(slice, "rows"), number(slice, "column"), number(slice, "columns"), number(slice, "bytes"),
           json_is_true(json_object_get(slice, "contributes")) ? "" : ", a replica");
}

static void print_share(const json_t *share)
{
    const json_t *slices = json_object_get(share, "slices"), *keys = json_object_get(share, "keys");
    const size_t count = json_array_size(slices);
    const char *missing = json_string_value(json_object_get(share, "missing_cut"));
    printf("share %s: %zu slices, %.1f MB, %.1f MB contributed",
           weft_output_plain(json_string_value(json_object_get(share, "share"))).text, count,
           (double)number(share, "bytes") / 1e6, (double)number(share, "contributed_bytes") / 1e6);
    if (missing)
        printf("; no view: %s\n", missing);
    else
        printf("; as a view %zu keys\n", json_array_size(keys));
    for (size_t i = 0; i < count && i < SLICES_PRINTED; i++)
        print_slice(json_array_get(slices, i));
    if (count > SLICES_PRINTED)
        printf("    and %zu more: --json lists all\n", count - SLICES_PRINTED);
}

void weft_check_shares_print(const json_t *shares)
{
    size_t index;
    json_t *share;
    json_array_foreach((json_t *)shares, index, share) print_share(share);
}

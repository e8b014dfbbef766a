/* stored.c - opens a store, finds versions by their text, and takes them into memory. */
#include "tools/store/stored.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "model/model.h"

/* ---- the store */

weft_status weft_stored_list(weft_stored *stored)
{
    size_t count = 0;
    weft_status status = weft_store_list(stored->store, NULL, 0, &count);
    weft_store_entry *entries = status == WEFT_OK ? calloc(count + 1, sizeof *entries) : NULL;
    if (status == WEFT_OK && !entries)
        status = weft_fail_quiet(WEFT_E_MEMORY, "no memory for %zu versions", count);
    if (status == WEFT_OK)
        status = weft_store_list(stored->store, entries, count, &count);
    if (status != WEFT_OK) {
        free(entries);
        return status;
    }
    free(stored->entries);
    stored->entries = entries;
    stored->count = count;
    return WEFT_OK;
}

weft_status weft_stored_open(const char *place, bool create, weft_stored *stored)
{
    const weft_store_options options = {.size = sizeof options, .create = create};
    *stored = (weft_stored){0};
    weft_status status = weft_store_open(place, &options, &stored->store);
    return status == WEFT_OK ? weft_stored_list(stored) : status;
}

void weft_stored_close(weft_stored *stored)
{
    weft_store_close(stored->store);
    free(stored->entries);
    *stored = (weft_stored){0};
}

/* ---- versions by their text */

static bool number_read(const char *text, int base, uint64_t *number)
{
    char *end;
    if (!*text || strspn(text, base == 16 ? "0123456789abcdef" : "0123456789") != strlen(text) || strlen(text) > 20)
        return false;
    *number = strtoull(text, &end, base);
    return !*end;
}

static bool version_read(const char *text, weft_version *version)
{
    char run[17] = "";
    *version = (weft_version){0, 0, 0};
    const char *slash = strchr(text, '/');
    if (!slash)
        return number_read(text, 10, &version->number);
    if (slash - text != 16)
        return false;
    memcpy(run, text, 16);
    return number_read(run, 16, &version->run) && number_read(slash + 1, 10, &version->number);
}

weft_status weft_stored_find(const weft_stored *stored, const char *text, weft_version *version)
{
    weft_version wanted;
    if (!version_read(text, &wanted))
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--version %s: need a number, or RUN/NUMBER as weft log prints it",
                               text);
    for (size_t i = stored->count; i-- > 0;) { /* the last run first */
        const weft_version *found = &stored->entries[i].version;
        if (found->number != wanted.number || (wanted.run && found->run != wanted.run))
            continue;
        *version = *found;
        return WEFT_OK;
    }
    return weft_fail_quiet(WEFT_E_MISSING, "--version %s: the store has no such version; weft log lists them", text);
}

/* ---- versions in memory */

weft_status weft_stored_header(const weft_stored *stored, const weft_version *version, weft_stored_model *taken)
{
    weft_status status = weft_store_attachment(stored->store, version, NULL, 0, &taken->header_bytes);
    if (status != WEFT_OK || taken->header_bytes == 0)
        return status;
    taken->header = malloc(taken->header_bytes);
    if (!taken->header)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory for a header of %" PRIu64 " bytes", taken->header_bytes);
    return weft_store_attachment(stored->store, version, taken->header, taken->header_bytes, &taken->header_bytes);
}

weft_status weft_stored_header_make(const weft_stored *stored, const weft_version *version, weft_stored_model *taken)
{
    weft_layout *layout = NULL;
    uint8_t *made = NULL;
    weft_status status = weft_store_layout(stored->store, version, &layout);
    if (status == WEFT_OK)
        status = weft_model_header_make(layout, &made, &taken->header_bytes);
    taken->header = status == WEFT_OK ? malloc(taken->header_bytes) : NULL;
    if (taken->header)
        memcpy(taken->header, made, taken->header_bytes);
    weft_mem_give(made);
    weft_layout_free(layout);
    return status == WEFT_OK && !taken->header ? weft_fail_quiet(WEFT_E_MEMORY, "no memory for a header") : status;
}

static weft_status bits_take(const weft_stored *stored, const weft_version *version, const weft_args *args,
                             weft_stored_model *taken)
{
    uint64_t count;
    const weft_piece *pieces = weft_model_pieces(taken->model, &count);
    weft_offline_bar bar;
    weft_work work = weft_offline_work(args, "read", &bar);
    taken->info.size = sizeof taken->info;
    weft_status status =
        weft_store_apply(stored->store, version, weft_model_layout(taken->model), pieces, count, &work, &taken->info);
    weft_offline_bar_end(&bar);
    return status;
}

weft_status weft_stored_take(const weft_stored *stored, const weft_version *version, const weft_args *args,
                             weft_stored_model *taken)
{
    weft_layout *layout = NULL;
    *taken = (weft_stored_model){0};
    weft_status status = weft_store_layout(stored->store, version, &layout);
    if (status == WEFT_OK)
        status = weft_model_create(layout, &taken->model);
    if (status == WEFT_OK)
        status = weft_stored_header(stored, version, taken);
    if (status == WEFT_OK)
        status = bits_take(stored, version, args, taken);
    weft_layout_free(layout);
    return status;
}

void weft_stored_give(weft_stored_model *taken)
{
    weft_model_close(taken->model);
    free(taken->header);
    *taken = (weft_stored_model){0};
}

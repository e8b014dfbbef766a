#include "store/store.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "journal/journal.h"
#include "layout/layout.h"
#include "update/update_format.h"

typedef unsigned long long ull;

#define ANCHORS 64u

/* ---- open and close */

static weft_status store_make(const char *place, const weft_store_options *options, weft_store *store)
{
    store->name = weft_mem_text(place);
    if (!store->name)
        return weft_fail(WEFT_E_MEMORY, "no memory for a store");
    store->anchors = options->anchors ? options->anchors : ANCHORS;
    weft_status status = strncmp(place, "s3://", 5) == 0
                             ? weft_store_s3_open(place, &store->port, &store->place)
                             : weft_store_folder_open(place, options->create, &store->port, &store->place);
    return status == WEFT_OK ? weft_store_load(store) : status;
}

weft_status weft_store_open(const char *place, const weft_store_options *options, weft_store **store)
{
    weft_store_options own = {0};
    weft_status status = weft_size_check(options, "weft_store_options");
    if (status != WEFT_OK)
        return status;
    if (!place || !*place)
        return weft_fail(WEFT_E_ARGUMENT, "a store needs the path of a folder");
    if (strstr(place, "://") && strncmp(place, "s3://", 5) != 0)
        return weft_fail(WEFT_E_ARGUMENT, "%s: a store is a folder, or s3://BUCKET/PREFIX", place);
    if (options)
        memcpy(&own, options, options->size < sizeof own ? options->size : sizeof own);
    weft_store *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for a store");
    status = store_make(place, &own, made);
    if (status == WEFT_OK)
        *store = made;
    else
        weft_store_close(made);
    return status;
}

void weft_store_close(weft_store *store)
{
    if (!store)
        return;
    if (store->port)
        store->port->close(store->place);
    weft_mem_give(store->versions);
    weft_mem_give(store->name);
    weft_mem_give(store);
}

void weft_store_end(weft_store *store)
{
    if (store->port->end)
        store->port->end(store->place);
}

weft_status weft_store_refresh(weft_store *store)
{
    return weft_store_load(store);
}

/* ---- listing */

static weft_store_entry entry_of(const weft_store_version *v, bool reachable)
{
    const weft_store_file *update = &v->files[WEFT_STORE_UPDATE], *anchor = &v->files[WEFT_STORE_ANCHOR];
    return (weft_store_entry){
        .version = v->version,
        .base = update->base,
        .update_bytes = update->item.bytes,
        .anchor_bytes = anchor->item.bytes,
        .time_s = update->item.bytes ? update->item.time_s : anchor->item.time_s,
        .damaged = update->status != WEFT_OK || anchor->status != WEFT_OK,
        .reachable = reachable,
    };
}

weft_status weft_store_list(const weft_store *store, weft_store_entry *entries, size_t capacity, size_t *count)
{
    bool *reached = weft_mem_take(store->count + 1, sizeof *reached);
    if (!reached)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu versions", (ull)store->count);
    weft_status status = weft_store_reach(store, reached);
    for (uint64_t i = 0; status == WEFT_OK && i < store->count && i < capacity; i++)
        entries[i] = entry_of(&store->versions[i], reached[i]);
    *count = store->count;
    weft_mem_give(reached);
    return status;
}

/* ---- what a version brings along */

static weft_status version_find(const weft_store *store, const weft_version *version, uint64_t *index)
{
    *index = weft_store_find(store, version->run, version->number);
    return *index != WEFT_STORE_NONE
               ? WEFT_OK
               : weft_fail(WEFT_E_MISSING, "%s: version %llu is not there; weft_store_list lists those that are",
                           store->name, (ull)version->number);
}

static weft_status layout_of(weft_store *store, weft_store_file *file, weft_layout **layout)
{
    weft_update_file *update;
    const weft_layout *inside;
    int named;
    weft_status status = weft_store_file_open(store, file, &update);
    if (status != WEFT_OK)
        return status;
    status = weft_update_layout(update, &inside, &named);
    if (status == WEFT_OK)
        *layout = weft_layout_hold((weft_layout *)(uintptr_t)inside);
    weft_update_close(update);
    return status;
}

/* Either file of the version will do, and so will any neighbour of one layout, because a damaged file has none. */
weft_status weft_store_layout(weft_store *store, const weft_version *version, weft_layout **layout)
{
    uint64_t index;
    weft_status status = version_find(store, version, &index);
    if (status != WEFT_OK)
        return status;
    status = weft_fail_quiet(WEFT_E_MISSING, "%s: no whole file tells the tensors of version %llu", store->name,
                             (ull)version->number);
    for (int kind = WEFT_STORE_ANCHOR; kind >= 0 && status != WEFT_OK; kind--)
        if (weft_store_has(&store->versions[index], (weft_store_kind)kind))
            status = layout_of(store, &store->versions[index].files[kind], layout);
    return status;
}

/* Finds the file that tells the attachment of a version: its anchor, or the update that brought one last. */
static weft_store_file *attachment_file(weft_store *store, uint64_t index)
{
    for (; index != WEFT_STORE_NONE; index = store->versions[index].parent) {
        weft_store_version *v = &store->versions[index];
        if (weft_store_has(v, WEFT_STORE_ANCHOR))
            return &v->files[WEFT_STORE_ANCHOR];
        if (weft_store_has(v, WEFT_STORE_UPDATE) && v->files[WEFT_STORE_UPDATE].attached)
            return &v->files[WEFT_STORE_UPDATE];
    }
    return NULL;
}

weft_status weft_store_attachment(weft_store *store, const weft_version *version, void *data, uint64_t capacity,
                                  uint64_t *bytes)
{
    uint64_t index;
    weft_update_file *update;
    weft_status status = version_find(store, version, &index);
    if (status != WEFT_OK)
        return status;
    weft_store_file *file = attachment_file(store, index);
    if (!file)
        return weft_fail(WEFT_E_MISSING, "%s: the file that brought the attachment of version %llu is gone",
                         store->name, (ull)version->number);
    status = weft_store_file_open(store, file, &update);
    if (status != WEFT_OK)
        return status;
    status = weft_update_attachment(update, data, capacity, bytes);
    weft_update_close(update);
    return status;
}

/* store_find.c - finds versions, the files that lead there, and where the chain of these ends. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "store/store.h"

typedef unsigned long long ull;

/* ---- versions */

uint64_t weft_store_find(const weft_store *store, uint64_t run, uint64_t number)
{
    for (uint64_t i = store->count; run == 0 && i-- > 0;)
        if (store->versions[i].version.number == number)
            return i;
    uint64_t low = 0, high = store->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        const weft_version *v = &store->versions[middle].version;
        if (v->run < run || (v->run == run && v->number < number))
            low = middle + 1;
        else
            high = middle;
    }
    const weft_version *v = low < store->count ? &store->versions[low].version : NULL;
    return v && v->run == run && v->number == number ? low : WEFT_STORE_NONE;
}

uint64_t weft_store_find_root(const weft_store *store, uint64_t root, const uint64_t layout[2])
{
    for (uint64_t i = store->count; i-- > 0;) {
        const weft_store_version *v = &store->versions[i];
        for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
            if (weft_store_has(v, (weft_store_kind)kind) && v->version.root == root &&
                memcmp(v->files[kind].layout, layout, sizeof v->files[kind].layout) == 0)
                return i;
    }
    return WEFT_STORE_NONE;
}

/* ---- their files */

bool weft_store_has(const weft_store_version *version, weft_store_kind kind)
{
    return version->files[kind].item.bytes > 0 && version->files[kind].status == WEFT_OK;
}

weft_store_kind weft_store_attached(const weft_store_version *version)
{
    static const weft_store_kind kinds[] = {WEFT_STORE_ANCHOR, WEFT_STORE_UPDATE, WEFT_STORE_TIGHT};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (weft_store_has(version, kinds[i]) && (i == 0 || version->files[kinds[i]].attached))
            return kinds[i];
    return WEFT_STORE_KINDS;
}

uint64_t weft_store_before(const weft_store *store, uint64_t index)
{
    static const weft_store_kind kinds[] = {WEFT_STORE_UPDATE, WEFT_STORE_TIGHT, WEFT_STORE_MERGE};
    const weft_store_version *v = &store->versions[index];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (weft_store_has(v, kinds[i]) && v->start[kinds[i]] != WEFT_STORE_NONE)
            return v->start[kinds[i]];
    return WEFT_STORE_NONE;
}

weft_store_file *weft_store_like(const weft_store *store, uint64_t index)
{
    for (uint64_t i = index; i < store->count; i++)
        for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
            if (weft_store_has(&store->versions[i], (weft_store_kind)kind) &&
                (i == index || store->versions[i].start[kind] == index))
                return &store->versions[i].files[kind];
    return NULL;
}

weft_store_file *weft_store_gap(const weft_store *store, uint64_t index, char text[WEFT_STORE_GAP_MAX])
{
    char name[WEFT_STORE_NAME_MAX];
    for (uint64_t before = index; before != WEFT_STORE_NONE; before = weft_store_before(store, index))
        index = before;
    weft_store_version *v = &store->versions[index];
    for (int kind = 0; kind < WEFT_STORE_KINDS; kind++) {
        weft_store_file *file = &v->files[kind];
        weft_store_name_put(&file->item.name, name);
        snprintf(text, WEFT_STORE_GAP_MAX, "%s cannot be used", name);
        if (file->item.bytes && file->status != WEFT_OK)
            return file;
    }
    const weft_store_file *like = weft_store_like(store, index);
    const weft_version *base = like ? &like->base : &v->version;
    snprintf(text, WEFT_STORE_GAP_MAX, "it goes on from version %llu of run %016llx, which is not there",
             (ull)base->number, (ull)base->run);
    return NULL;
}

weft_status weft_store_gap_say(const weft_store *store, uint64_t index, const char *what)
{
    const ull number = store->versions[index].version.number;
    char gap[WEFT_STORE_GAP_MAX];
    weft_update_file *update = NULL;
    weft_store_file *file = weft_store_gap(store, index, gap);
    const weft_status found = file ? file->status : WEFT_OK;
    const weft_status status = file ? weft_store_file_open(store, file, &update) : WEFT_OK;
    weft_update_close(update);
    return weft_fail(WEFT_E_MISSING, "%s: %s version %llu: %s%s%s", store->name, what, number, gap, file ? ": " : "",
                     !file               ? ""
                     : status == WEFT_OK ? weft_status_name(found)
                                         : weft_last_error());
}

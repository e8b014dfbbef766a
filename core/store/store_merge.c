/* store_merge.c - a few updates as one file, for readers that are behind.
 *
 * Elements that change in each of a few versions are then read once. Merges fall on numbers fixed by rule, alike at all
 * sources. */
#include "base/status.h"
#include "store/store.h"

#define BLOCK 8u /* numbers from one merge to the next */

/* The updates that become one, the oldest first. */
typedef struct merging {
    weft_update_file *updates[BLOCK];
    size_t count;
    const weft_work *work;
} merging;

static const weft_store_version *parent_in_run(const weft_store *store, const weft_store_version *v)
{
    const weft_store_version *parent = v->parent != WEFT_STORE_NONE ? &store->versions[v->parent] : NULL;
    return parent && parent->version.run == v->version.run ? parent : NULL;
}

/* Tells whether merges begin and end at a version: the first of a run, and the first of each block of numbers. */
static bool is_bound(const weft_store *store, const weft_store_version *v)
{
    const weft_store_version *parent = parent_in_run(store, v);
    return !parent || parent->version.number / BLOCK != v->version.number / BLOCK;
}

/* Finds the updates from the bound before. `indices` receives them, the newest first. Returns their number; 0: no merge
 * is due. */
static size_t updates_find(const weft_store *store, uint64_t index, uint64_t indices[BLOCK])
{
    const weft_store_version *v = &store->versions[index];
    size_t count = 0;
    if (!is_bound(store, v) || v->files[WEFT_STORE_MERGE].item.bytes)
        return 0;
    do {
        const weft_store_version *parent = parent_in_run(store, v);
        if (!parent || count == BLOCK || v->files[WEFT_STORE_UPDATE].attached)
            return 0;
        indices[count++] = (uint64_t)(v - store->versions);
        v = parent;
    } while (!is_bound(store, v));
    return count > 1 ? count : 0;
}

static weft_status updates_open(weft_store *store, const uint64_t *indices, size_t count, merging *m)
{
    weft_status status = WEFT_OK;
    for (size_t i = count; i-- > 0 && status == WEFT_OK;) {
        weft_store_file *file = &store->versions[indices[i]].files[WEFT_STORE_UPDATE];
        status = weft_store_file_open(store, file, &m->updates[m->count]);
        m->count += status == WEFT_OK;
    }
    return status;
}

static weft_status merge_fill(void *user, const weft_sink *sink)
{
    const merging *m = user;
    return weft_update_merge(m->updates, m->count, NULL, NULL, 0, NULL, m->work, sink, NULL);
}

weft_status weft_store_merge_put(weft_store *store, uint64_t index, const weft_work *work)
{
    uint64_t indices[BLOCK];
    merging m = {.work = work};
    const size_t count = updates_find(store, index, indices);
    if (count == 0)
        return WEFT_OK;
    weft_status status = updates_open(store, indices, count, &m);
    const bool whole = !weft_store_is_damage(status);
    const weft_version version = store->versions[index].version;
    if (status == WEFT_OK)
        status = weft_store_file_put(store, &version, WEFT_STORE_MERGE, merge_fill, &m);
    while (m.count > 0)
        weft_update_close(m.updates[--m.count]);
    return !whole || (weft_store_is_damage(status) && status != WEFT_E_FILE) ? WEFT_OK : status;
}

/* store_list.c - what a place has: names folded into versions, and the ends of each file. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/mix64.h"
#include "base/status.h"
#include "store/store.h"
#include "update/update_format.h"

typedef unsigned long long ull;

weft_status weft_store_items_add(weft_store_items *items, const weft_store_item *item)
{
    if (items->count == items->capacity) {
        const uint64_t capacity = items->capacity ? 2 * items->capacity : 64;
        weft_store_item *grown = weft_mem_grow(items->items, items->capacity, capacity, sizeof *grown);
        if (!grown)
            return weft_fail(WEFT_E_MEMORY, "no memory for %llu names of files", (ull)capacity);
        items->items = grown;
        items->capacity = capacity;
    }
    items->items[items->count++] = *item;
    return WEFT_OK;
}

/* ---- one file */

static weft_status labels_check(const weft_store_file *file, const weft_update_file *update, const char *name)
{
    const weft_store_name *said = &file->item.name;
    const weft_version *base = &update->header.base, *target = &update->header.target;
    if (target->run != said->run || target->number != said->number)
        return weft_fail_quiet(WEFT_E_CORRUPT,
                               "%s: the file leads to version %llu of run %016llx, and not to the "
                               "version of its name",
                               name, (ull)target->number, (ull)target->run);
    if (said->kind == WEFT_STORE_ANCHOR && (base->run || base->number))
        return weft_fail_quiet(WEFT_E_CORRUPT, "%s: an anchor has no base, and this has version %llu", name,
                               (ull)base->number);
    if (said->kind == WEFT_STORE_MERGE && base->run != target->run)
        return weft_fail_quiet(WEFT_E_CORRUPT, "%s: a merge starts from another run", name);
    if (said->kind != WEFT_STORE_ANCHOR &&
        (base->run > target->run || (base->run == target->run && base->number >= target->number)))
        return weft_fail_quiet(WEFT_E_CORRUPT,
                               "%s: the file starts from version %llu of run %016llx, which is no "
                               "earlier one",
                               name, (ull)base->number, (ull)base->run);
    if (!update->tail.whole)
        return weft_fail_quiet(WEFT_E_CORRUPT, "%s: the file does not name its tensors", name);
    return WEFT_OK;
}

weft_status weft_store_file_open(const weft_store *store, weft_store_file *file, weft_update_file **update)
{
    char name[WEFT_STORE_NAME_MAX];
    *update = NULL;
    weft_store_name_put(&file->item.name, name);
    weft_status status = store->port->open(store->place, name, update);
    if (status == WEFT_OK)
        status = labels_check(file, *update, name);
    if (status == WEFT_OK)
        return WEFT_OK;
    weft_update_close(*update);
    *update = NULL;
    return status;
}

/* Keeps what each key adds to the target's root. */
static weft_status sums_read(weft_store_file *file, const weft_update_file *update)
{
    weft_key_share *shares = NULL;
    uint32_t count = 0;
    weft_status status = weft_update_shares_read(update->cells, update->cells_bytes, &shares, &count);
    if (status != WEFT_OK)
        return status;
    file->sums = weft_mem_take(count + 1u, sizeof *file->sums);
    for (uint32_t i = 0; file->sums && i < count; i++)
        file->sums[i] = (weft_key_sum){shares[i].key, shares[i].target};
    file->sum_count = file->sums ? count : 0;
    weft_mem_give(shares);
    return file->sums ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for the sums of %u keys", count);
}

/* Damage is a fact about the file, which `status` keeps. A server that does not serve says nothing of any file. */
static weft_status ends_read(const weft_store *store, weft_store_file *file)
{
    weft_update_file *update;
    if (file->status != WEFT_AGAIN)
        return WEFT_OK;
    file->status = weft_store_file_open(store, file, &update);
    if (file->status == WEFT_OK && update->tail.divided)
        file->status = sums_read(file, update);
    if (file->status == WEFT_E_MEMORY || file->status == WEFT_E_TIMEOUT) {
        weft_update_close(update);
        return file->status;
    }
    if (file->status == WEFT_OK) {
        file->item.bytes = update->source.bytes;
        file->base = update->header.base;
        file->target = update->header.target;
        memcpy(file->layout, update->header.layout, sizeof file->layout);
        file->attached = update->header.attachment_bytes > 0;
        file->divided = update->tail.divided;
        file->read = true;
    }
    weft_update_close(update);
    return WEFT_OK;
}

/* ---- versions */

static int items_compare(const void *a, const void *b)
{
    const weft_store_name *x = &((const weft_store_item *)a)->name, *y = &((const weft_store_item *)b)->name;
    if (x->sources != y->sources)
        return x->sources < y->sources ? -1 : 1;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    if (x->run != y->run)
        return x->run < y->run ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* An empty file is damaged; its size here is 1, because 0 says that there is none. Nobody has looked at it yet. */
static void item_keep(weft_store_version *version, const weft_store_item *item)
{
    weft_store_file *file = &version->files[item->name.kind];
    file->item = *item;
    file->status = WEFT_AGAIN;
    if (item->bytes == 0)
        file->item.bytes = 1;
}

/* Makes the versions of a listing, which take the place of those before. */
static weft_status versions_fold(weft_store *store, const weft_store_item *items, uint64_t item_count)
{
    weft_store_version *versions = weft_mem_take(item_count + 1, sizeof *versions);
    if (!versions)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu versions", (ull)item_count);
    uint64_t count = 0;
    for (uint64_t i = 0; i < item_count; i++) {
        const weft_store_name *name = &items[i].name;
        const weft_store_version *last = count ? &versions[count - 1] : NULL;
        if (!last || last->version.run != name->run || last->version.number != name->number)
            versions[count++] = (weft_store_version){.version = {name->run, name->number, 0}};
        item_keep(&versions[count - 1], &items[i]);
    }
    store->versions = versions;
    store->count = count;
    store->capacity = item_count + 1;
    return WEFT_OK;
}

/* Finds the version that a file of a kind starts from. */
static uint64_t start_of(const weft_store *store, const weft_store_version *version, weft_store_kind kind)
{
    const weft_version *base = &version->files[kind].base;
    if (!weft_store_has(version, kind))
        return WEFT_STORE_NONE;
    const uint64_t found = base->run ? weft_store_find(store, base->run, base->number) : WEFT_STORE_NONE;
    const bool same = found != WEFT_STORE_NONE && store->versions[found].version.root == base->root;
    return same ? found : WEFT_STORE_NONE;
}

/* A version whose own files are damaged has the root that a later file starts from, so that the way back leads there.
 */
static void base_learn(const weft_store *store, const weft_version *base)
{
    const uint64_t found = base->run ? weft_store_find(store, base->run, base->number) : WEFT_STORE_NONE;
    if (found != WEFT_STORE_NONE && !store->versions[found].version.root)
        store->versions[found].version.root = base->root;
}

/* A version has one root. Where its files differ, the update is taken for right, because a chain needs nothing else. */
static weft_status version_read(const weft_store *store, weft_store_version *version)
{
    weft_status status = WEFT_OK;
    bool known = false;
    for (int kind = 0; kind < WEFT_STORE_KINDS && status == WEFT_OK; kind++) {
        weft_store_file *file = &version->files[kind];
        status = file->item.bytes ? ends_read(store, file) : WEFT_OK;
        if (status != WEFT_OK || !weft_store_has(version, (weft_store_kind)kind))
            continue;
        if (known && file->target.root != version->version.root)
            file->status = WEFT_E_TARGET;
        else
            version->version.root = file->target.root;
        known = true;
        if (file->status == WEFT_OK)
            base_learn(store, &file->base);
    }
    for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
        version->start[kind] = start_of(store, version, (weft_store_kind)kind);
    version->parent = version->start[WEFT_STORE_UPDATE];
    return status;
}

void weft_store_versions_give(weft_store_version *versions, uint64_t count)
{
    for (uint64_t i = 0; versions && i < count; i++)
        for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
            weft_mem_give(versions[i].files[kind].sums);
    weft_mem_give(versions);
}

/* Takes over what was read of files that are as they were, because nothing is overwritten. Both listings have the sums
 * until one goes. */
static void known_take(const weft_store *before, weft_store *store)
{
    for (uint64_t i = 0; i < store->count; i++) {
        weft_store_version *v = &store->versions[i];
        const uint64_t found = weft_store_find(before, v->version.run, v->version.number);
        for (int kind = 0; kind < WEFT_STORE_KINDS && found != WEFT_STORE_NONE; kind++) {
            const weft_store_file *known = &before->versions[found].files[kind];
            if (known->read && known->status == WEFT_OK && known->item.bytes == v->files[kind].item.bytes &&
                known->item.time_s == v->files[kind].item.time_s)
                v->files[kind] = *known;
        }
    }
}

/* Gives back the listing that goes, without the sums that the one that stays has too. */
static void listing_give(const weft_store *stays, weft_store *goes)
{
    for (uint64_t i = 0; i < goes->count; i++) {
        weft_store_version *v = &goes->versions[i];
        const uint64_t found = weft_store_find(stays, v->version.run, v->version.number);
        for (int kind = 0; kind < WEFT_STORE_KINDS && found != WEFT_STORE_NONE; kind++)
            if (v->files[kind].sums == stays->versions[found].files[kind].sums)
                v->files[kind].sums = NULL;
    }
    weft_store_versions_give(goes->versions, goes->count);
}

/* Takes the files of one source. If some cannot be read now, the listing before stays, because half of one tells wrong
 * ways. */
static weft_status items_take(weft_store *store, const weft_store_item *items, uint64_t count)
{
    weft_store before = *store;
    weft_status status = versions_fold(store, items, count);
    if (status != WEFT_OK)
        return status;
    known_take(&before, store);
    status = weft_store_abreast(store, ends_read);
    for (uint64_t i = 0; status == WEFT_OK && i < store->count; i++)
        status = version_read(store, &store->versions[i]);
    if (status == WEFT_OK) {
        listing_give(store, &before);
        return WEFT_OK;
    }
    listing_give(&before, store);
    *store = before;
    return status;
}

/* ---- the place */

/* Finds or makes the store for another source's files. NULL: no memory. */
static weft_store *shelf_take(weft_store *store, uint32_t source, uint32_t sources)
{
    weft_store *shelf = weft_store_source(store, source, sources);
    if (shelf)
        return shelf;
    weft_store **grown = weft_mem_grow(store->shelves, store->shelf_count, store->shelf_count + 1, sizeof(void *));
    if (!grown)
        return NULL;
    store->shelves = grown;
    shelf = weft_mem_take(1, sizeof *shelf);
    if (!shelf)
        return NULL;
    *shelf = (weft_store){.port = store->port,
                          .place = store->place,
                          .name = store->name,
                          .anchors = store->anchors,
                          .source = source,
                          .sources = sources,
                          .whole = store};
    store->shelves[store->shelf_count++] = shelf;
    return shelf;
}

static bool is_of(const weft_store *store, const weft_store_name *name)
{
    return name->source == store->source && name->sources == store->sources;
}

/* Hands the sorted files of each source to its store. A shelf whose files are all gone stays, empty. */
static weft_status sources_part(weft_store *store, const weft_store_items *items)
{
    uint64_t end;
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < store->shelf_count; i++)
        store->shelves[i]->last_run = 0;
    bool own = false;
    for (uint64_t at = 0; status == WEFT_OK && at < items->count; at = end) {
        const weft_store_name *name = &items->items[at].name;
        for (end = at; end < items->count && items->items[end].name.source == name->source &&
                       items->items[end].name.sources == name->sources;)
            end++;
        own = own || is_of(store, name);
        weft_store *taker = is_of(store, name) ? store
                            : store->alone     ? NULL
                                               : shelf_take(store, name->source, name->sources);
        if (!taker && !store->alone)
            return weft_fail(WEFT_E_MEMORY, "no memory for the files of another source");
        if (taker && taker != store)
            taker->last_run = items->items[end - 1].name.run;
        if (taker)
            status = items_take(taker, &items->items[at], end - at);
    }
    if (status == WEFT_OK && !own)
        status = items_take(store, NULL, 0);
    for (uint32_t i = 0; status == WEFT_OK && i < store->shelf_count; i++)
        if (store->shelves[i]->last_run == 0)
            status = items_take(store->shelves[i], NULL, 0);
    return status;
}

/* Returns one word for the names and sizes of sorted files. */
static uint64_t items_word(const weft_store_items *items)
{
    uint64_t word = weft_mix64(items->count + WEFT_PHI);
    for (uint64_t i = 0; i < items->count; i++) {
        const weft_store_name *name = &items->items[i].name;
        const uint64_t parts[] = {name->run, name->number, (uint64_t)name->kind << 32 | name->source, name->sources,
                                  items->items[i].bytes};
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
            word = weft_mix64(word + WEFT_PHI + parts[p]);
    }
    return word;
}

weft_status weft_store_load(weft_store *store)
{
    weft_store_items items = {0};
    if (store->whole)
        return weft_store_load(store->whole);
    weft_status status = store->port->list(store->place, &items);
    if (status == WEFT_OK) {
        if (items.count)
            qsort(items.items, items.count, sizeof *items.items, items_compare);
        store->last_run = 0;
        for (uint64_t i = 0; i < items.count; i++)
            if (items.items[i].name.run > store->last_run)
                store->last_run = items.items[i].name.run;
        status = sources_part(store, &items);
    }
    if (status == WEFT_OK)
        status = weft_store_view_judge(store);
    store->seen = status == WEFT_OK ? items_word(&items) : 0;
    store->others = items.others;
    store->unfinished = items.unfinished;
    weft_mem_give(items.items);
    return status == WEFT_E_TIMEOUT ? WEFT_E_FILE : status; /* all of the place cannot be read */
}

/* ---- after a put */

/* Appends a version. Only a version later than all others is appended, so no index moves. */
static weft_status version_append(weft_store *store, const weft_store_name *name)
{
    if (store->count == store->capacity) {
        const uint64_t capacity = store->capacity ? 2 * store->capacity : 64;
        weft_store_version *grown = weft_mem_grow(store->versions, store->capacity, capacity, sizeof *grown);
        if (!grown)
            return weft_fail(WEFT_E_MEMORY, "no memory for %llu versions", (ull)capacity);
        store->versions = grown;
        store->capacity = capacity;
    }
    store->versions[store->count++] = (weft_store_version){.version = {name->run, name->number, 0}};
    return WEFT_OK;
}

static bool is_last(const weft_store *store, const weft_store_name *name)
{
    const weft_version *last = store->count ? &store->versions[store->count - 1].version : NULL;
    return !last || name->run > last->run || (name->run == last->run && name->number > last->number);
}

weft_status weft_store_note(weft_store *store, const weft_store_name *name)
{
    uint64_t index = weft_store_find(store, name->run, name->number);
    if (index == WEFT_STORE_NONE && !is_last(store, name))
        return weft_store_load(store);
    weft_status status = index == WEFT_STORE_NONE ? version_append(store, name) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    weft_store_version *version = &store->versions[index == WEFT_STORE_NONE ? store->count - 1 : index];
    weft_store_file *file = &version->files[name->kind];
    *file = (weft_store_file){.item = {*name, 1, (uint64_t)time(NULL)}, .status = WEFT_AGAIN};
    status = ends_read(store, file);
    if (status != WEFT_OK || file->status != WEFT_OK)
        return status != WEFT_OK ? status : file->status;
    store->last_run = name->run > store->last_run ? name->run : store->last_run;
    return version_read(store, version);
}

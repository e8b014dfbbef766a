#include "store/store.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "journal/journal.h"
#include "layout/layout.h"
#include "update/update_format.h"

typedef unsigned long long ull;

#define ANCHORS 64u
#define LEFT_S  3600u /* age at which an unfinished file has no writer, where locks do not tell */

/* The place is looked at again after so long, and after more and more while nothing comes, whoever asks how often. */
#define LOOK_FIRST_MS 50u
#define LOOK_LAST_MS  1000u

/* ---- open and close */

/* Whether an object server has the place. */
static bool is_served(const char *place)
{
    return strncmp(place, "s3://", 5) == 0 || strncmp(place, "gs://", 5) == 0;
}

static weft_status store_make(const char *place, const weft_store_options *options, weft_store *store)
{
    store->name = weft_mem_text(place);
    if (!store->name)
        return weft_fail(WEFT_E_MEMORY, "no memory for a store");
    store->anchors = options->anchors ? options->anchors : ANCHORS;
    weft_status status = is_served(place) ? weft_store_s3_open(place, &store->port, &store->place)
                                          : weft_store_folder_open(place, options->create, &store->port, &store->place);
    if (status == WEFT_OK)
        status = weft_store_load(store);
    if (status == WEFT_OK && options->create && store->unfinished) /* a writer opens */
        status = store->port->tidy(store->place, (uint64_t)time(NULL) - LEFT_S);
    return status;
}

static weft_status place_check(const char *place, const weft_store_options *options)
{
    weft_status status = weft_size_check(options, "weft_store_options");
    if (status != WEFT_OK)
        return status;
    if (!place || !*place)
        return weft_fail(WEFT_E_ARGUMENT, "a store needs the path of a folder");
    if (strstr(place, "://") && !is_served(place))
        return weft_fail(WEFT_E_ARGUMENT, "%s: a store is a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX", place);
    return WEFT_OK;
}

static weft_status store_open(const char *place, const weft_store_options *options, const weft_store *like,
                              weft_store **store)
{
    weft_store_options own = {0};
    weft_status status = place_check(place, options);
    if (status != WEFT_OK)
        return status;
    if (options)
        memcpy(&own, options, options->size < sizeof own ? options->size : sizeof own);
    weft_store *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for a store");
    *made = *like;
    made->look_ms = LOOK_FIRST_MS;
    status = store_make(place, &own, made);
    if (status == WEFT_OK)
        *store = made;
    else
        weft_store_close(made);
    return status;
}

weft_status weft_store_open(const char *place, const weft_store_options *options, weft_store **store)
{
    const weft_store like = {.source = 0, .sources = 1};
    return store_open(place, options, &like, store);
}

weft_status weft_store_open_source(const char *place, const weft_store_options *options, uint32_t source,
                                   uint32_t sources, weft_store **store)
{
    const weft_store like = {.source = source, .sources = sources, .alone = true};
    return store_open(place, options, &like, store);
}

void weft_store_close(weft_store *store)
{
    if (!store)
        return;
    weft_alone_last(&store->alone_in, "weft_store_close");
    weft_store_view_give(store);
    for (uint32_t i = 0; i < store->shelf_count; i++) {
        weft_store_versions_give(store->shelves[i]->versions, store->shelves[i]->count);
        weft_mem_give(store->shelves[i]);
    }
    weft_mem_give(store->shelves);
    if (store->port)
        store->port->close(store->place);
    weft_store_versions_give(store->versions, store->count);
    weft_mem_give(store->name);
    weft_mem_give(store);
}

void weft_store_end(weft_store *store)
{
    if (store->port->end)
        store->port->end(store->place);
}

void weft_store_leave(weft_store *store)
{
    if (store->port->leave)
        store->port->leave(store->place);
}

weft_status weft_store_refresh(weft_store *store)
{
    WEFT_ALONE(store, "weft_store_refresh");
    return weft_store_load(store);
}

/* ---- waiting */

/* Returns false if a signal came. *early: somebody wrote, so the time is not over. */
static bool pause_take(const weft_store *store, uint64_t until_ns, bool *early)
{
    const uint64_t now_ns = weft_clock_ns(), left_ms = until_ns > now_ns ? (until_ns - now_ns) / WEFT_NS_PER_MS + 1 : 0;
    *early = false;
    if (!store->port->wait) {
        weft_clock_pass(left_ms * WEFT_NS_PER_MS);
        return true;
    }
    const bool quiet = store->port->wait(store->place, (uint32_t)left_ms);
    *early = weft_clock_ns() < until_ns;
    return quiet;
}

/* Looks for other files. WEFT_AGAIN: there are none, and the next look is later. */
static weft_status look(weft_store *store)
{
    const uint64_t seen = store->seen;
    const bool stirred = !seen || !store->port->stirred || store->port->stirred(store->place);
    const weft_status status = stirred ? weft_store_load(store) : WEFT_OK;
    const bool none = status == WEFT_OK && store->seen == seen;
    if (!none)
        store->look_ms = LOOK_FIRST_MS;
    store->look_ns = weft_clock_ns() + store->look_ms * WEFT_NS_PER_MS;
    if (none)
        store->look_ms = 2 * store->look_ms < LOOK_LAST_MS ? 2 * store->look_ms : LOOK_LAST_MS;
    return none ? WEFT_AGAIN : status;
}

weft_status weft_store_wait(weft_store *store, uint32_t timeout_ms)
{
    WEFT_ALONE(store, "weft_store_wait");
    const uint64_t end_ns = weft_clock_ns() + timeout_ms * WEFT_NS_PER_MS;
    bool now = timeout_ms == 0;
    if (store->port->watch)
        store->port->watch(store->place);
    for (;;) {
        if (now || weft_clock_ns() >= store->look_ns) {
            const weft_status status = look(store);
            if (status != WEFT_AGAIN)
                return status;
        }
        if (weft_clock_ns() >= end_ns || !pause_take(store, end_ns < store->look_ns ? end_ns : store->look_ns, &now))
            return WEFT_AGAIN;
    }
}

/* ---- what a version brings along */

weft_status weft_store_version_find(const weft_store *store, const weft_version *version, uint64_t *index)
{
    *index = weft_store_find(store, version->run, version->number);
    return *index != WEFT_STORE_NONE
               ? WEFT_OK
               : weft_fail(WEFT_E_MISSING, "%s: version %llu is not there; weft_store_list lists those that are",
                           store->name, (ull)version->number);
}

/* Takes the layout of a file, or of the model whose cells the file is of. */
static weft_status layout_of(weft_store *store, weft_store_file *file, bool of_model, weft_layout **layout)
{
    weft_update_file *update;
    const weft_update_cells *cells;
    weft_status status = weft_store_file_open(store, file, &update);
    if (status != WEFT_OK)
        return status;
    status = weft_update_division(update, &cells);
    if (status == WEFT_OK)
        *layout = weft_layout_hold(cells && of_model ? cells->model : update->layout);
    weft_update_close(update);
    return status;
}

/* Any file of the version will do, and any that starts there. */
static weft_status version_layout(weft_store *store, uint64_t index, bool of_model, weft_layout **layout)
{
    weft_store_file *file;
    weft_status status = WEFT_E_MISSING;
    while (status != WEFT_OK && (file = weft_store_like(store, index))) {
        status = layout_of(store, file, of_model, layout);
        if (status != WEFT_OK && !weft_store_is_damage(status))
            return status;
        file->status = status;
    }
    return status == WEFT_OK ? status : weft_store_gap_say(store, index, "no whole file tells the tensors of");
}

weft_status weft_store_file_layout(weft_store *store, const weft_version *version, weft_layout **layout)
{
    uint64_t index;
    const weft_status status = weft_store_version_find(store, version, &index);
    return status == WEFT_OK ? version_layout(store, index, false, layout) : status;
}

weft_status weft_store_layout(weft_store *store, const weft_version *version, weft_layout **layout)
{
    WEFT_ALONE(store, "weft_store_layout");
    weft_store_set set;
    const weft_status status = weft_store_set_find(store, version, &set);
    return status == WEFT_OK ? version_layout(set.shelf[set.first], set.index[set.first], true, layout) : status;
}

/* Reads the attachment out of the file that tells it. A damaged file is gone round. */
static weft_status attachment_read(weft_store *store, uint64_t index, void *data, uint64_t capacity, uint64_t *bytes)
{
    for (;;) {
        uint64_t at;
        weft_update_file *update;
        weft_status status = weft_store_attachment_find(store, index, &at);
        if (status != WEFT_OK)
            return status;
        if (at == WEFT_STORE_NONE)
            return weft_store_gap_say(store, index, "no whole file tells the attachment of");
        weft_store_file *file = &store->versions[at].files[weft_store_attached(&store->versions[at])];
        status = weft_store_file_open(store, file, &update);
        if (status == WEFT_OK)
            status = weft_update_attachment(update, data, capacity, bytes);
        weft_update_close(update);
        if (!weft_store_is_damage(status))
            return status;
        file->status = status;
    }
}

weft_status weft_store_attachment(weft_store *store, const weft_version *version, void *data, uint64_t capacity,
                                  uint64_t *bytes)
{
    WEFT_ALONE(store, "weft_store_attachment");
    weft_store_set set;
    const weft_status status = weft_store_set_find(store, version, &set);
    return status == WEFT_OK ? attachment_read(set.shelf[set.first], set.index[set.first], data, capacity, bytes)
                             : status;
}

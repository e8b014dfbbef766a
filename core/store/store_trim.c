/* store_trim.c - retention: what lies before an anchor may go, and the newest goes first.
 *
 * So whatever moment the removal stops at, all that is left before the gap still hangs together. */
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/status.h"
#include "store/store.h"

static uint64_t bytes_of(const weft_store_version *v)
{
    uint64_t bytes = 0;
    for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
        bytes += v->files[kind].item.bytes;
    return bytes;
}

static uint64_t time_of(const weft_store_version *v)
{
    uint64_t last = 0;
    for (int kind = 0; kind < WEFT_STORE_KINDS; kind++)
        last = v->files[kind].item.time_s > last ? v->files[kind].item.time_s : last;
    return last;
}

/* Finds the oldest version that the bounds let stay. */
static uint64_t oldest_within(const weft_store *store, const weft_store_keep *keep, uint64_t now_s)
{
    uint64_t bytes = 0, i = store->count;
    while (i > 0) {
        const weft_store_version *v = &store->versions[i - 1];
        bytes += bytes_of(v);
        if ((keep->versions && store->count - i >= keep->versions) || (keep->bytes && bytes > keep->bytes) ||
            (keep->age_s && time_of(v) + keep->age_s < now_s))
            break;
        i--;
    }
    return i;
}

/* Finds the last anchor at or before a version; 0 if there is none, so that nothing goes. */
static uint64_t cut_at(const weft_store *store, uint64_t oldest)
{
    for (uint64_t i = oldest < store->count ? oldest + 1 : store->count; i-- > 0;)
        if (weft_store_has(&store->versions[i], WEFT_STORE_ANCHOR))
            return i;
    return 0;
}

/* Tells whether a version that stays is lost without those that would go. */
static bool is_needed(const weft_store *store, uint64_t cut)
{
    bool *now = weft_mem_take(2 * store->count + 1, sizeof *now), *then = now ? now + store->count : NULL;
    bool needed = !now || weft_store_reach(store, 0, now) != WEFT_OK || weft_store_reach(store, cut, then) != WEFT_OK;
    for (uint64_t i = cut; !needed && i < store->count; i++)
        needed = now[i] && !then[i];
    weft_mem_give(now);
    return needed;
}

static weft_status version_remove(weft_store *store, const weft_store_version *v)
{
    weft_status status = WEFT_OK;
    char name[WEFT_STORE_NAME_MAX];
    for (int kind = 0; kind < WEFT_STORE_KINDS && status == WEFT_OK; kind++) {
        if (v->files[kind].item.bytes == 0)
            continue;
        weft_store_name_put(&v->files[kind].item.name, name);
        status = store->port->remove(store->place, name);
    }
    return status;
}

/* Finds the anchor before which all goes: nobody needs what lies there, and nothing there is younger than the grace
 * time. */
static uint64_t cut_find(const weft_store *store, const weft_store_keep *keep, uint64_t now_s, uint64_t before_s)
{
    uint64_t oldest = oldest_within(store, keep, now_s);
    for (uint64_t i = 0; i < oldest; i++)
        if (time_of(&store->versions[i]) > before_s)
            oldest = i;
    uint64_t cut = cut_at(store, oldest);
    while (cut > 0 && is_needed(store, cut))
        cut = cut_at(store, cut - 1);
    return cut;
}

static weft_status versions_remove(weft_store *store, uint64_t cut, uint64_t *removed)
{
    for (uint64_t i = cut; i-- > 0;) {
        const weft_status status = version_remove(store, &store->versions[i]);
        if (status != WEFT_OK)
            return status;
        ++*removed;
    }
    return WEFT_OK;
}

/* Trims the files of each source, which has its part of the bytes. A store that one source alone writes has all of
 * them. Versions count once. */
static weft_status sources_trim(weft_store *store, const weft_store_keep *keep, uint64_t now_s, uint64_t before_s,
                                uint64_t *removed)
{
    weft_status status = WEFT_OK;
    weft_store *each;
    for (uint32_t i = 0; status == WEFT_OK && (each = weft_store_each(store, i)); i++) {
        weft_store_keep own = *keep;
        uint64_t gone = 0;
        if (keep->bytes && !store->alone)
            own.bytes = keep->bytes / each->sources + 1;
        status = versions_remove(each, cut_find(each, &own, now_s, before_s), &gone);
        *removed += each->source == 0 || store->alone ? gone : 0;
    }
    return status;
}

weft_status weft_store_trim(weft_store *store, const weft_store_keep *keep, uint64_t *removed)
{
    WEFT_ALONE(store, "weft_store_trim");
    weft_store_keep own = {0};
    const uint64_t now_s = (uint64_t)time(NULL);
    uint64_t gone = 0;
    if (!keep)
        return weft_fail(WEFT_E_ARGUMENT, "what to keep is not said");
    weft_status status = weft_size_check(keep, "weft_store_keep");
    if (status == WEFT_OK)
        status = weft_store_load(store);
    if (status != WEFT_OK)
        return status;
    memcpy(&own, keep, keep->size < sizeof own ? keep->size : sizeof own);
    const uint64_t before_s = now_s > own.grace_s ? now_s - own.grace_s : 0;
    status = sources_trim(store, &own, now_s, before_s, &gone);
    if (status == WEFT_OK)
        status = store->port->tidy(store->place, before_s);
    if (removed)
        *removed = gone;
    const weft_status loaded = weft_store_load(store);
    return status == WEFT_OK ? loaded : status;
}

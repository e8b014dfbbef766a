/* store_way.c - the way of the fewest bytes to a version.
 *
 * Each version has one parent at most, which is an earlier one, so versions and updates are a forest. A shortest way
 * goes up to the parents, and then down. One sweep from the last version to the first finds all ways up, and one from
 * the first to the last all ways down. */
#include "base/mem.h"
#include "base/status.h"
#include "store/store.h"

typedef unsigned long long ull;

#define FAR UINT64_MAX

/* The best way to one version that is known so far. */
typedef struct station {
    uint64_t bytes;       /* bytes of the way; FAR: none is known */
    uint64_t before;      /* version before; WEFT_STORE_NONE: the way begins here */
    weft_store_step step; /* last step of the way */
    bool held;            /* the way begins here, with the weights as they are */
} station;

static void station_better(station *at, uint64_t bytes, uint64_t before, weft_store_step step)
{
    if (bytes < at->bytes)
        *at = (station){bytes, before, step, false};
}

static void stations_begin(const weft_store *store, const uint64_t *held, station *at)
{
    for (uint64_t i = 0; i < store->count; i++) {
        const weft_store_version *v = &store->versions[i];
        const bool known = weft_store_has(v, WEFT_STORE_UPDATE) || weft_store_has(v, WEFT_STORE_ANCHOR);
        at[i] = (station){.bytes = FAR, .before = WEFT_STORE_NONE};
        if (weft_store_has(v, WEFT_STORE_ANCHOR))
            station_better(&at[i], v->files[WEFT_STORE_ANCHOR].item.bytes, WEFT_STORE_NONE,
                           (weft_store_step){WEFT_STORE_SET, i});
        if (held && known && v->version.root == *held)
            at[i] = (station){.bytes = 0, .before = WEFT_STORE_NONE, .held = true};
    }
}

/* Tells whether the update of a version can be walked. It may have been found damaged on an earlier way. */
static bool is_walkable(const weft_store_version *v)
{
    return v->parent != WEFT_STORE_NONE && weft_store_has(v, WEFT_STORE_UPDATE);
}

static void station_up(const weft_store *store, station *at, uint64_t i)
{
    const weft_store_version *v = &store->versions[i];
    const weft_store_file *update = &v->files[WEFT_STORE_UPDATE];
    if (is_walkable(v) && at[i].bytes != FAR && !update->attached)
        station_better(&at[v->parent], at[i].bytes + update->item.bytes, i, (weft_store_step){WEFT_STORE_BACK, i});
}

static void station_down(const weft_store *store, station *at, uint64_t i)
{
    const weft_store_version *v = &store->versions[i];
    if (is_walkable(v) && at[v->parent].bytes != FAR)
        station_better(&at[i], at[v->parent].bytes + v->files[WEFT_STORE_UPDATE].item.bytes, v->parent,
                       (weft_store_step){WEFT_STORE_FORWARD, i});
}

static station *stations_make(const weft_store *store, const uint64_t *held)
{
    station *at = weft_mem_take(store->count + 1, sizeof *at);
    if (!at) {
        weft_fail(WEFT_E_MEMORY, "no memory for the ways to %llu versions", (ull)store->count);
        return NULL;
    }
    stations_begin(store, held, at);
    for (uint64_t i = store->count; i-- > 0;)
        station_up(store, at, i);
    for (uint64_t i = 0; i < store->count; i++)
        station_down(store, at, i);
    return at;
}

static weft_status way_write(const station *at, uint64_t to, weft_store_way *way)
{
    uint64_t steps = 0;
    for (uint64_t i = to; i != WEFT_STORE_NONE; i = at[i].before)
        steps += !at[i].held;
    *way =
        (weft_store_way){.steps = weft_mem_take(steps + 1, sizeof *way->steps), .count = steps, .bytes = at[to].bytes};
    if (!way->steps)
        return weft_fail(WEFT_E_MEMORY, "no memory for a way of %llu steps", (ull)steps);
    for (uint64_t i = to; i != WEFT_STORE_NONE; i = at[i].before)
        if (!at[i].held)
            way->steps[--steps] = at[i].step;
    return WEFT_OK;
}

weft_status weft_store_way_find(const weft_store *store, const uint64_t *held, uint64_t to, weft_store_way *way)
{
    *way = (weft_store_way){0};
    station *at = stations_make(store, held);
    if (!at)
        return WEFT_E_MEMORY;
    weft_status status = WEFT_OK;
    if (at[to].bytes == FAR)
        status = weft_fail(WEFT_E_MISSING, "%s: no whole files lead to version %llu: weft_store_check names the damage",
                           store->name, (ull)store->versions[to].version.number);
    else
        status = way_write(at, to, way);
    weft_mem_give(at);
    return status;
}

void weft_store_way_close(weft_store_way *way)
{
    weft_mem_give(way->steps);
    *way = (weft_store_way){0};
}

weft_status weft_store_reach(const weft_store *store, bool *reached)
{
    station *at = stations_make(store, NULL);
    if (!at)
        return WEFT_E_MEMORY;
    for (uint64_t i = 0; i < store->count; i++)
        reached[i] = at[i].bytes != FAR;
    weft_mem_give(at);
    return WEFT_OK;
}

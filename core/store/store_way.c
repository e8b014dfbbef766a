/* store_way.c - the way of the fewest bytes to a version, and to the file that tells its attachment.
 *
 * An update, and a merge, leads from an earlier version to a later one, or back. One sweep from the last version to the
 * first finds ways back, and one from the first to the last ways forward. The sweeps are repeated until no way gets
 * better, which is after the first two where nothing is damaged. */
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

static bool station_better(station *at, uint64_t bytes, uint64_t before, weft_store_step step)
{
    if (bytes >= at->bytes)
        return false;
    *at = (station){bytes, before, step, false};
    return true;
}

/* Where ways to the bits of versions begin. */
static void bits_begin(const weft_store *store, const uint64_t *held, station *at)
{
    for (uint64_t i = 0; i < store->count; i++) {
        const weft_store_version *v = &store->versions[i];
        at[i] = (station){.bytes = FAR, .before = WEFT_STORE_NONE};
        if (weft_store_has(v, WEFT_STORE_ANCHOR))
            station_better(&at[i], v->files[WEFT_STORE_ANCHOR].item.bytes, WEFT_STORE_NONE,
                           (weft_store_step){WEFT_STORE_SET, i, WEFT_STORE_ANCHOR});
        if (held && v->version.root && v->version.root == *held)
            at[i] = (station){.bytes = 0, .before = WEFT_STORE_NONE, .held = true};
    }
}

/* Where ways to attachments begin: at the versions whose own files tell them. */
static void attachments_begin(const weft_store *store, station *at)
{
    for (uint64_t i = 0; i < store->count; i++)
        at[i] = (station){.bytes = weft_store_attached(&store->versions[i]) == WEFT_STORE_KINDS ? FAR : 0,
                          .before = WEFT_STORE_NONE};
}

/* Returns the version that a file of a kind starts from. WEFT_STORE_NONE: none that is here, or the file was found
 * damaged on an earlier way. */
static uint64_t start_of(const weft_store_version *v, weft_store_kind kind)
{
    return weft_store_has(v, kind) ? v->start[kind] : WEFT_STORE_NONE;
}

/* No way goes back past version `first`. */
static bool station_back(const weft_store *store, station *at, uint64_t first, uint64_t i, weft_store_kind kind)
{
    const weft_store_file *file = &store->versions[i].files[kind];
    const uint64_t start = start_of(&store->versions[i], kind);
    return start != WEFT_STORE_NONE && start >= first && at[i].bytes != FAR && !file->attached &&
           station_better(&at[start], at[i].bytes + file->item.bytes, i, (weft_store_step){WEFT_STORE_BACK, i, kind});
}

static bool station_forward(const weft_store *store, station *at, uint64_t i, weft_store_kind kind)
{
    const weft_store_file *file = &store->versions[i].files[kind];
    const uint64_t start = start_of(&store->versions[i], kind);
    return start != WEFT_STORE_NONE && at[start].bytes != FAR &&
           station_better(&at[i], at[start].bytes + file->item.bytes, start,
                          (weft_store_step){WEFT_STORE_FORWARD, i, kind});
}

static bool stations_sweep(const weft_store *store, station *at, uint64_t first)
{
    bool better = false;
    for (uint64_t i = store->count; i-- > first;) {
        better |= station_back(store, at, first, i, WEFT_STORE_UPDATE);
        better |= station_back(store, at, first, i, WEFT_STORE_MERGE);
    }
    for (uint64_t i = first; i < store->count; i++) {
        better |= station_forward(store, at, i, WEFT_STORE_UPDATE);
        better |= station_forward(store, at, i, WEFT_STORE_MERGE);
        better |= station_forward(store, at, i, WEFT_STORE_TIGHT);
    }
    return better;
}

/* Finds the ways to the bits of versions, or to their attachments. */
static station *stations_make(const weft_store *store, const uint64_t *held, uint64_t first, bool attachments)
{
    station *at = weft_mem_take(store->count + 1, sizeof *at);
    if (!at) {
        weft_fail(WEFT_E_MEMORY, "no memory for the ways to %llu versions", (ull)store->count);
        return NULL;
    }
    if (attachments)
        attachments_begin(store, at);
    else
        bits_begin(store, held, at);
    for (uint64_t i = 0; i < first; i++)
        at[i].bytes = FAR;
    while (stations_sweep(store, at, first))
        ;
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
    station *at = stations_make(store, held, 0, false);
    if (!at)
        return WEFT_E_MEMORY;
    weft_status status = WEFT_OK;
    if (at[to].bytes == FAR)
        status = weft_store_gap_say(store, to, "no whole files lead to");
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

weft_status weft_store_reach(const weft_store *store, uint64_t first, bool *reached)
{
    station *at = stations_make(store, NULL, first, false);
    if (!at)
        return WEFT_E_MEMORY;
    for (uint64_t i = 0; i < store->count; i++)
        reached[i] = at[i].bytes != FAR;
    weft_mem_give(at);
    return WEFT_OK;
}

weft_status weft_store_attachment_find(const weft_store *store, uint64_t index, uint64_t *found)
{
    station *at = stations_make(store, NULL, 0, true);
    if (!at)
        return WEFT_E_MEMORY;
    *found = at[index].bytes != FAR ? index : WEFT_STORE_NONE;
    while (*found != WEFT_STORE_NONE && at[*found].before != WEFT_STORE_NONE)
        *found = at[*found].before;
    weft_mem_give(at);
    return WEFT_OK;
}

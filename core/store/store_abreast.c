/* store_abreast.c - looks at the ends of many files, several at once, because each look waits for a server. */
#include "base/lanes.h"
#include "base/status.h"
#include "store/store.h"

typedef struct looking {
    weft_store *store;
    weft_status (*read)(const weft_store *store, weft_store_file *file);
} looking;

static weft_store_file *file_at(const weft_store *store, uint64_t number)
{
    return &store->versions[number / WEFT_STORE_KINDS].files[number % WEFT_STORE_KINDS];
}

/* True if nobody looked at the file yet. */
static bool is_left(const weft_store_file *file)
{
    return file->item.bytes && file->status == WEFT_AGAIN;
}

/* A stretch ends after a file that is left, or with the last file. */
static uint64_t stretch_end(void *user, uint64_t from)
{
    const looking *l = user;
    const uint64_t count = l->store->count * WEFT_STORE_KINDS;
    while (from < count && !is_left(file_at(l->store, from)))
        from++;
    return from < count ? from + 1 : count;
}

static weft_status file_look(void *user, const weft_lane_turn *turn)
{
    const looking *l = user;
    weft_store_file *file = file_at(l->store, turn->end - 1);
    return is_left(file) ? l->read(l->store, file) : WEFT_OK;
}

/* Returns the files that nobody looked at, up to so many. */
static uint32_t files_left(const weft_store *store, uint32_t most)
{
    uint32_t left = 0;
    for (uint64_t i = 0; i < store->count * WEFT_STORE_KINDS && left < most; i++)
        left += is_left(file_at(store, i));
    return left;
}

weft_status weft_store_abreast(weft_store *store, weft_status (*read)(const weft_store *store, weft_store_file *file))
{
    looking l = {.store = store, .read = read};
    const weft_lane_work work = {
        .count = store->count * WEFT_STORE_KINDS, .stretch = stretch_end, .work = file_look, .user = &l, .heard = true};
    const uint32_t files = files_left(store, store->port->abreast ? store->port->abreast : 1);
    weft_lanes lanes;
    weft_status status = files == 0 ? WEFT_OK : weft_lanes_open(&lanes, files);
    if (status != WEFT_OK)
        status = weft_lanes_open(&lanes, 1); /* one by one does as well */
    if (files == 0 || status != WEFT_OK)
        return status;
    status = weft_lanes_run(&lanes, &work);
    weft_lanes_close(&lanes);
    return status;
}

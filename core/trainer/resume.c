/* resume.c - versions of a store, brought into the journal when weights of the store are bound.
 *
 * A trainer that comes back has lost its journal, and its peers hold versions of the run before. The store has what
 * leads from these to the bound weights. The journal is one row of updates, so the row goes back from the bound version
 * to the oldest, forward to the latest, and back to the bound version. Whoever holds one of them takes the merge of all
 * that is behind it, in which each step there and back comes to nothing. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "trainer/publish.h"
#include "trainer/recorder.h"
#include "update/update_cursor.h"

typedef unsigned long long ull;

#define ROOM_SHARE 6u   /* files may have one byte in so many of the journal's: each goes in twice, and unpacked */
#define SIDE_MOST  120u /* versions before the bound one, and versions after it, at most */

/* One version on the way. */
typedef struct stop {
    uint64_t index;        /* in the store */
    weft_blob *attachment; /* NULL: none */
} stop;

typedef struct resume {
    weft_publisher *publisher;
    weft_store *store;
    const weft_version *bound;
    weft_blob *attachment;         /* of the bound version */
    stop stops[2 * SIDE_MOST + 1]; /* versions, rising */
    uint32_t count, at;            /* at: the bound one */
    weft_unpacker unpacker;
} resume;

static const weft_layout *layout_of(const resume *r)
{
    return r->publisher->session->layout;
}

/* ---- the versions */

/* Tells whether the update of a version leads from its parent, for this layout. */
static bool leads(const resume *r, uint64_t index)
{
    const weft_store_version *v = &r->store->versions[index];
    return v->parent != WEFT_STORE_NONE && weft_store_has(v, WEFT_STORE_UPDATE) &&
           memcmp(v->files[WEFT_STORE_UPDATE].layout, layout_of(r)->hash, sizeof layout_of(r)->hash) == 0;
}

static uint64_t bytes_of(const resume *r, uint64_t index)
{
    return r->store->versions[index].files[WEFT_STORE_UPDATE].item.bytes;
}

/* Finds the last version that the bound one leads to. */
static uint64_t latest(const resume *r, uint64_t bound)
{
    for (uint64_t last = r->store->count - 1; last > bound; last--) {
        uint64_t at = last;
        while (at != WEFT_STORE_NONE && at > bound && leads(r, at))
            at = r->store->versions[at].parent;
        if (at == bound)
            return last;
    }
    return bound;
}

/* Puts the versions from the bound one to the latest into `after`, falling, and returns their number. What has no room
 * is left out at the latest's end. */
static uint32_t after_find(const resume *r, uint64_t bound, uint64_t *room, uint64_t after[SIDE_MOST])
{
    uint64_t steps = 0, at = latest(r, bound);
    for (uint64_t i = at; i != bound; i = r->store->versions[i].parent)
        steps++;
    for (; steps > SIDE_MOST; steps--)
        at = r->store->versions[at].parent;
    uint32_t count = 0;
    for (; at != bound; at = r->store->versions[at].parent)
        after[count++] = at;
    uint32_t fit = 0;
    while (fit < count && bytes_of(r, after[count - 1 - fit]) <= *room)
        *room -= bytes_of(r, after[count - 1 - fit++]);
    memmove(after, after + (count - fit), fit * sizeof *after);
    return fit;
}

static void stops_find(resume *r, uint64_t bound)
{
    uint64_t after[SIDE_MOST], before[SIDE_MOST], room = r->publisher->journal.arena.bytes / ROOM_SHARE;
    const uint32_t later = after_find(r, bound, &room, after);
    uint32_t earlier = 0;
    for (uint64_t at = bound; earlier < SIDE_MOST && leads(r, at) && bytes_of(r, at) <= room;) {
        room -= bytes_of(r, at);
        at = r->store->versions[at].parent;
        before[earlier++] = at;
    }
    for (uint32_t i = 0; i < earlier; i++)
        r->stops[r->count++].index = before[earlier - 1 - i];
    r->at = r->count;
    r->stops[r->count++].index = bound;
    for (uint32_t i = 0; i < later; i++)
        r->stops[r->count++].index = after[later - 1 - i];
}

static weft_status attachment_read(const resume *r, const weft_version *version, weft_blob **blob)
{
    uint64_t bytes = 0;
    weft_status status = weft_store_attachment(r->store, version, NULL, 0, &bytes);
    if (status != WEFT_OK || bytes == 0)
        return status == WEFT_E_MISSING ? WEFT_OK : status;
    void *data = weft_mem_take(bytes, 1);
    if (data)
        status = weft_store_attachment(r->store, version, data, bytes, &bytes);
    if (data && status == WEFT_OK)
        *blob = weft_blob_make(data, bytes);
    weft_mem_give(data);
    return status != WEFT_OK || *blob
               ? status
               : weft_fail(WEFT_E_MEMORY, "no memory for an attachment of %llu bytes", (ull)bytes);
}

static weft_status attachments_read(resume *r)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < r->count && status == WEFT_OK; i++) {
        const weft_store_version *v = &r->store->versions[r->stops[i].index];
        if (i > 0 && !v->files[WEFT_STORE_UPDATE].attached)
            r->stops[i].attachment = weft_blob_hold(r->stops[i - 1].attachment);
        else
            status = attachment_read(r, &v->version, &r->stops[i].attachment);
    }
    return status;
}

/* ---- one step: an update, forward or back */

/* Appends a frame to the update's chain, as the journal has frames: not packed. */
static weft_status frame_append(resume *r, weft_update *update, const weft_frame *frame, bool back)
{
    weft_recorder *recorder = r->publisher->recorder;
    weft_arena *arena = &r->publisher->journal.arena;
    weft_chain *chain = &update->chain[WEFT_JOURNAL_LEVEL];
    const uint32_t bytes = WEFT_FRAME_HEADER_BYTES + frame->header.payload_bytes;
    weft_frame_sink sink = weft_chain_sink(arena, chain);
    if (sink.capacity < bytes && !weft_journal_join(&r->publisher->journal, WEFT_JOURNAL_LEVEL, chain, bytes) &&
        !weft_chain_extend(arena, chain))
        return weft_fail(WEFT_E_BUDGET, "no room; raise [trainer] journal");
    sink = weft_chain_sink(arena, chain);
    if (back) {
        weft_invert_job job = {.layout = layout_of(r), .frame = *frame, .bytes = sink.data};
        weft_status status = weft_backend_wait(recorder->backend, recorder->device,
                                               recorder->backend->invert(recorder->device, &job), &job);
        if (status != WEFT_OK)
            return status;
    } else {
        weft_frame_write_header(sink.data, &frame->header);
        memcpy(sink.data + WEFT_FRAME_HEADER_BYTES, frame->payload, frame->header.payload_bytes);
    }
    weft_chain_note(arena, chain, frame->header.unit, bytes);
    chain->staged_bytes += weft_staging_need(frame->header.changed, layout_of(r)->units[frame->header.unit].width);
    update->changed += frame->header.changed;
    return WEFT_OK;
}

static weft_status frames_read(resume *r, const weft_update_file *file, bool back, weft_update *update)
{
    weft_update_cursor cursor;
    weft_status status = weft_update_cursor_open(&cursor, file, layout_of(r));
    uint64_t bytes = 1, used;
    while (status == WEFT_OK && bytes > 0) {
        const uint8_t *data;
        weft_frame frame;
        status = weft_update_cursor_next(&cursor, UINT64_MAX, &data, &bytes);
        if (status == WEFT_OK && bytes > 0)
            status = weft_planes_admit(&r->unpacker, layout_of(r), data, bytes, &frame, &used);
        if (status == WEFT_OK && bytes > 0)
            status = frame_append(r, update, &frame, back);
    }
    if (status == WEFT_OK)
        status = weft_update_cursor_finish(&cursor);
    weft_update_cursor_close(&cursor);
    return status;
}

/* Brings the shadow to the update's target, proves it, and takes the update in. */
static weft_status update_take(resume *r, weft_update *update)
{
    weft_publisher *publisher = r->publisher;
    const weft_layout *layout = layout_of(r);
    weft_status status = weft_shadow_follow(publisher, &update->chain[WEFT_JOURNAL_LEVEL]);
    if (status != WEFT_OK)
        return status;
    for (uint64_t part = 0; part < layout->part_count; part++)
        publisher->newest.digests[part] += publisher->encoding.discard[part];
    const uint64_t root = weft_digest_parts_root(layout, publisher->newest.digests);
    if (root != update->target.root)
        return weft_fail(WEFT_E_TARGET, "version %llu comes out as %016llx, and is %016llx", (ull)update->target.number,
                         (ull)root, (ull)update->target.root);
    weft_blob_hold(update->attachment);
    publisher->newest.order = weft_journal_append(&publisher->journal, update)->order;
    weft_history_append(&publisher->history, publisher->encoding.discard, layout->part_count);
    return WEFT_OK;
}

/* Goes from stop `from` to its neighbour `to`. The last step ends at the bound version by its new name. */
static weft_status step(resume *r, uint32_t from, uint32_t to, bool last)
{
    const bool back = to < from;
    const uint64_t index = r->stops[back ? from : to].index;
    weft_store_file *file = &r->store->versions[index].files[WEFT_STORE_UPDATE];
    weft_update update = {.base = r->store->versions[r->stops[from].index].version,
                          .target = last ? *r->bound : r->store->versions[r->stops[to].index].version,
                          .published_ns = weft_clock_ns(),
                          .attachment = last ? r->attachment : r->stops[to].attachment,
                          .levels = 1u << WEFT_JOURNAL_LEVEL};
    weft_update_file *opened;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        weft_chain_begin(&update.chain[level]);
    weft_status status = weft_store_file_open(r->store, file, &opened);
    if (status != WEFT_OK)
        return status;
    update.parameters = opened->header.parameters;
    status = opened->header.level == WEFT_JOURNAL_LEVEL ? frames_read(r, opened, back, &update)
                                                        : weft_fail(WEFT_E_ARGUMENT, "an update of another level");
    if (status == WEFT_OK)
        status = update_take(r, &update);
    if (status != WEFT_OK)
        weft_chain_free(&r->publisher->journal.arena, &update.chain[WEFT_JOURNAL_LEVEL]);
    weft_update_close(opened);
    return status;
}

static weft_status steps(resume *r)
{
    const uint32_t end = r->count - 1;
    weft_status status = WEFT_OK;
    for (uint32_t i = r->at; i > 0 && status == WEFT_OK; i--)
        status = step(r, i, i - 1, false);
    for (uint32_t i = 0; i < end && status == WEFT_OK; i++)
        status = step(r, i, i + 1, i + 1 == end && end == r->at);
    for (uint32_t i = end; i > r->at && status == WEFT_OK; i--)
        status = step(r, i, i - 1, i - 1 == r->at);
    return status;
}

/* ---- all */

static void journal_empty(weft_journal *journal)
{
    while (weft_journal_oldest(journal))
        weft_journal_drop(journal);
}

static weft_status give_up(weft_publisher *publisher, weft_status why)
{
    weft_log(WEFT_LOG_WARN, "store: who holds a version of the run before gets a snapshot: %s",
             why == WEFT_E_DEVICE ? "the device failed" : weft_last_error());
    journal_empty(&publisher->journal);
    return weft_shadow_again(publisher);
}

weft_status weft_resume(weft_publisher *publisher, const weft_version *bound, weft_blob *attachment)
{
    weft_store *store = publisher->recorder->store;
    journal_empty(&publisher->journal); /* of a binding that failed */
    const uint64_t index = weft_store_find_root(store, bound->root, publisher->session->layout->hash);
    if (index == WEFT_STORE_NONE)
        return WEFT_OK;
    resume *r = weft_mem_take(1, sizeof *r);
    if (!r)
        return weft_fail(WEFT_E_MEMORY, "no memory to take versions out of a store");
    *r = (resume){.publisher = publisher, .store = store, .bound = bound, .attachment = attachment};
    stops_find(r, index);
    weft_status status = weft_unpacker_open(&r->unpacker);
    if (status == WEFT_OK)
        status = attachments_read(r);
    if (status == WEFT_OK)
        status = steps(r);
    if (status == WEFT_OK)
        weft_log(WEFT_LOG_INFO, "store: the weights are version %llu; %u versions before and %u after lead to them",
                 (ull)store->versions[index].version.number, r->at, r->count - 1 - r->at);
    else
        status = give_up(publisher, status);
    for (uint32_t i = 0; i < r->count; i++)
        weft_blob_drop(r->stops[i].attachment);
    weft_unpacker_close(&r->unpacker);
    weft_mem_give(r);
    return status;
}

/* append.c - the frames of an update, on their way from the encoder into the journal. */
#include "trainer/publish.h"

static void frame_count(weft_append_blocks *count, const weft_arena *arena, uint32_t length)
{
    const uint64_t bytes = length + sizeof(weft_index_entry);
    if (count->left < bytes) {
        count->blocks++;
        count->left = arena->block_bytes;
    }
    count->left -= bytes;
}

uint64_t weft_append_need(const weft_append *append)
{
    uint64_t blocks = 0;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        blocks += append->count[level].blocks;
    return blocks * append->publisher->journal.arena.block_bytes;
}

/* Appends a frame to the chain of its level. If the journal has no room the version goes without frames, and peers get
 * it as a snapshot. */
static weft_status frame_append(void *user, weft_level level, const uint8_t *bytes, uint32_t length)
{
    weft_append *append = user;
    weft_update *update = append->update;
    weft_publisher *publisher = append->publisher;
    weft_arena *arena = &publisher->journal.arena;
    weft_chain *chain = &update->chain[level];
    weft_frame frame;
    frame_count(&append->count[level], arena, length);
    if (update->snapshot_only)
        return WEFT_OK;
    weft_status status = weft_frame_admit(publisher->session->layout, bytes, length, &frame);
    if (status != WEFT_OK)
        return status;
    weft_frame_sink sink = weft_chain_sink(arena, chain);
    if (sink.capacity < length) {
        if (!weft_journal_join(&publisher->journal, level, chain, length) && !weft_eviction_extend(publisher, chain)) {
            update->snapshot_only = true; /* what is there stays for the way back, should a later run fail */
            return WEFT_OK;
        }
        sink = weft_chain_sink(arena, chain);
    }
    weft_frame_copies_add(&publisher->encoding.copies, bytes, sink.data,
                          weft_chain_place(arena, chain, frame.header.unit, length));
    chain->staged_bytes +=
        weft_staging_need(frame.header.changed, publisher->session->layout->units[frame.header.unit].width);
    return WEFT_OK;
}

static weft_status frames_show(void *user, uint64_t unit)
{
    const weft_append *append = user;
    (void)unit;
    weft_eager_show(append->publisher, append->update);
    return WEFT_OK;
}

static void frames_settle(void *user)
{
    const weft_append *append = user;
    weft_frame_copies_end(&append->publisher->encoding.copies);
}

/* Lets the shadow take a run's new bits, because its frame is in the chain and leads back. */
static bool shadow_follows(void *user, uint64_t unit)
{
    const weft_append *append = user;
    if (!append->update->snapshot_only)
        weft_shadow_takes(append->publisher, unit);
    return !append->update->snapshot_only;
}

/* The shadow is copied from the weights once more where there are no frames, or where a device may fail to decode
 * frames. Then the weights are not free yet. */
static void weights_read(void *user, bool follows)
{
    weft_append *append = user;
    const bool decodes = append->publisher->shadow.kind == WEFT_MEMORY_DEVICE && !follows;
    if (!append->update->snapshot_only && !decodes)
        weft_append_weights_free(append);
}

void weft_append_weights_free(weft_append *append)
{
    const weft_session *session = append->publisher->session;
    const weft_publish_options *given = append->given;
    if (append->free || !given->weights_free)
        return;
    append->free = true;
    weft_backend_release(session->backend, session->device);
    given->weights_free(given->user);
    weft_backend_hold(session->backend, session->device);
}

void weft_append_take(weft_append *append, weft_encode_pass *pass)
{
    const weft_publisher *publisher = append->publisher;
    pass->emit = frame_append;
    pass->settle = publisher->encoding.copies.list ? frames_settle : NULL;
    pass->moved = frames_show;
    pass->read = weights_read;
    pass->follow = publisher->shadow.kind == WEFT_MEMORY_DEVICE ? shadow_follows : NULL;
    pass->user = append;
}

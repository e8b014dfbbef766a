/* eager.c - lets an update go out while it is encoded.
 *
 * The update takes its place in the journal's ring with its first frames, and peers that stand at the newest version
 * begin it then. Frames are written outside the session's lock, and under the lock peers learn step by step how much
 * they may read. A sealed update is one of the journal like any other. A withdrawn one leaves the ring, and what writes
 * under way still read of it is kept apart. */
#include <string.h>

#include "base/status.h"
#include "peer/peer.h"
#include "trainer/publish.h"

/* Bytes or time that come together before frames are let out, because the lock is not taken for less. */
#define STEP_BYTES (256u << 10)
#define STEP_NS    WEFT_NS_PER_MS

static uint64_t bytes_of(const weft_update *update)
{
    uint64_t bytes = 0;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (update->levels >> level & 1)
            bytes += update->chain[level].bytes;
    return bytes;
}

static void begin(weft_publisher *publisher, const weft_update *update)
{
    weft_journal *journal = &publisher->journal;
    weft_eager_give_up(publisher, false);
    weft_eviction_make_place(publisher);
    weft_update *place = weft_journal_place(journal);
    *place = *update;
    place->order = journal->next;
    place->from = journal->next - 1;
    publisher->eager.update = place;
    publisher->session->woken = true;
}

void weft_eager_show(weft_publisher *publisher, const weft_update *update)
{
    weft_eager *early = &publisher->eager;
    weft_session *session = publisher->session;
    uint64_t bytes = bytes_of(update), now_ns = weft_clock_ns();
    if (early->shown_bytes == 0 && early->shown_ns == 0)
        early->shown_ns = now_ns;
    bool due = bytes - early->shown_bytes >= STEP_BYTES || now_ns - early->shown_ns >= STEP_NS;
    if (!due || bytes == early->shown_bytes || pthread_mutex_trylock(&session->lock) != 0)
        return;
    weft_log_sink *before = weft_log_enter(&session->sink);
    if (!early->update)
        begin(publisher, update);
    memcpy(early->update->chain, update->chain, sizeof update->chain);
    early->shown_bytes = bytes;
    early->shown_ns = now_ns;
    const bool wanted = session->woken || early->update->readers;
    weft_session_leave(session, before);
    if (wanted) /* not under the lock, because the thread that wakes wants the lock at once */
        weft_session_nudge(session);
}

static void forget(weft_eager *early)
{
    early->update = NULL;
    early->shown_bytes = early->shown_ns = 0;
}

void weft_eager_seal(weft_publisher *publisher, const weft_update *update)
{
    weft_eager *early = &publisher->eager;
    forget(early);
    weft_eager_give_up(publisher, false);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++) {
        bool there = update->levels >> level & 1;
        early->bytes[level] = there ? update->chain[level].bytes : 0;
        early->staged[level] = there ? update->chain[level].staged_bytes : update->snapshot_only ? UINT64_MAX : 0;
    }
}

/* ---- withdrawn */

static void free_frames(weft_journal *journal, weft_update *update)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (update->levels >> level & 1)
            weft_chain_free(&journal->arena, &update->chain[level]);
    update->levels = 0;
}

bool weft_eager_give_up(weft_publisher *publisher, bool read)
{
    weft_update *withdrawn = &publisher->eager.withdrawn;
    if (!withdrawn->levels || (withdrawn->readers && !read))
        return false;
    weft_eviction_of_readers(publisher->peers, withdrawn);
    free_frames(&publisher->journal, withdrawn);
    return true;
}

/* Keeps the frames of a withdrawn update, because writes under way go on reading them where they are. */
static void keep_apart(weft_publisher *publisher, const weft_update *place, weft_update *update)
{
    weft_update *withdrawn = &publisher->eager.withdrawn;
    weft_eager_give_up(publisher, true);
    *withdrawn = *update;
    withdrawn->readers = place->readers;
    withdrawn->attachment = NULL;
    for (uint32_t i = 0; i < publisher->peers->count; i++) {
        weft_peer *peer = &publisher->peers->list[i];
        for (uint32_t slot = 0; slot < WEFT_SLOTS_MAX; slot++)
            if (peer->sender.flights.list[slot].update == place)
                peer->sender.flights.list[slot].update = withdrawn;
        if (peer->sender.posting.update == place)
            peer->sender.posting.update = withdrawn;
    }
    update->levels = 0;
}

/* Tells the peers that have begun the update that it is withdrawn. Relays speak for their followers. */
static void tell_withdrawn(weft_peer_table *peers, const weft_update *place)
{
    for (uint32_t i = 0; i < peers->count; i++) {
        weft_peer *peer = &peers->list[i];
        if (!peer->connection.greeted || peer->feed.update != place)
            continue;
        weft_status status = weft_feed_withdraw(peers, peer);
        if (status != WEFT_OK)
            weft_peer_lose(peers, peer, status, weft_last_error());
    }
}

void weft_eager_withdraw(weft_publisher *publisher, weft_update *update)
{
    weft_log_sink *before = weft_session_enter(publisher->session);
    weft_update *place = publisher->eager.update;
    forget(&publisher->eager);
    if (place) {
        tell_withdrawn(publisher->peers, place);
        if (place->readers)
            keep_apart(publisher, place, update);
        memset(place, 0, sizeof *place);
        weft_session_wake(publisher->session);
    }
    free_frames(&publisher->journal, update);
    weft_session_leave(publisher->session, before);
}

/* ---- peers */

/* bridge_make.c - the bridge's thread: takes the oldest wish, pins its sources, and has it made outside the lock. */
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"
#include "base/thread.h"
#include "peer/peer.h"
#include "peer/rebuild.h"

/* Niceness of the thread. SCHED_IDLE would not do: the thread holds the session's lock for moments, and an idle thread
 * that was put aside in one would keep all others out for long. */
#define NICENESS 10

#define PREFAULT_REST_MS 100u

#define PERSONAL_SHARE 4u /* one block in so many of the bridge's is kept for what serves one peer alone */

static void unpin(weft_bridge *bridge)
{
    for (uint64_t i = 0; bridge->pinned && i < bridge->source_count; i++)
        bridge->sources[i].update->pins--;
    bridge->pinned = false;
}

void weft_bridge_break(weft_bridge *bridge, const weft_update *update)
{
    if (update->pins == 0)
        return;
    bridge->broken = true;
    unpin(bridge);
}

/* Returns where a merge begins in the chain of an update. */
static weft_bridge_source source_of(weft_bridge *bridge, weft_update *update, const weft_catch_up *catch_up)
{
    const weft_chain *chain = &update->chain[WEFT_LEVEL_FAST];
    weft_bridge_source source = {.bridge = bridge, .update = update, .run_shift = update->parameters.run_shift};
    source.cursor = weft_cursor_seek(&bridge->publisher->journal.arena, chain, weft_bridge_start_of(bridge, catch_up));
    if (catch_up->limits)
        source.unit_limit = catch_up->limits[update->order % WEFT_JOURNAL_UPDATES];
    return source;
}

/* Pins the updates that lead from the entry's base to the newest version, all of them or none. */
static bool pin(weft_bridge *bridge, const weft_bridged *entry)
{
    weft_publisher *publisher = bridge->publisher;
    uint64_t to = entry->catch_up.to ? entry->catch_up.to : publisher->newest.order;
    bridge->source_count = 0;
    for (uint64_t order = entry->update.from; order < to;) {
        weft_update *update = weft_journal_after(&publisher->journal, order);
        if (!update || bridge->source_count == WEFT_JOURNAL_UPDATES)
            return false;
        bridge->sources[bridge->source_count++] = source_of(bridge, update, &entry->catch_up);
        order = update->order;
    }
    for (uint64_t i = 0; i < bridge->source_count; i++)
        bridge->sources[i].update->pins++;
    bridge->pinned = bridge->source_count > 0;
    return bridge->pinned;
}

/* Names the versions that the entry leads from and to. Returns the bytes of its sources. */
static uint64_t head(weft_bridge *bridge, weft_update *update)
{
    const weft_update *first = bridge->sources[0].update;
    const weft_update *last = bridge->sources[bridge->source_count - 1].update;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < bridge->source_count; i++)
        bytes += bridge->sources[i].update->chain[WEFT_LEVEL_FAST].bytes;
    update->base = first->base;
    update->target = last->target;
    update->from = first->from;
    update->order = last->order;
    update->published_ns = last->published_ns;
    update->attachment = weft_blob_hold(last->attachment);
    return bytes;
}

static void measure(weft_bridge *bridge, const weft_bridged *entry, uint64_t bytes, uint64_t begun_ns)
{
    const weft_update *update = &entry->update;
    double *speed = &bridge->speed[entry->level];
    weft_stats_info *stats = &bridge->publisher->session->stats;
    double ms = weft_clock_ms(begun_ns, weft_clock_ns());
    if (ms > 0)
        *speed += ((double)bytes * 1e3 / ms - *speed) / 4;
    stats->merges++;
    stats->merge_ms = ms;
    weft_log(WEFT_LOG_DEBUG, "merged: versions %llu to %llu in one of %llu bytes %s, of %llu, in %.1f ms",
             (unsigned long long)update->base.number, (unsigned long long)update->target.number,
             (unsigned long long)update->chain[entry->level].bytes, weft_level_name(entry->level),
             (unsigned long long)bytes, ms);
}

/* Remembers the failure, so that the same is not tried again at once. */
static void fail(weft_bridge *bridge, weft_bridged *entry, weft_status status)
{
    const weft_bridged was = *entry;
    weft_bridge_release(bridge, entry);
    entry->state = WEFT_BRIDGED_FAILED;
    entry->level = was.level;
    entry->turn = was.turn;
    entry->repair.count = was.repair.count;
    entry->catch_up = was.catch_up;
    entry->update.from = was.update.from;
    entry->update.order = bridge->publisher->newest.order;
    weft_log(WEFT_LOG_DEBUG, "no %s update at level %s: %s", was.repair.count ? "repairing" : "merged",
             weft_level_name(was.level),
             bridge->broken            ? "broken off"
             : status == WEFT_E_BUDGET ? "no room, or not all versions are kept"
                                       : weft_last_error());
}

/* Returns the blocks that the work may have. A peer that never commits keeps a merged update in its slots for ever. So
 * a part of the share is out of reach for merged updates. Tiles of snapshots and repairs find room there, because their
 * peers take them without a commit of their own. */
static uint32_t limit_of(const weft_bridge *bridge, const weft_bridged *entry)
{
    bool personal = entry->repair.count > 0 || entry->catch_up.limits;
    uint32_t kept = bridge->share > 1 ? (bridge->share + PERSONAL_SHARE - 1) / PERSONAL_SHARE : 0;
    return personal ? bridge->share : bridge->share - kept;
}

/* Appends the frame of one unit. On the bridge's thread, without the lock. */
static weft_status append_unit(weft_bridge *bridge, weft_update *update, uint64_t unit)
{
    uint32_t bytes;
    weft_status status = weft_rebuild_frame(bridge->rebuilder, update->order, unit, &bytes);
    if (status != WEFT_OK)
        return status;
    update->changed += bridge->publisher->session->layout->units[unit].count;
    return weft_bridge_append(bridge, update, WEFT_LEVEL_FULL, bridge->frame, bytes);
}

/* Makes a repair: its units with absolute values. */
static weft_status make_repair(weft_bridge *bridge, weft_update *update, const weft_wire_repair *repair)
{
    weft_status status = WEFT_OK;
    weft_chain_begin(&update->chain[WEFT_LEVEL_FULL]);
    update->levels = 1u << WEFT_LEVEL_FULL;
    for (uint32_t i = 0; i < repair->count; i++)
        for (uint32_t n = 0; n < repair->range[i].units && status == WEFT_OK; n++) {
            status = append_unit(bridge, update, (uint64_t)repair->range[i].first + n);
            if (status == WEFT_OK)
                status = weft_bridge_pause(bridge);
        }
    return status;
}

void weft_bridge_make(weft_bridge *bridge, weft_bridged *entry)
{
    weft_session *session = bridge->publisher->session;
    weft_status status = WEFT_E_BUDGET;
    uint64_t begun_ns = weft_clock_ns(), bytes = 0;
    entry->state = WEFT_BRIDGED_MAKING;
    bridge->limit = limit_of(bridge, entry);
    if (entry->repair.count) {
        bridge->broken = bridge->stopping;
        bridge->source_count = 0;
        pthread_mutex_unlock(&session->lock);
        status = make_repair(bridge, &entry->update, &entry->repair);
        pthread_mutex_lock(&session->lock);
    } else if (pin(bridge, entry)) {
        bridge->broken = bridge->stopping;
        bytes = head(bridge, &entry->update);
        pthread_mutex_unlock(&session->lock);
        status = entry->level == WEFT_LEVEL_TIGHT ? weft_bridge_tighten(bridge, &entry->update)
                                                  : weft_bridge_merge(bridge, &entry->update, &entry->catch_up);
        pthread_mutex_lock(&session->lock);
        unpin(bridge);
    }
    if (status == WEFT_OK && !bridge->broken) {
        entry->state = WEFT_BRIDGED_READY;
        if (!entry->repair.count)
            measure(bridge, entry, bytes, begun_ns);
    } else {
        fail(bridge, entry, status);
    }
    weft_session_wake(session);
    weft_session_changed(session);
}

static weft_bridged *next_wanted(weft_bridge *bridge)
{
    weft_bridged *first = NULL;
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &bridge->entries[i];
        if (entry->state == WEFT_BRIDGED_WANTED && (!first || entry->turn < first->turn))
            first = entry;
    }
    return first;
}

/* Has some memory ready for updates to come, off the lock; but not right after an update, whose peers want the
 * processors. */
static void prefault(weft_bridge *bridge)
{
    pthread_mutex_t *lock = &bridge->publisher->session->lock;
    const uint64_t from_ns = bridge->expected_ns + PREFAULT_REST_MS * WEFT_NS_PER_MS;
    if (weft_clock_ns() < from_ns && !bridge->publisher->publishing) {
        const struct timespec t = {(time_t)(from_ns / 1000000000u), (long)(from_ns % 1000000000u)};
        pthread_cond_timedwait(&bridge->wake, lock, &t);
        return;
    }
    const uint32_t ahead = bridge->ahead;
    pthread_mutex_unlock(lock);
    weft_arena_prefault(&bridge->publisher->journal.arena, ahead);
    pthread_mutex_lock(lock);
}

static void *run(void *argument)
{
    weft_bridge *bridge = argument;
    weft_session *session = bridge->publisher->session;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICENESS); /* may be refused: the thread works all the same */
    weft_log_enter(&session->sink);
    pthread_mutex_lock(&session->lock);
    while (!bridge->stopping) {
        weft_bridged *entry = next_wanted(bridge);
        if (entry)
            weft_bridge_make(bridge, entry);
        else if (weft_arena_bare(&bridge->publisher->journal.arena, bridge->ahead) > 0)
            prefault(bridge);
        else
            pthread_cond_wait(&bridge->wake, &session->lock);
    }
    pthread_mutex_unlock(&session->lock);
    return NULL;
}

/* If the caller owns the clock there is no thread, and what is wanted is made at once. */
weft_status weft_bridge_start(weft_bridge *bridge)
{
    weft_status status = weft_rebuilder_bind(bridge->rebuilder, &bridge->publisher->shadow.binding);
    if (status != WEFT_OK || weft_clock_own || bridge->running)
        return status;
    bridge->running = true;
    int error = weft_thread_start(&bridge->thread, run, bridge);
    bridge->running = error == 0;
    return error ? weft_fail(WEFT_E_SYSTEM, "no thread to merge updates: %s", strerror(error)) : WEFT_OK;
}

void weft_bridge_stop(weft_bridge *bridge)
{
    if (!bridge->running)
        return;
    pthread_mutex_lock(&bridge->publisher->session->lock);
    bridge->stopping = bridge->broken = true;
    pthread_cond_signal(&bridge->wake);
    weft_session_changed(bridge->publisher->session); /* the thread may wait for a publish to be done with the shadow */
    pthread_mutex_unlock(&bridge->publisher->session->lock);
    pthread_join(bridge->thread, NULL); /* `running` stays, so what is wanted from now on stays wanted */
}

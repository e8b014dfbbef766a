#include "bridge.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mem.h"
#include "peer.h"
#include "rebuild.h"
#include "status.h"
#include "thread.h"

/* Niceness of the thread. Not SCHED_IDLE: it holds the session's lock for moments, and an idle thread that was put
 * aside in one would keep everybody out for long. */
#define NICENESS 10
/* How fast merging is taken to be until it was measured. */
#define SPEED_FIRST       100e6
#define SPEED_FIRST_TIGHT 25e6

/* ---- open and close */

weft_status weft_bridge_open(weft_trainer *trainer)
{
    const weft_session *session = trainer->session;
    weft_bridge *bridge = &trainer->bridge;
    const weft_backend_options options = {(int)session->site->trainer.device, session->site->trainer.kernels, 0};
    pthread_condattr_t monotonic;
    bridge->trainer = trainer;
    bridge->share = trainer->journal.arena.block_count / WEFT_BRIDGE_SHARE;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        bridge->speed[level] = level == WEFT_LEVEL_TIGHT ? SPEED_FIRST_TIGHT : SPEED_FIRST;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&bridge->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bridge->entries = weft_mem_take(WEFT_BRIDGE_ENTRIES, sizeof *bridge->entries);
    bridge->sources = weft_mem_take(WEFT_JOURNAL_UPDATES, sizeof *bridge->sources);
    bridge->merge_sources = weft_mem_take(WEFT_JOURNAL_UPDATES, sizeof *bridge->merge_sources);
    bridge->frame = weft_mem_take(session->layout->largest_frame + 1, 1);
    if (!bridge->entries || !bridge->sources || !bridge->merge_sources || !bridge->frame)
        return weft_fail(WEFT_E_MEMORY, "no memory for merged updates");
    weft_status status = session->backend->open(&options, &bridge->device);
    bridge->rebuilder = weft_mem_take(1, sizeof *bridge->rebuilder);
    if (status == WEFT_OK)
        status = bridge->rebuilder ? weft_rebuilder_open(bridge->rebuilder, session->layout)
                                   : weft_fail(WEFT_E_MEMORY, "no memory to rebuild versions");
    if (status == WEFT_OK)
        status = weft_encoder_open(&bridge->encoder, session->backend, &options, bridge->device, session->layout, 1);
    return status == WEFT_OK ? weft_merger_open(&bridge->merger, session->backend, bridge->device, session->layout,
                                                WEFT_RUN_SHIFT_MAX)
                             : status;
}

void weft_bridge_close(weft_trainer *trainer)
{
    weft_bridge *bridge = &trainer->bridge;
    if (!bridge->trainer)
        return;
    if (bridge->merger.backend)
        weft_merger_close(&bridge->merger);
    weft_encoder_close(&bridge->encoder);
    if (bridge->rebuilder)
        weft_rebuilder_close(bridge->rebuilder);
    weft_mem_give(bridge->rebuilder);
    if (bridge->device)
        trainer->session->backend->close(bridge->device);
    for (uint32_t i = 0; bridge->entries && i < WEFT_BRIDGE_ENTRIES; i++)
        weft_blob_drop(bridge->entries[i].update.attachment);
    weft_mem_give(bridge->frame);
    weft_mem_give(bridge->merge_sources);
    weft_mem_give(bridge->sources);
    weft_mem_give(bridge->entries);
    pthread_cond_destroy(&bridge->wake);
}

uint64_t weft_bridge_bytes(const weft_bridge *bridge)
{
    return WEFT_BRIDGE_ENTRIES * sizeof *bridge->entries +
           WEFT_JOURNAL_UPDATES * (sizeof *bridge->sources + sizeof *bridge->merge_sources) +
           bridge->merger.room.capacity + bridge->merger.sink.capacity + 3 * bridge->rebuilder->dense_bytes +
           bridge->rebuilder->changes.capacity * 20ull;
}

/* ---- what is wanted */

static void release(weft_bridge *bridge, weft_bridged *entry)
{
    weft_arena *arena = &bridge->trainer->journal.arena;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (entry->update.levels >> level & 1)
            bridge->blocks -= weft_chain_free(arena, &entry->update.chain[level]);
    weft_blob_drop(entry->update.attachment);
    *entry = (weft_bridged){0};
}

/* It serves one peer, whose stream waits for it. */
static bool personal(const weft_bridged *entry)
{
    return entry->repair.count > 0 || entry->catch_up.limits;
}

static bool idle(const weft_bridged *entry)
{
    return entry->state == WEFT_BRIDGED_FAILED || (entry->state == WEFT_BRIDGED_READY && entry->update.readers == 0);
}

/* Whether a peer may go on with it. */
static bool needed(const weft_trainer *trainer, const weft_bridged *entry)
{
    for (uint32_t i = 0; i < trainer->peer_count; i++) {
        const weft_peer *peer = &trainer->peers[i];
        bool wants = personal(entry) ? peer->stream.made == entry && peer->stream.made_turn == entry->turn
                                     : weft_stream_stands_at(peer, entry->update.from);
        if (peer->greeted && wants)
            return true;
    }
    return false;
}

void weft_bridge_sweep(weft_trainer *trainer)
{
    weft_bridge *bridge = &trainer->bridge;
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &bridge->entries[i];
        bool current = entry->update.order == trainer->newest_order && !personal(entry);
        bool over = entry->state == WEFT_BRIDGED_WANTED || (idle(entry) && !current);
        bool stale = entry->state == WEFT_BRIDGED_FAILED && !current && !personal(entry);
        if (stale || (over && !needed(trainer, entry)))
            release(bridge, entry);
    }
}

bool weft_bridge_yield(weft_trainer *trainer)
{
    weft_bridge *bridge = &trainer->bridge;
    weft_bridged *oldest = NULL;
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &bridge->entries[i];
        if (entry->state == WEFT_BRIDGED_READY && idle(entry) && (!personal(entry) || !needed(trainer, entry)) &&
            (!oldest || entry->turn < oldest->turn))
            oldest = entry;
    }
    if (oldest)
        release(bridge, oldest);
    return oldest != NULL;
}

uint32_t weft_bridge_claim(const weft_bridge *bridge)
{
    uint32_t has = atomic_load(&bridge->blocks);
    return has < bridge->share ? bridge->share - has : 0;
}

static weft_bridged *take_entry(weft_trainer *trainer)
{
    weft_bridged *failed = NULL;
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &trainer->bridge.entries[i];
        if (entry->state == WEFT_BRIDGED_FREE)
            return entry;
        failed = entry->state == WEFT_BRIDGED_FAILED ? entry : failed;
    }
    if (failed) {
        release(&trainer->bridge, failed);
        return failed;
    }
    return weft_bridge_yield(trainer) ? take_entry(trainer) : NULL;
}

/* ---- making */

static void unpin(weft_bridge *bridge)
{
    for (uint64_t i = 0; bridge->pinned && i < bridge->source_count; i++)
        bridge->sources[i].update->pins--;
    bridge->pinned = false;
}

void weft_bridge_break(weft_trainer *trainer, const weft_update *update)
{
    if (update->pins == 0)
        return;
    trainer->bridge.broken = true;
    unpin(&trainer->bridge);
}

/* Where a merge begins in a chain of its sources. */
static weft_bridge_source source_of(weft_bridge *bridge, weft_update *update, const weft_catch_up *catch_up)
{
    const weft_chain *chain = &update->chain[WEFT_LEVEL_FAST];
    weft_bridge_source source = {.bridge = bridge, .update = update, .run_shift = update->parameters.run_shift};
    source.cursor = weft_cursor_seek(&bridge->trainer->journal.arena, chain, catch_up->unit);
    if (catch_up->limits)
        source.unit_limit = catch_up->limits[update->order % WEFT_JOURNAL_UPDATES];
    return source;
}

/* Pins the updates that lead from the entry's base to the newest version, all of them or none. */
static bool pin(weft_bridge *bridge, const weft_bridged *entry)
{
    weft_trainer *trainer = bridge->trainer;
    uint64_t to = entry->catch_up.to ? entry->catch_up.to : trainer->newest_order;
    bridge->source_count = 0;
    for (uint64_t order = entry->update.from; order < to;) {
        weft_update *update = weft_journal_after(&trainer->journal, order);
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

/* What is said of an update: from where to where. */
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
    weft_stats_info *stats = &bridge->trainer->session->stats;
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

/* Remembered, so that it is not tried again at once. */
static void fail(weft_bridge *bridge, weft_bridged *entry, weft_status status)
{
    const weft_bridged was = *entry;
    release(bridge, entry);
    entry->state = WEFT_BRIDGED_FAILED;
    entry->level = was.level;
    entry->turn = was.turn;
    entry->repair.count = was.repair.count;
    entry->catch_up = was.catch_up;
    entry->update.from = was.update.from;
    entry->update.order = bridge->trainer->newest_order;
    weft_log(WEFT_LOG_DEBUG, "no %s update at level %s: %s", was.repair.count ? "repairing" : "merged",
             weft_level_name(was.level),
             bridge->broken            ? "broken off"
             : status == WEFT_E_BUDGET ? "no room, or not all versions are kept"
                                       : weft_last_error());
}

/* Under the lock, which it leaves meanwhile. */
static void make(weft_bridge *bridge, weft_bridged *entry)
{
    weft_session *session = bridge->trainer->session;
    weft_status status = WEFT_E_BUDGET;
    uint64_t begun_ns = weft_clock_ns(), bytes = 0;
    entry->state = WEFT_BRIDGED_MAKING;
    if (entry->repair.count) {
        bridge->broken = bridge->stopping;
        bridge->source_count = 0;
        pthread_mutex_unlock(&session->lock);
        status = weft_repair_make(bridge, &entry->update, &entry->repair);
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

static void *run(void *argument)
{
    weft_bridge *bridge = argument;
    weft_session *session = bridge->trainer->session;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICENESS); /* refused or not, it works */
    weft_log_enter(&session->sink);
    pthread_mutex_lock(&session->lock);
    while (!bridge->stopping) {
        weft_bridged *entry = next_wanted(bridge);
        if (entry)
            make(bridge, entry);
        else
            pthread_cond_wait(&bridge->wake, &session->lock);
    }
    pthread_mutex_unlock(&session->lock);
    return NULL;
}

/* With a clock of the caller's own there is no thread: what is wanted is made at once. */
weft_status weft_bridge_start(weft_trainer *trainer)
{
    weft_bridge *bridge = &trainer->bridge;
    weft_status status = weft_rebuilder_bind(bridge->rebuilder, &trainer->shadow);
    if (status != WEFT_OK || weft_clock_own || bridge->running)
        return status;
    bridge->running = true;
    int error = weft_thread_start(&bridge->thread, run, bridge);
    bridge->running = error == 0;
    return error ? weft_fail(WEFT_E_SYSTEM, "no thread to merge updates: %s", strerror(error)) : WEFT_OK;
}

void weft_bridge_stop(weft_trainer *trainer)
{
    weft_bridge *bridge = &trainer->bridge;
    if (!bridge->running)
        return;
    pthread_mutex_lock(&trainer->session->lock);
    bridge->stopping = bridge->broken = true;
    pthread_cond_signal(&bridge->wake);
    weft_session_changed(trainer->session); /* it may wait for a publish to be done with the shadow */
    pthread_mutex_unlock(&trainer->session->lock);
    pthread_join(bridge->thread, NULL); /* still said to be running: what is wanted from now on stays wanted */
}

static bool serves(const weft_bridged *entry, uint64_t from, weft_level level)
{
    return entry->state != WEFT_BRIDGED_FREE && !personal(entry) && entry->update.from == from && entry->level == level;
}

/* The finished update that leads furthest; else what is under way; else what failed. */
static weft_bridged *find(weft_bridge *bridge, uint64_t from, weft_level level)
{
    weft_bridged *found = NULL;
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &bridge->entries[i];
        if (!serves(entry, from, level))
            continue;
        bool ready = entry->state == WEFT_BRIDGED_READY, other = found && found->state == WEFT_BRIDGED_READY;
        if (!found || (ready && (!other || entry->update.order > found->update.order)))
            found = entry;
    }
    return found;
}

static void begin(weft_bridge *bridge, weft_bridged *entry)
{
    entry->state = WEFT_BRIDGED_WANTED;
    entry->turn = ++bridge->turns;
    if (bridge->running)
        pthread_cond_signal(&bridge->wake);
    else
        make(bridge, entry);
}

weft_bridged *weft_bridge_repair(weft_trainer *trainer, uint64_t order, const weft_wire_repair *repair)
{
    weft_bridged *entry = take_entry(trainer);
    const weft_update *next = weft_journal_at(&trainer->journal, order + 1);
    const weft_update *own = weft_journal_at(&trainer->journal, order);
    bool newest = order == trainer->newest_order;
    if (!entry || (!newest && !next))
        return NULL;
    *entry = (weft_bridged){.level = WEFT_LEVEL_FULL, .repair = *repair};
    entry->update.base = (weft_version){0, 0, repair->root};
    entry->update.target = newest ? trainer->newest : next->base;
    entry->update.from = WEFT_ORDER_UNKNOWN;
    entry->update.order = order;
    entry->update.attachment = weft_blob_hold(newest ? trainer->attachment : own ? own->attachment : NULL);
    begin(&trainer->bridge, entry);
    return entry;
}

weft_bridged *weft_bridge_catch_up(weft_trainer *trainer, uint64_t from, uint64_t to, uint64_t unit,
                                   const uint32_t *limits)
{
    weft_bridged *entry = take_entry(trainer);
    if (!entry)
        return NULL;
    *entry = (weft_bridged){
        .level = WEFT_LEVEL_FAST, .update = {.from = from}, .catch_up = {.limits = limits, .to = to, .unit = unit}};
    begin(&trainer->bridge, entry);
    return entry;
}

weft_status weft_bridge_want(weft_trainer *trainer, uint64_t from, weft_level level, weft_update **update)
{
    weft_bridge *bridge = &trainer->bridge;
    weft_bridged *entry = find(bridge, from, level);
    if (!entry) {
        entry = take_entry(trainer);
        if (!entry)
            return WEFT_E_BUDGET;
        *entry = (weft_bridged){.level = level, .update = {.from = from}};
        begin(bridge, entry);
    }
    if (entry->state == WEFT_BRIDGED_WANTED || entry->state == WEFT_BRIDGED_MAKING)
        return WEFT_AGAIN;
    if (entry->state == WEFT_BRIDGED_FAILED)
        return WEFT_E_BUDGET;
    *update = &entry->update;
    return WEFT_OK;
}

#include "peer/bridge.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "base/status.h"
#include "peer/peer.h"
#include "peer/rebuild.h"

/* Speed of merging in bytes a second, until it was measured. */
#define SPEED_FIRST       100e6
#define SPEED_FIRST_TIGHT 25e6

/* ---- memory for the next updates */

/* The kernel clears a page at its first use, which took a virtual machine two milliseconds a megabyte. The bridge's
 * thread uses pages ahead, so that publish does not wait for them until the journal was once full. */

/* One part of the weights in so many is the size that the first update is taken to have. */
#define FIRST_PART 64u

/* Updates, as large as the largest so far, that the thread is ahead by. */
#define UPDATES_AHEAD 2u

static void be_ahead(weft_bridge *bridge, uint64_t blocks)
{
    const uint32_t most = bridge->publisher->journal.arena.block_count;
    uint32_t wanted = blocks < most ? (uint32_t)blocks : most;
    if (bridge->ahead < wanted)
        bridge->ahead = wanted;
}

void weft_bridge_expect(weft_bridge *bridge, const weft_update *update)
{
    uint64_t blocks = 0;
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (update->levels >> level & 1)
            blocks += update->chain[level].bytes / bridge->publisher->journal.arena.block_bytes + 1;
    be_ahead(bridge, UPDATES_AHEAD * blocks);
    bridge->expected_ns = update->published_ns;
}

/* ---- open and close */

static weft_mem_list memory_of(weft_bridge *bridge, const weft_layout *layout)
{
    return (weft_mem_list){
        {WEFT_MEM_TAKEN(bridge->entries, WEFT_BRIDGE_ENTRIES), WEFT_MEM_TAKEN(bridge->sources, WEFT_JOURNAL_UPDATES),
         WEFT_MEM_TAKEN(bridge->merge_sources, WEFT_JOURNAL_UPDATES),
         WEFT_MEM_TAKEN(bridge->frame, layout->largest_frame + 1), WEFT_MEM_TAKEN(bridge->rebuilder, 1)}};
}

uint64_t weft_bridge_need(const weft_layout *layout)
{
    return weft_mem_list_bytes(memory_of(&(weft_bridge){0}, layout)) + weft_rebuilder_need(layout) +
           weft_encoder_need(layout, 1, 1) + weft_merger_need(layout, WEFT_RUN_SHIFT_MAX);
}

weft_status weft_bridge_open(weft_publisher *publisher)
{
    const weft_session *session = publisher->session;
    weft_bridge *bridge = &publisher->bridge;
    const weft_backend_options options = {-1, session->site->trainer.kernels, 0, 0};
    pthread_condattr_t monotonic;
    bridge->publisher = publisher;
    bridge->share = publisher->journal.arena.block_count / WEFT_BRIDGE_SHARE;
    be_ahead(&publisher->bridge, session->layout->bytes / FIRST_PART / publisher->journal.arena.block_bytes + 1);
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        bridge->speed[level] = level == WEFT_LEVEL_TIGHT ? SPEED_FIRST_TIGHT : SPEED_FIRST;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&bridge->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bridge->backend = weft_backend_find("host"); /* because it reads frames, and copies of the shadow */
    weft_status status = weft_mem_list_take(memory_of(bridge, session->layout), "for merged updates");
    if (status == WEFT_OK)
        status = bridge->backend->open(&options, &bridge->device);
    const weft_rebuilder_owner owner = {publisher,     bridge->backend,  bridge->device,
                                        bridge->frame, &bridge->running, &bridge->broken};
    if (status == WEFT_OK)
        status = weft_rebuilder_open(bridge->rebuilder, &owner);
    if (status == WEFT_OK)
        status = weft_encoder_open(&bridge->encoder, bridge->backend, &options, bridge->device, session->layout, 1);
    return status == WEFT_OK
               ? weft_merger_open(&bridge->merger, bridge->backend, bridge->device, session->layout, WEFT_RUN_SHIFT_MAX)
               : status;
}

void weft_bridge_close(weft_bridge *bridge)
{
    if (!bridge->publisher)
        return;
    if (bridge->merger.backend)
        weft_merger_close(&bridge->merger);
    weft_encoder_close(&bridge->encoder);
    if (bridge->rebuilder)
        weft_rebuilder_close(bridge->rebuilder);
    if (bridge->device)
        bridge->backend->close(bridge->device);
    for (uint32_t i = 0; bridge->entries && i < WEFT_BRIDGE_ENTRIES; i++)
        weft_blob_drop(bridge->entries[i].update.attachment);
    weft_mem_list_give(memory_of(bridge, bridge->publisher->session->layout));
    pthread_cond_destroy(&bridge->wake);
}

/* ---- what is wanted */

void weft_bridge_amend(weft_bridge *bridge, const weft_version *version)
{
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_version *target = &bridge->entries[i].update.target;
        if (target->run == version->run && target->number == version->number)
            target->root = version->root;
    }
}

static weft_bridged *take_entry(weft_bridge *bridge)
{
    weft_bridged *failed = NULL;
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &bridge->entries[i];
        if (entry->state == WEFT_BRIDGED_FREE)
            return entry;
        failed = entry->state == WEFT_BRIDGED_FAILED ? entry : failed;
    }
    if (failed) {
        weft_bridge_release(bridge, failed);
        return failed;
    }
    return weft_bridge_yield(bridge) ? take_entry(bridge) : NULL;
}

/* Returns true if the entry leads to the order that is wanted. A wish for the newest takes what is ready, and what will
 * lead to the newest. */
static bool leads_to(const weft_bridged *entry, uint64_t to)
{
    const bool ready = entry->state == WEFT_BRIDGED_READY;
    return to ? (ready ? entry->update.order : entry->catch_up.to) == to : ready || entry->catch_up.to == 0;
}

static bool serves(const weft_bridged *entry, uint64_t from, uint64_t to, weft_level level)
{
    return entry->state != WEFT_BRIDGED_FREE && !weft_bridged_is_personal(entry) && entry->update.from == from &&
           entry->level == level && leads_to(entry, to);
}

/* Finds the finished update that leads furthest, else what is under way, else what failed. */
static weft_bridged *find(weft_bridge *bridge, uint64_t from, uint64_t to, weft_level level)
{
    weft_bridged *found = NULL;
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++) {
        weft_bridged *entry = &bridge->entries[i];
        if (!serves(entry, from, to, level))
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
        weft_bridge_make(bridge, entry);
}

weft_bridged *weft_bridge_repair(weft_bridge *bridge, uint64_t order, const weft_wire_repair *repair)
{
    weft_bridged *entry = take_entry(bridge);
    const weft_update *next = weft_journal_at(&bridge->publisher->journal, order + 1);
    const weft_update *own = weft_journal_at(&bridge->publisher->journal, order);
    bool newest = order == bridge->publisher->newest.order;
    if (!entry || (!newest && !next))
        return NULL;
    *entry = (weft_bridged){.level = WEFT_LEVEL_FULL, .repair = *repair};
    entry->update.base = (weft_version){0, 0, repair->root};
    entry->update.target = newest ? bridge->publisher->newest.version : next->base;
    entry->update.from = WEFT_ORDER_UNKNOWN;
    entry->update.order = order;
    entry->update.attachment = weft_blob_hold(newest ? bridge->publisher->newest.attachment
                                              : own  ? own->attachment
                                                     : NULL);
    begin(bridge, entry);
    return entry;
}

weft_bridged *weft_bridge_catch_up(weft_bridge *bridge, uint64_t from, uint64_t to, uint64_t unit,
                                   const uint32_t *limits)
{
    weft_bridged *entry = take_entry(bridge);
    if (!entry)
        return NULL;
    *entry = (weft_bridged){
        .level = WEFT_LEVEL_FAST, .update = {.from = from}, .catch_up = {.limits = limits, .to = to, .unit = unit}};
    begin(bridge, entry);
    return entry;
}

weft_status weft_bridge_want(weft_bridge *bridge, uint64_t from, uint64_t to, weft_level level, weft_update **update)
{
    weft_bridged *entry = find(bridge, from, to, level);
    if (!entry) {
        if (to)
            weft_bridge_forsake(bridge);
        entry = take_entry(bridge);
        if (!entry)
            return WEFT_E_BUDGET;
        *entry = (weft_bridged){.level = level, .update = {.from = from}, .catch_up = {.to = to}};
        begin(bridge, entry);
    }
    if (entry->state == WEFT_BRIDGED_WANTED || entry->state == WEFT_BRIDGED_MAKING)
        return WEFT_AGAIN;
    if (entry->state == WEFT_BRIDGED_FAILED)
        return WEFT_E_BUDGET;
    *update = &entry->update;
    return WEFT_OK;
}

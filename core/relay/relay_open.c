/* relay_open.c - a relay's memory, layout and door, taken at open and given back in reverse. */
#include <stdio.h>

#include "base/mem.h"
#include "base/status.h"
#include "joint/joint.h"
#include "relay/relay.h"
#include "site/site_link.h"

/* Lines at once about one child, before they are limited. */
#define CHILD_LINES 32u

static weft_status open_memory(weft_relay *relay)
{
    const weft_rollout *rollout = relay->rollout;
    const uint64_t stride = rollout->intake.slots.stride, fit = rollout->site.relay_memory / stride;
    weft_slabs *blocks = &relay->buffers.slabs;
    blocks->slab_bytes = stride;
    blocks->count = (uint32_t)(fit < WEFT_BLOCKS_MAX ? fit : WEFT_BLOCKS_MAX);
    relay->child_count = blocks->count / 2 / WEFT_CHILD_OWN;
    if (relay->child_count > WEFT_CHILDREN_MAX)
        relay->child_count = WEFT_CHILDREN_MAX;
    if (relay->child_count == 0)
        return weft_fail(WEFT_E_CONFIG, "[peer.%s] relay_memory is %llu bytes%s: need four slots of %llu; raise it",
                         rollout->site.name, (unsigned long long)rollout->site.relay_memory, relay->source,
                         (unsigned long long)stride);
    relay->shared_count = blocks->count - relay->child_count * WEFT_CHILD_OWN;
    relay->buffers.slots_most = WEFT_CHILD_SLOTS;
    relay->buffers.headers_bytes = (uint64_t)relay->child_count * WEFT_CHILD_SLOTS * WEFT_HEADER_STRIDE;
    relay->blocks = weft_mem_take(blocks->count, sizeof *relay->blocks);
    relay->children = weft_mem_take(relay->child_count, sizeof *relay->children);
    relay->queues = weft_mem_take((uint64_t)relay->child_count * blocks->count, sizeof *relay->queues);
    if (weft_buffers_open(&relay->buffers) != WEFT_OK || !relay->blocks || !relay->children || !relay->queues)
        return weft_fail(WEFT_E_MEMORY, "no memory for a relay: %llu bytes; lower relay_memory",
                         (unsigned long long)(stride * blocks->count));
    relay->outlets = (weft_outlets){.session = rollout->session,
                                    .relay = relay->listen,
                                    .accelerator = weft_site_accelerator(rollout->site.backend, rollout->site.device),
                                    .buffers = &relay->buffers,
                                    .count = WEFT_RELAY_OUTLETS};
    return WEFT_OK;
}

static weft_status open_child(weft_relay *relay, weft_child *child)
{
    child->relay = relay;
    child->queue = relay->queues + (uint64_t)weft_child_index(relay, child) * relay->buffers.slabs.count;
    child->own.memory = weft_slab_at(&relay->buffers.slabs, (int32_t)weft_child_block(relay, child));
    child->own.stride = relay->buffers.slabs.slab_bytes;
    weft_send_bind(&child->sender, &relay->outlets, weft_child_index(relay, child));
    child->sender.control = &child->down;
    child->sender.hello = &child->hello;
    child->sender.site = &child->site;
    child->sender.flights.give = weft_child_leave;
    weft_log_limit_open(&child->limit, &relay->rollout->session->sink, CHILD_LINES);
    child->own.slot = weft_mem_take(WEFT_CHILD_OWN, sizeof *child->own.slot);
    if (!child->own.slot)
        return weft_fail(WEFT_E_MEMORY, "no memory for a relay's slots");
    weft_status status = weft_control_open(&child->up);
    return status == WEFT_OK ? weft_control_open(&child->down) : status;
}

static uint64_t bytes_of(const weft_relay *relay)
{
    uint64_t child = sizeof *relay->children + WEFT_CHILD_OWN * sizeof(weft_slot) + 2 * WEFT_CONTROL_OUT_BYTES +
                     relay->buffers.slabs.count * sizeof *relay->queues;
    return relay->buffers.slabs.slab_bytes * relay->buffers.slabs.count + relay->buffers.headers_bytes +
           relay->buffers.slabs.count * sizeof *relay->blocks + relay->child_count * child;
}

static weft_status open_relay(weft_rollout *rollout)
{
    weft_relay *relay = weft_mem_take(1, sizeof *relay);
    if (!relay)
        return weft_fail(WEFT_E_MEMORY, "no memory for a relay");
    rollout->relay = relay;
    relay->rollout = rollout;
    relay->door = (weft_door){rollout->session, &weft_relay_places, relay, .listen_fd = -1};
    if (rollout->joining.route.source)
        snprintf(relay->source, sizeof relay->source, " for source %u", rollout->joining.route.source - 1);
    weft_status status = open_memory(relay);
    for (uint32_t i = 0; i < relay->child_count && status == WEFT_OK; i++)
        status = open_child(relay, &relay->children[i]);
    if (status == WEFT_OK)
        status = weft_door_open(&relay->door, rollout->division->model);
    if (status == WEFT_OK)
        status = weft_door_listen(&relay->door, rollout->site.relay, relay->listen);
    if (status != WEFT_OK)
        return status;
    weft_log(WEFT_LOG_INFO, "relay %s on %s%s: %.1f MB: %u blocks of %llu bytes for all, 2 for each of %u behind it",
             rollout->site.name, relay->listen, relay->source, (double)bytes_of(relay) / 1e6, relay->shared_count,
             (unsigned long long)rollout->intake.slots.payload, relay->child_count);
    return WEFT_OK;
}

static void close_relay(weft_rollout *rollout)
{
    weft_relay *relay = rollout->relay;
    for (uint32_t i = 0; relay->children && i < relay->child_count; i++) {
        weft_child *child = &relay->children[i];
        if (child->down.in) /* else neither connection was opened, and none has a descriptor */
            weft_child_free(child);
        weft_log_limit_end(&child->limit);
        weft_control_close(&child->up);
        weft_control_close(&child->down);
        weft_mem_give(child->own.slot);
    }
    weft_outlets_close(&relay->outlets);
    weft_log_limit_end(&relay->door.strangers);
    weft_door_close(&relay->door);
    weft_mem_give(relay->queues);
    weft_mem_give(relay->children);
    weft_mem_give(relay->blocks);
    weft_buffers_close(&relay->buffers);
    weft_mem_give(relay);
    rollout->relay = NULL;
}

static const weft_relay_hooks hooks = {.open = open_relay,
                                       .close = close_relay,
                                       .bytes = bytes_of,
                                       .step = weft_relay_step,
                                       .wait = weft_relay_wait,
                                       .busy = weft_relay_busy,
                                       .pass = weft_relay_pass,
                                       .follow = weft_relay_follow,
                                       .unfollow = weft_relay_unfollow,
                                       .lose = weft_relay_lose,
                                       .flush = weft_relay_flush};

weft_status weft_rollout_open(const weft_site *site, const char *peer, const weft_layout *layout,
                              const weft_options *options, weft_session **session)
{
    return weft_joint_open(site, peer, layout, options, &hooks, session);
}

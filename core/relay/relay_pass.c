/* relay_pass.c - which buckets a child gets: those of the relay's own stream that it follows, and its own. */
#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"
#include "relay/relay.h"

#define POLL_BATCH 64

/* ---- the relay's own stream */

/* From the passing of HELLO on: WELCOME comes by another connection than FOLLOW, and may come later. */
static bool is_known(const weft_child *child)
{
    return child->state == WEFT_CHILD_GREETING || child->state == WEFT_CHILD_JOINED;
}

weft_status weft_relay_follow(weft_relay *relay, const uint8_t *body, uint64_t length)
{
    weft_wire_follow follow;
    weft_status status = weft_wire_get_follow(body, length, &follow);
    for (uint32_t i = 0; i < relay->child_count && status == WEFT_OK; i++) {
        weft_child *child = &relay->children[i];
        for (uint32_t at = 0; is_known(child) && at < follow.count; at++)
            if (follow.routes[at] == child->route)
                child->follows[child->follows_at++ % WEFT_CHILD_FOLLOWS] = follow.target;
    }
    return status;
}

void weft_relay_unfollow(weft_relay *relay, const weft_version *target)
{
    for (uint32_t i = 0; i < relay->child_count; i++)
        for (uint32_t at = 0; at < WEFT_CHILD_FOLLOWS; at++)
            if (weft_version_same(&relay->children[i].follows[at], target))
                relay->children[i].follows[at] = (weft_version){0, 0, 0};
}

static bool follows(const weft_child *child, const weft_version *target)
{
    bool found = false;
    for (uint32_t i = 0; i < WEFT_CHILD_FOLLOWS; i++)
        found = found || weft_version_same(&child->follows[i], target);
    return found && is_known(child);
}

static uint32_t followers_of(const weft_relay *relay, const weft_version *target)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < relay->child_count; i++)
        count += follows(&relay->children[i], target);
    return count;
}

/* Buckets of the shared stream that wait for a child, or are on their way to it. */
static uint32_t behind(const weft_relay *relay, const weft_child *child)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < child->queue_count; i++)
        count += child->queue[(child->queue_begin + i) % relay->buffers.slabs.count] < relay->shared_count;
    for (uint32_t slot = 0; slot < child->sender.flights.slots; slot++) {
        const weft_flight *flight = &child->sender.flights.list[slot];
        count += flight->used && (uint32_t)flight->slab < relay->shared_count;
    }
    return count;
}

/* Speaks for a child that holds the shared blocks: it joins again and gets a stream of its own. */
static void drop(weft_relay *relay, weft_child *child, uint32_t buckets)
{
    weft_wire_notice notice = {.status = WEFT_E_BUDGET};
    snprintf(notice.text, sizeof notice.text, "%u buckets behind relay %s, which has room for %u (relay_memory)",
             buckets, relay->rollout->site.name, relay->shared_count);
    weft_control_notice(&child->up, WEFT_MESSAGE_FAULT, &notice);
    weft_child_lose(child, notice.text);
}

/* A free shared block. Where there is none, each waits for a child or is on its way to one, so the child that is
 * furthest behind makes room; of several the one that has granted nothing for longest. */
static uint32_t take_block(weft_relay *relay)
{
    for (;;) {
        weft_child *last = relay->children;
        uint32_t most = 0;
        for (uint32_t block = 0; block < relay->shared_count; block++)
            if (relay->blocks[block].readers == 0)
                return block;
        for (uint32_t i = 0; i < relay->child_count; i++) {
            uint32_t count = behind(relay, &relay->children[i]);
            bool later = count == most && relay->children[i].granted_ns < last->granted_ns;
            if (count > most || (count > 0 && later)) {
                most = count;
                last = &relay->children[i];
            }
        }
        drop(relay, last, most);
    }
}

/* Whether the bytes, which nobody else can write any more, are what their header says. */
static bool is_whole(const weft_wire_bucket *header, const uint8_t *bytes)
{
    uint64_t at = 0, length;
    uint32_t frames = 0;
    XXH3_state_t checks;
    if (header->kind == WEFT_BUCKET_ATTACHMENT)
        return XXH3_64bits(bytes, header->payload_bytes) == header->check;
    XXH3_64bits_reset(&checks);
    for (; at < header->payload_bytes && (length = weft_frame_measure(bytes + at, header->payload_bytes - at)) > 0;
         at += length, frames++) {
        uint8_t check[8];
        weft_bytes_put(check, weft_frame_check(bytes + at, length), 8);
        XXH3_64bits_update(&checks, check, sizeof check);
    }
    return at == header->payload_bytes && frames == header->frames && XXH3_64bits_digest(&checks) == header->check;
}

/* Gives every follower the bucket in a slot. False: it is damaged; the relay's own take will say so. */
static bool share(weft_relay *relay, uint32_t slot)
{
    const weft_slots *slots = &relay->rollout->intake.slots;
    const weft_wire_bucket *header = &slots->slot[slot].header;
    if (followers_of(relay, &header->target) == 0)
        return true;
    uint32_t block = take_block(relay);
    uint8_t *bytes = weft_relay_payload(relay, block);
    memcpy(bytes, slots->memory + slot * slots->stride + WEFT_SLOT_HEADER_BYTES, header->payload_bytes);
    if (!is_whole(header, bytes))
        return false;
    relay->blocks[block].header = *header;
    for (uint32_t i = 0; i < relay->child_count; i++) {
        if (!follows(&relay->children[i], &header->target))
            continue;
        weft_child_enqueue(&relay->children[i], block);
        relay->blocks[block].readers++;
    }
    return true;
}

typedef enum place { PLACE_UNKNOWN, PLACE_UPDATE, PLACE_SNAPSHOT } place;

/* Finds the update that a bucket belongs to. FOLLOW comes before UPDATE, so the followers are known once UPDATE is
 * there. */
static place place_of(const weft_arriving *arriving, const weft_version *target)
{
    for (uint32_t i = 0; i < arriving->queued; i++) {
        const weft_wire_update *update = &arriving->queue[i].header;
        if (update->snapshot)
            return PLACE_SNAPSHOT;
        if (weft_version_same(&update->target, target))
            return PLACE_UPDATE;
    }
    return PLACE_UNKNOWN;
}

void weft_relay_pass(weft_relay *relay)
{
    const weft_slots *slots = &relay->rollout->intake.slots;
    for (uint32_t at; (at = weft_slots_find(slots, relay->pass_sequence)) < slots->count; relay->pass_sequence++) {
        place what = place_of(&relay->rollout->arriving, &slots->slot[at].header.target);
        if (what == PLACE_UNKNOWN || (what == PLACE_UPDATE && !share(relay, at)))
            return;
    }
}

/* ---- a child's own stream */

/* Whole buckets go on in the order in which they were sent. */
static void queue_own(weft_relay *relay, weft_child *child)
{
    const weft_slots *own = &child->own;
    for (uint32_t at; (at = weft_slots_find(own, child->own_next)) < own->count; child->own_next++) {
        const uint32_t block = weft_child_block(relay, child) + at;
        relay->blocks[block] = (weft_relay_block){.header = own->slot[at].header, .readers = 1};
        weft_child_enqueue(child, block);
    }
}

weft_status weft_child_arrivals(weft_relay *relay, weft_child *child, bool *any)
{
    const weft_rollout *rollout = relay->rollout;
    const weft_slots_law law = {child->hello.layout, child->hello.epoch, child->incarnation};
    weft_completion list[POLL_BATCH];
    size_t count = rollout->intake.provider->poll(child->own_port, list, POLL_BATCH);
    weft_status status = WEFT_OK;
    if (count == 0)
        return WEFT_OK;
    *any = true;
    child->moved_ns = weft_clock_ns();
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        if (list[i].kind == WEFT_COMPLETION_ARRIVED)
            status = weft_slots_count(&child->own, &law, 0, list[i].immediate, child->moved_ns);
        else if (list[i].kind == WEFT_COMPLETION_FAILED)
            status =
                weft_fail_quiet(WEFT_E_PEER_LOST, "the fabric reports an error (%s)", weft_status_name(list[i].status));
    }
    if (status == WEFT_OK)
        queue_own(relay, child);
    return status;
}

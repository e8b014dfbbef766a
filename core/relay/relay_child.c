/* relay_child.c - one child: the buckets that wait for it, and go to it as it grants its slots; its states; its end. */
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "relay/relay.h"

void weft_child_enqueue(weft_child *child, uint32_t block)
{
    child->queue[(child->queue_begin + child->queue_count++) % child->relay->buffers.slabs.count] = block;
}

static uint32_t dequeue(weft_child *child)
{
    const uint32_t block = child->queue[child->queue_begin];
    child->queue_begin = (child->queue_begin + 1) % child->relay->buffers.slabs.count;
    child->queue_count--;
    return block;
}

/* The payload goes as it came; the sender writes anew what belongs to the connection. */
static void fill(weft_child *child, uint32_t block)
{
    const weft_relay *relay = child->relay;
    const weft_wire_bucket *header = &relay->blocks[block].header;
    weft_posting *posting = &child->sender.posting;
    posting->bucket.header = *header;
    weft_bucket_wrap(weft_relay_payload(relay, block), header->payload_bytes, header->frames, header->check,
                     posting->chunk_bytes, &posting->bucket);
    posting->slab = (int32_t)block;
    relay->rollout->session->stats.bytes_sent += WEFT_BUCKET_HEADER_BYTES + header->payload_bytes;
}

weft_status weft_child_pump(weft_child *child, uint64_t now_ns, weft_waits *waits)
{
    weft_status status;
    while ((status = weft_send_post(&child->sender, &child->sender.posting.pace, now_ns, waits)) == WEFT_OK &&
           child->queue_count > 0) {
        fill(child, dequeue(child));
        weft_send_begin(&child->sender, now_ns);
    }
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

weft_status weft_child_receipt(weft_child *child, const weft_wire_receipt *receipt)
{
    weft_flight *flight;
    weft_status status = weft_flight_receipt(&child->sender, receipt, &flight);
    if (status != WEFT_OK)
        return status;
    child->take_ns = receipt->take_ns;
    child->granted_ns = weft_clock_ns();
    weft_flight_release(&child->sender.flights, flight);
    return WEFT_OK;
}

/* Grants the slot to the trainer again, because what lay in it is at the child. */
static void grant_own(weft_child *child, uint32_t at)
{
    uint8_t body[32];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_receipt receipt = {child->own.slot[at].header.sequence, at, child->take_ns, 0};
    memset(&child->own.slot[at], 0, sizeof child->own.slot[at]);
    weft_wire_put_receipt(&out, &receipt);
    if (child->state == WEFT_CHILD_JOINED)
        weft_control_send(&child->up, WEFT_MESSAGE_RECEIPT, out.data, out.used);
}

void weft_child_leave(weft_flights *flights, int32_t block)
{
    weft_child *child = (weft_child *)((char *)flights - offsetof(weft_child, sender.flights));
    const uint32_t at = (uint32_t)block, own = weft_child_block(child->relay, child);
    if (at >= child->relay->shared_count)
        grant_own(child, at - own);
    child->relay->blocks[at].readers--;
}

/* ---- its states */

void weft_child_enter(weft_child *child, weft_child_state state)
{
    child->state = state;
    child->since_ns = weft_clock_ns();
}

/* The receiving port before its registration, and both before the blocks are anybody else's. */
void weft_child_close(weft_child *child)
{
    const weft_provider *provider = child->relay->rollout->intake.provider;
    if (child->own_port)
        provider->port_close(child->own_port);
    if (child->own_region)
        provider->region_close(child->own_region);
    child->own_port = NULL;
    child->own_region = NULL;
    weft_send_close(&child->sender);
    while (child->queue_count > 0)
        weft_child_leave(&child->sender.flights, (int32_t)dequeue(child));
    child->queue_begin = 0;
}

void weft_child_free(weft_child *child)
{
    weft_child_close(child);
    weft_control_hang_up(&child->up);
    weft_control_hang_up(&child->down);
    child->greeted = false;
    weft_log_limit_end(&child->limit);
    child->state = WEFT_CHILD_FREE;
}

void weft_child_lose(weft_child *child, const char *why)
{
    if (child->state == WEFT_CHILD_JOINED)
        weft_log(WEFT_LOG_WARN, "lost: %s behind this relay%s: %s", child->hello.name, child->relay->source, why);
    weft_child_enter(child, WEFT_CHILD_LEAVING);
    weft_child_close(child);
}

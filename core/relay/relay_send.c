/* relay_send.c - posts buckets into a child's slots, chunk by chunk, as the child grants them. */
#include <string.h>

#include "base/status.h"
#include "relay/relay.h"

#define POLL_BATCH 64

static uint8_t *header_at(const weft_relay *relay, const weft_child *child, uint32_t slot)
{
    return relay->headers + (weft_child_index(relay, child) * WEFT_CHILD_SLOTS + slot) * WEFT_RELAY_HEADER;
}

static uint32_t slots_of(const weft_child *child)
{
    return child->hello.slots < WEFT_CHILD_SLOTS ? child->hello.slots : WEFT_CHILD_SLOTS;
}

/* The payload goes as it came; what belongs to the connection is written anew. */
static void begin_bucket(weft_relay *relay, weft_child *child)
{
    uint32_t block = child->queue[child->queue_begin];
    child->queue_begin = (child->queue_begin + 1) % relay->block_count;
    child->queue_count--;
    while (child->passing[child->next_slot].used)
        child->next_slot = (child->next_slot + 1) % slots_of(child);
    uint32_t slot = child->next_slot;
    child->next_slot = (child->next_slot + 1) % slots_of(child);
    weft_wire_bucket header = relay->blocks[block].header;
    header.epoch = child->hello.epoch;
    header.slot = slot;
    header.sequence = child->sequence++;
    header.chunks = (uint32_t)((header.payload_bytes + child->chunk_bytes - 1) / child->chunk_bytes);
    weft_wire_put_bucket(header_at(relay, child, slot), &header);
    child->passing[slot] = (weft_passing){.used = true, .block = block, .sequence = header.sequence};
    child->slots_used++;
    child->posting = true;
    child->posting_slot = slot;
    child->posting_chunk = 0;
    child->posting_offset = 0;
    relay->rollout->session->stats.bytes_sent += WEFT_BUCKET_HEADER_BYTES + header.payload_bytes;
}

static weft_write next_chunk(const weft_relay *relay, const weft_child *child)
{
    uint32_t slot = child->posting_slot, block = child->passing[slot].block;
    uint64_t at = child->hello.region_address + slot * child->hello.slot_stride;
    weft_write write = {.remote_key = child->hello.region_key, .cookie = slot};
    write.immediate = weft_wire_immediate(child->hello.epoch, slot, child->posting_chunk);
    if (child->posting_chunk == 0) {
        write.region = child->outlet->headers;
        write.data = header_at(relay, child, slot);
        write.bytes = WEFT_BUCKET_HEADER_BYTES;
        write.remote_address = at;
        return write;
    }
    uint64_t left = relay->blocks[block].header.payload_bytes - child->posting_offset;
    write.region = child->outlet->memory;
    write.data = weft_relay_payload(relay, block) + child->posting_offset;
    write.bytes = left < child->chunk_bytes ? left : child->chunk_bytes;
    write.remote_address = at + WEFT_SLOT_HEADER_BYTES + child->posting_offset;
    return write;
}

static void posted(const weft_relay *relay, weft_child *child, const weft_write *write, uint64_t now_ns)
{
    const weft_passing *passing = &child->passing[child->posting_slot];
    child->passing[child->posting_slot].writes++;
    child->writes++;
    child->progress_ns = now_ns;
    if (child->posting_chunk++ > 0)
        child->posting_offset += write->bytes;
    child->posting = child->posting_offset < relay->blocks[passing->block].header.payload_bytes;
}

/* Posts chunks until the bucket is out, WEFT_AGAIN when the provider or the rate limit holds. */
static weft_status post_chunks(const weft_relay *relay, weft_child *child, uint64_t now_ns, weft_waits *waits)
{
    while (child->posting) {
        uint64_t pause_ns = weft_pace_wait(&child->pace, now_ns);
        if (pause_ns) {
            weft_waits_until(waits, now_ns + pause_ns);
            return WEFT_AGAIN;
        }
        if (child->writes >= child->outlet->facts.depth)
            return WEFT_AGAIN;
        weft_write write = next_chunk(relay, child);
        weft_status status = child->outlet->provider->write(child->port, &write);
        if (status == WEFT_AGAIN && !child->again)
            child->progress_ns = now_ns;
        child->again = status == WEFT_AGAIN;
        waits->blind = waits->blind || child->again;
        if (status != WEFT_OK)
            return status;
        weft_pace_charge(&child->pace, write.bytes);
        posted(relay, child, &write, now_ns);
    }
    return WEFT_OK;
}

weft_status weft_child_pump(weft_relay *relay, weft_child *child, uint64_t now_ns, weft_waits *waits)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        status = post_chunks(relay, child, now_ns, waits);
        if (status != WEFT_OK || child->queue_count == 0 || child->slots_used == slots_of(child))
            break;
        begin_bucket(relay, child);
    }
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

/* A slot is free again when the child granted it and the provider no longer reads the block. */
static void release(weft_relay *relay, weft_child *child, weft_passing *passing)
{
    if (!passing->used || !passing->receipted || passing->writes > 0)
        return;
    passing->used = false;
    child->slots_used--;
    weft_relay_leave(relay, child, passing->block);
}

weft_status weft_child_poll(weft_relay *relay, weft_child *child, uint64_t now_ns, bool *any)
{
    weft_completion list[POLL_BATCH];
    size_t count = child->outlet->provider->poll(child->port, list, POLL_BATCH);
    *any = *any || count > 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == WEFT_COMPLETION_FAILED)
            return weft_fail_quiet(WEFT_E_PEER_LOST, "the fabric reports a failed write (%s)",
                                   weft_status_name(list[i].status));
        if (list[i].kind != WEFT_COMPLETION_WRITTEN || list[i].cookie >= WEFT_CHILD_SLOTS)
            continue;
        child->passing[list[i].cookie].writes--;
        child->writes--;
        child->progress_ns = now_ns;
        release(relay, child, &child->passing[list[i].cookie]);
    }
    return WEFT_OK;
}

weft_status weft_child_receipt(weft_relay *relay, weft_child *child, const weft_wire_receipt *receipt)
{
    weft_passing *passing = receipt->slot < slots_of(child) ? &child->passing[receipt->slot] : NULL;
    bool whole = !child->posting || receipt->slot != child->posting_slot;
    if (!passing || !whole || !passing->used || passing->receipted || passing->sequence != receipt->sequence)
        return weft_fail(WEFT_E_PROTOCOL, "%s: receipt for bucket %llu in slot %u, which is not on its way",
                         child->hello.name, (unsigned long long)receipt->sequence, receipt->slot);
    passing->receipted = true;
    child->take_ns = receipt->take_ns;
    child->granted_ns = weft_clock_ns();
    release(relay, child, passing);
    return WEFT_OK;
}

void weft_child_abandon(weft_relay *relay, weft_child *child)
{
    for (uint32_t slot = 0; slot < WEFT_CHILD_SLOTS; slot++) {
        child->passing[slot].receipted = true;
        child->passing[slot].writes = 0;
        release(relay, child, &child->passing[slot]);
    }
    for (; child->queue_count > 0; child->queue_count--) {
        weft_relay_leave(relay, child, child->queue[child->queue_begin]);
        child->queue_begin = (child->queue_begin + 1) % relay->block_count;
    }
    child->queue_begin = child->slots_used = child->next_slot = child->writes = 0;
    child->posting = child->again = false;
    child->sequence = 0;
}

/* slots.c - counts chunks into slots, and forgets those of an inlet that is closed. */
#include <string.h>

#include "base/status.h"
#include "rollout/rollout.h"

/* Judges a header from a private copy, because the slot stays writable from outside. */
static weft_status read_header(weft_slots *slots, const weft_slots_law *law, uint32_t at)
{
    weft_slot *slot = &slots->slot[at];
    uint8_t header[WEFT_BUCKET_HEADER_BYTES];
    memcpy(header, slots->memory + at * slots->stride, sizeof header);
    weft_status status = weft_wire_get_bucket(header, law->layout, &slot->header);
    if (status != WEFT_OK)
        return status;
    if (slot->header.slot != at || slot->header.epoch != law->epoch || slot->header.incarnation != law->incarnation ||
        slot->header.payload_bytes > slots->payload)
        return weft_fail(
            WEFT_E_PROTOCOL,
            "bucket %llu names slot %u, epoch %u, %llu payload bytes; it lies in slot %u of epoch %u, %llu bytes",
            (unsigned long long)slot->header.sequence, slot->header.slot, slot->header.epoch,
            (unsigned long long)slot->header.payload_bytes, at, law->epoch, (unsigned long long)slots->payload);
    slot->has_header = true;
    return WEFT_OK;
}

weft_status weft_slots_count(weft_slots *slots, const weft_slots_law *law, uint32_t inlet, uint32_t immediate,
                             uint64_t now_ns)
{
    uint32_t epoch = immediate >> 24, at = immediate >> 12 & 0xfffu, chunk = immediate & 0xfffu;
    if (epoch != law->epoch)
        return WEFT_OK; /* of a connection that is gone: its slots are not ours any more */
    weft_slot *slot = at < slots->count ? &slots->slot[at] : NULL;
    if (at == WEFT_SLOT_PROBE && chunk == 0)
        return WEFT_OK;
    if (!slot || slot->by[chunk])
        return weft_fail(WEFT_E_PROTOCOL, "chunk %u of slot %u came twice or has no slot (%u granted)", chunk, at,
                         slots->count);
    slot->by[chunk] = (uint8_t)(inlet + 1);
    slot->count++;
    if (chunk == 0) {
        weft_status status = read_header(slots, law, at);
        if (status != WEFT_OK)
            return status;
    }
    if (slot->has_header && slot->count > slot->header.chunks + 1)
        return weft_fail(WEFT_E_PROTOCOL, "slot %u: %u chunks came, its bucket has %u", at, slot->count - 1,
                         slot->header.chunks);
    if (weft_slot_whole(slot))
        slot->whole_ns = now_ns;
    return WEFT_OK;
}

void weft_slots_forget(weft_slots *slots, uint32_t inlet, uint8_t whole[WEFT_SLOTS_MAX / 8])
{
    memset(whole, 0, WEFT_SLOTS_MAX / 8);
    for (uint32_t at = 0; at < slots->count; at++) {
        weft_slot *slot = &slots->slot[at];
        if (weft_slot_whole(slot)) {
            whole[at / 8] |= (uint8_t)(1u << at % 8);
            continue;
        }
        slot->has_header = slot->has_header && slot->by[0] != inlet + 1;
        for (uint32_t chunk = 0; slot->count > 0 && chunk <= WEFT_CHUNKS_MAX; chunk++) {
            if (slot->by[chunk] != inlet + 1)
                continue;
            slot->by[chunk] = 0;
            slot->count--;
        }
    }
}

uint32_t weft_slots_find(const weft_slots *slots, uint64_t sequence)
{
    uint32_t at = 0;
    while (at < slots->count && !(weft_slot_whole(&slots->slot[at]) && slots->slot[at].header.sequence == sequence))
        at++;
    return at;
}

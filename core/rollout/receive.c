/* receive.c - takes arrivals off the ports, and whole buckets out of their slots, in sequence. */
#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/status.h"
#include "rollout/rollout.h"

#define POLL_BATCH 64

static weft_slots sized(uint64_t window, uint64_t bucket)
{
    const uint64_t stride = weft_slots_stride(bucket);
    return (weft_slots){.count = (uint32_t)window, .payload = bucket, .stride = stride, .bytes = stride * window};
}

static weft_mem_list slots_memory(weft_slots *slots)
{
    return (weft_mem_list){{WEFT_MEM_TAKEN(slots->slot, slots->count), WEFT_MEM_PAGES(slots->memory, slots->bytes)}};
}

uint64_t weft_slots_need(uint64_t window, uint64_t bucket)
{
    weft_slots none = sized(window, bucket);
    return weft_mem_list_bytes(slots_memory(&none));
}

weft_status weft_receive_open(weft_rollout *rollout)
{
    weft_slots *slots = &rollout->intake.slots;
    uint32_t largest = rollout->layout->largest_frame;
    *slots = sized(rollout->site.window, rollout->site.bucket_max);
    if (slots->payload < largest)
        return weft_fail(WEFT_E_CONFIG, "[peer.%s] bucket_max = %llu bytes: the layout's largest frame needs %u",
                         rollout->site.name, (unsigned long long)slots->payload, largest);
    rollout->arriving.taken.capacity = slots->payload;
    weft_status status =
        weft_mem_list_take(slots_memory(slots), "for %u slots of %llu bytes; lower window or bucket_max", slots->count,
                           (unsigned long long)slots->payload);
    if (status != WEFT_OK)
        slots->count = 0; /* which is how many there are to forget */
    return status;
}

static weft_mem_list kept_memory(weft_kept *kept, uint64_t bucket, uint64_t parts)
{
    return (weft_mem_list){{WEFT_MEM_PAGES(kept->memory, kept->capacity + bucket), WEFT_MEM_TAKEN(kept->again, parts)}};
}

weft_status weft_receive_keep(weft_arriving *arriving, const weft_layout *layout, uint64_t bytes)
{
    weft_kept *kept = &arriving->kept;
    kept->capacity = bytes;
    weft_status status = weft_mem_list_take(kept_memory(kept, arriving->taken.capacity, layout->part_count + 1),
                                            "for frames; lower [peers] encoded or bucket_max");
    arriving->taken.memory = kept->memory;
    return status;
}

void weft_receive_close(weft_arriving *arriving, weft_intake *intake)
{
    weft_slots *slots = &intake->slots;
    weft_mem_list_give(kept_memory(&arriving->kept, slots->payload, 1));
    weft_mem_list_give(slots_memory(slots));
    arriving->kept = (weft_kept){0};
    arriving->taken = (weft_taken){0};
    *slots = (weft_slots){0};
}

void weft_receive_reset(weft_arriving *arriving, weft_intake *intake)
{
    memset(intake->slots.slot, 0, intake->slots.count * sizeof *intake->slots.slot);
    intake->next_sequence = 0;
    arriving->queued = 0;
    arriving->taken.bytes = arriving->taken.used = 0;
}

static weft_status poll_inlet(weft_rollout *rollout, uint32_t at, bool *any)
{
    const weft_slots_law law = {rollout->layout->hash, rollout->intake.epoch, rollout->joining.welcome.incarnation};
    weft_inlet *inlet = &rollout->intake.inlets[at];
    weft_completion list[POLL_BATCH];
    size_t count = rollout->intake.provider->poll(inlet->port, list, POLL_BATCH);
    weft_status status = WEFT_OK;
    bool first = inlet->arrivals == 0;
    if (count) {
        *any = true;
        rollout->intake.moved_ns = weft_clock_ns();
        rollout->session->stirred = true;
    }
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        if (list[i].kind == WEFT_COMPLETION_ARRIVED) {
            inlet->arrivals++;
            rollout->intake.link_writes[at % rollout->intake.link_count]++;
            status = weft_slots_count(&rollout->intake.slots, &law, at, list[i].immediate, rollout->intake.moved_ns);
        } else if (list[i].kind == WEFT_COMPLETION_FAILED) {
            return weft_inlet_fail(&rollout->intake, &rollout->joining, inlet, list[i].status);
        }
    }
    /* the trainer waits for the first arrival, because that shows that the port carries */
    return status == WEFT_OK && first && inlet->arrivals && rollout->intake.inlet_count > 1
               ? weft_inlet_tell(&rollout->intake, &rollout->joining)
               : status;
}

weft_status weft_receive_poll(weft_rollout *rollout, bool *any)
{
    weft_status status = WEFT_OK;
    *any = false;
    for (uint32_t at = 0; at < rollout->intake.inlet_count && status == WEFT_OK; at++)
        if (rollout->intake.inlets[at].port && !rollout->intake.inlets[at].failed)
            status = poll_inlet(rollout, at, any);
    return status;
}

static weft_status bad_check(const weft_joining *joining, const weft_wire_bucket *header, const char *what)
{
    char from[WEFT_SITE_NAME + 8];
    weft_gateway_name(&joining->route, from);
    return weft_fail(WEFT_E_CHECK, "version %llu: %s: bucket %llu's check does not match; damaged on the way from %s",
                     (unsigned long long)header->target.number, what, (unsigned long long)header->sequence, from);
}

/* Names the units of the frames in the first `bytes` copied. Units that do not exist or do not rise are passed over,
 * because the frames' own headers may be damaged. */
static weft_status bad_frames(const weft_rollout *rollout, const weft_wire_bucket *header, uint64_t bytes)
{
    const weft_layout *layout = rollout->layout;
    const uint8_t *frames = rollout->arriving.taken.memory;
    uint64_t first = layout->unit_count, next = 0, length;
    char name[WEFT_PART_TEXT] = "frames whose units cannot be told";
    for (uint64_t at = 0; at < bytes && (length = weft_frame_measure(frames + at, bytes - at)) > 0; at += length) {
        uint64_t unit = weft_bytes_get(frames + at, 4), units = (weft_bytes_get(frames + at + 8, 4) >> 20) + 1;
        if (unit < next || unit + units > layout->unit_count)
            continue;
        first = first < unit ? first : unit;
        next = unit + units;
    }
    if (next > 0)
        weft_part_name_range(layout, weft_part_of_unit(layout, first),
                             weft_part_of_unit(layout, next - 1) + layout->units[next - 1].tensor_count - 1, name);
    return bad_check(&rollout->joining, header, name);
}

/* Copies each frame and then checks the copy, in one pass, because others may still write to the slot. */
static weft_status copy_frames(weft_rollout *rollout, const weft_wire_bucket *header, const uint8_t *from)
{
    uint8_t *to = rollout->arriving.taken.memory;
    uint64_t at = 0, frames = 0;
    XXH3_state_t checks;
    XXH3_64bits_reset(&checks);
    while (at < header->payload_bytes) {
        uint64_t left = header->payload_bytes - at;
        uint8_t check[8];
        if (left < WEFT_FRAME_HEADER_BYTES)
            return bad_frames(rollout, header, at);
        memcpy(to + at, from + at, WEFT_FRAME_HEADER_BYTES);
        uint64_t length = weft_frame_measure(to + at, left);
        if (length == 0)
            return bad_frames(rollout, header, at);
        memcpy(to + at + WEFT_FRAME_HEADER_BYTES, from + at + WEFT_FRAME_HEADER_BYTES,
               length - WEFT_FRAME_HEADER_BYTES);
        weft_bytes_put(check, weft_frame_check(to + at, length), 8);
        XXH3_64bits_update(&checks, check, sizeof check);
        at += length;
        frames++;
    }
    bool right = frames == header->frames && XXH3_64bits_digest(&checks) == header->check;
    return right ? WEFT_OK : bad_frames(rollout, header, at);
}

/* Chooses where a bucket of frames goes: after those that are kept, or aside. */
static void place_frames(weft_arriving *arriving, const weft_wire_bucket *header)
{
    weft_kept *kept = &arriving->kept;
    kept->broken =
        kept->broken || arriving->queue[0].header.snapshot || header->payload_bytes > kept->capacity - kept->bytes;
    arriving->taken.memory = kept->memory + (kept->broken ? kept->capacity : kept->bytes);
}

static weft_status copy_attachment(weft_arriving *arriving, weft_joining *joining, const weft_wire_bucket *header,
                                   const uint8_t *from)
{
    if (!arriving->attachment && arriving->queue[0].header.attachment_bytes)
        arriving->attachment = weft_blob_take(arriving->queue[0].header.attachment_bytes);
    weft_blob *blob = arriving->attachment;
    if (!blob && arriving->queue[0].header.attachment_bytes)
        return weft_fail(WEFT_E_MEMORY, "no memory for an attachment of %llu bytes",
                         (unsigned long long)arriving->queue[0].header.attachment_bytes);
    if (!blob || header->offset > blob->bytes || header->offset != arriving->book.attachment_got ||
        header->payload_bytes > blob->bytes - header->offset)
        return weft_fail(WEFT_E_PROTOCOL, "attachment bytes at %llu that no update announced",
                         (unsigned long long)header->offset);
    memcpy(blob->data + header->offset, from, header->payload_bytes);
    if (XXH3_64bits(blob->data + header->offset, header->payload_bytes) != header->check)
        return bad_check(joining, header, "the attachment");
    arriving->book.attachment_got += header->payload_bytes;
    return WEFT_OK;
}

/* Checks that a bucket belongs to the first queued update, or to a snapshot: tiles without a base, or deltas after
 * them. WEFT_AGAIN: the bucket is the next update's, and the trailer of the first is still on its way. */
static weft_status check_place(weft_arriving *arriving, weft_joining *joining, const weft_wire_bucket *header)
{
    const weft_wire_update *update = &arriving->queue[0].header;
    bool right = update->snapshot ? header->target.run == joining->welcome.run
                                  : weft_version_same(&header->base, &update->base) &&
                                        weft_version_same(&header->target, &update->target);
    if (!right && !arriving->queue[0].has_trailer)
        return WEFT_AGAIN;
    if (right && header->kind == WEFT_BUCKET_FRAMES)
        right = header->offset == arriving->book.frame_bytes;
    if (right)
        return WEFT_OK;
    return weft_fail(WEFT_E_PROTOCOL, "bucket %llu carries version %llu at offset %llu, expected version %llu at %llu",
                     (unsigned long long)header->sequence, (unsigned long long)header->target.number,
                     (unsigned long long)header->offset, (unsigned long long)update->target.number,
                     (unsigned long long)arriving->book.frame_bytes);
}

/* `begun_ns`: taking began. */
static weft_status grant(weft_intake *intake, weft_joining *joining, uint32_t at, uint64_t begun_ns)
{
    uint8_t body[32];
    weft_out out = {body, sizeof body, 0, false};
    weft_slot *slot = &intake->slots.slot[at];
    uint64_t now_ns = intake->moved_ns = weft_clock_ns();
    weft_wire_receipt receipt = {slot->header.sequence, at, now_ns - begun_ns, begun_ns - slot->whole_ns};
    memset(slot, 0, sizeof *slot);
    weft_wire_put_receipt(&out, &receipt);
    return weft_rollout_send(joining, WEFT_MESSAGE_RECEIPT, &out);
}

static void note_taken(weft_arriving *arriving, const weft_wire_bucket *header, uint64_t begun_ns)
{
    weft_receipt_book *book = &arriving->book;
    if (book->buckets++ == 0)
        book->begun_ns = begun_ns;
    book->bytes += WEFT_BUCKET_HEADER_BYTES + header->payload_bytes;
    if (header->kind != WEFT_BUCKET_FRAMES)
        return;
    book->frames += header->frames;
    book->frame_bytes += header->payload_bytes;
    arriving->taken.bytes = header->payload_bytes;
    arriving->taken.used = 0;
    arriving->taken.delta = header->base.run != 0;
    arriving->kept.bytes += arriving->kept.broken ? 0 : header->payload_bytes;
}

weft_status weft_receive_take(weft_rollout *rollout)
{
    const uint32_t at = weft_slots_find(&rollout->intake.slots, rollout->intake.next_sequence);
    if (rollout->arriving.queued == 0 || at == rollout->intake.slots.count)
        return WEFT_AGAIN;
    uint64_t begun_ns = weft_clock_ns();
    const weft_wire_bucket header = rollout->intake.slots.slot[at].header;
    const uint8_t *payload = rollout->intake.slots.memory + at * rollout->intake.slots.stride + WEFT_SLOT_HEADER_BYTES;
    weft_status status = check_place(&rollout->arriving, &rollout->joining, &header);
    if (status == WEFT_OK && header.kind == WEFT_BUCKET_FRAMES) {
        place_frames(&rollout->arriving, &header);
        status = copy_frames(rollout, &header, payload);
    } else if (status == WEFT_OK)
        status = copy_attachment(&rollout->arriving, &rollout->joining, &header, payload);
    if (status != WEFT_OK) {
        rollout->session->stats.check_failures += status != WEFT_AGAIN;
        return status;
    }
    rollout->intake.next_sequence++;
    note_taken(&rollout->arriving, &header, begun_ns);
    return grant(&rollout->intake, &rollout->joining, at, begun_ns);
}

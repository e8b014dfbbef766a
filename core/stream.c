/* stream.c - decides what a peer is sent next: updates of the journal in order, or a snapshot from the shadow. */
#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <string.h>
#include <xxhash.h>

#include "peer.h"
#include "staging.h"
#include "status.h"

/* A link slower than this takes packed tiles: any up to 1 Gbit/s. One thread packs about 1 GB/s and does not send
 * meanwhile, so that on a faster link little would be won, and on a busy machine, whose links seem slow, much lost. */
#define PACK_BELOW_BYTES_S 150e6

/* Slabs one peer may use at a time: enough to copy, send and acknowledge at once. */
#define SLABS_PER_PEER 4u

/* Buckets from one choice of their size to the next. */
#define SIZE_EVERY 8u

static bool uses_slabs(const weft_peer *peer)
{
    return peer->greeted && (peer->stream.kind == WEFT_STREAM_SNAPSHOT || peer->stream.attachment);
}

/* A peer's share of the pool, so that slow ones leave some to the others. */
static uint32_t slab_share(const weft_trainer *trainer)
{
    uint32_t users = 0;
    for (uint32_t i = 0; i < trainer->peer_count; i++)
        users += uses_slabs(&trainer->peers[i]);
    uint32_t share = users ? trainer->slabs.count / users : trainer->slabs.count;
    return share == 0 ? 1 : share < SLABS_PER_PEER ? share : SLABS_PER_PEER;
}

uint8_t *weft_slab_at(const weft_slabs *slabs, int32_t slab)
{
    return slabs->memory + (uint64_t)slab * slabs->slab_bytes;
}

static weft_status send_message(weft_peer *peer, weft_message type, const weft_out *body)
{
    peer->stream.bytes += WEFT_MESSAGE_PREFIX + body->used;
    return weft_control_send(&peer->control, type, body->data, body->used);
}

static weft_level level_for(const weft_peer *peer, const weft_update *update)
{
    weft_level level = peer->wanted;
    bool there = update->levels >> level & peer->hello.levels >> level & 1;
    return there && update->chain[level].staged_bytes <= peer->hello.staging_bytes ? level
           : update->levels >> WEFT_LEVEL_FAST & 1                                 ? WEFT_LEVEL_FAST
                                                                                   : WEFT_LEVEL_FULL; /* a repair */
}

/* Whether the peer's staging can hold the whole update, which is what makes its commit all or nothing. */
static bool fits(const weft_peer *peer, const weft_update *update)
{
    return !update->snapshot_only && update->chain[level_for(peer, update)].staged_bytes <= peer->hello.staging_bytes;
}

static weft_status announce(weft_trainer *trainer, weft_peer *peer, const weft_version *base,
                            const weft_version *target, weft_blob *attachment, const weft_update *update,
                            weft_stream_kind kind)
{
    uint8_t body[WEFT_UPDATE_HEADER_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_stream *stream = &peer->stream;
    weft_wire_update header = {
        .snapshot = kind == WEFT_STREAM_SNAPSHOT, .level = stream->level, .base = *base, .target = *target};
    if (update)
        header.parameters = update->parameters;
    memcpy(header.layout, trainer->session->layout->hash, sizeof header.layout);
    stream->kind = kind;
    stream->begun_ns = weft_clock_ns();
    if (attachment && attachment->hash != peer->sent_attachment) {
        stream->attachment = weft_blob_hold(attachment);
        header.attachment_bytes = attachment->bytes;
        header.attachment = attachment->hash;
    }
    weft_wire_put_update(&out, &header);
    weft_status status = WEFT_OK;
    if (update)
        status = weft_follow_begin(trainer, peer, stream, update, &out);
    if (header.attachment_bytes)
        peer->sent_attachment = header.attachment;
    return status == WEFT_OK ? send_message(peer, WEFT_MESSAGE_UPDATE, &out) : status;
}

static weft_status begin_update(weft_trainer *trainer, weft_peer *peer, weft_update *update)
{
    weft_stream *stream = &peer->stream;
    memset(stream, 0, sizeof *stream);
    stream->level = level_for(peer, update);
    peer->level = stream->level;
    stream->update = update;
    stream->order = update->order;
    stream->changed = update->changed;
    stream->cursor = weft_cursor_begin(&update->chain[stream->level]);
    update->readers++;
    peer->followed = false;
    peer->waits_since_ns = 0;
    weft_status status =
        announce(trainer, peer, &update->base, &update->target, update->attachment, update, WEFT_STREAM_UPDATE);
    peer->sent_order = update->order;
    return status;
}

/* Brings a missing attachment to a peer that already has the newest bits: an update that changes nothing. */
static weft_status begin_attachment(weft_trainer *trainer, weft_peer *peer)
{
    memset(&peer->stream, 0, sizeof peer->stream);
    peer->stream.level = WEFT_LEVEL_FAST;
    peer->stream.cursor.block = WEFT_NO_BLOCK;
    peer->stream.alone = trainer->newest;
    return announce(trainer, peer, &trainer->newest, &trainer->newest, trainer->attachment, NULL, WEFT_STREAM_UPDATE);
}

/* Offers a snapshot, again if a repair came to nothing. */
weft_status weft_stream_offer(weft_trainer *trainer, weft_peer *peer)
{
    uint8_t body[32];
    weft_out out = {body, sizeof body, 0, false};
    memset(&peer->stream, 0, sizeof peer->stream);
    peer->stream.kind = WEFT_STREAM_OFFERED;
    peer->held_order = WEFT_ORDER_UNKNOWN;
    weft_wire_put_version(&out, &trainer->newest);
    weft_status status = weft_peer_move(trainer, peer, WEFT_ON_OFFERED);
    return status != WEFT_OK ? status : weft_control_send(&peer->control, WEFT_MESSAGE_OFFER, out.data, out.used);
}

weft_status weft_stream_snapshot(weft_trainer *trainer, weft_peer *peer)
{
    const weft_version nothing = {0, 0, 0};
    weft_version target = {trainer->run, trainer->newest.number, 0};
    if (peer->stream.kind != WEFT_STREAM_OFFERED)
        return weft_fail(WEFT_E_PROTOCOL, "%s accepts a snapshot that was not offered", peer->name);
    weft_status status = weft_peer_move(trainer, peer, WEFT_ON_ACCEPTED);
    if (status != WEFT_OK)
        return status;
    peer->held = nothing; /* in place it holds nothing from now on */
    memset(&peer->stream, 0, sizeof peer->stream);
    peer->stream.level = WEFT_LEVEL_FULL;
    peer->stream.order = trainer->newest_order;
    peer->sent_order = trainer->newest_order;
    return announce(trainer, peer, &nothing, &target, trainer->attachment, NULL, WEFT_STREAM_SNAPSHOT);
}

/* So many deltas wait that they are let go: what they make will come as one. Not the one being sent, nor those that
 * tiles went before. */
static void owe(weft_stream *stream)
{
    uint32_t kept = stream->behind_begin + 1;
    while (stream->behind[kept % WEFT_BEHIND_MAX].unit_limit < stream->unit)
        kept++; /* at most half of them: alternates() */
    stream->owes = true;
    stream->owed_from = stream->behind[kept % WEFT_BEHIND_MAX].update->from;
    stream->owed_limit = stream->unit;
    for (uint32_t i = kept; i < stream->behind_end; i++)
        stream->behind[i % WEFT_BEHIND_MAX].update->readers--;
    stream->behind_end = kept;
}

bool weft_stream_follow(weft_trainer *trainer, weft_peer *peer, weft_update *update)
{
    weft_stream *stream = &peer->stream;
    if (stream->kind != WEFT_STREAM_SNAPSHOT)
        return true;
    if (stream->unit > 0 &&
        (update->snapshot_only || weft_staging_largest(trainer->session->layout) > peer->hello.staging_bytes))
        return false;
    if (stream->unit > 0 && !stream->owes && stream->behind_end - stream->behind_begin == WEFT_BEHIND_MAX)
        owe(stream);
    if (stream->unit > 0 && !stream->owes) {
        stream->behind[stream->behind_end++ % WEFT_BEHIND_MAX] = (weft_behind){update, stream->unit};
        update->readers++;
    }
    stream->order = peer->sent_order = update->order;
    return true;
}

void weft_stream_end(weft_peer *peer)
{
    weft_stream *stream = &peer->stream;
    if (stream->update)
        stream->update->readers--;
    for (; stream->behind_begin < stream->behind_end; stream->behind_begin++)
        stream->behind[stream->behind_begin % WEFT_BEHIND_MAX].update->readers--;
    weft_blob_drop(stream->attachment);
    memset(stream, 0, sizeof *stream);
}

/* Says that all was sent and remembers what the peer must prove to hold. */
static weft_status finish(weft_trainer *trainer, weft_peer *peer, const weft_version *target)
{
    uint8_t body[WEFT_UPDATE_TRAILER_BYTES];
    weft_out out = {body, sizeof body, 0, false};
    weft_stream *stream = &peer->stream;
    weft_wire_trailer trailer = {*target, stream->buckets, stream->frames, stream->frame_bytes, stream->changed};
    weft_wire_put_trailer(&out, &trailer);
    weft_status status = send_message(peer, WEFT_MESSAGE_TRAILER, &out);
    bool snapshot = stream->kind == WEFT_STREAM_SNAPSHOT;
    uint64_t order = stream->order ? stream->order : peer->sent_order;
    const weft_expected expected = {order,         *target,         stream->level, stream->changed, stream->frame_bytes,
                                    stream->bytes, stream->begun_ns};
    peer->expected[peer->expected_count++] = expected;
    weft_follow_finish(trainer, peer, &out, &expected);
    weft_stats_info *stats = &trainer->session->stats;
    *(snapshot ? &peer->info.snapshot_bytes : &peer->info.bytes) += stream->bytes;
    *(snapshot ? &stats->snapshot_bytes : &stats->bytes_sent) += stream->bytes;
    weft_stream_end(peer);
    return status;
}

static void begin_bucket(weft_peer *peer, weft_bucket_kind kind, const weft_version *base, const weft_version *target,
                         uint64_t offset)
{
    memset(&peer->bucket.header, 0, sizeof peer->bucket.header);
    peer->bucket.header.kind = kind;
    peer->bucket.header.base = *base;
    peer->bucket.header.target = *target;
    peer->bucket.header.offset = offset;
    peer->bucket_update = NULL;
    peer->bucket_slab = -1;
}

static void count_bucket(weft_peer *peer)
{
    weft_stream *stream = &peer->stream;
    const weft_wire_bucket *header = &peer->bucket.header;
    stream->buckets++;
    stream->bytes += WEFT_BUCKET_HEADER_BYTES + header->payload_bytes;
    stream->frames += header->frames;
    if (header->kind == WEFT_BUCKET_FRAMES)
        stream->frame_bytes += header->payload_bytes;
}

static int32_t take_slab(weft_trainer *trainer, weft_peer *peer)
{
    weft_slabs *slabs = &trainer->slabs;
    if (peer->slabs_used >= slab_share(trainer))
        return -1;
    if (slabs->free_count == 0) {
        peer->starved = true;
        return -1;
    }
    peer->slabs_used++;
    return (int32_t)slabs->free[--slabs->free_count];
}

static void give_slab(weft_trainer *trainer, weft_peer *peer, int32_t slab)
{
    trainer->slabs.free[trainer->slabs.free_count++] = (uint32_t)slab;
    peer->slabs_used--;
}

/* Chosen when a stream begins, and again as it tells more of the link. */
static uint64_t bucket_bytes(weft_peer *peer, weft_level level, uint64_t stream_bytes)
{
    if (peer->stream.buckets % SIZE_EVERY == 0) {
        weft_estimate_settle(&peer->estimate);
        peer->info.bucket_bytes = weft_bucket_size(&peer->site, &peer->estimate, level, stream_bytes,
                                                   peer->hello.slot_payload, peer->info.bucket_bytes, &peer->bound);
    }
    return peer->info.bucket_bytes;
}

static weft_status next_attachment(weft_trainer *trainer, weft_peer *peer, const weft_version *base,
                                   const weft_version *target)
{
    weft_stream *stream = &peer->stream;
    uint64_t left = stream->attachment->bytes - stream->attachment_sent;
    uint64_t most =
        trainer->slabs.slab_bytes < peer->hello.slot_payload ? trainer->slabs.slab_bytes : peer->hello.slot_payload;
    uint64_t bytes = left < most ? left : most;
    int32_t slab = take_slab(trainer, peer);
    if (slab < 0)
        return WEFT_AGAIN;
    uint8_t *data = weft_slab_at(&trainer->slabs, slab);
    memcpy(data, stream->attachment->data + stream->attachment_sent, bytes);
    begin_bucket(peer, WEFT_BUCKET_ATTACHMENT, base, target, stream->attachment_sent);
    weft_bucket_wrap(data, bytes, 0, XXH3_64bits(data, bytes), peer->chunk_bytes, &peer->bucket);
    peer->bucket_slab = slab;
    stream->attachment_sent += bytes;
    count_bucket(peer);
    return WEFT_OK;
}

static bool attachment_owed(const weft_trainer *trainer, const weft_peer *peer)
{
    return trainer->attachment && trainer->attachment->hash != peer->sent_attachment;
}

static bool attachment_left(const weft_stream *stream)
{
    return stream->attachment && stream->attachment_sent < stream->attachment->bytes;
}

/* The next bucket of a chain; the update is read until the bucket's receipt. */
static void next_frames(weft_trainer *trainer, weft_peer *peer, weft_update *update, weft_level level,
                        uint64_t unit_limit)
{
    weft_stream *stream = &peer->stream;
    begin_bucket(peer, WEFT_BUCKET_FRAMES, &update->base, &update->target, stream->frame_bytes);
    weft_bucket_plan(&trainer->journal.arena, &stream->cursor, unit_limit,
                     bucket_bytes(peer, level, update->chain[level].bytes), peer->chunk_bytes, &peer->bucket);
    peer->bucket_update = update;
    update->readers++;
    count_bucket(peer);
}

static weft_status next_of_update(weft_trainer *trainer, weft_peer *peer)
{
    weft_stream *stream = &peer->stream;
    weft_update *update = stream->update;
    weft_version base = update ? update->base : stream->alone, target = update ? update->target : stream->alone;
    if (attachment_left(stream))
        return next_attachment(trainer, peer, &base, &target);
    if (update && !weft_cursor_done(&trainer->journal.arena, &stream->cursor, UINT64_MAX)) {
        next_frames(trainer, peer, update, stream->level, UINT64_MAX);
        return WEFT_OK;
    }
    weft_status status = finish(trainer, peer, &target);
    return status == WEFT_OK ? weft_stream_next(trainer, peer) : status;
}

/* Whether tiles are packed for this peer: its link, as measured or as limited by the site, is slow enough. */
static bool packs(const weft_peer *peer)
{
    double rate = peer->estimate.rate_bytes_s, limit = (double)peer->site.rate_limit;
    if (limit > 0 && !(rate > 0 && rate < limit))
        rate = limit;
    if (peer->site.snapshot_coding == WEFT_CODING_AUTO)
        return rate > 0 && rate < PACK_BELOW_BYTES_S;
    return peer->site.snapshot_coding == WEFT_CODING_PLANES;
}

/* Writes one unit's `full` frame at `out`; its bytes. */
static weft_status full_frame(weft_trainer *trainer, const weft_peer *peer, uint64_t unit, uint8_t *out,
                              uint32_t *bytes)
{
    weft_view view = weft_binding_view(&trainer->shadow, unit);
    uint32_t dense = view.count * view.width;
    uint32_t payload = (dense + WEFT_FRAME_ALIGN - 1) / WEFT_FRAME_ALIGN * WEFT_FRAME_ALIGN;
    weft_frame_header header = {(uint32_t)unit, 1, WEFT_LEVEL_FULL, payload, view.count, 0};
    weft_load_job job = {view, out + WEFT_FRAME_HEADER_BYTES};
    weft_frame_write_header(out, &header);
    memset(out + WEFT_FRAME_HEADER_BYTES + dense, 0, payload - dense);
    *bytes = WEFT_FRAME_HEADER_BYTES + payload;
    const weft_session *session = trainer->session;
    weft_status status =
        weft_backend_wait(session->backend, session->device, session->backend->load(session->device, &job), &job);
    if (status == WEFT_OK && packs(peer))
        *bytes = weft_planes_pack(&trainer->packer, &session->layout->units[unit], out);
    return status;
}

static uint64_t full_frame_bytes(const weft_trainer *trainer, uint64_t unit)
{
    const weft_unit *u = &trainer->session->layout->units[unit];
    uint64_t dense = (uint64_t)u->count * u->width;
    return WEFT_FRAME_HEADER_BYTES + (dense + WEFT_FRAME_ALIGN - 1) / WEFT_FRAME_ALIGN * WEFT_FRAME_ALIGN;
}

/* Fills a slab with whole frames of the shadow from the cursor on. */
static weft_status next_full(weft_trainer *trainer, weft_peer *peer)
{
    weft_stream *stream = &peer->stream;
    const weft_layout *layout = trainer->session->layout;
    const weft_version nothing = {0, 0, 0};
    uint64_t most = bucket_bytes(peer, WEFT_LEVEL_FULL, layout->bytes), bytes = 0;
    uint32_t frames = 0;
    XXH3_state_t checks;
    int32_t slab = take_slab(trainer, peer);
    if (slab < 0)
        return WEFT_AGAIN;
    uint8_t *data = weft_slab_at(&trainer->slabs, slab);
    XXH3_64bits_reset(&checks);
    if (most > trainer->slabs.slab_bytes)
        most = trainer->slabs.slab_bytes;
    for (; stream->unit < layout->unit_count; stream->unit++, frames++) {
        uint8_t check[8];
        uint32_t length;
        if (frames && bytes + full_frame_bytes(trainer, stream->unit) > most)
            break;
        weft_status status = full_frame(trainer, peer, stream->unit, data + bytes, &length);
        if (status != WEFT_OK) {
            give_slab(trainer, peer, slab);
            return status;
        }
        weft_bytes_put(check, weft_frame_check(data + bytes, length), 8);
        XXH3_64bits_update(&checks, check, sizeof check);
        bytes += length;
    }
    begin_bucket(peer, WEFT_BUCKET_FRAMES, &nothing, &trainer->newest, stream->frame_bytes);
    weft_bucket_wrap(data, bytes, frames, XXH3_64bits_digest(&checks), peer->chunk_bytes, &peer->bucket);
    peer->bucket_slab = slab;
    count_bucket(peer);
    stream->credit -= bytes < stream->credit ? bytes : stream->credit;
    return WEFT_OK;
}

/* Queues what is owed: as one update if that can be had, else version by version. */
static weft_status pay(weft_trainer *trainer, weft_peer *peer)
{
    weft_stream *stream = &peer->stream;
    weft_update *update = NULL;
    weft_status status = WEFT_OK;
    if (trainer->newest_order - stream->owed_from > 1)
        status = weft_bridge_want(trainer, stream->owed_from, WEFT_LEVEL_FAST, &update);
    if (status == WEFT_AGAIN)
        return WEFT_AGAIN;
    if (!update)
        update = weft_journal_after(&trainer->journal, stream->owed_from);
    if (!update)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "its snapshot is overtaken by more than the journal keeps");
    do {
        stream->behind[stream->behind_end++ % WEFT_BEHIND_MAX] = (weft_behind){update, stream->owed_limit};
        update->readers++;
        stream->owed_from = update->order;
        update = weft_journal_after(&trainer->journal, stream->owed_from);
    } while (update && trainer->newest_order - stream->owed_from < WEFT_BEHIND_MAX / 2);
    stream->owes = stream->owed_from != trainer->newest_order;
    return WEFT_OK;
}

/* Whether tiles go before the deltas that wait: as many bytes as went of deltas, so that a link on which each delta is
 * overtaken by the next version brings the snapshot on all the same. What waits must end where these tiles begin, and
 * leave room for what is published meanwhile. */
static bool alternates(const weft_trainer *trainer, const weft_stream *stream)
{
    const weft_layout *layout = trainer->session->layout;
    uint32_t waiting = stream->behind_end - stream->behind_begin;
    if (stream->owes || stream->credit == 0 || stream->unit == layout->unit_count || waiting > WEFT_BEHIND_MAX / 2)
        return false;
    for (uint32_t i = stream->behind_begin; i < stream->behind_end; i++) {
        const weft_behind *behind = &stream->behind[i % WEFT_BEHIND_MAX];
        uint32_t in_run = layout->units[stream->unit].place & ((1u << behind->update->parameters.run_shift) - 1);
        if (behind->unit_limit == stream->unit && in_run > 0)
            return false; /* a frame of its last run goes on into these tiles */
    }
    return true;
}

/* The next bucket of the deltas that wait; WEFT_AGAIN, with *done: there is none. */
static weft_status next_delta(weft_trainer *trainer, weft_peer *peer, bool *done)
{
    weft_stream *stream = &peer->stream;
    for (; stream->behind_begin < stream->behind_end; stream->behind_begin++) {
        const weft_behind *behind = &stream->behind[stream->behind_begin % WEFT_BEHIND_MAX];
        if (!stream->cursor_set)
            stream->cursor = weft_cursor_begin(&behind->update->chain[WEFT_LEVEL_FAST]);
        stream->cursor_set = true;
        if (!weft_cursor_done(&trainer->journal.arena, &stream->cursor, behind->unit_limit)) {
            next_frames(trainer, peer, behind->update, WEFT_LEVEL_FAST, behind->unit_limit);
            stream->credit += peer->bucket.header.payload_bytes;
            return WEFT_OK;
        }
        stream->cursor_set = false;
        behind->update->readers--;
    }
    *done = true;
    return WEFT_AGAIN;
}

/* The snapshot becomes the version after update `order`, which all tiles have; what followed comes as updates. */
static weft_status end_snapshot(weft_trainer *trainer, weft_peer *peer, uint64_t order)
{
    const weft_update *next = weft_journal_at(&trainer->journal, order + 1);
    weft_version target = next ? next->base : trainer->newest;
    if (!next && order != trainer->newest_order)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "its snapshot is overtaken by more than the journal keeps");
    peer->stream.order = peer->sent_order = order;
    /* bits whose attachment is still owed get their label with it, as after a welcome */
    if (attachment_owed(trainer, peer))
        target.run = target.number = 0;
    weft_status status = finish(trainer, peer, &target);
    return status == WEFT_OK ? weft_stream_next(trainer, peer) : status;
}

/* Deltas queued by publishes come in their order, so that every tile goes strictly from base to target. */
static weft_status next_of_snapshot(weft_trainer *trainer, weft_peer *peer)
{
    weft_stream *stream = &peer->stream;
    const weft_version nothing = {0, 0, 0};
    const bool tiles = stream->unit < trainer->session->layout->unit_count;
    bool done = false;
    if (attachment_left(stream))
        return next_attachment(trainer, peer, &nothing, &trainer->newest);
    while (!done && (trainer->shadow_busy || !alternates(trainer, stream))) {
        weft_status status = next_delta(trainer, peer, &done);
        if (!done)
            return status;
        if (stream->owes && !tiles)
            return end_snapshot(trainer, peer, stream->owed_from);
        if (stream->owes && (status = pay(trainer, peer)) != WEFT_OK)
            return status;
        done = stream->behind_begin == stream->behind_end;
    }
    if (tiles)
        return trainer->shadow_busy ? WEFT_AGAIN : next_full(trainer, peer);
    return trainer->shadow_busy ? WEFT_AGAIN : end_snapshot(trainer, peer, trainer->newest_order);
}

bool weft_stream_stands_at(const weft_peer *peer, uint64_t order)
{
    const weft_stream *stream = &peer->stream;
    return stream->kind == WEFT_STREAM_NONE ? peer->sent_order == order : stream->owes && stream->owed_from == order;
}

/* Whether every version up to the newest can be had from the journal. */
static bool leads_on(weft_trainer *trainer, uint64_t order)
{
    while (order != trainer->newest_order) {
        const weft_update *update = weft_journal_after(&trainer->journal, order);
        if (!update)
            return false;
        order = update->order;
    }
    return true;
}

/* Whether a peer that is behind takes several versions as one. Not if it is behind by one; nor if all that it lacks
 * can be under way at once and its link carries that in less time than merging takes. */
static bool skips(const weft_trainer *trainer, const weft_peer *peer, const weft_update *next)
{
    uint64_t behind = trainer->newest_order - peer->sent_order;
    bool at_once = behind <= WEFT_UPDATES_AHEAD - peer->expected_count;
    if (next->order == trainer->newest_order || next->order <= peer->single_until)
        return false;
    return !(at_once && peer->estimate.rate_bytes_s > trainer->bridge.speed);
}

/* What brings the peer on: the journal's next update, or all that it lacks as one. WEFT_AGAIN: that is being made. */
static weft_status choose(weft_trainer *trainer, weft_peer *peer, weft_update **update)
{
    weft_update *merged = NULL;
    *update = weft_journal_after(&trainer->journal, peer->sent_order);
    if (!*update || !skips(trainer, peer, *update))
        return WEFT_OK;
    weft_status status = weft_bridge_want(trainer, peer->sent_order, WEFT_LEVEL_FAST, &merged);
    if (status == WEFT_OK && fits(peer, merged))
        *update = merged;
    else if (status != WEFT_AGAIN)
        peer->single_until = trainer->newest_order;
    return status == WEFT_AGAIN ? WEFT_AGAIN : WEFT_OK;
}

static weft_status start(weft_trainer *trainer, weft_peer *peer)
{
    bool idle = peer->expected_count == 0;
    if (peer->held_order == WEFT_ORDER_UNKNOWN && idle)
        return weft_stream_offer(trainer, peer);
    if (peer->held_order == WEFT_ORDER_UNKNOWN || peer->expected_count == WEFT_UPDATES_AHEAD)
        return WEFT_AGAIN;
    if ((peer->followed && !idle) || weft_follow_waits(trainer, peer))
        return WEFT_AGAIN;
    if (peer->sent_order == trainer->newest_order) {
        return idle && attachment_owed(trainer, peer) ? begin_attachment(trainer, peer) : WEFT_AGAIN;
    }
    weft_update *update = NULL;
    bool kept = leads_on(trainer, peer->sent_order);
    weft_status status = kept ? choose(trainer, peer, &update) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (update && fits(peer, update))
        return begin_update(trainer, peer, update);
    if (!idle)
        return WEFT_AGAIN;
    weft_log(WEFT_LOG_WARN, "%s needs a snapshot: an update behind version %llu %s", peer->name,
             (unsigned long long)peer->held.number,
             kept ? "is larger than its staging" : "is not in the journal, or larger than that");
    return weft_stream_offer(trainer, peer);
}

/* The repair that was asked for: sent when it is made, or a snapshot offered when it came to nothing. */
static weft_status start_repair(weft_trainer *trainer, weft_peer *peer)
{
    weft_bridged *entry = peer->stream.repair;
    bool ours = entry->turn == peer->stream.repair_turn;
    if (ours && (entry->state == WEFT_BRIDGED_WANTED || entry->state == WEFT_BRIDGED_MAKING))
        return WEFT_AGAIN;
    if (ours && entry->state == WEFT_BRIDGED_READY)
        return begin_update(trainer, peer, &entry->update);
    weft_status status = weft_stream_offer(trainer, peer);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

weft_status weft_stream_next(weft_trainer *trainer, weft_peer *peer)
{
    weft_status status = WEFT_OK;
    if (peer->stream.kind == WEFT_STREAM_REPAIR)
        status = start_repair(trainer, peer);
    if (peer->stream.kind == WEFT_STREAM_NONE)
        status = start(trainer, peer);
    if (status != WEFT_OK)
        return status;
    if (peer->stream.kind == WEFT_STREAM_UPDATE)
        return next_of_update(trainer, peer);
    return peer->stream.kind == WEFT_STREAM_SNAPSHOT ? next_of_snapshot(trainer, peer) : WEFT_AGAIN;
}

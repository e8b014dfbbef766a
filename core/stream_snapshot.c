/* stream_snapshot.c - a snapshot from the shadow: its tiles, what is published meanwhile, its end. */
#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <string.h>
#include <xxhash.h>

#include "staging.h"
#include "status.h"
#include "stream.h"

/* A link slower than this takes packed tiles: any up to 1 Gbit/s. One thread packs about 1 GB/s and does not send
 * meanwhile, so that on a faster link little would be won, and on a busy machine, whose links seem slow, much lost. */
#define PACK_BELOW_BYTES_S 150e6

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
    return weft_stream_announce(trainer, peer, &nothing, &target, trainer->attachment, NULL, WEFT_STREAM_SNAPSHOT);
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
    uint64_t most = weft_stream_bucket_bytes(peer, WEFT_LEVEL_FULL, layout->bytes), bytes = 0;
    uint32_t frames = 0;
    XXH3_state_t checks;
    int32_t slab = weft_stream_take_slab(trainer, peer);
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
            weft_stream_give_slab(trainer, peer, slab);
            return status;
        }
        weft_bytes_put(check, weft_frame_check(data + bytes, length), 8);
        XXH3_64bits_update(&checks, check, sizeof check);
        bytes += length;
    }
    weft_stream_bucket(peer, WEFT_BUCKET_FRAMES, &nothing, &trainer->newest, stream->frame_bytes);
    weft_bucket_wrap(data, bytes, frames, XXH3_64bits_digest(&checks), peer->chunk_bytes, &peer->bucket);
    peer->bucket_slab = slab;
    weft_stream_count(peer);
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
            weft_stream_frames(trainer, peer, behind->update, WEFT_LEVEL_FAST, behind->unit_limit);
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
    if (weft_stream_owes_attachment(trainer, peer))
        target.run = target.number = 0;
    weft_status status = weft_stream_finish(trainer, peer, &target);
    return status == WEFT_OK ? weft_stream_next(trainer, peer) : status;
}

/* Deltas queued by publishes come in their order, so that every tile goes strictly from base to target. */
weft_status weft_stream_next_of_snapshot(weft_trainer *trainer, weft_peer *peer)
{
    weft_stream *stream = &peer->stream;
    const weft_version nothing = {0, 0, 0};
    const bool tiles = stream->unit < trainer->session->layout->unit_count;
    bool done = false;
    if (weft_stream_has_attachment(stream))
        return weft_stream_attachment(trainer, peer, &nothing, &trainer->newest);
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

/* feed_snapshot.c - sends a snapshot from the shadow: its tiles, what is published meanwhile, its end. */
#define XXH_STATIC_LINKING_ONLY /* XXH3_state_t on the stack */
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"
#include "encode/staging.h"
#include "peer/feed.h"
#include "peer/peer.h"

/* A link slower than this takes packed tiles: any link up to 1 Gbit/s. One thread packs about 1 GB/s, and does not send
 * meanwhile. So a faster link would win little, and a busy machine, whose links seem slow, would lose much. */
#define PACK_BELOW_BYTES_S 150e6

/* One block in so many of the arena may be filled with versions that tiles lack, before the tiles are brought on in
 * between. */
#define JOURNAL_SHARE 4u

/* Catch-ups that may fail one after the other. */
#define FAILURES_MOST 8u

weft_status weft_feed_no_snapshot(const weft_claim *claim)
{
    return weft_fail(WEFT_E_REFUSED,
                     "%s needs a snapshot, and the trainer lost its copy of the weights with its device", claim->name);
}

/* A snapshot is offered again if a repair came to nothing. */
weft_status weft_feed_offer(const weft_newest *newest, const weft_shadow *shadow, weft_peer *peer)
{
    uint8_t body[32];
    weft_out out = {body, sizeof body, 0, false};
    const weft_version version = weft_peer_view_version(peer->view, &newest->version, newest->order);
    if (shadow->lost)
        return weft_feed_no_snapshot(&peer->claim);
    memset(&peer->feed, 0, sizeof peer->feed);
    peer->feed.kind = WEFT_FEED_OFFERED;
    peer->standing.held_order = WEFT_ORDER_UNKNOWN;
    weft_wire_put_version(&out, &version);
    weft_status status = weft_peer_move(peer, WEFT_ON_OFFERED);
    return status != WEFT_OK ? status
                             : weft_control_send(&peer->connection.control, WEFT_MESSAGE_OFFER, out.data, out.used);
}

static void begin_tiles(const weft_newest *newest, weft_feed *feed, weft_standing *standing)
{
    feed->tiles = (weft_tiles){.order = newest->order, .from = newest->order};
    feed->order = standing->sent_order = newest->order;
}

void weft_feed_follow(weft_feed *feed, weft_standing *standing, const weft_update *update)
{
    weft_tiles *tiles = &feed->tiles;
    if (feed->kind != WEFT_FEED_SNAPSHOT)
        return;
    if (tiles->unit == 0)
        tiles->from = tiles->order = update->order;
    standing->limits[update->order % WEFT_JOURNAL_UPDATES] = (uint32_t)tiles->unit;
    feed->order = standing->sent_order = update->order;
}

weft_status weft_feed_snapshot(weft_publisher *publisher, weft_peer *peer)
{
    const weft_version nothing = {0, 0, 0};
    weft_version target = {publisher->run, publisher->newest.version.number, 0};
    if (peer->feed.kind != WEFT_FEED_OFFERED)
        return weft_fail(WEFT_E_PROTOCOL, "%s accepts a snapshot that was not offered", peer->claim.name);
    weft_status status = weft_peer_move(peer, WEFT_ON_ACCEPTED);
    if (status != WEFT_OK)
        return status;
    peer->standing.held = nothing; /* a snapshot that is written in place leaves nothing of what the peer held */
    memset(&peer->feed, 0, sizeof peer->feed);
    peer->feed.level = WEFT_LEVEL_FULL;
    begin_tiles(&publisher->newest, &peer->feed, &peer->standing);
    return weft_feed_announce(publisher, peer, &nothing, &target, publisher->newest.attachment, NULL,
                              WEFT_FEED_SNAPSHOT);
}

/* Returns true if tiles are packed for this peer, because its link is slow, as measured or as limited by the site. */
static bool packs(const weft_peer *peer)
{
    double rate = peer->tuning.estimate.rate_bytes_s, limit = (double)peer->site.rate_limit;
    if (limit > 0 && !(rate > 0 && rate < limit))
        rate = limit;
    if (peer->site.snapshot_coding == WEFT_CODING_AUTO)
        return rate > 0 && rate < PACK_BELOW_BYTES_S;
    return peer->site.snapshot_coding == WEFT_CODING_PLANES;
}

static uint64_t full_frame_bytes(const weft_layout *layout, uint64_t unit)
{
    const weft_unit *u = &layout->units[unit];
    return WEFT_FRAME_HEADER_BYTES + weft_frame_pad((uint64_t)u->count * u->width);
}

/* Moves the tiles on to the next unit that the peer takes; past the last one all tiles are sent. Returns the unit at
 * which what the peer takes in a row ends. */
static uint64_t seek_unit(const weft_peer *peer, weft_tiles *tiles)
{
    uint64_t end = peer->session->layout->unit_count;
    const uint64_t all = end, next = peer->view ? weft_number_next(&peer->view->excerpt.units, tiles->unit, &end) : 0;
    if (peer->view)
        tiles->unit = next < all ? next : all;
    return tiles->unit < all ? end : all;
}

/* Returns how many units' frames are made together in `room` bytes: as many as fit and a window holds. Packed units are
 * made one at a time, because what packing leaves is not known before. */
static uint64_t units_fitting(const weft_shadow *shadow, const weft_peer *peer, uint64_t end, uint64_t room)
{
    const uint64_t first = peer->feed.tiles.unit;
    const uint64_t most = packs(peer) ? 1 : shadow->loads.depth;
    uint64_t unit = first, bytes = 0;
    while (unit < end && unit - first < most && (bytes += full_frame_bytes(peer->session->layout, unit)) <= room)
        unit++;
    return unit - first;
}

/* Writes the `full` frame of a unit whose bits are in their place. Returns its bytes. */
static uint32_t full_frame(const weft_peer *peer, uint64_t unit, uint8_t *out)
{
    const weft_unit *u = &peer->session->layout->units[unit];
    const uint32_t dense = u->count * u->width, payload = (uint32_t)weft_frame_pad(dense);
    const weft_frame_header header = {(uint32_t)unit, 1, WEFT_LEVEL_FULL, payload, u->count, 0};
    weft_frame_write_header(out, &header);
    memset(out + WEFT_FRAME_HEADER_BYTES + dense, 0, payload - dense);
    return packs(peer) ? weft_planes_pack(&peer->sender.flights.slabs->packer, u, out)
                       : WEFT_FRAME_HEADER_BYTES + payload;
}

/* Slab fill: what a slab holds so far. */
typedef struct slab_fill {
    uint8_t *data;
    uint64_t bytes, most;
    uint32_t frames;
    XXH3_state_t checks;
} slab_fill;

/* Fills the slab with whole frames of the shadow, from the cursor on. */
static weft_status fill_slab(weft_publisher *publisher, weft_peer *peer, slab_fill *fill)
{
    weft_tiles *tiles = &peer->feed.tiles;
    for (;;) {
        const uint64_t end = seek_unit(peer, tiles);
        if (tiles->unit == publisher->session->layout->unit_count)
            return WEFT_OK;
        uint64_t units =
            units_fitting(&publisher->shadow, peer, end, fill->most > fill->bytes ? fill->most - fill->bytes : 0);
        units += units == 0 && fill->frames == 0;
        if (units == 0)
            return WEFT_OK;
        weft_status status = weft_shadow_read(&publisher->shadow, &publisher->shadow.loads, tiles->unit, units, true,
                                              fill->data + fill->bytes);
        if (status != WEFT_OK)
            return status;
        for (; units > 0; units--, tiles->unit++, fill->frames++) {
            uint8_t check[8], *frame = fill->data + fill->bytes;
            uint32_t length = full_frame(peer, tiles->unit, frame);
            weft_bytes_put(check, weft_frame_check(frame, length), 8);
            XXH3_64bits_update(&fill->checks, check, sizeof check);
            fill->bytes += length;
        }
    }
}

/* Fills a bucket of tiles. */
static weft_status next_full(weft_publisher *publisher, weft_peer *peer)
{
    weft_tiles *tiles = &peer->feed.tiles;
    const weft_version nothing = {0, 0, 0};
    const uint64_t most = weft_feed_bucket_bytes(peer, WEFT_LEVEL_FULL, publisher->session->layout->bytes);
    const uint64_t slab_bytes = peer->sender.flights.slabs->slab_bytes;
    int32_t slab = weft_feed_take_slab(publisher->peers, &peer->sender.flights);
    if (slab < 0)
        return WEFT_AGAIN;
    slab_fill fill = {.data = weft_slab_at(peer->sender.flights.slabs, slab),
                      .most = most < slab_bytes ? most : slab_bytes};
    XXH3_64bits_reset(&fill.checks);
    weft_status status = fill_slab(publisher, peer, &fill);
    if (status != WEFT_OK) {
        weft_feed_give_slab(&peer->sender.flights, slab);
        return status;
    }
    weft_feed_bucket(peer, WEFT_BUCKET_FRAMES, &nothing, &publisher->newest.version, peer->feed.frame_bytes);
    weft_bucket_wrap(fill.data, fill.bytes, fill.frames, XXH3_64bits_digest(&fill.checks),
                     peer->sender.posting.chunk_bytes, &peer->sender.posting.bucket);
    peer->sender.posting.slab = slab;
    weft_feed_count(&peer->feed, &peer->sender.posting);
    tiles->order = publisher->newest.order;
    tiles->credit -= fill.bytes < tiles->credit ? fill.bytes : tiles->credit;
    return WEFT_OK;
}

/* ---- what was published since a tile was read */

/* Returns true if the journal has what the tiles lack, and sets `*blocks` to how many blocks that takes. */
static bool kept(weft_journal *journal, const weft_newest *newest, const weft_tiles *tiles, uint64_t *blocks)
{
    uint64_t bytes = 0;
    for (uint64_t order = tiles->from; order != newest->order;) {
        const weft_update *update = weft_journal_after(journal, order);
        if (!update)
            return false;
        bytes += update->chain[WEFT_JOURNAL_LEVEL].bytes;
        order = update->order;
    }
    *blocks = bytes / journal->arena.block_bytes + 1;
    return true;
}

/* Begins the snapshot anew, because the tiles lack what is not to be had any more. */
static void start_over(const weft_newest *newest, weft_peer *peer, const char *why)
{
    weft_log(WEFT_LOG_WARN, "%s: its snapshot starts over with version %llu, %llu of %llu units were sent: %s",
             peer->claim.name, (unsigned long long)newest->version.number, (unsigned long long)peer->feed.tiles.unit,
             (unsigned long long)peer->session->layout->unit_count, why);
    peer->feed.made = NULL;
    begin_tiles(newest, &peer->feed, &peer->standing);
}

/* Returns true if other merges have left some room since a catch-up failed. Gives up what nobody reads by now, because
 * there may be no further publish that would. */
static bool has_room(weft_bridge *bridge, const weft_tiles *tiles)
{
    if (tiles->failed_blocks == 0)
        return true;
    while (bridge->blocks >= tiles->failed_blocks && weft_bridge_yield(bridge)) {
    }
    return bridge->blocks < tiles->failed_blocks;
}

/* Returns true if a catch-up is to be asked for now: after all tiles went, and before that if the journal will not keep
 * for long what they lack. */
static bool catches_up(weft_publisher *publisher, const weft_tiles *tiles, uint64_t blocks)
{
    bool all = tiles->unit == publisher->session->layout->unit_count;
    bool many = publisher->newest.order - tiles->from >= WEFT_JOURNAL_UPDATES / 2 ||
                blocks > publisher->journal.arena.block_count / JOURNAL_SHARE;
    return (all || tiles->caught_unit > 0 || (many && tiles->credit == 0)) && has_room(&publisher->bridge, tiles);
}

static void ask(weft_bridge *bridge, weft_feed *feed, const weft_standing *standing)
{
    const weft_tiles *tiles = &feed->tiles;
    feed->made = weft_bridge_catch_up(bridge, tiles->from, tiles->caught_unit ? tiles->caught : 0, tiles->caught_unit,
                                      standing->limits);
    if (feed->made)
        feed->made_turn = feed->made->turn;
}

/* Takes the catch-up that was made as the feed's update. */
static void take(weft_feed *feed)
{
    weft_update *update = &feed->made->update;
    feed->update = update;
    feed->cursor = weft_cursor_begin(&update->chain[WEFT_LEVEL_FAST]);
    feed->tiles.end = feed->made->catch_up.end;
    feed->tiles.credit += update->chain[WEFT_LEVEL_FAST].bytes;
    feed->tiles.failures = feed->tiles.failed_blocks = 0;
    feed->made = NULL;
    update->readers++;
}

/* Notes that all of the catch-up was sent. */
static void caught_up(const weft_layout *layout, weft_feed *feed)
{
    weft_tiles *tiles = &feed->tiles;
    bool whole = tiles->end == layout->unit_count;
    tiles->caught = feed->update->order;
    tiles->caught_unit = whole ? 0 : tiles->end;
    tiles->from = whole ? tiles->caught : tiles->from;
    feed->update->readers--;
    feed->update = NULL;
}

/* Notes that the catch-up came to nothing. Another is asked for when other merges have left some room, or at once if
 * they have none. */
static void failed(weft_bridge *bridge, weft_feed *feed)
{
    feed->made = NULL;
    while (weft_bridge_yield(bridge)) {
    }
    feed->tiles.failed_blocks = bridge->blocks;
    feed->tiles.failures += feed->tiles.failed_blocks == 0;
}

/* Brings the tiles sent so far on to the newest version if that must be. The feed has an update to send then. */
static void catch_up(weft_publisher *publisher, weft_peer *peer)
{
    weft_feed *feed = &peer->feed;
    const uint64_t largest = weft_staging_largest(publisher->session->layout);
    bool takes = largest <= peer->claim.hello.staging_bytes;
    char small[128], size[WEFT_SIZE_PRINTED];
    uint64_t blocks;
    if (!feed->made && feed->tiles.from == publisher->newest.order)
        return;
    if (!feed->made && (!takes || !kept(&publisher->journal, &publisher->newest, &feed->tiles, &blocks))) {
        snprintf(small, sizeof small, "its staging takes no update, and one was published; raise it to at least %s",
                 weft_size_print(largest, size));
        start_over(&publisher->newest, peer,
                   takes ? "the journal does not keep what was published since; raise [trainer] journal" : small);
        return;
    }
    if (!feed->made && feed->tiles.failures > FAILURES_MOST)
        start_over(&publisher->newest, peer, "what was published since cannot be merged; raise [trainer] journal");
    else if (!feed->made && catches_up(publisher, &feed->tiles, blocks))
        ask(&publisher->bridge, &peer->feed, &peer->standing);
    if (!feed->made)
        return;
    bool ours = feed->made->turn == feed->made_turn;
    if (ours && feed->made->state == WEFT_BRIDGED_READY)
        take(feed);
    else if (!ours || feed->made->state == WEFT_BRIDGED_FAILED)
        failed(&publisher->bridge, feed);
}

/* Ends the snapshot as the version up to which all tiles were brought. What was published after that comes as
 * updates. */
static weft_status end_snapshot(weft_publisher *publisher, weft_peer *peer)
{
    uint64_t order = peer->feed.tiles.from;
    const weft_update *next = weft_journal_at(&publisher->journal, order + 1);
    weft_version target = next ? next->base : publisher->newest.version;
    target = weft_peer_view_version(peer->view, &target, order);
    weft_wish_overtake(&peer->wish, &target);
    peer->feed.order = peer->standing.sent_order = order;
    /* bits whose attachment is still to come get their label with it, as after a welcome */
    if (weft_feed_owes_attachment(&publisher->newest, &peer->standing)) {
        target.run = target.number = 0;
        weft_wish_renew(&peer->wish, publisher->newest.version.number);
    }
    weft_status status = weft_feed_finish(publisher->peers, peer, &target);
    return status == WEFT_OK ? weft_feed_next(publisher, peer) : status;
}

/* Returns true if all tiles went, and none is newer than the version to which they were brought. */
static bool complete(weft_publisher *publisher, const weft_tiles *tiles)
{
    bool named = tiles->from == publisher->newest.order || weft_journal_at(&publisher->journal, tiles->from + 1);
    return tiles->unit == publisher->session->layout->unit_count && tiles->from >= tiles->order && named;
}

/* Returns true if the peer takes more frames of the catch-up, and sets the unit that ends those in a row. */
static bool has_frames(weft_publisher *publisher, weft_peer *peer, uint64_t *end)
{
    weft_feed *feed = &peer->feed;
    *end = weft_peer_view_seek(peer->view, &publisher->journal.arena, &feed->cursor, feed->tiles.end);
    return !weft_cursor_done(&publisher->journal.arena, &feed->cursor, feed->tiles.end);
}

/* Tiles go whenever there is no catch-up to be sent, also while one is being made. A catch-up is exact for each unit,
 * whatever version its tile was read from. It is made of the updates published after that tile was sent. */
weft_status weft_feed_next_of_snapshot(weft_publisher *publisher, weft_peer *peer)
{
    weft_feed *feed = &peer->feed;
    const weft_version nothing = {0, 0, 0};
    uint64_t end;
    if (weft_feed_has_attachment(feed))
        return weft_feed_attach(publisher->peers, peer, &nothing, &publisher->newest.version);
    if (weft_peer_view_layout(peer->view, peer->session)->unit_count == 0)
        feed->tiles.unit = peer->session->layout->unit_count; /* no tile will be read that would say so */
    for (;;) {
        if (feed->update && has_frames(publisher, peer, &end)) {
            weft_feed_frames(publisher, peer, feed->update, WEFT_LEVEL_FAST, end);
            return WEFT_OK;
        }
        if (feed->update)
            caught_up(publisher->session->layout, feed);
        if (complete(publisher, &feed->tiles))
            return end_snapshot(publisher, peer);
        catch_up(publisher, peer);
        if (!feed->update)
            break;
    }
    bool tiles = feed->tiles.unit < publisher->session->layout->unit_count;
    if (tiles && publisher->shadow.lost)
        return weft_feed_no_snapshot(&peer->claim);
    return tiles && !publisher->shadow.busy ? next_full(publisher, peer) : WEFT_AGAIN;
}

/* feed.c - decides what a peer is sent next: updates of the journal in order, or a snapshot from the shadow. */
#include "peer/feed.h"
#include "peer/peer.h"

#include <string.h>

#include "base/status.h"

static weft_status send_message(weft_feed *feed, weft_connection *connection, weft_message type, const weft_out *body)
{
    feed->bytes += WEFT_MESSAGE_PREFIX + body->used;
    return weft_control_send(&connection->control, type, body->data, body->used);
}

static weft_level level_for(const weft_peer *peer, const weft_arena *arena, const weft_update *update)
{
    weft_level level = peer->tuning.wanted;
    bool there = update->levels >> level & peer->claim.hello.levels >> level & 1;
    return there && weft_peer_view_stages(peer, arena, update, level) ? level
           : update->levels >> WEFT_LEVEL_FAST & 1                    ? WEFT_LEVEL_FAST
           : update->levels >> WEFT_LEVEL_TIGHT & 1                   ? WEFT_LEVEL_TIGHT
                                                                      : WEFT_LEVEL_FULL; /* a repair */
}

bool weft_feed_fits(const weft_peer *peer, const weft_arena *arena, const weft_update *update)
{
    return !update->snapshot_only && weft_peer_view_stages(peer, arena, update, level_for(peer, arena, update));
}

/* Names both ends of an update as the peer knows them. */
static void name_ends(const weft_peer *peer, const weft_update *update, weft_version *base, weft_version *target)
{
    *base = weft_peer_view_version(peer->view, &update->base, update->from);
    *target = weft_peer_view_version(peer->view, &update->target, update->order);
}

weft_status weft_feed_announce(weft_publisher *publisher, weft_peer *peer, const weft_version *base,
                               const weft_version *target, weft_blob *attachment, const weft_update *update,
                               weft_feed_kind kind)
{
    uint8_t body[WEFT_UPDATE_HEADER_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_feed *feed = &peer->feed;
    weft_wire_update header = {
        .snapshot = kind == WEFT_FEED_SNAPSHOT, .level = feed->level, .base = *base, .target = *target};
    header.target.root = 0; /* the trailer names it */
    if (update)
        header.parameters = update->parameters;
    memcpy(header.layout, weft_peer_view_layout(peer->view, publisher->session)->hash, sizeof header.layout);
    feed->kind = kind;
    feed->begun_ns = weft_clock_ns();
    if (attachment && attachment->hash != peer->standing.sent_attachment) {
        feed->attachment = weft_blob_hold(attachment);
        header.attachment_bytes = attachment->bytes;
        header.attachment = attachment->hash;
    }
    weft_wire_put_update(&out, &header);
    weft_status status = WEFT_OK;
    if (update)
        status = weft_follow_begin(publisher, peer, feed, update, &out);
    if (header.attachment_bytes)
        peer->standing.sent_attachment = header.attachment;
    return status == WEFT_OK ? send_message(&peer->feed, &peer->connection, WEFT_MESSAGE_UPDATE, &out) : status;
}

weft_status weft_feed_begin(weft_publisher *publisher, weft_peer *peer, weft_update *update)
{
    weft_feed *feed = &peer->feed;
    weft_version base, target;
    name_ends(peer, update, &base, &target);
    memset(feed, 0, sizeof *feed);
    feed->level = level_for(peer, &publisher->journal.arena, update);
    peer->tuning.level = feed->level;
    feed->update = update;
    feed->order = update->order;
    feed->cursor = weft_cursor_begin(&update->chain[feed->level]);
    feed->eager = update == publisher->eager.update;
    update->readers++;
    peer->following.followed = false;
    peer->following.waits_since_ns = 0;
    weft_status status =
        weft_feed_announce(publisher, peer, &base, &target, update->attachment, update, WEFT_FEED_UPDATE);
    peer->standing.sent_order = update->order;
    return status;
}

/* Brings a missing attachment to a peer that already has the newest bits, as an update that changes nothing. */
static weft_status begin_attachment(weft_publisher *publisher, weft_peer *peer)
{
    const weft_newest *newest = &publisher->newest;
    const weft_version version = weft_peer_view_version(peer->view, &newest->version, newest->order);
    memset(&peer->feed, 0, sizeof peer->feed);
    peer->feed.level = WEFT_LEVEL_FAST;
    peer->feed.cursor.block = WEFT_NO_BLOCK;
    peer->feed.alone = version;
    return weft_feed_announce(publisher, peer, &version, &version, newest->attachment, NULL, WEFT_FEED_UPDATE);
}

/* Reports to the peer that all was sent, or that the update is withdrawn, and ends the feed. */
static weft_status finish(weft_peer_table *peers, weft_peer *peer, const weft_version *target, weft_expected *expected)
{
    uint8_t body[WEFT_UPDATE_TRAILER_BYTES];
    weft_out out = {body, sizeof body, 0, false};
    weft_feed *feed = &peer->feed;
    weft_wire_trailer trailer = {*target, feed->buckets, feed->frames, feed->frame_bytes, expected->changed};
    weft_wire_put_trailer(&out, &trailer);
    weft_status status = send_message(&peer->feed, &peer->connection, WEFT_MESSAGE_TRAILER, &out);
    bool snapshot = feed->kind == WEFT_FEED_SNAPSHOT;
    expected->level = feed->level;
    expected->frame_bytes = feed->frame_bytes;
    expected->bytes = feed->bytes;
    expected->begun_ns = feed->begun_ns;
    expected->end = peer->sender.flights.sequence;
    peer->receipts.expected[peer->receipts.count++] = *expected;
    peer->standing.sent_order = expected->order;
    weft_follow_finish(peers, peer, &out, expected);
    weft_stats_info *stats = &peer->session->stats;
    *(snapshot ? &peer->info.snapshot_bytes : &peer->info.bytes) += feed->bytes;
    *(snapshot ? &stats->snapshot_bytes : &stats->bytes_sent) += feed->bytes;
    weft_feed_end(&peer->feed);
    return status;
}

weft_status weft_feed_finish(weft_peer_table *peers, weft_peer *peer, const weft_version *target)
{
    const weft_feed *feed = &peer->feed;
    weft_expected expected = {.order = feed->order ? feed->order : peer->standing.sent_order,
                              .version = *target,
                              .changed = peer->view     ? feed->changed
                                         : feed->update ? feed->update->changed
                                                        : 0};
    return finish(peers, peer, target, &expected);
}

weft_status weft_feed_withdraw(weft_peer_table *peers, weft_peer *peer)
{
    const weft_version none = {0, 0, 0};
    const weft_update *update = peer->feed.update;
    const weft_version base = weft_peer_view_version(peer->view, &update->base, update->from);
    weft_expected expected = {.order = update->from, .version = base, .withdrawn = true};
    return finish(peers, peer, &none, &expected);
}

/* Returns true if the peer cannot stage what there is of its update, because an eager update may have grown beyond
 * that. */
static bool outgrown(const weft_peer *peer, const weft_arena *arena, const weft_update *update)
{
    return peer->feed.eager && !weft_peer_view_stages(peer, arena, update, peer->feed.level);
}

/* Fills the next bucket of an update's frames. WEFT_AGAIN: there is none; with `*more`, there will be. */
static weft_status next_frames(weft_publisher *publisher, weft_peer *peer, weft_update *update, bool *more)
{
    weft_feed *feed = &peer->feed;
    *more = update == publisher->eager.update;
    weft_cursor_reach(&feed->cursor, &update->chain[feed->level]);
    const uint64_t end = weft_peer_view_seek(peer->view, &publisher->journal.arena, &feed->cursor, UINT64_MAX);
    if (weft_cursor_done(&publisher->journal.arena, &feed->cursor, UINT64_MAX) ||
        (*more && !weft_eager_ripe(peer, update)))
        return WEFT_AGAIN;
    weft_feed_frames(publisher, peer, update, feed->level, end);
    return WEFT_OK;
}

static weft_status next_of_update(weft_publisher *publisher, weft_peer *peer)
{
    weft_feed *feed = &peer->feed;
    weft_update *update = feed->update;
    weft_version base = feed->alone, target = feed->alone;
    bool more = false;
    if (update)
        name_ends(peer, update, &base, &target);
    if (update && outgrown(peer, &publisher->journal.arena, update)) {
        weft_status status = weft_feed_withdraw(publisher->peers, peer);
        return status == WEFT_OK ? WEFT_AGAIN : status;
    }
    if (weft_feed_has_attachment(feed))
        return weft_feed_attach(publisher->peers, peer, &base, &target);
    weft_status status = update ? next_frames(publisher, peer, update, &more) : WEFT_AGAIN;
    if (status == WEFT_OK || more)
        return status;
    status = weft_feed_finish(publisher->peers, peer, &target);
    return status == WEFT_OK ? weft_feed_next(publisher, peer) : status;
}

bool weft_feed_leads(weft_journal *journal, uint64_t from, uint64_t to)
{
    while (from != to) {
        const weft_update *update = weft_journal_after(journal, from);
        if (!update)
            return false;
        from = update->order;
    }
    return true;
}

bool weft_feed_needs_snapshot(weft_journal *journal, const weft_newest *newest, const weft_peer *peer)
{
    if (peer->standing.sent_order == WEFT_ORDER_UNKNOWN ||
        !weft_feed_leads(journal, peer->standing.sent_order, newest->order))
        return true;
    return peer->standing.sent_order != newest->order &&
           !weft_feed_fits(peer, &journal->arena, weft_journal_after(journal, peer->standing.sent_order));
}

weft_level weft_feed_merged_level(const weft_peer *peer)
{
    bool tight = peer->tuning.wanted == WEFT_LEVEL_TIGHT && peer->claim.hello.levels >> WEFT_LEVEL_TIGHT & 1;
    return tight ? WEFT_LEVEL_TIGHT : WEFT_LEVEL_FAST;
}

/* Returns true if a peer that lacks versions takes several of them as one. A peer that lacks one takes that one, unless
 * the journal has it as fast and the peer wants it tight. If all that the peer lacks can be under way at once, its link
 * may carry that in less time than merging takes. Then the peer takes single versions. Versions of a run before are on
 * the way only. */
static bool skips(const weft_newest *newest, const weft_bridge *bridge, const weft_peer *peer, const weft_update *next,
                  weft_level level)
{
    uint64_t behind = newest->order - peer->standing.sent_order;
    bool at_once = behind <= WEFT_UPDATES_AHEAD - peer->receipts.count;
    bool there = level == WEFT_LEVEL_FAST || next->levels >> level & 1;
    if ((next->order == newest->order && there) || next->order <= peer->standing.single_until)
        return false;
    if (next->target.run != newest->version.run)
        return true;
    return !(at_once && peer->tuning.estimate.rate_bytes_s > bridge->speed[level]);
}

/* Chooses what brings the peer on: the journal's next update, or all that it lacks as one. WEFT_AGAIN: that is being
 * made. */
static weft_status choose(weft_publisher *publisher, weft_peer *peer, weft_update **update)
{
    const weft_level level = weft_feed_merged_level(peer);
    weft_update *merged = NULL;
    *update = weft_journal_after(&publisher->journal, peer->standing.sent_order);
    if (!*update || !skips(&publisher->newest, &publisher->bridge, peer, *update, level))
        return WEFT_OK;
    weft_status status = weft_bridge_want(&publisher->bridge, peer->standing.sent_order, 0, level, &merged);
    const bool large = status == WEFT_OK && peer->claim.hello.encoded_bytes &&
                       !weft_feed_fits(peer, &publisher->journal.arena, merged);
    if ((status == WEFT_E_BUDGET || large) && level != WEFT_LEVEL_FAST && (*update)->order != publisher->newest.order)
        status = weft_bridge_want(&publisher->bridge, peer->standing.sent_order, 0, WEFT_LEVEL_FAST, &merged);
    if (status == WEFT_OK && weft_feed_fits(peer, &publisher->journal.arena, merged))
        *update = merged;
    else if (status != WEFT_AGAIN)
        peer->standing.single_until = publisher->newest.order;
    return status == WEFT_AGAIN ? WEFT_AGAIN : WEFT_OK;
}

weft_status weft_feed_attachment(weft_publisher *publisher, weft_peer *peer, bool idle)
{
    return idle && weft_feed_owes_attachment(&publisher->newest, &peer->standing) ? begin_attachment(publisher, peer)
                                                                                  : WEFT_AGAIN;
}

/* Sends what a peer that was sent all versions still lacks: the attachment, or the version that is being encoded. */
static weft_status start_from_newest(weft_publisher *publisher, weft_peer *peer, bool idle)
{
    if (weft_feed_owes_attachment(&publisher->newest, &peer->standing))
        return weft_feed_attachment(publisher, peer, idle);
    bool begins = weft_eager_may(&publisher->eager, publisher->peers, peer) &&
                  weft_feed_fits(peer, &publisher->journal.arena, publisher->eager.update);
    return begins ? weft_feed_begin(publisher, peer, publisher->eager.update) : WEFT_AGAIN;
}

/* Logs the staging that would have served, and warns again only if that is yet more. */
static void say_snapshot(weft_peer *peer, const weft_arena *arena, const weft_update *update)
{
    char size[WEFT_SIZE_PRINTED];
    const uint64_t need = update ? weft_peer_view_lists(peer, arena, update, level_for(peer, arena, update)) : 0;
    if (!update) {
        weft_log(WEFT_LOG_WARN, "%s needs a snapshot: the journal does not lead on from version %llu", peer->claim.name,
                 (unsigned long long)peer->standing.held.number);
        return;
    }
    const bool said = need <= peer->standing.staging_said;
    weft_log(said ? WEFT_LOG_DEBUG : WEFT_LOG_WARN,
             "%s needs a snapshot: the update after version %llu is larger than its staging of %llu bytes; raise "
             "[peer.%s] staging to at least %s",
             peer->claim.name, (unsigned long long)peer->standing.held.number,
             (unsigned long long)peer->claim.hello.staging_bytes, peer->claim.name, weft_size_print(need, size));
    peer->standing.staging_said = said ? peer->standing.staging_said : need;
}

weft_status weft_feed_instead(weft_publisher *publisher, weft_peer *peer, const weft_update *update)
{
    say_snapshot(peer, &publisher->journal.arena, update);
    return weft_feed_offer(&publisher->newest, &publisher->shadow, peer);
}

static weft_status start(weft_publisher *publisher, weft_peer *peer)
{
    bool idle = peer->receipts.count == 0;
    if (peer->standing.held_order == WEFT_ORDER_UNKNOWN && idle)
        return weft_feed_offer(&publisher->newest, &publisher->shadow, peer);
    if (peer->standing.held_order == WEFT_ORDER_UNKNOWN || peer->receipts.count == WEFT_UPDATES_AHEAD)
        return WEFT_AGAIN;
    if ((peer->following.followed && !idle) || weft_feed_drops(&peer->receipts) ||
        weft_follow_waits(&publisher->newest, peer))
        return WEFT_AGAIN;
    if (peer->wish.named)
        return weft_follow_gathers(publisher, peer) ? WEFT_AGAIN : weft_feed_wish(publisher, peer, idle);
    if (peer->standing.sent_order == publisher->newest.order)
        return start_from_newest(publisher, peer, idle);
    weft_update *update = NULL;
    bool kept = weft_feed_leads(&publisher->journal, peer->standing.sent_order, publisher->newest.order);
    weft_status status = kept ? choose(publisher, peer, &update) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    if (update && weft_feed_fits(peer, &publisher->journal.arena, update))
        return weft_feed_begin(publisher, peer, update);
    return idle ? weft_feed_instead(publisher, peer, update) : WEFT_AGAIN;
}

/* Sends the repair that was asked for, when it is made; offers a snapshot if it came to nothing. */
static weft_status start_repair(weft_publisher *publisher, weft_peer *peer)
{
    weft_bridged *entry = peer->feed.made;
    bool ours = entry->turn == peer->feed.made_turn;
    if (ours && (entry->state == WEFT_BRIDGED_WANTED || entry->state == WEFT_BRIDGED_MAKING))
        return WEFT_AGAIN;
    if (ours && entry->state == WEFT_BRIDGED_READY) {
        weft_wish_overtake(&peer->wish, &entry->update.target);
        return weft_feed_begin(publisher, peer, &entry->update);
    }
    weft_status status = weft_feed_offer(&publisher->newest, &publisher->shadow, peer);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

weft_status weft_feed_next(weft_publisher *publisher, weft_peer *peer)
{
    weft_status status = WEFT_OK;
    if (peer->feed.kind == WEFT_FEED_REPAIR)
        status = start_repair(publisher, peer);
    if (peer->feed.kind == WEFT_FEED_NONE)
        status = start(publisher, peer);
    if (status != WEFT_OK)
        return status;
    if (peer->feed.kind == WEFT_FEED_UPDATE)
        return next_of_update(publisher, peer);
    return peer->feed.kind == WEFT_FEED_SNAPSHOT ? weft_feed_next_of_snapshot(publisher, peer) : WEFT_AGAIN;
}

/* Returns the pace of the link by which the peer's data go, which is the relay's if the peer comes through one. */
static weft_pace *pace_of(weft_peer *peer)
{
    while (peer->following.parent)
        peer = peer->following.parent;
    return &peer->sender.posting.pace;
}

weft_status weft_feed_pump(weft_publisher *publisher, weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    weft_status status;
    while ((status = weft_send_post(&peer->sender, pace_of(peer), now_ns, waits)) == WEFT_OK &&
           (status = weft_feed_next(publisher, peer)) == WEFT_OK)
        weft_send_begin(&peer->sender, now_ns);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

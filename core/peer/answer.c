/* answer.c - tells a rollout the digests of a version, so that it finds the tile in which its bits differ. */
#include <string.h>

#include "base/status.h"
#include "layout/digest.h"
#include "layout/part.h"
#include "peer/peer.h"

/* Parts that one answer goes through at most, whatever was asked, because the lock is held meanwhile. */
#define PARTS_MAX 8192u
#define SLICE     512u

/* Found by the root, and by the number if several versions have that root. */
uint64_t weft_answer_order(weft_publisher *publisher, const weft_peer_view *view, const weft_version *version)
{
    const weft_newest *last = &publisher->newest;
    bool newest = version->root == weft_peer_view_version(view, &last->version, last->order).root;
    uint64_t found = newest ? publisher->newest.order : WEFT_ORDER_UNKNOWN;
    if ((version->run | version->number | version->root) == 0 ||
        (newest && version->number == publisher->newest.version.number))
        return publisher->newest.order;
    for (uint64_t order = publisher->newest.order; weft_history_reaches(&publisher->history, order - 1); order--) {
        const weft_update *update = weft_journal_at(&publisher->journal, order);
        if (!update)
            break;
        if (weft_peer_view_version(view, &update->base, order - 1).root != version->root)
            continue;
        if (found == WEFT_ORDER_UNKNOWN || update->base.number == version->number)
            found = order - 1;
        if (update->base.number == version->number)
            break;
    }
    return found;
}

static void name_versions(weft_publisher *publisher, const weft_peer_view *view, uint64_t order,
                          weft_wire_digests *answer)
{
    const weft_update *next = weft_journal_at(&publisher->journal, order + 1);
    const weft_update *own = weft_journal_at(&publisher->journal, order);
    answer->version = weft_peer_view_version(view, next ? &next->base : &publisher->newest.version, order);
    if (own && weft_history_reaches(&publisher->history, order - 1))
        answer->before = weft_peer_view_version(view, &own->base, order - 1);
}

/* Computes the digests of parts from `first` on, as they were after update `order`. */
static void parts_at(const weft_publisher *publisher, uint64_t order, uint64_t first, uint64_t count, uint64_t *words)
{
    memcpy(words, publisher->newest.digests + first, count * sizeof *words);
    weft_history_rewind(&publisher->history, order, first, count, words);
}

static void fill_tiles(const weft_publisher *publisher, uint64_t order, uint64_t first, weft_wire_digests *answer)
{
    parts_at(publisher, order, first, answer->count, answer->digest);
}

/* Sums parts in slices, and shortens the answer if it would go through too many parts. */
static void fill_tensors(const weft_publisher *publisher, uint64_t order, weft_wire_digests *answer)
{
    const weft_layout *layout = publisher->session->layout;
    uint64_t words[SLICE], tensor = answer->first, part = layout->entries[tensor].part, begun = part, wanted = 0;
    while (wanted < answer->count && (wanted == 0 || part - begun < PARTS_MAX)) {
        part += weft_part_count(layout, tensor + wanted);
        wanted++;
    }
    answer->count = (uint32_t)wanted;
    for (uint64_t at = begun; at < part;) {
        uint64_t count = part - at < SLICE ? part - at : SLICE;
        parts_at(publisher, order, at, count, words);
        for (uint64_t i = 0; i < count; i++, at++) {
            while (tensor + 1 < layout->count && layout->entries[tensor + 1].part <= at)
                tensor++;
            answer->digest[tensor - answer->first] += words[i];
        }
    }
}

static weft_status check_range(const weft_peer *peer, const weft_wire_query *query)
{
    const weft_layout *layout = peer->session->layout;
    uint64_t limit = query->kind == WEFT_DIGESTS_TENSORS ? layout->count
                     : query->tensor < layout->count     ? weft_part_count(layout, query->tensor)
                                                         : 0;
    if (query->first < limit && query->count <= limit - query->first)
        return WEFT_OK;
    return weft_fail(WEFT_E_PROTOCOL, "%s asks for %u digests from %llu on of %llu there are", peer->claim.name,
                     query->count, (unsigned long long)query->first, (unsigned long long)limit);
}

weft_status weft_answer(weft_publisher *publisher, weft_peer *peer, const uint8_t *body, uint64_t length)
{
    uint8_t bytes[WEFT_MESSAGE_MAX];
    weft_out out = {bytes, sizeof bytes, 0, false};
    weft_wire_query query;
    weft_status status = weft_wire_get_query(body, length, &query);
    if (status == WEFT_OK)
        status = check_range(peer, &query);
    if (status != WEFT_OK)
        return status;
    weft_wire_digests answer = {.kind = query.kind, .tensor = query.tensor, .first = query.first};
    uint64_t order = weft_answer_order(publisher, peer->view, &query.version);
    if (order != WEFT_ORDER_UNKNOWN) {
        name_versions(publisher, peer->view, order, &answer);
        answer.count = query.count;
        if (query.kind == WEFT_DIGESTS_TENSORS)
            fill_tensors(publisher, order, &answer);
        else
            fill_tiles(publisher, order, publisher->session->layout->entries[query.tensor].part + query.first, &answer);
    }
    weft_wire_put_digests(&out, &answer);
    return weft_control_send(&peer->connection.control, WEFT_MESSAGE_DIGESTS, out.data, out.used);
}

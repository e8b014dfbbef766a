/* feed_state.c - questions that the state of a feed answers by itself, and the end of a feed. */
#include <string.h>

#include "peer/peer.h"

void weft_feed_end(weft_peer *peer)
{
    weft_feed *stream = &peer->feed;
    if (stream->update)
        stream->update->readers--;
    weft_blob_drop(stream->attachment);
    memset(stream, 0, sizeof *stream);
}

bool weft_feed_drops(const weft_peer *peer)
{
    return peer->receipts.count && peer->receipts.expected[peer->receipts.count - 1].withdrawn;
}

bool weft_feed_stands_at(const weft_peer *peer, uint64_t order)
{
    const weft_feed *stream = &peer->feed;
    return stream->kind == WEFT_FEED_NONE && peer->standing.sent_order == order;
}

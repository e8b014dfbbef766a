/* feed_state.c - answers questions from the state of a feed alone, and ends a feed. */
#include <string.h>

#include "peer/peer.h"

void weft_feed_end(weft_feed *feed)
{
    if (feed->update)
        feed->update->readers--;
    weft_blob_drop(feed->attachment);
    memset(feed, 0, sizeof *feed);
}

bool weft_feed_drops(const weft_receipts *receipts)
{
    return receipts->count && receipts->expected[receipts->count - 1].withdrawn;
}

bool weft_feed_stands_at(const weft_feed *feed, const weft_standing *standing, uint64_t order)
{
    return feed->kind == WEFT_FEED_NONE && standing->sent_order == order;
}

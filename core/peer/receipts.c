/* receipts.c - watches the receipts that a peer owes. Until they come, its buckets keep slots, slabs and the journal's
 * frames.
 *
 * A peer takes buckets in the order of their sequence, so one receipt is due at a time: that of the oldest bucket which
 * this end has done with. It is due only while its update is the first that the peer does not hold. What comes after
 * that waits for the engine's commit, as long as that takes. */
#include <math.h>

#include "base/status.h"
#include "peer/peer.h"

/* Times the foreseen time that a healthy peer may take: a link that has become ten times slower since, with a
 * margin. */
#define PATIENCE 16.0
/* Rate believed of link and peer while nothing is measured; and the least believed, so that no sequence of slow
 * receipts puts the end off for ever. */
#define RATE_UNKNOWN 1.6e6
#define RATE_LEAST   1e5

/* Load: what is under way to a peer. */
typedef struct load {
    uint32_t buckets;
    uint64_t bytes;
    double link_bytes_s, apply_bytes_s;
    double seconds; /* foreseen for all of it */
} load;

/* Finds the bucket to be taken next, and counts what is under way. NULL: no receipt is due. */
static const weft_flight *next_due(const weft_peer *peer, load *all)
{
    const uint64_t end = peer->receipts.count ? peer->receipts.expected[0].end : UINT64_MAX;
    uint32_t at = 0;
    const weft_flight *next = NULL;
    for (uint32_t slot = 0; slot < peer->sender.flights.slots; slot++) {
        const weft_flight *flight = &peer->sender.flights.list[slot];
        if (!flight->used || flight->receipted)
            continue;
        all->buckets++;
        all->bytes += flight->bytes;
        if (flight->sequence >= end || (next && next->sequence < flight->sequence))
            continue;
        next = flight;
        at = slot;
    }
    return next && next->writes == 0 && weft_flight_is_whole(&peer->sender, at) ? next : NULL;
}

static void foresee(const weft_receipts *receipts, const weft_feed *feed, const weft_tuning *tuning, load *all)
{
    const weft_level level = receipts->count ? receipts->expected[0].level : feed->level;
    const double measured = tuning->estimate.rate_bytes_s;
    all->link_bytes_s = measured > 0 ? fmax(measured, RATE_LEAST) : RATE_UNKNOWN;
    all->apply_bytes_s = fmax(weft_estimate_apply(&tuning->estimate, level), RATE_LEAST);
    all->seconds =
        tuning->estimate.rtt_s + (double)all->bytes / all->link_bytes_s + (double)all->bytes / all->apply_bytes_s;
}

/* Fails, and forgets what was measured, because the peer is no longer so. The next connection starts with more
 * patience. */
static weft_status fail(weft_peer *peer, uint64_t now_ns, const load *all)
{
    weft_peer_move(peer, WEFT_ON_STALL);
    peer->tuning.estimate = (weft_estimate){0};
    return weft_fail_quiet(WEFT_E_PEER_LOST,
                           "it took no bucket for %llu ms (io_deadline + heartbeat + %.0f x %.0f ms); %u under way, "
                           "%llu bytes, at %.1f MB/s, applied at %.1f MB/s",
                           (unsigned long long)((now_ns - peer->receipts.due_ns) / WEFT_NS_PER_MS), PATIENCE,
                           all->seconds * 1e3, all->buckets, (unsigned long long)all->bytes, all->link_bytes_s / 1e6,
                           all->apply_bytes_s / 1e6);
}

weft_status weft_receipts_take(weft_peer *peer, const weft_wire_receipt *receipt, uint64_t now_ns)
{
    weft_flight *flight;
    weft_status status = weft_flight_receipt(&peer->sender, receipt, &flight);
    if (status != WEFT_OK)
        return status;
    const weft_bucket_times times = {flight->bytes, flight->posted_ns, now_ns, receipt->waited_ns, receipt->take_ns};
    if (!flight->resent)
        weft_estimate_receipt(&peer->tuning.estimate, &times);
    peer->receipts.last_ns = now_ns;
    weft_flight_release(&peer->sender.flights, flight);
    return WEFT_OK;
}

weft_status weft_receipts_check(weft_peer *peer, uint64_t now_ns, weft_waits *waits)
{
    const uint64_t io_ms = peer->session->site->session.io_deadline_ms;
    load all = {.buckets = 0};
    const weft_flight *next =
        peer->sender.flights.slots_free < peer->sender.flights.slots ? next_due(peer, &all) : NULL;
    if (!next) {
        peer->receipts.due_ns = 0;
        return WEFT_OK;
    }
    if (peer->receipts.due_ns == 0 || peer->receipts.due != next->sequence) {
        peer->receipts.due = next->sequence;
        peer->receipts.due_ns = now_ns;
    }
    foresee(&peer->receipts, &peer->feed, &peer->tuning, &all);
    /* the peer may be silent for a heartbeat, and has io_deadline for the bucket after that */
    const uint64_t patience_ns = (io_ms + peer->site.heartbeat_ms) * WEFT_NS_PER_MS;
    const uint64_t until_ns = peer->receipts.due_ns + patience_ns + (uint64_t)(PATIENCE * all.seconds * 1e9);
    if (now_ns > until_ns)
        return fail(peer, now_ns, &all);
    weft_waits_until(waits, until_ns + WEFT_NS_PER_MS);
    return WEFT_OK;
}

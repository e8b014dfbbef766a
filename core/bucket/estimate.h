/* estimate.h - what is believed of one peer's link and of what it does with buckets, from acknowledgement times.
 *
 * Each figure has a source of its own, so that none hides another:
 *   L  the least of the last round trips of PING and PONG, and of the buckets since: what is above it is somebody's
 *      work, not the link.
 *   R  bytes over the time in which the wire was busy with them. A bucket arrives `taken + waited` before its receipt
 *      is written; the wire was free for it from the later of its posting (plus L) and the arrival before it.
 *   A  copy and check as each receipt says, decoding as HELD says for the update: one rate for each level, since a
 *      coded byte stands for more work the denser the level.
 *   o  fixed cost of a bucket: the intercept of a least-squares fit of time over bytes, in which older samples fade.
 *      Arrivals back to back give the way's cost, copy and check the peer's. The fit's noise decides how far a prior
 *      pulls each, because buckets of one size say nothing about an intercept.
 * Receipts read together are one sample. A sample counts for at most four times what was expected; expectations are
 * given up when three in a row were that far off, so that one stall is forgotten and a change of the link is not. */
#ifndef WEFT_CORE_ESTIMATE_H
#define WEFT_CORE_ESTIMATE_H

#include "codec/frame.h"

#define WEFT_ROUND_TRIPS 8u

/* Bytes over seconds, older ones fading. */
typedef struct weft_flow {
    double bytes, seconds;
} weft_flow;

/* Sums for time = fixed * buckets + bytes / rate. */
typedef struct weft_fit {
    double fixed_s;                /* 0: unknown */
    double nn, nb, bb, nt, bt, tt; /* n: buckets, b: bytes, t: seconds */
    uint32_t strange;              /* samples in a row far from what was foreseen */
} weft_fit;

/* Receipts that were read together, and the first of them. */
typedef struct weft_bunch {
    double buckets, bytes;
    double wire_s; /* the wire was busy with them */
    bool busy;     /* the wire had others before them, without a pause */
} weft_bunch;

typedef struct weft_estimate {
    double rate_bytes_s; /* R; 0: unknown */
    double rtt_s;        /* L; 0: unknown */
    weft_flow wire, take, decode[WEFT_LEVEL_COUNT];
    weft_fit post, accept; /* o, on the way there and at the peer */
    weft_bunch bunch;
    uint32_t wire_strange;           /* as in weft_fit */
    uint64_t arrived_ns, receipt_ns; /* of the last receipt */
    double rtts[WEFT_ROUND_TRIPS];
    uint32_t rtt_count;
} weft_estimate;

/* One bucket's receipt, all in this end's clock. */
typedef struct weft_bucket_times {
    uint64_t bytes;
    uint64_t posted_ns; /* its first write */
    uint64_t receipt_ns;
    uint64_t waited_ns; /* it lay whole at the peer */
    uint64_t taken_ns;  /* the peer copied and checked it */
} weft_bucket_times;

void weft_estimate_rtt(weft_estimate *estimate, double seconds);
void weft_estimate_receipt(weft_estimate *estimate, const weft_bucket_times *times);
/* An update of `bytes` frame bytes was decoded in `seconds`. */
void weft_estimate_decode(weft_estimate *estimate, weft_level level, uint64_t bytes, double seconds);
/* Takes in what the last receipts said: they wait for the next, which might have been read with them. */
void weft_estimate_settle(weft_estimate *estimate);
/* The same peer on a new connection: what is known is where to start from, and gives way to what comes. */
void weft_estimate_resume(weft_estimate *estimate);
/* A: frame bytes of a level that the peer copies, checks and decodes in a second; a guess until it is known. */
double weft_estimate_apply(const weft_estimate *estimate, weft_level level);
/* o, in its two parts; guesses until they are known. */
double weft_estimate_post(const weft_estimate *estimate);
double weft_estimate_accept(const weft_estimate *estimate);

#endif

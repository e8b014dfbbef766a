/* bucket.h - cuts frames into buckets for one peer, and chooses how large they are.
 *
 * A bucket's payload is a run of whole frames: a few extents of the arena (one, where the run lies in one block), or a
 * slab. Nothing is copied: each chunk is written from where the frame stands. */
#ifndef WEFT_CORE_BUCKET_H
#define WEFT_CORE_BUCKET_H

#include "journal.h"
#include "wire.h"

#define WEFT_BUCKET_EXTENTS 64u

typedef struct weft_extent {
    const uint8_t *data;
    uint64_t bytes;
} weft_extent;

typedef struct weft_bucket {
    weft_wire_bucket header;
    weft_extent extents[WEFT_BUCKET_EXTENTS];
    uint32_t extent_count;
} weft_bucket;

/* Where a stream stands in a chain. */
typedef struct weft_cursor {
    uint32_t block;  /* WEFT_NO_BLOCK: at the end */
    uint32_t frame;  /* in the block */
    uint32_t offset; /* of that frame in the block */
} weft_cursor;

weft_cursor weft_cursor_begin(const weft_chain *chain);
/* Whether no frame of a unit below `unit_limit` is left. */
bool weft_cursor_done(const weft_arena *arena, const weft_cursor *cursor, uint64_t unit_limit);

/* Cuts the next bucket off a chain: at least one frame, further ones while the whole stays within `target_bytes` and
 * `chunk_bytes * WEFT_CHUNKS_MAX`, no unit from `unit_limit` on. Fills extents, frames, payload_bytes, chunks, check
 * and moves the cursor. */
void weft_bucket_plan(const weft_arena *arena, weft_cursor *cursor, uint64_t unit_limit, uint64_t target_bytes,
                      uint64_t chunk_bytes, weft_bucket *bucket);

/* Makes a bucket of one extent (a slab) whose check the caller knows. */
void weft_bucket_wrap(const uint8_t *data, uint64_t bytes, uint32_t frames, uint64_t check, uint64_t chunk_bytes,
                      weft_bucket *bucket);

/* Bytes over seconds, older ones fading: a rate that a receipt without time of its own (it was read together with the
 * one before) does not upset. */
typedef struct weft_flow {
    double bytes, seconds;
} weft_flow;

/* Live estimates of one peer's link, from acknowledgement times. All 0 until measured. */
typedef struct weft_estimate {
    double rate_bytes_s;  /* R */
    double apply_bytes_s; /* A: copy, check and decode at the peer */
    double rtt_s;         /* L */
    double bucket_s;      /* o: fixed cost per bucket */
    weft_flow link, peer; /* what R and A are made of */
} weft_estimate;

void weft_estimate_rtt(weft_estimate *estimate, double seconds);
/* A receipt: `bytes` of one bucket were acknowledged `seconds` after the link was free for them; the peer spent
 * `take_s` on them. */
void weft_estimate_receipt(weft_estimate *estimate, uint64_t bytes, double seconds, double take_s);

/* What decided a bucket's size. */
typedef enum weft_bucket_bound {
    WEFT_BOUND_FIXED = 0,
    WEFT_BOUND_MODEL = 1,
    WEFT_BOUND_FLOOR = 2,
    WEFT_BOUND_CEILING = 3
} weft_bucket_bound;

/* The size of the next bucket for a stream of `stream_bytes`: the optimum B* = sqrt(S * o * A) of
 * T(B) = L + S / min(R, W * B / L) + (S / B) * o + B / A, not below R * L / W nor the site's floor, not above the slot.
 */
uint64_t weft_bucket_size(const weft_site_peer *site, const weft_estimate *estimate, uint64_t stream_bytes,
                          uint64_t slot_payload, weft_bucket_bound *bound);

/* Token bucket for [peers] rate_limit. */
typedef struct weft_pace {
    double bytes_s; /* 0: no limit */
    double tokens;
    uint64_t filled_ns;
} weft_pace;

void weft_pace_begin(weft_pace *pace, uint64_t bytes_s);
/* Largest chunk that keeps a paced link even: a chunk goes whole, so a long one would be a burst of its own. */
uint64_t weft_pace_chunk(uint64_t bytes_s);
/* Nanoseconds until the next chunk may go; 0: now. A chunk goes whole, on credit, and is paid for afterwards. */
uint64_t weft_pace_wait(weft_pace *pace, uint64_t now_ns);
void weft_pace_charge(weft_pace *pace, uint64_t bytes);

#endif

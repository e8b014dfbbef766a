/* bucket.h - cuts frames into buckets for one peer, and chooses how large they are.
 *
 * A bucket's payload is a run of whole frames: a few extents of the arena (one, where the run lies in one block), or a
 * slab. Nothing is copied: each chunk is written from where the frame stands. */
#ifndef WEFT_CORE_BUCKET_H
#define WEFT_CORE_BUCKET_H

#include "bucket/estimate.h"
#include "journal/journal.h"
#include "wire/wire.h"

#define WEFT_BUCKET_EXTENTS 64u
/* Least chunk that a bucket is cut into for the sake of several rails. */
#define WEFT_SPREAD_MIN (128u << 10)

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
    uint32_t last;   /* it reads no further than so many frames of this block */
    uint32_t last_frames;
} weft_cursor;

/* At the first frame; it will read as far as the chain reaches now. */
weft_cursor weft_cursor_begin(const weft_chain *chain);
/* The chain has grown since: reads as far as it reaches now. */
void weft_cursor_reach(weft_cursor *cursor, const weft_chain *chain);
/* Whether no frame of a unit below `unit_limit` is left. */
bool weft_cursor_done(const weft_arena *arena, const weft_cursor *cursor, uint64_t unit_limit);
/* At the first frame whose first unit is not below `unit`. */
weft_cursor weft_cursor_seek(const weft_arena *arena, const weft_chain *chain, uint64_t unit);
/* The same, from a cursor on. */
weft_cursor weft_cursor_seek_on(const weft_arena *arena, weft_cursor cursor, uint64_t unit);
/* Moves the cursor to the next frame of `unit` or of a later unit. Where there is none yet, the cursor stands at the
 * end of the frames that are there. */
void weft_cursor_skip(const weft_arena *arena, weft_cursor *cursor, uint64_t unit);
/* Reads the unit of the next frame. False: there is none below `limit`. */
bool weft_cursor_unit(const weft_arena *arena, const weft_cursor *cursor, uint64_t limit, uint64_t *unit);
/* Reads the header of the next frame, which is there. */
void weft_cursor_header(const weft_arena *arena, const weft_cursor *cursor, weft_frame_header *header);
/* Returns the next frame, where it stands in the arena, and steps over it. NULL: there is none. */
const uint8_t *weft_cursor_next(const weft_arena *arena, weft_cursor *cursor, uint32_t *bytes);
/* Copies the next frame of a unit below `unit_limit` out of the chain and steps over it; its bytes, 0: there is none.
 * `frame` has room for the layout's largest. */
uint32_t weft_cursor_take(const weft_arena *arena, weft_cursor *cursor, uint64_t unit_limit, uint8_t *frame);

/* Cuts the next bucket off a chain: at least one frame, further ones while the whole stays within `target_bytes` and
 * `chunk_bytes * WEFT_CHUNKS_MAX`, no unit from `unit_limit` on. Fills extents, frames, payload_bytes, chunks, check
 * and moves the cursor. */
void weft_bucket_plan(const weft_arena *arena, weft_cursor *cursor, uint64_t unit_limit, uint64_t target_bytes,
                      uint64_t chunk_bytes, weft_bucket *bucket);

/* Makes a bucket of one extent (a slab) whose check the caller knows. */
void weft_bucket_wrap(const uint8_t *data, uint64_t bytes, uint32_t frames, uint64_t check, uint64_t chunk_bytes,
                      weft_bucket *bucket);

/* Reason for a bucket's size. */
typedef enum weft_bucket_bound {
    WEFT_BOUND_FIXED = 0,   /* [peer] bucket */
    WEFT_BOUND_MODEL = 1,   /* the least time */
    WEFT_BOUND_FLOOR = 2,   /* bucket_min */
    WEFT_BOUND_CEILING = 3, /* bucket_max, or the peer's slot */
    WEFT_BOUND_WINDOW = 4,  /* with smaller ones the slots granted would not fill the link */
    WEFT_BOUND_START = 5    /* bucket_start: nothing is measured yet */
} weft_bucket_bound;

/* "fixed", "model", "floor", "ceiling", "window", "start". Static. */
const char *weft_bucket_bound_name(weft_bucket_bound bound);

/* Figures from which a stream's time follows. */
typedef struct weft_sizing {
    double rate_bytes_s;  /* R */
    double apply_bytes_s; /* A */
    double rtt_s;         /* L */
    double post_s;        /* o: on the way there */
    double accept_s;      /* and at the peer */
    double window;        /* W; 0: as many as are wanted */
} weft_sizing;

weft_sizing weft_sizing_of(const weft_site_peer *site, const weft_estimate *estimate, weft_level level);

/* T(B): seconds from the first write until the peer has decoded all of a stream cut into buckets of `size`. Wire and
 * peer work side by side, each bucket on one after the other (a flow shop of two machines: the longest path through
 * it); and each time that all slots are used up there is a pause until the first comes back:
 *   w = o_post + b/R and a = o_accept + b/A for each of n full buckets, w' and a' for the rest
 *   T = L + max(w + n a + a', n w + a + a', n w + w' + a') + rounds * max(0, L + w + o_accept - W max(w, a)) */
double weft_bucket_time(const weft_sizing *sizing, double stream_bytes, double size);

/* The size of the next buckets of a stream of `stream_bytes` at `level`: of those about as fast as the fastest the
 * largest, since each costs both ends some work. `before`, the last choice (0: none), stays while it is nearly as good,
 * so that noise does not move it. Never outside floor and ceiling. */
uint64_t weft_bucket_size(const weft_site_peer *site, const weft_estimate *estimate, weft_level level,
                          uint64_t stream_bytes, uint64_t slot_payload, uint64_t before, weft_bucket_bound *bound);

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

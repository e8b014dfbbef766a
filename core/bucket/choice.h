/* choice.h - which level a peer's updates are coded at, when the site leaves it to weft.
 *
 * The level is the one that is held soonest, from the first write to the last frame decoded. Wire and decoding overlap
 * bucket by bucket: for an update of many buckets the slower of the two counts, for one of a single bucket their sum.
 * Both are what weft_bucket_time says at the best bucket size, so that is the law here too. A level that nobody takes
 * yet must be encoded besides `fast`, which the journal always has: that time counts as the peer's own, and as buckets
 * go out while the rest is encoded, it overlaps with theirs in the same way.
 *
 * Bytes of a level come from its last updates, scaled by the density; of a level never encoded, from the density alone:
 * the entropy of which elements changed, and what direction and magnitude take (docs/PERFORMANCE.md). Decoding is
 * taken for this codec's measured cost per element and per change on one core, times a factor that each peer shows,
 * encoding likewise, times one that the trainer's own updates show. */
#ifndef WEFT_CORE_CHOICE_H
#define WEFT_CORE_CHOICE_H

#include "bucket/bucket.h"

/* Averages over a trainer's updates so far. */
typedef struct weft_habit {
    double elements, dense_bytes;   /* of the layout */
    double density;                 /* changed of all; 0: no update yet */
    double scale[WEFT_LEVEL_COUNT]; /* bytes made, of those the rule foresaw; 0: never encoded */
    weft_flow encoding;             /* how long it took to find and encode; bytes stands for the reference's seconds */
} weft_habit;

void weft_habit_begin(weft_habit *habit, uint64_t elements, uint64_t dense_bytes);
/* An update was encoded: `changed` elements, `bytes` of frames at each level of the mask `levels`. */
void weft_habit_note(weft_habit *habit, uint64_t changed, uint32_t levels, const uint64_t bytes[WEFT_LEVEL_COUNT]);
/* Finding and encoding it took so many seconds of one core. */
void weft_habit_note_encoding(weft_habit *habit, uint64_t changed, uint32_t levels, double seconds);
/* Frame bytes of the next update at a level. */
double weft_habit_bytes(const weft_habit *habit, weft_level level);
/* Seconds of one core to decode so many changes; to encode the next update at a level besides fast. */
double weft_habit_decode_s(const weft_habit *habit, weft_level level, double changed);
double weft_habit_encode_s(const weft_habit *habit, weft_level level);

/* Decoding times of a peer, as parts of the reference's time. */
typedef struct weft_decoding {
    weft_flow level[WEFT_LEVEL_COUNT]; /* bytes stands for the reference's seconds */
} weft_decoding;

void weft_decoding_note(weft_decoding *decoding, const weft_habit *habit, weft_level level, uint64_t changed,
                        double seconds);
/* Returns the factor of the level if that was seen, else of a level that was, else 1. */
double weft_decoding_factor(const weft_decoding *decoding, weft_level level);

/* A peer that wants a level. */
typedef struct weft_level_wish {
    const weft_site_peer *site;
    const weft_estimate *estimate;
    const weft_decoding *decoding;
    const weft_habit *habit;
    uint64_t slot_payload;
    uint32_t levels;         /* mask: it can decode them */
    uint32_t in_use;         /* mask: encoded anyway, for others or for the journal */
    uint32_t encode_workers; /* threads that encode */
    uint64_t room;           /* bytes of the journal that an update may take at a level */
    uint64_t staging;        /* bytes of change lists that the peer can hold; `full` lists every element */
    weft_level present;
} weft_level_wish;

/* Seconds until an update like the last ones is held at a level. */
double weft_level_seconds(const weft_level_wish *wish, weft_level level);
/* The level: the site's, or while nothing is measured `fast`, or the quickest. The present one stays unless another
 * saves a sixth: what is measured is not steadier than that. */
weft_level weft_level_choose(const weft_level_wish *wish);

#endif

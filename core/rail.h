/* rail.h - the rails of one peer: the ways by which its buckets go, each a port at either end, on a link of its own
 * address or beside others on one.
 *
 *   trying -- probe landed --> up -- failed, stands still --> closing -- CLOSED --> cooling -- later --> opening
 *     ^  `--- no probe landed ----------------------------------^                     ^                  |   |
 *     |                                                                               `--- refused ------'   |
 *     `------------------------------------------------------------------------------------------ OPENED ----'
 *
 * A peer with one rail has it up at once and is lost with it. Where there are several, a rail carries chunks of buckets
 * only after a write of no bucket came through it, and what a closed one took along goes by the others: the peer says
 * which buckets are whole without it and forgets what else came by it, so that each chunk counts once. */
#ifndef WEFT_CORE_RAIL_H
#define WEFT_CORE_RAIL_H

#include "bucket.h"
#include "session.h"

/* A fabric address of the trainer with the regions every peer on it shares. */
typedef struct weft_lane {
    const weft_provider *provider; /* NULL: unused */
    uint32_t rail;                 /* place among the trainer's addresses */
    char address[WEFT_SITE_NAME];
    weft_link *link;   /* NULL: it could not be opened yet */
    bool away;         /* one of several, and no port is opened by it for now */
    uint64_t retry_ns; /* until then it stays so without being asked */
    weft_link_facts facts;
    weft_region *arena, *slabs, *headers;
    uint64_t sent_writes, sent_bytes, resent_bytes, failures; /* of all peers */
} weft_lane;

typedef enum weft_rail_state {
    WEFT_RAIL_NONE, /* one end does not have it */
    WEFT_RAIL_TRYING,
    WEFT_RAIL_UP,
    WEFT_RAIL_CLOSING,
    WEFT_RAIL_COOLING,
    WEFT_RAIL_OPENING
} weft_rail_state;

/* Writes of one of several rails that may be under way, those that are completed and not known to have landed included.
 */
#define WEFT_RAIL_WRITES 128u

typedef struct weft_rail {
    weft_rail_state state;
    weft_lane *lane;
    weft_port *port;                  /* NULL: closed */
    weft_wire_port there;             /* the peer's, and its slots as registered for it */
    uint32_t turn;                    /* how often it was opened before */
    uint32_t writes;                  /* posted and not completed */
    uint64_t posted;                  /* writes since it was opened */
    uint64_t landed;                  /* of them, as the peer said last */
    uint64_t unlanded;                /* bytes of the others */
    uint32_t sizes[WEFT_RAIL_WRITES]; /* of each, by its number */
    double rate_bytes_s;              /* at which they land; 0: unknown yet */
    uint64_t window, window_ns; /* bytes that landed since then, of writes under way all the time; 0: there were none */
    uint64_t moved_ns;          /* last time one was completed or landed, or there was none under way */
    uint64_t refused_ns;        /* since then it took no write of those it was asked for; 0: it took the last */
    uint64_t asked_ns;          /* when it refused last */
    uint64_t since_ns, retry_ns;                              /* of the state; cooling: until then */
    uint64_t cool_ns;                                         /* how long it cools next time */
    bool probed;                                              /* the write that shows whether it carries was posted */
    uint64_t sent_writes, sent_bytes, resent_bytes, failures; /* in all turns */
} weft_rail;

/* No rail: of a chunk that is to be sent again. */
#define WEFT_RAIL_AGAIN 0xffu

/* What sending chunks of a bucket again takes: kept from its first write to its receipt. */
typedef struct weft_parcel {
    weft_extent extents[WEFT_BUCKET_EXTENTS];
    uint32_t extent_count;
    uint32_t chunks;                   /* posted so far, the header's with them */
    uint32_t again;                    /* of them to be sent again */
    uint8_t rail[WEFT_CHUNKS_MAX + 1]; /* by which each went */
} weft_parcel;

/* A chunk: where it lies here and in its slot. */
typedef struct weft_chunk {
    uint32_t slot, number; /* number 0: the bucket's header */
    const uint8_t *data;
    uint64_t bytes, offset;
} weft_chunk;

#endif

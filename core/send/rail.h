/* rail.h - the rails of one receiver. A rail is a port at either end, on a link of its own address or beside others on
 * one.
 *
 *   trying -- probe landed --> up -- failed, stands still --> closing -- CLOSED --> cooling -- later --> opening
 *     ^  `--- no probe landed ----------------------------------^                     ^                  |   |
 *     |                                                                               `--- refused ------'   |
 *     `------------------------------------------------------------------------------------------ OPENED ----'
 *
 * A receiver with one rail has that rail up at once, and is lost with it. Of several rails, one carries chunks of
 * buckets only after a write of no bucket, the probe, came through it. The other rails carry what a closed rail had.
 * When a rail closes, the receiver reports the buckets that are whole, and discards the chunks that this rail delivered
 * of the others, so that each chunk counts once. */
#ifndef WEFT_CORE_RAIL_H
#define WEFT_CORE_RAIL_H

#include "bucket/bucket.h"
#include "send/outlet.h"
#include "session/session.h"
#include "wire/control.h"

typedef enum weft_rail_state {
    WEFT_RAIL_NONE, /* one end does not have the rail */
    WEFT_RAIL_TRYING,
    WEFT_RAIL_UP,
    WEFT_RAIL_CLOSING,
    WEFT_RAIL_COOLING,
    WEFT_RAIL_OPENING
} weft_rail_state;

/* Writes of one of several rails that may be under way, with those that are completed and not known to have landed. */
#define WEFT_RAIL_WRITES 128u

typedef struct weft_rail {
    weft_rail_state state;
    weft_outlet *outlet;
    weft_port *port;                  /* NULL: closed */
    weft_wire_port there;             /* the receiver's port, and its slots as registered for it */
    uint32_t turn;                    /* how often the rail was opened before */
    uint32_t writes;                  /* writes posted and not completed */
    uint64_t posted;                  /* writes since it was opened */
    uint64_t landed;                  /* of these writes, how many landed, as the receiver reported last */
    uint64_t unlanded;                /* bytes of the other writes */
    uint32_t sizes[WEFT_RAIL_WRITES]; /* bytes of each write, by its number */
    double rate_bytes_s;              /* rate at which writes land; 0: unknown yet */
    uint64_t window, window_ns;  /* bytes that landed since window_ns, of writes under way all the time; window_ns 0:
                                    there were none */
    uint64_t moved_ns;           /* when a write last completed or landed, or none was under way */
    uint64_t refused_ns;         /* since when the rail refused every write; 0: it took the last */
    uint64_t asked_ns;           /* when the rail last refused a write */
    uint64_t since_ns, retry_ns; /* when the state began; until when the rail cools */
    uint64_t cool_ns;            /* how long the rail cools next time */
    bool probed;                 /* the write that shows whether the rail carries was posted */
    weft_sent sent;              /* in all turns */
} weft_rail;

/* Rails: the ways to one receiver. Its sender owns them. */
typedef struct weft_rails {
    weft_outlet *outlet; /* one by which the receiver can come */
    weft_rail list[WEFT_PORTS_MAX];
    uint32_t count;     /* places, as HELLO has them */
    uint32_t used;      /* places that both ends have */
    uint32_t next;      /* whose turn it is: chunks go over all of them */
    uint64_t looked_ns; /* when LOOK was last sent */
    bool looking;       /* LOOK is not answered yet */
} weft_rails;

typedef struct weft_sender weft_sender;
typedef struct weft_flights weft_flights;

/* In place of a rail: the chunk is to be sent again. */
#define WEFT_RAIL_AGAIN 0xffu

/* Parcel: what it takes to send chunks of a bucket again, kept from the bucket's first write to its receipt. */
typedef struct weft_parcel {
    weft_extent extents[WEFT_BUCKET_EXTENTS];
    uint32_t extent_count;
    uint32_t chunks;                   /* chunks posted so far, with the header's */
    uint32_t again;                    /* of these chunks, how many are to be sent again */
    uint8_t rail[WEFT_CHUNKS_MAX + 1]; /* rail by which each chunk went */
} weft_parcel;

/* Chunk: where it lies here and in its slot. */
typedef struct weft_chunk {
    uint32_t slot, number; /* number 0: the bucket's header */
    const uint8_t *data;
    uint64_t bytes, offset;
} weft_chunk;

/* ---- rail.c: the rails of a receiver */
/* Chooses the outlets of the rails that both ends have, and the bytes of a chunk, which all of them take. */
void weft_rail_choose(weft_sender *sender);
/* Opens the rails that are chosen anew, and names them in `welcome`. */
weft_status weft_rail_open(weft_sender *sender, weft_wire_welcome *welcome);
void weft_rail_close(weft_rails *rails);
/* Opens the port of one rail; closing it clears the rail's books. */
weft_status weft_rail_port_open(weft_rail *rail, weft_wire_port *mine);
void weft_rail_port_close(weft_rail *rail);
void weft_rail_enter(weft_rail *rail, weft_rail_state state);
/* Leaves the rail closed until it has cooled. */
void weft_rail_cool(weft_rail *rail);
/* Returns how long a rail may stand still while others move. That is so much less than io_deadline that the others can
 * still take over what the rail had. */
static inline uint64_t weft_rail_patience_ns(const weft_site *site)
{
    return site->session.io_deadline_ms * WEFT_NS_PER_MS / 4;
}

/* Describes the rails of a receiver. Returns how many there are. */
uint32_t weft_rail_describe(const weft_rails *rails, weft_rail_info infos[WEFT_RAILS_MAX]);
/* Counts the connections of a receiver by rails. */
void weft_rail_count(const weft_rails *rails, weft_rail_info infos[WEFT_RAILS_MAX]);
/* Returns the rail to whose port a DUCT leads. NULL: to none. */
const weft_rail *weft_rail_of_duct(const weft_rails *rails, const weft_wire_duct *duct);
/* Returns how many of a receiver's rails have an address of this end that is there. */
uint32_t weft_rail_streams(const weft_rails *rails);
/* Returns true if buckets can go. */
bool weft_rail_carries(const weft_rails *rails);
/* Returns true if a write is under way by any rail, or a probe, so its port is to be polled. */
bool weft_rail_writes(const weft_rails *rails);

/* ---- rail_watch.c: those that fail */
/* Closes a rail that failed, for the reason `why`, and has the others send what the rail had. Errors: WEFT_E_PEER_LOST,
 * because there is no other. */
weft_status weft_rail_fail(weft_sender *sender, weft_rail *rail, const char *why);
/* Checks that data for the receiver of a HELLO may go to one of its ports by an outlet (wire/target.h). */
weft_status weft_rail_may_reach(const weft_outlets *outlets, const weft_outlet *outlet, const weft_control *control,
                                const weft_wire_hello *hello, const uint8_t *address, uint32_t bytes);
/* Act on LANDED, CLOSED and OPENED. */
weft_status weft_rail_landed(weft_sender *sender, const uint8_t *body, uint64_t length);
weft_status weft_rail_closed(weft_sender *sender, const uint8_t *body, uint64_t length);
weft_status weft_rail_opened(weft_sender *sender, const uint8_t *body, uint64_t length);
/* Looks after the rails: has those that stand still looked at, opens those that have cooled, tries those that are
 * open. */
weft_status weft_rail_check(weft_sender *sender, uint64_t now_ns, weft_waits *waits);

/* ---- rail_write.c: one write by one rail */
/* Returns where the header of the bucket in a slot lies. */
uint8_t *weft_rail_header(const weft_flights *flights, uint32_t slot);
/* Posts a chunk by a rail. Errors: WEFT_AGAIN, the provider's. */
weft_status weft_rail_write_chunk(const weft_sender *sender, const weft_rail *rail, const weft_chunk *chunk);
/* Posts the write that shows whether a rail carries. Errors: WEFT_AGAIN, the provider's. */
weft_status weft_rail_probe(weft_sender *sender, weft_rail *rail);
/* Notes that the provider took a write of so many bytes, or took none. */
void weft_rail_note_posted(weft_rail *rail, uint64_t bytes, uint64_t now_ns);
void weft_rail_note_refused(const weft_site *site, weft_rail *rail, uint64_t now_ns);
/* Returns true if a rail is up and may be given a write. */
bool weft_rail_has_room(const weft_rails *rails, const weft_rail *rail);

/* ---- rail_again.c: chunks that go again */
/* Returns true if a peer of the site may have several rails, so that there are parcels. */
bool weft_parcels_wanted(const weft_site *site);
/* Begins the parcel of a bucket that is about to be posted. */
void weft_parcel_begin(weft_sender *sender, uint32_t slot);
/* Notes that a chunk went by a rail. */
void weft_parcel_note(weft_sender *sender, const weft_chunk *chunk, uint32_t rail);
/* Marks what went by a rail that is closed at both ends, of buckets that are not whole at the receiver, to go again.
 * Sets `*chunks` to how many chunks that are. Errors: WEFT_E_PROTOCOL, because the receiver reports a bucket as whole
 * that cannot be. */
weft_status weft_parcel_again(weft_sender *sender, uint32_t rail, const weft_wire_closed *closed, uint32_t *chunks);
/* Finds the next chunk to be sent again. Returns false if there is none. */
bool weft_parcel_next(const weft_sender *sender, weft_chunk *chunk);
/* Returns chunk `number`, from 1 on, of a bucket cut at `chunk_bytes`. The header, number 0, is the caller's. */
weft_chunk weft_parcel_chunk(const weft_extent *extents, uint32_t count, uint32_t chunk_bytes, uint32_t number);

#endif

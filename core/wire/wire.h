/* wire.h - every byte of control messages, update headers and trailers, and bucket headers (docs/WIRE_FORMAT.md).
 *
 * Structs here are values; `put` writes one, `get` reads and judges one. Reading refuses what the first protocol does
 * not know (reserved fields) by name. */
#ifndef WEFT_CORE_WIRE_H
#define WEFT_CORE_WIRE_H

#include "base/bytes.h"
#include "codec/classes.h"
#include "codec/frame.h"
#include "port/port_provider.h"
#include "site/site.h"

#define WEFT_PROTOCOL            2u           /* of the conversation: HELLO, GREETING, WELCOME */
#define WEFT_PROTOCOL_LOWEST     2u           /* the oldest that this end speaks too */
#define WEFT_FORMAT              1u           /* of UPDATE, TRAILER, bucket headers and update files */
#define WEFT_MESSAGE_PREFIX      8u           /* u32 length of the body, u16 type, u16 zero */
#define WEFT_MESSAGE_MAX         4096u        /* body of every message but LAYOUT */
#define WEFT_LAYOUT_MAX          (256u << 20) /* body of a LAYOUT message */
#define WEFT_BUCKET_HEADER_BYTES 144u
#define WEFT_SLOT_HEADER_BYTES   4096u /* a slot's header page; its payload begins behind it */
#define WEFT_SLOTS_MAX           256u
#define WEFT_PORTS_MAX           8u    /* of one connection, at each end */
#define WEFT_CHUNKS_MAX          4095u /* payload chunks of one bucket */
#define WEFT_UPDATES_AHEAD       2u    /* updates a trainer may send beyond what the peer holds */

typedef enum weft_message {
    WEFT_MESSAGE_HELLO = 1,    /* rollout: who I am, what I hold, where buckets may land */
    WEFT_MESSAGE_WELCOME = 2,  /* trainer: who I am, what follows */
    WEFT_MESSAGE_REFUSE = 3,   /* trainer: why not */
    WEFT_MESSAGE_LAYOUT = 4,   /* trainer: the layout */
    WEFT_MESSAGE_UPDATE = 5,   /* trainer: an update header; its buckets follow on the data plane */
    WEFT_MESSAGE_TRAILER = 6,  /* trainer: an update trailer, after the last bucket was posted */
    WEFT_MESSAGE_RECEIPT = 7,  /* rollout: a bucket was checked; its slot is granted again */
    WEFT_MESSAGE_STAGED = 8,   /* rollout: an update is decoded and proved */
    WEFT_MESSAGE_HELD = 9,     /* rollout: I hold this version, this digest */
    WEFT_MESSAGE_FAULT = 10,   /* rollout: a version failed here; I close and join again */
    WEFT_MESSAGE_OFFER = 11,   /* trainer: you need a snapshot */
    WEFT_MESSAGE_ACCEPT = 12,  /* rollout: send it now */
    WEFT_MESSAGE_PING = 13,    /* both: u64 of the sender's clock */
    WEFT_MESSAGE_PONG = 14,    /* both: the u64 back */
    WEFT_MESSAGE_BYE = 15,     /* both: an orderly end */
    WEFT_MESSAGE_QUERY = 16,   /* rollout: which digests does that version have? */
    WEFT_MESSAGE_DIGESTS = 17, /* trainer: these */
    WEFT_MESSAGE_FOLLOW = 18,  /* trainer, to a relay: who behind it takes the update that comes next from its stream */
    WEFT_MESSAGE_PASSING = 19, /* what you wait for is still coming in here, or being made */
    WEFT_MESSAGE_REPAIR = 20,  /* rollout, instead of ACCEPT: of what is offered I lack only these units */
    WEFT_MESSAGE_LOOK = 21,    /* trainer: how many writes came by each port? */
    WEFT_MESSAGE_LANDED = 22,  /* rollout: so many */
    WEFT_MESSAGE_CLOSE = 23,   /* trainer: my port is closed; close yours */
    WEFT_MESSAGE_CLOSED = 24,  /* rollout: it is, and these buckets are whole without it */
    WEFT_MESSAGE_OPEN = 25,    /* trainer: I opened that port anew; open yours */
    WEFT_MESSAGE_OPENED = 26,  /* rollout: it is */
    WEFT_MESSAGE_GREETING = 27 /* trainer: so your HELLO shows that it belongs to this connection */
} weft_message;
#define WEFT_MESSAGE_COUNT 28

const char *weft_message_name(uint32_t type);

/* One more port beside the first: its fabric address and, in HELLO, the slots as registered for it. */
typedef struct weft_wire_port {
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t address_bytes;
    uint64_t region_address;
    uint64_t region_key;
} weft_wire_port;

/* The first message of a connection: a HELLO that only asks for a GREETING. What both say stays as it is in every later
 * protocol. Each end goes on in the highest protocol that both speak. */
typedef struct weft_wire_knock {
    uint32_t lowest, highest; /* protocols that the sender speaks */
} weft_wire_knock;

typedef struct weft_wire_greeting {
    uint32_t lowest, highest;
    uint64_t nonce; /* never 0: the HELLO of this connection, and of no other, brings it back */
} weft_wire_greeting;

typedef struct weft_wire_hello {
    bool wants_layout; /* answer with LAYOUT and close; the fields from `held` on are absent */
    uint64_t nonce;    /* the GREETING's */
    char name[WEFT_SITE_NAME];
    uint64_t incarnation;
    uint64_t layout[2];
    bool holds;          /* held below is set */
    weft_version held;   /* number and run 0 when only the digest is known */
    uint64_t attachment; /* xxh3-64 of the attachment held; 0: none */
    char provider[WEFT_SITE_NAME];
    char backend[24];
    uint32_t fabric; /* version of its fabric library, major << 16 | minor; 0: none */
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t address_bytes;
    uint64_t region_address; /* of slot 0 */
    uint64_t region_key;
    uint32_t further; /* ports beside that one */
    weft_wire_port more[WEFT_PORTS_MAX - 1];
    uint32_t further_rails; /* beside the first: port i is of rail i modulo all of them */
    uint64_t slot_stride;   /* bytes from slot to slot */
    uint64_t slot_payload;  /* payload bytes of a slot */
    uint32_t slots;
    uint32_t epoch; /* 8 bits */
    uint32_t chunk_bytes;
    uint32_t levels; /* mask of 1 << weft_level it can decode */
    uint64_t staging_bytes;
    uint32_t hops;              /* relays it came through, at most WEFT_SITE_HOPS; the rest only if there are any */
    char relay[WEFT_SITE_NAME]; /* the one that the rollout is behind */
    uint64_t relay_incarnation; /* of that one's session */
    uint32_t route;             /* its number for the rollout's connection */
} weft_wire_hello;

/* Whether the fabric libraries of both ends work together over a link of this end.
 * Errors: WEFT_E_REFUSED (their majors differ and the provider does not bear it). */
weft_status weft_wire_check_fabric(const weft_wire_hello *hello, const weft_link_facts *facts);

#define WEFT_FOLLOW_MAX 256u /* routes that one message names */

typedef struct weft_wire_follow {
    weft_version target; /* of the update, root 0 */
    uint32_t count;      /* at least 1 */
    uint32_t routes[WEFT_FOLLOW_MAX];
} weft_wire_follow;

typedef struct weft_wire_welcome {
    uint64_t run;
    uint64_t incarnation;
    uint64_t layout[2];
    weft_version held; /* the label of what the peer holds; all 0: unknown bits, an OFFER follows */
    weft_version newest;
    uint32_t heartbeat_ms;
    uint32_t chunk_bytes;
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t address_bytes;
    uint32_t further; /* ports beside that one, at most the HELLO's; without an address: it will not be used */
    weft_wire_port more[WEFT_PORTS_MAX - 1];
} weft_wire_welcome;

typedef struct weft_wire_update {
    bool snapshot;
    weft_level level;
    uint64_t layout[2];
    weft_version base;         /* all 0 for a snapshot */
    weft_version target;       /* root 0: the trailer names it */
    uint64_t attachment_bytes; /* carried by this update; 0: none */
    uint64_t attachment;       /* its xxh3-64 */
    weft_parameters parameters;
} weft_wire_update;
#define WEFT_UPDATE_HEADER_BYTES 128u /* before the parameter words */
#define WEFT_UPDATE_HEADER_MAX   (WEFT_UPDATE_HEADER_BYTES + 2 * WEFT_PARAMETER_WORDS_MAX)

typedef struct weft_wire_trailer {
    weft_version target; /* all 0: the update is withdrawn */
    uint64_t buckets;    /* sent for this update */
    uint64_t frames;
    uint64_t frame_bytes;
    uint64_t changed;
} weft_wire_trailer;
#define WEFT_UPDATE_TRAILER_BYTES 128u

typedef struct weft_wire_receipt {
    uint64_t sequence;
    uint32_t slot;
    uint64_t take_ns;   /* copy and check of the bucket */
    uint64_t waited_ns; /* before that it lay whole in its slot */
} weft_wire_receipt;

typedef struct weft_wire_held {
    uint64_t layout[2];
    weft_version version;
    uint64_t attachment;
    uint64_t decode_ns; /* of the update that led there */
    uint64_t commit_ns;
} weft_wire_held;

/* status and text: REFUSE, FAULT, BYE. */
typedef struct weft_wire_notice {
    weft_status status;
    uint64_t version;
    char text[256];
} weft_wire_notice;

/* Whose digests: of tensors, or of the tiles of one. */
typedef enum weft_digests_kind { WEFT_DIGESTS_TENSORS = 0, WEFT_DIGESTS_TILES = 1 } weft_digests_kind;
#define WEFT_DIGESTS_MAX 500u /* digests that one message carries */

typedef struct weft_wire_query {
    weft_version version; /* found by its root; all 0: the newest */
    weft_digests_kind kind;
    uint64_t tensor; /* whose tiles; 0 for tensors */
    uint64_t first;  /* tensor, or tile of the tensor */
    uint32_t count;  /* wanted, 1..WEFT_DIGESTS_MAX */
} weft_wire_query;

typedef struct weft_wire_digests {
    weft_version version; /* whose they are; all 0: the trainer has none of the version asked for, and count is 0 */
    weft_version before;  /* the version it was made from, if that has digests here too; all 0: none */
    weft_digests_kind kind;
    uint64_t tensor, first; /* the query's */
    uint32_t count;         /* here, at most as many as asked for */
    uint64_t digest[WEFT_DIGESTS_MAX];
} weft_wire_digests;

#define WEFT_REPAIR_RANGES_MAX 480u

typedef struct weft_wire_repair {
    uint64_t root;        /* of the bits that the rollout holds */
    weft_version version; /* which the units are to be brought to, as DIGESTS named it */
    uint32_t count;       /* of ranges, 1..WEFT_REPAIR_RANGES_MAX */
    struct {
        uint32_t first, units; /* rising, none empty, none into the next */
    } range[WEFT_REPAIR_RANGES_MAX];
} weft_wire_repair;

/* What came by each port since it was opened. */
typedef struct weft_wire_landed {
    uint32_t count; /* of ports, 1..WEFT_PORTS_MAX */
    struct {
        uint32_t turn; /* how often the port was opened before */
        bool failed;   /* the fabric reports that nothing more will come by it */
        uint64_t writes;
    } port[WEFT_PORTS_MAX];
} weft_wire_landed;

typedef struct weft_wire_close {
    uint32_t port; /* below WEFT_PORTS_MAX */
    uint32_t turn; /* that ends */
} weft_wire_close;

typedef struct weft_wire_closed {
    uint32_t port, turn;
    uint8_t whole[WEFT_SLOTS_MAX / 8]; /* a bit a slot: all of its bucket is there */
} weft_wire_closed;

/* OPEN, without the slots, and OPENED, where no address says that the port cannot be opened now. */
typedef struct weft_wire_open {
    uint32_t port, turn;
    weft_wire_port at;
} weft_wire_open;

typedef enum weft_bucket_kind { WEFT_BUCKET_FRAMES = 0, WEFT_BUCKET_ATTACHMENT = 1 } weft_bucket_kind;

typedef struct weft_wire_bucket {
    weft_bucket_kind kind;
    uint64_t layout[2];
    uint64_t incarnation;
    uint64_t sequence; /* from 0 on each connection */
    weft_version base;
    weft_version target; /* root 0 */
    uint32_t epoch;
    uint32_t slot;
    uint32_t chunks;
    uint64_t offset; /* of the payload in the update's frames of this connection, or in the attachment */
    uint64_t payload_bytes;
    uint32_t frames;
    uint64_t check; /* xxh3-64 of the frames' checks as u64, or of the attachment's bytes */
} weft_wire_bucket;

/* Immediate: epoch 8 | slot 12 | chunk 12 bits; chunk 0 is the header, 1.. are payload. */
static inline uint32_t weft_wire_immediate(uint32_t epoch, uint32_t slot, uint32_t chunk)
{
    return (epoch & 0xffu) << 24 | (slot & 0xfffu) << 12 | (chunk & 0xfffu);
}

/* The slot that an immediate names when nothing of a bucket came: the write only shows that the port carries. Its bytes
 * go to the end of the first slot's header page. */
#define WEFT_SLOT_PROBE   0xfffu
#define WEFT_PROBE_BYTES  8u
#define WEFT_PROBE_OFFSET (WEFT_SLOT_HEADER_BYTES - WEFT_PROBE_BYTES)

/* Whether a HELLO only asks for a GREETING, of a protocol that has one. */
bool weft_wire_knocks(const uint8_t *body, uint64_t length);
void weft_wire_put_knock(weft_out *out, const weft_wire_knock *knock);
weft_status weft_wire_get_knock(const uint8_t *body, uint64_t length, weft_wire_knock *knock);
void weft_wire_put_greeting(weft_out *out, const weft_wire_greeting *greeting);
weft_status weft_wire_get_greeting(const uint8_t *body, uint64_t length, weft_wire_greeting *greeting);
void weft_wire_put_hello(weft_out *out, const weft_wire_hello *hello);
weft_status weft_wire_get_hello(const uint8_t *body, uint64_t length, weft_wire_hello *hello);
void weft_wire_put_welcome(weft_out *out, const weft_wire_welcome *welcome);
weft_status weft_wire_get_welcome(const uint8_t *body, uint64_t length, weft_wire_welcome *welcome);
void weft_wire_put_update(weft_out *out, const weft_wire_update *update);
weft_status weft_wire_get_update(const uint8_t *body, uint64_t length, weft_wire_update *update);
void weft_wire_put_trailer(weft_out *out, const weft_wire_trailer *trailer);
weft_status weft_wire_get_trailer(const uint8_t *body, uint64_t length, weft_wire_trailer *trailer);
void weft_wire_put_receipt(weft_out *out, const weft_wire_receipt *receipt);
weft_status weft_wire_get_receipt(const uint8_t *body, uint64_t length, weft_wire_receipt *receipt);
void weft_wire_put_held(weft_out *out, const weft_wire_held *held);
weft_status weft_wire_get_held(const uint8_t *body, uint64_t length, weft_wire_held *held);
void weft_wire_put_notice(weft_out *out, const weft_wire_notice *notice);
weft_status weft_wire_get_notice(const uint8_t *body, uint64_t length, weft_wire_notice *notice);
void weft_wire_put_query(weft_out *out, const weft_wire_query *query);
weft_status weft_wire_get_query(const uint8_t *body, uint64_t length, weft_wire_query *query);
void weft_wire_put_digests(weft_out *out, const weft_wire_digests *digests);
weft_status weft_wire_get_digests(const uint8_t *body, uint64_t length, weft_wire_digests *digests);
void weft_wire_put_follow(weft_out *out, const weft_wire_follow *follow);
weft_status weft_wire_get_follow(const uint8_t *body, uint64_t length, weft_wire_follow *follow);
void weft_wire_put_repair(weft_out *out, const weft_wire_repair *repair);
weft_status weft_wire_get_repair(const uint8_t *body, uint64_t length, weft_wire_repair *repair);
void weft_wire_put_landed(weft_out *out, const weft_wire_landed *landed);
weft_status weft_wire_get_landed(const uint8_t *body, uint64_t length, weft_wire_landed *landed);
void weft_wire_put_close(weft_out *out, const weft_wire_close *close);
weft_status weft_wire_get_close(const uint8_t *body, uint64_t length, weft_wire_close *close);
void weft_wire_put_closed(weft_out *out, const weft_wire_closed *closed);
weft_status weft_wire_get_closed(const uint8_t *body, uint64_t length, weft_wire_closed *closed);
void weft_wire_put_open(weft_out *out, const weft_wire_open *open);
weft_status weft_wire_get_open(const uint8_t *body, uint64_t length, weft_wire_open *open);
void weft_wire_put_opened(weft_out *out, const weft_wire_open *opened);
weft_status weft_wire_get_opened(const uint8_t *body, uint64_t length, weft_wire_open *opened);
void weft_wire_put_version(weft_out *out, const weft_version *version);
weft_status weft_wire_get_version(const uint8_t *body, uint64_t length, weft_version *version);
void weft_wire_put_word(weft_out *out, uint64_t word);
weft_status weft_wire_get_word(const uint8_t *body, uint64_t length, uint64_t *word);

/* A bucket header is sealed with a check of its own bytes. `get` judges it against this end's layout hash. */
void weft_wire_put_bucket(uint8_t header[WEFT_BUCKET_HEADER_BYTES], const weft_wire_bucket *bucket);
weft_status weft_wire_get_bucket(const uint8_t header[WEFT_BUCKET_HEADER_BYTES], const uint64_t layout[2],
                                 weft_wire_bucket *bucket);

#endif

/* wire.h - every byte of control messages, update headers and trailers, and bucket headers (docs/WIRE_FORMAT.md).
 *
 * Structs here are values; `put` writes one, `get` reads and judges one. `get` refuses reserved fields by name. */
#ifndef WEFT_CORE_WIRE_H
#define WEFT_CORE_WIRE_H

#include "base/bytes.h"
#include "codec/classes.h"
#include "codec/frame.h"
#include "port/port_pipe.h"
#include "shard/excerpt.h"
#include "site/site.h"

#define WEFT_PROTOCOL            3u    /* number of the conversation: HELLO, GREETING, WELCOME */
#define WEFT_PROTOCOL_LOWEST     3u    /* oldest protocol that this end speaks too */
#define WEFT_PROTOCOL_HEARD      2u    /* oldest protocol that is greeted, because the HELLO to be refused has a name */
#define WEFT_FORMAT              1u    /* number of the format of UPDATE, TRAILER, bucket headers and update files */
#define WEFT_MESSAGE_PREFIX      8u    /* u32 length of the body, u16 type, u16 zero */
#define WEFT_MESSAGE_MAX         4096u /* bytes of the body of every message but LAYOUT */
#define WEFT_LAYOUT_MAX          (256u << 20) /* bytes of the body of a LAYOUT message */
#define WEFT_BUCKET_HEADER_BYTES 144u
#define WEFT_SLOT_HEADER_BYTES   4096u /* bytes of a slot's header page; the slot's payload follows */
#define WEFT_SLOTS_MAX           256u
#define WEFT_PORTS_MAX           8u    /* ports of one connection, at each end */
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
    WEFT_MESSAGE_FOLLOW = 18,  /* trainer, to a relay: the rollouts that take the next update from the relay's stream */
    WEFT_MESSAGE_PASSING = 19, /* the version you wait for still arrives here, or is being made */
    WEFT_MESSAGE_REPAIR = 20,  /* rollout, instead of ACCEPT: I lack only these units of the offer */
    WEFT_MESSAGE_LOOK = 21,    /* trainer: how many writes came by each port? */
    WEFT_MESSAGE_LANDED = 22,  /* rollout: this many writes */
    WEFT_MESSAGE_CLOSE = 23,   /* trainer: my port is closed; close yours */
    WEFT_MESSAGE_CLOSED = 24,  /* rollout: mine is closed too, and these buckets are whole without it */
    WEFT_MESSAGE_OPEN = 25,    /* trainer: I opened that port anew; open yours */
    WEFT_MESSAGE_OPENED = 26,  /* rollout: mine is open */
    WEFT_MESSAGE_GREETING = 27, /* trainer: the nonce by which your HELLO belongs to this connection */
    WEFT_MESSAGE_DUCT = 28,     /* rollout, first on a connection beside: this is the way to that port of yours */
    WEFT_MESSAGE_CHUNK = WEFT_PIPE_CHUNK, /* trainer, on a duct alone: bytes for a slot, and their immediate */
    WEFT_MESSAGE_WANT = 30,               /* rollout that names its versions: bring me to this one */
    WEFT_MESSAGE_OFFERED = 31,            /* trainer, to such a rollout: this version is the newest */
    WEFT_MESSAGE_PASSED = 32,             /* trainer: the version that you want cannot be had */
    WEFT_MESSAGE_COMPARE = 33             /* trainer: my layout is another; ask for it, and compare */
} weft_message;
#define WEFT_MESSAGE_COUNT 34

const char *weft_message_name(uint32_t type);

static inline bool weft_version_same(const weft_version *a, const weft_version *b)
{
    return a->run == b->run && a->number == b->number && a->root == b->root;
}

/* A port beside the first: its fabric address and, in HELLO, the slots as they are registered for it. */
typedef struct weft_wire_port {
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t address_bytes;
    uint64_t region_address;
    uint64_t region_key;
} weft_wire_port;

/* The first message of a connection: a HELLO that only asks for a GREETING. The two messages stay the same in every
 * later protocol. Both ends then use the highest protocol that both speak. */
typedef struct weft_wire_knock {
    uint32_t lowest, highest; /* protocols that the sender speaks */
} weft_wire_knock;

typedef struct weft_wire_greeting {
    uint32_t lowest, highest;
    uint64_t nonce; /* nonce, never 0, that the HELLO of this connection alone brings back */
} weft_wire_greeting;

typedef struct weft_wire_hello {
    bool wants_layout; /* answer with LAYOUT and close; the fields from `held` on are absent */
    uint64_t nonce;    /* nonce of the GREETING */
    char name[WEFT_SITE_NAME];
    uint64_t incarnation;
    uint64_t layout[2];
    bool holds;                 /* `held` is set */
    weft_version held;          /* version held; number and run 0 if only the digest is known */
    uint64_t attachment;        /* xxh3-64 of the attachment held; 0: none */
    bool stages;                /* `staged` is set */
    weft_version staged;        /* version that is whole and proved, and may be committed next */
    uint64_t staged_attachment; /* xxh3-64 of the attachment held after that; 0: none */
    char differs[256];          /* how its layout differs from the trainer's, after COMPARE; "": nobody compared */
    char provider[WEFT_SITE_NAME];
    char backend[24];
    uint32_t fabric; /* version of the sender's fabric library, major << 16 | minor; 0: none */
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t address_bytes;
    uint64_t region_address; /* address of slot 0 */
    uint64_t region_key;
    uint32_t further; /* ports beside the first */
    weft_wire_port more[WEFT_PORTS_MAX - 1];
    uint32_t further_rails; /* rails beside the first: port i belongs to rail i modulo the number of rails */
    uint64_t slot_stride;   /* bytes from slot to slot */
    uint64_t slot_payload;  /* payload bytes of a slot */
    uint32_t slots;
    uint32_t epoch; /* epoch, of 8 bits */
    uint32_t chunk_bytes;
    uint32_t levels; /* mask of 1 << weft_level that the rollout can decode */
    uint64_t staging_bytes;
    uint64_t encoded_bytes; /* bytes of frames of level fast that it can keep of one update; 0: none */
    weft_view_keys keys;    /* keys that the rollout takes; none: all */
    bool named;             /* the rollout gets the versions that it wants (WANT) alone */
    uint32_t hops;          /* relays that it passed, at most WEFT_SITE_HOPS; the fields below only if there are any */
    char relay[WEFT_SITE_NAME]; /* name of the relay before the rollout */
    uint64_t relay_incarnation; /* incarnation of that relay's session */
    uint32_t route;             /* the relay's number for the rollout's connection */
} weft_wire_hello;

/* Checks that the fabric libraries of both ends work together over a link of this end. Errors: WEFT_E_REFUSED (their
 * majors differ, and the provider needs one major). */
weft_status weft_wire_check_fabric(const weft_wire_hello *hello, const weft_link_facts *facts);

#define WEFT_FOLLOW_MAX 256u /* routes that one message names */

typedef struct weft_wire_follow {
    weft_version target; /* target of the update, with root 0 */
    uint32_t count;      /* number of routes, at least 1 */
    uint32_t routes[WEFT_FOLLOW_MAX];
} weft_wire_follow;

typedef struct weft_wire_welcome {
    uint64_t run;
    uint64_t incarnation;
    uint64_t layout[2];
    weft_version held; /* label of the version that the peer holds; all 0: unknown bits, an OFFER follows */
    weft_version newest;
    weft_version staged; /* label of the version that the peer has staged; all 0: none, or one that is not known */
    uint32_t heartbeat_ms;
    uint32_t chunk_bytes;
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t address_bytes;
    uint32_t further; /* ports beside the first, at most the HELLO's; one without an address is not used */
    weft_wire_port more[WEFT_PORTS_MAX - 1];
} weft_wire_welcome;

typedef struct weft_wire_update {
    bool snapshot;
    weft_level level;
    uint64_t layout[2];
    weft_version base;         /* version before the update; all 0: a snapshot */
    weft_version target;       /* version after it; root 0, because the trailer has it */
    uint64_t attachment_bytes; /* bytes of attachment in this update; 0: none */
    uint64_t attachment;       /* xxh3-64 of the attachment */
    weft_parameters parameters;
} weft_wire_update;
#define WEFT_UPDATE_HEADER_BYTES 128u /* bytes before the parameter words */
#define WEFT_UPDATE_HEADER_MAX   (WEFT_UPDATE_HEADER_BYTES + 2 * WEFT_PARAMETER_WORDS_MAX)

typedef struct weft_wire_trailer {
    weft_version target; /* version after the update; all 0: the update is withdrawn */
    uint64_t buckets;    /* buckets sent for this update */
    uint64_t frames;
    uint64_t frame_bytes;
    uint64_t changed;
} weft_wire_trailer;
#define WEFT_UPDATE_TRAILER_BYTES 128u

typedef struct weft_wire_receipt {
    uint64_t sequence;
    uint32_t slot;
    uint64_t take_ns;   /* time in ns to copy and check the bucket */
    uint64_t waited_ns; /* time in ns that the bucket lay whole in its slot before */
} weft_wire_receipt;

typedef struct weft_wire_held {
    uint64_t layout[2];
    weft_version version;
    uint64_t attachment;
    uint64_t decode_ns; /* time in ns to decode the update */
    uint64_t commit_ns;
} weft_wire_held;

/* The body of REFUSE, FAULT and BYE: status and text. */
typedef struct weft_wire_notice {
    weft_status status;
    uint64_t version;
    char text[256];
} weft_wire_notice;

/* The digests that a message has: of tensors, or of the tiles of one tensor. */
typedef enum weft_digests_kind { WEFT_DIGESTS_TENSORS = 0, WEFT_DIGESTS_TILES = 1 } weft_digests_kind;
#define WEFT_DIGESTS_MAX 500u /* digests that one message carries */

/* Why a version that was wanted is passed over. */
typedef enum weft_wire_pass {
    WEFT_PASS_BEHIND = 1,  /* the rollout was sent a later one */
    WEFT_PASS_SKIPPED = 2, /* no version has the number */
    WEFT_PASS_GONE = 3,    /* the journal does not lead there any more */
    WEFT_PASS_LARGE = 4    /* no update to the version fits the rollout's memory, or the trainer's */
} weft_wire_pass;

typedef struct weft_wire_passed {
    uint64_t number;
    weft_wire_pass reason;
    uint64_t below, above; /* next versions that may be had; 0: none is known */
} weft_wire_passed;

typedef struct weft_wire_query {
    weft_version version; /* version, found by its root; all 0: the newest */
    weft_digests_kind kind;
    uint64_t tensor; /* tensor of the tiles; 0 for tensors */
    uint64_t first;  /* number of the first tensor, or of the first tile */
    uint32_t count;  /* digests wanted, 1..WEFT_DIGESTS_MAX */
} weft_wire_query;

typedef struct weft_wire_digests {
    weft_version
        version;         /* version of the digests; all 0: the trainer has none of the wanted version, and count is 0 */
    weft_version before; /* the version before, if its digests are known here too; all 0: none */
    weft_digests_kind kind;
    uint64_t tensor, first; /* numbers of the query */
    uint32_t count;         /* digests here, at most as many as wanted */
    uint64_t digest[WEFT_DIGESTS_MAX];
} weft_wire_digests;

#define WEFT_REPAIR_RANGES_MAX 480u

typedef struct weft_wire_repair {
    uint64_t root;        /* root of the bits that the rollout holds */
    weft_version version; /* version that the units must reach, as DIGESTS named it */
    uint32_t count;       /* number of ranges, 1..WEFT_REPAIR_RANGES_MAX */
    struct {
        uint32_t first, units; /* ranges rise, none is empty, none overlaps the next */
    } range[WEFT_REPAIR_RANGES_MAX];
} weft_wire_repair;

/* The writes that came by each port since it was opened. */
typedef struct weft_wire_landed {
    uint32_t count; /* number of ports, 1..WEFT_PORTS_MAX */
    struct {
        uint32_t turn; /* times that the port was opened before */
        bool failed;   /* the fabric reports that no more writes come by this port */
        uint64_t writes;
    } port[WEFT_PORTS_MAX];
} weft_wire_landed;

typedef struct weft_wire_close {
    uint32_t port; /* port, below WEFT_PORTS_MAX */
    uint32_t turn; /* turn of the port that ends */
} weft_wire_close;

typedef struct weft_wire_closed {
    uint32_t port, turn;
    uint8_t whole[WEFT_SLOTS_MAX / 8]; /* a bit for each slot: all of its bucket is there */
} weft_wire_closed;

/* OPEN, which has no slots, and OPENED, which has no address if the port cannot be opened now. */
typedef struct weft_wire_open {
    uint32_t port, turn;
    weft_wire_port at;
} weft_wire_open;

/* DUCT: the address of the port, as its owner said it in WELCOME or OPEN. */
typedef struct weft_wire_duct {
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t address_bytes;
} weft_wire_duct;

typedef enum weft_bucket_kind { WEFT_BUCKET_FRAMES = 0, WEFT_BUCKET_ATTACHMENT = 1 } weft_bucket_kind;

typedef struct weft_wire_bucket {
    weft_bucket_kind kind;
    uint64_t layout[2];
    uint64_t incarnation;
    uint64_t sequence; /* number of the bucket, from 0 on each connection */
    weft_version base;
    weft_version target; /* version after the update, with root 0 */
    uint32_t epoch;
    uint32_t slot;
    uint32_t chunks;
    uint64_t offset; /* offset of the payload in the update's frames on this connection, or in the attachment */
    uint64_t payload_bytes;
    uint32_t frames;
    uint64_t check; /* xxh3-64 of the frames' checks as u64, or of the attachment's bytes */
} weft_wire_bucket;

/* Immediate: epoch 8 | slot 12 | chunk 12 bits; chunk 0 is the header, 1.. are payload. */
static inline uint32_t weft_wire_immediate(uint32_t epoch, uint32_t slot, uint32_t chunk)
{
    return (epoch & 0xffu) << 24 | (slot & 0xfffu) << 12 | (chunk & 0xfffu);
}

/* The slot in the immediate of a probe: a write that carries no bucket and only shows that the port works. Its bytes go
 * to the end of the first slot's header page. */
#define WEFT_SLOT_PROBE   0xfffu
#define WEFT_PROBE_BYTES  8u
#define WEFT_PROBE_OFFSET (WEFT_SLOT_HEADER_BYTES - WEFT_PROBE_BYTES)

/* True if a HELLO only asks for a GREETING, in a protocol that has one. */
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
/* Returns the reason as text; static. */
const char *weft_wire_pass_text(weft_wire_pass reason);
void weft_wire_put_passed(weft_out *out, const weft_wire_passed *passed);
weft_status weft_wire_get_passed(const uint8_t *body, uint64_t length, weft_wire_passed *passed);
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
void weft_wire_put_duct(weft_out *out, const weft_wire_duct *duct);
weft_status weft_wire_get_duct(const uint8_t *body, uint64_t length, weft_wire_duct *duct);
void weft_wire_put_version(weft_out *out, const weft_version *version);
weft_status weft_wire_get_version(const uint8_t *body, uint64_t length, weft_version *version);
void weft_wire_put_word(weft_out *out, uint64_t word);
weft_status weft_wire_get_word(const uint8_t *body, uint64_t length, uint64_t *word);

/* Writes a bucket header and seals it with a check of its own bytes. `get` judges it against this end's layout hash. */
void weft_wire_put_bucket(uint8_t header[WEFT_BUCKET_HEADER_BYTES], const weft_wire_bucket *bucket);
weft_status weft_wire_get_bucket(const uint8_t header[WEFT_BUCKET_HEADER_BYTES], const uint64_t layout[2],
                                 weft_wire_bucket *bucket);

#endif

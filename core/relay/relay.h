/* relay.h - a rollout that passes on what it receives to the rollouts behind it, its children.
 *
 *                 up: control, one connection per child               down: control
 *   trainer <-------------------------------------------- relay <----------------------- child
 *      |     own stream, into slots that the relay named    ^   `---- buckets, into the child's slots ---->
 *      |---- for the child ------------------------------->-+
 *      `---- the relay's own stream, which children follow ->
 *
 * Messages are passed on as they are but for HELLO, WELCOME and RECEIPT (docs/WIRE_FORMAT.md, Relays). Memory is cut
 * into blocks of a slot each: shared ones hold buckets of the relay's own stream until every follower has them, the
 * others are slots for the children's own streams, passed on from where they landed. A follower that lets the shared
 * blocks run out is dropped; it joins again and is served alone.
 *
 *   free -- accept --> guest -- HELLO, relay joined --> dialing --> knocking --> greeting -- WELCOME --> joined
 *    ^                   ^--- the relay's own connection is lost ------+                      |
 *    +------ leaving (last words flushed) <--- either connection ends, dropped, silence ------+ */
#ifndef WEFT_CORE_RELAY_H
#define WEFT_CORE_RELAY_H

#include "rollout/rollout.h"
#include "send/send.h"
#include "session/door.h"

#define WEFT_CHILDREN_MAX  64u
#define WEFT_CHILD_OWN     2u  /* blocks that are slots for a child's own stream */
#define WEFT_CHILD_SLOTS   16u /* of the child's slots, at most so many are used */
#define WEFT_CHILD_FOLLOWS 4u  /* updates that may be remembered as followed: more than can be under way */
#define WEFT_BLOCKS_MAX    65536u
#define WEFT_RELAY_OUTLETS 4u

typedef enum weft_child_state {
    WEFT_CHILD_FREE,
    WEFT_CHILD_GUEST, /* HELLO has not come, or waits until the relay is joined */
    WEFT_CHILD_DIALING,
    WEFT_CHILD_KNOCKING, /* at the trainer */
    WEFT_CHILD_GREETING,
    WEFT_CHILD_JOINED,
    WEFT_CHILD_LEAVING
} weft_child_state;

typedef struct weft_child {
    weft_relay *relay;
    weft_child_state state;
    bool greeted;         /* HELLO came */
    weft_log_limit limit; /* of lines about it */
    weft_control down, up;
    uint64_t since_ns; /* of the state */
    uint32_t route;
    weft_wire_hello hello; /* as it came */
    weft_site_peer site;
    uint64_t incarnation; /* the trainer's */
    uint32_t open;        /* updates announced to it and not HELD */

    weft_port *own_port; /* where its own stream lands */
    weft_region *own_region;
    weft_slots own;
    uint64_t own_next; /* sequence */
    uint64_t moved_ns; /* last arrival of its own stream */
    uint64_t told_ns;  /* last PASSING */
    weft_version follows[WEFT_CHILD_FOLLOWS];
    uint32_t follows_at;

    weft_sender sender;
    uint32_t *queue; /* blocks that wait, a ring of the relay's block count */
    uint32_t queue_begin, queue_count;
    uint64_t take_ns;    /* the child's, of the bucket receipted last */
    uint64_t granted_ns; /* when that was */
} weft_child;

/* A bucket in a block, and the children that are still to get it. */
typedef struct weft_relay_block {
    weft_wire_bucket header; /* as it came */
    uint32_t readers;        /* children; 0: a shared block is free */
} weft_relay_block;

struct weft_relay {
    weft_rollout *rollout;
    weft_door door;
    char listen[64];
    char source[24];       /* " for source R"; empty: of one trainer */
    weft_buffers buffers;  /* its slabs are the blocks, each a header page and the payload */
    uint32_t shared_count; /* blocks from shared_count on are the children's */
    weft_relay_block *blocks;
    uint32_t *queues;
    weft_child *children;
    uint32_t child_count, next_route;
    weft_outlets outlets;
    uint64_t pass_sequence; /* next bucket of the relay's own stream to be passed on */
};

static inline uint8_t *weft_relay_payload(const weft_relay *relay, uint32_t block)
{
    return weft_slab_at(&relay->buffers.slabs, (int32_t)block) + WEFT_SLOT_HEADER_BYTES;
}

static inline uint32_t weft_child_index(const weft_relay *relay, const weft_child *child)
{
    return (uint32_t)(child - relay->children);
}

/* The first of a child's own blocks. */
static inline uint32_t weft_child_block(const weft_relay *relay, const weft_child *child)
{
    return relay->shared_count + weft_child_index(relay, child) * WEFT_CHILD_OWN;
}

/* ---- relay.c */
extern const weft_door_places weft_relay_places;
/* Serves the children: accepts, passes on; `waits` says which ports may have something to say. */
void weft_relay_step(weft_relay *relay, weft_waits *waits);
/* Loses the children, because the relay's own connection is lost. WEFT_OK: a goodbye, which is passed on. */
void weft_relay_lose(weft_relay *relay, weft_status status, const char *why);

/* Adds the ports that the step waits for. */
void weft_relay_wait(const weft_relay *relay, weft_waits *waits);
/* Returns whether a joined child has an update that it does not hold yet. */
bool weft_relay_busy(const weft_relay *relay);
/* Lets last words to leaving children leave, until the deadline. */
void weft_relay_flush(weft_relay *relay, uint64_t deadline_ns);

/* ---- relay_greet.c */
/* HELLO of a guest. */
weft_status weft_child_hello(weft_relay *relay, weft_child *child, const uint8_t *body, uint64_t length);
/* Dials and greets on behalf of a guest, as far as that can be done now. */
weft_status weft_child_greet(weft_relay *relay, weft_child *child);
/* GREETING of the trainer: passes the guest's HELLO on. */
weft_status weft_child_greeting(weft_relay *relay, weft_child *child, const uint8_t *body, uint64_t length);
/* WELCOME of the trainer: opens the way to the child and passes it on. */
weft_status weft_child_welcome(weft_relay *relay, weft_child *child, const uint8_t *body, uint64_t length);
/* DUCT of a guest: the connection becomes that of the port to a child, and the guest is gone. */
weft_status weft_child_duct(weft_relay *relay, weft_child *guest, const uint8_t *body, uint64_t length);

/* ---- relay_dispatch.c */
/* Passes messages on, both ways. Errors end the child's connections. */
weft_status weft_child_hear(weft_relay *relay, weft_child *child);

/* ---- relay_pass.c: the hooks of what comes */
void weft_relay_pass(weft_relay *relay);
weft_status weft_relay_follow(weft_relay *relay, const uint8_t *body, uint64_t length);
void weft_relay_unfollow(weft_relay *relay, const weft_version *target);
/* Takes arrivals of a child's own stream; true if there were any. */
weft_status weft_child_arrivals(weft_relay *relay, weft_child *child, bool *any);

/* ---- relay_child.c: one child */
void weft_child_enter(weft_child *child, weft_child_state state);
/* Ends both connections when what was said has left. */
void weft_child_lose(weft_child *child, const char *why);
/* Closes a child's ways for buckets, and gives back the blocks that were queued or under way. */
void weft_child_close(weft_child *child);
/* Closes what a child has open, and makes its place free. */
void weft_child_free(weft_child *child);
void weft_child_enqueue(weft_child *child, uint32_t block);
/* Sends the child what can be sent now. */
weft_status weft_child_pump(weft_child *child, uint64_t now_ns, weft_waits *waits);
weft_status weft_child_receipt(weft_child *child, const weft_wire_receipt *receipt);
/* Gives back a block that a child no longer needs: `give` of the child's sender. */
void weft_child_leave(weft_flights *flights, int32_t block);

#endif

/* send.h - the sender of one receiver: buckets go into the receiver's slots, chunk by chunk, by the receiver's rails.
 *
 * A trainer has a sender for each peer, a relay one for each child. Who owns a sender fills its posting with a bucket,
 * and gets the bucket's memory back by weft_flights.give. */
#ifndef WEFT_CORE_SEND_H
#define WEFT_CORE_SEND_H

#include "bucket/bucket.h"
#include "send/flights.h"
#include "send/rail.h"
#include "session/session.h"

/* Posting: the bucket that goes to the fabric now, and the pace at which its chunks may go. The owner fills it, and
 * send.c empties it. */
typedef struct weft_posting {
    weft_bucket bucket;
    weft_update *update;  /* update whose chain the bucket reads, held; NULL: none */
    int32_t slab;         /* slab that the bucket reads; -1: none */
    bool busy;            /* some of the bucket is still to be posted */
    bool again;           /* the provider refused the last write */
    uint32_t slot, chunk; /* where the bucket goes, and its next chunk */
    uint32_t chunk_bytes; /* bytes of a chunk, as agreed when the receiver joined */
    weft_pace pace;
} weft_posting;

/* Sender: what one receiver is sent by, and what others know of the receiver. */
struct weft_sender {
    weft_session *session;        /* the owner's */
    weft_outlets *outlets;        /* the session's: where it sends from */
    weft_control *control;        /* connection by which the receiver is heard */
    const weft_wire_hello *hello; /* what the receiver said of itself */
    const weft_site_peer *site;   /* its row of the site */
    const weft_version *held;     /* what it holds, for events */
    weft_posting posting;         /* bucket that goes to the fabric now */
    weft_flights flights;         /* slots, with the buckets on their way */
    weft_rails rails;             /* ways to the receiver */
};

/* Gives a sender what it keeps as long as the session: its part of the buffers, by its place among all senders. */
void weft_send_bind(weft_sender *sender, weft_outlets *outlets, uint32_t place);
/* Begins with a receiver that joins anew: all of its slots are free. */
void weft_send_open(weft_sender *sender);
/* Ends all ways to the receiver, and gives back what its buckets read. */
void weft_send_close(weft_sender *sender);
/* Posts what is to be posted at a pace, which is that of the receiver's link; says in `waits` what holds the rest up.
 * WEFT_OK: another bucket may begin. WEFT_AGAIN: none may now. Errors: the receiver is to be lost. */
weft_status weft_send_post(weft_sender *sender, weft_pace *pace, uint64_t now_ns, weft_waits *waits);
/* Gives the posting's bucket a slot and a header; weft_send_post said that there is one. */
void weft_send_begin(weft_sender *sender, uint64_t now_ns);
/* Takes completions, and sets `*any` if there were some. */
weft_status weft_send_poll(weft_sender *sender, uint64_t now_ns, bool *any);
/* Returns true if writes are under way or refused, and none moved within io_deadline. */
bool weft_send_stalls(const weft_sender *sender, uint64_t now_ns);
/* Adds the ports by which something is under way. */
void weft_send_wait(const weft_sender *sender, weft_waits *waits);

#endif

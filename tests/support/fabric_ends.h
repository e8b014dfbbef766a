/* fabric_ends.h - the ends of a real provider in a child of a play: a receiver that grants slots and verifies every
 * byte, and a sender that fills them. */
#ifndef WEFT_TESTS_FABRIC_ENDS_H
#define WEFT_TESTS_FABRIC_ENDS_H

#include <stdint.h>

#include "port/port_provider.h"
#include "tests/support/fabric_play.h"

#define CHUNK   (UINT64_C(64) << 10)
#define CHUNKS  4u /* of a bucket */
#define SLOTS   4u
#define BUCKETS 64u
#define DEPTH   4u
#define BUCKET  (CHUNK * CHUNKS)
#define LANES   2u /* streams that one sender feeds at a time */

/* ---- one end of a fabric */

typedef struct fabric_end {
    const weft_provider *provider;
    weft_link *link;
    weft_link_facts facts;
} fabric_end;

/* The message of a receiver to its sender. */
typedef struct invitation {
    uint8_t port[WEFT_PORT_ADDRESS_MAX];
    uint32_t length;
    uint64_t address;
    uint64_t key;
} invitation;

/* The address that a provider is opened with on this host. */
const char *end_local(const char *provider);
fabric_end end_open(const char *name);
weft_port *end_open_port(const fabric_end *e);
invitation end_invite(const fabric_end *e, const weft_port *port, const weft_region *region);
/* Waits as a progress thread does: on the descriptor where there is one, else a short sleep. */
void end_idle(const fabric_end *e, weft_port *port, int milliseconds);

/* ---- a receiver: grants SLOTS, acknowledges each bucket when it is whole and verified */

typedef struct receiver {
    fabric_end end;
    weft_port *port;
    weft_region *region;
    uint8_t *memory;
    uint8_t counted[BUCKETS][CHUNKS];
    uint32_t chunks[BUCKETS];
    uint32_t whole;
} receiver;

/* Opens all and sends the invitation through `fd`. */
void receiver_open(receiver *r, const char *provider, int fd);
void receiver_close(receiver *r);
/* Polls once, or waits where nothing came; true when something did. */
bool receiver_step(receiver *r, int fd, int milliseconds);
/* A role: receives every bucket, then serves until its sender has all its completions. */
void receive_all(play *p);

/* ---- a sender */

typedef struct sender {
    fabric_end end;
    weft_region *region;
    uint8_t *memory; /* LANES times SLOTS buckets, filled as they are sent */
} sender;

typedef struct stream {
    weft_port *port;
    invitation to;
    int fd;
    uint8_t *source;        /* its SLOTS buckets of the sender's memory */
    uint32_t bucket, chunk; /* next to post */
    uint32_t acknowledged;  /* all buckets before it: in disorder a later one may be whole first */
    bool whole[BUCKETS];
    uint32_t written, failed, again;
    uint8_t seen[BUCKETS][CHUNKS]; /* completions, by cookie */
} stream;

void sender_open(sender *s, const char *provider);
void sender_close(sender *s);
/* Takes an invitation from `fd`; `lane` is below LANES and used by one stream at a time. */
void stream_open(const sender *s, stream *t, uint32_t lane, int fd);
void stream_close(const sender *s, stream *t);
/* Posts the stream's next chunk, whatever the credit; does not move on to the one after it. */
weft_status stream_post(const sender *s, stream *t);
void stream_poll(const sender *s, stream *t);
/* Posts what credit allows; true while there is more to do. */
bool stream_step(const sender *s, stream *t);
/* Sends every bucket and releases the receiver. */
void stream_all(const sender *s, stream *t);

/* ---- what there is to test */

/* In a child: whether a device of the provider is here; one that is not must be named with a reason. */
bool fabric_is_usable(const char *provider);
/* True if this build must have the provider: tcp with libfabric, and all that are played. */
bool fabric_is_sure(const char *provider);

/* The exit code of a child that looked for the provider: 0 it is here, 2 it is absent. Any other code is a failure, and
 * so is the absence of a provider that must be here. */
typedef enum fabric_presence { FABRIC_HERE, FABRIC_ABSENT, FABRIC_BROKEN } fabric_presence;
fabric_presence fabric_judge(const char *provider, int status);
/* In the cmocka process, by a child; ends the process after a failure. Without libfabric, or with one that lacks the
 * provider, there is nothing to test. */
bool fabric_is_here(const char *provider);

/* Runs a group of tests where their provider is here; main returns fabric_result of all failures, which is 77, for
 * skipped, when none was. */
bool fabric_begins(const char *provider);
int fabric_result(int failed);
#define FABRIC_RUN(provider, tests) (fabric_begins(provider) ? cmocka_run_group_tests(tests, NULL, NULL) : 0)

/* A test of one provider, which it finds in its state. */
#define ON(test, provider)                                                                                             \
    {                                                                                                                  \
#test " " provider, test, NULL, NULL, (void *)(uintptr_t)provider                                              \
    }

#endif

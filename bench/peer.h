/* peer.h - a rollout as a process of its own, on its own link, that commits what comes until it is told otherwise.
 *
 * The model is made before the processes are forked: each works on its own copy of it. */
#ifndef WEFT_BENCH_PEER_H
#define WEFT_BENCH_PEER_H

#include "bench.h"
#include "harness/process.h"
#include "model/safetensors.h"

/* An order to a peer, which answers each by a report. */
typedef enum bench_order {
    BENCH_JOIN, /* the trainer at `listen`, with what it holds */
    BENCH_LEAVE,
    BENCH_ASK,      /* a report and nothing else */
    BENCH_IDLE,     /* waits for so many ms, in which nothing comes: the report has the time and the CPU */
    BENCH_SNAPSHOT, /* joins with nothing, takes a snapshot, and leaves: the same of the call of weft_commit */
    BENCH_CONNECT,  /* to a raw stream at a port of the host of `listen` */
    BENCH_RAW       /* takes so many bytes by that: the same */
} bench_order;

typedef struct bench_report {
    double ms;
    bench_cpu cpu;
    uint64_t updates;        /* committed since it joined */
    uint64_t bytes;          /* received for them */
    uint64_t resident_bytes; /* the process's own memory: anonymous pages and shared ones */
    uint64_t bound_bytes;    /* what the session said at open that it takes */
    uint64_t allocations;    /* since open */
    weft_version held;
} bench_report;

typedef struct bench_peer {
    char name[64];
    fleet_process process;
    int raw_fd; /* the trainer's end of the raw stream; -1: none */
} bench_peer;

void bench_peer_open(bench_peer *peer, const char *place, const bench_options *options, const weft_model *model);
void bench_peer_close(bench_peer *peer);

void bench_peer_tell(const bench_peer *peer, bench_order what, const char *listen, uint64_t number);
bench_report bench_peer_answer(const bench_peer *peer);
/* Both. */
bench_report bench_peer_do(const bench_peer *peer, bench_order what, const char *listen, uint64_t number);
/* Its report of a raw stream of `bytes` over one connection, which is kept. */
bench_report bench_peer_raw(bench_peer *peer, const char *listen, const void *data, uint64_t bytes);

static inline const char *bench_heartbeat(const bench_options *options)
{
    return options->heartbeat ? options->heartbeat : "60s";
}

/* Anonymous and shared memory of this process that is resident. */
uint64_t bench_resident_bytes(void);

#endif

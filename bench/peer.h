/* peer.h - a rollout as a process of its own, on its own link, that commits what comes until it is told otherwise.
 *
 * The model is made before the processes are forked: each works on its own copy of it. */
#ifndef WEFT_BENCH_PEER_H
#define WEFT_BENCH_PEER_H

#include "fleet.h"
#include "model/safetensors.h"

/* A peer's answer to every order. */
typedef struct bench_report {
    double ms;               /* of a raw stream */
    uint64_t updates;        /* committed since it joined */
    uint64_t bytes;          /* received for them */
    uint64_t resident_bytes; /* the process's own memory: anonymous pages and shared ones */
    uint64_t bound_bytes;    /* what the session said at open that it takes */
    uint64_t allocations;    /* since open */
    weft_version held;
} bench_report;

typedef struct bench_peer {
    char name[64];
    bench_child child;
    int raw_fd; /* the trainer's end of the raw stream; -1: none */
} bench_peer;

void bench_peer_open(bench_peer *peer, const char *place, const bench_options *options, const weft_model *model);
void bench_peer_close(bench_peer *peer);

/* Joins the trainer at `listen` with what it holds, or leaves. */
bench_report bench_peer_join(const bench_peer *peer, const char *listen);
bench_report bench_peer_leave(const bench_peer *peer);
bench_report bench_peer_ask(const bench_peer *peer);
/* A raw stream of `bytes` over one connection, which is kept. */
double bench_peer_raw_ms(bench_peer *peer, const char *listen, const void *data, uint64_t bytes);

static inline const char *bench_heartbeat(const bench_options *options)
{
    return options->heartbeat ? options->heartbeat : "60s";
}

/* Anonymous and shared memory of this process that is resident. */
uint64_t bench_resident_bytes(void);

#endif

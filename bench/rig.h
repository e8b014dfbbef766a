/* rig.h - a trainer with a made-up model and a rollout process for each peer that the options name. */
#ifndef WEFT_BENCH_RIG_H
#define WEFT_BENCH_RIG_H

#include "peer.h"

#define BENCH_DEADLINE_MS 60000

typedef struct bench_rig {
    const bench_options *options;
    weft_model *model; /* its weights and steps obey the law of the exponents */
    weft_session *trainer;
    char listen[64];
    bench_peer peers[BENCH_PEERS_MAX];
    const char *names[BENCH_PEERS_MAX];
    uint64_t resident_bytes; /* of the trainer's process before its session was opened, the model included */
    uint64_t version;
} bench_rig;

/* Peers are processes that wait for orders; none has joined. Without one in the options there is one, "a". */
void bench_rig_open(bench_rig *rig, bench_options *options);
void bench_rig_join_all(bench_rig *rig);
void bench_rig_close(bench_rig *rig);

/* Changes the weights as a training step does. */
void bench_rig_step(bench_rig *rig);
/* Publishes them as the next version: the time of the call. */
double bench_rig_publish_ms(bench_rig *rig, weft_update_info *info);
/* Waits until the first `count` peers hold the newest version. */
void bench_rig_wait(bench_rig *rig, int count);

#endif

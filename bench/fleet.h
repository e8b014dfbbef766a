/* fleet.h - what the fleet's measurements share: a model, a site, rollouts as processes of their own, medians.
 *
 * Processes are forked before any session is opened. They speak over a pipe pair: commands are single bytes, replies
 * are structs of one fixed size. Anything that fails ends the process with a message: a measurement has no other way
 * on. */
#ifndef WEFT_BENCH_FLEET_H
#define WEFT_BENCH_FLEET_H

#include <stdbool.h>
#include <sys/types.h>

#include "weft.h"

#define BENCH_ROUNDS_MAX 99
#define BENCH_PEERS_MAX  32
#define BENCH_SETS_MAX   16

typedef struct bench_options {
    const char *provider;
    uint64_t mib; /* of the model's weights */
    int rounds;   /* measurements of which the median is taken, at most BENCH_ROUNDS_MAX */
    int seconds;
    const char *listen;                 /* host:port of the trainer; NULL: loopback, any port */
    const char *peers[BENCH_PEERS_MAX]; /* NAME or NAME@NETNS: a network namespace that the process enters */
    int peer_count;
    const char *sets[BENCH_SETS_MAX]; /* section.key=value, over the site */
    int set_count;
    const char *heartbeat;  /* of the rig's peers; NULL: 60s */
    double changed;         /* share of the elements that an update changes, in percent */
    const char *cut, *mend; /* shell commands that take a peer's link away and give it back */
} bench_options;

/* --provider NAME --mib N --rounds N --seconds N --listen HOST:PORT --peer NAME[@NETNS] (repeated) --set KEY=VALUE
 * (repeated) --changed PERCENT --cut COMMAND --mend COMMAND; what is absent keeps the value in `options`. */
void bench_options_read(int argc, char **argv, bench_options *options);

/* Ends the process unless `status` is WEFT_OK. */
void bench_need(weft_status status, const char *what);
_Noreturn void bench_die(const char *what);

double bench_now_ms(void);
void bench_sleep_ms(double ms);
/* `text` gets the host of "host:port". */
void bench_host(const char *listen, char text[64]);
double bench_median(const double *values, int count); /* at most BENCH_ROUNDS_MAX */
/* CPU time of this process and its threads so far; `queued`: ready to run while others ran. */
typedef struct bench_cpu {
    double user_ms, kernel_ms, queued_ms;
} bench_cpu;

bench_cpu bench_cpu_now(void);
bench_cpu bench_cpu_since(bench_cpu before);

/* bf16 weights of pseudo-random bits, in tensors of 16 MiB, their pages touched. */
typedef struct bench_model {
    weft_layout *layout;
    uint16_t *weights;
    uint64_t elements, bytes, count;
    weft_piece *pieces;
} bench_model;

/* Returns the next of a sequence of pseudo-random numbers (xorshift64); the state is not 0. */
uint64_t bench_draw(uint64_t *state);
void bench_model_open(bench_model *model, uint64_t mib);
void bench_model_close(bench_model *model);

/* A site whose peers have any name. `listen`: where the trainer is; NULL: as the options say. */
weft_site *bench_site(const bench_options *options, const char *listen, const char *heartbeat);
weft_session *bench_trainer_open(const bench_options *options, const char *heartbeat, const bench_model *model,
                                 char listen[64]);

typedef struct bench_child {
    pid_t pid;
    int to, from;
} bench_child;

/* Forks a process that runs `body` with the pipe's other ends and exits 0. */
void bench_child_open(bench_child *child, void (*body)(int in, int out, const void *user), const void *user);
/* Enters the namespace of "NAME@NETNS", if there is one; for the calling process, before it has threads. */
void bench_netns_enter(const char *peer);
/* Kills it if it still runs, and reaps it. */
void bench_child_close(bench_child *child);
void bench_send(int fd, const void *data, size_t bytes);
/* False at the pipe's end. */
bool bench_receive(int fd, void *data, size_t bytes);

#endif

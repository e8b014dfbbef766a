/* bench.h - what measurements share: options, figures, a site. Anything that fails ends the process with a message,
 * because a measurement has no other way on. */
#ifndef WEFT_BENCH_BENCH_H
#define WEFT_BENCH_BENCH_H

#include <stdbool.h>

#include "harness/session.h"

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
    bool noise;             /* the rig's weights are bits without a law, which no coding makes fewer */
    double changed;         /* share of the elements that an update changes, in percent */
    const char *cut, *mend; /* shell commands that take a peer's link away and give it back */
} bench_options;

/* --provider NAME --mib N --rounds N --seconds N --listen HOST:PORT --peer NAME[@NETNS] (repeated) --set KEY=VALUE
 * (repeated) --changed PERCENT --cut COMMAND --mend COMMAND; what is absent keeps the value in `options`. */
void bench_options_read(int argc, char **argv, bench_options *options);

double bench_now_ms(void);
void bench_sleep_ms(double ms);
/* `text` gets the host of "host:port". */
void bench_host(const char *listen, char text[64]);
double bench_median(const double *values, int count); /* at most BENCH_ROUNDS_MAX */
/* CPU time of this process and its threads so far; `queued`: ready to run while others ran. */
typedef struct bench_cpu {
    double user_ms, kernel_ms, queued_ms;
} bench_cpu;

/* CPU time of the calling thread: what a call costs whoever else wants the cores. */
double bench_thread_ms(void);
bench_cpu bench_cpu_now(void);
bench_cpu bench_cpu_since(bench_cpu before);

/* Returns the next of a sequence of pseudo-random numbers (xorshift64); the state is not 0. */
uint64_t bench_draw(uint64_t *state);
/* Fills memory with pseudo-random bits, always the same. */
void bench_noise(void *data, uint64_t bytes);

/* A site whose peers have any name. `listen`: where the trainer is; NULL: as the options say. */
weft_site *bench_site(const bench_options *options, const char *listen, const char *heartbeat);
/* Enters the namespace of "NAME@NETNS", if there is one; for the calling process, before it has threads. */
void bench_netns_enter(const char *peer);

#endif

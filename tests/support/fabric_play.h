/* fabric_play.h - a test played by several processes. What is tested is opened in the children, after their fork; the
 * cmocka process only starts and reaps them. */
#ifndef WEFT_TESTS_FABRIC_PLAY_H
#define WEFT_TESTS_FABRIC_PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "harness/process.h"

/* In a child: cmocka's own assertions would jump into the parent's copy of the test. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, " (%s)\n", weft_last_error());                                                             \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Process 0 leads, the others are each joined with it by a socket. */
#define PLAY_CAST_MAX 4
typedef struct play {
    const char *provider;
    fleet_process processes[PLAY_CAST_MAX]; /* at process 0, with a line to each of the others */
    int line;                               /* at each of the others, to process 0 */
} play;

typedef void (*play_role_fn)(play *p);

/* Forks `others` processes (fewer than PLAY_CAST_MAX) that play `other`, then one that plays `lead`. */
void play_start(play *p, const char *provider, play_role_fn lead, play_role_fn other, int others);
/* Waits for all. Those in `killed` (a bit each) must have died by SIGKILL. After a failure none is left running. */
void play_finish(play *p, int others, unsigned killed);

/* In a child: whole messages through a socket of the play; play_heard does not wait. */
void play_tell(int fd, const void *bytes, size_t count);
void play_hear(int fd, void *bytes, size_t count);
bool play_heard(int fd);

/* Seconds on a clock that only goes forward. */
double play_now(void);
void play_nap(double seconds);

#endif

/* meet.h - how the two ends of a measurement find each other: the TCP connection of their line. */
#ifndef WEFT_BENCH_FABRIC_MEET_H
#define WEFT_BENCH_FABRIC_MEET_H

#include "tools/bench/fabric/line.h"

/* "host:port"; port 0: any, `bound` tells which. Errors: WEFT_E_CONFIG, WEFT_E_SYSTEM. */
weft_status weft_bench_meet_listen(const char *address, int *listener, char bound[64]);
/* Waits for the one other end. `grave` is what it leaves where it ends before it comes: a descriptor that is closed
 * then, with its last words in it if it had any; -1: there is none, and this waits without a bound. Errors:
 * WEFT_E_SYSTEM, WEFT_E_UNREACHABLE (it ended, or did not come in WEFT_BENCH_STALL_MS). */
weft_status weft_bench_meet_accept(int listener, int grave, int *fd);
/* Errors: WEFT_E_CONFIG (no address), WEFT_E_UNREACHABLE. */
weft_status weft_bench_meet_dial(const char *address, int *fd);
/* The numeric address of this end of a connection, or of the other. */
weft_status weft_bench_meet_local(int fd, char *address, size_t capacity);
weft_status weft_bench_meet_remote(int fd, char *address, size_t capacity);

/* The other end of a measurement: opens `provider` with `link`, obeys until it is released, closes. Tells the one that
 * measures what fails. */
weft_status weft_bench_fabric_serve(const char *provider, const weft_link_options *link, weft_bench_line *line);

#endif

/* meet.h - how the two ends of a measurement find each other: the plain TCP connection of end.h. */
#ifndef WEFT_BENCH_FABRIC_MEET_H
#define WEFT_BENCH_FABRIC_MEET_H

#include <stddef.h>

#include "weft.h"

/* "host:port"; port 0: any, `bound` tells which. Errors: WEFT_E_CONFIG, WEFT_E_SYSTEM. */
weft_status weft_bench_meet_listen(const char *address, int *listener, char bound[64]);
/* Waits, without a bound, for the one other end. */
weft_status weft_bench_meet_accept(int listener, int *fd);
/* Errors: WEFT_E_CONFIG (no such host), WEFT_E_UNREACHABLE. */
weft_status weft_bench_meet_dial(const char *address, int *fd);
/* The numeric local address of a connection. */
weft_status weft_bench_meet_local(int fd, char *address, size_t capacity);

/* The other end of a measurement: opens `provider` at `address`, obeys until it is released, closes. Tells the one that
 * measures what fails. */
weft_status weft_bench_fabric_serve(const char *provider, const char *address, int fd);

#endif

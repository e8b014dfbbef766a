/* raw.h - the yardstick: a raw TCP stream, one connection, 1 MiB writes, 1 MiB reads into one buffer, no pass over the
 * bytes. */
#ifndef WEFT_BENCH_RAW_H
#define WEFT_BENCH_RAW_H

#include <stdint.h>

/* A listening socket on `host` (IPv4), and its port. */
int bench_raw_listen(const char *host, uint16_t *port);
int bench_raw_accept(int listen_fd);
int bench_raw_dial(const char *host, uint16_t port);
/* Waits for the other side's start and sends; `data` has at least 1 MiB, which is sent over and over. */
void bench_raw_give(int fd, const void *data, uint64_t bytes);
/* Says start and takes. */
void bench_raw_take(int fd, uint64_t bytes);

#endif

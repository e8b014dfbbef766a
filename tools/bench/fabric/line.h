/* line.h - the line between the two ends of a measurement, by which orders go: a TCP connection, on which both ends
 * prove who they are where the site has [security] mode = tls. The raw yardstick goes by the same socket without tls,
 * because the fabrics that are measured carry their bytes so.
 *
 * Calls block, each within WEFT_BENCH_STALL_MS, and their errors are quiet. */
#ifndef WEFT_BENCH_FABRIC_LINE_H
#define WEFT_BENCH_FABRIC_LINE_H

#include "port/port_provider.h"
#include "security/seal.h"

#define WEFT_BENCH_DEPTH_MAX 16u
#define WEFT_BENCH_CHUNK_MAX (UINT64_C(4) << 20)
#define WEFT_BENCH_SPAN      (WEFT_BENCH_DEPTH_MAX * WEFT_BENCH_CHUNK_MAX) /* each direction */
#define WEFT_BENCH_STALL_MS  60000                                         /* without any progress */
#define WEFT_BENCH_WRITES    4096u                                         /* of one order at most */

typedef enum weft_bench_order {
    WEFT_BENCH_HELLO = 1,  /* address, region: what writes are aimed at */
    WEFT_BENCH_ECHO,       /* `count` writes of `bytes`: each is answered by one of the same */
    WEFT_BENCH_ECHO_WOKEN, /* the same, asleep until it comes */
    WEFT_BENCH_TAKE,       /* `count` writes come: answered by DONE when all have arrived */
    WEFT_BENCH_RAW_ECHO,   /* `count` times `bytes` over the socket, each sent back */
    WEFT_BENCH_RAW_TAKE,   /* `bytes` over the socket, answered by DONE */
    WEFT_BENCH_SPIN, /* wants a processor for `count` ms: DONE says in `address` how many ns it did, in `key` had it */
    WEFT_BENCH_DONE,
    WEFT_BENCH_FAILED, /* `text` says why */
    WEFT_BENCH_END
} weft_bench_order;

/* A message over the line, always whole; checked where it is read. */
typedef struct weft_bench_message {
    uint32_t order;
    uint32_t length; /* of the address */
    uint64_t count, bytes;
    uint64_t address, key; /* of the region */
    uint8_t port[WEFT_PORT_ADDRESS_MAX];
    char text[400];
} weft_bench_message;

typedef struct weft_bench_line {
    int fd;                /* blocks; -1: none */
    const weft_site *site; /* the one that `guard` reads; NULL: none */
    weft_guard *guard;     /* who this end is; NULL: no proof is asked for */
    weft_seal *seal;       /* of the connection; NULL: plain */
} weft_bench_line;

/* Reads the files that this end proves its name with. `name` is the peer's; NULL: the trainer's. `site` must outlive
 * the line. Errors: those of weft_guard_open. */
weft_status weft_bench_line_open(weft_bench_line *line, const weft_site *site, const char *name);
/* Closes the connection; another may follow. */
void weft_bench_line_hang_up(weft_bench_line *line);
void weft_bench_line_close(weft_bench_line *line);

/* Takes over a connection that this end dialed, and says that it is here. Errors: WEFT_E_CONFIG (one end does not take
 * the other's proof), WEFT_E_PEER_LOST, WEFT_E_TIMEOUT. The line has no connection then. */
weft_status weft_bench_line_join(weft_bench_line *line, int fd);
/* Takes over a connection that was accepted, from an end that must be `peer` and say so within the site's
 * guest_deadline. Errors: as before; that end is told why, as far as it can be. */
weft_status weft_bench_line_admit(weft_bench_line *line, int fd, const char *peer);

/* True if something came, within `milliseconds`. */
bool weft_bench_line_has_word(const weft_bench_line *line, int milliseconds);
weft_status weft_bench_line_give(weft_bench_line *line, const void *data, uint64_t bytes);
weft_status weft_bench_line_take(weft_bench_line *line, void *data, uint64_t bytes);
weft_status weft_bench_say(weft_bench_line *line, const weft_bench_message *message);
/* The next message; a FAILED one is the error that it tells. */
weft_status weft_bench_hear(weft_bench_line *line, weft_bench_message *message);
/* Tells the other end this thread's last error, which stays the last one. */
void weft_bench_say_failed(weft_bench_line *line);

#endif

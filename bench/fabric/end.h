/* end.h - one end of a fabric that is measured: a link, a port both ways and memory to write into, and a plain TCP
 * connection to the other end for orders, which is also the yardstick.
 *
 * It stands beneath weft.h: what sessions add is measured by the other programs of bench/. */
#ifndef WEFT_BENCH_FABRIC_END_H
#define WEFT_BENCH_FABRIC_END_H

#include "port/port_provider.h"

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
    WEFT_BENCH_RAW_ECHO,   /* `count` times `bytes` over the connection, each sent back */
    WEFT_BENCH_RAW_TAKE,   /* `bytes` over the connection, answered by DONE */
    WEFT_BENCH_SPIN, /* wants a processor for `count` ms: DONE says in `address` how many ns it did, in `key` had it */
    WEFT_BENCH_DONE,
    WEFT_BENCH_FAILED, /* `text` says why */
    WEFT_BENCH_END
} weft_bench_order;

/* A message over the connection, always whole; checked where it is read. */
typedef struct weft_bench_message {
    uint32_t order;
    uint32_t length; /* of the address */
    uint64_t count, bytes;
    uint64_t address, key; /* of the region */
    uint8_t port[WEFT_PORT_ADDRESS_MAX];
    char text[400];
} weft_bench_message;

typedef struct weft_bench_end {
    const weft_provider *provider;
    weft_link *link;
    weft_link_facts facts;
    weft_port *port;
    weft_region *from, *to;
    uint8_t *out, *in; /* WEFT_BENCH_SPAN bytes each */
    uint64_t remote_address, remote_key;
    int fd;               /* the connection; not closed here */
    uint32_t under_way;   /* writes of this end */
    uint64_t arrived;     /* writes of the other end, all so far */
    uint64_t progress_ns; /* when something last happened */
} weft_bench_end;

/* Opens all and exchanges addresses with the other end. `link`: as a session asks for it, but for what is measured: the
 * sizes and numbers of writes. Its queue has room for all writes of an order, since nothing but the order bounds what
 * comes before this end reads. `waits`: opens only when the other end has. Errors: the provider's, and
 * WEFT_E_UNREACHABLE with what the other end said. */
weft_status weft_bench_end_open(weft_bench_end *end, const char *provider, const weft_link_options *link, int fd,
                                bool waits);
void weft_bench_end_close(weft_bench_end *end);

/* Posts one write of the `number`-th piece of `bytes`; WEFT_AGAIN: not now. */
weft_status weft_bench_end_post(weft_bench_end *end, uint64_t number, uint64_t bytes);
/* Polls once; `asleep`: waits as a session does where nothing came. Errors: the write's, WEFT_E_TIMEOUT. */
weft_status weft_bench_end_step(weft_bench_end *end, bool asleep);

/* ---- the connection: blocking, bounded by WEFT_BENCH_STALL_MS */
weft_status weft_bench_say(int fd, const weft_bench_message *message);
/* The next message; a FAILED one is the error that it tells. */
weft_status weft_bench_hear(int fd, weft_bench_message *message);
weft_status weft_bench_give_bytes(int fd, const void *data, uint64_t bytes);
weft_status weft_bench_take_bytes(int fd, void *data, uint64_t bytes);

#endif

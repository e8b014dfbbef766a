/* end.h - one end of a fabric that is measured: a link, a port both ways and memory to write into, and the line to the
 * other end.
 *
 * It stands beneath weft.h: what sessions add is measured by the other programs of bench/. */
#ifndef WEFT_BENCH_FABRIC_END_H
#define WEFT_BENCH_FABRIC_END_H

#include "tools/bench/fabric/line.h"

typedef struct weft_bench_end {
    const weft_provider *provider;
    weft_link *link;
    weft_link_facts facts;
    weft_port *port;
    weft_region *from, *to;
    uint8_t *out, *in; /* WEFT_BENCH_SPAN bytes each */
    uint64_t remote_address, remote_key;
    weft_bench_line *line; /* not closed here */
    uint32_t under_way;    /* writes of this end */
    uint64_t arrived;      /* writes of the other end, all so far */
    uint64_t progress_ns;  /* when something last happened */
} weft_bench_end;

/* Opens all and exchanges addresses with the other end. `link`: as a session asks for it, but for what is measured: the
 * sizes and numbers of writes. Its queue has room for all writes of an order, since nothing but the order bounds what
 * comes before this end reads. `waits`: opens only when the other end has. Errors: the provider's, and
 * WEFT_E_UNREACHABLE with what the other end said. */
weft_status weft_bench_end_open(weft_bench_end *end, const char *provider, const weft_link_options *link,
                                weft_bench_line *line, bool waits);
void weft_bench_end_close(weft_bench_end *end);

/* Posts one write of the `number`-th piece of `bytes`; WEFT_AGAIN: not now. */
weft_status weft_bench_end_post(weft_bench_end *end, uint64_t number, uint64_t bytes);
/* Polls once; `asleep`: waits as a session does where nothing came. Errors: the write's, WEFT_E_TIMEOUT. */
weft_status weft_bench_end_step(weft_bench_end *end, bool asleep);

#endif

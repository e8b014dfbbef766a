/* stream.h - provider stream: buckets go over connections that a rollout makes to the port which it joins by, so that
 * one outbound port is enough. Core makes those connections, and gives them to the ports as pipes. */
#ifndef WEFT_PROVIDERS_STREAM_H
#define WEFT_PROVIDERS_STREAM_H

#include "port/port_pipe.h"

#define WEFT_STREAM_ADDRESS 24u /* bytes of a port's address: its mark, and 16 random bytes that nobody can guess */

/* Bytes that the ports of a link move in a turn, in each direction, because a message waits as long as the session is
 * busy with them; and the least that one port moves, which is a record of tls. */
#define WEFT_STREAM_TURN       (UINT64_C(1) << 20)
#define WEFT_STREAM_TURN_LEAST (UINT64_C(16) << 10)

struct weft_link {
    uint64_t chunk_bytes;
    uint32_t depth;
    uint32_t ports; /* open ones */
    uint32_t busy;  /* those of them with writes that still leave */
};

struct weft_region {
    weft_port *port; /* port by which writes land in the memory; NULL: local memory */
    uint8_t *memory;
    uint64_t bytes;
};

/* A write that was taken. The ring of a port has those that still leave, and those that left and were not reported. */
typedef struct weft_stream_write {
    uint8_t head[WEFT_PIPE_HEAD];
    const uint8_t *data;
    uint64_t bytes;
    uint64_t cookie;
} weft_stream_write;

struct weft_port {
    weft_link *link;
    uint8_t address[WEFT_STREAM_ADDRESS];
    bool connected;
    weft_pipe *pipe;  /* NULL: the connection was not made yet */
    int fd;           /* epoll descriptor, which has the pipe's descriptor in it */
    uint32_t watched; /* events that the epoll descriptor waits for */

    weft_stream_write *ring;
    uint32_t first, left, leaving; /* oldest not reported; how many left since; how many leave still */
    uint64_t sent;                 /* bytes of the oldest that leaves, its head among them */
    uint64_t room;                 /* bytes that may leave before the next poll */
    bool full;                     /* the pipe took no more */
    bool refused;                  /* a write found no room, and its caller waits for some */

    weft_region *region; /* memory that the other end writes to; NULL: none */
    uint8_t head[WEFT_PIPE_HEAD];
    uint64_t came; /* bytes of the chunk that comes, its head among them */
    weft_pipe_chunk chunk;

    weft_status broken; /* reason why the port ended; WEFT_OK: it did not */
    bool told;          /* the end was reported */
};

/* stream_flow.c: the slots that move bytes. */
weft_status weft_stream_send(weft_port *port, const weft_write *write);
size_t weft_stream_poll(weft_port *port, weft_completion *completions, size_t capacity);
int weft_stream_wait_fd(const weft_port *port);
weft_status weft_stream_wait_arm(weft_port *port);

/* Writes one line of what the provider is into `text`; returns the line's name, NULL past the last line. */
const char *weft_stream_line(size_t line, char *text, size_t capacity);

#endif

/* port_pipe.h - a pipe is a connection that core has made and a provider moves bytes by: both ends are known, and
 * nothing of the handshake is left in it.
 *
 * The ports of a provider with WEFT_PROVIDER_PIPED reach each other by pipes. What goes by them are chunks: a head of
 * WEFT_PIPE_HEAD bytes, and the bytes that it announces (docs/WIRE_FORMAT.md, Ducts). */
#ifndef WEFT_CORE_PORT_PIPE_H
#define WEFT_CORE_PORT_PIPE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "port/port_provider.h"

#define WEFT_PIPE_HEAD  24u /* u32 bytes after the prefix, u16 type, u16 zero | u32 immediate, u32 zero, u64 offset */
#define WEFT_PIPE_CHUNK 29u /* type of message in a head */

typedef struct weft_pipe_calls {
    /* Move what can be moved now, `moved` bytes, 0 included. Errors, all quiet: WEFT_E_PEER_LOST, or why there is no
     * such connection. */
    weft_status (*read)(weft_pipe *pipe, void *data, uint64_t bytes, uint64_t *moved);
    weft_status (*write)(weft_pipe *pipe, const void *data, uint64_t bytes, uint64_t *moved);
    bool (*has_more)(const weft_pipe *pipe);    /* bytes that came wait where the descriptor does not show them */
    bool (*wants_write)(const weft_pipe *pipe); /* the pipe itself waits until its descriptor takes more */
    void (*close)(weft_pipe *pipe);
} weft_pipe_calls;

struct weft_pipe {
    const weft_pipe_calls *calls;
    int fd; /* descriptor to wait on */
};

typedef struct weft_pipe_chunk {
    uint64_t bytes;
    uint32_t immediate;
    uint64_t offset; /* of the bytes in the registered memory */
} weft_pipe_chunk;

static inline void weft_pipe_put_head(uint8_t head[WEFT_PIPE_HEAD], const weft_pipe_chunk *chunk)
{
    weft_bytes_put(head, WEFT_PIPE_HEAD - 8 + chunk->bytes, 4);
    weft_bytes_put(head + 4, WEFT_PIPE_CHUNK, 2);
    weft_bytes_put(head + 6, 0, 2);
    weft_bytes_put(head + 8, chunk->immediate, 4);
    weft_bytes_put(head + 12, 0, 4);
    weft_bytes_put(head + 16, chunk->offset, 8);
}

/* Reads a head of bytes for `room` bytes of memory. False: it announces no chunk that lies within the memory. */
static inline bool weft_pipe_get_head(const uint8_t head[WEFT_PIPE_HEAD], uint64_t room, weft_pipe_chunk *chunk)
{
    const uint64_t length = weft_bytes_get(head, 4);
    if (length <= WEFT_PIPE_HEAD - 8 || weft_bytes_get(head + 4, 4) != WEFT_PIPE_CHUNK || weft_bytes_get(head + 12, 4))
        return false;
    chunk->bytes = length - (WEFT_PIPE_HEAD - 8);
    chunk->immediate = (uint32_t)weft_bytes_get(head + 8, 4);
    chunk->offset = weft_bytes_get(head + 16, 8);
    return chunk->offset <= room && chunk->bytes <= room - chunk->offset;
}

#endif

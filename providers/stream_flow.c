/* stream_flow.c - what goes by the pipe of a port: chunks that leave, chunks that land, and the sleep until either can
 * go on. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/status.h"
#include "providers/stream.h"

/* The share that one of so many ports has of a turn, in bytes of chunks beside their heads: a chunk of a MiB is then
 * one turn, and leaves no rest for the next. */
static uint64_t share_of(uint32_t ports)
{
    const uint64_t share = WEFT_STREAM_TURN / (ports ? ports : 1);
    return share > WEFT_STREAM_TURN_LEAST ? share : WEFT_STREAM_TURN_LEAST;
}

static void break_port(weft_port *port, weft_status why)
{
    if (port->broken == WEFT_OK)
        port->broken = why;
}

/* ---- chunks that leave */

/* Writes a part of the oldest write. An unfinished record of tls wants its bytes again, and at least as many: it is the
 * first of the next turn, whose room is no less than a record. */
static void push(weft_port *port, const weft_stream_write *write)
{
    const bool head = port->sent < WEFT_PIPE_HEAD;
    const uint8_t *from = head ? write->head + port->sent : write->data + (port->sent - WEFT_PIPE_HEAD);
    const uint64_t bytes = (head ? WEFT_PIPE_HEAD : WEFT_PIPE_HEAD + write->bytes) - port->sent;
    uint64_t moved = 0;
    const uint64_t most = head || bytes < port->room ? bytes : port->room;
    weft_status status = port->pipe->calls->write(port->pipe, from, most, &moved);
    if (status != WEFT_OK)
        break_port(port, status);
    port->sent += moved;
    port->room -= head ? 0 : moved;
    port->full = moved == 0;
}

static void send_some(weft_port *port)
{
    port->full = false;
    while (port->pipe && port->broken == WEFT_OK && port->leaving > 0 && port->room > 0 && !port->full) {
        const weft_stream_write *write = &port->ring[(port->first + port->left) % port->link->depth];
        push(port, write);
        if (port->sent < WEFT_PIPE_HEAD + write->bytes)
            continue;
        port->sent = 0;
        port->left++;
        if (--port->leaving == 0)
            port->link->busy--;
    }
}

weft_status weft_stream_send(weft_port *port, const weft_write *write)
{
    if (!port->connected || !write->bytes || write->bytes > port->link->chunk_bytes)
        return weft_fail(WEFT_E_ARGUMENT, "provider stream: a write of %llu bytes; 1 to %llu fit, on a connected port",
                         (unsigned long long)write->bytes, (unsigned long long)port->link->chunk_bytes);
    if (port->broken != WEFT_OK)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "provider stream: the connection of the port has ended");
    port->refused = !port->pipe || port->left + port->leaving == port->link->depth;
    if (port->refused)
        return WEFT_AGAIN;
    weft_stream_write *taken = &port->ring[(port->first + port->left + port->leaving) % port->link->depth];
    const weft_pipe_chunk chunk = {write->bytes, write->immediate, write->remote_address};
    weft_pipe_put_head(taken->head, &chunk);
    taken->data = write->data;
    taken->bytes = write->bytes;
    taken->cookie = write->cookie;
    if (port->leaving++ > 0)
        return WEFT_OK;
    port->link->busy++;
    send_some(port);
    return WEFT_OK;
}

/* ---- chunks that land */

/* The next bytes that are due, and where they belong: the head's, or those of its chunk in registered memory. */
static uint8_t *place(weft_port *port, uint64_t *bytes)
{
    if (port->came < WEFT_PIPE_HEAD) {
        *bytes = WEFT_PIPE_HEAD - port->came;
        return port->head + port->came;
    }
    *bytes = WEFT_PIPE_HEAD + port->chunk.bytes - port->came;
    return port->region->memory + port->chunk.offset + (port->came - WEFT_PIPE_HEAD);
}

static void read_head(weft_port *port)
{
    if (port->came != WEFT_PIPE_HEAD ||
        weft_pipe_get_head(port->head, port->region ? port->region->bytes : 0, &port->chunk))
        return;
    break_port(port, weft_fail_quiet(WEFT_E_PEER_LOST, "provider stream: what came is no chunk for this port"));
}

/* Takes what came of one chunk; true if that was its end. `*room` is what may still be read in this turn. */
static bool land(weft_port *port, uint64_t *room)
{
    uint64_t moved = 1;
    while (port->broken == WEFT_OK && moved > 0 && *room > 0) {
        uint64_t bytes;
        uint8_t *to = place(port, &bytes);
        const bool head = port->came < WEFT_PIPE_HEAD;
        const uint64_t most = head || bytes < *room ? bytes : *room;
        weft_status status = port->pipe->calls->read(port->pipe, to, most, &moved);
        port->came += moved;
        *room -= head ? 0 : moved;
        if (moved > 0)
            read_head(port);
        if (status != WEFT_OK)
            break_port(port, status);
        if (port->came > WEFT_PIPE_HEAD && port->came == WEFT_PIPE_HEAD + port->chunk.bytes)
            return true;
    }
    return false;
}

/* ---- poll and sleep */

size_t weft_stream_poll(weft_port *port, weft_completion *completions, size_t capacity)
{
    size_t count = 0;
    uint64_t room = share_of(port->link->ports);
    port->room = share_of(port->link->busy);
    send_some(port);
    for (; count < capacity && port->left > 0; port->left--) {
        completions[count++] =
            (weft_completion){.kind = WEFT_COMPLETION_WRITTEN, .cookie = port->ring[port->first].cookie};
        port->first = (port->first + 1) % port->link->depth;
    }
    while (port->pipe && count < capacity && land(port, &room)) {
        port->came = 0;
        completions[count++] = (weft_completion){.kind = WEFT_COMPLETION_ARRIVED, .immediate = port->chunk.immediate};
    }
    if (port->broken != WEFT_OK && !port->told && count < capacity) {
        port->told = true;
        completions[count++] =
            (weft_completion){.kind = WEFT_COMPLETION_FAILED, .status = port->broken, .cookie = UINT64_MAX};
    }
    return count;
}

int weft_stream_wait_fd(const weft_port *port)
{
    return port->fd;
}

weft_status weft_stream_wait_arm(weft_port *port)
{
    if (port->left > 0 || (port->broken != WEFT_OK && !port->told))
        return WEFT_AGAIN;
    if (!port->pipe || port->broken != WEFT_OK)
        return WEFT_OK;
    if ((port->leaving > 0 && !port->full) || port->pipe->calls->has_more(port->pipe))
        return WEFT_AGAIN;
    const bool writes = port->leaving > 0 || port->refused || port->pipe->calls->wants_write(port->pipe);
    struct epoll_event wanted = {.events = EPOLLIN | (writes ? EPOLLOUT : 0u)};
    if (wanted.events == port->watched)
        return WEFT_OK;
    if (epoll_ctl(port->fd, EPOLL_CTL_MOD, port->pipe->fd, &wanted) != 0)
        return weft_fail(WEFT_E_SYSTEM, "provider stream: epoll: %s", strerror(errno));
    port->watched = wanted.events;
    return WEFT_OK;
}

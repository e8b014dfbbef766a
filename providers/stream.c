/* stream.c - the table of provider stream: links without an address, and ports that find each other by one that is
 * random. */
#include "providers/stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* as tcp: loopback gains nothing above */
#define CHUNK_MAX   (UINT64_C(1) << 30)
#define DEPTH       8u /* a socket takes the next chunk while one leaves */
#define DEPTH_MAX   1024u
#define DESCRIPTORS 2u /* a socket, and a descriptor to wait on before there is one */

static const uint8_t mark[8] = {'w', 'f', 's', 't', 'r', 'm', '1', 0};

static size_t stream_probe(weft_provider_info *list, size_t capacity)
{
    if (capacity) {
        memset(list, 0, sizeof *list);
        snprintf(list->provider, sizeof list->provider, "stream");
        snprintf(list->fabric, sizeof list->fabric, "stream");
        snprintf(list->detail, sizeof list->detail,
                 "%u writes in flight per peer; by connections that the rollout makes to the port it joins by", DEPTH);
        list->message_bytes = CHUNK_BYTES;
        list->usable = 1;
    }
    return 1;
}

const char *weft_stream_line(size_t line, char *text, size_t capacity)
{
    static const struct {
        const char *name, *value;
    } lines[] = {
        {"libfabric", "none"},
        {"address", "ignored: both ends have the port that the rollout joins by"},
        {"dialled by",
         "the rollout, or the relay before it; nothing listens beside the trainer's port and the relays'"},
        {"secrecy", "that of [security] mode: under tls weights are secret too"},
        {"chunk", "1 MiB, at most 1 GiB"},
        {"depth", "8 writes under way, at most 1024"},
        {"wait", "on a descriptor"},
        {"completion", "a completed write may still be lost with the connection"},
        {"abort", "by closing the connection"},
    };
    if (line >= sizeof lines / sizeof lines[0])
        return NULL;
    snprintf(text, capacity, "%s", lines[line].value);
    return lines[line].name;
}

/* ---- links and regions */

static weft_status stream_link_open(const weft_link_options *options, weft_link **link)
{
    weft_link *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider stream: no memory for a link");
    const uint64_t chunk = options->chunk_bytes ? options->chunk_bytes : CHUNK_BYTES;
    const uint32_t depth = options->depth ? options->depth : DEPTH;
    opened->chunk_bytes = chunk < CHUNK_MAX ? chunk : CHUNK_MAX;
    opened->depth = depth < DEPTH_MAX ? depth : DEPTH_MAX;
    *link = opened;
    return WEFT_OK;
}

static void stream_link_close(weft_link *link)
{
    weft_mem_give(link);
}

static void stream_link_facts(const weft_link *link, weft_link_facts *facts)
{
    *facts = (weft_link_facts){.fabric = "stream",
                               .chunk_bytes = link->chunk_bytes,
                               .depth = link->depth,
                               .has_fd = true,
                               .descriptors = DESCRIPTORS};
}

/* Whether the port that is dialed can be reached shows when the rollout joins by it. */
static weft_status stream_link_here(const weft_link *link)
{
    (void)link;
    return WEFT_OK;
}

static weft_status stream_region_open(weft_link *link, weft_port *port, void *memory, uint64_t bytes, bool remote,
                                      weft_region **region)
{
    (void)link;
    if (remote && (!port || port->region))
        return weft_fail(WEFT_E_ARGUMENT, "provider stream: a port has one memory that is written to");
    weft_region *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider stream: no memory for a region");
    *opened = (weft_region){.port = remote ? port : NULL, .memory = memory, .bytes = bytes};
    if (remote)
        port->region = opened;
    *region = opened;
    return WEFT_OK;
}

static void stream_region_close(weft_region *region)
{
    weft_mem_give(region); /* the port that it was for is closed */
}

/* Writes name places in the memory. No key is needed, because a connection leads to one port. */
static void stream_region_remote(const weft_region *region, uint64_t *address, uint64_t *key)
{
    (void)region;
    *address = *key = 0;
}

/* ---- ports */

static void stream_port_close(weft_port *port)
{
    if (!port)
        return;
    if (port->pipe)
        port->pipe->calls->close(port->pipe);
    if (port->fd >= 0)
        close(port->fd);
    port->link->ports--;
    port->link->busy -= port->leaving > 0;
    weft_mem_give(port->ring);
    weft_mem_give(port);
}

static weft_status fill_port(weft_port *port)
{
    port->ring = weft_mem_take(port->link->depth, sizeof *port->ring);
    if (!port->ring)
        return weft_fail(WEFT_E_MEMORY, "provider stream: no memory for a port");
    port->fd = epoll_create1(EPOLL_CLOEXEC);
    if (port->fd < 0)
        return weft_fail(WEFT_E_SYSTEM, "provider stream: epoll: %s", strerror(errno));
    memcpy(port->address, mark, sizeof mark);
    const size_t random = sizeof port->address - sizeof mark;
    if (getrandom(port->address + sizeof mark, random, 0) != (ssize_t)random)
        return weft_fail(WEFT_E_SYSTEM, "provider stream: getrandom: %s", strerror(errno));
    return WEFT_OK;
}

static weft_status stream_port_open(weft_link *link, weft_port **port)
{
    weft_port *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider stream: no memory for a port");
    opened->link = link;
    opened->link->ports++;
    opened->fd = -1;
    weft_status status = fill_port(opened);
    if (status == WEFT_OK)
        *port = opened;
    else
        stream_port_close(opened);
    return status;
}

static weft_status stream_port_address(const weft_port *port, uint8_t *address, uint32_t *length)
{
    memcpy(address, port->address, sizeof port->address);
    *length = sizeof port->address;
    return WEFT_OK;
}

static weft_status stream_port_connect(weft_port *port, const uint8_t *address, uint32_t length)
{
    if (length != WEFT_STREAM_ADDRESS || memcmp(address, mark, sizeof mark) != 0)
        return weft_fail(WEFT_E_PROTOCOL, "provider stream: the other end's port has no address of this provider");
    port->connected = true;
    return WEFT_OK;
}

static weft_status stream_port_pipe(weft_port *port, weft_pipe *pipe)
{
    struct epoll_event wanted = {.events = EPOLLIN};
    if (!port->connected || port->pipe)
        return weft_fail(WEFT_E_ARGUMENT, "provider stream: a port takes one connection, after it knows the other end");
    if (epoll_ctl(port->fd, EPOLL_CTL_ADD, pipe->fd, &wanted) != 0)
        return weft_fail(WEFT_E_SYSTEM, "provider stream: epoll: %s", strerror(errno));
    port->watched = wanted.events;
    port->pipe = pipe;
    return WEFT_OK;
}

const weft_provider weft_provider_stream = {.abi = WEFT_PROVIDER_ABI,
                                            .name = "stream",
                                            .caps = WEFT_PROVIDER_PIPED,
                                            .probe = stream_probe,
                                            .link_open = stream_link_open,
                                            .link_close = stream_link_close,
                                            .link_facts = stream_link_facts,
                                            .link_here = stream_link_here,
                                            .region_open = stream_region_open,
                                            .region_close = stream_region_close,
                                            .region_remote = stream_region_remote,
                                            .port_open = stream_port_open,
                                            .port_close = stream_port_close,
                                            .port_address = stream_port_address,
                                            .port_connect = stream_port_connect,
                                            .port_pipe = stream_port_pipe,
                                            .write = weft_stream_send,
                                            .poll = weft_stream_poll,
                                            .wait_fd = weft_stream_wait_fd,
                                            .wait_arm = weft_stream_wait_arm};

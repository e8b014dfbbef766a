/* fabric_port.c - one endpoint with its own completion queue and address vector, so that closing it ends all it had
 * under way and nothing of it is reported later: fi_cancel and fi_av_remove promise that and do nothing. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

weft_status weft_fabric_port_refuse(const weft_port *port, const char *call, int error)
{
    return weft_fail(WEFT_E_PROVIDER, "provider %s: %s: %s", port->link->profile->name, call,
                     weft_fabric_call_strerror(-error));
}

static weft_status take_operations(weft_port *port)
{
    port->operations = weft_mem_take(port->link->depth, sizeof *port->operations);
    if (!port->operations)
        return weft_fail(WEFT_E_MEMORY, "provider %s: no memory for %u operations", port->link->profile->name,
                         port->link->depth);
    for (uint32_t i = 0; i < port->link->depth; i++) {
        port->operations[i].next = port->free;
        port->free = &port->operations[i];
    }
    return WEFT_OK;
}

static weft_status open_queue(weft_port *port)
{
    int error = weft_fabric_queue(port->link, port->link->has_fd, &port->cq);
    if (error)
        return weft_fabric_port_refuse(port, "fi_cq_open", error);
    if (port->link->has_fd && (error = fi_control(&port->cq->fid, FI_GETWAIT, &port->fd)) != 0)
        return weft_fabric_port_refuse(port, "fi_control(FI_GETWAIT)", error);
    return WEFT_OK;
}

static weft_status open_vector(weft_port *port)
{
    const weft_link *link = port->link;
    struct fi_av_attr av = {.type = link->info->domain_attr->av_type, .count = 1};
    if (av.type == FI_AV_UNSPEC)
        av.type = FI_AV_TABLE;
    int error = fi_av_open(link->domain, &av, &port->av, NULL);
    return error ? weft_fabric_port_refuse(port, "fi_av_open", error) : WEFT_OK;
}

/* *in_use says that the address is taken, which is no error yet where there are more to try. */
static weft_status open_endpoint(weft_port *port, bool *in_use)
{
    weft_link *link = port->link;
    int error;
    *in_use = false;
    error = fi_endpoint(link->domain, link->info, &port->ep, NULL);
    *in_use = error == -FI_EADDRINUSE;
    if (error)
        return *in_use ? WEFT_OK : weft_fabric_port_refuse(port, "fi_endpoint", error);
    if ((error = fi_ep_bind(port->ep, &port->av->fid, 0)) != 0)
        return weft_fabric_port_refuse(port, "fi_ep_bind(av)", error);
    if ((error = fi_ep_bind(port->ep, &port->cq->fid, FI_TRANSMIT | FI_RECV)) != 0)
        return weft_fabric_port_refuse(port, "fi_ep_bind(cq)", error);
    weft_fabric_options_set(port->link, port->ep);
    error = fi_enable(port->ep);
    *in_use = error == -FI_EADDRINUSE;
    if (error && !*in_use)
        return weft_fabric_port_refuse(port, "fi_enable", error);
    if (*in_use)
        return WEFT_OK;
    weft_fabric_options_read(link, port->ep);
    return WEFT_OK;
}

static void set_source_port(const weft_link *link, uint32_t number)
{
    struct sockaddr *source = link->info->src_addr;
    in_port_t value = htons((uint16_t)number);
    size_t at = source->sa_family == AF_INET6 ? offsetof(struct sockaddr_in6, sin6_port)
                                              : offsetof(struct sockaddr_in, sin_port);
    memcpy((uint8_t *)source + at, &value, sizeof value);
}

/* libfabric's own range of ports is one for the process and read once: each port of the link's range is tried. */
static weft_status open_in_range(weft_port *port)
{
    const weft_link *link = port->link;
    for (uint32_t number = link->port_low; number <= link->port_high; number++) {
        bool in_use;
        set_source_port(link, number);
        weft_status status = open_endpoint(port, &in_use);
        if (status != WEFT_OK || !in_use)
            return status;
        if (port->ep)
            fi_close(&port->ep->fid);
        port->ep = NULL;
    }
    return weft_fail(
        WEFT_E_PROVIDER,
        "provider %s: every port of %u-%u on %s is taken; widen [provider.%s] ports (one for each peer and "
        "stream here), or end what holds them",
        link->profile->name, link->port_low, link->port_high, link->address, link->profile->name);
}

static weft_status open_anywhere(weft_port *port)
{
    bool in_use;
    weft_status status = open_endpoint(port, &in_use);
    return status == WEFT_OK && in_use ? weft_fabric_port_refuse(port, "fi_enable", -FI_EADDRINUSE) : status;
}

/* The proof that the provider took the address that was asked for. */
static weft_status check_source(const weft_port *port)
{
    union {
        struct sockaddr any;
        uint8_t bytes[WEFT_PORT_ADDRESS_MAX];
    } own = {.bytes = {0}};
    char numeric[WEFT_INTERFACE_TEXT];
    uint32_t length = 0;
    if (!port->link->address[0])
        return WEFT_OK;
    weft_status status = weft_fabric_port_address(port, own.bytes, &length);
    if (status != WEFT_OK)
        return status;
    if (weft_interface_text(&own.any, numeric) && strcmp(numeric, port->link->address) == 0)
        return WEFT_OK;
    return weft_fail(WEFT_E_PROVIDER, "provider %s: asked for address %s, libfabric took another one",
                     port->link->profile->name, port->link->address);
}

weft_status weft_fabric_port_open(weft_link *link, weft_port **port)
{
    weft_port *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider %s: no memory for a port", link->profile->name);
    opened->link = link;
    opened->fd = -1;
    opened->peer = FI_ADDR_UNSPEC;
    weft_status status = take_operations(opened);
    if (status == WEFT_OK)
        status = open_queue(opened);
    if (status == WEFT_OK)
        status = open_vector(opened);
    if (status == WEFT_OK)
        status = link->port_low ? open_in_range(opened) : open_anywhere(opened);
    if (status == WEFT_OK)
        status = check_source(opened);
    if (status == WEFT_OK && link->only_writes)
        weft_fabric_listener_fence(opened);
    if (status != WEFT_OK)
        weft_fabric_port_close(opened);
    else
        *port = opened;
    return status;
}

static bool close_part(const weft_port *port, struct fid *part, const char *what)
{
    int error = part ? fi_close(part) : 0;
    if (error)
        weft_log(WEFT_LOG_WARN, "provider %s: %s stays open: %s", port->link->profile->name, what,
                 weft_fabric_call_strerror(-error));
    return !error;
}

void weft_fabric_port_close(weft_port *port)
{
    if (!port)
        return;
    weft_fabric_listener_shut(port);
    /* One that stays open may yet write to its operations: they stay too, and all that it is bound to. */
    if (!close_part(port, port->ep ? &port->ep->fid : NULL, "an endpoint"))
        return;
    close_part(port, port->cq ? &port->cq->fid : NULL, "a completion queue");
    close_part(port, port->av ? &port->av->fid : NULL, "an address vector");
    weft_mem_give(port->operations);
    weft_mem_give(port);
}

weft_status weft_fabric_port_address(const weft_port *port, uint8_t *address, uint32_t *length)
{
    size_t bytes = WEFT_PORT_ADDRESS_MAX;
    int error = fi_getname(&port->ep->fid, address, &bytes);
    if (error)
        return weft_fabric_port_refuse(port, "fi_getname", error);
    *length = (uint32_t)bytes;
    return WEFT_OK;
}

/* The other end's bytes reach libfabric only if they have the form of this end's own address. */
static bool is_address(const weft_port *port, const uint8_t *address, uint32_t length)
{
    uint8_t own[WEFT_PORT_ADDRESS_MAX];
    uint32_t own_length = 0;
    if (!length || length > WEFT_PORT_ADDRESS_MAX)
        return false;
    if (port->link->info->addr_format == FI_ADDR_STR)
        return memchr(address, 0, length) == address + length - 1;
    if (weft_fabric_port_address(port, own, &own_length) != WEFT_OK || length != own_length)
        return false;
    return port->link->profile->addressing != WEFT_ADDRESS_SOURCE || memcmp(address, own, sizeof(sa_family_t)) == 0;
}

/* IP addresses may have the right form, but nothing leads from one family to the other. */
static bool is_other_family(const weft_port *port, const uint8_t *address, uint32_t length)
{
    sa_family_t family;
    if (port->link->profile->addressing != WEFT_ADDRESS_SOURCE || length < sizeof(struct sockaddr_in))
        return false;
    memcpy(&family, address, sizeof family);
    return length == (family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)) &&
           (family == AF_INET || family == AF_INET6) &&
           (family == AF_INET6) != (strchr(port->link->address, ':') != NULL);
}

weft_status weft_fabric_port_connect(weft_port *port, const uint8_t *address, uint32_t length)
{
    const char *name = port->link->profile->name;
    uint8_t room[WEFT_PORT_ADDRESS_MAX] __attribute__((aligned(16))) = {0};
    size_t text = sizeof port->peer_text;
    if (is_other_family(port, address, length))
        return weft_fail(
            WEFT_E_UNREACHABLE,
            "provider %s: one end's fabric address is IPv4, the other's IPv6; name addresses of one family "
            "in [trainer] address and [peer.NAME] address (this end has %s)",
            name, port->link->address);
    if (!is_address(port, address, length))
        return weft_fail(WEFT_E_PROTOCOL, "provider %s: %u bytes that are no address of this provider", name, length);
    if (port->peer != FI_ADDR_UNSPEC)
        return weft_fail(WEFT_E_STATE, "provider %s: the port is connected to %s already", name, port->peer_text);
    memcpy(room, address, length);
    if (fi_av_insert(port->av, room, 1, &port->peer, 0, NULL) != 1) {
        port->peer = FI_ADDR_UNSPEC;
        return weft_fail(WEFT_E_UNREACHABLE, "provider %s: the peer's address cannot be used from here", name);
    }
    fi_av_straddr(port->av, room, port->peer_text, &text);
    port->peer_text[sizeof port->peer_text - 1] = '\0';
    return WEFT_OK;
}
#else
typedef int weft_fabric_port_is_absent;
#endif

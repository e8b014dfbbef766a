/* fabric_listener.c - the TCP listener that an endpoint of libfabric has, to which anybody may connect.
 *
 * libfabric (1.17, 2.1) takes every connection, and then waits for the first message of its own protocol. The endpoint
 * may be closed meanwhile: what comes or ends later on a connection that waits then reaches memory that is freed. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <dirent.h>
#include <linux/filter.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BATCH 16   /* completions read at once */
#define LOOKS 12   /* of libfabric's at a port that is closed */
#define BLIND 4096 /* descriptors looked at where /proc is not to be had */

typedef struct own_address {
    struct sockaddr_storage address;
    socklen_t length;
} own_address;

/* Does its part for a socket of the port: its listener, or what that took. */
typedef void weft_socket_act(int fd, bool listens);

static bool has_address(int fd, const own_address *own)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    memset(&address, 0, sizeof address);
    return getsockname(fd, (struct sockaddr *)&address, &length) == 0 && length == own->length &&
           memcmp(&address, &own->address, length) == 0;
}

/* Returns 1 for a connection that the port's listener took. */
static unsigned visit(int fd, const own_address *own, weft_socket_act *act)
{
    int listens = 0;
    socklen_t length = sizeof listens;
    if (!has_address(fd, own) || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0)
        return 0;
    act(fd, listens);
    return !listens;
}

/* libfabric shows none of its sockets; those of a port are known by its address, which no other socket has. Returns how
 * many connections the listener took. */
static unsigned visit_all(const weft_port *port, weft_socket_act *act)
{
    own_address own = {.length = 0};
    size_t length = sizeof own.address;
    unsigned taken = 0;
    if (!port->link->profile->listens || !port->ep || fi_getname(&port->ep->fid, &own.address, &length) != 0)
        return 0;
    own.length = (socklen_t)length;
    DIR *descriptors = opendir("/proc/self/fd");
    const struct dirent *item;
    for (int fd = 0; !descriptors && fd < BLIND; fd++)
        taken += visit(fd, &own, act);
    while (descriptors && (item = readdir(descriptors)))
        if (item->d_name[0] != '.')
            taken += visit(atoi(item->d_name), &own, act);
    if (descriptors)
        closedir(descriptors);
    return taken;
}

/* Takes from libfabric the connections that came before the filter. If the filter is refused, all stays as it was. */
static void fence(int fd, bool listens)
{
    struct sock_filter drop_all = {.code = BPF_RET | BPF_K, .k = 0};
    const struct sock_fprog program = {.len = 1, .filter = &drop_all};
    int stranger;
    if (!listens || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
        return;
    while ((stranger = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        close(stranger);
}

void weft_fabric_listener_fence(const weft_port *port)
{
    visit_all(port, fence);
}

static void shut(int fd, bool listens)
{
    (void)listens;
    shutdown(fd, SHUT_RDWR);
}

/* Each look sees 1024 connections at most; rxm looks at them every 10 ms. The one that carries data may stay until the
 * endpoint is closed, which ends it. */
void weft_fabric_listener_shut(weft_port *port)
{
    weft_completion unread[BATCH];
    unsigned left = port->broken ? 0 : visit_all(port, shut);
    for (int look = 0; left > 0 && look < LOOKS && (look < 2 || left > 1); look++) {
        while (weft_fabric_poll(port, unread, BATCH) > 0)
            ;
        if (look > 1)
            poll(NULL, 0, 2);
        left = visit_all(port, shut);
    }
}
#else
typedef int weft_fabric_listener_is_absent;
#endif

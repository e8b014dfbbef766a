#include "tools/bench/fabric/meet.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/status.h"
#include "wire/control.h"

#define HOST_TEXT 256

weft_status weft_bench_meet_listen(const char *address, int *listener, char bound[64])
{
    return weft_control_listen(address, listener, bound);
}

static weft_status name_of(const struct sockaddr_storage *at, socklen_t length, char *address, size_t capacity)
{
    if (getnameinfo((const struct sockaddr *)at, length, address, (socklen_t)capacity, NULL, 0, NI_NUMERICHOST) != 0)
        return weft_fail_quiet(WEFT_E_SYSTEM, "an end of the connection has no address");
    return WEFT_OK;
}

weft_status weft_bench_meet_local(int fd, char *address, size_t capacity)
{
    struct sockaddr_storage at = {0};
    socklen_t length = sizeof at;
    return name_of(&at, getsockname(fd, (struct sockaddr *)&at, &length) ? 0 : length, address, capacity);
}

weft_status weft_bench_meet_remote(int fd, char *address, size_t capacity)
{
    struct sockaddr_storage at = {0};
    socklen_t length = sizeof at;
    return name_of(&at, getpeername(fd, (struct sockaddr *)&at, &length) ? 0 : length, address, capacity);
}

static weft_status socket_ready(int fd)
{
    struct timeval bound = {.tv_sec = WEFT_BENCH_STALL_MS / 1000};
    int one = 1;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        return weft_fail_quiet(WEFT_E_SYSTEM, "the connection to the other end: %s", strerror(errno));
    return WEFT_OK;
}

static weft_status dial_numeric(const char *numeric, int *fd)
{
    char host[HOST_TEXT];
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *at = NULL;
    snprintf(host, sizeof host, "%s", numeric[0] == '[' ? numeric + 1 : numeric);
    char *port = strrchr(host, ':');
    if (!port)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s is no host:port", numeric);
    *port++ = '\0';
    if (numeric[0] == '[')
        host[strcspn(host, "]")] = '\0';
    if (getaddrinfo(host, port, &hints, &at) != 0)
        return weft_fail_quiet(WEFT_E_CONFIG, "%s is no host:port", numeric);
    *fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = *fd < 0 || connect(*fd, at->ai_addr, at->ai_addrlen) != 0;
    freeaddrinfo(at);
    if (!failed)
        return socket_ready(*fd);
    weft_fail_quiet(WEFT_E_UNREACHABLE, "%s: %s; is `weft bench fabric SITE.ini --serve` running there?", numeric,
                    strerror(errno));
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return WEFT_E_UNREACHABLE;
}

weft_status weft_bench_meet_dial(const char *address, int *fd)
{
    char numeric[WEFT_CONTROL_ADDRESSES][64];
    uint32_t count = 0;
    weft_status status = weft_control_resolve(address, numeric, &count);
    if (status != WEFT_OK)
        return status;
    status = WEFT_E_UNREACHABLE;
    for (uint32_t i = 0; i < count && status != WEFT_OK; i++)
        status = dial_numeric(numeric[i], fd);
    return status;
}

/* The other end is no more: its last words are why. */
static weft_status tell_end(int grave)
{
    char text[400];
    ssize_t length = read(grave, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    return weft_fail_quiet(WEFT_E_UNREACHABLE, "the other end ended before it came%s%s", *text ? ": " : "", text);
}

/* The listening socket does not block: waits for the one peer. */
weft_status weft_bench_meet_accept(int listener, int grave, int *fd)
{
    struct pollfd at[2] = {{.fd = listener, .events = POLLIN}, {.fd = grave, .events = POLLIN}};
    int ready;
    while ((ready = poll(at, 2, grave < 0 ? -1 : WEFT_BENCH_STALL_MS)) < 0)
        if (errno != EINTR)
            return weft_fail_quiet(WEFT_E_SYSTEM, "poll: %s", strerror(errno));
    if (!ready)
        return weft_fail_quiet(WEFT_E_UNREACHABLE, "the other end did not come in %d ms", WEFT_BENCH_STALL_MS);
    if (!at[0].revents)
        return tell_end(grave);
    *fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (*fd < 0)
        return weft_fail_quiet(WEFT_E_SYSTEM, "accept: %s", strerror(errno));
    return socket_ready(*fd);
}

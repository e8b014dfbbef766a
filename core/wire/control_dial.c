/* control_dial.c - addresses: to resolve, to dial, to adopt and to listen at. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/status.h"
#include "site/site_text.h"
#include "wire/control.h"

/* Errors of getaddrinfo that may pass, because a name is often registered only once its host is up. */
static bool is_unknown_yet(int error)
{
    return error == EAI_AGAIN || error == EAI_NONAME || error == EAI_NODATA || error == EAI_ADDRFAMILY;
}

/* True if this process or host lacks something, so that the error says nothing about the other end. */
static bool lacks_room(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static weft_status fail_room(const char *address, int error)
{
    const bool files = error == EMFILE || error == ENFILE;
    return weft_fail_quiet(WEFT_E_SYSTEM, "this host has no room to reach %s: %s; %s", address, strerror(error),
                           files ? "raise the limit of open files (ulimit -n, LimitNOFILE= of a service), or close some"
                                 : "give the process more memory");
}

/* `flags` 0: a name server is asked. */
static weft_status resolve(const char *address, int flags, struct addrinfo **list)
{
    char host[WEFT_SITE_TEXT], service[16];
    uint32_t port;
    if (!weft_site_listen_split(address, host, &port))
        return weft_fail(WEFT_E_CONFIG, "address %s: need host:port, an IPv6 host in brackets", address);
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(host, service, &hints, list);
    if (error == EAI_MEMORY || (error == EAI_SYSTEM && lacks_room(errno)))
        return fail_room(address, error == EAI_MEMORY ? ENOMEM : errno);
    if (error && is_unknown_yet(error) && !flags)
        return weft_fail_quiet(WEFT_E_UNREACHABLE, "address %s: %s", address, gai_strerror(error));
    return error ? weft_fail(WEFT_E_CONFIG, "address %s: %s", address, gai_strerror(error)) : WEFT_OK;
}

static void print_address(const struct sockaddr *address, socklen_t length, char text[64])
{
    char host[48] = "?", port[8] = "?";
    getnameinfo(address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(text, 64, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

weft_status weft_control_resolve(const char *address, char numeric[WEFT_CONTROL_ADDRESSES][64], uint32_t *count)
{
    struct addrinfo *list = NULL;
    weft_status status = resolve(address, 0, &list);
    if (status != WEFT_OK)
        return status;
    *count = 0;
    for (struct addrinfo *one = list; one && *count < WEFT_CONTROL_ADDRESSES; one = one->ai_next)
        print_address(one->ai_addr, one->ai_addrlen, numeric[(*count)++]);
    freeaddrinfo(list);
    return WEFT_OK;
}

bool weft_control_is_numeric(const char *address, char numeric[64])
{
    char host[WEFT_SITE_TEXT], service[16];
    uint32_t port;
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *list = NULL;
    if (!weft_site_listen_split(address, host, &port))
        return false;
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(host, service, &hints, &list) != 0)
        return false;
    print_address(list->ai_addr, list->ai_addrlen, numeric);
    freeaddrinfo(list);
    return true;
}

weft_status weft_control_route(const char *numeric, char *address, uint64_t capacity)
{
    struct addrinfo *list = NULL;
    struct sockaddr_storage mine;
    socklen_t length = sizeof mine;
    weft_status status = resolve(numeric, AI_NUMERICHOST, &list);
    if (status != WEFT_OK)
        return status;
    int fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found =
        fd >= 0 && connect(fd, list->ai_addr, list->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&mine, &length) == 0 &&
        getnameinfo((struct sockaddr *)&mine, length, address, (socklen_t)capacity, NULL, 0, NI_NUMERICHOST) == 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    freeaddrinfo(list);
    if (!found && lacks_room(error))
        return fail_room(numeric, error);
    return found ? WEFT_OK : weft_fail(WEFT_AGAIN, "no route to %s: %s", numeric, strerror(error));
}

bool weft_control_reaches(const char *numeric, const char *source)
{
    char host[WEFT_SITE_TEXT];
    uint32_t port;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *to = NULL, *from = NULL;
    bool refused = false;
    if (!weft_site_listen_split(numeric, host, &port) || getaddrinfo(host, "9", &hints, &to) != 0)
        return true;
    if (getaddrinfo(source, "0", &hints, &from) == 0 && from->ai_family == to->ai_family) {
        int fd = socket(from->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        refused = fd >= 0 && bind(fd, from->ai_addr, from->ai_addrlen) == 0 &&
                  connect(fd, to->ai_addr, to->ai_addrlen) != 0 && errno == EINVAL;
        if (fd >= 0)
            close(fd);
    }
    if (from)
        freeaddrinfo(from);
    freeaddrinfo(to);
    return !refused;
}

static void tune(int fd, uint64_t user_timeout_ms)
{
    int one = 1;
    unsigned timeout = user_timeout_ms > 1000000 ? 1000000 : (unsigned)user_timeout_ms;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
}

static void begin(weft_control *control, int fd, uint64_t user_timeout_ms)
{
    weft_control_hang_up(control);
    tune(fd, user_timeout_ms);
    control->fd = fd;
    control->nonce = 0;
    control->user_timeout_ms = user_timeout_ms;
    control->heard_ns = control->said_ns = weft_clock_ns();
}

weft_status weft_control_dial(weft_control *control, const char *address, uint64_t user_timeout_ms)
{
    struct addrinfo *list = NULL;
    weft_status status = resolve(address, AI_NUMERICHOST, &list);
    if (status != WEFT_OK)
        return status;
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 && weft_descriptors_short(errno))
        fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int result = fd < 0 ? -1 : connect(fd, list->ai_addr, list->ai_addrlen);
    int error = errno;
    print_address(list->ai_addr, list->ai_addrlen, control->peer);
    freeaddrinfo(list);
    if (fd >= 0 && (result == 0 || error == EINPROGRESS)) {
        begin(control, fd, user_timeout_ms);
        control->connecting = result != 0;
        return WEFT_OK;
    }
    if (fd >= 0)
        close(fd);
    if (lacks_room(error))
        return fail_room(address, error);
    return weft_fail_quiet(WEFT_E_UNREACHABLE, "%s: %s", address, strerror(error));
}

void weft_control_adopt(weft_control *control, int fd, uint64_t user_timeout_ms)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    begin(control, fd, user_timeout_ms);
    snprintf(control->peer, sizeof control->peer, "?");
    if (getpeername(fd, (struct sockaddr *)&address, &length) == 0)
        print_address((struct sockaddr *)&address, length, control->peer);
}

weft_status weft_control_listen(const char *address, int *fd, char *bound)
{
    struct addrinfo *list = NULL;
    struct sockaddr_storage mine;
    socklen_t length = sizeof mine;
    int one = 1;
    weft_status status = resolve(address, AI_PASSIVE, &list);
    if (status != WEFT_OK)
        return status;
    *fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd >= 0)
        setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int error = *fd < 0 || bind(*fd, list->ai_addr, list->ai_addrlen) || listen(*fd, 128) ? errno : 0;
    freeaddrinfo(list);
    if (error == 0 && getsockname(*fd, (struct sockaddr *)&mine, &length) == 0) {
        print_address((struct sockaddr *)&mine, length, bound);
        return WEFT_OK;
    }
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    if (error == EADDRNOTAVAIL)
        return weft_fail(WEFT_AGAIN, "cannot listen on %s: no interface of this host has that address", address);
    return weft_fail(WEFT_E_SYSTEM, "cannot listen on %s: %s%s", address, strerror(error),
                     error == EADDRINUSE ? "; another trainer or relay runs there, or choose another port" : "");
}

void weft_control_unlisten(int fd)
{
    if (fd < 0)
        return;
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

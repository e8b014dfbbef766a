#include "raw.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "harness/process.h"

#define PIECE_BYTES (1u << 20)

static struct sockaddr_in address_of(const char *host, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &at.sin_addr) != 1)
        fleet_fail("the raw stream needs an IPv4 address");
    return at;
}

int bench_raw_listen(const char *host, uint16_t *port)
{
    struct sockaddr_in at = address_of(host, 0);
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, BENCH_PEERS_MAX) ||
        getsockname(fd, (struct sockaddr *)&at, &length))
        fleet_fail("no raw socket");
    *port = ntohs(at.sin_port);
    return fd;
}

int bench_raw_accept(int listen_fd)
{
    int fd = accept(listen_fd, NULL, NULL);
    if (fd < 0)
        fleet_fail("no raw connection");
    return fd;
}

int bench_raw_dial(const char *host, uint16_t port)
{
    struct sockaddr_in to = address_of(host, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to))
        fleet_fail("no raw connection");
    return fd;
}

void bench_raw_give(int fd, const void *data, uint64_t bytes)
{
    char go;
    bool there = fleet_line_get(fd, &go, 1);
    for (uint64_t sent = 0; there && sent < bytes; sent += PIECE_BYTES)
        there = fleet_line_put(fd, data, bytes - sent < PIECE_BYTES ? bytes - sent : PIECE_BYTES);
    if (!there)
        fleet_fail("the raw connection broke");
}

void bench_raw_take(int fd, uint64_t bytes)
{
    static char buffer[PIECE_BYTES];
    bool there = fleet_line_put(fd, "g", 1);
    for (uint64_t left = bytes; there && left > 0;) {
        const ssize_t got = read(fd, buffer, left < sizeof buffer ? left : sizeof buffer);
        there = got > 0;
        left -= there ? (uint64_t)got : 0;
    }
    if (!there)
        fleet_fail("the raw stream broke");
}

/* Whoever connects to a port of real tcp without a word costs no descriptor when he is gone, ends no process when the
 * port is closed before him, and does not reach a port that only writes. */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/fabric_ends.h"

#define STRANGERS 60u

static unsigned descriptors(void)
{
    unsigned count = 0;
    DIR *list = opendir("/proc/self/fd");
    CHECK(list, "/proc/self/fd");
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}

/* A stranger at the port: connected, or on his way there; the descriptor. */
static int connect_to(const fabric_end *e, const weft_port *port)
{
    uint8_t address[WEFT_PORT_ADDRESS_MAX];
    uint32_t length = 0;
    struct sockaddr_in to;
    CHECK(e->provider->port_address(port, address, &length) == WEFT_OK && length == sizeof to, "port_address");
    memcpy(&to, address, sizeof to);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0, "socket");
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS, "connect");
    return fd;
}

static bool is_connected(int fd, int milliseconds)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, milliseconds) == 1 && !(p.revents & (POLLERR | POLLHUP));
}

/* Polls until the count of descriptors is as wanted, for ten seconds at most. `errno` is what core leaves there. */
static void poll_until(const fabric_end *e, weft_port *port, unsigned least, unsigned most)
{
    weft_completion c[8];
    unsigned count = 0;
    for (double end = play_now() + 10; play_now() < end; play_nap(1e-3)) {
        errno = EAGAIN;
        e->provider->poll(port, c, 8);
        count = descriptors();
        if (count >= least && count <= most)
            return;
    }
    CHECK(false, "%u descriptors, not %u to %u", count, least, most);
}

static void come_and_go(play *p)
{
    int fds[STRANGERS];
    fabric_end e = end_open(p->provider);
    weft_port *port = end_open_port(&e);
    const unsigned before = descriptors();
    for (unsigned i = 0; i < STRANGERS; i++)
        CHECK(is_connected(fds[i] = connect_to(&e, port), 5000), "a stranger cannot connect");
    poll_until(&e, port, before + 2 * STRANGERS, UINT32_MAX); /* both ends of each are of this process */
    for (unsigned i = 0; i < STRANGERS; i++) {
        CHECK(i % 2 || write(fds[i], "GET / HTTP/1.1\r\n", i % 16 + 1) > 0, "write");
        close(fds[i]);
    }
    poll_until(&e, port, 0, before + 1);
    e.provider->port_close(port);
    e.provider->link_close(e.link);
}

static void strangers_cost_nothing(void **state)
{
    play p;
    play_start(&p, *state, come_and_go, NULL, 0);
    play_finish(&p, 0, 0);
}

/* Freed memory is overwritten, so that a later use of it is found out. */
static void outlast_the_port(play *p)
{
    int fds[STRANGERS];
    mallopt(M_PERTURB, 0x5a);
    fabric_end e = end_open(p->provider);
    weft_port *other = end_open_port(&e), *port = end_open_port(&e);
    const unsigned before = descriptors();
    for (unsigned i = 0; i < STRANGERS; i++)
        CHECK(is_connected(fds[i] = connect_to(&e, port), 5000), "a stranger cannot connect");
    poll_until(&e, port, before + 2 * STRANGERS, UINT32_MAX);
    e.provider->port_close(port);
    CHECK(descriptors() < before + STRANGERS, "%u descriptors after the port's end, %u before its strangers came",
          descriptors(), before);
    for (unsigned i = 0; i < STRANGERS; i++) {
        if (i % 2 && send(fds[i], "GET / HTTP/1.1\r\n\r\n0123456789abcdef", 34, MSG_NOSIGNAL) < 0)
            CHECK(errno == EPIPE || errno == ECONNRESET, "send");
        close(fds[i]);
    }
    poll_until(&e, other, 0, before);
    e.provider->port_close(other);
    e.provider->link_close(e.link);
}

static void a_port_ends_with_its_strangers(void **state)
{
    play p;
    play_start(&p, *state, outlast_the_port, NULL, 0);
    play_finish(&p, 0, 0);
}

static void knock(play *p)
{
    fabric_end e = end_open(p->provider), writes = {.provider = e.provider};
    const weft_link_options options = {.address = end_local(p->provider), .only_writes = true};
    CHECK(e.provider->link_open(&options, &writes.link) == WEFT_OK, "link_open");
    weft_port *open = end_open_port(&e), *fenced = end_open_port(&writes);
    int in = connect_to(&e, open), out = connect_to(&writes, fenced);
    CHECK(is_connected(in, 5000), "a port that is written to is not reached");
    CHECK(!is_connected(out, 300), "a port that only writes is reached");
    close(in);
    close(out);
    e.provider->port_close(open);
    e.provider->port_close(fenced);
    e.provider->link_close(e.link);
    e.provider->link_close(writes.link);
}

static void nobody_reaches_a_port_that_only_writes(void **state)
{
    play p;
    play_start(&p, *state, knock, NULL, 0);
    play_finish(&p, 0, 0);
}

int main(void)
{
    static const struct CMUnitTest tcp[] = {
        ON(strangers_cost_nothing, "tcp"),
        ON(a_port_ends_with_its_strangers, "tcp"),
        ON(nobody_reaches_a_port_that_only_writes, "tcp"),
    };
    static const struct CMUnitTest tcp_rxm[] = {
        ON(strangers_cost_nothing, "tcp-rxm"),
        ON(a_port_ends_with_its_strangers, "tcp-rxm"),
        ON(nobody_reaches_a_port_that_only_writes, "tcp-rxm"),
    };
    int failed = FABRIC_RUN("tcp", tcp);
    failed += FABRIC_RUN("tcp-rxm", tcp_rxm);
    return fabric_result(failed);
}

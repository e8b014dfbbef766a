#include "tools/bench/fabric/line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

/* An end that comes without tls says so first, with a byte that begins no record of tls. */
#define COMES     'w'
#define HANDSHAKE 22 /* the byte with which an end that comes by tls begins */

/* ---- open and close */

weft_status weft_bench_line_open(weft_bench_line *line, const weft_site *site, const char *name)
{
    *line = (weft_bench_line){.fd = -1, .site = site};
    return weft_guard_open(site, name, &line->guard);
}

void weft_bench_line_hang_up(weft_bench_line *line)
{
    weft_seal_close(line->seal);
    line->seal = NULL;
    if (line->fd >= 0)
        close(line->fd);
    line->fd = -1;
}

void weft_bench_line_close(weft_bench_line *line)
{
    weft_bench_line_hang_up(line);
    weft_guard_close(line->guard);
    line->guard = NULL;
}

/* ---- bytes */

static weft_status broken(const char *what)
{
    return weft_fail_quiet(WEFT_E_PEER_LOST, "the connection to the other end broke (%s)", what);
}

static weft_status silent(void)
{
    return weft_fail_quiet(WEFT_E_TIMEOUT, "the other end is silent for %d s", WEFT_BENCH_STALL_MS / 1000);
}

static weft_status unproved(weft_status status)
{
    char why[400];
    snprintf(why, sizeof why, "%s", weft_last_error());
    return status == WEFT_E_PEER_LOST ? broken(why) : weft_fail_quiet(WEFT_E_CONFIG, "the other end: %s", why);
}

/* Waits until the socket gives or takes bytes; false: not before `until_ns`. */
static bool wait_for(int fd, bool write, uint64_t until_ns)
{
    struct pollfd at = {.fd = fd, .events = write ? POLLOUT : POLLIN};
    int ready;
    do {
        const uint64_t now_ns = weft_clock_ns();
        if (now_ns >= until_ns)
            return false;
        ready = poll(&at, 1, (int)((until_ns - now_ns) / WEFT_NS_PER_MS) + 1);
    } while (ready == 0 || (ready < 0 && errno == EINTR));
    return ready > 0;
}

static uint64_t after_ms(uint64_t ms)
{
    return weft_clock_ns() + ms * WEFT_NS_PER_MS;
}

/* The socket blocks, and has its bound from meet.c. */
static weft_status move_plain(int fd, bool out, void *data, uint64_t bytes, uint64_t *moved)
{
    const ssize_t n = out ? send(fd, data, bytes, MSG_NOSIGNAL) : recv(fd, data, bytes, 0);
    *moved = n > 0 ? (uint64_t)n : 0;
    if (n > 0 || (n < 0 && errno == EINTR))
        return WEFT_OK;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return silent();
    return broken(n < 0 ? strerror(errno) : "it was closed");
}

static weft_status move_sealed(weft_bench_line *line, bool out, void *data, uint64_t bytes, uint64_t *moved)
{
    weft_status status =
        out ? weft_seal_write(line->seal, data, bytes, moved) : weft_seal_read(line->seal, data, bytes, moved);
    if (status != WEFT_OK)
        return unproved(status);
    if (*moved == 0 && !wait_for(line->fd, weft_seal_wants_write(line->seal), after_ms(WEFT_BENCH_STALL_MS)))
        return silent();
    return WEFT_OK;
}

static weft_status move_all(weft_bench_line *line, bool out, uint8_t *data, uint64_t bytes)
{
    weft_status status = WEFT_OK;
    for (uint64_t done = 0, moved; done < bytes && status == WEFT_OK; done += moved)
        status = line->seal ? move_sealed(line, out, data + done, bytes - done, &moved)
                            : move_plain(line->fd, out, data + done, bytes - done, &moved);
    return status;
}

weft_status weft_bench_line_give(weft_bench_line *line, const void *data, uint64_t bytes)
{
    return move_all(line, true, (uint8_t *)data, bytes);
}

weft_status weft_bench_line_take(weft_bench_line *line, void *data, uint64_t bytes)
{
    return move_all(line, false, data, bytes);
}

bool weft_bench_line_has_word(const weft_bench_line *line, int milliseconds)
{
    if (line->seal && weft_seal_has_more(line->seal))
        return true;
    struct pollfd at = {.fd = line->fd, .events = POLLIN};
    return poll(&at, 1, milliseconds) > 0;
}

/* ---- messages */

weft_status weft_bench_say(weft_bench_line *line, const weft_bench_message *message)
{
    return weft_bench_line_give(line, message, sizeof *message);
}

weft_status weft_bench_hear(weft_bench_line *line, weft_bench_message *message)
{
    weft_status status = weft_bench_line_take(line, message, sizeof *message);
    if (status != WEFT_OK)
        return status;
    message->text[sizeof message->text - 1] = '\0';
    if (message->order == WEFT_BENCH_FAILED)
        return weft_fail_quiet(WEFT_E_UNREACHABLE, "the other end says: %s", message->text);
    if (message->order < WEFT_BENCH_HELLO || message->order > WEFT_BENCH_END ||
        message->length > WEFT_PORT_ADDRESS_MAX || message->bytes > WEFT_BENCH_SPAN ||
        message->count > WEFT_BENCH_WRITES)
        return weft_fail_quiet(WEFT_E_PROTOCOL, "what came from the other end is no order of this version of weft");
    return WEFT_OK;
}

static void tell_failed(weft_bench_line *line, const char *why)
{
    char own[400];
    weft_bench_message message = {.order = WEFT_BENCH_FAILED};
    snprintf(own, sizeof own, "%s", weft_last_error());
    snprintf(message.text, sizeof message.text, "%.399s", why);
    if (weft_bench_say(line, &message) != WEFT_OK)
        weft_fail_quiet(WEFT_E_PEER_LOST, "%s", own);
}

void weft_bench_say_failed(weft_bench_line *line)
{
    tell_failed(line, weft_last_error());
}

/* ---- proof */

static weft_status shake(weft_bench_line *line, uint64_t until_ns)
{
    weft_status status;
    while ((status = weft_seal_step(line->seal)) == WEFT_AGAIN)
        if (!wait_for(line->fd, weft_seal_wants_write(line->seal), until_ns))
            return weft_fail_quiet(WEFT_E_TIMEOUT,
                                   "the other end does not prove who it is: does it speak without tls?");
    return status == WEFT_OK ? WEFT_OK : unproved(status);
}

weft_status weft_bench_line_join(weft_bench_line *line, int fd)
{
    line->fd = fd;
    weft_status status = line->guard ? weft_seal_dial(line->guard, fd, WEFT_GUARD_TRAINER, &line->seal)
                                     : weft_bench_line_give(line, &(uint8_t){COMES}, 1);
    if (line->guard)
        status = status == WEFT_OK ? shake(line, after_ms(WEFT_BENCH_STALL_MS)) : unproved(status);
    if (status != WEFT_OK)
        weft_bench_line_hang_up(line);
    return status;
}

/* Bytes that are unread when a socket is closed reset the connection, so that the other end may lose its answer. */
static void read_rest(int fd)
{
    uint8_t rest[256];
    while (recv(fd, rest, sizeof rest, MSG_DONTWAIT) == (ssize_t)sizeof rest)
        ;
}

static weft_status admit_plain(weft_bench_line *line)
{
    uint8_t first;
    weft_status status = weft_bench_line_take(line, &first, 1);
    if (status != WEFT_OK || first == COMES)
        return status;
    read_rest(line->fd);
    if (first != HANDSHAKE)
        return weft_fail_quiet(WEFT_E_PROTOCOL, "it is no `weft bench fabric SITE.ini --join`");
    weft_fail_quiet(WEFT_E_CONFIG, "it comes by tls, and this end speaks without: write the same [security] mode at "
                                   "both ends");
    weft_bench_say_failed(line);
    return WEFT_E_CONFIG;
}

static weft_status admit_sealed(weft_bench_line *line, const char *peer, uint64_t until_ns)
{
    weft_status status = weft_seal_answer(line->guard, line->fd, &line->seal);
    if (status == WEFT_E_PROTOCOL) {
        read_rest(line->fd);
        tell_failed(line, "this end takes nobody who proves no name: write [security] mode = tls");
    }
    status = status == WEFT_OK ? shake(line, until_ns) : unproved(status);
    if (status != WEFT_OK || weft_seal_proves(line->seal, peer))
        return status;
    weft_fail_quiet(WEFT_E_CONFIG, "--peer %s is measured, and the other end proves another name", peer);
    weft_bench_say_failed(line);
    return WEFT_E_CONFIG;
}

weft_status weft_bench_line_admit(weft_bench_line *line, int fd, const char *peer)
{
    const uint64_t until_ns = after_ms(line->site->guests.deadline_ms);
    line->fd = fd;
    weft_status status = WEFT_OK;
    if (!wait_for(fd, false, until_ns))
        status = weft_fail_quiet(WEFT_E_TIMEOUT, "it says nothing for %llu ms (guest_deadline)",
                                 (unsigned long long)line->site->guests.deadline_ms);
    else
        status = line->guard ? admit_sealed(line, peer, until_ns) : admit_plain(line);
    if (status != WEFT_OK)
        weft_bench_line_hang_up(line);
    return status;
}

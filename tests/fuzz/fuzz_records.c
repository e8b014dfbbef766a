/* A handshake of tls between both ends, with its records cut anywhere and any byte changed: what was changed is found,
 * and nothing is read that was not said.
 *
 * Input: acts of two bytes. The first says how many bytes go (its low bit: which way), the second changes the first of
 * them, unless it is above 15. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/fuzz/sealed.h"

#define WORDS "the words of one end"

typedef struct end {
    weft_seal *seal;
    int fd, wire; /* the end's socket, and its other side */
    weft_status status;
    bool altered; /* something was changed on the way to it */
    char heard[256];
    uint64_t heard_bytes;
} end;

static void open_end(end *e)
{
    int fd[2];
    FUZZ_MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) == 0);
    *e = (end){.fd = fd[0], .wire = fd[1], .status = WEFT_AGAIN};
}

static void close_end(end *e)
{
    weft_seal_close(e->seal);
    close(e->fd);
    close(e->wire);
}

/* Goes on with the handshake, then says its words once, and hears. */
static void step(end *e, bool dials)
{
    const bool was = e->status == WEFT_OK;
    uint64_t moved = 0;
    if (e->status == WEFT_AGAIN && !e->seal)
        e->status = dials ? weft_seal_dial(keys.guards[0], e->fd, WEFT_GUARD_TRAINER, &e->seal)
                          : weft_seal_answer(keys.guards[1], e->fd, &e->seal);
    if (e->seal && (e->status == WEFT_AGAIN || (e->status == WEFT_OK && !was)))
        e->status = weft_seal_step(e->seal);
    if (e->status != WEFT_OK)
        return;
    if (!was)
        FUZZ_MUST(weft_seal_write(e->seal, WORDS, sizeof WORDS, &moved) != WEFT_OK || moved == sizeof WORDS);
    e->status = weft_seal_read(e->seal, e->heard + e->heard_bytes, sizeof e->heard - e->heard_bytes, &moved);
    e->heard_bytes += e->status == WEFT_OK ? moved : 0;
    FUZZ_MUST(e->heard_bytes <= sizeof WORDS && memcmp(e->heard, WORDS, e->heard_bytes) == 0);
    FUZZ_MUST(dials || weft_seal_proves(e->seal, "a"));
}

/* Moves some bytes from one end to the other; returns how many. */
static uint64_t carry(end *from, end *to, uint64_t most, uint8_t change)
{
    uint8_t bytes[4096];
    const ssize_t got = recv(from->wire, bytes, most < sizeof bytes ? most : sizeof bytes, MSG_DONTWAIT);
    if (got <= 0)
        return 0;
    bytes[0] ^= change;
    to->altered = to->altered || change;
    return send(to->wire, bytes, (size_t)got, MSG_DONTWAIT | MSG_NOSIGNAL) == got ? (uint64_t)got : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    end ends[2];
    weft_log_enter(&quiet);
    if (!have_keys())
        return 0;
    open_end(&ends[0]);
    open_end(&ends[1]);
    for (size_t at = 0; at < size && at < 256; at += 2) {
        const uint8_t what = data[at], change = at + 1 < size && data[at + 1] < 16 ? data[at + 1] : 0;
        step(&ends[0], true);
        step(&ends[1], false);
        carry(&ends[what & 1], &ends[!(what & 1)], 1u + (what >> 1) * 8u, change);
    }
    for (uint64_t moved = 1, turn = 0; moved > 0 || turn < 4; turn++) {
        step(&ends[0], true);
        step(&ends[1], false);
        moved = carry(&ends[0], &ends[1], 4096, 0) + carry(&ends[1], &ends[0], 4096, 0);
    }
    const bool altered = ends[0].altered || ends[1].altered;
    for (int i = 0; i < 2; i++) {
        FUZZ_MUST(altered || (ends[i].status == WEFT_OK && ends[i].heard_bytes == sizeof WORDS));
        close_end(&ends[i]);
    }
    return 0;
}

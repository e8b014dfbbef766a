/* rollout_end.h - one end of a rollout, whose trainer is the test. */
#ifndef WEFT_TESTS_ROLLOUT_END_H
#define WEFT_TESTS_ROLLOUT_END_H

#include "base/status.h"
#include "layout/digest.h"
#include "rollout/rollout.h"
#include "tests/support/clock_own.h"
#include "tests/support/fleet.h"

#include <string.h>
#include <sys/socket.h>
#include <xxhash.h>

#define RUN       9u
#define HELD      5u /* number of what is held */
#define HEARTBEAT 200u
#define PATIENCE  300u /* [session] io_deadline */

static const char *const manual[] = {"session.progress=manual", "peers.heartbeat=200ms", "session.io_deadline=300ms",
                                     "commit.deadline=3s", NULL};
static fleet *f;
static weft_rollout *end;
static weft_control trainer;
static uint8_t said[WEFT_MESSAGE_MAX];

/* A connection that is joined. */
static inline void connect_end(void)
{
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd), 0);
    weft_control_hang_up(&end->joining.control);
    weft_control_hang_up(&trainer);
    weft_control_adopt(&end->joining.control, fd[0], 1000);
    weft_control_adopt(&trainer, fd[1], 1000);
    end->joining.state = WEFT_JOIN_JOINED;
    end->joining.welcome.run = RUN;
    end->joining.heartbeat_ms = HEARTBEAT;
    end->joining.pinged_ns = end->intake.moved_ns = weft_clock_ns();
}

static inline int setup(void **state)
{
    set_clock(state);
    f = fleet_open(FLEET_TILES, manual);
    fleet_join(f, 0, FLEET_SAME);
    end = f->rollouts[0].session->rollout;
    end->current.version.run = RUN;
    end->current.version.number = HELD;
    assert_int_equal(weft_control_open(&trainer), WEFT_OK);
    connect_end();
    return 0;
}

static inline int teardown(void **state)
{
    weft_control_close(&trainer);
    fleet_close(f);
    return give_clock(state);
}

/* ---- messages */

static inline void say(weft_message type, const weft_out *body)
{
    assert_int_equal(weft_control_send(&trainer, type, body->data, body->used), WEFT_OK);
    assert_int_equal(weft_control_flush(&trainer), WEFT_OK);
}

static inline weft_status hear(void)
{
    weft_waits waits = {.wake_ns = UINT64_MAX};
    return weft_dispatch_step(end, &waits);
}

/* The next message of the rollout, which must be of this type. */
static inline uint64_t must_say(weft_message wanted)
{
    const uint8_t *body;
    weft_message type = (weft_message)0;
    uint64_t length = 0;
    weft_control_flush(&end->joining.control);
    weft_control_fill(&trainer);
    assert_int_equal(weft_control_next(&trainer, &type, &body, &length), WEFT_OK);
    assert_int_equal(type, wanted);
    memcpy(said, body, length);
    weft_control_drop(&trainer);
    return length;
}

static inline bool is_silent(void)
{
    const uint8_t *body;
    weft_message type;
    uint64_t length;
    weft_control_flush(&end->joining.control);
    weft_control_fill(&trainer);
    return weft_control_next(&trainer, &type, &body, &length) == WEFT_AGAIN;
}

#define SAY(type, put, ...)                                                                                            \
    do {                                                                                                               \
        uint8_t body[WEFT_MESSAGE_MAX];                                                                                \
        weft_out out = {body, sizeof body, 0, false};                                                                  \
        put(&out, &(__VA_ARGS__));                                                                                     \
        say(type, &out);                                                                                               \
    } while (0)

/* UPDATE and TRAILER, by roots: H is what is held, a trailer's is its number. */
#define H UINT64_MAX
typedef struct word {
    char kind; /* U, S (of a snapshot), T; W: withdraws; 0: the end of a row */
    uint64_t base, number;
} word;

static inline void speak(word at)
{
    const weft_version none = {0, 0, 0}, target = {RUN, at.number, 0},
                       base = {RUN, at.base == H ? HELD : at.base, at.base == H ? end->current.version.root : at.base};
    weft_wire_update update = {.level = at.kind == 'S' ? WEFT_LEVEL_FULL : WEFT_LEVEL_FAST,
                               .snapshot = at.kind == 'S',
                               .base = at.kind == 'S' ? none : base,
                               .target = target};
    memcpy(update.layout, end->layout->hash, sizeof update.layout);
    if (at.kind == 'U' || at.kind == 'S')
        SAY(WEFT_MESSAGE_UPDATE, weft_wire_put_update, update);
    else
        SAY(WEFT_MESSAGE_TRAILER, weft_wire_put_trailer,
            (weft_wire_trailer){.target = at.kind == 'W' ? none : (weft_version){RUN, at.number, at.number}});
}

/* An update without frames has come to its trailer, from the root held to that root again. */
static inline weft_incoming *announce(uint64_t number)
{
    weft_incoming *incoming = &end->arriving.queue[0];
    end->course.state = WEFT_COURSE_RECEIVING;
    end->arriving.queued = 0;
    speak((word){'U', H, number});
    speak((word){'T', 0, number});
    assert_int_equal(hear(), WEFT_OK);
    incoming->trailer.target.root = end->current.version.root;
    return incoming;
}

#endif

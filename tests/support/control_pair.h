/* control_pair.h - two control connections that face each other, and a stream of messages that either knows. */
#ifndef WEFT_TESTS_CONTROL_PAIR_H
#define WEFT_TESTS_CONTROL_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/status.h"
#include "layout/digest.h"
#include "tests/support/quiet.h"
#include "wire/control.h"

typedef struct pair {
    weft_control a, b;
} pair;

static inline void connect_pair(weft_control *one, weft_control *other)
{
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(weft_control_open(one), WEFT_OK);
    assert_int_equal(weft_control_open(other), WEFT_OK);
    weft_control_adopt(one, fd[0], 1000);
    weft_control_adopt(other, fd[1], 1000);
}

static inline pair open_pair(void)
{
    pair p;
    connect_pair(&p.a, &p.b);
    return p;
}

static inline void close_pair(pair *p)
{
    weft_control_close(&p->a);
    weft_control_close(&p->b);
}

/* The n-th message of a stream whose types, lengths and bytes follow from n alone. */
static inline weft_message nth(uint64_t n, uint8_t body[WEFT_MESSAGE_MAX], uint64_t *length)
{
    uint64_t random = weft_mix64(n + 1);
    *length = n % 5 == 0 ? 0 : n % 7 == 0 ? WEFT_MESSAGE_MAX : random % 300;
    for (uint64_t i = 0; i < *length; i++)
        body[i] = (uint8_t)(random + i);
    return (weft_message)(1 + random % (WEFT_MESSAGE_COUNT - 1));
}

static inline weft_status send_nth(weft_control *control, uint64_t n)
{
    uint8_t body[WEFT_MESSAGE_MAX] = {0};
    uint64_t length;
    weft_message type = nth(n, body, &length);
    return weft_control_send(control, type, body, length);
}

/* Takes whole messages until there is none, each the next of the stream. */
static inline void take_stream(weft_control *control, uint64_t *n)
{
    uint8_t wanted[WEFT_MESSAGE_MAX];
    const uint8_t *body;
    weft_message type;
    uint64_t length, wanted_length;
    while (weft_control_next(control, &type, &body, &length) == WEFT_OK) {
        assert_int_equal(type, nth((*n)++, wanted, &wanted_length));
        assert_int_equal(length, wanted_length);
        assert_memory_equal(body, wanted, length);
        weft_control_drop(control);
    }
}

#endif

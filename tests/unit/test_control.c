/* The control connection: framing over a socket pair, and ends that do not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/control_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Both ends work in turns of random length; nothing is lost, reordered or allocated. */
static void stream_of_messages(void **state)
{
    (void)state;
    pair p = open_pair();
    uint64_t sent = 0, taken = 0, seed = 0, allocations = weft_mem_allocations();
    while (taken < 3000) {
        for (uint64_t burst = weft_mix64(++seed) % 15; burst > 0 && sent < 3000; burst--)
            assert_int_equal(send_nth(&p.a, sent++), WEFT_OK);
        for (uint64_t turns = 1 + weft_mix64(++seed) % 100; turns > 0 || sent - taken > 200; turns -= turns > 0) {
            assert_int_equal(weft_control_flush(&p.a), WEFT_OK);
            assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
            take_stream(&p.b, &taken);
        }
    }
    assert_int_equal(taken, sent);
    assert_false(weft_control_wants_write(&p.a));
    assert_int_equal(weft_mem_allocations(), allocations);
    close_pair(&p);
}

static void byte_by_byte(void **state)
{
    (void)state;
    pair p = open_pair();
    const uint8_t bytes[] = {3, 0, 0, 0, WEFT_MESSAGE_PING,   0, 0, 0, 'a', 'b', 'c',
                             0, 0, 0, 0, WEFT_MESSAGE_ACCEPT, 0, 0, 0};
    const uint8_t *body;
    weft_message type;
    uint64_t length;
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_int_equal(write(p.a.fd, bytes + i, 1), 1);
        assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
        weft_status status = weft_control_next(&p.b, &type, &body, &length);
        assert_int_equal(status, i == 10 || i == sizeof bytes - 1 ? WEFT_OK : WEFT_AGAIN);
        if (i == 10) {
            assert_int_equal(type, WEFT_MESSAGE_PING);
            assert_int_equal(length, 3);
            assert_memory_equal(body, "abc", 3);
        }
        if (status == WEFT_OK)
            weft_control_drop(&p.b);
    }
    assert_int_equal(type, WEFT_MESSAGE_ACCEPT);
    assert_int_equal(length, 0);
    close_pair(&p);
}

/* Refused from the prefix alone, before any of the body is waited for. */
static void impossible_prefix(void **state)
{
    (void)state;
    const struct {
        uint32_t length;
        uint16_t type, zero;
    } bad[] = {{WEFT_MESSAGE_MAX + 1, WEFT_MESSAGE_UPDATE, 0},
               {UINT32_MAX, WEFT_MESSAGE_UPDATE, 0},
               {WEFT_MESSAGE_MAX + 1, WEFT_MESSAGE_LAYOUT, 0}, /* only weft_layout_fetch takes those */
               {0, 0, 0},
               {0, WEFT_MESSAGE_COUNT, 0},
               {0, UINT16_MAX, 0},
               {0, WEFT_MESSAGE_ACCEPT, 1},
               {0, WEFT_MESSAGE_ACCEPT, 0x8000}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        pair p = open_pair();
        uint8_t prefix[WEFT_MESSAGE_PREFIX];
        const uint8_t *body;
        weft_message type;
        uint64_t length;
        weft_bytes_put(prefix, bad[i].length, 4);
        weft_bytes_put(prefix + 4, bad[i].type, 2);
        weft_bytes_put(prefix + 6, bad[i].zero, 2);
        assert_int_equal(write(p.a.fd, prefix, sizeof prefix), sizeof prefix);
        assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
        assert_int_equal(weft_control_next(&p.b, &type, &body, &length), WEFT_E_CORRUPT);
        close_pair(&p);
    }
}

/* A step takes what a connection's buffer holds, however much more is there. */
static void more_than_a_step_takes(void **state)
{
    (void)state;
    pair p = open_pair();
    const uint8_t accept[WEFT_MESSAGE_PREFIX] = {0, 0, 0, 0, WEFT_MESSAGE_ACCEPT};
    const uint8_t *body;
    weft_message type;
    uint64_t length, sent = 0, all = 0;
    while (send(p.a.fd, accept, sizeof accept, MSG_DONTWAIT) == sizeof accept && sent < 4 * WEFT_CONTROL_IN_BYTES)
        sent++;
    for (uint64_t taken = 1; taken > 0; all += taken) {
        assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
        for (taken = 0; weft_control_next(&p.b, &type, &body, &length) == WEFT_OK; taken++)
            weft_control_drop(&p.b);
        assert_true(taken <= WEFT_CONTROL_IN_BYTES / sizeof accept);
    }
    assert_int_equal(all, sent);
    assert_true(sent > 200);
    close_pair(&p);
}

static void end_of_stream(void **state)
{
    (void)state;
    pair p = open_pair();
    uint64_t taken = 0;
    assert_int_equal(send_nth(&p.a, 0), WEFT_OK);
    assert_int_equal(send_nth(&p.a, 1), WEFT_OK);
    assert_int_equal(weft_control_flush(&p.a), WEFT_OK);
    weft_control_hang_up(&p.a);
    assert_int_equal(weft_control_fill(&p.b), WEFT_E_PEER_LOST);
    take_stream(&p.b, &taken);
    assert_int_equal(taken, 2); /* what came before the end is not lost with it */
    assert_int_equal(weft_control_send(&p.a, WEFT_MESSAGE_ACCEPT, NULL, 0), WEFT_E_PEER_LOST);
    assert_int_equal(weft_control_flush(&p.a), WEFT_E_PEER_LOST);
    assert_false(weft_control_wants_write(&p.a));
    weft_control_hang_up(&p.a);
    weft_control_close(&p.a);
    close_pair(&p); /* closing twice is no harm */
}

static void writes_to_a_closed_end(void **state)
{
    (void)state;
    pair p = open_pair();
    weft_control_hang_up(&p.b);
    assert_int_equal(send_nth(&p.a, 1), WEFT_OK);
    assert_int_equal(weft_control_flush(&p.a), WEFT_E_PEER_LOST); /* and no SIGPIPE */
    close_pair(&p);
}

/* The other end reads nothing: what is queued is bounded, is an error beyond, and all of it arrives when it reads. */
static void peer_that_does_not_read(void **state)
{
    (void)state;
    pair p = open_pair();
    uint64_t sent = 0, taken = 0;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && sent < 100000) {
        status = send_nth(&p.a, sent);
        sent += status == WEFT_OK;
        assert_int_equal(weft_control_flush(&p.a), WEFT_OK);
    }
    assert_int_equal(status, WEFT_E_PEER_LOST);
    assert_non_null(strstr(weft_last_error(), "does not read"));
    assert_true(WEFT_CONTROL_OUT_BYTES - (p.a.out_end - p.a.out_begin) < WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX);
    assert_true(weft_control_wants_write(&p.a));
    for (uint32_t turn = 0; turn < 100000 && taken < sent; turn++) {
        assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
        take_stream(&p.b, &taken);
        assert_int_equal(weft_control_flush(&p.a), WEFT_OK);
        if (p.a.out_begin > WEFT_CONTROL_OUT_BYTES / 2) /* what has left makes room at once */
            assert_int_equal(send_nth(&p.a, sent++), WEFT_OK);
    }
    assert_int_equal(taken, sent);
    close_pair(&p);
}

/* A layout of many socket buffers, after a short message that was queued first. */
static void long_tail(void **state)
{
    (void)state;
    const uint64_t bytes = 3u << 20, whole = 2 * WEFT_MESSAGE_PREFIX + bytes;
    pair p = open_pair();
    uint8_t *body = malloc(bytes), *got = malloc(whole + 1);
    uint64_t arrived = 0;
    assert_true(body && got);
    for (uint64_t i = 0; i < bytes; i++)
        body[i] = (uint8_t)weft_mix64(i);
    assert_int_equal(weft_control_send(&p.a, WEFT_MESSAGE_ACCEPT, NULL, 0), WEFT_OK);
    assert_int_equal(weft_control_send_long(&p.a, WEFT_MESSAGE_LAYOUT, body, bytes), WEFT_OK);
    while (weft_control_wants_write(&p.a)) {
        assert_int_equal(weft_control_flush(&p.a), WEFT_OK);
        ssize_t part = recv(p.b.fd, got + arrived, whole + 1 - arrived, 0);
        assert_true(part > 0);
        arrived += (uint64_t)part;
    }
    for (ssize_t part; (part = recv(p.b.fd, got + arrived, whole + 1 - arrived, MSG_DONTWAIT)) > 0;)
        arrived += (uint64_t)part;
    assert_int_equal(arrived, whole);
    assert_int_equal(weft_bytes_get(got + WEFT_MESSAGE_PREFIX, 4), bytes);
    assert_int_equal(weft_bytes_get(got + WEFT_MESSAGE_PREFIX + 4, 4), WEFT_MESSAGE_LAYOUT);
    assert_memory_equal(got + 2 * WEFT_MESSAGE_PREFIX, body, bytes);
    free(got);
    free(body);
    close_pair(&p);
}

/* ---- a LAYOUT that comes in */

#define LAYOUT_BYTES (3u * WEFT_CONTROL_IN_BYTES + 5)

/* A LAYOUT in pieces and a message right after it. `most` is what this end takes. */
static void layout_of(uint64_t bytes, uint64_t most, uint64_t piece)
{
    static uint8_t body[LAYOUT_BYTES];
    const uint8_t *got = NULL;
    uint64_t length = 0, left = 0, at = 0;
    weft_status status = WEFT_AGAIN;
    pair p = open_pair();
    for (uint64_t i = 0; i < bytes; i++)
        body[i] = (uint8_t)weft_mix64(i);
    assert_int_equal(weft_control_send_long(&p.a, WEFT_MESSAGE_LAYOUT, body, bytes), WEFT_OK);
    assert_int_equal(weft_control_flush(&p.a), WEFT_OK);
    assert_int_equal(send_nth(&p.a, 1), WEFT_OK);
    assert_int_equal(weft_control_flush(&p.a), WEFT_OK);
    uint8_t whole[2 * LAYOUT_BYTES];
    const ssize_t all = recv(p.b.fd, whole, sizeof whole, MSG_DONTWAIT);
    assert_true(all > (ssize_t)bytes);
    for (; status == WEFT_AGAIN; at += left) {
        left = (uint64_t)all - at < piece ? (uint64_t)all - at : piece;
        assert_int_equal(write(p.a.fd, whole + at, left), left);
        p.b.heard_ns = 0;
        if (!weft_control_has_layout(&p.b))
            assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
        if (weft_control_has_layout(&p.b))
            status = weft_control_take_layout(&p.b, most, &got, &length);
        assert_true(p.b.heard_ns > 0); /* each piece is a sign of life */
    }
    if (most < bytes) {
        assert_int_equal(status, WEFT_E_BUDGET);
        assert_null(p.b.layout);
    } else {
        uint64_t taken = 1;
        assert_int_equal(status, WEFT_OK);
        assert_int_equal(write(p.a.fd, whole + at, (uint64_t)all - at), (uint64_t)all - at);
        assert_int_equal(length, bytes);
        assert_memory_equal(got, body, bytes);
        assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
        take_stream(&p.b, &taken);
        assert_int_equal(taken, 2);
    }
    weft_control_hang_up(&p.b); /* the next connection has none of it */
    assert_false(weft_control_has_layout(&p.b));
    close_pair(&p);
}

static void layouts(void **state)
{
    const uint64_t blocks = weft_mem_blocks();
    static const uint64_t bytes[] = {1, 100, WEFT_MESSAGE_MAX, WEFT_MESSAGE_MAX + 1, LAYOUT_BYTES};
    (void)state;
    for (size_t i = 0; i < COUNT(bytes); i++)
        for (uint64_t piece = 7; piece < 4 * LAYOUT_BYTES; piece *= 11) {
            layout_of(bytes[i], bytes[i], piece);
            layout_of(bytes[i], UINT64_MAX, piece);
            layout_of(bytes[i], bytes[i] - 1, piece);
        }
    assert_int_equal(weft_mem_blocks(), blocks);
}

/* ---- ends */

/* A forked child has the socket too. */
static void hung_up(void **state)
{
    (void)state;
    pair p = open_pair();
    const int child = dup(p.a.fd);
    assert_int_equal(weft_control_send_long(&p.a, WEFT_MESSAGE_LAYOUT, (const uint8_t *)"left", 4), WEFT_OK);
    weft_control_hang_up(&p.a);
    p.a.fd = dup(child); /* the next connection does not begin with what was left */
    assert_false(weft_control_wants_write(&p.a));
    weft_control_hang_up(&p.a);
    assert_int_equal(weft_control_fill(&p.b), WEFT_E_PEER_LOST);
    close(child);
    close_pair(&p);
}

static void silence(void **state)
{
    (void)state;
    pair p = open_pair();
    p.b.heard_ns = 1;
    assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
    assert_int_equal(p.b.heard_ns, 1);
    assert_int_equal(write(p.a.fd, "x", 1), 1);
    assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
    assert_true(p.b.heard_ns > 1);
    close_pair(&p);
}

/* The first bytes of a handshake are answered in words that its end can read, and nothing later is. */
static void comes_by_tls(void **state)
{
    static const uint8_t hello[64] = {22, 3, 1, 0, 59, 1};
    (void)state;
    for (uint64_t nonce = 0; nonce < 2; nonce++) {
        pair p = open_pair();
        const uint8_t *body;
        weft_message type;
        uint64_t length;
        weft_wire_notice notice;
        p.b.nonce = nonce;
        assert_int_equal(write(p.a.fd, hello, sizeof hello), sizeof hello);
        assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
        assert_int_equal(weft_control_next(&p.b, &type, &body, &length), nonce ? WEFT_E_CORRUPT : WEFT_E_PROTOCOL);
        assert_int_equal(weft_control_fill(&p.a), WEFT_OK);
        assert_int_equal(weft_control_next(&p.a, &type, &body, &length), nonce ? WEFT_AGAIN : WEFT_OK);
        if (nonce == 0) {
            assert_int_equal(type, WEFT_MESSAGE_REFUSE);
            assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
            assert_non_null(strstr(notice.text, "speaks without tls"));
        }
        close_pair(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_of_messages),
        cmocka_unit_test(byte_by_byte),
        cmocka_unit_test(impossible_prefix),
        cmocka_unit_test(more_than_a_step_takes),
        cmocka_unit_test(end_of_stream),
        cmocka_unit_test(writes_to_a_closed_end),
        cmocka_unit_test(peer_that_does_not_read),
        cmocka_unit_test(long_tail),
        cmocka_unit_test(layouts),
        cmocka_unit_test(hung_up),
        cmocka_unit_test(silence),
        cmocka_unit_test(comes_by_tls),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}

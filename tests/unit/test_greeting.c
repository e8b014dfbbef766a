/* The exchange before a HELLO: the HELLO of a connection is the one that has the nonce of that connection's greeting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/control_pair.h"
#include "wire/greeting.h"

static pair open_named(void)
{
    pair p = open_pair();
    snprintf(p.b.peer, sizeof p.b.peer, "192.0.2.77:4711");
    return p;
}

/* The body of the one message that `from` queued comes to `to`. */
static const uint8_t *arrived(weft_control *from, weft_control *to, weft_message wanted, uint64_t *length)
{
    const uint8_t *body;
    weft_message type;
    assert_int_equal(weft_control_flush(from), WEFT_OK);
    assert_int_equal(weft_control_fill(to), WEFT_OK);
    assert_int_equal(weft_control_next(to, &type, &body, length), WEFT_OK);
    assert_int_equal(type, wanted);
    return body;
}

static void greet(pair *p)
{
    uint64_t length;
    assert_int_equal(weft_greeting_ask(&p->a), WEFT_OK);
    const uint8_t *body = arrived(&p->a, &p->b, WEFT_MESSAGE_HELLO, &length);
    assert_true(weft_wire_knocks(body, length));
    assert_int_equal(weft_greeting_give(&p->b, body, length), WEFT_OK);
    weft_control_drop(&p->b);
    body = arrived(&p->b, &p->a, WEFT_MESSAGE_GREETING, &length);
    assert_int_equal(weft_greeting_take(&p->a, body, length), WEFT_OK);
    weft_control_drop(&p->a);
    assert_true(p->a.nonce != 0 && p->a.nonce == p->b.nonce);
}

static void is_refused(const weft_control *control, uint64_t nonce, const char *words)
{
    const weft_wire_hello hello = {.name = "r0", .nonce = nonce};
    assert_int_equal(weft_greeting_check(control, &hello), WEFT_E_PROTOCOL);
    assert_non_null(strstr(weft_last_error(), words));
    assert_non_null(strstr(weft_last_error(), "192.0.2.77"));
    assert_non_null(weft_last_error_outside());
    assert_non_null(strstr(weft_last_error_outside(), words));
    assert_null(strstr(weft_last_error_outside(), "192.0.2.77")); /* the other end may be a relay */
}

static void one_nonce_for_one_connection(void **state)
{
    (void)state;
    pair first = open_named(), second = open_named();
    is_refused(&first.b, 0, "came before it was greeted");
    is_refused(&first.b, 7, "came before it was greeted");
    greet(&first);
    greet(&second);
    assert_true(first.b.nonce != second.b.nonce);
    assert_int_equal(weft_greeting_check(&first.b, &(weft_wire_hello){.nonce = first.a.nonce}), WEFT_OK);
    is_refused(&first.b, second.a.nonce, "answers the greeting of another connection");
    is_refused(&first.b, 0, "answers the greeting of another connection");
    close_pair(&first);
    close_pair(&second);
}

/* A record that serves one connection after the other has nothing of the one before. */
static void the_next_connection_is_greeted_anew(void **state)
{
    (void)state;
    int fd[2];
    pair p = open_named();
    greet(&p);
    const uint64_t nonce = p.b.nonce;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    weft_control_hang_up(&p.b);
    weft_control_adopt(&p.b, fd[0], 1000);
    snprintf(p.b.peer, sizeof p.b.peer, "192.0.2.77:4712");
    is_refused(&p.b, nonce, "came before it was greeted");
    close(fd[1]);
    close_pair(&p);
}

static void a_second_knock(void **state)
{
    (void)state;
    uint64_t length;
    pair p = open_named();
    greet(&p);
    const uint64_t nonce = p.b.nonce;
    assert_int_equal(weft_greeting_ask(&p.a), WEFT_OK);
    const uint8_t *body = arrived(&p.a, &p.b, WEFT_MESSAGE_HELLO, &length);
    assert_int_equal(weft_greeting_give(&p.b, body, length), WEFT_E_PROTOCOL);
    assert_true(p.b.nonce == nonce);
    assert_false(weft_control_is_pending(&p.b));
    close_pair(&p);
}

/* The lowest protocol of the GREETING for a knock of these protocols; 0: there is none, and no nonce either. */
static uint32_t lowest_for(uint16_t lowest, uint16_t highest)
{
    uint8_t knock[16];
    uint64_t length;
    pair p = open_named();
    uint32_t answer = 0;
    weft_out out = {knock, sizeof knock, 0, false};
    weft_wire_put_knock(&out, &(weft_wire_knock){lowest, highest});
    if (weft_greeting_give(&p.b, knock, out.used) == WEFT_OK)
        answer = (uint32_t)weft_bytes_get(arrived(&p.b, &p.a, WEFT_MESSAGE_GREETING, &length) + 8, 2);
    else
        assert_true(p.b.nonce == 0 && !weft_control_is_pending(&p.b));
    close_pair(&p);
    return answer;
}

static void protocols(void **state)
{
    (void)state;
    assert_int_equal(lowest_for(WEFT_PROTOCOL, WEFT_PROTOCOL), WEFT_PROTOCOL_LOWEST);
    assert_int_equal(lowest_for(2, WEFT_PROTOCOL), WEFT_PROTOCOL_LOWEST);
    assert_int_equal(lowest_for(2, 2), 2); /* an end of protocol 2 goes on, and its HELLO has the name to refuse */
    assert_int_equal(lowest_for(WEFT_PROTOCOL + 1, WEFT_PROTOCOL + 1), 0);
    assert_int_equal(lowest_for(1, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_nonce_for_one_connection),
        cmocka_unit_test(the_next_connection_is_greeted_anew),
        cmocka_unit_test(a_second_knock),
        cmocka_unit_test(protocols),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}

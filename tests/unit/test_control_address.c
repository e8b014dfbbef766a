/* Addresses of the control connection: dialled and listened at over loopback, and those that are none. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/control_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define PATIENCE 5000 /* ms; what is waited for comes at once or the test fails */

static void wait_for(int fd, short events)
{
    struct pollfd wait = {.fd = fd, .events = events};
    assert_int_equal(poll(&wait, 1, PATIENCE), 1);
}

/* Dials `address` at which `listen_fd` listens; both ends are joined and a message passes each way. */
static void joins(int listen_fd, const char *address)
{
    pair p;
    uint64_t taken = 0, back = 0;
    assert_int_equal(weft_control_open(&p.a), WEFT_OK);
    assert_int_equal(weft_control_open(&p.b), WEFT_OK);
    assert_int_equal(weft_control_dial(&p.a, address, 1000), WEFT_OK);
    assert_string_equal(p.a.peer, address);
    assert_int_equal(send_nth(&p.a, 0), WEFT_OK); /* queued while the dial goes on */
    wait_for(listen_fd, POLLIN);
    int fd = accept(listen_fd, NULL, NULL);
    assert_true(fd >= 0);
    weft_control_adopt(&p.b, fd, 1000);
    wait_for(p.a.fd, POLLOUT);
    assert_int_equal(weft_control_flush(&p.a), WEFT_OK);
    assert_false(p.a.connecting);
    assert_int_equal(send_nth(&p.b, 0), WEFT_OK);
    assert_int_equal(weft_control_flush(&p.b), WEFT_OK);
    wait_for(p.b.fd, POLLIN);
    wait_for(p.a.fd, POLLIN);
    assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
    assert_int_equal(weft_control_fill(&p.a), WEFT_OK);
    take_stream(&p.b, &taken);
    take_stream(&p.a, &back);
    assert_int_equal(taken, 1);
    assert_int_equal(back, 1);
    close_pair(&p);
}

static void loopback(void **state)
{
    (void)state;
    char bound[64];
    int fd;
    assert_int_equal(weft_control_listen("127.0.0.1:0", &fd, bound), WEFT_OK);
    assert_int_equal(strncmp(bound, "127.0.0.1:", 10), 0);
    assert_true(atoi(bound + 10) > 0);
    joins(fd, bound);
    close(fd);
}

static void loopback_six(void **state)
{
    (void)state;
    char bound[64];
    int fd;
    if (weft_control_listen("[::1]:0", &fd, bound) != WEFT_OK)
        skip(); /* a host without IPv6 */
    assert_int_equal(strncmp(bound, "[::1]:", 6), 0);
    joins(fd, bound);
    close(fd);
}

static void used_port(void **state)
{
    (void)state;
    char bound[64], other[64];
    int fd, second;
    assert_int_equal(weft_control_listen("127.0.0.1:0", &fd, bound), WEFT_OK);
    assert_int_equal(weft_control_listen(bound, &second, other), WEFT_E_SYSTEM);
    assert_int_equal(second, -1);
    assert_non_null(strstr(weft_last_error(), bound));
    assert_non_null(strstr(weft_last_error(), "another port"));
    close(fd);
}

static void closed_port(void **state)
{
    (void)state;
    char bound[64];
    int fd;
    weft_control control;
    assert_int_equal(weft_control_listen("127.0.0.1:0", &fd, bound), WEFT_OK);
    close(fd);
    assert_int_equal(weft_control_open(&control), WEFT_OK);
    weft_status status = weft_control_dial(&control, bound, 1000);
    if (status == WEFT_OK) {
        wait_for(control.fd, POLLOUT);
        status = weft_control_flush(&control);
    }
    assert_int_equal(status, WEFT_E_UNREACHABLE);
    assert_non_null(strstr(weft_last_error(), bound));
    weft_control_close(&control);
}

static void wrong_addresses(void **state)
{
    (void)state;
    const char *const wrong[] = {"",      "127.0.0.1", "127.0.0.1:",      "127.0.0.1:http", "127.0.0.1:99999",
                                 "[::1]", "[::1:77",   "127.0.0.1:70000", "localhost"};
    static const char name[] = "localhost:7117";
    weft_control control;
    char bound[64];
    int fd;
    assert_int_equal(weft_control_open(&control), WEFT_OK);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        weft_status dialled = weft_control_dial(&control, wrong[i], 1000);
        weft_status listened = weft_control_listen(wrong[i], &fd, bound);
        if (dialled != WEFT_E_CONFIG || listened != WEFT_E_CONFIG)
            fail_msg("\"%s\": dial %s, listen %s", wrong[i], weft_status_name(dialled), weft_status_name(listened));
    }
    assert_int_equal(weft_control_dial(&control, name, 1000), WEFT_E_CONFIG); /* a name server is asked elsewhere */
    assert_int_equal(control.fd, -1);
    weft_control_close(&control);
}

/* A forked child has the socket too; and who was connected there does not keep the port. */
static void listens_anew(void **state)
{
    (void)state;
    char bound[64], again[64];
    int fd;
    weft_control control;
    assert_int_equal(weft_control_open(&control), WEFT_OK);
    assert_int_equal(weft_control_listen("127.0.0.1:0", &fd, bound), WEFT_OK);
    const int child = dup(fd);
    assert_int_equal(weft_control_dial(&control, bound, 1000), WEFT_OK);
    wait_for(fd, POLLIN);
    const int accepted = accept(fd, NULL, NULL);
    weft_control_unlisten(fd);
    close(accepted); /* this end closes first, and so keeps the port in TIME_WAIT */
    weft_control_close(&control);
    assert_int_equal(weft_control_listen(bound, &fd, again), WEFT_OK);
    assert_string_equal(bound, again);
    weft_control_unlisten(fd);
    weft_control_unlisten(-1);
    close(child);
}

/* Only what the kernel refuses is judged. */
static void sources(void **state)
{
    (void)state;
    char source[64];
    const struct {
        const char *to, *from;
    } reach[] = {{"127.0.0.1:9", "127.0.0.1"},
                 {"127.0.0.1:9", "127.0.0.2"},
                 {"[::1]:9", "127.0.0.1"},
                 {"192.0.2.1:9", ""},
                 {"192.0.2.1:9", "eth0"},
                 {"a name:9", "127.0.0.1"},
                 {"", "127.0.0.1"},
                 {"192.0.2.1:9", "192.0.2.7"}};
    for (size_t i = 0; i < COUNT(reach); i++)
        if (!weft_control_reaches(reach[i].to, reach[i].from))
            fail_msg("%s is not reached from \"%s\"", reach[i].to, reach[i].from);
    if (weft_control_route("192.0.2.1:9", source, sizeof source) == WEFT_OK) { /* this host has a way out */
        assert_false(weft_control_reaches("192.0.2.1:9", "127.0.0.1"));
        assert_true(weft_control_reaches("192.0.2.1:9", source));
    }
}

/* The interface may come up later. */
static void an_address_of_no_interface(void **state)
{
    int fd = 0;
    char bound[64];
    (void)state;
    assert_int_equal(weft_control_listen("192.0.2.1:0", &fd, bound), WEFT_AGAIN);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(weft_last_error(), "no interface of this host has that address"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback),        cmocka_unit_test(loopback_six),
        cmocka_unit_test(used_port),       cmocka_unit_test(closed_port),
        cmocka_unit_test(wrong_addresses), cmocka_unit_test(listens_anew),
        cmocka_unit_test(sources),         cmocka_unit_test(an_address_of_no_interface),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}

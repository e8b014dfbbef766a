/* Ducts: which port one leads to, whose connection is taken over, and DUCT before everything else. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/control_pair.h"
#include "wire/duct.h"

/* ---- a provider with one port, whose address is ADDRESS */

#define ADDRESS "port-1"
static weft_pipe *piped; /* the pipe of the port */

static weft_status port_address(const weft_port *port, uint8_t *address, uint32_t *length)
{
    (void)port;
    memcpy(address, ADDRESS, *length = sizeof ADDRESS - 1);
    return WEFT_OK;
}

static weft_status port_pipe(weft_port *port, weft_pipe *pipe)
{
    (void)port;
    if (piped)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "the port has a pipe");
    piped = pipe;
    return WEFT_OK;
}

static const weft_provider provider = {
    .caps = WEFT_PROVIDER_PIPED, .port_address = port_address, .port_pipe = port_pipe};
static weft_port *const port = (weft_port *)&piped;

/* ---- tests */

static void leads(void **state)
{
    static const struct {
        const char *address;
        bool leads;
    } rows[] = {{"port-1", true}, {"port-2", false}, {"Port-1", false},  {"pOrt-1", false},
                {"port-", false}, {"", false},       {"port-1!", false}, {"port-1port-1", false}};
    const weft_provider plain = {.port_address = port_address};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_wire_duct duct = {.address_bytes = (uint32_t)strlen(rows[i].address)};
        memcpy(duct.address, rows[i].address, duct.address_bytes);
        assert_int_equal(weft_duct_leads(&duct, &provider, port), rows[i].leads);
        assert_false(weft_duct_leads(&duct, &provider, NULL));
        assert_false(weft_duct_leads(&duct, &plain, port));
    }
}

/* A connection over which DUCT came, and `more` bytes after it. */
static void duct_comes(weft_control *control, int *other, uint32_t more)
{
    static const uint8_t words[] = {8, 0, 0, 0, WEFT_MESSAGE_DUCT, 0, 0, 0, 6, 0, 'p', 'o', 'r', 't', '-', '1', 9};
    const uint8_t *body;
    weft_message type;
    uint64_t length;
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(weft_control_open(control), WEFT_OK);
    weft_control_adopt(control, fd[0], 1000);
    *other = fd[1];
    assert_int_equal(write(fd[1], words, 16 + more), 16 + more);
    assert_int_equal(weft_control_fill(control), WEFT_OK);
    assert_int_equal(weft_control_next(control, &type, &body, &length), WEFT_OK);
    assert_int_equal(type, WEFT_MESSAGE_DUCT);
}

/* Who refuses has the connection still, by which it says so. */
static void is_refused(uint32_t more)
{
    weft_control control;
    int other;
    char byte;
    duct_comes(&control, &other, more);
    const weft_pipe *before = piped;
    const uint64_t blocks = weft_mem_blocks();
    assert_int_equal(weft_duct_take(&control, &provider, port), WEFT_E_PROTOCOL);
    assert_ptr_equal(piped, before);
    assert_int_equal(weft_mem_blocks(), blocks);
    assert_int_equal(send(control.fd, "x", 1, 0), 1);
    assert_int_equal(recv(other, &byte, 1, MSG_DONTWAIT), 1);
    weft_control_close(&control);
    close(other);
}

static void taken_over(void **state)
{
    weft_control control;
    int other;
    char byte = 0;
    uint64_t moved;
    (void)state;
    piped = NULL;
    is_refused(1);
    const uint64_t blocks = weft_mem_blocks();
    duct_comes(&control, &other, 0);
    assert_int_equal(weft_duct_take(&control, &provider, port), WEFT_OK);
    assert_non_null(piped);
    assert_int_equal(control.fd, -1);
    weft_control_close(&control); /* has nothing of the connection any more */
    is_refused(0);                /* the port has one */
    assert_int_equal(write(other, "y", 1), 1);
    assert_int_equal(piped->calls->read(piped, &byte, 1, &moved), WEFT_OK);
    assert_true(moved == 1 && byte == 'y');
    assert_int_equal(piped->calls->write(piped, "z", 1, &moved), WEFT_OK);
    assert_int_equal(recv(other, &byte, 1, MSG_DONTWAIT), 1); /* and no DUCT of this end's */
    assert_int_equal(byte, 'z');
    piped->calls->close(piped);
    assert_int_equal(weft_mem_blocks(), blocks);
    assert_int_equal(recv(other, &byte, 1, MSG_DONTWAIT), 0);
    close(other);
}

/* DUCT leaves first, whichever call the provider makes first. */
static void dialed(void **state)
{
    static const char said[] = "\10\0\0\0\34\0\0\0\6\0port-1!";
    const weft_provider plain = {0};
    (void)state;
    for (int reads = 0; reads < 2; reads++) {
        weft_control control = {.fd = -1, .user_timeout_ms = 1000};
        char got[sizeof said] = {0};
        int listening, accepted;
        uint64_t moved = 0;
        piped = NULL;
        assert_int_equal(weft_control_listen("127.0.0.1:0", &listening, control.peer), WEFT_OK);
        assert_int_equal(weft_duct_dial(&control, &plain, port, (const uint8_t *)ADDRESS, 6), WEFT_OK);
        assert_null(piped);
        assert_int_equal(weft_duct_dial(&control, &provider, port, (const uint8_t *)ADDRESS, 6), WEFT_OK);
        while (reads && piped->calls->wants_write(piped))
            assert_int_equal(piped->calls->read(piped, got, sizeof got, &moved), WEFT_OK);
        assert_int_equal(moved, 0);
        while (moved == 0)
            assert_int_equal(piped->calls->write(piped, "!", 1, &moved), WEFT_OK);
        assert_false(piped->calls->wants_write(piped));
        assert_int_equal(poll(&(struct pollfd){listening, POLLIN, 0}, 1, 5000), 1);
        accepted = accept(listening, NULL, NULL);
        piped->calls->close(piped);
        assert_int_equal(recv(accepted, got, sizeof got, MSG_WAITALL), sizeof said - 1);
        assert_memory_equal(got, said, sizeof said - 1);
        close(accepted);
        close(listening);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leads),
        cmocka_unit_test(taken_over),
        cmocka_unit_test(dialed),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}

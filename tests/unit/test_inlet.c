/* A port that fails: the trainer hears of it while another port is well, and the connection is lost with the last. */
#include <sys/socket.h>

#include "rollout/intake.h"
#include "rollout/joining.h"
#include "tests/support/control_pair.h"

static void the_last_port_loses_the_connection(void **state)
{
    (void)state;
    pair p;
    int fd[2], thing;
    weft_intake intake = {.inlet_count = 2};
    weft_joining joining = {.state = WEFT_JOIN_JOINED};
    const uint8_t *body;
    uint64_t length;
    weft_message type;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(weft_control_open(&joining.control), WEFT_OK);
    assert_int_equal(weft_control_open(&p.b), WEFT_OK);
    weft_control_adopt(&joining.control, fd[0], 1000);
    weft_control_adopt(&p.b, fd[1], 1000);
    for (uint32_t at = 0; at < 2; at++)
        intake.inlets[at].port = (weft_port *)&thing; /* which nobody looks into */
    assert_int_equal(weft_inlet_fail(&intake, &joining, &intake.inlets[1], WEFT_E_PROVIDER), WEFT_OK);
    assert_true(intake.inlets[1].failed && !intake.inlets[0].failed);
    assert_int_equal(weft_control_flush(&joining.control), WEFT_OK);
    assert_int_equal(weft_control_fill(&p.b), WEFT_OK);
    assert_int_equal(weft_control_next(&p.b, &type, &body, &length), WEFT_OK);
    assert_int_equal(type, WEFT_MESSAGE_LANDED);
    assert_int_equal(weft_inlet_fail(&intake, &joining, &intake.inlets[0], WEFT_E_PROVIDER), WEFT_E_PEER_LOST);
    assert_true(intake.inlets[0].failed);
    weft_control_close(&joining.control);
    weft_control_close(&p.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_port_loses_the_connection)};
    return cmocka_run_group_tests(tests, setup, NULL);
}

/* A port that fails: the trainer hears of it while another port is well, and the connection is lost with the last. And
 * questions about ports without end. */
#include <sys/socket.h>

#include "rollout/rollout.h"
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

/* However many LOOKs are here, a turn polls and answers once, and the next comes at once. */
static void one_look_a_turn(void **state)
{
    (void)state;
    weft_control trainer;
    int fd[2];
    static weft_session session;
    static weft_rollout rollout;
    rollout.session = &session;
    rollout.intake.inlet_count = 2;
    rollout.joining.state = WEFT_JOIN_JOINED;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(weft_control_open(&rollout.joining.control), WEFT_OK);
    assert_int_equal(weft_control_open(&trainer), WEFT_OK);
    weft_control_adopt(&rollout.joining.control, fd[0], 1000);
    weft_control_adopt(&trainer, fd[1], 1000);
    for (int i = 0; i < 40; i++)
        assert_int_equal(weft_control_send(&trainer, WEFT_MESSAGE_LOOK, NULL, 0), WEFT_OK);
    assert_int_equal(weft_control_flush(&trainer), WEFT_OK);
    for (uint64_t i = 0, one = 0, before = 0; i < 40; i++, before = rollout.joining.control.out_end) {
        weft_waits waits = {.busy = false};
        assert_int_equal(weft_dispatch_step(&rollout, &waits), WEFT_OK);
        one = i == 0 ? rollout.joining.control.out_end : one;
        assert_true(waits.busy && one > 0);
        assert_int_equal(rollout.joining.control.out_end - before, one);
    }
    weft_control_close(&rollout.joining.control);
    weft_control_close(&trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_port_loses_the_connection),
        cmocka_unit_test(one_look_a_turn),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}

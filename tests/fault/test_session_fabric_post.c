/* A fabric whose writes fail, are refused or never end: peers are lost by their deadlines, and come back. */
#include "tests/support/fleet_faulty.h"

static bool one_is_lost(fleet *f)
{
    return fleet_event(f->trainer.session, WEFT_EVENT_LOST, NULL, 0, NULL);
}

/* Waits until a deadline has reported the loss. */
static void endure_until_lost(fleet *f, weft_loop_faults faults)
{
    faulty_start(f);
    fleet_suffer_until(f, 2, faults, one_is_lost);
    fleet_recover(f, 2);
}

static void fail_often(void **state)
{
    faulty_endure(*state, (weft_loop_faults){.fail_every = 9});
}

static void fail_all(void **state)
{
    faulty_endure(*state, (weft_loop_faults){.fail_every = 1});
}

static void break_port(void **state)
{
    faulty_endure(*state, (weft_loop_faults){.break_at = 3});
}

/* Refused posts are no fault as long as they end before the deadline. */
static void again(void **state)
{
    fleet *f = *state;
    faulty_start(f);
    weft_loop_set_faults(&(weft_loop_faults){.again_every = 2});
    for (int i = 0; i < 5; i++) {
        fleet_publish(f, 200);
        fleet_catch_up(f, 0);
        fleet_catch_up(f, 1);
    }
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    fleet_recover(f, 2);
}

static void again_for_long(void **state)
{
    endure_until_lost(*state, (weft_loop_faults){.again_every = 1});
}

static void stall(void **state)
{
    endure_until_lost(*state, (weft_loop_faults){.stall_after = 4});
}

#define TEST(name) FLEET_TEST(name, faulty_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(fail_often),     TEST(fail_all),
                                       TEST(break_port),     FLEET_TEST(again, patient_fleet),
                                       TEST(again_for_long), TEST(stall)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A fabric that corrupts, drops, doubles and reorders: never a wrong bit, never a hang, and when the fault ends all are
 * identical. */
#include "tests/support/fleet_faulty.h"

static bool three_corrupted(fleet *f)
{
    weft_loop_counts counts;
    (void)f;
    weft_loop_counted(&counts);
    return counts.corrupted >= 3;
}

static void corrupt_often(void **state)
{
    fleet *f = *state;
    faulty_start(f);
    fleet_suffer_until(f, 2, (weft_loop_faults){.seed = 3, .corrupt_every = 7}, three_corrupted);
    fleet_recover(f, 2);
    assert_true(fleet_stats(f->trainer.session).peers_lost > 0);
}

static void corrupt_all(void **state)
{
    faulty_endure(*state, (weft_loop_faults){.seed = 4, .corrupt_every = 1});
}

/* Each write of an update in turn, once: a header, a first, a last chunk. */
static void corrupt_each_once(void **state)
{
    fleet *f = *state;
    faulty_start(f);
    for (uint64_t n = 1; n <= 5; n++) {
        weft_loop_set_faults(&(weft_loop_faults){.seed = n, .corrupt_at = n});
        fleet_publish(f, 100);
        fleet_catch_up(f, 0);
        fleet_catch_up(f, 1);
    }
    assert_true(fleet_stats(f->rollouts[0].session).check_failures +
                fleet_stats(f->rollouts[1].session).check_failures);
    fleet_recover(f, 2);
}

static void drop_often(void **state)
{
    faulty_endure(*state, (weft_loop_faults){.drop_every = 5});
}

/* Whole buckets vanish, and the fabric reports to the sender that they landed. */
static void drop_all(void **state)
{
    faulty_endure(*state, (weft_loop_faults){.drop_every = 1});
}

/* No other message comes, so only a deadline at the receiver can notice. */
static void drop_each_once(void **state)
{
    fleet *f = *state;
    faulty_start(f);
    for (uint64_t n = 1; n <= 4; n++) {
        weft_loop_set_faults(&(weft_loop_faults){.drop_at = n});
        fleet_publish(f, 100);
        fleet_catch_up(f, 0);
        fleet_catch_up(f, 1);
    }
    fleet_recover(f, 2);
}

static void duplicate(void **state)
{
    faulty_endure(*state, (weft_loop_faults){.duplicate_every = 6});
}

/* Order is nothing that the fabric promised: no version may be lost for it. */
static void reorder(void **state)
{
    fleet *f = *state;
    faulty_start(f);
    weft_loop_set_faults(&(weft_loop_faults){.seed = 9, .reorder_window = 8});
    for (int i = 0; i < 5; i++) {
        fleet_publish(f, 200);
        fleet_catch_up(f, 0);
        fleet_catch_up(f, 1);
    }
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    fleet_recover(f, 2);
}

#define TEST(name) FLEET_TEST(name, faulty_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(corrupt_often), TEST(corrupt_all),    TEST(corrupt_each_once), TEST(drop_often),
        TEST(drop_all),      TEST(drop_each_once), TEST(duplicate),         FLEET_TEST(reorder, patient_fleet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

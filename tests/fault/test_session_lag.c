/* max_lag: reported once for each crossing, and the peer is dropped if the site wants that. */
#include "tests/support/fleet.h"

#include <string.h>

#define LAGS "trainer.journal=256MiB", "peer.b.max_lag=3"

static const fleet_kind warn_fleet = {FLEET_SMALL, .starts = true,
                                      .overrides = FLEET_WITH(LAGS, "peers.lag_action=warn"), .joins = 2};

static const fleet_kind drop_fleet = {FLEET_SMALL, .starts = true,
                                      .overrides = FLEET_WITH(LAGS, "peers.lag_action=drop"), .joins = 2};

static void publish(fleet *f, int versions)
{
    for (int i = 0; i < versions; i++)
        fleet_publish(f, 20);
}

static void warned_once_a_crossing(void **state)
{
    fleet *f = *state;
    weft_event event;
    weft_session *trainer = f->trainer.session;
    publish(f, 3);
    assert_false(fleet_event(trainer, WEFT_EVENT_LAGGING, NULL, 0, NULL));
    assert_int_equal(fleet_line(f, "b").lag, 3);
    assert_true(fleet_line(f, "b").lag_ms > 0);
    publish(f, 3);
    assert_true(
        fleet_event(trainer, WEFT_EVENT_LAGGING, "b", 0, &event)); /* nothing is reported of a, which has no bound */
    assert_non_null(strstr(event.text, "lags 4 versions"));
    assert_false(fleet_event(trainer, WEFT_EVENT_LAGGING, NULL, 0, NULL));
    fleet_catch_up(f, 1);
    assert_int_equal(weft_wait(trainer, f->newest, (const char *[]){"b"}, 1, FLEET_WAIT_MS), WEFT_OK);
    assert_int_equal(fleet_line(f, "b").lag, 0);
    assert_true(fleet_line(f, "b").lag_ms == 0);
    publish(f, 4);
    assert_true(fleet_event(trainer, WEFT_EVENT_LAGGING, "b", 0, NULL));
    assert_int_equal(fleet_stats(trainer).peers_lost, 0);
}

/* It counts from when the first version that it lacks was published, however long it has been there itself. */
static void counted_from_the_first_missed(void **state)
{
    fleet *f = *state;
    fleet_sleep_ms(300);
    uint64_t begun = fleet_now_ms();
    publish(f, 1);
    fleet_sleep_ms(20);
    publish(f, 1);
    double lag_ms = fleet_line(f, "b").lag_ms;
    uint64_t most = fleet_now_ms() - begun + 1;
    if (lag_ms < 20 || lag_ms > (double)most)
        fail_msg("%.1f ms, not 20 to %llu", lag_ms, (unsigned long long)most);
}

static void dropped_and_back(void **state)
{
    fleet *f = *state;
    weft_event event;
    publish(f, 3);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    publish(f, 1);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, "b", 0, &event));
    assert_non_null(strstr(event.text, "max_lag = 3"));
    fleet_catch_up(f, 1);
    fleet_catch_up(f, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(warned_once_a_crossing, warn_fleet),
        FLEET_TEST(counted_from_the_first_missed, warn_fleet),
        FLEET_TEST(dropped_and_back, drop_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

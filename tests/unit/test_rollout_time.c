/* One end of a rollout, whose trainer is the test: when it dials, what it says then, and what it waits for. */
#include "tests/support/rollout_end.h"

/* A step at the time `ms` from now, in which the trainer was heard just before, or not. */
static void step_after(uint64_t ms, bool heard)
{
    own_now += ms * WEFT_NS_PER_MS;
    if (heard)
        end->joining.control.heard_ns = own_now;
    weft_rollout_step(end, true, &(weft_waits){.wake_ns = UINT64_MAX});
}

static void is_lost(const char *words)
{
    assert_int_equal(end->joining.state, WEFT_JOIN_AWAY);
    if (!strstr(end->joining.away_text, words))
        fail_msg("\"%s\" does not say \"%s\"", end->joining.away_text, words);
    connect_end();
    end->joining.control.heard_ns = own_now;
}

/* Four pings a heartbeat, and silence for one is the end. */
static void silence_ends_a_connection(void **state)
{
    (void)state;
    end->wishing.offers = true;
    end->joining.control.heard_ns = own_now;
    for (int i = 0; i < 4; i++) {
        step_after(HEARTBEAT / 4, false);
        must_say(WEFT_MESSAGE_PING);
        assert_true(is_silent());
    }
    step_after(1, false);
    is_lost("is silent for 201 ms");
    assert_false(end->wishing.offers);
}

static void what_stands_still_is_lost(void **state)
{
    (void)state;
    speak((word){'U', H, 6});
    step_after(0, true);
    step_after(PATIENCE, true);
    assert_int_equal(end->joining.state, WEFT_JOIN_JOINED);
    step_after(1, true);
    is_lost("version 6 stands still for 300 ms (io_deadline) at bucket 0");
    end->course.state = WEFT_COURSE_REPAIR;
    end->intake.moved_ns = own_now;
    step_after(PATIENCE + HEARTBEAT, true);
    assert_int_equal(end->joining.state, WEFT_JOIN_JOINED);
    step_after(1, true);
    is_lost("no repair was begun for 500 ms");
}

static void pauses_double_up_to_a_second(void **state)
{
    static const uint64_t pauses_ms[] = {20, 40, 80, 160, 320, 640, 1000, 1000, 1000};
    (void)state;
    end->joining.retries = 0;
    for (size_t i = 0; i < sizeof pauses_ms / sizeof *pauses_ms; i++) {
        end->joining.state = WEFT_JOIN_DIALING;
        weft_join_lose(end, WEFT_E_UNREACHABLE, "of this test");
        assert_int_equal((end->joining.retry_ns - own_now) / WEFT_NS_PER_MS, pauses_ms[i]);
    }
    assert_false(fleet_event(end->session, WEFT_EVENT_LOST, NULL, 0, NULL)); /* no trainer was there to be lost */
}

/* Nothing is dialed while a commit writes the weights, and what was said before is void. Weights in doubt are digested
 * first: what is staged is given up, and bits that somebody else wrote have no label. */
static void what_a_dial_waits_for(void **state)
{
    weft_waits waits = {.wake_ns = UINT64_MAX};
    (void)state;
    pthread_mutex_lock(&end->session->lock);
    end->joining.state = WEFT_JOIN_AWAY;
    end->joining.retry_ns = 0;
    end->course.state = WEFT_COURSE_COMMITTING;
    for (int greets = 0; greets < 2; greets++) {
        end->joining.state = greets ? WEFT_JOIN_GREETING : WEFT_JOIN_AWAY;
        weft_join_step(end, own_now, &waits);
        assert_int_equal(end->joining.state, WEFT_JOIN_AWAY);
        assert_int_equal(end->joining.dialed_ns, 0);
    }
    end->course.state = WEFT_COURSE_RECEIVING;
    end->joining.state = WEFT_JOIN_GREETING;
    end->current.doubt = true;
    weft_join_step(end, own_now, &waits);
    pthread_mutex_unlock(&end->session->lock);
    is_lost("the weights changed while they were told of");
    pthread_mutex_lock(&end->session->lock);
    end->joining.state = WEFT_JOIN_AWAY;
    end->joining.retry_ns = 0;
    end->course.state = WEFT_COURSE_STAGED;
    end->current.doubt = true;
    *fleet_model_at(&f->rollouts[0].model, fleet_tensor_at(f->layout, "bytes")) ^= 1;
    weft_join_step(end, own_now, &waits);
    assert_false(end->current.doubt);
    assert_int_equal(end->current.version.run, 0);
    assert_int_equal(end->course.state, WEFT_COURSE_RECEIVING);
    assert_int_equal(end->joining.dialed_ns, own_now);
    pthread_mutex_unlock(&end->session->lock);
}

/* Each connection has another epoch. After three faults in a row HELLO claims to hold nothing. */
static void hello_says_what_is(void **state)
{
    uint32_t epoch = 0;
    (void)state;
    for (uint32_t faults = 0; faults < 5; faults++) {
        weft_wire_hello hello;
        connect_end();
        end->joining.control.nonce = 7;
        end->joining.faults = faults;
        assert_int_equal(weft_greet_hello(end), WEFT_OK);
        const uint64_t length = must_say(WEFT_MESSAGE_HELLO);
        assert_int_equal(weft_wire_get_hello(said, length, &hello), WEFT_OK);
        assert_int_equal(hello.holds, faults < 3);
        assert_true(hello.epoch != epoch);
        epoch = hello.epoch;
        weft_inlet_close(&end->intake, false);
    }
    end->joining.faults = 0;
}

static const struct {
    uint32_t at, faults; /* the way that was joined: two relays, then the trainer */
    bool silent;
    uint32_t first, second; /* ways that are dialed then */
} ways[] = {
    {0, 0, false, 0, 1}, {0, 1, false, 1, 2}, {0, 2, false, 2, 0}, {0, 3, false, 0, 1},
    {0, 0, true, 1, 2},  {1, 0, true, 0, 2},  {1, 1, true, 2, 0},  {2, 0, true, 0, 1},
};

static void where_a_rollout_dials(void **state)
{
    weft_joining joining = {
        .route = {.count = 3,
                  .gateways = {{.relay = "one", .place = 0}, {.relay = "two", .place = 1}, {.relay = "", .place = 2}}}};
    const weft_site_peer site = {.heartbeat_ms = 8000};
    (void)state;
    for (size_t row = 0; row < sizeof ways / sizeof *ways; row++) {
        joining.route.at = ways[row].at;
        weft_gateway_begin(&joining.route, ways[row].faults, ways[row].silent);
        const uint32_t first = joining.route.at;
        weft_gateway_next(&joining.route);
        if (first != ways[row].first || joining.route.at != ways[row].second)
            fail_msg("row %zu: %u, %u", row, first, joining.route.at);
    }
    joining.route.at = 0;
    for (int i = 0; i < 8; i++) { /* at the first join alone a relay has a heartbeat to be there */
        joining.was_joined = i & 1;
        joining.faults = i & 2;
        joining.route.since_ns = 1;
        const uint64_t now_ns = i & 4 ? 8001 * WEFT_NS_PER_MS : 7999 * WEFT_NS_PER_MS;
        assert_int_equal(weft_gateway_again(&joining, &site, now_ns), i == 0);
    }
    for (int i = 0; i < 8; i++) { /* where another relay was lost, an eighth of it */
        joining.route.at = i & 1 ? 2 : 0;
        joining.route.brief = i & 2;
        joining.state = i & 4 ? WEFT_JOIN_GREETING : WEFT_JOIN_KNOCKING;
        assert_int_equal(weft_gateway_patience_ms(&joining, &site, 10000), i & 1 ? 10000 : i == 2 ? 1000 : 8000);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(silence_ends_a_connection), TEST(what_stands_still_is_lost), TEST(pauses_double_up_to_a_second),
        TEST(what_a_dial_waits_for),     TEST(hello_says_what_is),        cmocka_unit_test(where_a_rollout_dials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

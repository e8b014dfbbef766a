/* A clock of one's own: sessions ask it alone, and let its time pass instead of sleeping. */
#include "tests/support/fleet.h"

#include <time.h>

#include "base/clock.h"

typedef struct hand {
    uint64_t now_ns;
    uint64_t passed; /* calls */
} hand;

static uint64_t now_ns(void *user)
{
    return ((hand *)user)->now_ns;
}

static void pass(void *user, uint64_t ns)
{
    hand *h = user;
    h->now_ns += ns;
    h->passed++;
}

static void own_time(void **state)
{
    hand h = {.now_ns = 5};
    const weft_clock clock = {now_ns, pass, &h};
    (void)state;
    weft_clock_own = &clock;
    assert_int_equal(weft_clock_ns(), 5);
    weft_clock_pass(UINT64_C(3600) * 1000000000);
    assert_int_equal(weft_clock_ns(), UINT64_C(3600) * 1000000000 + 5);
    weft_clock_own = NULL;
    assert_true(weft_clock_ns() != UINT64_C(3600) * 1000000000 + 5);
}

static void system_time_goes_on(void **state)
{
    (void)state;
    uint64_t before = weft_clock_ns();
    weft_clock_pass(WEFT_NS_PER_MS);
    assert_true(weft_clock_ns() >= before + WEFT_NS_PER_MS);
}

/* Hours of deadlines pass in less than a second of the system's time, and no trainer answers this rollout. */
static void a_session_waits_by_it(void **state)
{
    static const char *const overrides[] = {"session.progress=manual", "session.connect_deadline=3600s", NULL};
    hand h = {.now_ns = 1};
    const weft_clock clock = {now_ns, pass, &h};
    weft_staged_info info = {.size = sizeof info};
    weft_layout *layout = NULL;
    (void)state;
    weft_clock_own = &clock;
    fleet *f = fleet_open(FLEET_SMALL, overrides);
    snprintf(f->listen, sizeof f->listen, "trainer.listen=127.0.0.1:1"); /* no trainer listens there */
    fleet_join(f, 0, FLEET_EMPTY);
    assert_int_equal(weft_staged(f->rollouts[0].session, 1800000, &info), WEFT_AGAIN);
    assert_true(h.now_ns >= 1800 * UINT64_C(1000000000) && h.now_ns < 1802 * UINT64_C(1000000000));
    assert_int_equal(weft_staged(f->rollouts[0].session, 1801000, &info), WEFT_E_UNREACHABLE);
    assert_true(h.now_ns >= 3600 * UINT64_C(1000000000) && h.now_ns < 3604 * UINT64_C(1000000000));
    weft_site *site = fleet_site(f, NULL);
    assert_int_equal(weft_layout_fetch(site, "b", 600000, &layout), WEFT_E_UNREACHABLE);
    weft_site_free(site);
    assert_true(h.now_ns >= 4200 * UINT64_C(1000000000) && h.passed > 0);
    fleet_close(f);
    weft_clock_own = NULL;
}

static void a_thread_would_sleep_by_another(void **state)
{
    hand h = {.now_ns = 1};
    const weft_clock clock = {now_ns, pass, &h};
    (void)state;
    weft_clock_own = &clock;
    fleet *f = fleet_open(FLEET_SMALL, NULL);
    fleet_open_rollout(f, 0, NULL);
    fleet_model_open(&f->rollouts[0].model, f->layout, 0);
    const void *data = f;
    uint64_t bytes = 1;
    assert_int_equal(weft_bind(f->rollouts[0].session, f->rollouts[0].model.pieces, f->rollouts[0].model.piece_count,
                               "text", 4, WEFT_BIND_EMPTY),
                     WEFT_E_STATE);
    assert_int_equal(weft_attachment(f->rollouts[0].session, &data, &bytes), WEFT_OK);
    assert_true(!data && !bytes); /* nothing is left of a bind that failed */
    fleet_close(f);
    weft_clock_own = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_time), cmocka_unit_test(system_time_goes_on),
                                       cmocka_unit_test(a_session_waits_by_it),
                                       cmocka_unit_test(a_thread_would_sleep_by_another)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

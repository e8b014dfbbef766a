/* Ends that prove a name and then send KeyUpdates of tls instead of words. Trainer, relay, and the rollout that dialed
 * such an end drop it with a line that names it, and go on. */
#include "tests/support/fleet_fake.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/fleet_keys.h"
#include "tests/support/seal_flood.h"

#define FLOOD 64u

static fleet_keys keys;
static fleet_fake fake;
static int listener;
static struct {
    const char *end, *text;
    uint32_t lines;
} wanted;

static void hear(void *user, weft_log_level level, const char *line)
{
    (void)level;
    wanted.lines += wanted.end && strcmp(user, wanted.end) == 0 && strstr(line, wanted.text);
}

static void want(const char *end, const char *text)
{
    wanted.end = end;
    wanted.text = text;
    wanted.lines = 0;
}

/* Waits for the line, which comes once. */
static void must_tell(weft_session *session)
{
    const uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS;
    weft_event event = {.size = sizeof event};
    for (;;) {
        while (weft_events(session, &event) == WEFT_OK)
            ;
        if (wanted.lines > 0)
            break;
        if (fleet_now_ms() > until_ms)
            fail_msg("%s does not say '%s'", wanted.end, wanted.text);
        fleet_sleep_ms(5);
    }
    assert_int_equal(wanted.lines, 1);
}

/* a is a relay; b and c join through it. */
static int setup(void **state)
{
    static const char *const overrides[] = {"peer.a.relay_memory=40MiB", "peer.b.via=a", "peer.c.via=a",
                                            "peers.provider=stream", NULL};
    fleet *f = *state = fleet_keys_open(&keys, FLEET_SMALL, overrides);
    memset(&fake, 0, sizeof fake);
    fake.fd = listener = -1;
    want(NULL, "");
    if (!f)
        return 0;
    fleet_add_relays(f, "a");
    f->log = hear;
    return 0;
}

static int teardown(void **state)
{
    fake_close(&fake);
    if (listener >= 0)
        close(listener);
    fleet_keys_close(&keys, *state);
    return 0;
}

static void stay_well(fleet *f)
{
    const char *names[] = {"a", "b"};
    fleet_publish(f, 50);
    for (unsigned at = 0; at < 2; at++)
        fleet_catch_up(f, at);
    assert_int_equal(weft_wait(f->trainer.session, f->newest, names, 2, FLEET_WAIT_MS), WEFT_OK);
}

/* c's key floods the end that listens there. */
static void flood(fleet *f, const char *listen, const fleet_end *end)
{
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    stay_well(f);
    want(end->name, "c sent 5 messages of tls after its proof");
    fake_open_from(&fake, listen ? listen : f->listen, 1);
    fake_prove(&fake, f, "c");
    flood_words(fake.seal, false, FLOOD);
    stay_well(f);
    must_tell(end->session);
}

static void at_the_trainer(void **state)
{
    fleet *f = fleet_keys_need(state);
    flood(f, NULL, &f->trainer);
}

static void at_a_relay(void **state)
{
    fleet *f = fleet_keys_need(state);
    flood(f, f->relays[0], &f->rollouts[0]);
}

/* Plays the trainer at its address until a is proved there. */
static void answer(const fleet *f)
{
    weft_status status = WEFT_AGAIN;
    fake.site = fleet_site(f, NULL);
    assert_int_equal(weft_guard_open(fake.site, NULL, &fake.guard), WEFT_OK);
    fake.fd = fake_accept(listener);
    for (uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS; status == WEFT_AGAIN && fleet_now_ms() < until_ms;) {
        poll(&(struct pollfd){.fd = fake.fd, .events = POLLIN}, 1, 100);
        status = fake.seal ? weft_seal_step(fake.seal) : weft_seal_answer(fake.guard, fake.fd, &fake.seal);
        status = status == WEFT_OK && !weft_seal_proves(fake.seal, "a") ? WEFT_AGAIN : status;
    }
    if (status != WEFT_OK)
        fail_msg("%s", weft_last_error());
}

static void at_the_end_that_dialed(void **state)
{
    fleet *f = fleet_keys_need(state);
    listener = fake_listen(f);
    want("a", "trainer sent 5 messages of tls after its proof");
    fleet_join(f, 0, FLEET_SAME);
    answer(f);
    flood_words(fake.seal, false, FLOOD);
    must_tell(f->rollouts[0].session);
    fleet_check_bytes(f, 0, f->dense);
    fake_close(&fake);
    close(listener);
    listener = -1;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 1, FLEET_SAME);
    stay_well(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(at_the_trainer, setup, teardown),
        cmocka_unit_test_setup_teardown(at_a_relay, setup, teardown),
        cmocka_unit_test_setup_teardown(at_the_end_that_dialed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A session's lines hold up no one, whether they are read or not. Strangers cannot cause many lines, and lines that no
 * one takes are counted. */
#include "tests/support/fleet_fake.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/support/full_pipe.h"

#define STRANGERS 800
#define COMERS    100
#define WAITING   256 /* events, and lines for a callback, that a session keeps */
#define STILL_MS  1000
#define BURST     32 /* lines at once about who has a name, before they are limited */

static full_pipe outlet;
static fleet_fake fake;

/* ---- the callback: lines of the trainer's that hold one of two texts, and what they say was left out */

static const char *wanted[2];
static uint64_t heard, left_out;

static void count(void *user, weft_log_level level, const char *line)
{
    (void)level;
    const char *more = strstr(line, "(and "), *rest = strstr(line, " more line");
    uint64_t number = 0;
    if (strcmp(user, "trainer") != 0)
        return;
    heard += strstr(line, wanted[0]) || strstr(line, wanted[1]);
    if (more ? sscanf(more, "(and %" SCNu64 " more", &number) == 1 : rest && sscanf(line, "%" SCNu64, &number) == 1)
        left_out += number;
}

static void listen_for(fleet *f, const char *one, const char *other)
{
    fleet_drop_events(f);
    wanted[0] = one;
    wanted[1] = other;
    heard = left_out = 0;
}

/* At most so many lines at once and one a second, in each of `kinds`, and every one of `most` was counted. */
static void few_lines_came(fleet *f, uint64_t burst, uint64_t kinds, uint64_t begun_ms, uint64_t all)
{
    const uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS;
    while (heard + left_out < all && fleet_now_ms() < until_ms) {
        fleet_sleep_ms(20);
        fleet_drop_events(f);
    }
    const uint64_t seconds = (fleet_now_ms() - begun_ms) / 1000 + 1;
    if (heard > burst + kinds * seconds)
        fail_msg("%u lines in %u seconds", (unsigned)heard, (unsigned)seconds);
    assert_int_equal(heard + left_out, all);
}

static int setup_with(void **state, weft_log_fn log, const char *const *overrides)
{
    fleet *f = fleet_open(FLEET_SMALL, overrides);
    *state = f;
    f->log = log;
    fake.fd = -1;
    wanted[0] = wanted[1] = "nothing yet";
    heard = left_out = 0;
    return 0;
}

static int setup_counting(void **state)
{
    setup_with(state, count, NULL);
    fleet_start_trainer(*state, NULL);
    fleet_join(*state, 0, FLEET_SAME);
    fleet_catch_up(*state, 0);
    return 0;
}

static int teardown(void **state)
{
    fake_close(&fake);
    fleet_close(*state);
    return 0;
}

/* ---- standard error that nobody reads */

static int setup_full(void **state)
{
    static const char *const overrides[] = {"log.level=debug", NULL};
    alarm(FLEET_WAIT_MS / 1000); /* a call that waits for the reader waits for ever */
    full_pipe_open(&outlet, true);
    full_pipe_take(&outlet, STDERR_FILENO);
    return setup_with(state, NULL, overrides);
}

static int teardown_full(void **state)
{
    if (*state)
        fleet_close(*state);
    full_pipe_close(&outlet);
    alarm(0);
    return 0;
}

static void use_every_call(fleet *f)
{
    weft_peer_info peers[4] = {{.size = sizeof peers[0]}};
    size_t count_of = 0;
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
    assert_int_equal(weft_peers(f->trainer.session, peers, 4, &count_of), WEFT_OK);
    assert_int_equal(count_of, 1);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    fleet_drop_events(f);
}

static void nobody_reads_standard_error(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 50; i++)
        use_every_call(f);
    for (int i = 0; i < 5000; i++) /* far more than wait */
        weft_log_print("as a busy session would say");
    for (int i = 0; i < 50; i++)
        use_every_call(f);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    char *text = full_pipe_read(&outlet, STILL_MS);
    const char *lost = strstr(text, " lines lost");
    assert_non_null(lost);
    assert_null(strstr(lost + 1, " lines lost"));
    free(text);
    /* it goes on as ever */
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    char line[32];
    snprintf(line, sizeof line, "weft info: version %u:", (unsigned)f->newest);
    text = full_pipe_read(&outlet, STILL_MS);
    assert_non_null(strstr(text, line));
    free(text);
}

/* Both ends close while their lines are not read. */
static void closes_while_nobody_reads(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    use_every_call(f);
    fleet_close(f);
    *state = NULL;
}

/* ---- lines that others bring about */

/* Noise: each connection is counted, few are lines. Each waits for its end, so that none makes room for the next. */
static void strangers_get_few_lines(void **state)
{
    fleet *f = *state;
    const uint64_t begun_ms = fleet_now_ms();
    uint8_t noise[100], body[WEFT_MESSAGE_MAX];
    uint64_t length;
    listen_for(f, "no weft end does that", "a connection was closed");
    for (int i = 0; i < STRANGERS; i++) {
        for (size_t at = 0; at < sizeof noise; at++)
            noise[at] = (uint8_t)fleet_random(&f->seed);
        memset(noise, 0xff, 4); /* no message is so long */
        fake_open(&fake, f);
        fake_send(&fake, noise, sizeof noise);
        assert_int_equal(fake_read(&fake, body, &length), 0);
        fake_close(&fake);
        if (i % 100 == 0)
            fleet_publish(f, 100);
        fleet_drop_events(f);
    }
    fleet_catch_up(f, 0);
    few_lines_came(f, 1, 1, begun_ms, STRANGERS);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static void say_hello(fleet *f, const weft_wire_hello *hello, uint32_t answer)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fleet_fake one = {.fd = -1};
    fake_open(&one, f);
    fake_send_hello(&one, hello);
    assert_int_equal(fake_read(&one, body, &length), answer);
    fake_close(&one);
    fleet_drop_events(f);
}

/* A refused peer with a name fills no log either, and hides no peer that may join. */
static void the_refused_get_few_lines(void **state)
{
    fleet *f = *state;
    const uint64_t begun_ms = fleet_now_ms();
    weft_wire_hello hello;
    fake_hello(&fake, f, "b", 1, &hello);
    fake.fd = -1;
    hello.layout[0]++;
    snprintf(hello.differs, sizeof hello.differs, "another one");
    listen_for(f, "b has another layout", "nothing else");
    for (int i = 0; i < COMERS; i++)
        say_hello(f, &hello, WEFT_MESSAGE_REFUSE);
    few_lines_came(f, BURST, 1, begun_ms, COMERS);
    listen_for(f, "joined: c", "nothing else");
    fleet_join(f, 2, FLEET_SAME);
    fleet_wait_state(f, "c", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_drop_events(f);
    assert_int_equal(heard, 1);
}

/* The same for a peer that comes and goes. */
static void who_comes_and_goes_gets_few_lines(void **state)
{
    fleet *f = *state;
    const uint64_t begun_ms = fleet_now_ms();
    weft_wire_hello hello;
    fake_hello(&fake, f, "b", 1, &hello);
    fake.fd = -1;
    listen_for(f, "joined: b", "lost: b");
    for (int i = 0; i < COMERS; i++) {
        hello.incarnation++;
        say_hello(f, &hello, WEFT_MESSAGE_WELCOME);
        fleet_wait_state(f, "b", WEFT_PEER_LOST, FLEET_WAIT_MS);
    }
    few_lines_came(f, BURST, 1, begun_ms, 2 * COMERS);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
}

/* ---- what nobody takes */

static int setup_untaken(void **state)
{
    static const char *const overrides[] = {"log.level=info", NULL};
    return setup_with(state, count, overrides);
}

static void what_nobody_takes_is_counted(void **state)
{
    fleet *f = *state;
    weft_event event = {.size = sizeof event}, last = event;
    unsigned events = 0;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    assert_int_equal(fleet_stats(f->trainer.session).events_lost, 0);
    wanted[0] = wanted[1] = " changed, "; /* of the line about each version, the only one from here on */
    for (int i = 0; i < WAITING + 50; i++) {
        fleet_publish(f, 100);
        fleet_catch_up(f, 0);
        assert_int_equal(weft_wait(f->trainer.session, f->newest, NULL, 0, FLEET_WAIT_MS), WEFT_OK);
    }
    const uint64_t lost = fleet_stats(f->trainer.session).events_lost;
    for (; weft_events(f->trainer.session, &event) == WEFT_OK; events++)
        last = event;
    assert_int_equal(events, WAITING);
    assert_int_equal(last.kind, WEFT_EVENT_HELD);
    const uint64_t events_lost = f->newest - last.version.number, lines_lost = f->newest - heard;
    assert_true(events_lost >= 50 && lines_lost >= 50);
    assert_int_equal(lost, events_lost + lines_lost);
    assert_int_equal(fleet_stats(f->trainer.session).events_lost, lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_reads_standard_error, setup_full, teardown_full),
        cmocka_unit_test_setup_teardown(closes_while_nobody_reads, setup_full, teardown_full),
        cmocka_unit_test_setup_teardown(strangers_get_few_lines, setup_counting, teardown),
        cmocka_unit_test_setup_teardown(the_refused_get_few_lines, setup_counting, teardown),
        cmocka_unit_test_setup_teardown(who_comes_and_goes_gets_few_lines, setup_counting, teardown),
        cmocka_unit_test_setup_teardown(what_nobody_takes_is_counted, setup_untaken, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

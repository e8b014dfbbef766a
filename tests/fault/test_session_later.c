/* A trainer listens from its opening on. Until weights are bound it asks rollouts to come again. Rollouts wait for it
 * however long that takes, and no place is used up meanwhile. */
#include "tests/support/fleet_fake.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 3000u

static const fleet_kind plain_fleet = {FLEET_TILES,
                                       .overrides = FLEET_WITH("session.connect_deadline=3s", "trainer.max_peers=3")};

/* For longer than a trainer that does not answer is waited for. */
static void waits_on(fleet *f, unsigned at)
{
    weft_staged_info staged = {.size = sizeof staged};
    for (uint64_t end = fleet_now_ms() + PATIENCE_MS * 3 / 2; fleet_now_ms() < end;)
        assert_int_equal(weft_staged(f->rollouts[at].session, 100, &staged), WEFT_AGAIN);
}

static void a_rollout_waits_without_losing_patience(void **state)
{
    fleet *f = *state;
    weft_version held;
    fleet_open_trainer(f);
    assert_int_equal(weft_held(f->trainer.session, &held), WEFT_E_STATE);
    fleet_join(f, 0, FLEET_SAME);
    waits_on(f, 0);
    assert_int_equal(fleet_stats(f->trainer.session).peers_joined, 0);
    fleet_bind_trainer(f, NULL);
    fleet_catch_up(f, 0);
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
    fleet_check_bytes(f, 0, f->dense);
}

/* Returns the answer to a HELLO with this layout. */
static uint32_t answer_to(fleet *f, fleet_fake *fake, const char *name, uint64_t flaw, weft_wire_notice *notice)
{
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length = 0;
    fake_open(fake, f);
    fake_hello(fake, f, name, 1, &hello);
    hello.layout[0] ^= flaw;
    snprintf(hello.differs, sizeof hello.differs, "%s", flaw ? "other tensors" : "");
    fake_send_hello(fake, &hello);
    uint32_t type = fake_read(fake, body, &length);
    if (type == WEFT_MESSAGE_REFUSE)
        assert_int_equal(weft_wire_get_notice(body, length, notice), WEFT_OK);
    else
        assert_int_equal(length, 0);
    return type;
}

/* More than there are places, none of which leaves by itself. */
static void those_that_wait_take_no_place(void **state)
{
    enum { COMERS = 40 };
    fleet *f = *state;
    fleet_fake fakes[COMERS];
    weft_wire_notice notice;
    fleet_open_trainer(f);
    for (unsigned i = 0; i < COMERS; i++)
        assert_int_equal(answer_to(f, &fakes[i], i % 2 ? "a" : "b", 0, &notice), WEFT_MESSAGE_PASSING);
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    for (unsigned i = 0; i < COMERS; i++)
        assert_int_equal(fake_read(&fakes[i], body, &length), 0);
    size_t count = 1;
    assert_int_equal(weft_peers(f->trainer.session, NULL, 0, &count), WEFT_OK);
    assert_int_equal(count, 0);
    for (unsigned i = 0; i < COMERS; i++)
        fake_close(&fakes[i]);
}

static void who_can_never_join_is_told_at_once(void **state)
{
    fleet *f = *state;
    fleet_fake fake;
    weft_wire_notice notice = {0};
    fleet_open_trainer(f);
    assert_int_equal(answer_to(f, &fake, "a", 1, &notice), WEFT_MESSAGE_REFUSE);
    assert_int_equal(notice.status, WEFT_E_LAYOUT);
    fake_close(&fake);
    assert_int_equal(answer_to(f, &fake, "nobody", 0, &notice), WEFT_MESSAGE_REFUSE);
    fake_close(&fake);
}

static void the_layout_is_had_before_weights(void **state)
{
    fleet *f = *state;
    weft_layout *layout = NULL;
    fleet_open_trainer(f);
    weft_site *site = fleet_site(f, NULL);
    assert_int_equal(weft_layout_fetch(site, "a", FLEET_WAIT_MS, &layout), WEFT_OK);
    assert_int_equal(weft_layout_bytes(layout), f->bytes);
    weft_layout_free(layout);
    weft_site_free(site);
}

/* A trainer without weights has no peer to say goodbye to. The rollout waits for another trainer as usual. */
static void closed_before_weights(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_open_trainer(f);
    fleet_join(f, 0, FLEET_SAME);
    assert_int_equal(weft_staged(f->rollouts[0].session, 500, &staged), WEFT_AGAIN);
    weft_close(f->trainer.session);
    f->trainer.session = NULL;
    assert_int_equal(fleet_alone(f, 0), WEFT_E_UNREACHABLE);
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
}

/* The relay passes the request to wait on, so that no rollout after it loses patience. */
static const fleet_kind relay_fleet = {
    FLEET_TILES, .overrides = FLEET_WITH("session.connect_deadline=3s", "peer.b.via=a", "peer.a.relay_memory=64MiB"),
    .relays = "a"};

static void behind_a_relay(void **state)
{
    fleet *f = *state;
    weft_peer_info info = {0};
    fleet_open_trainer(f);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    waits_on(f, 1);
    fleet_bind_trainer(f, NULL);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    assert_true(fleet_peer(f, "b", &info));
    assert_string_equal(info.via, "a");
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
}

/* Without a descriptor no trainer can be dialed. The error says so, and does not ask for the trainer. */
static void no_descriptor_to_dial_with(void **state)
{
    fleet *f = *state;
    struct rlimit before, none;
    fleet_join(f, 0, FLEET_SAME);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    fleet_sleep_ms(1500); /* the next attempts fail for that */
    weft_status status = fleet_alone(f, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, WEFT_E_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "Too many open files"));
    assert_non_null(strstr(weft_last_error(), "ulimit -n"));
    assert_null(strstr(weft_last_error(), "running there"));
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_rollout_waits_without_losing_patience),
        TEST(those_that_wait_take_no_place),
        TEST(who_can_never_join_is_told_at_once),
        TEST(the_layout_is_had_before_weights),
        TEST(closed_before_weights),
        TEST(no_descriptor_to_dial_with),
        FLEET_TEST(behind_a_relay, relay_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

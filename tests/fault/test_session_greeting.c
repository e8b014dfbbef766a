/* Strangers at the door of a trainer or a relay. A recorded HELLO neither joins nor ends a session, and silent
 * strangers keep no one out. A refusal that damage on the way may have caused is no end. */
#include "tests/support/fleet_fake.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/fleet_keys.h"

#define CROWD 40u

static fleet_fake fakes[2], crowd[CROWD];
static fleet_keys keys;

static void no_fakes(fleet *f)
{
    (void)f;
    fakes[0].fd = fakes[1].fd = -1;
    for (uint32_t i = 0; i < CROWD; i++)
        crowd[i].fd = -1;
}

static void close_fakes(fleet *f)
{
    (void)f;
    fake_close(&fakes[0]);
    fake_close(&fakes[1]);
    for (uint32_t i = 0; i < CROWD; i++)
        fake_close(&crowd[i]);
}

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .open = no_fakes, .close = close_fakes};

static const fleet_kind few_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("trainer.max_peers=3"),
                                     .open = no_fakes, .close = close_fakes};

static const fleet_kind relay_fleet = {
    FLEET_TILES,   .starts = true,   .overrides = FLEET_WITH("peer.a.relay_memory=64MiB", "peer.x*.via=a"),
    .relays = "a", .open = no_fakes, .close = close_fakes};

static int setup_tls(void **state)
{
    *state = fleet_keys_open(&keys, FLEET_SMALL, NULL);
    no_fakes(*state);
    return 0;
}

static int teardown_tls(void **state)
{
    close_fakes(*state);
    fleet_keys_close(&keys, *state);
    return 0;
}

/* ---- what was said on another connection */

/* Joins by `listen` as `name`; the bytes of its HELLO. */
static uint64_t join_recorded(fleet *f, const char *listen, const char *name,
                              uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX])
{
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake_open_from(&fakes[0], listen, 1);
    fake_hello(&fakes[0], f, name, f->history[0].root, &hello);
    hello.nonce = fake_knock(&fakes[0]);
    assert_true(hello.nonce != 0);
    const uint64_t bytes = fake_put_hello(message, &hello);
    fake_send(&fakes[0], message, bytes);
    assert_true(fake_read_until(&fakes[0], WEFT_MESSAGE_WELCOME, body, &length));
    fleet_wait_state(f, name, WEFT_PEER_LIVE, FLEET_WAIT_MS);
    return bytes;
}

static void must_be_refused(const char *words)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_notice notice;
    assert_true(fake_read_until(&fakes[1], WEFT_MESSAGE_REFUSE, body, &length));
    assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
    assert_int_equal(notice.status, WEFT_E_PROTOCOL);
    if (!strstr(notice.text, words))
        fail_msg("\"%s\" does not say \"%s\"", notice.text, words);
    assert_int_equal(fake_read(&fakes[1], body, &length), 0);
    fake_close(&fakes[1]);
}

/* Sends the recorded bytes unchanged, and then after a knock. */
static void replay(const char *listen, const uint8_t *message, uint64_t bytes)
{
    fake_open_from(&fakes[1], listen, 1);
    fake_send(&fakes[1], message, bytes);
    must_be_refused("came before it was greeted");
    fake_open_from(&fakes[1], listen, 1);
    assert_true(fake_knock(&fakes[1]) != 0);
    fake_send(&fakes[1], message, bytes);
    must_be_refused("answers the greeting of another connection");
}

static void must_be_live_still(fleet *f, const char *name)
{
    weft_peer_info info = {0};
    assert_true(fleet_peer(f, name, &info));
    assert_int_equal(info.state, WEFT_PEER_LIVE);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static void a_recorded_hello(void **state)
{
    fleet *f = *state;
    uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX];
    const uint64_t bytes = join_recorded(f, f->listen, "b", message);
    for (int i = 0; i < 20; i++)
        replay(f->listen, message, bytes);
    must_be_live_still(f, "b");
}

/* At either hop: the child's HELLO to its relay, and the relay's to the trainer. */
static void a_recorded_hello_behind_a_relay(void **state)
{
    fleet *f = *state;
    weft_peer_info info = {0};
    uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX];
    fleet_join(f, 0, FLEET_SAME);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    const uint64_t bytes = join_recorded(f, f->relays[0], "x4", message);
    assert_true(fleet_peer(f, "x4", &info));
    assert_string_equal(info.via, "a");
    for (int i = 0; i < 5; i++) {
        replay(f->relays[0], message, bytes);
        replay(f->listen, message, bytes);
    }
    must_be_live_still(f, "x4");
    must_be_live_still(f, "a");
}

static void a_second_knock(void **state)
{
    fleet *f = *state;
    uint8_t body[16];
    weft_out out = {body, sizeof body, 0, false};
    fake_open(&fakes[1], f);
    assert_true(fake_knock(&fakes[1]) != 0);
    weft_wire_put_knock(&out, &(weft_wire_knock){WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL});
    fake_say(&fakes[1], WEFT_MESSAGE_HELLO, &out);
    must_be_refused("a second greeting");
}

/* A list of tensors may be long. Who asks for it gets it once, and then the connection ends. */
static void one_layout_a_connection(void **state)
{
    fleet *f = *state;
    uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX], body[WEFT_MESSAGE_MAX];
    weft_wire_hello hello = {.wants_layout = true, .name = "b"};
    uint64_t length;
    uint32_t lists = 0;
    fake_open(&fakes[0], f);
    hello.nonce = fake_knock(&fakes[0]);
    for (int i = 0; i < 20; i++)
        fake_send(&fakes[0], message, fake_put_hello(message, &hello));
    for (uint32_t type; (type = fake_read(&fakes[0], body, &length)) != 0;)
        lists += type == WEFT_MESSAGE_LAYOUT;
    assert_int_equal(lists, 1);
}

/* ---- refusals */

/* Takes the next knock, and answers it with a refusal. */
static void refuse_a_knock(int listener, weft_status why, const char *text)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_notice notice = {.status = why};
    uint64_t length;
    snprintf(notice.text, sizeof notice.text, "%s", text);
    fakes[0].fd = fake_accept(listener);
    assert_int_equal(fake_read(&fakes[0], body, &length), WEFT_MESSAGE_HELLO);
    assert_int_equal(weft_bytes_get(body + 4, 2), 3); /* by which protocol 1 refuses, before it reads on */
    weft_wire_put_notice(&out, &notice);
    fake_say(&fakes[0], WEFT_MESSAGE_REFUSE, &out);
    fake_close(&fakes[0]);
}

/* The text with which a trainer of protocol 1 answers each knock reaches the rollout's caller. */
static void a_trainer_of_protocol_1(void **state)
{
    fleet *f = *state;
    weft_staged_info staged = {.size = sizeof staged};
    fleet_stop_trainer(f);
    const int listener = fake_listen(f);
    fleet_join(f, 0, FLEET_SAME);
    for (int turn = 0; turn < 2; turn++)
        refuse_a_knock(listener, WEFT_E_PROTOCOL,
                       "HELLO: the other end speaks protocol 3, this one 1; update one of them");
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_E_REFUSED);
    assert_non_null(strstr(weft_last_error(), "speaks protocol 3, this one 1"));
    close(listener);
}

/* A trainer refuses a knock, or the nonce of a greeting, because a byte was damaged on the way. */
static void a_refusal_that_comes_once(void **state)
{
    static const weft_status why[] = {WEFT_E_PROTOCOL, WEFT_E_CORRUPT};
    fleet *f = *state;
    for (size_t i = 0; i < sizeof why / sizeof why[0]; i++) {
        fleet_stop_trainer(f);
        const int listener = fake_listen(f);
        fleet_join(f, 0, FLEET_SAME);
        refuse_a_knock(listener, why[i], "HELLO of a answers the greeting of another connection");
        close(listener);
        fleet_start_trainer(f, NULL);
        fleet_catch_up(f, 0);
        fleet_publish(f, 50);
        fleet_catch_up(f, 0);
        fleet_leave(f, 0);
    }
}

static void *fetch(void *argument)
{
    weft_site *site = fleet_site(argument, NULL);
    weft_layout *layout = NULL;
    weft_status status = weft_layout_fetch(site, "a", FLEET_WAIT_MS, &layout);
    weft_layout_free(layout);
    weft_site_free(site);
    return (void *)(intptr_t)status;
}

/* The same to who asks for a layout. */
static void a_question_that_is_refused_once(void **state)
{
    fleet *f = *state;
    pthread_t thread;
    void *status;
    fleet_stop_trainer(f);
    const int listener = fake_listen(f);
    assert_int_equal(pthread_create(&thread, NULL, fetch, f), 0);
    refuse_a_knock(listener, WEFT_E_PROTOCOL, "HELLO: magic");
    close(listener);
    fleet_start_trainer(f, NULL);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal((intptr_t)status, WEFT_OK);
}

/* A handshake of tls in which the first byte of the answer was damaged. */
static void a_damaged_handshake(void **state)
{
    fleet *f = *state;
    uint8_t bytes[4096];
    if (!f)
        skip();
    const int listener = fake_listen(f);
    fleet_join(f, 0, FLEET_SAME);
    fakes[0].fd = fake_accept(listener);
    assert_true(recv(fakes[0].fd, bytes, sizeof bytes, 0) > 0);
    fake_send(&fakes[0], "\x36\x03\x03\x00\x01\x00", 6);
    assert_true(recv(fakes[0].fd, bytes, sizeof bytes, 0) >= 0); /* the end of it */
    fake_close(&fakes[0]);
    close(listener);
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
}

/* ---- who says nothing */

static void come_in_a_crowd(const char *listen)
{
    for (uint32_t i = 0; i < CROWD; i++)
        fake_open_from(&crowd[i], listen, 1);
}

/* More strangers than there are places. The next one is still answered, and so is one that came before from another
 * host. */
static void a_crowd(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake_open_from(&fakes[0], f->listen, 2);
    come_in_a_crowd(f->listen);
    fake_open_from(&fakes[1], f->listen, 1);
    fake_hello(&fakes[1], f, "b", f->history[0].root, &hello);
    fake_send_hello(&fakes[1], &hello);
    assert_true(fake_read_until(&fakes[1], WEFT_MESSAGE_WELCOME, body, &length));
    fake_hello(&fakes[0], f, "c", f->history[0].root, &hello);
    fake_send_hello(&fakes[0], &hello);
    assert_true(fake_read_until(&fakes[0], WEFT_MESSAGE_WELCOME, body, &length));
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    assert_int_equal(fake_read(&crowd[0], body, &length), 0); /* the first of them gave its place up */
}

static void a_crowd_at_a_relay(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fleet_join(f, 0, FLEET_SAME);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    come_in_a_crowd(f->relays[0]);
    fake_open_from(&fakes[1], f->relays[0], 1);
    fake_hello(&fakes[1], f, "x4", f->history[0].root, &hello);
    fake_send_hello(&fakes[1], &hello);
    assert_true(fake_read_until(&fakes[1], WEFT_MESSAGE_WELCOME, body, &length));
    assert_int_equal(fake_read(&crowd[0], body, &length), 0);
}

/* A rollout that a relay cannot serve hears why, or is left; nobody welcomes it. */
static void what_a_relay_cannot_serve(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_notice notice;
    fleet_join(f, 0, FLEET_SAME);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    for (int wrong = 0; wrong < 2; wrong++) {
        fake_open_from(&fakes[1], f->relays[0], 1);
        fake_hello(&fakes[1], f, "x4", f->history[0].root, &hello);
        if (wrong)
            memset(hello.address, 0xff, hello.address_bytes);
        else
            hello.chunk_bytes = 256;
        fake_send_hello(&fakes[1], &hello);
        if (wrong) {
            assert_false(fake_read_until(&fakes[1], WEFT_MESSAGE_WELCOME, body, &length));
        } else {
            assert_true(fake_read_until(&fakes[1], WEFT_MESSAGE_REFUSE, body, &length));
            assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
            assert_non_null(strstr(notice.text, "x4 takes 256 bytes at a time: too little for a bucket"));
        }
        fake_close(&fakes[1]);
    }
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_recorded_hello),
        FLEET_TEST(a_recorded_hello_behind_a_relay, relay_fleet),
        TEST(a_second_knock),
        TEST(one_layout_a_connection),
        TEST(a_trainer_of_protocol_1),
        TEST(a_refusal_that_comes_once),
        TEST(a_question_that_is_refused_once),
        cmocka_unit_test_setup_teardown(a_damaged_handshake, setup_tls, teardown_tls),
        FLEET_TEST(a_crowd, few_fleet),
        FLEET_TEST(a_crowd_at_a_relay, relay_fleet),
        FLEET_TEST(what_a_relay_cannot_serve, relay_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

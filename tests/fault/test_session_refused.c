/* A rollout that may not join gets the reason, and the trainer stays well: with strangers, mistakes and silence. */
#include "tests/support/fleet_fake.h"

#include <string.h>

#include "peer/peer.h"

static fleet_fake fakes[2];
static bool layout_said; /* in the trainer's log */

static void hear(void *user, weft_log_level level, const char *line)
{
    fleet *f = user;
    layout_said = layout_said || strstr(line, "refused: b has another layout");
    f->log(f->trainer.name, level, line);
}

static void hears(fleet *f)
{
    f->heard = hear;
    layout_said = false;
    fakes[0].fd = fakes[1].fd = -1;
}

static void ended(fleet *f)
{
    (void)f;
    fake_close(&fakes[0]);
    fake_close(&fakes[1]);
}

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .joins = 1, .open = hears, .close = ended};

/* A well rollout is served as ever. */
static void stays_well(fleet *f)
{
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
    const char *a = "a";
    assert_int_equal(weft_wait(f->trainer.session, f->newest, &a, 1, FLEET_WAIT_MS), WEFT_OK);
}

/* The rollout gets `status` and a text with `word`; its weights are as before. */
static void refused(fleet *f, unsigned at, weft_status status, const char *word)
{
    weft_staged_info staged = {.size = sizeof staged};
    assert_int_equal(weft_staged(f->rollouts[at].session, FLEET_WAIT_MS, &staged), status);
    if (!strstr(weft_last_error(), word))
        fail_msg("\"%s\" does not speak of %s", weft_last_error(), word);
    fleet_check_bytes(f, at, f->dense);
    assert_int_equal(weft_staged(f->rollouts[at].session, 0, &staged), status);
}

static void wrong_layout(void **state)
{
    fleet *f = *state;
    weft_layout *own = f->layout;
    weft_session *other;
    uint64_t shape = 4, bits[2] = {1, 2};
    const weft_tensor tensor = {"t", WEFT_F32, 1, &shape};
    const weft_piece piece = {0, 0, 4, bits};
    weft_staged_info staged = {.size = sizeof staged};
    assert_int_equal(weft_layout_create(&tensor, 1, &f->layout), WEFT_OK);
    fleet_open_rollout(f, 1, NULL);
    other = f->rollouts[1].session;
    weft_layout_free(f->layout);
    f->layout = own;
    assert_int_equal(weft_bind(other, &piece, 1, NULL, 0, 0), WEFT_OK);
    assert_int_equal(weft_staged(other, FLEET_WAIT_MS, &staged), WEFT_E_REFUSED);
    assert_non_null(strstr(weft_last_error(), "layout"));
    stays_well(f);
    assert_false(fleet_event(f->trainer.session, WEFT_EVENT_JOINED, "b", 0, NULL)); /* which takes the lines too */
    assert_true(layout_said);
}

static void one_name_twice(void **state)
{
    fleet *f = *state;
    snprintf(f->rollouts[1].name, sizeof f->rollouts[1].name, "a");
    fleet_join(f, 1, FLEET_SAME);
    refused(f, 1, WEFT_E_REFUSED, "a");
    stays_well(f);
}

/* The rollout's own site file names it, the trainer's does not. */
static void not_in_the_site(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_notice notice;
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "stranger", 1, &hello);
    fake_send_hello(&fakes[0], &hello);
    assert_true(fake_read_until(&fakes[0], WEFT_MESSAGE_REFUSE, body, &length));
    assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
    assert_int_not_equal(notice.status, WEFT_OK);
    assert_non_null(strstr(notice.text, "stranger"));
    assert_null(strchr(notice.text, '/'));  /* which site file that is, */
    assert_null(strstr(notice.text, "x*")); /* and whom it admits, is for the log */
    assert_int_equal(fake_read(&fakes[0], body, &length), 0);
    stays_well(f);
}

/* Anybody may ask for a name, so the answer does not say where its bearer is. */
static void not_where_others_are(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_notice notice = {.status = WEFT_E_SYSTEM};
    for (int tries = 0; tries < 100 && notice.status == WEFT_E_SYSTEM;
         tries++) { /* until the trainer has read from the bearer */
        fake_open(&fakes[0], f);
        fake_hello(&fakes[0], f, "a", 1, &hello);
        hello.incarnation = 1;
        fake_send_hello(&fakes[0], &hello);
        assert_true(fake_read_until(&fakes[0], WEFT_MESSAGE_REFUSE, body, &length));
        assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
        assert_null(strstr(notice.text, "127.0.0.1"));
        fake_close(&fakes[0]);
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    assert_int_equal(notice.status, WEFT_E_REFUSED);
    assert_non_null(strstr(notice.text, "a peer named a is live already"));
    stays_well(f);
}

static void fake_refused(fleet *f, const weft_wire_hello *hello, const char *word)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_notice notice;
    fake_send_hello(&fakes[0], hello);
    assert_true(fake_read_until(&fakes[0], WEFT_MESSAGE_REFUSE, body, &length));
    assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
    if (!strstr(notice.text, word))
        fail_msg("\"%s\" does not speak of %s", notice.text, word);
    stays_well(f);
}

static void another_provider(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "b", 1, &hello);
    snprintf(hello.provider, sizeof hello.provider, "tcp");
    fake_refused(f, &hello, "tcp");
}

static void slots_too_small(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "b", 1, &hello);
    hello.slot_payload = 64u << 10;
    fake_refused(f, &hello, "65536");
}

/* The same mistake is found at the rollout's own open, before anything is sent. */
static void own_slots_too_small(void **state)
{
    fleet *f = *state;
    weft_session *session = NULL;
    weft_site *site = fleet_site(f, "peers.bucket_max=128KiB");
    assert_int_equal(weft_rollout_open(site, "b", f->layout, NULL, &session), WEFT_E_CONFIG);
    weft_site_free(site);
    assert_null(session);
    assert_non_null(strstr(weft_last_error(), "bucket_max"));
}

/* Bytes that are no message, a length that no message has, another protocol: the connection ends, nothing else. */
static void garbage(void **state)
{
    fleet *f = *state;
    uint8_t body[WEFT_MESSAGE_MAX], noise[600], huge[8] = {0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0};
    uint64_t length = 0, seed = 5;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)fleet_random(&seed);
    const struct {
        const void *bytes;
        size_t count;
    } says[] = {{noise, sizeof noise}, {huge, sizeof huge}, {"GET / HTTP/1.1\r\n\r\n", 18}};
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        fake_open(&fakes[0], f);
        fake_send(&fakes[0], says[i].bytes, says[i].count);
        while (fake_read(&fakes[0], body, &length))
            ;
        fake_close(&fakes[0]);
        stays_well(f);
    }
}

static void hears_protocol(fleet *f, const char *words)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_notice notice;
    assert_true(fake_read_until(&fakes[0], WEFT_MESSAGE_REFUSE, body, &length));
    assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
    assert_int_equal(notice.status, WEFT_E_PROTOCOL);
    if (!strstr(notice.text, words))
        fail_msg("\"%s\" does not say \"%s\"", notice.text, words);
    assert_int_equal(fake_read(&fakes[0], body, &length), 0); /* and closes */
    stays_well(f);
}

static void another_protocol(void **state)
{
    fleet *f = *state;
    uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX];
    weft_wire_hello hello;
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "b", 1, &hello);
    hello.nonce = fake_knock(&fakes[0]);
    const uint64_t bytes = fake_put_hello(message, &hello);
    weft_bytes_put(message + WEFT_MESSAGE_PREFIX + 4, 99, 2);
    fake_send(&fakes[0], message, bytes);
    hears_protocol(f, "speaks protocol 99, this one 3");
}

/* The first messages of ends of protocol 1 and 2, which are refused by name, and of one of protocols that are to come.
 */
static void other_ends_of_history(void **state)
{
    static const uint8_t first[] = {'W', 'E', 'F', 'T', 1, 0, 0, 0, 0, 1, 0, 'b', 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t second[] = {'W', 'E', 'F', 'T', 2, 0, 0, 0, 2, 2, 0};
    static const uint8_t later[] = {'W', 'E', 'F', 'T', 9, 0, 0, 0, 2, 4, 0};
    uint8_t body[WEFT_MESSAGE_MAX], hello[21] = {'W', 'E', 'F', 'T', 2, [17] = 1, [19] = 'b'};
    uint64_t length;
    fleet *f = *state;
    fake_open(&fakes[0], f);
    fake_say(&fakes[0], WEFT_MESSAGE_HELLO,
             &(weft_out){(uint8_t *)(uintptr_t)first, sizeof first, sizeof first, false});
    hears_protocol(f, "b speaks protocol 1, this end 3");
    fake_close(&fakes[0]);
    fake_open(&fakes[0], f);
    fake_say(&fakes[0], WEFT_MESSAGE_HELLO,
             &(weft_out){(uint8_t *)(uintptr_t)second, sizeof second, sizeof second, false});
    assert_int_equal(fake_read(&fakes[0], body, &length), WEFT_MESSAGE_GREETING);
    assert_int_equal(weft_bytes_get(body + 4, 2), 3);
    assert_int_equal(weft_bytes_get(body + 8, 2), 2); /* the lowest, by which an end of protocol 2 goes on */
    memcpy(hello + 9, body + 10, 8);
    fake_say(&fakes[0], WEFT_MESSAGE_HELLO, &(weft_out){hello, sizeof hello, 20, false});
    hears_protocol(f, "b speaks protocol 2, this end 3");
    fake_close(&fakes[0]);
    fake_open(&fakes[0], f);
    fake_say(&fakes[0], WEFT_MESSAGE_HELLO,
             &(weft_out){(uint8_t *)(uintptr_t)later, sizeof later, sizeof later, false});
    hears_protocol(f, "speaks protocols 4 to 9, this one 3 to 3");
}

static const fleet_kind impatient_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("peer.b.heartbeat=1s"),
                                           .joins = 1,  .open = hears,  .close = ended};

/* The peer is greeted and then silent. Publish waits for no one, the others go on, and the heartbeat finds it lost. */
static void silent_after_hello(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    weft_event event;
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "b", f->history[0].root, &hello);
    fake_send_hello(&fakes[0], &hello);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_JOINED, "b", FLEET_WAIT_MS, NULL));
    stays_well(f);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, "b", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_PEER_LOST);
    assert_non_null(strstr(event.text, "heartbeat"));
    stays_well(f);
}

/* A rollout that dies: the socket closes without BYE, long before the heartbeat would tell. */
static const fleet_kind patient_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("peers.heartbeat=600s"),
                                         .joins = 1,  .open = hears,  .close = ended};

static void killed(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    weft_event event;
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "b", f->history[0].root, &hello);
    fake_send_hello(&fakes[0], &hello);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fake_close(&fakes[0]);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, "b", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_PEER_LOST);
    stays_well(f);
    fleet_join(f, 1, FLEET_SAME); /* its name is free again */
    fleet_catch_up(f, 1);
}

/* It holds the newest version, so that nobody offered it anything. */
static void a_repair_that_was_not_offered(void **state)
{
    fleet *f = *state;
    uint8_t bytes[WEFT_MESSAGE_MAX];
    weft_out body = {bytes, sizeof bytes, 0, false};
    weft_wire_hello hello;
    weft_event event;
    const weft_wire_repair repair = {.version = {1, f->history[0].number, f->history[0].root},
                                     .root = f->history[0].root,
                                     .count = 1,
                                     .range = {{0, 1}}};
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "b", f->history[0].root, &hello);
    fake_send_hello(&fakes[0], &hello);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    weft_wire_put_repair(&body, &repair);
    fake_say(&fakes[0], WEFT_MESSAGE_REPAIR, &body);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, "b", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_PROTOCOL);
    assert_non_null(strstr(event.text, "which was not offered"));
    stays_well(f);
}

static const fleet_kind full_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("trainer.max_peers=3"),
                                      .joins = 1,  .open = hears,  .close = ended};

static void more_than_max_peers(void **state)
{
    fleet *f = *state;
    for (unsigned at = 1; at < 3; at++) {
        fleet_join(f, at, FLEET_SAME);
        fleet_catch_up(f, at);
    }
    fleet_join(f, 3, FLEET_SAME);
    refused(f, 3, WEFT_E_REFUSED, "max_peers");
    stays_well(f);
    fleet_catch_up(f, 1);
    fleet_leave(f, 1);
    fleet_wait_state(f, "b", WEFT_PEER_LOST, FLEET_WAIT_MS);
    fleet_leave(f, 3);
    fleet_join(f, 3, FLEET_SAME);
    fleet_catch_up(f, 3);
}

static uint64_t writes_to(const fleet *f, const char *name)
{
    weft_session *session = f->trainer.session;
    pthread_mutex_lock(&session->lock);
    const weft_peer *peer = &session->trainer->peers.list[1];
    assert_string_equal(peer->claim.name, name);
    const uint64_t writes = peer->sender.rails.list[0].sent.writes;
    pthread_mutex_unlock(&session->lock);
    return writes;
}

/* Sets how many records the trainer has; returns how many it had. */
static uint32_t records(fleet *f, uint32_t count)
{
    weft_session *session = f->trainer.session;
    pthread_mutex_lock(&session->lock);
    const uint32_t before = session->trainer->peers.count;
    session->trainer->peers.count = count;
    pthread_mutex_unlock(&session->lock);
    return before;
}

/* If records are short, a peer that left gives its record to another name, and nothing of the old peer is left in it.
 */
static void the_record_of_another(void **state)
{
    fleet *f = *state;
    const uint32_t all = records(f, 2); /* a's and one more */
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 1);
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    assert_true(writes_to(f, "b") > 0);
    fleet_leave(f, 1);
    fleet_wait_state(f, "b", WEFT_PEER_LOST, FLEET_WAIT_MS);
    fleet_join(f, 2, FLEET_SAME);
    fleet_catch_up(f, 2);
    assert_int_equal(writes_to(f, "c"), 0);
    records(f, all); /* closing gives back what each has */
}

/* A peer that comes back on a new connection while its old one still stands takes its own place, not another. */
static void back_while_full(void **state)
{
    fleet *f = *state;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_hello hello;
    fleet_join(f, 2, FLEET_SAME);
    fleet_catch_up(f, 2);
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "b", f->history[0].root, &hello);
    fake_send_hello(&fakes[0], &hello);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fake_open(&fakes[1], f);
    fake_hello(&fakes[1], f, "b", f->history[0].root, &hello);
    fake_send_hello(&fakes[1], &hello);
    assert_int_equal(fake_read(&fakes[1], body, &length), WEFT_MESSAGE_WELCOME);
    while (fake_read(&fakes[0], body, &length)) /* the old one is closed */
        ;
    stays_well(f);
}

/* Relays that a HELLO names must be there, and it must have come by one relay more than they did: a chain that was not
 * walked could be of any length. What it says is not passed on to terminals as it came. */
static void relays_made_up(void **state)
{
    static const struct {
        const char *relay;
        uint32_t hops;
        bool joins;
    } rows[] = {{"x3", 1, true}, {"x3", 2, false}, {"x4", 1, false}, {"x9", 1, false}, {"\033[2Jx3", 1, false}};
    fleet *f = *state;
    weft_wire_hello hello;
    weft_wire_notice notice;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake_open(&fakes[0], f);
    fake_hello(&fakes[0], f, "x3", f->history[0].root, &hello);
    fake_send_hello(&fakes[0], &hello);
    assert_true(fake_read_until(&fakes[0], WEFT_MESSAGE_WELCOME, body, &length));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t incarnation = hello.incarnation;
        weft_wire_hello behind;
        fake_open(&fakes[1], f);
        fake_hello(&fakes[1], f, "x4", f->history[0].root, &behind);
        behind.hops = rows[i].hops;
        behind.relay_incarnation = incarnation;
        snprintf(behind.relay, sizeof behind.relay, "%s", rows[i].relay);
        fake_send_hello(&fakes[1], &behind);
        uint32_t type = fake_read(&fakes[1], body, &length);
        assert_int_equal(type, rows[i].joins ? WEFT_MESSAGE_WELCOME : WEFT_MESSAGE_REFUSE);
        if (!rows[i].joins) {
            assert_int_equal(weft_wire_get_notice(body, length, &notice), WEFT_OK);
            assert_int_equal(notice.status, WEFT_E_SYSTEM); /* not final */
            assert_null(strchr(notice.text, 033));
            assert_int_equal(fake_read(&fakes[1], body, &length), 0);
        }
        fake_close(&fakes[1]);
        fleet_wait_state(f, "x4", WEFT_PEER_LOST, FLEET_WAIT_MS);
    }
    stays_well(f);
    assert_false(fleet_event(f->trainer.session, WEFT_EVENT_GOODBYE, "x4", 0, NULL)); /* who never joined says none */
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wrong_layout),
        TEST(one_name_twice),
        TEST(not_in_the_site),
        TEST(not_where_others_are),
        TEST(another_provider),
        TEST(slots_too_small),
        TEST(own_slots_too_small),
        TEST(garbage),
        TEST(another_protocol),
        TEST(other_ends_of_history),
        FLEET_TEST(silent_after_hello, impatient_fleet),
        TEST(relays_made_up),
        FLEET_TEST(a_repair_that_was_not_offered, patient_fleet),
        FLEET_TEST(killed, patient_fleet),
        FLEET_TEST(more_than_max_peers, full_fleet),
        TEST(the_record_of_another),
        FLEET_TEST(back_while_full, full_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

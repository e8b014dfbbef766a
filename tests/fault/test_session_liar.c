/* A peer that proves its name by tls, and then lies. The trainer drops it with one message and keeps nothing of it, and
 * a peer beside it takes every version meanwhile. */
#include "tests/support/fleet_fake.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "peer/peer.h"
#include "tests/support/fleet_keys.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static fleet_keys keys;
static fleet_fake fake;
static const char *liar = "b";
static struct {
    uint32_t lines; /* warnings and errors that name the liar */
    char last[512];
} heard;

static bool names(const char *line, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = strstr(line, name); at; at = strstr(at + 1, name))
        if ((at == line || at[-1] == ' ') && (at[length] == ' ' || at[length] == ':'))
            return true;
    return false;
}

static void hear(void *user, weft_log_level level, const char *line)
{
    fleet *f = user;
    if (level <= WEFT_LOG_WARN && names(line, liar)) {
        heard.lines++;
        snprintf(heard.last, sizeof heard.last, "%s", line);
    }
    f->log(f->trainer.name, level, line);
}

static int setup(void **state)
{
    static const char *const overrides[] = {"peers.heartbeat=60s", NULL}; /* the liar sends no pings */
    fleet *f = *state = fleet_keys_open(&keys, FLEET_TILES, overrides);
    liar = "b";
    memset(&fake, 0, sizeof fake);
    fake.fd = -1;
    if (!f)
        return 0;
    f->heard = hear;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    return 0;
}

static int teardown(void **state)
{
    fake_close(&fake);
    fleet_keys_close(&keys, *state);
    return 0;
}

/* The healthy one stages and commits the next version, and its bits are the trainer's. */
static void stays_well(fleet *f)
{
    const char *a = "a";
    fleet_publish(f, 50);
    fleet_catch_up(f, 0);
    assert_int_equal(weft_wait(f->trainer.session, f->newest, &a, 1, FLEET_WAIT_MS), WEFT_OK);
    fleet_check_bytes(f, 0, f->dense);
}

/* ---- messages of the liar */

static void say(weft_message type, const void *body, uint64_t bytes)
{
    fake_say(&fake, type, &(weft_out){(uint8_t *)body, bytes, bytes, false});
}

static void say_receipt(uint64_t sequence, uint32_t slot)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_receipt(&out, &(weft_wire_receipt){.sequence = sequence, .slot = slot});
    fake_say(&fake, WEFT_MESSAGE_RECEIPT, &out);
}

static void say_held(const fleet *f, uint64_t run, uint64_t number, uint64_t root)
{
    uint8_t body[128];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_held held = {.version = {run, number, root}};
    weft_layout_hash(f->layout, held.layout);
    weft_wire_put_held(&out, &held);
    fake_say(&fake, WEFT_MESSAGE_HELD, &out);
}

static void say_query(const weft_wire_query *query)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_query(&out, query);
    fake_say(&fake, WEFT_MESSAGE_QUERY, &out);
}

static uint64_t run_of(const fleet *f)
{
    weft_version held;
    assert_int_equal(weft_held(f->trainer.session, &held), WEFT_OK);
    return held.run;
}

/* Publishes a version and waits until the liar was sent all of it. */
static weft_wire_trailer take_update(fleet *f)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_wire_trailer trailer;
    stays_well(f);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_TRAILER, body, &length));
    assert_int_equal(weft_wire_get_trailer(body, length, &trailer), WEFT_OK);
    return trailer;
}

/* ---- lies */

static void a_receipt_for_nothing(fleet *f)
{
    (void)f;
    say_receipt(0, 0);
}

static void a_receipt_twice(fleet *f)
{
    take_update(f);
    say_receipt(0, 0);
    say_receipt(0, 0);
}

static void a_receipt_for_what_comes_later(fleet *f)
{
    take_update(f);
    say_receipt(1, 0);
}

static void a_receipt_for_a_slot_beyond(fleet *f)
{
    take_update(f);
    say_receipt(0, UINT32_MAX);
}

static void held_what_was_not_sent(fleet *f)
{
    say_held(f, run_of(f), f->newest + 1, 77);
}

static void held_with_another_digest(fleet *f)
{
    const weft_wire_trailer trailer = take_update(f);
    say_held(f, trailer.target.run, trailer.target.number, trailer.target.root ^ 1);
}

static void held_of_another_run(fleet *f)
{
    const weft_wire_trailer trailer = take_update(f);
    say_held(f, trailer.target.run + 1, trailer.target.number, trailer.target.root);
}

static void held_twice(fleet *f)
{
    const weft_wire_trailer trailer = take_update(f);
    for (int i = 0; i < 2; i++)
        say_held(f, trailer.target.run, trailer.target.number, trailer.target.root);
}

static void accepts_no_offer(fleet *f)
{
    (void)f;
    say(WEFT_MESSAGE_ACCEPT, "", 0);
}

static void repairs_no_offer(fleet *f)
{
    uint8_t body[128];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_repair repair = {.root = f->history[0].root, .count = 1, .range = {{0, 1}}};
    weft_wire_put_repair(&out, &repair);
    fake_say(&fake, WEFT_MESSAGE_REPAIR, &out);
}

static void wants_without_a_wish(fleet *f)
{
    const uint8_t body[8] = {1};
    (void)f;
    say(WEFT_MESSAGE_WANT, body, sizeof body);
}

static void landed_on_ports_it_has_not(fleet *f)
{
    uint8_t body[256];
    weft_out out = {body, sizeof body, 0, false};
    (void)f;
    weft_wire_put_landed(&out, &(weft_wire_landed){.count = 2, .port = {{.writes = 9}, {.turn = 3, .writes = 9}}});
    fake_say(&fake, WEFT_MESSAGE_LANDED, &out);
}

static void closed_a_stale_turn(fleet *f)
{
    uint8_t body[128];
    weft_out out = {body, sizeof body, 0, false};
    (void)f;
    weft_wire_put_closed(&out, &(weft_wire_closed){.port = 0, .turn = 0});
    fake_say(&fake, WEFT_MESSAGE_CLOSED, &out);
}

static void opened_what_nobody_asked_for(fleet *f)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    (void)f;
    weft_wire_put_opened(&out, &(weft_wire_open){.port = 1, .turn = 7, .at = {.address = "x", .address_bytes = 1}});
    fake_say(&fake, WEFT_MESSAGE_OPENED, &out);
}

static void asks_beyond_the_model(fleet *f)
{
    (void)f;
    say_query(&(weft_wire_query){.first = UINT64_MAX - 1, .count = 2});
}

/* New slots over the ones that it granted, on the connection that has them. */
static void greets_again(fleet *f)
{
    uint8_t message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX];
    weft_wire_hello hello = {.nonce = 1, .slots = 2, .slot_stride = 8192, .slot_payload = 4096, .epoch = 2};
    snprintf(hello.name, sizeof hello.name, "%s", liar);
    (void)f;
    fake_send(&fake, message, fake_put_hello(message, &hello));
}

static void says_what_trainers_say(fleet *f)
{
    (void)f;
    say(WEFT_MESSAGE_PASSING, "", 0);
}

static void says_no_message(fleet *f)
{
    static const uint8_t huge[WEFT_MESSAGE_PREFIX] = {0xff, 0xff, 0xff, 0x7f, WEFT_MESSAGE_HELD, 0, 0, 0};
    (void)f;
    fake_send(&fake, huge, sizeof huge);
}

static const struct lie {
    const char *name;
    void (*tell)(fleet *f);
    const char *words;
} lies[] = {
    {"a receipt for nothing", a_receipt_for_nothing, "receipt for bucket 0 in slot 0, which is not on its way"},
    {"a receipt twice", a_receipt_twice, "receipt for bucket 0 in slot 0, which is not on its way"},
    {"a receipt for what comes later", a_receipt_for_what_comes_later, "receipt for bucket 1 in slot 0"},
    {"a receipt for a slot beyond", a_receipt_for_a_slot_beyond, "in slot 4294967295, which is not on its way"},
    {"held what was not sent", held_what_was_not_sent, "not a version it was sent"},
    {"held with another digest", held_with_another_digest, "not the digest published"},
    {"held of another run", held_of_another_run, "not the digest published"},
    {"held twice", held_twice, "not a version it was sent"},
    {"accepts no offer", accepts_no_offer, "accepts a snapshot that was not offered"},
    {"repairs no offer", repairs_no_offer, "asks for a repair of bits"},
    {"wants without a wish", wants_without_a_wish, "its HELLO says that it gets each version"},
    {"landed on ports it has not", landed_on_ports_it_has_not, "LANDED of 2 ports; it has 1"},
    {"closed a stale turn", closed_a_stale_turn, "which was not asked for"},
    {"opened what nobody asked for", opened_what_nobody_asked_for, "which was not asked for"},
    {"asks beyond the model", asks_beyond_the_model, "asks for 2 digests from"},
    {"greets again", greets_again, "sent HELLO, which no rollout sends here"},
    {"says what trainers say", says_what_trainers_say, "sent PASSING, which no rollout sends here"},
    {"says no message", says_no_message, "no weft end does that"},
};

/* Joins as the liar, which holds what the trainer has; `named`: it gets the versions that it names. */
static void join_as(fleet *f, bool named)
{
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake_open(&fake, f);
    fake_prove(&fake, f, liar);
    fake_hello(&fake, f, liar, f->history[f->history_count - 1].root, &hello);
    hello.incarnation = fleet_random(&f->seed) >> 8;
    hello.named = named;
    fake_send_hello(&fake, &hello);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_WELCOME, body, &length));
}

static void join(fleet *f)
{
    join_as(f, false);
}

static void must_be_dropped(fleet *f, const char *name, const char *words, weft_status status)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_event event;
    while (fake_read(&fake, body, &length))
        ;
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, liar, FLEET_WAIT_MS, &event));
    if (event.status != status || !strstr(event.text, words))
        fail_msg("%s: %s, \"%s\" does not say \"%s\"", name, weft_status_name(event.status), event.text, words);
    fake_close(&fake);
}

/* By names in turn, because the log has some lines of each name and then counts. */
static void each_lie_costs_the_liar_alone(void **state)
{
    static const char *const liars[] = {"b", "c", "x1", "x2", "x3", "x4"};
    fleet *f = fleet_keys_need(state);
    uint64_t blocks = 0;
    for (size_t i = 0; i < 2 * COUNT(lies); i++) {
        const struct lie *lie = &lies[i % COUNT(lies)];
        liar = liars[i % COUNT(liars)];
        fleet_drop_events(f);
        memset(&heard, 0, sizeof heard);
        join(f);
        lie->tell(f);
        must_be_dropped(f, lie->name, lie->words, lie->tell == says_no_message ? WEFT_E_CORRUPT : WEFT_E_PROTOCOL);
        stays_well(f);
        fleet_drop_events(f);
        if (heard.lines != 1)
            fail_msg("%s: %u lines in the log, the last: %s", lie->name, heard.lines, heard.last);
        if (i == COUNT(lies) - 1)
            blocks = weft_mem_blocks();
    }
    assert_int_equal(weft_mem_blocks(), blocks); /* of all liars of the second round nothing is left */
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 2 * COUNT(lies));
}

/* Whatever no rollout says. */
static void each_foreign_message(void **state)
{
    static const weft_message foreign[] = {
        WEFT_MESSAGE_WELCOME, WEFT_MESSAGE_REFUSE,   WEFT_MESSAGE_LAYOUT,  WEFT_MESSAGE_UPDATE, WEFT_MESSAGE_TRAILER,
        WEFT_MESSAGE_OFFER,   WEFT_MESSAGE_DIGESTS,  WEFT_MESSAGE_FOLLOW,  WEFT_MESSAGE_LOOK,   WEFT_MESSAGE_CLOSE,
        WEFT_MESSAGE_OPEN,    WEFT_MESSAGE_GREETING, WEFT_MESSAGE_DUCT,    WEFT_MESSAGE_CHUNK,  WEFT_MESSAGE_OFFERED,
        WEFT_MESSAGE_PASSED,  WEFT_MESSAGE_COMPARE,  WEFT_MESSAGE_PASSING, WEFT_MESSAGE_HELLO};
    fleet *f = fleet_keys_need(state);
    for (size_t i = 0; i < COUNT(foreign); i++) {
        fleet_drop_events(f);
        join(f);
        say(foreign[i], "", 0);
        must_be_dropped(f, "a foreign message", "which no rollout sends here", WEFT_E_PROTOCOL);
    }
    stays_well(f);
}

/* ---- questions without end */

/* Asks for the digests of all tensors, or of all tiles of the widest, again and again; `reads`: takes the answers. */
typedef struct asker {
    pthread_t thread;
    atomic_bool stop;
    atomic_uint asked, answered;
    bool reads;
} asker;

static void *ask_on(void *argument)
{
    asker *a = argument;
    static uint8_t many[64 * (WEFT_MESSAGE_PREFIX + 64)];
    uint8_t answer[WEFT_MESSAGE_MAX];
    uint64_t bytes = 0, at = 0;
    for (int i = 0; i < 64; i++) {
        weft_out out = {many + bytes + WEFT_MESSAGE_PREFIX, 64, 0, false};
        weft_wire_put_query(&out, &(weft_wire_query){.count = 1});
        weft_bytes_put(many + bytes, out.used, 4);
        weft_bytes_put(many + bytes + 4, WEFT_MESSAGE_QUERY, 4);
        bytes += WEFT_MESSAGE_PREFIX + out.used;
    }
    while (!atomic_load(&a->stop)) {
        const int64_t sent = fake_send_some(&fake, many + at, bytes - at);
        const int64_t got = a->reads ? fake_read_some(&fake, answer, sizeof answer) : 0;
        if (sent < 0 || got < 0)
            break;
        at += (uint64_t)sent;
        atomic_fetch_add(&a->asked, at == bytes ? 64 : 0);
        atomic_fetch_add(&a->answered, got > 0);
        at = at == bytes ? 0 : at;
        if (sent == 0 && got == 0)
            poll(&(struct pollfd){.fd = fake.fd, .events = POLLIN}, 1, 1);
    }
    return NULL;
}

static void begin(asker *a, fleet *f, bool reads)
{
    memset(a, 0, sizeof *a);
    a->reads = reads;
    join(f);
    assert_int_equal(pthread_create(&a->thread, NULL, ask_on, a), 0);
}

static void end(asker *a)
{
    atomic_store(&a->stop, true);
    pthread_join(a->thread, NULL);
}

/* Answers that nobody takes end the liar when the queue of its connection is full. */
static void questions_whose_answers_nobody_takes(void **state)
{
    fleet *f = fleet_keys_need(state);
    weft_event event;
    asker a;
    fleet_drop_events(f);
    memset(&heard, 0, sizeof heard);
    begin(&a, f, false);
    for (int version = 0; version < 3; version++)
        stays_well(f);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, liar, FLEET_WAIT_MS, &event));
    end(&a);
    assert_int_equal(event.status, WEFT_E_PEER_LOST);
    if (!strstr(event.text, "the other end does not read"))
        fail_msg("\"%s\" says something else", event.text);
    stays_well(f);
    fleet_drop_events(f);
    assert_int_equal(heard.lines, 1);
}

/* Whoever takes the answers may ask on, in its own turns. */
static void questions_without_end(void **state)
{
    fleet *f = fleet_keys_need(state);
    asker a;
    begin(&a, f, true);
    while (atomic_load(&a.answered) < 100)
        fleet_sleep_ms(1);
    const uint32_t before = atomic_load(&a.answered);
    const uint64_t blocks = weft_mem_blocks();
    for (int version = 0; version < 10; version++)
        stays_well(f);
    assert_true(atomic_load(&a.answered) > before);
    assert_int_equal(weft_mem_blocks(), blocks);
    end(&a);
    fleet_drop_events(f);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* ---- wishes without end */

static weft_peer *record_of(const weft_trainer *trainer, const char *name)
{
    for (uint32_t i = 0; i < trainer->peers.count; i++)
        if (trainer->peers.list[i].connection.greeted && strcmp(trainer->peers.list[i].claim.name, name) == 0)
            return &trainer->peers.list[i];
    fail_msg("%s is not joined", name);
    return NULL;
}

static uint32_t merges_wanted(const weft_bridge *bridge)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WEFT_BRIDGE_ENTRIES; i++)
        count += bridge->entries[i].state == WEFT_BRIDGED_WANTED;
    return count;
}

/* Whoever names another version in each turn has the merge to one of them queued, so that others' merges have place. */
static void wishes_without_end(void **state)
{
    fleet *f = fleet_keys_need(state);
    join_as(f, true);
    for (int version = 0; version < 8; version++)
        stays_well(f);
    const weft_session *session = f->trainer.session;
    weft_publisher *publisher = &session->trainer->publisher;
    pthread_mutex_lock((pthread_mutex_t *)&session->lock); /* so that no merge is made meanwhile */
    weft_peer *peer = record_of(session->trainer, liar);
    for (uint64_t number = f->newest - 5; number <= f->newest; number++) {
        uint8_t body[8];
        weft_bytes_put(body, number, sizeof body);
        assert_int_equal(weft_wish_take(peer, body, sizeof body), WEFT_OK);
        assert_int_equal(weft_feed_next(publisher, peer), WEFT_AGAIN);
    }
    const uint32_t wanted = merges_wanted(&publisher->bridge);
    pthread_mutex_unlock((pthread_mutex_t *)&session->lock);
    assert_int_equal(wanted, 1);
    stays_well(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_lie_costs_the_liar_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(each_foreign_message, setup, teardown),
        cmocka_unit_test_setup_teardown(questions_whose_answers_nobody_takes, setup, teardown),
        cmocka_unit_test_setup_teardown(questions_without_end, setup, teardown),
        cmocka_unit_test_setup_teardown(wishes_without_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

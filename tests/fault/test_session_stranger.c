/* The end at the trainer's address is no trainer, a mad one or a dead one. The rollout keeps its weights, reports the
 * fault, dials again, and finds the trainer when it is there. */
#include "tests/support/fleet_fake.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const fleet_kind plain_fleet = {FLEET_SMALL, .opened = fake_takes_the_place, .close = fake_leaves_the_place};

/* A short deadline for what never comes, long enough for the messages before it. */
static const fleet_kind short_fleet = {FLEET_SMALL, .overrides = FLEET_WITH("session.io_deadline=3s"),
                                       .opened = fake_takes_the_place, .close = fake_leaves_the_place};

static const fleet_kind staged_fleet = {FLEET_SMALL,
                                        .overrides = FLEET_WITH("session.io_deadline=2s", "commit.snapshot=staged"),
                                        .opened = fake_takes_the_place, .close = fake_leaves_the_place};

static void hang_up(void)
{
    close(fake_trainer.fd);
    fake_trainer.fd = -1;
}

/* The stranger goes, the trainer comes. */
static void trainer_comes(fleet *f)
{
    fleet_check_bytes(f, 0, f->dense);
    fake_close(&fake_trainer);
    close(fake_listener);
    fake_listener = -1;
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
}

static void answers_with_noise(void **state)
{
    fleet *f = *state;
    static const uint8_t huge[8] = {0xff, 0xff, 0xff, 0x7f, 2, 0, 0, 0}, empty[8] = {0, 0, 0, 0, 2, 0, 0, 0};
    static const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    const struct {
        const void *bytes;
        size_t count;
    } says[] = {{huge, sizeof huge}, {empty, sizeof empty}, {text, sizeof text - 1}, {"", 0}};
    weft_wire_hello hello;
    weft_version held;
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        fake_take_hello(&fake_trainer, fake_listener, &hello);
        fake_send(&fake_trainer, says[i].bytes, says[i].count);
        if (says[i].count == 0)
            shutdown(fake_trainer.fd, SHUT_RDWR);
        uint8_t body[WEFT_MESSAGE_MAX];
        uint64_t length;
        while (fake_read(&fake_trainer, body, &length))
            ;
        hang_up();
        assert_int_equal(weft_held(f->rollouts[0].session, &held), WEFT_OK);
    }
    trainer_comes(f);
}

static void falls_silent(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    weft_event event;
    fake_take_hello(&fake_trainer, fake_listener, &hello);
    fake_welcome(&fake_trainer, f, &hello, 300);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_LOST, NULL, FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_PEER_LOST);
    assert_non_null(strstr(event.text, "silent"));
    trainer_comes(f);
}

static void dies(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    weft_event event;
    fake_take_hello(&fake_trainer, fake_listener, &hello);
    fake_welcome(&fake_trainer, f, &hello, 600000);
    hang_up();
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_LOST, NULL, FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_PEER_LOST);
    trainer_comes(f);
}

static void say_update(const weft_wire_hello *hello, uint64_t base)
{
    uint8_t body[WEFT_UPDATE_HEADER_BYTES];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_update update = {.level = WEFT_LEVEL_FAST, .base = {9, 0, base}, .target = {9, 1, 0}};
    memcpy(update.layout, hello->layout, sizeof update.layout);
    weft_wire_put_update(&out, &update);
    fake_say(&fake_trainer, WEFT_MESSAGE_UPDATE, &out);
}

static void say_trailer(const weft_wire_trailer *trailer)
{
    uint8_t body[WEFT_UPDATE_TRAILER_BYTES];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_trailer(&out, trailer);
    fake_say(&fake_trainer, WEFT_MESSAGE_TRAILER, &out);
}

/* An update that is announced and never comes: the rollout's own deadline ends it. */
static void promises_and_sends_nothing(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    weft_event event;
    fake_take_hello(&fake_trainer, fake_listener, &hello);
    fake_welcome(&fake_trainer, f, &hello, 600000);
    say_update(&hello, hello.held.root);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_LOST, NULL, FLEET_WAIT_MS, &event));
    assert_non_null(strstr(event.text, "io_deadline"));
    trainer_comes(f);
}

/* A snapshot that is offered, accepted and never begun, by a trainer that answers otherwise. */
static void offers_and_never_begins(void **state)
{
    fleet *f = *state;
    const uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS;
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    uint64_t length;
    uint32_t type;
    bool accepted = false;
    weft_wire_hello hello;
    weft_event event;
    fake_take_hello(&fake_trainer, fake_listener, &hello);
    fake_welcome(&fake_trainer, f, &hello, 8000); /* long enough for a PONG on any machine */
    weft_wire_put_version(&out, &(weft_version){9, 1, 5});
    fake_say(&fake_trainer, WEFT_MESSAGE_OFFER, &out);
    while ((type = fake_read(&fake_trainer, body, &length)) != 0) {
        accepted = accepted || type == WEFT_MESSAGE_ACCEPT;
        if (type == WEFT_MESSAGE_PING)
            fake_say(&fake_trainer, WEFT_MESSAGE_PONG, &(weft_out){body, length, length, false});
        if (fleet_now_ms() > until_ms)
            fail_msg("it waits for ever, %s", accepted ? "having accepted" : "and did not accept");
    }
    assert_true(accepted);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_LOST, NULL, FLEET_WAIT_MS, &event));
    assert_non_null(strstr(event.text, "no snapshot was begun"));
    trainer_comes(f);
}

/* An empty update whose trailer names other bits than the base and no change lead to, if the base is the right one. */
static void announce_a_lie(fleet *f, uint64_t base_flip)
{
    weft_wire_hello hello;
    fake_take_hello(&fake_trainer, fake_listener, &hello);
    fake_welcome(&fake_trainer, f, &hello, 600000);
    say_update(&hello, hello.held.root ^ base_flip);
    say_trailer(&(weft_wire_trailer){.target = {9, 1, 5}});
}

static void lies(fleet *f, uint64_t base_flip, weft_status status)
{
    weft_event event;
    announce_a_lie(f, base_flip);
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, status);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    trainer_comes(f);
}

static void lies_about_the_target(void **state)
{
    lies(*state, 0, WEFT_E_TARGET);
}

static void lies_about_the_base(void **state)
{
    lies(*state, 1, WEFT_E_BASE);
}

/* The rollout asks where its bits differ from the lie. */
static void take_query(weft_wire_query *query)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    assert_true(fake_read_until(&fake_trainer, WEFT_MESSAGE_QUERY, body, &length));
    assert_int_equal(weft_wire_get_query(body, length, query), WEFT_OK);
}

static void say_digests(const weft_wire_digests *digests)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_digests(&out, digests);
    fake_say(&fake_trainer, WEFT_MESSAGE_DIGESTS, &out);
}

static void must_resync(fleet *f, weft_status status, const char *words)
{
    weft_event event;
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_RESYNC, NULL, FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, status);
    if (!strstr(event.text, words))
        fail_msg("\"%s\" does not say \"%s\"", event.text, words);
    trainer_comes(f);
}

/* No digest is the rollout's: the first tensor is named. */
static void explains_the_lie(void **state)
{
    fleet *f = *state;
    weft_wire_query query;
    announce_a_lie(f, 0);
    take_query(&query);
    assert_int_equal(query.kind, WEFT_DIGESTS_TENSORS);
    assert_int_equal(query.version.root, 5);
    say_digests(&(weft_wire_digests){.version = query.version, .count = query.count, .digest = {0, 1, 2}});
    must_resync(f, WEFT_E_TARGET, "tensor scalar tile 0, elements 0..0 and ");
}

static void knows_nothing_of_the_lie(void **state)
{
    fleet *f = *state;
    weft_wire_query query;
    announce_a_lie(f, 0);
    take_query(&query);
    say_digests(&(weft_wire_digests){.count = 0});
    must_resync(f, WEFT_E_TARGET, "does not tell which");
}

/* Answers to other questions: of another version, of tiles, from elsewhere, too many, none at all. */
static void answers_what_was_not_asked(void **state)
{
    fleet *f = *state;
    weft_event event;
    weft_wire_query query;
    for (int i = 0; i < 5; i++) {
        announce_a_lie(f, 0);
        take_query(&query);
        weft_wire_digests digests = {.version = query.version, .count = 1};
        digests.version.root += i == 0;
        digests.kind = i == 1 ? WEFT_DIGESTS_TILES : WEFT_DIGESTS_TENSORS;
        digests.first = i == 2;
        digests.count = i == 3 ? query.count + 1 : i != 4;
        say_digests(&digests);
        assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_LOST, NULL, FLEET_WAIT_MS, &event));
        assert_int_equal(event.status, WEFT_E_PROTOCOL);
        fake_close(&fake_trainer);
    }
    trainer_comes(f);
}

static void answers_nobody(void **state)
{
    fleet *f = *state;
    weft_event event;
    weft_wire_hello hello;
    fake_take_hello(&fake_trainer, fake_listener, &hello);
    fake_welcome(&fake_trainer, f, &hello, 600000);
    say_digests(&(weft_wire_digests){.count = 0});
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_LOST, NULL, FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_PROTOCOL);
    trainer_comes(f);
}

/* 'U': UPDATE, 'T': its TRAILER, 'W': one that withdraws; of a bucket that never comes. */
static void say_letter(const weft_wire_hello *hello, char letter)
{
    if (letter == 'U')
        say_update(hello, hello->held.root);
    else
        say_trailer(&(weft_wire_trailer){.target = {letter == 'T' ? 9 : 0, letter == 'T', 0}, .buckets = 1});
}

/* Nothing, an update that is there whole, one that was withdrawn already; and what follows one. */
static void withdraws_what_it_may_not(void **state)
{
    fleet *f = *state;
    weft_event event;
    weft_wire_hello hello;
    const char *const says[] = {"W", "UTW", "UWW", "UWT", "UWU"};
    for (size_t i = 0; i < sizeof says / sizeof says[0]; i++) {
        fake_take_hello(&fake_trainer, fake_listener, &hello);
        fake_welcome(&fake_trainer, f, &hello, 600000);
        for (const char *letter = says[i]; *letter; letter++)
            say_letter(&hello, *letter);
        assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_LOST, NULL, FLEET_WAIT_MS, &event));
        assert_int_equal(event.status, WEFT_E_PROTOCOL);
        fake_close(&fake_trainer);
    }
    trainer_comes(f);
}

/* As often as it likes: each time the rollout says what it holds. */
static void withdraws_again_and_again(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    weft_wire_held held;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    fake_take_hello(&fake_trainer, fake_listener, &hello);
    fake_welcome(&fake_trainer, f, &hello, 600000);
    for (int i = 0; i < 20; i++) {
        say_update(&hello, hello.held.root);
        say_trailer(&(weft_wire_trailer){.buckets = 0});
        assert_true(fake_read_until(&fake_trainer, WEFT_MESSAGE_HELD, body, &length));
        assert_int_equal(weft_wire_get_held(body, length, &held), WEFT_OK);
        assert_int_equal(held.version.root, hello.held.root);
        assert_int_equal(held.decode_ns + held.commit_ns, 0);
    }
    trainer_comes(f);
}

#define TEST(name) FLEET_TEST(name, plain_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(answers_with_noise, short_fleet),
        TEST(falls_silent),
        TEST(dies),
        FLEET_TEST(promises_and_sends_nothing, short_fleet),
        FLEET_TEST(offers_and_never_begins, staged_fleet),
        FLEET_TEST(lies_about_the_target, short_fleet),
        TEST(lies_about_the_base),
        TEST(explains_the_lie),
        TEST(knows_nothing_of_the_lie),
        TEST(answers_what_was_not_asked),
        TEST(answers_nobody),
        TEST(withdraws_what_it_may_not),
        TEST(withdraws_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* An end that a rollout joined says what no trainer says in that place. The rollout ends the connection with the
 * reason, keeps its weights, and takes the next one. */
#include "tests/support/fleet_fake.h"

#include <string.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static weft_wire_hello hello;

static const fleet_kind plain_fleet = {FLEET_SMALL, .opened = fake_takes_the_place, .close = fake_leaves_the_place};

static void say(weft_message type, const void *body, uint64_t bytes)
{
    fake_say(&fake_trainer, type, &(weft_out){(uint8_t *)body, bytes, bytes, false});
}

static void say_update(uint64_t number)
{
    uint8_t body[WEFT_UPDATE_HEADER_BYTES];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_update update = {.level = WEFT_LEVEL_FAST, .base = {9, 0, hello.held.root}, .target = {9, number, 0}};
    memcpy(update.layout, hello.layout, sizeof update.layout);
    weft_wire_put_update(&out, &update);
    fake_say(&fake_trainer, WEFT_MESSAGE_UPDATE, &out);
}

/* ---- lies */

static void an_update_before_the_last_has_ended(void)
{
    say_update(1);
    say_update(2);
}

static void a_trailer_alone(void)
{
    uint8_t body[WEFT_UPDATE_TRAILER_BYTES];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_trailer(&out, &(weft_wire_trailer){.target = {9, 1, 5}});
    fake_say(&fake_trainer, WEFT_MESSAGE_TRAILER, &out);
}

static void an_offer_twice(void)
{
    uint8_t body[32];
    for (int i = 0; i < 2; i++) {
        weft_out out = {body, sizeof body, 0, false};
        weft_wire_put_version(&out, &(weft_version){9, 1, 5});
        fake_say(&fake_trainer, WEFT_MESSAGE_OFFER, &out);
    }
}

static void digests_unasked(void)
{
    static uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_digests(&out, &(weft_wire_digests){.version = {9, 1, 5}, .count = 1});
    fake_say(&fake_trainer, WEFT_MESSAGE_DIGESTS, &out);
}

static void follow_to_no_relay(void)
{
    static uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_follow(&out, &(weft_wire_follow){.target = {9, 1, 0}, .count = 1});
    fake_say(&fake_trainer, WEFT_MESSAGE_FOLLOW, &out);
}

static void offered_to_who_names_none(void)
{
    say(WEFT_MESSAGE_OFFERED, (const uint8_t[8]){1}, 8);
}

static void passed_to_who_names_none(void)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_passed(&out, &(weft_wire_passed){.number = 1, .reason = WEFT_PASS_GONE});
    fake_say(&fake_trainer, WEFT_MESSAGE_PASSED, &out);
}

static void close_of_a_port_beyond(void)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_close(&out, &(weft_wire_close){.port = 7});
    fake_say(&fake_trainer, WEFT_MESSAGE_CLOSE, &out);
}

static void close_in_another_turn(void)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_close(&out, &(weft_wire_close){.turn = 3});
    fake_say(&fake_trainer, WEFT_MESSAGE_CLOSE, &out);
}

static void open_of_what_is_open(void)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_put_open(&out, &(weft_wire_open){.turn = 1, .at = {.address = "x", .address_bytes = 1}});
    fake_say(&fake_trainer, WEFT_MESSAGE_OPEN, &out);
}

static void greets_again(void)
{
    fake_greet(&fake_trainer);
}

static void a_word_of_no_length(void)
{
    say(WEFT_MESSAGE_PING, "", 0);
}

static void no_message(void)
{
    static const uint8_t huge[WEFT_MESSAGE_PREFIX] = {0xff, 0xff, 0xff, 0x7f, WEFT_MESSAGE_UPDATE};
    fake_send(&fake_trainer, huge, sizeof huge);
}

static const struct lie {
    void (*tell)(void);
    const char *words;
} lies[] = {
    {an_update_before_the_last_has_ended, "the last not ended"},
    {a_trailer_alone, "TRAILER of version 1 without its UPDATE"},
    {an_offer_twice, "a snapshot offered"},
    {digests_unasked, "not what was asked for"},
    {follow_to_no_relay, "FOLLOW, to a rollout that is no relay"},
    {offered_to_who_names_none, "OFFERED, to a rollout that takes each version"},
    {passed_to_who_names_none, "PASSED, to a rollout that takes each version"},
    {close_of_a_port_beyond, "CLOSE of port 7, this rollout has 1"},
    {close_in_another_turn, "CLOSE of port 0 in turn 3"},
    {open_of_what_is_open, "it is open in turn 0"},
    {greets_again, "GREETING, which no trainer sends here"},
    {a_word_of_no_length, "word message: malformed"},
    {no_message, "no weft end does that"},
};

/* Whatever only a rollout says, or only before WELCOME. */
static const weft_message foreign[] = {
    WEFT_MESSAGE_HELLO,  WEFT_MESSAGE_WELCOME, WEFT_MESSAGE_REFUSE, WEFT_MESSAGE_LAYOUT, WEFT_MESSAGE_RECEIPT,
    WEFT_MESSAGE_STAGED, WEFT_MESSAGE_HELD,    WEFT_MESSAGE_FAULT,  WEFT_MESSAGE_ACCEPT, WEFT_MESSAGE_QUERY,
    WEFT_MESSAGE_REPAIR, WEFT_MESSAGE_LANDED,  WEFT_MESSAGE_CLOSED, WEFT_MESSAGE_OPENED, WEFT_MESSAGE_DUCT,
    WEFT_MESSAGE_CHUNK,  WEFT_MESSAGE_WANT,    WEFT_MESSAGE_COMPARE};

static void join(fleet *f)
{
    fake_take_hello(&fake_trainer, fake_listener, &hello);
    fake_welcome(&fake_trainer, f, &hello, 600000);
}

/* What the lie is about decides which event has the reason: the connection's, or a version's. */
static void must_leave(fleet *f, const char *words)
{
    const uint64_t until_ms = fleet_now_ms() + FLEET_WAIT_MS;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_event event = {.size = sizeof event};
    while (fake_read(&fake_trainer, body, &length))
        ;
    do {
        event.kind = WEFT_EVENT_JOINED;
        if (weft_events(f->rollouts[0].session, &event) != WEFT_OK)
            fleet_sleep_ms(1);
        if (fleet_now_ms() > until_ms)
            fail_msg("nothing is said of \"%s\"", words);
    } while (event.kind != WEFT_EVENT_LOST && event.kind != WEFT_EVENT_RESYNC);
    if (!strstr(event.text, words))
        fail_msg("\"%s\" does not say \"%s\"", event.text, words);
    fleet_check_bytes(f, 0, f->dense);
    fake_close(&fake_trainer);
}

static void each_lie_ends_the_connection(void **state)
{
    fleet *f = *state;
    for (size_t i = 0; i < COUNT(lies); i++) {
        join(f);
        lies[i].tell();
        must_leave(f, lies[i].words);
    }
    for (size_t i = 0; i < COUNT(foreign); i++) {
        join(f);
        say(foreign[i], "", 0);
        must_leave(f, "which no trainer sends here");
    }
    close(fake_listener);
    fake_listener = -1;
    fleet_start_trainer(f, NULL);
    fleet_catch_up(f, 0);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FLEET_TEST(each_lie_ends_the_connection, plain_fleet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

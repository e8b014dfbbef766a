/* The trainer answers with the digests of every version it keeps, and closes on questions that no rollout asks. */
#include "tests/support/fleet_fake.h"

#include <string.h>
#include <sys/socket.h>

#include "layout/digest.h"
#include "layout/layout.h"
#include "tests/support/clock_own.h"

static fleet_fake fake;

/* A rollout in the test's hands that holds the version 0, while three more are published. */
static int setup(void **state)
{
    static const char *const overrides[] = {"peers.heartbeat=60s", NULL}; /* the fake sends no pings */
    fleet *f = fleet_open(FLEET_TILES, overrides);
    weft_wire_hello hello;
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    *state = f;
    fleet_start_trainer(f, NULL);
    fake_open(&fake, f);
    fake_hello(&fake, f, "b", f->history[0].root, &hello);
    fake_send_hello(&fake, &hello);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_WELCOME, body, &length));
    fleet_publish(f, 1000);
    fleet_publish(f, 0);
    fleet_publish(f, 30);
    return 0;
}

static int teardown(void **state)
{
    fake_close(&fake);
    fleet_close(*state);
    return 0;
}

static void ask(const weft_wire_query *query)
{
    uint8_t message[WEFT_MESSAGE_PREFIX + 64] = {0};
    weft_out out = {message + WEFT_MESSAGE_PREFIX, 64, 0, false};
    weft_wire_put_query(&out, query);
    weft_bytes_put(message, out.used, 4);
    weft_bytes_put(message + 4, WEFT_MESSAGE_QUERY, 2);
    fake_send(&fake, message, WEFT_MESSAGE_PREFIX + out.used);
}

static void answer(const weft_wire_query *query, weft_wire_digests *digests)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    ask(query);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_DIGESTS, body, &length));
    assert_int_equal(weft_wire_get_digests(body, length, digests), WEFT_OK);
    assert_int_equal(digests->kind, query->kind);
    assert_int_equal(digests->tensor, query->tensor);
    assert_int_equal(digests->first, query->first);
}

static uint64_t number_of(const fleet *f, const char *tensor)
{
    uint64_t t = 0;
    while (strcmp(f->layout->entries[t].tensor.name, tensor) != 0)
        t++;
    return t;
}

/* The digest of bf16 elements of `wide`, by its definition. */
static uint64_t digest_of(const fleet *f, const uint8_t *dense, uint64_t first, uint64_t count)
{
    const uint8_t *wide = dense + fleet_tensor_at(f->layout, "wide");
    uint64_t sum = 0;
    for (uint64_t i = first; i < first + count; i++)
        sum += weft_digest_term(i, weft_bytes_get(wide + 2 * i, 2));
    return sum;
}

static void every_version_adds_up(void **state)
{
    fleet *f = *state;
    uint64_t tensors = f->layout->count, wide = number_of(f, "wide");
    assert_int_equal(f->history_count, 4);
    for (uint64_t v = 0; v < f->history_count; v++) {
        weft_wire_digests all, tiles;
        weft_wire_query query = {.version = {0, 99, f->history[v].root}, .count = (uint32_t)tensors};
        answer(&query, &all);
        assert_int_equal(all.count, tensors);
        assert_true(all.version.root == f->history[v].root);
        assert_true(weft_digest_root(all.digest, tensors) == f->history[v].root);
        query.kind = WEFT_DIGESTS_TILES;
        query.tensor = wide;
        query.count = 2;
        answer(&query, &tiles);
        assert_int_equal(tiles.count, 2);
        assert_true(tiles.digest[0] == digest_of(f, f->history[v].dense, 0, 262144));
        assert_true(tiles.digest[1] == digest_of(f, f->history[v].dense, 262144, 299899 - 262144));
        assert_true(tiles.digest[0] + tiles.digest[1] == all.digest[wide]);
    }
}

/* All 0 is the newest; each answer names the version before, down to the first. */
static void back_from_the_newest(void **state)
{
    fleet *f = *state;
    weft_wire_digests digests;
    weft_wire_query query = {.first = 3, .count = 1};
    for (uint64_t v = f->history_count; v-- > 0; query.version = digests.before) {
        answer(&query, &digests);
        assert_int_equal(digests.count, 1);
        assert_true(digests.version.root == f->history[v].root);
        assert_int_equal(digests.version.number, v); /* 1 and 2 have the same bits */
        assert_int_equal(digests.before.run == 0, v == 0);
    }
}

static void unknown_bits_have_none(void **state)
{
    fleet *f = *state;
    const weft_version nothing = {0, 0, 0};
    weft_wire_digests digests;
    answer(&(weft_wire_query){.version = {1, 1, f->history[1].root ^ 1}, .first = 1, .count = 2}, &digests);
    assert_int_equal(digests.count, 0);
    assert_memory_equal(&digests.version, &nothing, sizeof nothing);
}

static void closes_on(fleet *f, weft_wire_query query)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    uint64_t length;
    weft_event event;
    ask(&query);
    assert_false(fake_read_until(&fake, WEFT_MESSAGE_DIGESTS, body, &length));
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, "b", FLEET_WAIT_MS, &event));
    assert_int_equal(event.status, WEFT_E_PROTOCOL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
}

static void no_such_tensor(void **state)
{
    closes_on(*state, (weft_wire_query){.first = UINT64_MAX - 1, .count = 2});
}

static void too_many_tensors(void **state)
{
    fleet *f = *state;
    closes_on(f, (weft_wire_query){.first = 1, .count = (uint32_t)f->layout->count});
}

static void no_such_tile(void **state)
{
    closes_on(*state, (weft_wire_query){
                          .kind = WEFT_DIGESTS_TILES, .tensor = number_of(*state, "wide"), .first = 2, .count = 1});
}

static void tiles_of_no_tensor(void **state)
{
    closes_on(*state, (weft_wire_query){.kind = WEFT_DIGESTS_TILES, .tensor = UINT64_MAX, .count = 1});
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- turns, by hand */

#define QUESTIONS 40u

/* A clock of the test's own: the session then has no thread that makes turns beside these. */
static int setup_by_hand(void **state)
{
    static const char *const overrides[] = {"session.progress=manual", "peers.heartbeat=60s", NULL};
    set_clock(state);
    *state = fleet_open(FLEET_TILES, overrides);
    fleet_start_trainer(*state, NULL);
    return 0;
}

static int teardown_by_hand(void **state)
{
    teardown(state);
    return give_clock(state);
}

/* Makes turns until the trainer has answered. */
static void make_turns(fleet *f)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    uint8_t byte;
    while (recv(fake.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1) {
        assert_true(fleet_now_ms() < end);
        assert_int_equal(weft_progress(f->trainer.session, 1), WEFT_OK);
    }
}

static void join_by_hand(fleet *f, uint64_t root)
{
    uint8_t body[WEFT_MESSAGE_MAX], message[WEFT_MESSAGE_PREFIX + WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    uint64_t length;
    weft_wire_greeting greeting;
    weft_wire_hello hello;
    fake_open(&fake, f);
    fake_hello(&fake, f, "b", root, &hello);
    weft_wire_put_knock(&out, &(weft_wire_knock){WEFT_PROTOCOL_LOWEST, WEFT_PROTOCOL});
    fake_say(&fake, WEFT_MESSAGE_HELLO, &out);
    make_turns(f);
    assert_int_equal(fake_read(&fake, body, &length), WEFT_MESSAGE_GREETING);
    assert_int_equal(weft_wire_get_greeting(body, length, &greeting), WEFT_OK);
    hello.nonce = greeting.nonce;
    fake_send(&fake, message, fake_put_hello(message, &hello));
    make_turns(f);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_WELCOME, body, &length));
}

/* The answers among the whole messages that came. */
static uint32_t count_answers(weft_message type, uint8_t *bytes, uint64_t *used, uint64_t room)
{
    uint32_t answers = 0;
    int64_t got;
    while ((got = fake_read_some(&fake, bytes + *used, room - *used)) > 0)
        *used += (uint64_t)got;
    assert_int_equal(got, 0);
    for (uint64_t whole; *used >= WEFT_MESSAGE_PREFIX;) {
        whole = WEFT_MESSAGE_PREFIX + weft_bytes_get(bytes, 4);
        if (*used < whole)
            break;
        answers += weft_bytes_get(bytes + 4, 2) == type;
        memmove(bytes, bytes + whole, *used - whole);
        *used -= whole;
    }
    return answers;
}

/* Takes the answers to all questions, none of which has come yet, from turns of which none has two. */
static void take_in_turns(fleet *f, weft_message type)
{
    static uint8_t bytes[1u << 16];
    uint64_t used = 0;
    uint32_t answers = 0, before = 0;
    for (uint32_t turns = 0; answers < QUESTIONS; turns++, before = answers) {
        assert_true(turns < 10 * QUESTIONS);
        assert_int_equal(weft_progress(f->trainer.session, 0), WEFT_OK);
        answers += count_answers(type, bytes, &used, sizeof bytes);
        assert_true(answers <= before + 1);
    }
}

/* However many questions of a peer are here, a turn of the session has one answer for it, and the next comes at once.
 */
static void one_answer_a_turn(void **state)
{
    fleet *f = *state;
    join_by_hand(f, f->history[0].root);
    for (uint32_t i = 0; i < QUESTIONS; i++)
        ask(&(weft_wire_query){.count = 1});
    take_in_turns(f, WEFT_MESSAGE_DIGESTS);
}

/* The same of repairs of an offer, each to a version that is not known. */
static void one_repair_a_turn(void **state)
{
    fleet *f = *state;
    uint8_t body[WEFT_MESSAGE_MAX], all[QUESTIONS * 64] = {0};
    uint64_t length, used = 0;
    const weft_wire_repair repair = {.root = 99, .version = {1, 2, 3}, .count = 1, .range = {{0, 1}}};
    join_by_hand(f, 99);
    make_turns(f);
    assert_true(fake_read_until(&fake, WEFT_MESSAGE_OFFER, body, &length));
    for (uint32_t i = 0; i < QUESTIONS; i++) {
        weft_out out = {all + used + WEFT_MESSAGE_PREFIX, 64 - WEFT_MESSAGE_PREFIX, 0, false};
        weft_wire_put_repair(&out, &repair);
        weft_bytes_put(all + used, out.used, 4);
        weft_bytes_put(all + used + 4, WEFT_MESSAGE_REPAIR, 2);
        used += WEFT_MESSAGE_PREFIX + out.used;
    }
    fake_send(&fake, all, used);
    take_in_turns(f, WEFT_MESSAGE_OFFER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_version_adds_up),
        TEST(back_from_the_newest),
        TEST(unknown_bits_have_none),
        TEST(no_such_tensor),
        TEST(too_many_tensors),
        TEST(no_such_tile),
        TEST(tiles_of_no_tensor),
        cmocka_unit_test_setup_teardown(one_answer_a_turn, setup_by_hand, teardown_by_hand),
        cmocka_unit_test_setup_teardown(one_repair_a_turn, setup_by_hand, teardown_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

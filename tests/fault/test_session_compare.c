/* A trainer that has the rollout compare, and is not one: what it says takes no memory and no time without a bound, and
 * what it leaves behind is forgotten. */
#include "tests/support/fleet_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "layout/layout.h"
#include "tests/support/sanitized.h"

static fleet_fake fake;

static void shuffles(fleet *f)
{
    fake.fd = -1;
    f->other = f->other ? f->other : fleet_layout_shuffled(f->layout, 4711);
}

static void ended(fleet *f)
{
    (void)f;
    fake_close(&fake);
}

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, .attachment = "label", .opened = shuffles,
                                       .close = ended};

/* Answers the rollout's next connection by a message. */
static void answer(int listener, weft_message type, const uint8_t *body, uint64_t length)
{
    weft_out out = {(uint8_t *)(uintptr_t)body, length, length, false};
    weft_wire_hello hello;
    fake_close(&fake);
    fake_take_hello(&fake, listener, &hello);
    assert_int_equal(hello.wants_layout, type == WEFT_MESSAGE_LAYOUT);
    fake_say(&fake, type, &out);
}

/* Lists that are none, that are longer than any of this model, and tensors whose sizes no memory holds. */
static void a_liar_gets_no_memory(void **state)
{
    fleet *f = *state;
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_hello hello;
    fleet_stop_trainer(f);
    const int listener = fake_listen(f);
    fleet_join(f, 0, FLEET_SAME);
    const uint64_t before = fleet_held(f->rollouts[0].session).root;
    answer(listener, WEFT_MESSAGE_COMPARE, NULL, 0);
    answer(listener, WEFT_MESSAGE_LAYOUT, (const uint8_t *)"no layout, by far", 17);
    answer(listener, WEFT_MESSAGE_COMPARE, NULL, 0);
    weft_out_word(&out, 0x594c4657u, 4);
    weft_out_word(&out, 1, 4);
    weft_out_word(&out, 1, 8);
    weft_out_word(&out, WEFT_U8, 4);
    weft_out_word(&out, 1, 4);
    weft_out_word(&out, 1, 4);
    weft_out_word(&out, UINT64_C(1) << 41, 8); /* a layout of 2^23 units */
    weft_out_block(&out, "w", 1);
    answer(listener, WEFT_MESSAGE_LAYOUT, body, out.used);
    fake_close(&fake);
    fake_take_hello(&fake, listener, &hello);
    assert_non_null(strstr(hello.differs, "tensors differ"));
    answer(listener, WEFT_MESSAGE_COMPARE, NULL, 0);
    fake_close(&fake);
    fake_take_hello(&fake, listener, &hello);
    weft_bytes_put(body, WEFT_LAYOUT_MAX, 4);
    weft_bytes_put(body + 4, WEFT_MESSAGE_LAYOUT, 4);
    fake_send(&fake, body, WEFT_MESSAGE_PREFIX); /* of which no byte is waited for */
    fake_close(&fake);
    fake_take_hello(&fake, listener, &hello);
    assert_non_null(strstr(hello.differs, "they are of different models"));
    assert_int_equal(fleet_held(f->rollouts[0].session).root, before);
    close(listener);
}

/* One that asks to compare again and again is dialed after pauses, and not in a busy loop. */
static void who_asks_again_and_again_waits(void **state)
{
    enum { TURNS = 4 };
    fleet *f = *state;
    const uint64_t length = weft_layout_wire_bytes(f->layout);
    uint8_t *list = malloc(length);
    weft_layout_write(f->layout, list);
    list[16] = WEFT_F64; /* the first tensor's dtype */
    fleet_stop_trainer(f);
    const int listener = fake_listen(f);
    fleet_join(f, 0, FLEET_SAME);
    uint64_t begun_ms = 0;
    for (int i = 0; i < TURNS; i++) {
        begun_ms = fleet_now_ms();
        answer(listener, WEFT_MESSAGE_COMPARE, NULL, 0);
        answer(listener, WEFT_MESSAGE_LAYOUT, list, length);
    }
    assert_true(fleet_now_ms() - begun_ms >= 400);
    free(list);
    close(listener);
}

/* A trainer that has the rollout compare for ever is left, as one that it cannot talk to. */
static void compares_for_ever(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    static uint8_t body[4096];
    const uint64_t bytes = weft_layout_wire_bytes(f->layout);
    assert_true(bytes <= sizeof body);
    weft_layout_write(f->layout, body);
    fleet_stop_trainer(f);
    const int listener = fake_listen(f);
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 4; i++) {
        answer(listener, WEFT_MESSAGE_COMPARE, NULL, 0);
        answer(listener, WEFT_MESSAGE_LAYOUT, body, bytes);
    }
    answer(listener, WEFT_MESSAGE_COMPARE, NULL, 0);
    fake_close(&fake);
    fake_take_hello(&fake, listener, &hello);
    assert_false(hello.wants_layout);
    assert_string_equal(hello.differs, "");
    close(listener);
}

/* What was found of one trainer is said to no other: the one that is not ready may end, and another one come. */
static void a_difference_is_forgotten(void **state)
{
    fleet *f = *state;
    weft_wire_hello hello;
    uint8_t body[64];
    const uint64_t one = 1;
    const weft_tensor tensor = {"w", WEFT_U8, 1, &one};
    weft_layout *other;
    assert_int_equal(weft_layout_create(&tensor, 1, &other), WEFT_OK);
    weft_layout_write(other, body);
    fleet_stop_trainer(f);
    const int listener = fake_listen(f);
    fleet_join(f, 0, FLEET_SAME);
    answer(listener, WEFT_MESSAGE_COMPARE, NULL, 0);
    answer(listener, WEFT_MESSAGE_LAYOUT, body, weft_layout_wire_bytes(other));
    fake_close(&fake);
    fake_take_hello(&fake, listener, &hello);
    assert_non_null(strstr(hello.differs, "tensors differ"));
    fake_say(&fake, WEFT_MESSAGE_PASSING, &(weft_out){body, 0, 0, false});
    fake_close(&fake);
    fake_take_hello(&fake, listener, &hello);
    assert_string_equal(hello.differs, "");
    weft_layout_free(other);
    close(listener);
}

/* Lets the process have a little less address space than it has now. */
static void take_room(struct rlimit *before)
{
    unsigned long long pages;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    assert_int_equal(getrlimit(RLIMIT_AS, before), 0);
    const struct rlimit less = {pages * (unsigned long long)sysconf(_SC_PAGESIZE) - (64u << 10), before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
}

/* An end that gave its memory back, and gets none for the other order, is half an end. So the session ends, and the
 * weights stay. */
static void no_memory_for_an_order(void **state)
{
    fleet *f = *state;
    static uint8_t body[4096];
    struct rlimit before;
    weft_wire_hello hello;
    const uint64_t bytes = weft_layout_wire_bytes(f->layout);
    weft_out out = {body, bytes, bytes, false};
#ifdef SANITIZED
    skip(); /* address space is theirs */
#endif
    assert_true(bytes <= sizeof body);
    weft_layout_write(f->layout, body);
    fleet_stop_trainer(f);
    const int listener = fake_listen(f);
    fleet_join(f, 0, FLEET_SAME);
    const uint64_t root = fleet_held(f->rollouts[0].session).root;
    answer(listener, WEFT_MESSAGE_COMPARE, NULL, 0);
    fake_close(&fake);
    fake_take_hello(&fake, listener, &hello);
    assert_true(hello.wants_layout);
    take_room(&before);
    fake_say(&fake, WEFT_MESSAGE_LAYOUT, &out);
    const weft_status status = fleet_alone(f, 0);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(status, WEFT_E_MEMORY);
    assert_non_null(strstr(weft_last_error(), "order of tensors cannot be taken"));
    assert_non_null(strstr(weft_last_error(), "the weights were not touched"));
    assert_int_not_equal(fleet_held(f->rollouts[0].session).root, root); /* the same bits, by the trainer's order */
    assert_int_equal(weft_unbind(f->rollouts[0].session), WEFT_OK);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(a_liar_gets_no_memory, plain_fleet),  FLEET_TEST(who_asks_again_and_again_waits, plain_fleet),
        FLEET_TEST(compares_for_ever, plain_fleet),      FLEET_TEST(a_difference_is_forgotten, plain_fleet),
        FLEET_TEST(no_memory_for_an_order, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

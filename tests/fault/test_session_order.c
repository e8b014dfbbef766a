/* A rollout with the trainer's tensors in another order joins and has every bit. One with other tensors is refused, and
 * both ends name the tensors. */
#include "tests/support/fleet_fake.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "layout/layout.h"
#include "tests/support/fleet_keys.h"
#include "tests/support/relay_site.h"
#include "tests/support/sanitized.h"
#include "wire/control.h"

enum { LONG = 200 };

static char said[4096]; /* the trainer's lines about layouts */
static relay_site relays;
static fleet_fake fake;
static fleet_keys keys;

static void hear(void *user, weft_log_level level, const char *line)
{
    fleet *f = user;
    if (strstr(line, "another layout"))
        snprintf(said, sizeof said, "%s", line);
    f->log(f->trainer.name, level, line);
}

static int open_with(void **state, const char *const *overrides)
{
    fleet *f = *state = fleet_open(FLEET_TILES, overrides);
    said[0] = 0;
    fake.fd = -1;
    f->heard = hear;
    fleet_start_trainer(f, "label");
    f->other = f->other ? f->other : fleet_layout_shuffled(f->layout, 4711);
    return 0;
}

static int setup(void **state)
{
    return open_with(state, NULL);
}

static int setup_blocks(void **state)
{
    const int code = open_with(state, NULL);
    ((fleet *)*state)->blocks = true;
    return code;
}

static int setup_relay(void **state)
{
    relays.count = 0;
    const char *overrides[] = {relay_of(&relays, "a"), "peer.a.relay_memory=64MiB", "peer.x*.via=a", NULL};
    return open_with(state, overrides);
}

static int setup_staged(void **state)
{
    static const char *const overrides[] = {"commit.snapshot=staged", NULL};
    return open_with(state, overrides);
}

/* A list of tensors of many times the bytes that a connection buffers. */
static void lengthen(fleet *f)
{
    static char names[LONG][160];
    weft_tensor tensors[LONG];
    const uint64_t shape = 3;
    for (uint64_t t = 0; t < LONG; t++) {
        snprintf(names[t], sizeof names[t], "model.layers.%llu.self_attn.%0100d.weight", (unsigned long long)t, 7);
        tensors[t] = (weft_tensor){names[t], WEFT_BF16, 1, &shape};
    }
    weft_layout_free(f->layout);
    weft_layout_free(f->other);
    assert_int_equal(weft_layout_create(tensors, LONG, &f->layout), WEFT_OK);
    assert_true(weft_layout_wire_bytes(f->layout) > 4 * WEFT_CONTROL_IN_BYTES);
    f->bytes = weft_layout_bytes(f->layout); /* less than before */
    fleet_fill(f->layout, f->dense, &f->seed);
    f->other = fleet_layout_shuffled(f->layout, 4711);
    fleet_start_trainer(f, "label");
}

static int setup_long(void **state)
{
    lengthen(*state = fleet_open(FLEET_SMALL, NULL));
    return 0;
}

/* The list comes in records of TLS, some of which wait in the seal when the socket is empty. */
static int setup_tls(void **state)
{
    *state = fleet_keys_open(&keys, FLEET_SMALL, NULL);
    if (*state)
        lengthen(*state);
    return 0;
}

static int teardown_tls(void **state)
{
    fleet_keys_close(&keys, *state);
    return 0;
}

static int teardown(void **state)
{
    fake_close(&fake);
    fleet_close(*state);
    return 0;
}

static weft_version held_by(fleet *f, unsigned at)
{
    weft_version held = {0, 0, 0};
    assert_int_equal(weft_held(f->rollouts[at].session, &held), WEFT_OK);
    return held;
}

/* Versions come and are committed, and every one is bit-identical. */
static void serve(fleet *f, unsigned at)
{
    fleet_catch_up(f, at);
    for (int i = 0; i < 3; i++) {
        fleet_publish(f, i == 1 ? 900 : 20);
        fleet_catch_up(f, at);
    }
}

/* Bits that are the newest version's are that by digest, although the digest of the end's own order is another. */
static void joins_by_digest(void **state)
{
    fleet *f = *state;
    weft_event event;
    fleet_join(f, 0, FLEET_SAME);
    assert_int_not_equal(held_by(f, 0).root, f->history[0].root); /* by its own order, until it joins */
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_JOINED, NULL, FLEET_WAIT_MS, &event));
    fleet_catch_up(f, 0);
    assert_int_equal(held_by(f, 0).root, f->history[0].root);
    assert_int_equal(fleet_stats(f->trainer.session).snapshot_bytes, 0);
    serve(f, 0);
}

static void takes_a_snapshot(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_EMPTY);
    serve(f, 0);
}

static void takes_a_long_list(void **state)
{
    fleet *f = *state;
    if (!f)
        skip(); /* no OpenSSL */
    fleet_join(f, 0, FLEET_SAME);
    serve(f, 0);
    assert_int_equal(fleet_stats(f->trainer.session).snapshot_bytes, 0);
}

/* Bits that differ in an element are repaired. */
static void is_repaired(void **state)
{
    fleet *f = *state;
    f->dense[fleet_tensor_at(f->layout, "wide") + 1000] ^= 1;
    fleet_join(f, 0, FLEET_SAME);
    f->dense[fleet_tensor_at(f->layout, "wide") + 1000] ^= 1;
    serve(f, 0);
    assert_int_equal(fleet_stats(f->trainer.session).snapshot_bytes, 0);
}

/* A trainer that starts again with another order is followed, and weights are bound anew by the end's own numbers. */
static void follows_another_order(void **state)
{
    fleet *f = *state;
    weft_layout *first = f->layout;
    fleet_join(f, 0, FLEET_SAME);
    serve(f, 0);
    fleet_stop_trainer(f);
    fleet_model *model = &f->rollouts[0].model;
    f->layout = fleet_layout_shuffled(first, 99);
    fleet_model_get(model, f->scratch_dense);
    fleet_model_dense_of(model, first); /* back to its own places, and then to those of the new order */
    for (uint64_t i = 0, own = 0; i < model->layout->count; own += model->layout->entries[i++].bytes)
        for (uint64_t p = 0; p < model->piece_count; p++)
            if (model->pieces[p].tensor == i)
                model->places[p] = own + model->pieces[p].first * model->layout->entries[i].row->bits / 8;
    fleet_model_dense_of(model, f->layout);
    fleet_model_get(model, f->dense); /* the same bits, as the new order has them */
    fleet_start_trainer(f, NULL);
    serve(f, 0);
    assert_int_equal(fleet_model_bind(model, f->rollouts[0].session, NULL, 0), WEFT_OK);
    serve(f, 0);
    fleet_leave(f, 0);
    fleet_stop_trainer(f);
    weft_layout_free(first);
}

/* The relay takes the trainer's order, and what it passes on has that. Behind it are an end of the relay's own order
 * and one of the trainer's. */
static void passes_relays(void **state)
{
    fleet *f = *state;
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_join(f, 3, FLEET_EMPTY);
    weft_layout *other = f->other;
    f->other = NULL;
    fleet_join(f, 4, FLEET_EMPTY);
    f->other = other;
    fleet_catch_up(f, 3);
    fleet_catch_up(f, 4);
    fleet_publish(f, 100);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 3);
    fleet_catch_up(f, 4);
    assert_string_equal(fleet_line(f, "x1").via, "a");
}

/* ---- other tensors */

/* The caller of the rollout and the trainer's log get these words. */
static void differs(fleet *f, const weft_tensor *tensors, uint64_t count, const char *words)
{
    weft_staged_info staged = {.size = sizeof staged};
    weft_layout *before = f->other;
    assert_int_equal(weft_layout_create(tensors, count, &f->other), WEFT_OK);
    fleet_open_rollout(f, 1, NULL);
    fleet_model_open(&f->rollouts[1].model, f->other, 0);
    assert_int_equal(fleet_model_bind(&f->rollouts[1].model, f->rollouts[1].session, NULL, WEFT_BIND_EMPTY), WEFT_OK);
    assert_int_equal(weft_staged(f->rollouts[1].session, FLEET_WAIT_MS, &staged), WEFT_E_REFUSED);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
    fleet_event(f->trainer.session, WEFT_EVENT_JOINED, "nobody", 0, NULL); /* which takes the lines */
    if (!strstr(said, words) || !strstr(said, "refused: b has another layout"))
        fail_msg("\"%s\" does not say \"%s\"", said, words);
    fleet_leave(f, 1);
    weft_layout_free(f->other);
    f->other = before;
}

static void names_what_differs(void **state)
{
    fleet *f = *state;
    const uint64_t count = f->layout->count, shape[2] = {33, 32};
    weft_tensor tensors[32];
    char names[32][32];
    for (uint64_t t = 0; t < count; t++)
        tensors[t] = f->layout->entries[t].tensor;
    tensors[4].shape = shape;
    differs(f, tensors, count, "'norm.2' is [33,32] in b and [33,31] in the trainer");
    tensors[4] = f->layout->entries[4].tensor;
    tensors[6].dtype = WEFT_U8;
    differs(f, tensors, count, "'quant' is U8 in b and I8 in the trainer");
    tensors[6].dtype = WEFT_I8;
    differs(f, tensors, count - 1, "the trainer has 'bytes', b has not");
    for (uint64_t t = 0; t < count; t++) {
        snprintf(names[t], sizeof names[t], "model.%s", tensors[t].name);
        tensors[t].name = names[t];
    }
    differs(f, tensors, count, "names of b have 'model.' in front of those of the trainer, as 'model.scalar'");
    fleet_join(f, 0, FLEET_SAME); /* the trainer is well */
    serve(f, 0);
}

/* ---- a trainer that is not one */

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
    const uint64_t before = held_by(f, 0).root;
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
    assert_int_equal(held_by(f, 0).root, before);
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
    const uint64_t root = held_by(f, 0).root;
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
    assert_int_not_equal(held_by(f, 0).root, root); /* the same bits, by the trainer's order */
    assert_int_equal(weft_unbind(f->rollouts[0].session), WEFT_OK);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(joins_by_digest, setup, teardown),
        cmocka_unit_test_setup_teardown(joins_by_digest, setup_blocks, teardown),
        cmocka_unit_test_setup_teardown(takes_a_snapshot, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_a_snapshot, setup_staged, teardown),
        cmocka_unit_test_setup_teardown(takes_a_long_list, setup_long, teardown),
        cmocka_unit_test_setup_teardown(takes_a_long_list, setup_tls, teardown_tls),
        cmocka_unit_test_setup_teardown(is_repaired, setup, teardown),
        cmocka_unit_test_setup_teardown(follows_another_order, setup, teardown),
        cmocka_unit_test_setup_teardown(passes_relays, setup_relay, teardown),
        cmocka_unit_test_setup_teardown(names_what_differs, setup, teardown),
        cmocka_unit_test_setup_teardown(a_liar_gets_no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(who_asks_again_and_again_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(compares_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(a_difference_is_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_for_an_order, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

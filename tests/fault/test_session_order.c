/* A rollout with the trainer's tensors in another order joins and has every bit. One with other tensors is refused, and
 * both ends name the tensors. */
#include "tests/support/fleet.h"

#include <string.h>

#include "layout/layout.h"
#include "tests/support/fleet_keys.h"
#include "wire/control.h"

enum { LONG = 200 };

static char said[4096]; /* the trainer's lines about layouts */
static fleet_keys keys;

static void hear(void *user, weft_log_level level, const char *line)
{
    fleet *f = user;
    if (strstr(line, "another layout"))
        snprintf(said, sizeof said, "%s", line);
    f->log(f->trainer.name, level, line);
}

static void hears(fleet *f)
{
    said[0] = 0;
    f->heard = hear;
}

static void shuffles(fleet *f)
{
    f->other = f->other ? f->other : fleet_layout_shuffled(f->layout, 4711);
}

static void shuffles_blocks(fleet *f)
{
    shuffles(f);
    f->blocks = true;
}

#define ORDER .attachment = "label", .open = hears, .opened = shuffles

static const fleet_kind plain_fleet = {FLEET_TILES, .starts = true, ORDER};

static const fleet_kind blocks_fleet = {FLEET_TILES, .starts = true, .attachment = "label", .open = hears,
                                        .opened = shuffles_blocks};

static const fleet_kind relay_fleet = {FLEET_TILES, .starts = true,
                                       .overrides = FLEET_WITH("peer.a.relay_memory=64MiB", "peer.x*.via=a"),
                                       .relays = "a", ORDER};

static const fleet_kind staged_fleet = {FLEET_TILES, .starts = true, .overrides = FLEET_WITH("commit.snapshot=staged"),
                                        ORDER};

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

static const fleet_kind long_fleet = {FLEET_SMALL, .open = lengthen};

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
    fleet_stop_trainer(f);
    fleet_join(f, 0, FLEET_SAME);
    assert_int_not_equal(fleet_held(f->rollouts[0].session).root,
                         f->history[0].root); /* by its own order, until it joins */
    fleet_start_trainer(f, "label");
    assert_true(fleet_event(f->rollouts[0].session, WEFT_EVENT_JOINED, NULL, FLEET_WAIT_MS, &event));
    fleet_catch_up(f, 0);
    assert_int_equal(fleet_held(f->rollouts[0].session).root, f->history[0].root);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLEET_TEST(joins_by_digest, plain_fleet),
        FLEET_TEST(joins_by_digest, blocks_fleet),
        FLEET_TEST(takes_a_snapshot, plain_fleet),
        FLEET_TEST(takes_a_snapshot, staged_fleet),
        FLEET_TEST(takes_a_long_list, long_fleet),
        cmocka_unit_test_setup_teardown(takes_a_long_list, setup_tls, teardown_tls),
        FLEET_TEST(is_repaired, plain_fleet),
        FLEET_TEST(follows_another_order, plain_fleet),
        FLEET_TEST(passes_relays, relay_fleet),
        FLEET_TEST(names_what_differs, plain_fleet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

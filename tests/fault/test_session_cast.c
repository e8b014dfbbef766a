/* A trainer whose masters are F32 under a layout of BF16 and F16: rollouts get the rounded bits, by updates of every
 * level, by snapshots and after a rebind; and who writes weights refuses such memory by name. */
#include "tests/support/fleet.h"

#include <string.h>

#include "tests/support/cast_world.h"

static weft_status bind_masters(const fleet *f, const cast_world *w)
{
    return weft_bind_blocks(f->trainer.session, w->world.blocks, w->world.count, NULL, 0, 0);
}

/* The trainer binds its masters. Their mirror has the bits that are held then. */
static fleet *start(cast_world *w, const char *const *overrides)
{
    weft_update_info info = {.size = sizeof info};
    fleet *f = fleet_open(FLEET_TILES, overrides);
    cast_world_open(w, f->layout, &f->seed);
    cast_mirror(w, f->dense, false);
    fleet_open_trainer(f);
    assert_int_equal(bind_masters(f, w), WEFT_OK);
    fleet_bind_trainer(f, NULL);
    assert_int_equal(weft_publish(f->trainer.session, ++f->newest, NULL, NULL, &info), WEFT_OK);
    assert_int_equal(info.changed, 0);
    assert_int_equal(bind_masters(f, w), WEFT_OK);
    return f;
}

static void end(fleet *f, cast_world *w)
{
    assert_true(block_world_is_whole(&w->world));
    fleet_close(f);
    cast_world_close(w);
}

static void publish(fleet *f, cast_world *w, uint64_t per_mille)
{
    cast_change(w, &f->seed, per_mille);
    cast_mirror(w, f->dense, false);
    fleet_publish_dense(f, NULL);
}

static void updates_of_every_level_land(void **state)
{
    static const char *const overrides[] = {"peer.a.level=tight", "peer.b.level=pairs", "peer.c.level=fast",
                                            "peer.x*.level=full", "commit.verify=full", NULL};
    static const uint64_t changes[] = {1, 12, 80, 500, 1000, 0};
    static const char *const names[] = {"a", "b", "c", "x1"};
    cast_world w;
    (void)state;
    fleet *f = start(&w, overrides);
    for (unsigned at = 0; at < 4; at++)
        fleet_join(f, at, FLEET_SAME);
    for (unsigned at = 0; at < 4; at++)
        fleet_wait_state(f, names[at], WEFT_PEER_LIVE, FLEET_WAIT_MS);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        publish(f, &w, changes[i]);
        for (unsigned at = 0; at < 4; at++) {
            fleet_catch_up(f, at);
            assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
        }
    }
    end(f, &w);
}

static void snapshots_land(void **state)
{
    cast_world w;
    (void)state;
    fleet *f = start(&w, NULL);
    fleet_join(f, 0, FLEET_EMPTY);
    fleet_join(f, 1, FLEET_OTHER);
    publish(f, &w, 30);
    for (unsigned at = 0; at < 2; at++) {
        fleet_catch_up(f, at);
        fleet_check(f, at);
    }
    end(f, &w);
}

/* Steps that no BF16 can tell are no change. */
static void a_step_below_half_a_place_changes_nothing(void **state)
{
    weft_update_info info = {.size = sizeof info};
    cast_world w;
    uint64_t at = 0;
    (void)state;
    fleet *f = start(&w, NULL);
    for (uint64_t t = 0; t < f->layout->count; t++) {
        const weft_layout_entry *entry = &w.master->entries[t];
        for (uint64_t i = 0; i < entry->elements && f->layout->entries[t].row->dtype == WEFT_BF16; i++) {
            const uint32_t bits = (uint32_t)pair_get(w.dense + at, i, 4), rounded = (uint32_t)cast_rule_bf16(bits)
                                                                                    << 16;
            pair_put(w.dense + at, i, rounded | (cast_rule_bf16(rounded | 1) == rounded >> 16), 4);
        }
        at += entry->bytes;
    }
    block_world_put(&w.world, w.dense);
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, &info), WEFT_OK);
    assert_int_equal(info.changed, 0);
    assert_int_equal(info.base.root, info.target.root);
    end(f, &w);
}

/* The shadow has the rounded bits that were published, so masters and their mirror take turns. */
static void masters_are_rebound_with_other_bits(void **state)
{
    cast_world w;
    (void)state;
    fleet *f = start(&w, NULL);
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 3; i++) {
        cast_change(&w, &f->seed, 30);
        assert_int_equal(bind_masters(f, &w), WEFT_OK);
        publish(f, &w, 30);
        fleet_catch_up(f, 0);
        assert_int_equal(fleet_model_bind(&f->trainer.model, f->trainer.session, NULL, 0), WEFT_OK);
        fleet_publish(f, 20);
        fleet_catch_up(f, 0);
    }
    end(f, &w);
}

/* Cells part the blocks, whose strides are those of float32. */
static void cuts_part_masters(void **state)
{
    static const char *const overrides[] = {"cut.wide.tensors=wide", "cut.wide.rows=1", "cut.norms.tensors=norm.*",
                                            NULL};
    cast_world w;
    (void)state;
    fleet *f = start(&w, overrides);
    f->blocks = true;
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 3; i++) {
        publish(f, &w, 30);
        fleet_catch_up(f, 0);
    }
    end(f, &w);
}

/* ---- refusals */

static void says(weft_status status, weft_status wanted, const char *words)
{
    assert_int_equal(status, wanted);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static void a_rollout_refuses_masters_by_name(void **state)
{
    cast_world w;
    (void)state;
    fleet *f = start(&w, NULL);
    fleet_open_rollout(f, 0, NULL);
    says(weft_bind_blocks(f->rollouts[0].session, w.world.blocks, w.world.count, NULL, 0, 0), WEFT_E_ARGUMENT,
         "memory F32 under a layout of BF16 is read by trainers alone, and weights are written here");
    says(weft_bind_blocks(f->rollouts[0].session, w.world.blocks, w.world.count, NULL, 0, WEFT_BIND_EMPTY),
         WEFT_E_ARGUMENT, "bind memory of BF16");
    fleet_bind_rollout(f, 0, FLEET_SAME, NULL);
    publish(f, &w, 30);
    fleet_catch_up(f, 0);
    end(f, &w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_of_every_level_land),
                                       cmocka_unit_test(snapshots_land),
                                       cmocka_unit_test(a_step_below_half_a_place_changes_nothing),
                                       cmocka_unit_test(masters_are_rebound_with_other_bits),
                                       cmocka_unit_test(cuts_part_masters),
                                       cmocka_unit_test(a_rollout_refuses_masters_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Sessions whose ends bind by blocks with strides: all that reads or writes weights finds them where they lie, and
 * writes no other byte (fleet_model_get looks at the canaries). */
#include "tests/support/fleet.h"

#include <string.h>

#include "tests/support/block_world.h"

static fleet *start(fleet_size size, const char *const *overrides)
{
    fleet *f = fleet_open(size, overrides);
    f->blocks = true;
    fleet_start_trainer(f, NULL);
    return f;
}

static void updates_of_every_level_land(void **state)
{
    static const char *const overrides[] = {"peer.a.level=tight", "peer.b.level=pairs", "peer.c.level=fast",
                                            "peer.x*.level=full", "commit.verify=full", NULL};
    static const uint32_t changes[] = {1, 12, 80, 500, 1000, 0};
    static const char *const names[] = {"a", "b", "c", "x1"};
    (void)state;
    fleet *f = start(FLEET_TILES, overrides);
    for (unsigned at = 0; at < 4; at++)
        fleet_join(f, at, FLEET_SAME);
    for (unsigned at = 0; at < 4; at++)
        fleet_wait_state(f, names[at], WEFT_PEER_LIVE, FLEET_WAIT_MS);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        fleet_publish(f, changes[i]);
        for (unsigned at = 0; at < 4; at++) {
            fleet_catch_up(f, at);
            assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
        }
    }
    fleet_close(f);
}

static void snapshots_land(void **state)
{
    static const char *const staged[] = {"commit.snapshot=staged", NULL};
    (void)state;
    for (int i = 0; i < 2; i++) {
        fleet *f = start(FLEET_TILES, i ? staged : NULL);
        fleet_join(f, 0, FLEET_EMPTY);
        fleet_join(f, 1, FLEET_OTHER);
        fleet_publish(f, 30);
        for (unsigned at = 0; at < 2; at++) {
            fleet_catch_up(f, at);
            fleet_check(f, at);
            assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
        }
        fleet_close(f);
    }
}

/* A bit that rots is found by scrub, which names the tensor, and the trainer repairs the tile. */
static void a_rotten_bit_is_repaired(void **state)
{
    (void)state;
    fleet *f = start(FLEET_TILES, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish(f, 30);
    fleet_catch_up(f, 0);
    *fleet_model_at(&f->rollouts[0].model, fleet_tensor_at(f->layout, "wide") + 300001) ^= 4;
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_E_BASE);
    assert_non_null(strstr(weft_last_error(), "tensor wide tile 0"));
    assert_int_equal(fleet_commit(f, 0, FLEET_WAIT_MS), WEFT_OK);
    assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    fleet_close(f);
}

/* Every element changes, so that whichever weight moved after staging is among them. */
static void a_commit_that_meets_another_weight_is_undone(void **state)
{
    weft_staged_info staged = {.size = sizeof staged};
    (void)state;
    fleet *f = start(FLEET_TILES, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_wait_state(f, "a", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    uint8_t *before = test_malloc(f->bytes), *after = test_malloc(f->bytes);
    fleet_publish(f, 1000);
    assert_int_equal(weft_staged(f->rollouts[0].session, FLEET_WAIT_MS, &staged), WEFT_OK);
    uint8_t *weight = fleet_model_at(&f->rollouts[0].model, fleet_tensor_at(f->layout, "single") + 8);
    assert_int_equal(staged.kind, WEFT_STAGED_UPDATE);
    *weight ^= 1;
    fleet_model_get(&f->rollouts[0].model, before);
    assert_int_equal(weft_commit(f->rollouts[0].session, staged.target.number, NULL, 0, NULL), WEFT_E_BASE);
    fleet_model_get(&f->rollouts[0].model, after);
    assert_memory_equal(before, after, f->bytes);
    fleet_catch_up(f, 0);
    test_free(before);
    test_free(after);
    fleet_close(f);
}

/* Pieces give way to blocks, and blocks to other blocks. */
static void ends_rebind(void **state)
{
    (void)state;
    fleet *f = fleet_open(FLEET_TILES, NULL);
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    for (unsigned style = 3; style < 6; style++) {
        fleet_end *const ends[] = {&f->trainer, &f->rollouts[0]};
        fleet_publish(f, 20);
        fleet_catch_up(f, 0);
        for (unsigned i = 0; i < 2; i++) {
            fleet_model fresh;
            fleet_model_open_blocks(&fresh, f->layout, 10 * style + i, NULL);
            if (i == 1)
                assert_int_equal(fleet_model_bind(&fresh, ends[i]->session, NULL, 0), WEFT_E_BASE);
            fleet_model_put(&fresh, f->dense);
            assert_int_equal(fleet_model_bind(&fresh, ends[i]->session, NULL, 0), WEFT_OK);
            fleet_model_close(&ends[i]->model);
            ends[i]->model = fresh;
        }
    }
    fleet_publish(f, 20);
    fleet_catch_up(f, 0);
    fleet_close(f);
}

/* ---- refusals */

static void says(weft_status status, weft_status wanted, const char *words)
{
    assert_int_equal(status, wanted);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static void only_ends_that_write_need_memory_of_their_own(void **state)
{
    static uint16_t memory[64 * 12];
    const uint64_t shape[] = {64, 4};
    const weft_tensor tensors[] = {{"q", WEFT_BF16, 2, shape}, {"k", WEFT_BF16, 2, shape}};
    const weft_block apart[] = {{.slice = {0, 0, 64, 0, 4}, .data = memory, .row = {{64, 20}}},
                                {.slice = {1, 0, 64, 0, 4}, .data = memory + 4, .row = {{64, 22}}}};
    weft_session *trainer, *rollout;
    weft_layout *layout;
    (void)state;
    fleet *f = fleet_open(FLEET_SMALL, NULL);
    weft_site *site = fleet_site(f, NULL);
    assert_int_equal(weft_layout_create(tensors, 2, &layout), WEFT_OK);
    assert_int_equal(weft_trainer_open(site, layout, NULL, &trainer), WEFT_OK);
    assert_int_equal(weft_rollout_open(site, "a", layout, NULL, &rollout), WEFT_OK);
    assert_int_equal(weft_bind_blocks(trainer, apart, 2, NULL, 0, 0), WEFT_OK);
    says(weft_bind_blocks(rollout, apart, 2, NULL, 0, 0), WEFT_E_LAYOUT, "share memory: q, 64 rows from 0 of 64");
    says(weft_bind_blocks(rollout, apart, 1, NULL, 0, 0), WEFT_E_LAYOUT, "tensor k: no block holds row 0, column 0");
    says(weft_bind_blocks(rollout, apart, 2, NULL, 0, 2), WEFT_E_ARGUMENT, "flags");
    weft_close(rollout);
    weft_close(trainer);
    weft_layout_free(layout);
    weft_site_free(site);
    fleet_close(f);
}

/* ---- cuts */

static uint64_t bytes_with(const char *const *overrides, uint64_t *root)
{
    weft_update_info info = {.size = sizeof info};
    fleet *f = start(FLEET_TILES, overrides);
    fleet_change(f->layout, f->dense, 30, &f->seed);
    fleet_model_put(&f->trainer.model, f->dense);
    assert_int_equal(weft_publish(f->trainer.session, 1, NULL, NULL, &info), WEFT_OK);
    fleet_close(f);
    *root = info.target.root;
    return info.bytes;
}

/* Cells are tensors of their own, so units are others, and as many bytes tell what changed. */
static void cuts_part_the_model_and_cost_little(void **state)
{
    static const char *const overrides[] = {"cut.wide.tensors=wide", "cut.wide.rows=1", "cut.norms.tensors=norm.*",
                                            NULL};
    uint64_t root, cut_root;
    (void)state;
    const uint64_t bytes = bytes_with(NULL, &root), cut_bytes = bytes_with(overrides, &cut_root);
    assert_true(cut_bytes > bytes / 2 && cut_bytes < bytes + bytes / 8);
    assert_true(root != cut_root); /* a root is over cells, in the order of their keys */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(updates_of_every_level_land),
                                       cmocka_unit_test(snapshots_land),
                                       cmocka_unit_test(a_rotten_bit_is_repaired),
                                       cmocka_unit_test(a_commit_that_meets_another_weight_is_undone),
                                       cmocka_unit_test(ends_rebind),
                                       cmocka_unit_test(only_ends_that_write_need_memory_of_their_own),
                                       cmocka_unit_test(cuts_part_the_model_and_cost_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

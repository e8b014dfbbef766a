/* Peers that come, go, stand still and follow one another while an update goes out that is still being encoded. */
#include "tests/support/eager.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tests/support/port.h"

static void kill_one(sim *s, uint64_t run)
{
    if (run == 5)
        sim_kill(s, &s->rollouts[0]);
}

static void dies_meanwhile(void **state)
{
    (void)state;
    for (uint64_t fail_at = 0; fail_at < 8; fail_at += 7) {
        sim *s = early_open_two(FLEET_SMALL, 6);
        early_script.act = kill_one;
        assert_int_equal(early_publish(s, 300, fail_at), fail_at ? WEFT_E_DEVICE : WEFT_OK);
        early_script.act = NULL;
        assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
        sim_settle(s, EARLY_SETTLE_MS);
        early_must_hold(s, 1, s->newest);
        early_must_be_clean(s);
        sim_close(s);
    }
}

static uint8_t *old_bits;

static void join_one(sim *s, uint64_t run)
{
    if (run == 5)
        sim_join(s, &s->rollouts[2], "fast2", old_bits, NULL);
}

static void joins_meanwhile(void **state)
{
    (void)state;
    for (uint64_t fail_at = 0; fail_at < 11; fail_at += 10) {
        sim *s = sim_open(FLEET_SMALL, 3, 7);
        early_start(s, NULL);
        sim_join(s, &s->rollouts[0], "auto0", s->dense, NULL);
        sim_settle(s, EARLY_SETTLE_MS);
        old_bits = malloc(s->bytes);
        assert_non_null(old_bits);
        memcpy(old_bits, s->dense, s->bytes);
        early_script.act = join_one;
        assert_int_equal(early_publish(s, 300, fail_at), fail_at ? WEFT_E_DEVICE : WEFT_OK);
        early_script.act = NULL;
        sim_rounds(s, 30);
        assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
        sim_settle(s, EARLY_SETTLE_MS);
        early_must_hold(s, 2, s->newest);
        weft_peer_info info;
        assert_true(sim_peer(s, "fast2", &info));
        assert_int_equal(info.snapshot_bytes, 0); /* it has the bits that the others had */
        free(old_bits);
        sim_close(s);
    }
}

static void stop_one(sim *s, uint64_t run)
{
    if (run == 5)
        sim_stop(s, &s->rollouts[0], 100); /* less than its heartbeat */
}

/* It has its slots full of an update that is withdrawn, and another, while it takes nothing. */
static void stands_still_meanwhile(void **state)
{
    (void)state;
    sim *s = early_open_two(FLEET_SMALL, 8);
    early_script.act = stop_one;
    assert_int_equal(early_publish(s, 300, 12), WEFT_E_DEVICE);
    early_script.act = NULL;
    assert_int_equal(early_publish(s, 300, 9), WEFT_E_DEVICE);
    assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
    sim_settle(s, EARLY_SETTLE_MS);
    early_must_be_clean(s);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* Both ends may close while what was withdrawn is still on its way. */
static void closes_after_a_failure(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        sim *s = early_open_two(FLEET_SMALL, 9);
        early_script.act = stop_one;
        assert_int_equal(early_publish(s, 300, 12), WEFT_E_DEVICE);
        if (which == 0)
            sim_stop_trainer(s);
        else if (which == 1)
            sim_leave(s, &s->rollouts[1]);
        sim_close(s);
    }
}

/* Encoding takes much longer than peers wait for a bucket. */
static void encodes_for_long(void **state)
{
    (void)state;
    sim *s = early_open_two(FLEET_SMALL, 10);
    early_script.rounds = SIM_IO_MS * 2;
    assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
    assert_true(early_script.buckets > 0);
    early_script.rounds = 3;
    sim_settle(s, EARLY_SETTLE_MS);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* ---- relays */

static sim *open_tree(uint64_t seed)
{
    sim *s = sim_open(FLEET_SMALL, 4, seed);
    char text[1024];
    snprintf(text, sizeof text, early_tight_site, "16MiB", "16MiB");
    unsigned port = port_free();
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "[peer.r]\nrelay = 127.0.0.1:%u\nrelay_memory = 64MiB\n[peer.x*]\nvia = r\n", port);
    early_start(s, text);
    sim_join(s, &s->rollouts[0], "r", s->dense, NULL);
    sim_settle(s, EARLY_SETTLE_MS);
    for (unsigned i = 1; i < 3; i++) {
        sim_join(s, &s->rollouts[i], i == 1 ? "x1" : "x2", s->dense, NULL);
        sim_settle(s, EARLY_SETTLE_MS);
    }
    sim_join(s, &s->rollouts[3], "auto3", s->dense, NULL);
    sim_settle(s, EARLY_SETTLE_MS);
    weft_peer_info info;
    assert_true(sim_peer(s, "x1", &info));
    assert_string_equal(info.via, "r");
    return s;
}

/* Rollouts after a relay get the first bucket early too, from the relay's copy. */
static void follows_early(void **state)
{
    (void)state;
    sim *s = open_tree(11);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
        assert_true(early_script.buckets > 0);
        assert_true(s->rollouts[1].session->rollout->arriving.book.buckets > 0);
        sim_settle(s, EARLY_SETTLE_MS);
    }
    weft_peer_info info;
    assert_true(sim_peer(s, "x1", &info));
    assert_int_equal(info.bytes, 0); /* nothing was sent for it alone */
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

static void kill_follower(sim *s, uint64_t run)
{
    if (run == 6)
        sim_kill(s, &s->rollouts[2]);
}

static void follows_what_fails(void **state)
{
    (void)state;
    sim *s = open_tree(12);
    assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
    const uint64_t runs = early_script.runs;
    sim_settle(s, EARLY_SETTLE_MS);
    for (uint64_t at = 3; at <= runs; at++) {
        const uint64_t before = s->newest;
        if (at % 4 == 0)
            snprintf(s->attachment, sizeof s->attachment, "number %u", (unsigned)at);
        assert_int_equal(early_publish(s, 300, at), WEFT_E_DEVICE);
        if (at % 2 == 0)
            sim_rounds(s, 50);
        for (unsigned i = 0; i < 4; i++)
            early_must_hold(s, i, before);
        assert_int_equal(early_publish(s, 30, 0), WEFT_OK);
        sim_settle(s, EARLY_SETTLE_MS);
        early_must_be_clean(s);
    }
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    early_script.act = kill_follower;
    assert_int_equal(early_publish(s, 300, 9), WEFT_E_DEVICE);
    early_script.act = NULL;
    assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
    sim_settle(s, EARLY_SETTLE_MS);
    sim_close(s);
}

/* ---- any schedule */

static void act_at_random(sim *s, uint64_t run)
{
    static const char *const names[][2] = {{"tight8", "auto8"}, {"tight9", "auto9"}}; /* no two ends under one name */
    uint64_t at = sim_below(s, s->rollout_count);
    sim_end *end = &s->rollouts[at];
    (void)run;
    switch (sim_below(s, 40)) {
    case 0:
        if (sim_awake(s, end))
            sim_kill(s, end);
        break;
    case 1:
        if (!end->session) {
            const char *name = names[at][sim_below(s, 2)];
            sim_join(s, end, name, sim_below(s, 2) ? s->history[0].dense : NULL, NULL);
        }
        break;
    case 2:
        if (sim_awake(s, end))
            sim_stop(s, end, 1 + sim_below(s, 2 * SIM_HEARTBEAT_MS));
        break;
    default:
        break;
    }
}

static void any_schedule(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 106; seed++) {
        sim *s = early_open_two(FLEET_SMALL, seed);
        early_script.act = act_at_random;
        for (int i = 0; i < 25; i++) {
            const uint64_t dropped = 1 + sim_below(s, 30), corrupted = 1 + sim_below(s, 30);
            const weft_loop_faults faults[] = {
                {.drop_at = dropped}, {.corrupt_at = corrupted, .seed = seed}, {.reorder_window = 5, .seed = seed}};
            early_script.rounds = 1 + (unsigned)sim_below(s, 6);
            weft_loop_set_faults(sim_below(s, 3) ? NULL : &faults[sim_below(s, 3)]);
            early_publish(s, 300, sim_below(s, 2) ? 1 + sim_below(s, 20) : 0);
            sim_rounds(s, sim_below(s, 60));
        }
        weft_loop_set_faults(NULL);
        early_script.act = NULL;
        assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
        sim_settle(s, EARLY_SETTLE_MS);
        early_must_be_clean(s);
        sim_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dies_meanwhile),         cmocka_unit_test(joins_meanwhile),
        cmocka_unit_test(stands_still_meanwhile), cmocka_unit_test(closes_after_a_failure),
        cmocka_unit_test(encodes_for_long),       cmocka_unit_test(follows_early),
        cmocka_unit_test(follows_what_fails),     cmocka_unit_test(any_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

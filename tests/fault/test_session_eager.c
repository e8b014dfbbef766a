/* Updates that go out while they are encoded: the peers have their first buckets before publish returns; one that comes
 * to nothing midway leaves everyone with the old bits, and the next one goes out as ever. Between two frames of an
 * update the others take their steps, on a clock of their own. */
#include "tests/support/eager.h"

#include <string.h>

#include "base/status.h"

static void first_bucket_comes_early(void **state)
{
    (void)state;
    sim *s = early_open_two(FLEET_TILES, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(early_publish(s, 100, 0), WEFT_OK);
        assert_true(early_script.runs > 4);
        assert_true(early_script.buckets > 0);
        assert_false(early_script.staged); /* the root is unknown before all is encoded */
        sim_settle(s, EARLY_SETTLE_MS);
        early_must_hold(s, 0, s->newest);
        early_must_hold(s, 1, s->newest);
    }
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* Whatever run fails: the old bits, the same peers, and the next publish under the same number. */
static void fails_midway(void **state)
{
    (void)state;
    sim *s = early_open_two(FLEET_SMALL, 2);
    assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
    const uint64_t runs = early_script.runs;
    uint64_t begun = 0;
    assert_true(runs > 4);
    sim_settle(s, EARLY_SETTLE_MS);
    for (uint64_t at = 1; at <= runs; at++) {
        const uint64_t before = s->newest;
        if (at % 3 == 0)
            snprintf(s->attachment, sizeof s->attachment, "number %u", (unsigned)at);
        assert_int_equal(early_publish(s, 300, at), WEFT_E_DEVICE);
        begun += early_script.buckets > 0;
        for (unsigned i = 0; i < 2; i++)
            early_must_hold(s, i, before);
        if (at % 2 == 0) /* else the next one meets what is left of this one */
            sim_rounds(s, 50);
        for (unsigned i = 0; i < 2; i++) {
            early_must_hold(s, i, before);
            early_must_be(s, i, WEFT_PEER_LIVE);
        }
        assert_int_equal(early_publish(s, 10, 0), WEFT_OK);
        sim_settle(s, EARLY_SETTLE_MS);
        early_must_be_clean(s);
        assert_int_equal(s->newest, before + 1);
    }
    assert_true(begun > runs / 2);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* Before the first run, and before there is a chain. */
static weft_status survey_nothing(weft_backend_state *state, weft_survey_job *job)
{
    (void)state;
    (void)job;
    return weft_fail_quiet(WEFT_E_DEVICE, "the test's device fails at the survey");
}

static void fails_at_the_survey(void **state)
{
    (void)state;
    sim *s = early_open_two(FLEET_SMALL, 13);
    assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
    sim_settle(s, EARLY_SETTLE_MS);
    weft_arena *arena = &early_trainer(s)->publisher.journal.arena;
    const uint32_t before = weft_arena_free_blocks(arena);
    early_backend.survey = survey_nothing;
    assert_int_equal(early_publish(s, 300, 0), WEFT_E_DEVICE);
    early_backend.survey = early_script.real->survey;
    assert_int_equal(weft_arena_free_blocks(arena), before);
    assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
    sim_settle(s, EARLY_SETTLE_MS);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* Rollout 0 reads no more, so that no message reaches it. */
static void deafen_one(sim *s, uint64_t run)
{
    weft_trainer *trainer = early_trainer(s);
    if (run != 12)
        return;
    early_script.rounds = 0;
    for (uint32_t i = 0; i < trainer->peers.count; i++)
        if (strcmp(trainer->peers.list[i].claim.name, s->rollouts[0].name) == 0)
            trainer->peers.list[i].connection.control.out_end = WEFT_CONTROL_OUT_BYTES;
}

/* The error is the publish's, not that of a peer that is lost over it. */
static void says_why_it_failed(void **state)
{
    (void)state;
    sim *s = early_open_two(FLEET_SMALL, 15);
    early_script.act = deafen_one;
    assert_int_equal(early_publish(s, 300, 12), WEFT_E_DEVICE);
    assert_non_null(strstr(weft_last_error(), "the test's device fails"));
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 1);
    early_script.act = NULL;
    assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
    sim_settle(s, EARLY_SETTLE_MS);
    early_must_be_clean(s);
    sim_close(s);
}

/* ---- the device dies when all is encoded */

static uint64_t frames_left;               /* that it decodes */
static const weft_backend *before_it_died; /* the table of what works on the shadow */

static weft_status decode_some(weft_backend_state *state, weft_decode_job *job)
{
    if (frames_left == 0)
        return weft_fail_quiet(WEFT_E_DEVICE, "the test's device is dead");
    frames_left--;
    return before_it_died->decode(state, job);
}

static weft_status load_nothing(weft_backend_state *state, weft_load_job *job)
{
    (void)state;
    (void)job;
    return weft_fail_quiet(WEFT_E_DEVICE, "the test's device is dead");
}

/* The version is out, for those too who lack several; the copy of it is half of it, and nothing is made of that. */
static void dies_after_the_seal(void **state)
{
    (void)state;
    sim *s = early_open_two(FLEET_SMALL, 14);
    weft_session *session = s->trainer.session;
    weft_pipeline *shadow = &session->trainer->publisher.shadow.jobs, *weights = &session->calls,
                  was[] = {*shadow, *weights};
    weft_backend dying = *shadow->backend;
    before_it_died = shadow->backend;
    dying.decode = decode_some;
    dying.load = load_nothing;
    early_script.rounds = 0; /* no rollout takes anything meanwhile */
    for (int i = 0; i < 3; i++)
        assert_int_equal(early_publish(s, 300, 0), WEFT_OK);
    frames_left = 2;
    shadow->backend = weights->backend = &dying;
    assert_int_equal(early_publish(s, 300, 0), WEFT_E_DEVICE);
    shadow->backend = was[0].backend;
    weights->backend = was[1].backend;
    sim_remember(s);
    assert_int_equal(s->newest, 4);
    sim_settle(s, EARLY_SETTLE_MS);
    for (unsigned i = 0; i < 2; i++)
        early_must_hold(s, i, 4);
    assert_int_equal(early_publish(s, 300, 0), WEFT_E_DEVICE);
    sim_rounds(s, 50);
    for (unsigned i = 0; i < 2; i++)
        early_must_hold(s, i, 4);
    assert_int_equal(fleet_stats(session).peers_lost, 0);
    sim_close(s);
}

/* Nothing but failures, while an engine does not commit what it has staged. */
static void fails_again_and_again(void **state)
{
    (void)state;
    sim *s = early_open_two(FLEET_SMALL, 3);
    for (int i = 0; i < 12; i++)
        assert_int_equal(early_publish(s, 300, 3 + (uint64_t)i % 7), WEFT_E_DEVICE);
    sim_rounds(s, 100);
    early_must_be_clean(s);
    for (unsigned i = 0; i < 2; i++) {
        early_must_hold(s, i, 0);
        early_must_be(s, i, WEFT_PEER_LIVE);
    }
    assert_int_equal(early_publish(s, 10, 0), WEFT_OK);
    sim_settle(s, EARLY_SETTLE_MS);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

static void open_cramped(sim *s, const char *journal, const char *staging)
{
    char text[1024];
    snprintf(text, sizeof text, early_tight_site, journal, staging);
    early_start(s, text);
    sim_join(s, &s->rollouts[0], "auto0", s->dense, NULL);
    sim_join(s, &s->rollouts[1], "tight1", s->dense, NULL);
    sim_settle(s, EARLY_SETTLE_MS);
}

/* The journal holds no more of it: what went out is dropped, and peers get a snapshot. */
static void outgrows_the_journal(void **state)
{
    (void)state;
    sim *s = sim_open(FLEET_LARGE, 2, 4);
    open_cramped(s, "16MiB", "64MiB");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(early_publish(s, 1000, 0), WEFT_OK);
        assert_true(i > 0 || early_script.buckets > 0);
        sim_settle(s, EARLY_SETTLE_MS);
        early_must_be_clean(s);
        assert_int_equal(early_publish(s, 1, 0), WEFT_OK);
        sim_settle(s, EARLY_SETTLE_MS);
    }
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* One peer's staging does not hold it: that one drops it, the others do not notice. */
static void outgrows_staging(void **state)
{
    (void)state;
    sim *s = sim_open(FLEET_LARGE, 2, 5);
    char text[1024];
    snprintf(text, sizeof text, early_tight_site, "16MiB", "64MiB");
    strcat(text, "[peer.auto0]\nstaging = 12MiB\nencoded = 0MiB\n");
    early_start(s, text);
    sim_join(s, &s->rollouts[0], "auto0", s->dense, NULL);
    sim_join(s, &s->rollouts[1], "tight1", s->dense, NULL);
    sim_settle(s, EARLY_SETTLE_MS);
    assert_int_equal(early_publish(s, 1000, 0), WEFT_OK);
    assert_true(early_script.buckets > 0);
    sim_settle(s, EARLY_SETTLE_MS);
    assert_int_equal(early_publish(s, 1, 0), WEFT_OK);
    sim_settle(s, EARLY_SETTLE_MS);
    weft_peer_info info;
    assert_true(sim_peer(s, "auto0", &info));
    assert_true(info.snapshot_bytes > 0);
    assert_true(sim_peer(s, "tight1", &info));
    assert_int_equal(info.snapshot_bytes, 0);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_bucket_comes_early), cmocka_unit_test(fails_midway),
        cmocka_unit_test(fails_at_the_survey),      cmocka_unit_test(says_why_it_failed),
        cmocka_unit_test(dies_after_the_seal),      cmocka_unit_test(fails_again_and_again),
        cmocka_unit_test(outgrows_the_journal),     cmocka_unit_test(outgrows_staging),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Updates that go out while they are encoded: the peers have their first buckets before publish returns; one that comes
 * to nothing midway leaves everyone with the old bits, and the next one goes out as ever. Between two frames of an
 * update the others take their steps, on a clock of their own. */
#include "tests/support/sim.h"

#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "rollout.h"
#include "status.h"
#include "tests/support/port.h"

#define SETTLE_MS 60000u

/* The trainer's backend, and what goes on while it encodes. */
static weft_backend slow;
static struct script {
    sim *s;
    const weft_backend *real;
    uint64_t runs;    /* encoded in this publish */
    uint64_t fail_at; /* the run that fails; 0: none */
    unsigned rounds;  /* of the others before each */
    void (*act)(sim *s, uint64_t run);
    uint64_t buckets; /* that rollout 0 had taken of the update, the most seen */
    bool staged;      /* somebody had all of it */
} script;

static void look(sim *s)
{
    const weft_rollout *rollout = s->rollouts[0].session ? s->rollouts[0].session->rollout : NULL;
    if (rollout && rollout->queued && rollout->book.buckets > script.buckets)
        script.buckets = rollout->book.buckets;
    script.staged = script.staged || (rollout && rollout->phase != WEFT_PHASE_RECEIVING);
}

static weft_status encode(weft_backend_state *state, weft_encode_job *job)
{
    sim *s = script.s;
    const weft_trainer *trainer = s->trainer.session->trainer;
    script.runs++;
    for (uint32_t i = 0; i < trainer->peer_count; i++)
        trainer->peers[i].site.bucket_min = 1; /* the models are small */
    if (script.act)
        script.act(s, script.runs);
    sim_rounds(s, script.rounds);
    look(s);
    if (script.runs == script.fail_at)
        return weft_fail_quiet(WEFT_E_DEVICE, "the test's device fails at run %llu", (unsigned long long)script.runs);
    return script.real->encode(state, job);
}

static void start_with(sim *s, const char *text)
{
    if (text)
        site_scratch_write(&s->scratch, text, strlen(text));
    sim_start_trainer(s);
    weft_trainer *trainer = s->trainer.session->trainer;
    script = (struct script){.s = s, .real = trainer->encoder.backend, .rounds = 3};
    slow = *script.real;
    slow.encode = encode;
    trainer->encoder.backend = trainer->encoder.window.backend = &slow;
}

static weft_status publish(sim *s, uint32_t per_mille, uint64_t fail_at)
{
    weft_publish_options options = {sizeof options, s->attachment, strlen(s->attachment)};
    script.runs = script.buckets = 0;
    script.staged = false;
    script.fail_at = fail_at;
    fleet_change(s->layout, s->dense, per_mille, &s->seed);
    fleet_model_put(&s->trainer.model, s->dense);
    weft_status status = weft_publish(s->trainer.session, s->newest + 1, NULL, &options, NULL);
    if (status == WEFT_OK)
        sim_remember(s);
    return status;
}

static void must_hold(sim *s, unsigned at, uint64_t number)
{
    weft_version held;
    assert_int_equal(weft_held(s->rollouts[at].session, &held), WEFT_OK);
    assert_int_equal(held.number, number);
    sim_check(s, &s->rollouts[at]);
}

static void must_be(sim *s, unsigned at, weft_peer_state state)
{
    weft_peer_info info;
    assert_true(sim_peer(s, s->rollouts[at].name, &info));
    if (info.state != state)
        sim_fail(s, "%s is %s", info.name, weft_peer_state_name(info.state));
}

static weft_trainer *trainer_of(sim *s)
{
    return s->trainer.session->trainer;
}

/* Nothing is left of an update that came to nothing. */
static void must_be_clean(sim *s)
{
    const weft_trainer *trainer = trainer_of(s);
    assert_null(trainer->early.update);
    assert_int_equal(trainer->early.withdrawn.readers, 0);
}

static sim *open_two(fleet_size size, uint64_t seed)
{
    sim *s = sim_open(size, 2, seed);
    snprintf(s->attachment, sizeof s->attachment, "first");
    start_with(s, NULL);
    sim_join(s, &s->rollouts[0], "auto0", s->dense, NULL);
    sim_join(s, &s->rollouts[1], "tight1", s->dense, NULL);
    sim_settle(s, SETTLE_MS);
    return s;
}

static void first_bucket_comes_early(void **state)
{
    (void)state;
    sim *s = open_two(FLEET_TILES, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(publish(s, 100, 0), WEFT_OK);
        assert_true(script.runs > 4);
        assert_true(script.buckets > 0);
        assert_false(script.staged); /* nobody knows the root before all is encoded */
        sim_settle(s, SETTLE_MS);
        must_hold(s, 0, s->newest);
        must_hold(s, 1, s->newest);
    }
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* Whatever run fails: the old bits, the same peers, and the next publish under the same number. */
static void fails_midway(void **state)
{
    (void)state;
    sim *s = open_two(FLEET_SMALL, 2);
    assert_int_equal(publish(s, 300, 0), WEFT_OK);
    const uint64_t runs = script.runs;
    uint64_t begun = 0;
    assert_true(runs > 4);
    sim_settle(s, SETTLE_MS);
    for (uint64_t at = 1; at <= runs; at++) {
        const uint64_t before = s->newest;
        if (at % 3 == 0)
            snprintf(s->attachment, sizeof s->attachment, "number %u", (unsigned)at);
        assert_int_equal(publish(s, 300, at), WEFT_E_DEVICE);
        begun += script.buckets > 0;
        for (unsigned i = 0; i < 2; i++)
            must_hold(s, i, before);
        if (at % 2 == 0) /* else the next one meets what is left of this one */
            sim_rounds(s, 50);
        for (unsigned i = 0; i < 2; i++) {
            must_hold(s, i, before);
            must_be(s, i, WEFT_PEER_LIVE);
        }
        assert_int_equal(publish(s, 10, 0), WEFT_OK);
        sim_settle(s, SETTLE_MS);
        must_be_clean(s);
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
    sim *s = open_two(FLEET_SMALL, 13);
    assert_int_equal(publish(s, 300, 0), WEFT_OK);
    sim_settle(s, SETTLE_MS);
    weft_arena *arena = &trainer_of(s)->journal.arena;
    const uint32_t before = weft_arena_free_blocks(arena);
    slow.survey = survey_nothing;
    assert_int_equal(publish(s, 300, 0), WEFT_E_DEVICE);
    slow.survey = script.real->survey;
    assert_int_equal(weft_arena_free_blocks(arena), before);
    assert_int_equal(publish(s, 300, 0), WEFT_OK);
    sim_settle(s, SETTLE_MS);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* Rollout 0 reads no more, so that it cannot even be told. */
static void deafen_one(sim *s, uint64_t run)
{
    weft_trainer *trainer = trainer_of(s);
    if (run != 12)
        return;
    script.rounds = 0;
    for (uint32_t i = 0; i < trainer->peer_count; i++)
        if (strcmp(trainer->peers[i].name, s->rollouts[0].name) == 0)
            trainer->peers[i].control.out_end = WEFT_CONTROL_OUT_BYTES;
}

/* The error is the publish's, not that of a peer that is lost over it. */
static void says_why_it_failed(void **state)
{
    (void)state;
    sim *s = open_two(FLEET_SMALL, 15);
    script.act = deafen_one;
    assert_int_equal(publish(s, 300, 12), WEFT_E_DEVICE);
    assert_non_null(strstr(weft_last_error(), "the test's device fails"));
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 1);
    script.act = NULL;
    assert_int_equal(publish(s, 300, 0), WEFT_OK);
    sim_settle(s, SETTLE_MS);
    must_be_clean(s);
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
static void dies_behind_the_seal(void **state)
{
    (void)state;
    sim *s = open_two(FLEET_SMALL, 14);
    weft_session *session = s->trainer.session;
    weft_window *shadow = &session->trainer->shadow_jobs, *weights = &session->calls, was[] = {*shadow, *weights};
    weft_backend dying = *shadow->backend;
    before_it_died = shadow->backend;
    dying.decode = decode_some;
    dying.load = load_nothing;
    script.rounds = 0; /* nobody takes anything meanwhile */
    for (int i = 0; i < 3; i++)
        assert_int_equal(publish(s, 300, 0), WEFT_OK);
    frames_left = 2;
    shadow->backend = weights->backend = &dying;
    assert_int_equal(publish(s, 300, 0), WEFT_E_DEVICE);
    shadow->backend = was[0].backend;
    weights->backend = was[1].backend;
    sim_remember(s);
    assert_int_equal(s->newest, 4);
    sim_settle(s, SETTLE_MS);
    for (unsigned i = 0; i < 2; i++)
        must_hold(s, i, 4);
    assert_int_equal(publish(s, 300, 0), WEFT_E_DEVICE);
    sim_rounds(s, 50);
    for (unsigned i = 0; i < 2; i++)
        must_hold(s, i, 4);
    assert_int_equal(fleet_stats(session).peers_lost, 0);
    sim_close(s);
}

/* Nothing but failures, while an engine does not commit what it has staged. */
static void fails_again_and_again(void **state)
{
    (void)state;
    sim *s = open_two(FLEET_SMALL, 3);
    for (int i = 0; i < 12; i++)
        assert_int_equal(publish(s, 300, 3 + (uint64_t)i % 7), WEFT_E_DEVICE);
    sim_rounds(s, 100);
    must_be_clean(s);
    for (unsigned i = 0; i < 2; i++) {
        must_hold(s, i, 0);
        must_be(s, i, WEFT_PEER_LIVE);
    }
    assert_int_equal(publish(s, 10, 0), WEFT_OK);
    sim_settle(s, SETTLE_MS);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

static const char tight_site[] =
    "[trainer]\nlisten = 127.0.0.1:0\njournal = %s\nthreads = 1\nmax_peers = 8\n"
    "[peers]\nprovider = loop\nbucket_max = 2MiB\nwindow = 2\nstaging = %s\n"
    "heartbeat = 60s\n[peer.auto*]\n[peer.tight*]\nlevel = tight\n[provider.loop]\nchunk = 16KiB\n"
    "[session]\nprogress = manual\nio_deadline = 30s\nclose_deadline = 50ms\n"
    "[commit]\ndeadline = 60s\n";

static void open_cramped(sim *s, const char *journal, const char *staging)
{
    char text[1024];
    snprintf(text, sizeof text, tight_site, journal, staging);
    start_with(s, text);
    sim_join(s, &s->rollouts[0], "auto0", s->dense, NULL);
    sim_join(s, &s->rollouts[1], "tight1", s->dense, NULL);
    sim_settle(s, SETTLE_MS);
}

/* The journal holds no more of it: what went out is dropped, and peers get a snapshot. */
static void outgrows_the_journal(void **state)
{
    (void)state;
    sim *s = sim_open(FLEET_LARGE, 2, 4);
    open_cramped(s, "16MiB", "64MiB");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(publish(s, 1000, 0), WEFT_OK);
        assert_true(i > 0 || script.buckets > 0);
        sim_settle(s, SETTLE_MS);
        must_be_clean(s);
        assert_int_equal(publish(s, 1, 0), WEFT_OK);
        sim_settle(s, SETTLE_MS);
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
    snprintf(text, sizeof text, tight_site, "16MiB", "64MiB");
    strcat(text, "[peer.auto0]\nstaging = 12MiB\n");
    start_with(s, text);
    sim_join(s, &s->rollouts[0], "auto0", s->dense, NULL);
    sim_join(s, &s->rollouts[1], "tight1", s->dense, NULL);
    sim_settle(s, SETTLE_MS);
    assert_int_equal(publish(s, 1000, 0), WEFT_OK);
    assert_true(script.buckets > 0);
    sim_settle(s, SETTLE_MS);
    assert_int_equal(publish(s, 1, 0), WEFT_OK);
    sim_settle(s, SETTLE_MS);
    weft_peer_info info;
    assert_true(sim_peer(s, "auto0", &info));
    assert_true(info.snapshot_bytes > 0);
    assert_true(sim_peer(s, "tight1", &info));
    assert_int_equal(info.snapshot_bytes, 0);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* ---- peers that come and go meanwhile */

static void kill_one(sim *s, uint64_t run)
{
    if (run == 5)
        sim_kill(s, &s->rollouts[0]);
}

static void dies_meanwhile(void **state)
{
    (void)state;
    for (uint64_t fail_at = 0; fail_at < 8; fail_at += 7) {
        sim *s = open_two(FLEET_SMALL, 6);
        script.act = kill_one;
        assert_int_equal(publish(s, 300, fail_at), fail_at ? WEFT_E_DEVICE : WEFT_OK);
        script.act = NULL;
        assert_int_equal(publish(s, 300, 0), WEFT_OK);
        sim_settle(s, SETTLE_MS);
        must_hold(s, 1, s->newest);
        must_be_clean(s);
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
        start_with(s, NULL);
        sim_join(s, &s->rollouts[0], "auto0", s->dense, NULL);
        sim_settle(s, SETTLE_MS);
        old_bits = malloc(s->bytes);
        assert_non_null(old_bits);
        memcpy(old_bits, s->dense, s->bytes);
        script.act = join_one;
        assert_int_equal(publish(s, 300, fail_at), fail_at ? WEFT_E_DEVICE : WEFT_OK);
        script.act = NULL;
        sim_rounds(s, 30);
        assert_int_equal(publish(s, 300, 0), WEFT_OK);
        sim_settle(s, SETTLE_MS);
        must_hold(s, 2, s->newest);
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
    sim *s = open_two(FLEET_SMALL, 8);
    script.act = stop_one;
    assert_int_equal(publish(s, 300, 12), WEFT_E_DEVICE);
    script.act = NULL;
    assert_int_equal(publish(s, 300, 9), WEFT_E_DEVICE);
    assert_int_equal(publish(s, 300, 0), WEFT_OK);
    sim_settle(s, SETTLE_MS);
    must_be_clean(s);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* Both ends may close while what was withdrawn is still on its way. */
static void closes_behind_a_failure(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        sim *s = open_two(FLEET_SMALL, 9);
        script.act = stop_one;
        assert_int_equal(publish(s, 300, 12), WEFT_E_DEVICE);
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
    sim *s = open_two(FLEET_SMALL, 10);
    script.rounds = SIM_IO_MS * 2;
    assert_int_equal(publish(s, 300, 0), WEFT_OK);
    assert_true(script.buckets > 0);
    script.rounds = 3;
    sim_settle(s, SETTLE_MS);
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    sim_close(s);
}

/* ---- relays */

static sim *open_tree(uint64_t seed)
{
    sim *s = sim_open(FLEET_SMALL, 4, seed);
    char text[1024];
    snprintf(text, sizeof text, tight_site, "16MiB", "16MiB");
    unsigned port = port_free();
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "[peer.r]\nrelay = 127.0.0.1:%u\nrelay_memory = 64MiB\n[peer.x*]\nvia = r\n", port);
    start_with(s, text);
    sim_join(s, &s->rollouts[0], "r", s->dense, NULL);
    sim_settle(s, SETTLE_MS);
    for (unsigned i = 1; i < 3; i++) {
        sim_join(s, &s->rollouts[i], i == 1 ? "x1" : "x2", s->dense, NULL);
        sim_settle(s, SETTLE_MS);
    }
    sim_join(s, &s->rollouts[3], "auto3", s->dense, NULL);
    sim_settle(s, SETTLE_MS);
    weft_peer_info info;
    assert_true(sim_peer(s, "x1", &info));
    assert_string_equal(info.via, "r");
    return s;
}

/* Those behind a relay have the first bucket early too, and from its copy. */
static void follows_early(void **state)
{
    (void)state;
    sim *s = open_tree(11);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(publish(s, 300, 0), WEFT_OK);
        assert_true(script.buckets > 0);
        assert_true(s->rollouts[1].session->rollout->book.buckets > 0);
        sim_settle(s, SETTLE_MS);
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
    assert_int_equal(publish(s, 300, 0), WEFT_OK);
    const uint64_t runs = script.runs;
    sim_settle(s, SETTLE_MS);
    for (uint64_t at = 3; at <= runs; at++) {
        const uint64_t before = s->newest;
        if (at % 4 == 0)
            snprintf(s->attachment, sizeof s->attachment, "number %u", (unsigned)at);
        assert_int_equal(publish(s, 300, at), WEFT_E_DEVICE);
        if (at % 2 == 0)
            sim_rounds(s, 50);
        for (unsigned i = 0; i < 4; i++)
            must_hold(s, i, before);
        assert_int_equal(publish(s, 30, 0), WEFT_OK);
        sim_settle(s, SETTLE_MS);
        must_be_clean(s);
    }
    assert_int_equal(fleet_stats(s->trainer.session).peers_lost, 0);
    script.act = kill_follower;
    assert_int_equal(publish(s, 300, 9), WEFT_E_DEVICE);
    script.act = NULL;
    assert_int_equal(publish(s, 300, 0), WEFT_OK);
    sim_settle(s, SETTLE_MS);
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
        sim *s = open_two(FLEET_SMALL, seed);
        script.act = act_at_random;
        for (int i = 0; i < 25; i++) {
            const uint64_t dropped = 1 + sim_below(s, 30), corrupted = 1 + sim_below(s, 30);
            const weft_loop_faults faults[] = {
                {.drop_at = dropped}, {.corrupt_at = corrupted, .seed = seed}, {.reorder_window = 5, .seed = seed}};
            script.rounds = 1 + (unsigned)sim_below(s, 6);
            weft_loop_set_faults(sim_below(s, 3) ? NULL : &faults[sim_below(s, 3)]);
            publish(s, 300, sim_below(s, 2) ? 1 + sim_below(s, 20) : 0);
            sim_rounds(s, sim_below(s, 60));
        }
        weft_loop_set_faults(NULL);
        script.act = NULL;
        assert_int_equal(publish(s, 300, 0), WEFT_OK);
        sim_settle(s, SETTLE_MS);
        must_be_clean(s);
        sim_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_bucket_comes_early), cmocka_unit_test(fails_midway),
        cmocka_unit_test(fails_at_the_survey),      cmocka_unit_test(says_why_it_failed),
        cmocka_unit_test(dies_behind_the_seal),     cmocka_unit_test(fails_again_and_again),
        cmocka_unit_test(outgrows_the_journal),     cmocka_unit_test(outgrows_staging),
        cmocka_unit_test(dies_meanwhile),           cmocka_unit_test(joins_meanwhile),
        cmocka_unit_test(stands_still_meanwhile),   cmocka_unit_test(closes_behind_a_failure),
        cmocka_unit_test(encodes_for_long),         cmocka_unit_test(follows_early),
        cmocka_unit_test(follows_what_fails),       cmocka_unit_test(any_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "tests/support/eager.h"

#include <string.h>

#include "base/status.h"

early early_script;
weft_backend early_backend;

const char early_tight_site[] =
    "[trainer]\nlisten = 127.0.0.1:0\njournal = %s\nthreads = 1\nmax_peers = 8\n"
    "[peers]\nprovider = loop\nbucket_max = 2MiB\nwindow = 2\nstaging = %s\n"
    "heartbeat = 60s\n[peer.auto*]\n[peer.tight*]\nlevel = tight\n[provider.loop]\nchunk = 16KiB\n"
    "[session]\nprogress = manual\nio_deadline = 30s\nclose_deadline = 50ms\n"
    "[commit]\ndeadline = 60s\n";

static void look(sim *s)
{
    const weft_rollout *rollout = s->rollouts[0].session ? s->rollouts[0].session->rollout : NULL;
    if (rollout && rollout->arriving.queued && rollout->arriving.book.buckets > early_script.buckets)
        early_script.buckets = rollout->arriving.book.buckets;
    early_script.staged = early_script.staged || (rollout && weft_course_is_proved(&rollout->course));
}

static weft_status encode(weft_backend_state *state, weft_encode_job *job)
{
    sim *s = early_script.s;
    const weft_trainer *trainer = s->trainer.session->trainer;
    early_script.runs++;
    for (uint32_t i = 0; i < trainer->peers.count; i++)
        trainer->peers.list[i].site.bucket_min = 1; /* the models are small */
    if (early_script.act)
        early_script.act(s, early_script.runs);
    sim_rounds(s, early_script.rounds);
    look(s);
    if (early_script.runs == early_script.fail_at)
        return weft_fail_quiet(WEFT_E_DEVICE, "the test's device fails at run %llu",
                               (unsigned long long)early_script.runs);
    return early_script.real->encode(state, job);
}

void early_start(sim *s, const char *text)
{
    if (text)
        snprintf(s->text, sizeof s->text, "%s", text);
    sim_start_trainer(s);
    weft_trainer *trainer = s->trainer.session->trainer;
    early_script = (early){.s = s, .real = trainer->publisher.encoding.encoder.backend, .rounds = 3};
    early_backend = *early_script.real;
    early_backend.encode = encode;
    trainer->publisher.encoding.encoder.backend = &early_backend;
    for (uint32_t lane = 0; lane < trainer->publisher.encoding.encoder.lanes.count; lane++)
        trainer->publisher.encoding.encoder.windows[lane].backend = &early_backend;
}

weft_status early_publish(sim *s, uint32_t per_mille, uint64_t fail_at)
{
    weft_publish_options options = {
        .size = sizeof options, .attachment = s->attachment, .attachment_bytes = strlen(s->attachment)};
    early_script.runs = early_script.buckets = 0;
    early_script.staged = false;
    early_script.fail_at = fail_at;
    fleet_change(s->layout, s->dense, per_mille, &s->seed);
    fleet_model_put(&s->trainer.model, s->dense);
    weft_status status = weft_publish(s->trainer.session, s->newest + 1, NULL, &options, NULL);
    if (status == WEFT_OK)
        sim_remember(s);
    return status;
}

void early_must_hold(sim *s, unsigned at, uint64_t number)
{
    weft_version held;
    assert_int_equal(weft_held(s->rollouts[at].session, &held), WEFT_OK);
    assert_int_equal(held.number, number);
    sim_check(s, &s->rollouts[at]);
}

void early_must_be(sim *s, unsigned at, weft_peer_state state)
{
    weft_peer_info info;
    assert_true(sim_peer(s, s->rollouts[at].name, &info));
    if (info.state != state)
        fleet_fail("%s is %s", info.name, weft_peer_state_name(info.state));
}

weft_trainer *early_trainer(sim *s)
{
    return s->trainer.session->trainer;
}

void early_must_be_clean(sim *s)
{
    const weft_trainer *trainer = early_trainer(s);
    assert_null(trainer->publisher.eager.update);
    assert_int_equal(trainer->publisher.eager.withdrawn.readers, 0);
}

sim *early_open_two(fleet_size size, uint64_t seed)
{
    sim *s = sim_open(size, 2, seed);
    snprintf(s->attachment, sizeof s->attachment, "first");
    early_start(s, NULL);
    sim_join(s, &s->rollouts[0], "auto0", s->dense, NULL);
    sim_join(s, &s->rollouts[1], "tight1", s->dense, NULL);
    sim_settle(s, EARLY_SETTLE_MS);
    return s;
}

/* Updates that go out while they are encoded, by several threads, with a progress thread at each end: what the
 * simulation of the same cannot show. */
#include "tests/support/fleet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "peer/peer.h"
#include "rollout/rollout.h"

#define ROUNDS_LEAST 9
#define ROUNDS_MOST  400

static const weft_backend *real;
static weft_session *rollout_a;
static _Atomic uint64_t runs;    /* encoded in this publish */
static _Atomic uint64_t fail_at; /* the run that fails; 0: none */
static _Atomic bool early;       /* a rollout had a bucket while its update was being encoded */

static void look(void)
{
    pthread_mutex_lock(&rollout_a->lock);
    const weft_rollout *rollout = rollout_a->rollout;
    if (rollout->arriving.queued && rollout->arriving.book.buckets)
        early = true;
    pthread_mutex_unlock(&rollout_a->lock);
}

static weft_status encode(weft_backend_state *state, weft_encode_job *job)
{
    fleet_sleep_ms(1);
    look();
    if (atomic_fetch_add(&runs, 1) + 1 == fail_at)
        return weft_fail_quiet(WEFT_E_DEVICE, "the test's device fails");
    return real->encode(state, job);
}

static void small_buckets(weft_trainer *trainer)
{
    pthread_mutex_lock(&trainer->session->lock);
    for (uint32_t i = 0; i < trainer->peers.count; i++)
        trainer->peers.list[i].site.bucket_min = 1; /* the model is small */
    pthread_mutex_unlock(&trainer->session->lock);
}

static void publish(fleet *f, uint64_t fails)
{
    runs = 0;
    fail_at = fails;
    if (!fails) {
        fleet_publish(f, 50);
        return;
    }
    fleet_change(f->layout, f->dense, 50, &f->seed);
    fleet_model_put(&f->trainer.model, f->dense);
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, NULL), WEFT_E_DEVICE);
}

/* Every third publish fails midway. After every fourth the next one goes out at once. */
static void goes_out_meanwhile(void **state)
{
    (void)state;
    static const char *const overrides[] = {"trainer.threads=2", "peer.b.level=tight", NULL};
    fleet *f = fleet_open(FLEET_LARGE, overrides);
    fleet_start_trainer(f, NULL);
    for (unsigned i = 0; i < 2; i++)
        fleet_join(f, i, FLEET_SAME);
    rollout_a = f->rollouts[0].session;
    weft_trainer *trainer = f->trainer.session->trainer;
    real = trainer->publisher.encoding.encoder.backend;
    weft_backend slow = *real;
    slow.encode = encode;
    trainer->publisher.encoding.encoder.backend = &slow;
    for (uint64_t round = 1; round <= ROUNDS_LEAST || (!early && round <= ROUNDS_MOST); round++) {
        small_buckets(trainer);
        publish(f, round % 3 == 0 ? 2 + round % 7 : 0);
        for (unsigned i = 0; i < 2 && round % 4; i++)
            fleet_catch_up(f, i);
    }
    publish(f, 0);
    for (unsigned i = 0; i < 2; i++)
        fleet_catch_up(f, i);
    assert_true(early);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    trainer->publisher.encoding.encoder.backend = real;
    fleet_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_out_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

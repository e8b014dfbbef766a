/* Weights that a caller changes while publish looks at them: the trainer says so, and with the next version all is
 * well again. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "peer/peer.h"

#define PEERS 4u

typedef struct tear {
    const weft_backend *real;
    weft_backend backend;
    bool armed;
    bool refuses;     /* frames */
    _Atomic int said; /* errors at the trainer that name the cause */
    void (*write)(weft_log_sink *sink, weft_log_level level, const char *line);
} tear;

static tear torn;

static void flip(const weft_view *view)
{
    *(uint8_t *)view->runs[0].data ^= 0x10;
    torn.armed = false;
}

/* The second look at a run: its units one by one, for the levels that do not take them together. */
static weft_status encode(weft_backend_state *state, weft_encode_job *job)
{
    if (torn.armed && !(job->levels >> WEFT_JOURNAL_LEVEL & 1))
        flip(&job->now);
    return torn.real->encode(state, job);
}

/* All was encoded, and the shadow is copied. */
static weft_status load(weft_backend_state *state, weft_load_job *job)
{
    if (torn.armed)
        flip(&job->view);
    return torn.real->load(state, job);
}

/* Own frames do not decode. */
static weft_status decode(weft_backend_state *state, weft_decode_job *job)
{
    return torn.refuses ? weft_fail_quiet(WEFT_E_CORRUPT, "of this test") : torn.real->decode(state, job);
}

static void hear(weft_log_sink *sink, weft_log_level level, const char *line)
{
    torn.said += level == WEFT_LOG_ERROR && strstr(line, "the weights changed while it was published");
    torn.write(sink, level, line);
}

static fleet *start(void)
{
    static const char *const overrides[] = {"peer.a.level=tight", "peer.b.level=pairs", "peer.c.level=fast",
                                            "peer.x*.level=full", "trainer.threads=1",  NULL};
    static const char *const names[PEERS] = {"a", "b", "c", "x1"};
    fleet *f = fleet_open_device(FLEET_LARGE, overrides, false, false, 1);
    fleet_start_trainer(f, NULL);
    for (unsigned at = 0; at < PEERS; at++)
        fleet_join(f, at, FLEET_SAME);
    for (unsigned at = 0; at < PEERS; at++) /* levels are encoded for peers that are there */
        fleet_wait_state(f, names[at], WEFT_PEER_LIVE, FLEET_WAIT_MS);
    weft_session *session = f->trainer.session;
    pthread_mutex_lock(&session->lock);
    torn = (tear){.real = session->backend, .backend = *session->backend, .write = session->sink.write};
    session->sink.write = hear;
    torn.backend.encode = encode;
    torn.backend.load = load;
    session->trainer->publisher.encoding.encoder.backend = session->calls.backend = &torn.backend;
    pthread_mutex_unlock(&session->lock);
    return f;
}

static void stop(fleet *f)
{
    weft_session *session = f->trainer.session;
    pthread_mutex_lock(&session->lock);
    session->trainer->publisher.encoding.encoder.backend = session->calls.backend = torn.real;
    session->sink.write = torn.write;
    pthread_mutex_unlock(&session->lock);
    fleet_close(f);
}

static uint64_t root_of(fleet *f)
{
    const fleet_model *model = &f->trainer.model;
    uint64_t root = 0;
    assert_int_equal(weft_digest_tensors(f->layout, model->pieces, model->piece_count, NULL, NULL, &root), WEFT_OK);
    return root;
}

static uint64_t root_published(fleet *f)
{
    weft_version held;
    assert_int_equal(weft_held(f->trainer.session, &held), WEFT_OK);
    return held.root;
}

/* Peers may hold the torn version as the weights are now, because it was announced so for a moment. */
static void admit_weights(fleet *f)
{
    fleet_model_get(&f->trainer.model, f->dense);
    fleet_version *version = &f->history[f->history_count++];
    *version = (fleet_version){root_of(f), f->newest, malloc(f->bytes)};
    memcpy(version->dense, f->dense, f->bytes);
}

static void still_weights_heal(fleet *f)
{
    const int said = torn.said;
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            fleet_publish_dense(f, NULL); /* as they are */
        else
            fleet_publish(f, 1);
        assert_int_equal(root_published(f), root_of(f));
        for (unsigned at = 0; at < PEERS; at++) {
            fleet_catch_up(f, at);
            fleet_check_bytes(f, at, f->dense);
        }
    }
    const fleet_model *model = &f->trainer.model;
    assert_int_equal(weft_bind(f->trainer.session, model->pieces, model->piece_count, NULL, 0, 0), WEFT_OK);
    assert_int_equal(torn.said, said);
}

/* The frames that the shadow takes are of the first look, the digests of the second. */
static void between_two_looks_at_a_run(void **state)
{
    (void)state;
    fleet *f = start();
    fleet_publish(f, 1);
    assert_int_equal(torn.said, 0);
    for (unsigned at = 0; at < PEERS; at++)
        fleet_catch_up(f, at);
    torn.armed = true;
    fleet_publish(f, 1);
    assert_false(torn.armed);
    assert_int_equal(torn.said, 1);
    assert_int_not_equal(root_published(f), root_of(f)); /* it is what the frames of the first look lead to */
    admit_weights(f);
    still_weights_heal(f);
    stop(f);
}

/* The version has no frames, and its bits are of a later look than its digests. */
static void before_the_shadow_is_copied(void **state)
{
    (void)state;
    fleet *f = start();
    fleet_publish(f, 1);
    torn.armed = true;
    fleet_publish(f, 1000);
    assert_false(torn.armed);
    assert_int_equal(torn.said, 1);
    assert_int_equal(root_published(f), root_of(f));
    admit_weights(f);
    still_weights_heal(f);
    stop(f);
}

/* With frames that is before they are in the shadow, and without frames after that. */
static void weights_may_change_once_they_are_free(void **state)
{
    static const uint32_t densities[] = {1, 0, 1000};
    (void)state;
    fleet *f = start();
    for (size_t i = 0; i < sizeof densities / sizeof *densities; i++) {
        assert_int_equal(fleet_publish_over(f, densities[i], NULL), 1);
        for (unsigned at = 0; at < PEERS; at++) {
            fleet_catch_up(f, at);
            fleet_check_bytes(f, at, f->dense);
        }
    }
    assert_int_equal(torn.said, 0);
    fleet_publish_dense(f, NULL);
    still_weights_heal(f);
    stop(f);
}

static void weights_count(void *user)
{
    ++*(int *)user;
}

/* The shadow is copied from weights that stand still, and is lost where these may have changed: nobody gets other bits.
 */
static void weights_that_are_free_are_not_read(void **state)
{
    int times = 0;
    const weft_publish_options options = {.size = sizeof options, .weights_free = weights_count, .user = &times};
    (void)state;
    fleet *f = start();
    weft_pipeline *jobs = &f->trainer.session->trainer->publisher.shadow.jobs;
    torn.backend.decode = decode;
    jobs->backend = &torn.backend;
    torn.refuses = true;
    fleet_publish(f, 1);
    assert_int_equal(torn.said, 1);
    torn.refuses = false;
    still_weights_heal(f);
    torn.refuses = true;
    fleet_change(f->layout, f->dense, 1, &f->seed);
    fleet_model_put(&f->trainer.model, f->dense);
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, &options, NULL), WEFT_E_DEVICE);
    assert_non_null(strstr(weft_last_error(), "is out, and the copy of it is lost: of this test"));
    assert_int_equal(times, 1);
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 2, NULL, &options, NULL), WEFT_E_DEVICE);
    assert_int_equal(times, 1);
    jobs->backend = torn.real;
    stop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_two_looks_at_a_run),
        cmocka_unit_test(before_the_shadow_is_copied),
        cmocka_unit_test(weights_may_change_once_they_are_free),
        cmocka_unit_test(weights_that_are_free_are_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

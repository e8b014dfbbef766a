/* The shadow on a device follows an update while the update is encoded. Whatever ends a publish, and wherever, the
 * shadow has the bits of the newest version afterwards, and who joins meanwhile gets these. */
#include "tests/support/fleet.h"

#include <pthread.h>

#include "backends/gpu/gpu.h"
#include "base/status.h"
#include "session/session.h"
#include "tests/fake_gpu/far.h"
#include "trainer/publish.h"

/* ---- the device's table, of which jobs can fail */

static weft_backend table;

static struct {
    fleet *fleet;
    uint32_t submitted, given, followed; /* encode jobs of the publish that is under way */
    uint32_t back;                       /* jobs that were given back */
    uint32_t alone;                      /* runs of which a level goes unit by unit */
    uint32_t fails_at;                   /* this one is not taken, as if the device were late; 0: none is */
    uint32_t decoded;                    /* decode jobs */
    uint64_t late;                       /* a bit for each of these that is not taken; the last stands for later ones */
    uint32_t acts_at;                    /* `act` is called before this encode job */
    uint32_t stalls_after;               /* the device stands still once so many frames follow; 0: it does not */
    void (*act)(fleet *f);
} play;

static weft_status late(void)
{
    return weft_fail_quiet(WEFT_E_TIMEOUT, "of this test");
}

static weft_status play_encode(weft_backend_state *state, weft_encode_job *job)
{
    if (++play.submitted == play.acts_at)
        play.act(play.fleet);
    return play.submitted == play.fails_at ? late() : weft_backend_cuda.encode(state, job);
}

static weft_status play_decode(weft_backend_state *state, weft_decode_job *job)
{
    const uint32_t number = play.decoded++;
    return play.late >> (number < 63 ? number : 63) & 1 ? late() : weft_backend_cuda.decode(state, job);
}

static pthread_t waker;

static void *later(void *fake)
{
    fleet_sleep_ms(700);
    ((const weft_fake_control *)fake)->stall(false);
    return NULL;
}

static void stall(void)
{
    const weft_fake_control *fake = world[WORLD_CUDA].fake;
    fake->stall(true);
    assert_int_equal(pthread_create(&waker, NULL, later, (void *)(uintptr_t)fake), 0);
}

static void play_give(weft_backend_state *state, weft_encode_job *job)
{
    play.back++;
    play.given += job->frame_bytes[WEFT_LEVEL_FAST] > 0;
    play.followed += job->follow;
    play.alone += job->alone != 0;
    assert_false(job->follow && job->alone);
    weft_backend_cuda.give(state, job);
    if (job->follow && play.followed == play.stalls_after)
        stall();
}

static weft_publisher *publisher_of(const fleet *f)
{
    return &f->trainer.session->trainer->publisher;
}

static uint32_t torn; /* versions that the trainer named anew */

static void hear(void *f, weft_log_level level, const char *line)
{
    (void)f;
    (void)level;
    torn += strstr(line, "the weights changed while it was published") != NULL;
}

/* A trainer whose batches have `most` jobs. */
static fleet *open_with(fleet_size size, uint32_t most, const char *level)
{
    static const char *overrides[12];
    const char *const all[] = {"trainer.backend=cuda",
                               "trainer.shadow=device",
                               "peers.backend=host",
                               level,
                               "peers.provider=tcp",
                               "peers.address=127.0.0.1",
                               "commit.snapshot=staged",

                               NULL};
    memcpy(overrides, all, sizeof all);
    table = weft_backend_cuda;
    table.encode = play_encode;
    table.decode = play_decode;
    table.give = play_give;
    weft_backend_lend(&table);
    fleet *f = far_fleet_open(size, overrides);
    memset(&play, 0, sizeof play);
    play.fleet = f;
    f->trainer.far = &far_cuda_0;
    f->heard = hear;
    fleet_start_trainer(f, NULL);
    ((weft_gpu *)(void *)f->trainer.session->device)->jobs_most = most;
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    return f;
}

static void close_all(fleet *f)
{
    far_fleet_close(f);
    weft_backend_lend(NULL);
}

static void play_begin(uint32_t fails_at, uint32_t acts_at, void (*act)(fleet *f))
{
    memset(&play, 0, sizeof play);
    play.fails_at = fails_at;
    play.acts_at = acts_at;
    play.act = act;
}

static void shadow_is_newest(const fleet *f)
{
    weft_publisher *publisher = publisher_of(f);
    uint64_t root, *digests = test_malloc((publisher->session->layout->part_count + 1) * sizeof *digests);
    assert_int_equal(weft_session_digest(&publisher->shadow.jobs, &publisher->shadow.binding, digests, &root), WEFT_OK);
    assert_int_equal(root, publisher->newest.version.root);
    test_free(digests);
}

/* Publishes changed weights, which fails. The weights stay changed. */
static void publish_fails(fleet *f, uint32_t per_mille, weft_status wanted)
{
    const uint64_t root = publisher_of(f)->newest.version.root;
    play.fleet = f;
    fleet_change(f->layout, f->dense, per_mille, &f->seed);
    fleet_model_put(&f->trainer.model, f->dense);
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, NULL), wanted);
    assert_int_equal(publisher_of(f)->newest.version.root, root);
}

static void all_are_right(fleet *f, unsigned count)
{
    shadow_is_newest(f);
    for (unsigned at = 0; at < count; at++) {
        fleet_catch_up(f, at);
        assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
    }
}

/* ---- it follows */

static void frames_follow(void **state)
{
    static const uint32_t densities[] = {20, 300, 1000, 0};
    (void)state;
    for (uint32_t most = 1; most < 4; most += 2) {
        fleet *f = open_with(FLEET_SMALL, most, "peers.level=fast");
        for (uint32_t d = 0; d < sizeof densities / sizeof *densities; d++) {
            play_begin(0, 0, NULL);
            fleet_publish(f, densities[d]);
            all_are_right(f, 1);
            if (densities[d] == 20) {
                assert_true(play.given > 3);
                assert_int_equal(play.followed, play.given);
            }
        }
        close_all(f);
    }
}

/* Beside another level. What has units that go alone does not follow, because they are compared with the shadow. */
static void beside_another_level(void **state)
{
    static const char *const levels[] = {"peers.level=tight", "peers.level=pairs", "peers.level=full"};
    uint32_t followed = 0, alone = 0;
    (void)state;
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        fleet *f = open_with(FLEET_TILES, 1, levels[l]);
        for (uint32_t density = 2; density < 30; density += 9) {
            play_begin(0, 0, NULL);
            fleet_publish(f, density);
            all_are_right(f, 1);
            followed += play.followed;
            alone += play.alone;
        }
        close_all(f);
    }
    assert_true(followed > 5 && alone > 0);
}

/* ---- a publish fails at each of its jobs, while a rollout joins */

/* The rollout asks for what the shadow has while that moves. */
static void joins(fleet *f)
{
    fleet_join(f, 1, FLEET_OTHER);
    fleet_sleep_ms(20);
}

static void goes_back(void **state)
{
    static const uint32_t fails[] = {2, 3, 5, 8, 11};
    uint32_t followed = 0;
    uint64_t snapshot_bytes = 0;
    (void)state;
    fleet *f = open_with(FLEET_SMALL, 2, "peers.level=fast");
    for (uint32_t i = 0; i < sizeof fails / sizeof *fails; i++) {
        play_begin(fails[i], fails[i], joins);
        publish_fails(f, 100, WEFT_E_TIMEOUT);
        assert_string_equal(weft_last_error(), "of this test");
        followed += play.followed;
        shadow_is_newest(f);
        fleet_catch_up(f, 1);
        snapshot_bytes = i ? snapshot_bytes : fleet_line(f, "b").snapshot_bytes;
        assert_true(fleet_line(f, "b").snapshot_bytes <= (i + 1) * snapshot_bytes); /* none came twice */
        play_begin(0, 0, NULL);
        fleet_publish(f, 0);
        all_are_right(f, 2);
        fleet_leave(f, 1);
    }
    assert_true(followed > 10);
    close_all(f);
}

/* The way back is tried again while other work holds the device up, and at last the shadow is lost. */
static void comes_back_late(void **state)
{
    (void)state;
    fleet *f = open_with(FLEET_SMALL, 2, "peers.level=fast");
    play_begin(7, 0, NULL);
    play.late = 1 << 2 | 1 << 3;
    publish_fails(f, 100, WEFT_E_TIMEOUT);
    assert_true(play.decoded > 6);
    shadow_is_newest(f);
    play_begin(0, 0, NULL);
    fleet_publish(f, 20);
    all_are_right(f, 1);
    play_begin(7, 0, NULL);
    play.late = UINT64_MAX;
    publish_fails(f, 20, WEFT_E_DEVICE);
    assert_non_null(strstr(weft_last_error(), "is lost, because it does not come back: of this test"));
    play_begin(0, 0, NULL);
    publish_fails(f, 20, WEFT_E_DEVICE);
    assert_non_null(strstr(weft_last_error(), "close the session"));
    fleet_check(f, 0);
    close_all(f);
}

static void patience_set(const fleet *f, uint64_t ms)
{
    weft_gpu *gpu = (void *)f->trainer.session->device;
    gpu->patience_ns = gpu->caller_ns = ms * WEFT_NS_PER_MS;
}

/* A batch is given up while others follow. These are waited for, however long a job may take. */
static void waits_for_what_follows(void **state)
{
    (void)state;
    fleet *f = open_with(FLEET_SMALL, 1, "peers.level=fast");
    for (uint32_t after = 2; after < 5; after += 2) {
        patience_set(f, 100);
        play_begin(0, 0, NULL);
        play.stalls_after = after;
        publish_fails(f, 100, WEFT_E_TIMEOUT);
        pthread_join(waker, NULL);
        patience_set(f, 60000);
        shadow_is_newest(f);
        play_begin(0, 0, NULL);
        fleet_publish(f, 0);
        all_are_right(f, 1);
    }
    close_all(f);
}

/* A launch that fails fails the publish, and where that was one of `follow` the shadow is lost. */
static void a_launch_fails(void **state)
{
    (void)state;
    uint32_t lost = 0;
    bool spoiled = true;
    for (uint64_t nth = 1; spoiled; nth++) {
        fleet *f = open_with(FLEET_SMALL, 4, "peers.level=fast");
        const weft_fake_control *fake = world[WORLD_CUDA].fake;
        fleet_change(f->layout, f->dense, 100, &f->seed);
        fleet_model_put(&f->trainer.model, f->dense);
        fake->spoil("cuLaunchKernel", nth, 2, false);
        const weft_status status = weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, NULL);
        spoiled = fake->spoiled();
        fake->spoil(NULL, 0, 0, false);
        assert_int_equal(status != WEFT_OK, spoiled);
        if (!publisher_of(f)->shadow.lost)
            shadow_is_newest(f);
        lost += publisher_of(f)->shadow.lost;
        close_all(f);
    }
    assert_in_range(lost, 1, 3);
}

/* ---- frames that are not kept */

/* The journal has no block left, and in the last one room for some of the frames. If a later job fails too, the shadow
 * goes back; if none does, the shadow is copied whole. */
static void journal_is_full(void **state)
{
    (void)state;
    for (uint32_t fails_at = 0; fails_at <= 12; fails_at += 12) {
        fleet *f = open_with(FLEET_SMALL, 2, "peers.level=fast");
        weft_arena *arena = &publisher_of(f)->journal.arena;
        weft_chain others;
        uint32_t versions = 0;
        fleet_leave(f, 0);
        fleet_publish(f, 100);
        weft_chain_begin(&others);
        while (weft_chain_extend(arena, &others))
            ;
        do {
            play_begin(fails_at, 0, NULL);
            if (fails_at)
                publish_fails(f, 100, WEFT_E_TIMEOUT);
            else
                fleet_publish(f, 100);
            shadow_is_newest(f);
        } while (play.followed == play.given && ++versions < 300);
        assert_in_range(play.followed, 1, play.given - 1);
        weft_chain_free(arena, &others);
        play_begin(0, 0, NULL);
        fleet_publish(f, 100);
        fleet_join(f, 0, FLEET_OTHER);
        all_are_right(f, 1);
        close_all(f);
    }
}

/* ---- weights that change meanwhile */

static uint32_t back_when_free;

static void free_now(fleet *f)
{
    (void)f;
    back_when_free = play.back;
    assert_int_equal(world[WORLD_CUDA].fake->chosen(), -1); /* as the caller had chosen */
}

/* They are free before the last frames are in the journal; after that where the shadow is still to decode frames, or to
 * be copied. */
static void weights_are_free_early(void **state)
{
    (void)state;
    fleet *f = open_with(FLEET_SMALL, 2, "peers.level=fast");
    weft_chain others;
    torn = 0;
    play_begin(0, 0, NULL);
    world[WORLD_CUDA].fake->choose(-1);
    assert_int_equal(fleet_publish_over(f, 20, free_now), 1);
    assert_in_range(back_when_free, 1, play.submitted - 1);
    assert_int_equal(play.followed, play.given);
    all_are_right(f, 1);
    play_begin(0, 0, NULL);
    assert_int_equal(fleet_publish_over(f, 1000, free_now), 1); /* dense frames are the host's, and do not follow */
    assert_in_range(play.followed, 0, play.given - 1);
    assert_int_equal(back_when_free, play.submitted);
    all_are_right(f, 1);
    weft_chain_begin(&others);
    while (weft_chain_extend(&publisher_of(f)->journal.arena, &others))
        ;
    weft_publisher *publisher = publisher_of(f);
    for (uint32_t versions = 0; !weft_journal_at(&publisher->journal, publisher->newest.order)->snapshot_only;
         versions++) {
        assert_true(versions < 300);
        play_begin(0, 0, NULL);
        assert_int_equal(fleet_publish_over(f, 20 + versions % 2 * 80, free_now), 1);
    }
    assert_int_equal(back_when_free, play.submitted);
    weft_chain_free(&publisher_of(f)->journal.arena, &others);
    all_are_right(f, 1);
    assert_int_equal(torn, 0);
    close_all(f);
}

/* Their bits of the version before come back on a stream of the caller's, at any time of the publish: frames whose
 * changes are none any more do not follow. Whatever the version is named in the end, the shadow has its bits. */
static void weights_change(void **state)
{
    uint32_t unfollowed = 0;
    (void)state;
    torn = 0;
    for (uint32_t most = 1; most < 4; most += 2) {
        fleet *f = open_with(FLEET_SMALL, most, "peers.level=fast");
        const weft_fake_control *fake = world[WORLD_CUDA].fake;
        fleet_model *model = &f->trainer.model;
        uint8_t *before = test_malloc(model->memory_bytes);
        void *stream = fake->stream_take(0), *other = fake->stream_take(0);
        fleet_leave(f, 0);
        fleet_publish(f, 20);
        memcpy(before, model->memory, model->memory_bytes);
        fleet_change(f->layout, f->dense, 300, &f->seed);
        fleet_model_put(model, f->dense);
        for (uint64_t at = 0; at < model->memory_bytes; at += 64)
            fake->queue_write(stream, (uintptr_t)model->bound + at, before + at,
                              model->memory_bytes - at < 64 ? model->memory_bytes - at : 64);
        play_begin(0, 0, NULL);
        assert_int_equal(weft_publish(f->trainer.session, ++f->newest, other, NULL, NULL), WEFT_OK);
        assert_int_equal(fake->chosen(), -1); /* as before the call */
        shadow_is_newest(f);
        unfollowed += play.given - play.followed;
        fake->finish();
        fake->stream_give(stream);
        fake->stream_give(other);
        test_free(before);
        fleet_publish(f, 20);
        fleet_join(f, 0, FLEET_OTHER);
        all_are_right(f, 1);
        close_all(f);
    }
    assert_true(unfollowed > 0);
    assert_int_equal(torn, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_change),
        cmocka_unit_test(frames_follow),
        cmocka_unit_test(goes_back),
        cmocka_unit_test(comes_back_late),
        cmocka_unit_test(waits_for_what_follows),
        cmocka_unit_test(journal_is_full),
        cmocka_unit_test(weights_are_free_early),
        cmocka_unit_test(a_launch_fails),
        cmocka_unit_test(beside_another_level),
    };
    cmocka_set_test_filter(getenv("WEFT_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

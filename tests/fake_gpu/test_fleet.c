/* Whole fleets over the drivers of the tests: trainers and rollouts on devices and on the host, over real fabrics, come
 * to the same bits. Weights lie in memory of the device that only the drivers reach. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "backends/gpu/gpu.h"
#include "tests/fake_gpu/far.h"
#include "trainer/publish.h"

/* ---- one trainer, one rollout */

/* Every level, from few changes to all, after a join from other bits; `size` at level fast. */
static void sync_levels(fleet_size size, const char *trainer, const fleet_far *trainer_far, const char *rollouts,
                        const fleet_far *rollout_far, const char *provider)
{
    static const char *const levels[] = {"fast", "tight", "pairs", "full"};
    static const uint32_t densities[] = {20, 300, 1000, 1, 0};
    const size_t versions = getenv("WEFT_FULL") ? sizeof densities / sizeof *densities : 3;
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        char level[64];
        const char *overrides[] = {trainer, rollouts, provider, level, "peers.address=127.0.0.1", NULL};
        snprintf(level, sizeof level, "peers.level=%s", levels[l]);
        fleet *f = far_fleet_open(l ? FLEET_SMALL : size, overrides);
        f->trainer.far = trainer_far;
        f->rollouts[0].far = rollout_far;
        fleet_start_trainer(f, NULL);
        fleet_join(f, 0, FLEET_OTHER);
        fleet_catch_up(f, 0);
        for (size_t d = 0; d < versions; d++) {
            fleet_publish(f, densities[d]);
            fleet_catch_up(f, 0);
        }
        assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
        far_fleet_close(f);
    }
}

/* Either end alone is in the mixed fleet (test_mixed.c) too. */
static void only_in_full(void)
{
    if (!getenv("WEFT_FULL"))
        skip();
}

static void host_to_hip(void **state)
{
    (void)state;
    only_in_full();
    sync_levels(FLEET_SMALL, "trainer.backend=host", NULL, "peers.backend=hip", &far_hip_0, "peers.provider=shm");
}

static void cuda_to_host(void **state)
{
    (void)state;
    only_in_full();
    sync_levels(FLEET_SMALL, "trainer.backend=cuda", &far_cuda_0, "peers.backend=host", NULL, "peers.provider=shm");
}

static void cuda_to_hip(void **state)
{
    (void)state;
    sync_levels(FLEET_TILES, "trainer.backend=cuda", &far_cuda_0, "peers.backend=hip", &far_hip_0,
                "peers.provider=tcp");
}

/* ---- the shadow beside the weights */

/* Joins with the newest bits but for one. */
static void join_flipped(fleet *f, unsigned at)
{
    uint8_t *wrong = test_malloc(f->bytes);
    memcpy(wrong, f->dense, f->bytes);
    wrong[fleet_tensor_at(f->layout, "half") + 1000] ^= 0x04;
    fleet_join_bits(f, at, wrong);
    test_free(wrong);
}

/* All that is read of it: what changed, a snapshot for who joins late, tiles for a repair. */
static void shadow_on_device(void **state)
{
    (void)state;
    static const char *const overrides[] = {"trainer.backend=cuda", "trainer.shadow=device",   "peers.backend=hip",
                                            "peers.provider=tcp",   "peers.address=127.0.0.1", NULL};
    fleet *f = far_fleet_open(getenv("WEFT_FULL") ? FLEET_TILES : FLEET_SMALL, overrides);
    f->trainer.far = &far_cuda_0;
    for (unsigned at = 0; at < 3; at++)
        f->rollouts[at].far = &far_hip_0;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_publish(f, 20);
    fleet_publish(f, 1);
    fleet_catch_up(f, 0);
    assert_int_equal(fleet_line(f, "a").snapshot_bytes, 0);
    fleet_join(f, 1, FLEET_OTHER);
    fleet_catch_up(f, 1);
    assert_true(fleet_line(f, "b").snapshot_bytes >= f->bytes);
    join_flipped(f, 2);
    fleet_catch_up(f, 2);
    assert_int_equal(fleet_line(f, "c").snapshot_bytes, 0);
    fleet_publish(f, 5);
    for (unsigned at = 0; at < 3; at++) {
        fleet_catch_up(f, at);
        assert_int_equal(weft_scrub(f->rollouts[at].session), WEFT_OK);
    }
    far_fleet_close(f);
}

/* Left to weft, the shadow lies on the device where half of the free memory is enough for it. */
static void shadow_where_it_fits(void **state)
{
    (void)state;
    static const char *const overrides[] = {"trainer.backend=cuda", "peers.backend=host", "peers.provider=tcp",
                                            "peers.address=127.0.0.1", NULL};
    for (int full = 0; full < 2; full++) {
        fleet *f = far_fleet_open(FLEET_SMALL, overrides);
        const uint64_t batches = weft_backend_cuda.device_bytes;
        const uint64_t filler = world[WORLD_CUDA].options.memory_bytes - batches - 3 * f->bytes / 2 - 4096;
        const uint64_t others = full ? world[WORLD_CUDA].fake->take(0, filler) : 0;
        assert_true(!full || others);
        f->trainer.far = &far_cuda_0;
        fleet_start_trainer(f, NULL);
        assert_int_equal(f->trainer.session->trainer->publisher.shadow.kind,
                         full ? WEFT_MEMORY_HOST : WEFT_MEMORY_DEVICE);
        fleet_join(f, 0, FLEET_OTHER);
        fleet_publish(f, 20);
        fleet_catch_up(f, 0);
        assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
        if (full)
            world[WORLD_CUDA].fake->give(others);
        far_fleet_close(f);
    }
}

/* More runs are under way than slabs have room for, so frames that were lent are taken back into the sinks. */
static void frames_are_taken_back(void **state)
{
    (void)state;
    static const char *const overrides[] = {"trainer.backend=cuda", "peers.backend=host",      "peers.provider=tcp",
                                            "peers.level=fast",     "peers.address=127.0.0.1", NULL};
    fleet *f = far_fleet_open(FLEET_TILES, overrides);
    f->trainer.far = &far_cuda_0;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    for (uint32_t most = 1; most < 4; most++) {
        ((weft_gpu *)(void *)f->trainer.session->device)->jobs_most = most;
        assert_true(f->layout->unit_count > WEFT_GPU_SLABS_OF_THREAD * most);
        fleet_publish(f, 20);
        fleet_publish(f, 0);
        fleet_catch_up(f, 0);
        assert_int_equal(weft_scrub(f->rollouts[0].session), WEFT_OK);
    }
    far_fleet_close(f);
}

/* ---- what is refused, and what ends a session */

static void bind_refused(fleet *f, const char *text)
{
    const fleet_model *model = &f->rollouts[0].model;
    assert_int_equal(weft_bind(f->rollouts[0].session, model->pieces, model->piece_count, NULL, 0, 0), WEFT_E_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), text));
}

static void pointer_elsewhere(void **state)
{
    (void)state;
    static const char *const overrides[] = {"trainer.backend=host", "peers.backend=hip", NULL};
    fleet *f = far_fleet_open(FLEET_SMALL, overrides);
    fleet_start_trainer(f, NULL);
    fleet_open_rollout(f, 0, NULL);
    fleet_model_open(&f->rollouts[0].model, f->layout, 0);
    bind_refused(f, "host memory");
    fleet_model_close(&f->rollouts[0].model);
    fleet_model_open_far(&f->rollouts[0].model, f->layout, 0, &far_hip_1);
    bind_refused(f, "device 1, not on 0");
    far_fleet_close(f);
}

/* No device is current, and the site names none: weights on device 1 are bound if the program says so. */
static void the_program_names_the_device(void **state)
{
    static const char *const overrides[] = {"trainer.backend=cuda", "peers.backend=hip", NULL};
    static const uint64_t shape = 1000;
    fleet *f = far_fleet_open(FLEET_SMALL, overrides);
    weft_site *site = fleet_site(f, NULL);
    weft_layout *layout;
    (void)state;
    assert_int_equal(weft_layout_create(&(weft_tensor){"w", WEFT_U8, 1, &shape}, 1, &layout), WEFT_OK);
    for (int v = 0; v < WORLD_VENDORS; v++) {
        const weft_fake_control *fake = world[v].fake;
        const uint64_t there = fake->take(1, shape);
        fake->choose(-1);
        for (uint32_t named = 0; named < 2; named++) {
            const weft_options options = {.size = sizeof options, .device = named ? 2 : 0};
            weft_session *session;
            assert_int_equal(v == WORLD_CUDA ? weft_trainer_open(site, layout, &options, &session)
                                             : weft_rollout_open(site, "a", layout, &options, &session),
                             WEFT_OK);
            const weft_piece piece = {0, 0, shape, (void *)(uintptr_t)there};
            assert_int_equal(weft_bind(session, &piece, 1, NULL, 0, 0) == WEFT_OK, named);
            weft_close(session);
        }
        fake->give(there);
    }
    weft_layout_free(layout);
    weft_site_free(site);
    far_fleet_close(f);
}

/* More pieces than a batch has room for are refused at bind. */
static void pieces_too_many(void **state)
{
    (void)state;
    enum { COUNT = 700000 };
    static const char *const overrides[] = {"trainer.backend=cuda", NULL};
    const uint64_t shape = COUNT;
    const weft_tensor tensor = {"scattered", WEFT_U8, 1, &shape};
    fleet *f = far_fleet_open(FLEET_SMALL, overrides);
    weft_layout *layout;
    weft_session *session;
    weft_site *site = fleet_site(f, NULL);
    weft_piece *pieces = test_malloc(COUNT * sizeof *pieces);
    uint8_t *memory = far_cuda_0.take(2 * COUNT);
    for (uint64_t i = 0; i < COUNT; i++)
        pieces[i] = (weft_piece){0, i, 1, memory + 2 * i};
    assert_int_equal(weft_layout_create(&tensor, 1, &layout), WEFT_OK);
    assert_int_equal(weft_trainer_open(site, layout, NULL, &session), WEFT_OK);
    assert_int_equal(weft_bind(session, pieces, COUNT, NULL, 0, 0), WEFT_E_LAYOUT);
    assert_non_null(strstr(weft_last_error(), "scattered"));
    assert_non_null(strstr(weft_last_error(), "700000 pieces"));
    weft_close(session);
    weft_layout_free(layout);
    weft_site_free(site);
    test_free(pieces);
    far_cuda_0.give(memory);
    far_fleet_close(f);
}

/* A fault on a rollout's device ends that session with a device error; the trainer and the other rollout go on. */
static void rollout_faults(void **state)
{
    (void)state;
    static const char *const overrides[] = {"trainer.backend=host", "peer.a.backend=hip", "peer.b.backend=cuda", NULL};
    fleet *f = far_fleet_open(FLEET_SMALL, overrides);
    f->rollouts[0].far = &far_hip_0;
    f->rollouts[1].far = &far_cuda_0;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    world[WORLD_HIP].fake->spoil("hipEventQuery", 1, 719, true);
    fleet_publish(f, 100);
    uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    while (fleet_commit(f, 0, 50) != WEFT_E_DEVICE)
        assert_true(fleet_now_ms() < end);
    assert_non_null(strstr(weft_last_error(), "a kernel failed"));
    fleet_catch_up(f, 1);
    weft_close(f->rollouts[0].session);
    f->rollouts[0].session = NULL;
    f->rollouts[0].model.bound = NULL; /* gone with the device */
    world_reset(&world[WORLD_HIP], 1);
    fleet_publish(f, 100);
    fleet_catch_up(f, 1);
    far_fleet_close(f);
}

/* The same at the trainer: publish says so, and the host's rollout keeps what it holds. */
static void trainer_faults(void **state)
{
    (void)state;
    static const char *const overrides[] = {"trainer.backend=cuda", "peers.backend=host", NULL};
    fleet *f = far_fleet_open(FLEET_SMALL, overrides);
    f->trainer.far = &far_cuda_0;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_OTHER);
    fleet_catch_up(f, 0);
    world[WORLD_CUDA].fake->spoil("cuLaunchKernel", 2, 700, true);
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, NULL), WEFT_E_DEVICE);
    assert_non_null(strstr(weft_last_error(), "illegal address"));
    assert_int_equal(weft_publish(f->trainer.session, f->newest + 1, NULL, NULL, NULL), WEFT_E_DEVICE);
    fleet_check(f, 0);
    weft_close(f->trainer.session);
    f->trainer.session = NULL;
    f->trainer.model.bound = NULL;
    world_reset(&world[WORLD_CUDA], 1);
    fleet_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_to_hip),
        cmocka_unit_test(cuda_to_host),
        cmocka_unit_test(cuda_to_hip),
        cmocka_unit_test(rollout_faults),
        cmocka_unit_test(trainer_faults),
        cmocka_unit_test(pointer_elsewhere),
        cmocka_unit_test(the_program_names_the_device),
        cmocka_unit_test(pieces_too_many),
        cmocka_unit_test(shadow_on_device),
        cmocka_unit_test(shadow_where_it_fits),
        cmocka_unit_test(frames_are_taken_back),
    };
    cmocka_set_test_filter(getenv("WEFT_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

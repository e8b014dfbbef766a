/* A mixed fleet: the trainer on one vendor's device, rollouts on the other's, on a second device, and on the host with
 * its AVX-512 and its plain loops, over tcp and shm. They come, go, die and lose their connection by a seed (WEFT_SEED)
 * while versions are published. All get the same bits.
 *
 * WEFT_FULL=1 has a larger model and longer runs. */
#include "tests/support/fleet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "rollout/rollout.h"
#include "tests/fake_gpu/avx512.h"
#include "tests/fake_gpu/far.h"

enum { ROLLOUTS = 5, ROUNDS_MOST = 400 };

typedef enum happening { JOINS, LEAVES, DIES, IS_CUT_OFF, STAYS, HAPPENINGS } happening;

/* Until the trainer serves it: what was cut off before may be dialing yet. */
static void wait_joined(fleet *f, unsigned at)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    weft_peer_info info = {0};
    while (!fleet_peer(f, f->rollouts[at].name, &info) ||
           (info.state != WEFT_PEER_CATCHING_UP && info.state != WEFT_PEER_LIVE)) {
        assert_true(fleet_now_ms() < end);
        fleet_sleep_ms(2);
    }
}

/* Before an end of shm goes: within one process libfabric reaches a peer's segment through the peer's own mapping,
 * which closing takes away under a write. So nothing may be under way. Over tcp it may, and is. */
static void let_arrive(fleet *f, unsigned at)
{
    const char *const name = f->rollouts[at].name;
    wait_joined(f, at);
    fleet_catch_up(f, at);
    assert_int_equal(weft_wait(f->trainer.session, f->newest, &name, 1, FLEET_WAIT_MS), WEFT_OK);
}

/* The rollout's connection breaks; what it says from here on finds no way out. */
static void cut(fleet *f, unsigned at)
{
    weft_session *session = f->rollouts[at].session;
    weft_log_sink *before = weft_session_enter(session);
    if (session->rollout->joining.control.fd >= 0)
        shutdown(session->rollout->joining.control.fd, SHUT_RDWR);
    weft_session_leave(session, before);
}

/* It is gone without a goodbye, or has to join again: the trainer counts it as lost. */
static void lose(fleet *f, unsigned at, bool shm, bool dies)
{
    wait_joined(f, at);
    if (shm)
        let_arrive(f, at);
    cut(f, at);
    if (dies)
        fleet_leave(f, at);
    assert_true(fleet_event(f->trainer.session, WEFT_EVENT_LOST, f->rollouts[at].name, FLEET_WAIT_MS, NULL));
}

/* Draws the event of a rollout in a round. */
static happening draw(const fleet *f, unsigned at, uint64_t *seed)
{
    return f->rollouts[at].session ? LEAVES + (happening)fleet_below(seed, HAPPENINGS - LEAVES) : JOINS;
}

/* A version is published and one rollout changes; it dies or is cut off while the version is on its way (over tcp). */
static happening play_round(fleet *f, unsigned at, bool shm, uint64_t *seed)
{
    static const fleet_start starts[] = {FLEET_SAME, FLEET_OTHER, FLEET_EMPTY};
    static const uint32_t densities[] = {1, 10, 100, 1000};
    const happening what = draw(f, at, seed);
    if (what == JOINS)
        fleet_join(f, at, starts[fleet_below(seed, 3)]);
    if (what == LEAVES && shm)
        let_arrive(f, at);
    if (what == LEAVES)
        fleet_leave(f, at);
    fleet_publish(f, densities[fleet_below(seed, 4)]);
    if (what == DIES || what == IS_CUT_OFF)
        lose(f, at, shm, what == DIES);
    for (unsigned i = 0; i < ROLLOUTS; i++) {
        if (f->rollouts[i].session)
            fleet_commit(f, i, 20);
    }
    return what;
}

/* Counts of events of rollouts over each provider. */
typedef struct tally {
    unsigned times[2][HAPPENINGS]; /* over tcp; over shm */
} tally;

static bool all_seen(const tally *seen)
{
    bool all = true;
    for (int h = 0; h < STAYS; h++)
        all = all && seen->times[0][h] > 0 && seen->times[1][h] > 0;
    return all;
}

/* At least so many rounds, and until all has happened over either provider. */
static void play(fleet *f, const bool shm[ROLLOUTS], uint64_t *seed, unsigned rounds)
{
    tally seen = {{{0}}};
    unsigned lost = 0;
    for (unsigned round = 0; round < rounds || !all_seen(&seen); round++) {
        const unsigned at = (unsigned)fleet_below(seed, ROLLOUTS);
        const happening what = play_round(f, at, shm[at], seed);
        seen.times[shm[at]][what]++;
        lost += what == DIES || what == IS_CUT_OFF;
        assert_true(round < ROUNDS_MOST);
    }
    for (int s = 0; s < 2; s++)
        print_message("over %s: %u joined, %u left, %u died, %u were cut off\n", s ? "shm" : "tcp",
                      seen.times[s][JOINS], seen.times[s][LEAVES], seen.times[s][DIES], seen.times[s][IS_CUT_OFF]);
    assert_true(fleet_stats(f->trainer.session).peers_lost >= lost);
}

static void all_hold_the_newest(fleet *f, const bool shm[ROLLOUTS], avx512_way way)
{
    static const char *const backends[ROLLOUTS] = {"hip/", "host/avx512", "host/portable", "cuda/", "cuda/"};
    for (unsigned i = 0; i < ROLLOUTS; i++) {
        if (!f->rollouts[i].session)
            fleet_join(f, i, FLEET_OTHER);
    }
    fleet_recover(f, ROLLOUTS);
    for (unsigned i = 0; i < ROLLOUTS; i++) {
        const weft_stats_info stats = fleet_stats(f->rollouts[i].session);
        const char *wanted = i == 1 && way == AVX512_NONE ? "host/" : backends[i];
        assert_int_equal(strncmp(stats.backend, wanted, strlen(wanted)), 0);
        assert_string_equal(stats.provider, shm[i] ? "shm" : "tcp");
        assert_int_equal(weft_scrub(f->rollouts[i].session), WEFT_OK);
        fleet_check_bytes(f, i, f->dense);
    }
}

/* Rollouts a, b, c, x1 and x2; x1 and x2 are over the same provider. */
static void mixed_fleet(const bool shm[ROLLOUTS], uint64_t seed)
{
    static const char *const ways[] = {"not to be had here: b takes what is", "by the CPU", "through SIMDe"};
    static const fleet_far *const fars[ROLLOUTS] = {&far_hip_0, NULL, NULL, &far_cuda_1, &far_cuda_1};
    const avx512_way way = avx512_lend();
    const char *overrides[] = {"trainer.backend=cuda",
                               "peer.a.backend=hip",
                               "peer.a.level=tight",
                               "peer.b.backend=host",
                               way == AVX512_NONE ? "peer.b.kernels=auto" : "peer.b.kernels=avx512",
                               "peer.c.backend=host",
                               "peer.c.kernels=portable",
                               "peer.x*.backend=cuda",
                               "peer.x*.device=1",
                               shm[0] ? "peer.a.provider=shm" : "peer.a.provider=tcp",
                               shm[1] ? "peer.b.provider=shm" : "peer.b.provider=tcp",
                               shm[2] ? "peer.c.provider=shm" : "peer.c.provider=tcp",
                               shm[3] ? "peer.x*.provider=shm" : "peer.x*.provider=tcp",
                               "peers.address=127.0.0.1",
                               NULL};
    fleet *f = far_fleet_open(getenv("WEFT_FULL") ? FLEET_TILES : FLEET_SMALL, overrides);
    print_message("seed %llu, AVX-512 %s\n", (unsigned long long)seed, ways[way]);
    f->trainer.far = &far_cuda_0;
    for (unsigned i = 0; i < ROLLOUTS; i++)
        f->rollouts[i].far = fars[i];
    fleet_start_trainer(f, NULL);
    play(f, shm, &seed, getenv("WEFT_FULL") ? 60 : 10);
    all_hold_the_newest(f, shm, way);
    far_fleet_close(f);
    avx512_take_back();
}

/* The usual ones have all of it in a few rounds. */
static uint64_t seed_of(uint64_t usual)
{
    const char *seed = getenv("WEFT_SEED");
    return seed ? strtoull(seed, NULL, 0) : usual;
}

static void avx512_over_shm(void **state)
{
    static const bool shm[ROLLOUTS] = {false, true, false, true, true};
    (void)state;
    mixed_fleet(shm, seed_of(286));
}

static void avx512_over_tcp(void **state)
{
    static const bool shm[ROLLOUTS] = {true, false, true, false, false};
    (void)state;
    mixed_fleet(shm, seed_of(37));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(avx512_over_shm), cmocka_unit_test(avx512_over_tcp)};
    cmocka_set_test_filter(getenv("WEFT_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

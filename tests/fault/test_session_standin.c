/* Whole sessions over the stand-ins of providers that this host has no device for, and over its real ones: join,
 * snapshot, updates, a peer that leaves and comes back, a trainer that starts anew. The short tier plays the two whose
 * rules differ most from tcp's, WEFT_FULL=1 every profile. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fabric_ends.h"
#include "tests/support/fleet.h"
#include "tests/support/port.h"
#include "tests/support/standin.h"

typedef struct tier {
    const char *provider;
    bool short_tier;
} tier;

#ifdef __SANITIZE_THREAD__ /* fifty times slower: the one with more rules */
#define VERBS_SHORT false
#else
#define VERBS_SHORT true
#endif

static const tier plays[] = {{"verbs", VERBS_SHORT}, {"efa", true},  {"efa-direct", false}, {"tcp", false},
                             {"tcp-rxm", false},     {"shm", false}, {"stream", true}};

static const char *current;

/* As each provider calls it: an interface, a device, an IP. */
static const char *own_address(void)
{
    if (strncmp(current, "efa", 3) == 0)
        return "rdmap0s6";
    return strcmp(current, "verbs") == 0 ? "lo" : "127.0.0.1";
}

/* One chunk of 16 KiB: even small updates are several writes. */
static int open_at(void **state, const char *local)
{
    static char provider[64], chunk[64], address[64], peers[64];
    snprintf(provider, sizeof provider, "peers.provider=%s", current);
    snprintf(chunk, sizeof chunk, "provider.%s.chunk=16KiB", current);
    snprintf(address, sizeof address, "provider.%s.address=%s", current, local);
    snprintf(peers, sizeof peers, "peers.address=%s", local);
    const char *const overrides[] = {provider, chunk, address, peers, "session.io_deadline=3s", "peers.heartbeat=5s",
                                     NULL};
    standin_use(current);
    *state = fleet_open(FLEET_TILES, overrides);
    return 0;
}

static int setup(void **state)
{
    return open_at(state, own_address());
}

/* To providers with devices an IP says no more than "this host": both rails have one device, each its own domain. */
static int setup_rails(void **state)
{
    return open_at(state, "127.0.0.1, 127.0.0.2");
}

static void publish_and_hold(fleet *f, unsigned count, uint32_t per_mille)
{
    fleet_publish(f, per_mille);
    for (unsigned at = 0; at < count; at++)
        fleet_catch_up(f, at);
}

static void updates_of_all_sizes(void **state)
{
    static const uint32_t per_mille[] = {10, 300, 0, 1000, 1, 100};
    fleet *f = *state;
    weft_peer_info info = {0};
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    assert_true(fleet_peer(f, "a", &info));
    assert_string_equal(info.provider, current);
    for (size_t i = 0; i < sizeof per_mille / sizeof *per_mille; i++)
        publish_and_hold(f, 2, per_mille[i]);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
    assert_int_equal(fleet_stats(f->rollouts[0].session).check_failures, 0);
}

/* Chunks of a bucket by both, each with the provider's own disorder, and what comes over either counts once. */
static void two_rails_carry(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_EMPTY);
    fleet_catch_up(f, 1);
    publish_and_hold(f, 1, 300); /* both are listed */
    for (int left = 50; fleet_line(f, "a").rails[0].bytes == 0 || fleet_line(f, "a").rails[1].bytes == 0; left--) {
        assert_true(left > 0);
        publish_and_hold(f, 2, 300);
        fleet_check_bytes(f, 0, f->dense);
        fleet_check_bytes(f, 1, f->dense);
    }
    assert_int_equal(fleet_line(f, "a").rail_count, 2);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

static void snapshots_and_repairs(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_EMPTY);
    fleet_join(f, 1, FLEET_OTHER);
    fleet_catch_up(f, 0);
    fleet_catch_up(f, 1);
    publish_and_hold(f, 2, 200);
    assert_int_equal(fleet_stats(f->trainer.session).peers_lost, 0);
}

/* Endpoints and registrations come and go; with keys of the provider's, the new ones are the old ones. */
static void a_peer_comes_and_goes(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    for (int i = 0; i < 3; i++) {
        fleet_join(f, 1, i % 2 ? FLEET_SAME : FLEET_OTHER);
        publish_and_hold(f, 2, 300);
        fleet_publish(f, 500); /* under way when it leaves */
        fleet_leave(f, 1);
        fleet_catch_up(f, 0);
    }
    publish_and_hold(f, 1, 100);
}

static void the_trainer_starts_anew(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_catch_up(f, 0);
    publish_and_hold(f, 1, 100);
    fleet_publish(f, 400);
    fleet_stop_trainer(f);
    fleet_start_trainer(f, NULL);
    fleet_publish(f, 10);
    fleet_catch_up(f, 0);
}

/* A process of its own, forked before any session is open: rollout b, which takes what comes until it is killed. */
typedef struct victim {
    pid_t pid;
    int to; /* it waits there for where the trainer listens */
} victim;

static void live_and_take(fleet *f)
{
    weft_staged_info staged = {.size = sizeof staged};
    weft_version held;
    fleet_open_rollout(f, 1, NULL);
    fleet_bind_rollout(f, 1, FLEET_SAME, NULL);
    for (;;)
        if (weft_staged(f->rollouts[1].session, 20, &staged) == WEFT_OK)
            weft_commit(f->rollouts[1].session, staged.target.number, NULL, 0, &held);
}

static victim fork_victim(fleet *f)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    victim v = {.pid = fork(), .to = pipes[1]};
    assert_true(v.pid >= 0);
    if (v.pid == 0) {
        alarm(300);
        close(pipes[1]);
        if (read(pipes[0], f->listen, sizeof f->listen) == (ssize_t)sizeof f->listen)
            live_and_take(f);
        _exit(1);
    }
    close(pipes[0]);
    return v;
}

static void release(const fleet *f, const victim *v)
{
    assert_int_equal(write(v->to, f->listen, sizeof f->listen), sizeof f->listen);
    close(v->to);
}

static void kill_victim(const victim *v)
{
    int status;
    assert_int_equal(kill(v->pid, SIGKILL), 0);
    assert_int_equal(waitpid(v->pid, &status, 0), v->pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* With writes under way to it, which then fail late, or never end: the other goes on, and its place is free again. */
static void a_peer_is_killed(void **state)
{
    fleet *f = *state;
    victim b = fork_victim(f);
    fleet_start_trainer(f, NULL);
    release(f, &b);
    fleet_join(f, 0, FLEET_SAME);
    fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
    fleet_publish(f, 1000);
    kill_victim(&b);
    for (int i = 0; i < 4; i++)
        publish_and_hold(f, 1, 300);
    fleet_wait_state(f, "b", WEFT_PEER_LOST, FLEET_WAIT_MS);
    fleet_join(f, 1, FLEET_OTHER);
    publish_and_hold(f, 2, 300);
}

/* One trainer, peers by two providers, each with an address of its own: a by an interface's name, b by the host that
 * the trainer listens at. */
static const char *const mixed[] = {"peer.a.provider=verbs",  "peer.a.address=lo",         "provider.verbs.address=lo",
                                    "peer.b.provider=tcp",    "peer.c.provider=tcp",       "peer.c.via=b",
                                    "session.io_deadline=3s", "peer.b.relay_memory=64MiB", NULL};

static int setup_mixed(void **state)
{
    static char relay[64];
    const char *overrides[16] = {relay};
    snprintf(relay, sizeof relay, "peer.b.relay=127.0.0.1:%u", port_free());
    memcpy(overrides + 1, mixed, sizeof mixed);
    standin_use("verbs");
    *state = fleet_open(FLEET_TILES, overrides);
    return 0;
}

static void each_provider_has_its_address(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    fleet_join(f, 0, FLEET_SAME);
    fleet_join(f, 1, FLEET_SAME);
    publish_and_hold(f, 2, 300);
    assert_string_equal(fleet_line(f, "a").provider, "verbs");
    assert_string_equal(fleet_line(f, "a").rails[0].address, "lo");
    assert_string_equal(fleet_line(f, "b").provider, "tcp");
    assert_string_equal(fleet_line(f, "b").rails[0].address, "127.0.0.1");
}

/* A relay whose host lacks the provider's address leaves its rollouts to the next that they may join. */
static void a_relay_sends_from_the_provider_s_address(void **state)
{
    static const char *const addresses[] = {"provider.tcp.address=127.0.0.1", "provider.tcp.address=nowhere0"};
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    for (int i = 0; i < 2; i++) {
        fleet_open_rollout(f, 1, addresses[i]);
        fleet_bind_rollout(f, 1, FLEET_SAME, NULL);
        fleet_wait_state(f, "b", WEFT_PEER_LIVE, FLEET_WAIT_MS);
        fleet_join(f, 2, FLEET_SAME);
        fleet_wait_state(f, "c", WEFT_PEER_LIVE, FLEET_WAIT_MS);
        assert_string_equal(fleet_line(f, "c").via, i ? "" : "b");
        fleet_leave(f, 2);
        fleet_leave(f, 1);
    }
}

/* Checks that the stand-in's rules took effect, because otherwise these tests are tests of tcp. */
static void check_rules(const char *provider, const standin_counts *before)
{
    standin_counts counts = standin_counted();
    counts.refused -= before->refused;
    counts.overtaken -= before->overtaken;
    counts.withheld -= before->withheld;
    counts.stalled -= before->stalled;
    for (size_t i = 0; standin_at(i); i++) {
        const standin_rules *rules = standin_at(i);
        if (strcmp(rules->play ? rules->play : rules->provider, provider) != 0)
            continue;
        printf("stand-in of %s: %llu posts refused, %llu writes overtaken, %llu completions withheld, %llu stalls\n",
               provider, (unsigned long long)counts.refused, (unsigned long long)counts.overtaken,
               (unsigned long long)counts.withheld, (unsigned long long)counts.stalled);
        if ((rules->again_every && !counts.refused) || (rules->window && !counts.overtaken) ||
            (rules->stall_every && !counts.stalled)) {
            fprintf(stderr, "the stand-in of %s imposed nothing\n", provider);
            exit(1);
        }
    }
}

static bool can_be_had(const char *name)
{
    const weft_provider *provider = weft_provider_find(name);
    weft_provider_info list[16];
    standin_use(name);
    bool had = provider && provider->probe(list, 16) > 0 && list[0].usable;
    if (!had && fabric_is_sure(name)) {
        fprintf(stderr, "FAIL: provider %s must be usable here\n", name);
        exit(1);
    }
    return had;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fleet_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(updates_of_all_sizes), TEST(snapshots_and_repairs),
                                       TEST(a_peer_comes_and_goes), TEST(the_trainer_starts_anew),
                                       TEST(a_peer_is_killed)};
    const struct CMUnitTest rails_tests[] = {
        cmocka_unit_test_setup_teardown(two_rails_carry, setup_rails, fleet_teardown),
        cmocka_unit_test_setup_teardown(a_peer_comes_and_goes, setup_rails, fleet_teardown)};
    const struct CMUnitTest mixed_tests[] = {
        cmocka_unit_test_setup_teardown(each_provider_has_its_address, setup_mixed, fleet_teardown),
        cmocka_unit_test_setup_teardown(a_relay_sends_from_the_provider_s_address, setup_mixed, fleet_teardown)};
    int failed = 0, groups = 0;
    const char *only = getenv("WEFT_TEST_PROVIDER");
    for (size_t i = 0; i < sizeof plays / sizeof *plays; i++) {
        current = plays[i].provider;
        if (only ? strcmp(only, current) != 0 : !plays[i].short_tier && !getenv("WEFT_FULL"))
            continue;
        if (!can_be_had(current)) {
            printf("skipped: provider %s cannot be had here\n", current);
            continue;
        }
        printf("provider %s\n", current);
        const standin_counts before = standin_counted();
        failed += cmocka_run_group_tests(tests, NULL, NULL);
        check_rules(current, &before);
        if (getenv("WEFT_FULL") && strcmp(current, "shm") != 0) /* a host's memory is one rail */
            failed += cmocka_run_group_tests(rails_tests, NULL, NULL);
        groups++;
    }
    if (!only && can_be_had("tcp") && can_be_had("verbs"))
        failed += cmocka_run_group_tests(mixed_tests, NULL, NULL);
    return groups ? failed : 77;
}

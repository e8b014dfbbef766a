/* The site file: what it gives, with what defaults, how that is printed, and what is asked wrongly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "site/site_link.h"
#include "tests/support/site_load.h"

static void an_empty_file_is_all_defaults(void **state)
{
    (void)state;
    weft_site *site = load("");
    assert_string_equal(site->path, scratch.path);
    assert_string_equal(site->name, "weft");
    assert_string_equal(site->trainer.listen, "127.0.0.1:7117");
    assert_string_equal(site->trainer.address, "");
    assert_string_equal(site->trainer.store, "");
    assert_string_equal(site->trainer.backend, "auto");
    assert_string_equal(site->trainer.kernels, "auto");
    assert_int_equal(site->trainer.device, -1);
    assert_int_equal(site->trainer.journal, 0); /* auto */
    assert_int_equal(site->trainer.max_peers, 64);
    assert_int_equal(site->trainer.join_deadline_ms, 30000);
    assert_int_equal(site->session.progress, WEFT_PROGRESS_THREAD);
    assert_int_equal(site->session.connect_deadline_ms, 30000);
    assert_int_equal(site->session.close_deadline_ms, 2000);
    assert_int_equal(site->session.io_deadline_ms, 10000);
    assert_int_equal(site->commit.snapshot, WEFT_SNAPSHOT_IN_PLACE);
    assert_int_equal(site->commit.deadline_ms, 30000);
    assert_int_equal(site->security, WEFT_SECURITY_LOOPBACK);
    assert_int_equal(site->log_level, WEFT_LOG_INFO);
    assert_int_equal(site->peer_count, 0);
    assert_int_equal(site->provider_count, 8);
    assert_int_equal(weft_site_provider_of(site, "efa")->chunk, 0);
    assert_int_equal(weft_site_provider_of(site, "efa")->depth, 0);
    assert_null(weft_site_provider_of(site, "auto"));
    weft_site_free(site);
}

/* The lowest one that is free. */
static int next_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static void no_descriptor_stays_open(void **state)
{
    (void)state;
    const int before = next_descriptor();
    weft_site_free(load("[peer.a]\n"));
    assert_int_equal(next_descriptor(), before);
}

static void a_peer_without_keys_has_the_defaults(void **state)
{
    (void)state;
    weft_site *site = load("[peer.a]\n");
    const weft_site_peer *a = &site->peers[0];
    assert_int_equal(site->peer_count, 1);
    assert_string_equal(a->name, "a");
    assert_string_equal(a->address, "");
    assert_string_equal(a->provider, "tcp");
    assert_string_equal(a->backend, "auto");
    assert_string_equal(a->kernels, "auto");
    assert_int_equal(a->device, -1);
    assert_int_equal(a->bucket, 0);
    assert_int_equal(a->bucket_min, 64 << 10);
    assert_int_equal(a->bucket_max, 0); /* auto */
    assert_int_equal(a->window, 4);
    assert_int_equal(a->staging, 0); /* auto */
    assert_int_equal(a->level, WEFT_CHOICE_AUTO);
    assert_int_equal(a->snapshot_coding, WEFT_CODING_AUTO);
    assert_int_equal(a->rate_limit, 0);
    assert_int_equal(a->heartbeat_ms, 5000);
    assert_string_equal(a->via, "trainer");
    assert_int_equal(a->last_resort, WEFT_LAST_TRAINER);
    assert_string_equal(a->relay, "");
    assert_int_equal(a->relay_memory, 256 << 20);
    weft_site_free(site);
}

static void every_key_reaches_its_field(void **state)
{
    (void)state;
    weft_site *site = load("[site]\nname = hall-1\n"
                           "[trainer]\nlisten = [::1]:0\naddress = eth0\nstore = \"m; 1.safetensors\"\nbackend = host\n"
                           "kernels = portable\ndevice = 3\njournal = 1GiB\nmax_peers = 7\njoin_deadline = 1s\n"
                           "[peer.a]\naddress = 10.0.0.7\nprovider = tcp-rxm\nbackend = cuda\nkernels = avx512\n"
                           "device = 0\nbucket = 1MiB\nbucket_min = 128KiB\nbucket_max = 2MiB\nwindow = 256\n"
                           "staging = 64MiB\nlevel = fast\nsnapshot_coding = verbatim\n"
                           "rate_limit = 100Mbit/s\nheartbeat = 250ms\n"
                           "via = b , c2\nlast_resort = none\nrelay = 127.0.0.1:7200\nrelay_memory = 16MiB\n"
                           "[provider.efa]\nchunk = 256KiB\ndepth = 32\n[provider.tcp]\nports = 7200-7300\n"
                           "[session]\nprogress = manual\nconnect_deadline = 5s\nclose_deadline = 500ms\n"
                           "io_deadline = 3s\n"
                           "[source.1]\nlisten = h1:7\nholding = one.json\n[source.0]\nholding = zero.json\n"
                           "[commit]\nsnapshot = staged\ndeadline = 9s\n"
                           "[security]\nmode = open\n"
                           "[log]\nlevel = debug\n"
                           "[peer.b]\nrelay = [::1]:7201\n[peer.c2]\nrelay = localhost:7202\n");
    const weft_site_peer *a = &site->peers[0];
    char via[WEFT_SITE_VIAS][WEFT_SITE_NAME];
    assert_int_equal(weft_site_via(a, via), 2);
    assert_string_equal(via[0], "b");
    assert_string_equal(via[1], "c2");
    assert_int_equal(weft_site_via(&site->peers[1], via), 0);
    assert_int_equal(a->last_resort, WEFT_LAST_NONE);
    assert_string_equal(a->relay, "127.0.0.1:7200");
    assert_int_equal(a->relay_memory, 16 << 20);
    assert_string_equal(site->name, "hall-1");
    assert_string_equal(site->trainer.listen, "[::1]:0");
    assert_string_equal(site->trainer.address, "eth0");
    assert_string_equal(site->trainer.store, "m; 1.safetensors");
    assert_string_equal(site->trainer.backend, "host");
    assert_string_equal(site->trainer.kernels, "portable");
    assert_int_equal(site->trainer.device, 3);
    assert_int_equal(site->trainer.journal, 1 << 30);
    assert_int_equal(site->trainer.max_peers, 7);
    assert_int_equal(site->trainer.join_deadline_ms, 1000);
    assert_string_equal(a->address, "10.0.0.7");
    assert_string_equal(a->provider, "tcp-rxm");
    assert_string_equal(a->backend, "cuda");
    assert_string_equal(a->kernels, "avx512");
    assert_int_equal(a->device, 0);
    assert_int_equal(a->bucket, 1 << 20);
    assert_int_equal(a->bucket_min, 128 << 10);
    assert_int_equal(a->bucket_max, 2 << 20);
    assert_int_equal(a->window, 256);
    assert_int_equal(a->staging, 64 << 20);
    assert_int_equal(a->level, WEFT_CHOICE_FAST);
    assert_int_equal(a->snapshot_coding, WEFT_CODING_VERBATIM);
    assert_int_equal(a->rate_limit, 12500000);
    assert_int_equal(a->heartbeat_ms, 250);
    assert_int_equal(weft_site_provider_of(site, "efa")->chunk, 256 << 10);
    assert_int_equal(weft_site_provider_of(site, "efa")->depth, 32);
    assert_int_equal(weft_site_provider_of(site, "tcp")->depth, 0);
    assert_string_equal(weft_site_provider_of(site, "tcp")->ports, "7200-7300");
    assert_string_equal(weft_site_provider_of(site, "efa")->ports, "auto");
    assert_int_equal(site->session.progress, WEFT_PROGRESS_MANUAL);
    assert_int_equal(site->session.connect_deadline_ms, 5000);
    assert_int_equal(site->session.close_deadline_ms, 500);
    assert_int_equal(site->session.io_deadline_ms, 3000);
    assert_int_equal(site->commit.snapshot, WEFT_SNAPSHOT_STAGED);
    assert_int_equal(site->commit.deadline_ms, 9000);
    assert_int_equal(site->security, WEFT_SECURITY_OPEN);
    assert_int_equal(site->log_level, WEFT_LOG_DEBUG);
    assert_int_equal(site->source_count, 2);
    assert_string_equal(site->sources[0].holding, "zero.json");
    assert_string_equal(site->sources[1].holding, "one.json");
    assert_string_equal(weft_site_source_listen(site, 0), "[::1]:0"); /* the trainer's */
    assert_string_equal(weft_site_source_listen(site, 1), "h1:7");
    assert_string_equal(a->listen, "[::1]:0");
    weft_site_free(site);
}

static void values_are_printed_in_their_unit(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        const char *given;
        const char *printed;
    } cases[] = {
        {"peer.bucket_max", "8MiB", "8MiB"},
        {"peer.bucket_max", "8192 KiB", "8MiB"},
        {"peer.bucket_max", "1536KiB", "1536KiB"},
        {"peer.bucket_max", "1GiB", "1GiB"},
        {"peer.heartbeat", "2s", "2s"},
        {"peer.heartbeat", "2000ms", "2s"},
        {"peer.heartbeat", "1500 ms", "1500ms"},
        {"peer.rate_limit", "100Mbit/s", "100Mbit/s"},
        {"peer.rate_limit", "25Gbit/s", "25Gbit/s"},
        {"peer.rate_limit", "2500Mbit/s", "2500Mbit/s"},
        {"peer.rate_limit", "1MB/s", "8Mbit/s"},
        {"peer.rate_limit", "2GB/s", "16Gbit/s"},
        {"peer.rate_limit", "none", "none"},
        {"peer.bucket", "auto", "auto"},
        {"peer.bucket_max", "auto", "auto"},
        {"peer.staging", "auto", "auto"},
        {"peer.staging", "620MiB", "620MiB"},
        {"trainer.journal", "auto", "auto"},
        {"peer.device", "current", "current"},
        {"peer.device", "255", "255"},
        {"peer.window", "008", "8"},
        {"peer.level", "pairs", "pairs"},
        {"peer.snapshot_coding", "planes", "planes"},
        {"peer.provider", "verbs", "verbs"},
        {"peer.address", "fe80::1%eth0", "fe80::1%eth0"},
        {"provider.shm.depth", "65536", "65536"},
        {"trainer.listen", "localhost:1", "localhost:1"},
        {"trainer.listen", "127.9.9.9:65535", "127.9.9.9:65535"},
        {"commit.snapshot", "staged", "staged"},
        {"log.level", "error", "error"},
        {"trainer.store", "", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char override[128];
        const char *list = override;
        bool of_peer = !strncmp(cases[i].key, "peer.", 5);
        snprintf(override, sizeof(override), "%s%s=%s", of_peer ? "peer.a." : "", cases[i].key + (of_peer ? 5 : 0),
                 cases[i].given);
        weft_site *site = load_with("[peer.a]\n", &list, 1);
        assert_get(site, of_peer ? "a" : NULL, cases[i].key, cases[i].printed);
        weft_site_free(site);
    }
}

/* The longer name is read first, so that a shorter one cannot end where the stack happens to hold a zero. */
static void a_provider_is_named_by_its_whole_name(void **state)
{
    weft_site *site = load_with("[provider.tcp]\ndepth = 16\n[provider.tcp-rxm]\ndepth = 32\n[peer.a]\n", NULL, 0);
    (void)state;
    for (int round = 0; round < 2; round++) {
        assert_get(site, NULL, "provider.efa-direct.depth", "auto");
        assert_get(site, NULL, "provider.tcp-rxm.depth", "32");
        assert_get(site, NULL, "provider.tcp.depth", "16");
    }
    weft_site_free(site);
}

static void asking_wrongly_is_an_argument_error(void **state)
{
    (void)state;
    char text[8];
    static const struct {
        const char *peer;
        const char *key;
    } wrong[] = {{NULL, "trainer"},
                 {NULL, "trainer."},
                 {NULL, ".listen"},
                 {NULL, "trainer.liste"},
                 {NULL, "peer.window"},
                 {"x", "peer.window"},
                 {"B\n", "peer.window"},
                 {"a", "peers.window"},
                 {NULL, "provider.chunk"},
                 {NULL, "provider..chunk"},
                 {NULL, "provider.warp.chunk"},
                 {NULL, "a.b.c.d"},
                 {NULL, ""}};
    weft_site *site = load("[peer.a]\n");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        weft_status status = weft_site_get(site, wrong[i].peer, wrong[i].key, text, sizeof(text));
        if (status != WEFT_E_ARGUMENT)
            fail_msg("%s gave %d", wrong[i].key, status);
    }
    assert_int_equal(weft_site_get(site, NULL, "trainer.listen", text, sizeof(text)), WEFT_E_ARGUMENT); /* no room */
    assert_int_equal(weft_site_get(site, "a", "peer.provider", text, 4), WEFT_OK);
    assert_string_equal(text, "tcp");
    assert_int_equal(weft_site_get(site, "a", "peer.provider", text, 3), WEFT_E_ARGUMENT);
    weft_site_free(site);
}

/* Each takes a port of its own, so that port 0 is never that of two. */
static void sources_at_any_port(void **state)
{
    (void)state;
    weft_site *site = load("[trainer]\nlisten = 127.0.0.1:0\n[source.0]\n[source.1]\n[source.2]\nlisten = [::1]:0\n"
                           "[source.3]\nlisten = [::1]:0\n");
    assert_int_equal(site->source_count, 4);
    weft_site_free(site);
}

/* Where no address of the trainer's is known, its name may come to be known later. */
static void where_the_trainer_comes_from(void **state)
{
    static const struct {
        const char *text;
        bool may;
    } rows[] = {{"[trainer]\nlisten = localhost:7000\n", false},
                {"[trainer]\nlisten = 127.0.0.1:7000\n", true},
                {"[trainer]\nlisten = [::1]:7000\n", true},
                {"[trainer]\nlisten = localhost:7000\naddress = e\n", true},
                {"[trainer]\nlisten = localhost:7000\n[provider.tcp]\naddress = e\n", true},
                {"[trainer]\nlisten = localhost:7000\n[provider.efa]\naddress = e\n", false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_site *site = load(rows[i].text);
        assert_int_equal(weft_site_trainer_may_come(site, "tcp"), rows[i].may);
        weft_site_free(site);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_is_all_defaults),
        cmocka_unit_test(a_peer_without_keys_has_the_defaults),
        cmocka_unit_test(every_key_reaches_its_field),
        cmocka_unit_test(values_are_printed_in_their_unit),
        cmocka_unit_test(asking_wrongly_is_an_argument_error),
        cmocka_unit_test(a_provider_is_named_by_its_whole_name),
        cmocka_unit_test(no_descriptor_stays_open),
        cmocka_unit_test(sources_at_any_port),
        cmocka_unit_test(where_the_trainer_comes_from),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

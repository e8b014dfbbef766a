/* The site file: what it gives, how its sections rank, what overrides do, what a copy keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "site.h"
#include "tests/support/site_scratch.h"

static site_scratch scratch;

static weft_site *load_with(const char *text, const char *const *overrides, size_t count)
{
    weft_site *site = NULL;
    site_scratch_write(&scratch, text, strlen(text));
    if (weft_site_load(scratch.path, overrides, count, &site) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return site;
}

static weft_site *load(const char *text)
{
    return load_with(text, NULL, 0);
}

static void assert_get(const weft_site *site, const char *peer, const char *key, const char *expected)
{
    char text[WEFT_SITE_TEXT];
    if (weft_site_get(site, peer, key, text, sizeof(text)) != WEFT_OK)
        fail_msg("%s: %s", key, weft_last_error());
    assert_string_equal(text, expected);
}

static void an_empty_file_is_all_defaults(void **state)
{
    (void)state;
    weft_site *site = load("");
    assert_string_equal(site->path, scratch.path);
    assert_string_equal(site->name, "weft");
    assert_string_equal(site->trainer.listen, "127.0.0.1:7117");
    assert_string_equal(site->trainer.address, "");
    assert_string_equal(site->trainer.model, "");
    assert_string_equal(site->trainer.backend, "auto");
    assert_string_equal(site->trainer.kernels, "auto");
    assert_int_equal(site->trainer.device, -1);
    assert_int_equal(site->trainer.journal, 256 << 20);
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
    assert_int_equal(site->provider_count, 7);
    assert_int_equal(weft_site_provider_of(site, "efa")->chunk, 0);
    assert_int_equal(weft_site_provider_of(site, "efa")->depth, 0);
    assert_null(weft_site_provider_of(site, "auto"));
    weft_site_free(site);
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
    assert_int_equal(a->bucket_max, 4 << 20);
    assert_int_equal(a->window, 4);
    assert_int_equal(a->staging, 256 << 20);
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
                           "[trainer]\nlisten = [::1]:0\naddress = eth0\nmodel = \"m; 1.safetensors\"\nbackend = host\n"
                           "kernels = portable\ndevice = 3\njournal = 1GiB\nmax_peers = 7\njoin_deadline = 1s\n"
                           "[peer.a]\naddress = 10.0.0.7\nprovider = tcp-rxm\nbackend = cuda\nkernels = avx512\n"
                           "device = 0\nbucket = 1MiB\nbucket_min = 128KiB\nbucket_max = 2MiB\nwindow = 256\n"
                           "staging = 64MiB\nlevel = fast\nsnapshot_coding = verbatim\n"
                           "rate_limit = 100Mbit/s\nheartbeat = 250ms\n"
                           "via = b , c2\nlast_resort = none\nrelay = 127.0.0.1:7200\nrelay_memory = 16MiB\n"
                           "[provider.efa]\nchunk = 256KiB\ndepth = 32\n[provider.tcp]\nports = 7200-7300\n"
                           "[session]\nprogress = manual\nconnect_deadline = 5s\nclose_deadline = 500ms\n"
                           "io_deadline = 3s\n"
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
    assert_string_equal(site->trainer.model, "m; 1.safetensors");
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
        {"trainer.model", "", ""},
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

static const char ranked[] = "[peers]\nwindow = 10\nheartbeat = 10s\nstaging = 10MiB\nlevel = full\n"
                             "[peer.gpu-*]\nwindow = 20\nheartbeat = 20s\nstaging = 20MiB\n"
                             "[peer.gpu-big-*]\nwindow = 30\nheartbeat = 30s\n"
                             "[peer.gpu-big-1]\nwindow = 40\n"
                             "[peer.lone]\nprovider = shm\n";

static void the_nearest_section_decides(void **state)
{
    (void)state;
    weft_site *site = load(ranked);
    assert_get(site, "gpu-big-1", "peer.window", "40");
    assert_get(site, "gpu-big-1", "peer.heartbeat", "30s");
    assert_get(site, "gpu-big-1", "peer.staging", "10MiB"); /* only the longest pattern speaks */
    assert_get(site, "gpu-big-1", "peer.level", "full");
    assert_get(site, "gpu-big-2", "peer.window", "30");
    assert_get(site, "gpu-7", "peer.window", "20");
    assert_get(site, "gpu-", "peer.staging", "20MiB"); /* a prefix may be the whole name */
    assert_get(site, "lone", "peer.window", "10");
    assert_get(site, "lone", "peer.provider", "shm");
    assert_get(site, "lone", "peer.bucket", "auto");
    weft_site_free(site);
}

static void patterns_are_not_listed_and_admit_any_number(void **state)
{
    (void)state;
    const char *name;
    weft_site_peer peer;
    weft_site *site = load(ranked);
    assert_int_equal(site->peer_count, 2);
    assert_int_equal(weft_site_peer_name(site, 0, &name), WEFT_OK);
    assert_string_equal(name, "gpu-big-1");
    assert_int_equal(weft_site_peer_name(site, 1, &name), WEFT_OK);
    assert_string_equal(name, "lone");
    assert_int_equal(weft_site_peer_name(site, 2, &name), WEFT_E_ARGUMENT);
    for (int i = 0; i < 300; i++) {
        char made[WEFT_SITE_NAME];
        snprintf(made, sizeof(made), "gpu-%d", i);
        assert_int_equal(weft_site_resolve(site, made, &peer), WEFT_OK);
        assert_string_equal(peer.name, made);
        assert_int_equal(peer.window, 20);
    }
    weft_site_free(site);
}

/* A pattern's row is not that of a name which it admits and another section speaks for, whatever name that is. */
static void every_section_has_a_row(void **state)
{
    static const struct {
        const char *name;
        uint64_t window;
        bool pattern;
    } rows[] = {{"x", 64, true}, {"x0", 4, false}, {"x0", 5, true}, {"xx", 6, false}, {"x7", 7, false}};
    static const char *const overrides[] = {"peer.x7.window=7"}; /* makes a section */
    (void)state;
    bool pattern;
    weft_site_peer row;
    weft_site *site = load_with("[peers]\nwindow = 9\n[peer.x*]\nwindow = 64\n[peer.x0]\nwindow = 4\n"
                                "[peer.x0*]\nwindow = 5\n[peer.xx]\nwindow = 6\n",
                                overrides, 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_true(weft_site_row(site, i, &row, &pattern));
        assert_string_equal(row.name, rows[i].name);
        assert_int_equal(row.window, rows[i].window);
        assert_int_equal(pattern, rows[i].pattern);
    }
    assert_false(weft_site_row(site, sizeof(rows) / sizeof(rows[0]), &row, &pattern));
    assert_get(site, "x*", "peer.window", "64");
    assert_get(site, "x0*", "peer.window", "5");
    char text[64];
    assert_int_equal(weft_site_get(site, "xx*", "peer.window", text, sizeof(text)), WEFT_E_ARGUMENT);
    assert_int_equal(weft_site_get(site, "*", "peer.window", text, sizeof(text)), WEFT_E_ARGUMENT);
    assert_int_equal(weft_site_resolve(site, "x*", &row), WEFT_E_CONFIG); /* it is nobody's name */
    weft_site_free(site);
}

static void a_name_that_nothing_admits_is_refused_with_those_admitted(void **state)
{
    (void)state;
    weft_site_peer peer = {.window = 77};
    weft_site *site = load("[peer.a]\n[peer.b]\n[peer.gpu-*]\n");
    assert_int_equal(weft_site_resolve(site, "c", &peer), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "admits no peer 'c'; it admits a, b, gpu-*; add [peer.c]"));
    assert_int_equal(weft_site_resolve(site, "gpu", &peer), WEFT_E_CONFIG);
    assert_int_equal(weft_site_resolve(site, "", &peer), WEFT_E_CONFIG);
    assert_int_equal(weft_site_resolve(site, "gpu-\n", &peer), WEFT_E_CONFIG);
    assert_null(strchr(weft_last_error(), '\n'));
    assert_int_equal(peer.window, 77);
    weft_site_free(site);
}

static void a_star_alone_admits_everyone(void **state)
{
    (void)state;
    char longest[WEFT_SITE_NAME + 1];
    weft_site_peer peer;
    weft_site *site = load("[peer.*]\nwindow = 9\n");
    memset(longest, 'x', sizeof(longest));
    longest[WEFT_SITE_NAME] = 0;
    assert_int_equal(weft_site_resolve(site, longest, &peer), WEFT_E_CONFIG);
    longest[WEFT_SITE_NAME - 1] = 0;
    assert_int_equal(weft_site_resolve(site, longest, &peer), WEFT_OK);
    assert_string_equal(peer.name, longest);
    assert_int_equal(peer.window, 9);
    weft_site_free(site);
}

static void a_long_list_of_admitted_names_is_cut(void **state)
{
    (void)state;
    char text[8192] = "";
    weft_site_peer peer;
    for (int i = 0; i < 60; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "[peer.a-rather-long-name-for-a-peer-%d]\n", i);
    weft_site *site = load(text);
    assert_int_equal(weft_site_resolve(site, "z", &peer), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), " more"));
    assert_non_null(strstr(weft_last_error(), "add [peer.z]"));
    weft_site_free(site);
}

static void overrides_stand_in_for_their_section(void **state)
{
    (void)state;
    const char *const overrides[] = {"peer.lone.window=1",
                                     "peers.level=fast",
                                     "peer.gpu-*.window=21",
                                     "peer.gpu-9.window=99",
                                     "trainer.listen=127.0.0.1:7000",
                                     "provider.tcp.depth=5",
                                     "peer.lone.window=2",
                                     "trainer.model=a=b ; c.d"};
    weft_site *site = load_with(ranked, overrides, 8);
    assert_get(site, "lone", "peer.window", "2");        /* the last of two */
    assert_get(site, "gpu-big-1", "peer.level", "fast"); /* over [peers] of the file */
    assert_get(site, "gpu-big-1", "peer.window", "40");  /* the file's nearer section still ranks before */
    assert_get(site, "gpu-8", "peer.window", "21");
    assert_get(site, "gpu-9", "peer.window", "99"); /* a name that the pattern admits */
    assert_get(site, "gpu-9", "peer.heartbeat", "20s");
    assert_get(site, NULL, "trainer.listen", "127.0.0.1:7000");
    assert_get(site, NULL, "trainer.model", "a=b ; c.d");
    assert_get(site, NULL, "provider.tcp.depth", "5");
    assert_int_equal(site->peer_count, 2); /* gpu-9 is admitted, not listed */
    weft_site_free(site);
}

static void an_override_may_mend_the_file(void **state)
{
    (void)state;
    const char *const overrides[] = {"security.mode=open", "peer.a.bucket_max=2MiB"};
    weft_site *site =
        load_with("[trainer]\nlisten = 0.0.0.0:7117\n[peer.a]\nbucket_min = 1MiB\nbucket_max = 64KiB\n", overrides, 2);
    assert_get(site, NULL, "security.mode", "open");
    weft_site_free(site);
}

static void a_copy_stands_alone(void **state)
{
    (void)state;
    weft_site *copy = NULL, *site = load(ranked);
    assert_int_equal(weft_site_copy(site, &copy), WEFT_OK);
    weft_site_free(site);
    assert_get(copy, "gpu-big-1", "peer.window", "40");
    assert_get(copy, "gpu-3", "peer.window", "20");
    assert_get(copy, NULL, "provider.tcp.chunk", "auto");
    assert_int_equal(copy->peer_count, 2);
    assert_string_equal(copy->peers[1].name, "lone");
    weft_site_free(copy);
    site = load("");
    assert_int_equal(weft_site_copy(site, &copy), WEFT_OK);
    weft_site_free(site);
    assert_int_equal(copy->peer_count, 0);
    weft_site_free(copy);
    weft_site_free(NULL);
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

static int set_up(void **state)
{
    (void)state;
    site_scratch_open(&scratch);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    site_scratch_close(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_is_all_defaults),
        cmocka_unit_test(a_peer_without_keys_has_the_defaults),
        cmocka_unit_test(every_key_reaches_its_field),
        cmocka_unit_test(values_are_printed_in_their_unit),
        cmocka_unit_test(the_nearest_section_decides),
        cmocka_unit_test(patterns_are_not_listed_and_admit_any_number),
        cmocka_unit_test(every_section_has_a_row),
        cmocka_unit_test(a_name_that_nothing_admits_is_refused_with_those_admitted),
        cmocka_unit_test(a_star_alone_admits_everyone),
        cmocka_unit_test(a_long_list_of_admitted_names_is_cut),
        cmocka_unit_test(overrides_stand_in_for_their_section),
        cmocka_unit_test(an_override_may_mend_the_file),
        cmocka_unit_test(a_copy_stands_alone),
        cmocka_unit_test(asking_wrongly_is_an_argument_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

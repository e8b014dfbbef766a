/* Sections of the site file: how they rank, which peers they admit, what overrides do, what a copy keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/support/site_load.h"

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
    assert_int_equal(weft_site_resolve(site, "x*", &row), WEFT_E_CONFIG); /* no peer has this name */
    weft_site_free(site);
}

static void a_name_that_nothing_admits_is_refused_with_those_admitted(void **state)
{
    (void)state;
    weft_site_peer peer = {.window = 77};
    weft_site *site = load("[peer.a]\n[peer.b]\n[peer.gpu-*]\n");
    assert_int_equal(weft_site_resolve(site, "c", &peer), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "admits no peer 'c'; it admits a, b, gpu-*; add [peer.c]"));
    assert_non_null(strstr(weft_last_error_outside(), "admits no peer 'c'"));
    assert_null(strstr(weft_last_error_outside(), "gpu")); /* whoever knocks learns no names */
    assert_null(strstr(weft_last_error_outside(), scratch.folder));
    assert_int_equal(weft_site_resolve(site, "gpu", &peer), WEFT_E_CONFIG);
    assert_int_equal(weft_site_resolve(site, "", &peer), WEFT_E_CONFIG);
    assert_int_equal(weft_site_resolve(site, "gpu-\n", &peer), WEFT_E_CONFIG);
    assert_null(strchr(weft_last_error(), '\n'));
    assert_int_equal(peer.window, 77);
    weft_site_free(site);
    site = load("");
    assert_int_equal(weft_site_resolve(site, "c", &peer), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "it admits nobody; add [peer.c]"));
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
                                     "trainer.store=a=b ; c.d"};
    weft_site *site = load_with(ranked, overrides, 8);
    assert_get(site, "lone", "peer.window", "2");        /* the last of two */
    assert_get(site, "gpu-big-1", "peer.level", "fast"); /* over [peers] of the file */
    assert_get(site, "gpu-big-1", "peer.window", "40");  /* the file's nearer section still ranks before */
    assert_get(site, "gpu-8", "peer.window", "21");
    assert_get(site, "gpu-9", "peer.window", "99"); /* a name that the pattern admits */
    assert_get(site, "gpu-9", "peer.heartbeat", "20s");
    assert_get(site, NULL, "trainer.listen", "127.0.0.1:7000");
    assert_get(site, NULL, "trainer.store", "a=b ; c.d");
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
    site = load("[cut.a]\ntensors = q, k\nby = rows\nat = 3, 5\n[source.0]\nlisten = 127.0.0.1:1\n"
                "[source.1]\nlisten = 127.0.0.1:2\nholding = h\n");
    assert_int_equal(weft_site_copy(site, &copy), WEFT_OK);
    weft_site_free(site);
    assert_int_equal(copy->cut_count, 1);
    assert_string_equal(copy->cuts[0].tensors, "q, k");
    assert_int_equal(copy->cuts[0].numbers[1], 5);
    assert_int_equal(copy->source_count, 2);
    assert_string_equal(weft_site_source_listen(copy, 1), "127.0.0.1:2");
    assert_string_equal(copy->sources[1].holding, "h");
    weft_site_free(copy);
    site = load("");
    assert_int_equal(weft_site_copy(site, &copy), WEFT_OK);
    weft_site_free(site);
    assert_int_equal(copy->peer_count, 0);
    weft_site_free(copy);
    weft_site_free(NULL);
}

/* The nearest key counts, and a next one belongs to the key beside it. */
static void keys_of_peers(void **state)
{
    (void)state;
    weft_site *site = load("[security]\nmode = tls\nkey_file = all\nkey_file_next = all.next\n[peer.a]\n"
                           "[peer.b]\nkey_file = keys/*.b\n[peer.g-*]\nkey_file = /k/*/*\nkey_file_next = next\n");
    static const struct {
        const char *peer, *key, *next;
    } cases[] = {{"a", "all", "all.next"}, {"b", "keys/b.b", ""}, {"g-1", "/k/g-1/g-1", "next"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[WEFT_SITE_TEXT] = "";
        weft_site_peer row;
        assert_int_equal(weft_site_resolve(site, cases[i].peer, &row), WEFT_OK);
        assert_true(weft_site_key(site, &row, false, path));
        assert_string_equal(path, cases[i].key);
        assert_int_equal(weft_site_key(site, &row, true, path), cases[i].next[0] != 0);
        if (cases[i].next[0])
            assert_string_equal(path, cases[i].next);
    }
    weft_site_peer row;
    assert_int_equal(weft_site_resolve(site, "a", &row), WEFT_OK);
    memset(row.key_file, '*', 255);
    memcpy(row.name, "long", 5);
    char path[WEFT_SITE_TEXT];
    assert_false(weft_site_key(site, &row, false, path));
    weft_site_free(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_peers),
        cmocka_unit_test(the_nearest_section_decides),
        cmocka_unit_test(patterns_are_not_listed_and_admit_any_number),
        cmocka_unit_test(every_section_has_a_row),
        cmocka_unit_test(a_name_that_nothing_admits_is_refused_with_those_admitted),
        cmocka_unit_test(a_star_alone_admits_everyone),
        cmocka_unit_test(a_long_list_of_admitted_names_is_cut),
        cmocka_unit_test(overrides_stand_in_for_their_section),
        cmocka_unit_test(an_override_may_mend_the_file),
        cmocka_unit_test(a_copy_stands_alone),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

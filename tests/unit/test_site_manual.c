/* The key table, and the sites of conf/: they load, and are what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "site/site_keys.h"
#include "site/site_link.h"
#include "site/site_value.h"
#include "tests/support/site_scratch.h"

static weft_site *load(const char *name)
{
    char path[512];
    size_t count;
    weft_site *site = NULL;
    free(site_scratch_conf(name, path, &count));
    if (weft_site_load(path, NULL, 0, &site) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return site;
}

/* The range a person reads is the range that is checked, and each default passes its own row. */
static void ranges_say_what_is_checked(void **state)
{
    (void)state;
    for (uint64_t row = 0; weft_site_field_at(row); row++) {
        const weft_site_field *field = weft_site_field_at(row);
        weft_site_value value;
        char low[64], high[64], range[256], back[WEFT_SITE_TEXT];
        if (!weft_site_value_parse(field, field->key.fallback, &value))
            fail_msg("[%s] %s refuses its own default", field->key.section, field->key.key);
        weft_site_value_print(field, &value, back, sizeof(back));
        assert_string_equal(back, field->key.fallback);
        if (field->key.type == WEFT_KEY_TEXT || field->key.type == WEFT_KEY_CHOICE)
            continue;
        value.number = field->low;
        weft_site_value_print(field, &value, low, sizeof(low));
        value.number = field->high;
        weft_site_value_print(field, &value, high, sizeof(high));
        snprintf(range, sizeof(range), "%s%s%s..%s", field->word ? field->word : "", field->word ? " or " : "", low,
                 high);
        assert_true(weft_site_value_parse(field, low, &value) && value.number == field->low);
        assert_true(weft_site_value_parse(field, high, &value) && value.number == field->high);
        assert_string_equal(range, field->key.range);
    }
}

/* A value and the bytes after it, which no text may reach. */
typedef struct fenced_value {
    weft_site_value value;
    uint8_t fence[4096];
} fenced_value;

static void a_text_stays_in_its_room(void **state)
{
    (void)state;
    static char text[WEFT_SITE_TEXT + sizeof(((fenced_value *)0)->fence)];
    static fenced_value fenced;
    memset(text, 'x', sizeof(text) - 1);
    for (uint64_t row = 0; weft_site_field_at(row); row++) {
        assert_false(weft_site_value_parse(weft_site_field_at(row), text, &fenced.value));
        for (size_t i = 0; i < sizeof(fenced.fence); i++)
            assert_int_equal(fenced.fence[i], 0);
    }
}

static void the_manual_loads_as_the_defaults(void **state)
{
    (void)state;
    char text[WEFT_SITE_TEXT], key[160];
    weft_site *site = load("weft.ini");
    assert_int_equal(site->peer_count, 2);
    for (size_t row = 0; weft_key_at(row); row++) {
        const weft_key *k = weft_key_at(row);
        const char *named = !strcmp(k->section, "provider") ? ".tcp"
                            : !strcmp(k->section, "cut")    ? ".heads"
                            : !strcmp(k->section, "source") ? ".0"
                                                            : "";
        snprintf(key, sizeof(key), "%s%s.%s", k->section, named, k->key);
        assert_int_equal(weft_site_get(site, "a", key, text, sizeof(text)), WEFT_OK);
        assert_string_equal(text, k->fallback);
    }
    weft_site_free(site);
}

/* Taking every ; off leaves the same site: the manual's defaults are written as the file wants them. */
static void the_manual_loads_with_its_defaults_written_out(void **state)
{
    (void)state;
    char path[512];
    size_t count;
    site_scratch scratch;
    weft_site *site = NULL;
    char *text = site_scratch_conf("weft.ini", path, &count);
    for (size_t i = 1; i < count; i++) {
        if (text[i] == ';' && text[i - 1] == '\n')
            text[i] = ' ';
    }
    site_scratch_open(&scratch);
    site_scratch_write(&scratch, text, count);
    weft_status status = weft_site_load(scratch.path, NULL, 0, &site);
    site_scratch_close(&scratch);
    free(text);
    if (status)
        fail_msg("%s", weft_last_error());
    assert_int_equal(site->peers[0].device, -1);
    assert_int_equal(site->peers[1].bucket_start, 512 << 10);
    weft_site_free(site);
}

static void local_is_three_peers_over_tcp_on_loopback(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    weft_site *site = load("local.ini");
    assert_int_equal(site->peer_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(site->peers[i].name, names[i]);
        assert_string_equal(site->peers[i].provider, "tcp");
    }
    assert_int_equal(site->security, WEFT_SECURITY_LOOPBACK);
    weft_site_free(site);
}

static void the_demo_has_three_unequal_links(void **state)
{
    (void)state;
    weft_site *site = load("demo.ini");
    assert_int_equal(site->peer_count, 3);
    assert_int_equal(site->peers[0].rate_limit, 0);
    assert_true(site->peers[1].rate_limit > site->peers[2].rate_limit && site->peers[2].rate_limit > 0);
    weft_site_free(site);
}

static void the_mixed_site_sends_each_kind_its_way(void **state)
{
    (void)state;
    static const char *const kinds[][4] = {{"ib-7", "verbs", "ib0", "[provider.verbs] address = ib0"},
                                           {"ib-amd-1", "verbs", "ib0", "[provider.verbs] address = ib0"},
                                           {"efa-99", "efa", "rdmap16s27", "[provider.efa] address = rdmap16s27"},
                                           {"wan-x", "tcp", "192.0.2.10", "[trainer] listen = 192.0.2.10:7117"}};
    weft_site_peer peer;
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME], key[WEFT_SITE_LINK_KEY];
    weft_site *site = load("mixed-example.ini");
    assert_int_equal(site->security, WEFT_SECURITY_OPEN);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_int_equal(weft_site_resolve(site, kinds[i][0], &peer), WEFT_OK);
        assert_string_equal(peer.provider, kinds[i][1]);
        assert_int_equal(weft_site_trainer_rails(site, peer.provider, list), 1);
        assert_string_equal(list[0], kinds[i][2]);
        weft_site_trainer_key(site, peer.provider, key);
        assert_memory_equal(key, kinds[i][3], strlen(kinds[i][3]));
        assert_int_equal(weft_site_relay_address(site, peer.provider, "[fd00::7]:7000", list), 1);
        assert_string_equal(list[0], strcmp(peer.provider, "tcp") ? kinds[i][2] : "fd00::7");
    }
    assert_int_equal(weft_site_resolve(site, "wan-lisbon", &peer), WEFT_OK);
    assert_int_equal(peer.window, 4);
    assert_int_equal(peer.heartbeat_ms, 15000);
    assert_int_equal(weft_site_resolve(site, "stranger", &peer), WEFT_E_CONFIG);
    weft_site_free(site);
}

static void near_keys_are_found_by_edits(void **state)
{
    (void)state;
    char longer[200];
    assert_int_equal(weft_site_distance("", ""), 0);
    assert_int_equal(weft_site_distance("abc", ""), 3);
    assert_int_equal(weft_site_distance("", "abcd"), 4);
    assert_int_equal(weft_site_distance("kitten", "sitting"), 3);
    assert_int_equal(weft_site_distance("Window", "window"), 0);
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = 0;
    assert_int_equal(weft_site_distance(longer, longer), 0);
    assert_int_equal(weft_site_distance(longer, ""), WEFT_SITE_NAME - 1);
    assert_string_equal(weft_site_field_near("peer", "hartbeat"), "heartbeat");
    assert_null(weft_site_field_near("peer", "zzzzzzzz"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_say_what_is_checked),
        cmocka_unit_test(a_text_stays_in_its_room),
        cmocka_unit_test(the_manual_loads_as_the_defaults),
        cmocka_unit_test(the_manual_loads_with_its_defaults_written_out),
        cmocka_unit_test(local_is_three_peers_over_tcp_on_loopback),
        cmocka_unit_test(the_demo_has_three_unequal_links),
        cmocka_unit_test(the_mixed_site_sends_each_kind_its_way),
        cmocka_unit_test(near_keys_are_found_by_edits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

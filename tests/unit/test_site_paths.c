/* Rails and relays that cannot be: what the site file says of the ways to a peer is refused as a whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "site/site_link.h"
#include "tests/support/site_load.h"
#include "tests/support/site_refused.h"

static void rails(void **state)
{
    (void)state;
    static const bad_site bad[] = {
        {"[peer.a]\naddress = a,\n", 2, "[peer.a] address = a,: need 1 to 8 different IPs or interfaces"},
        {"[peer.a]\naddress = a, b, a\n", 2, "[peer.a] address = a, b, a: need 1 to 8 different IPs or interfaces"},
        {"[trainer]\naddress = a,b,c,d,e,f,g,h,i\n", 2, "[trainer] address = a,b,c,d,e,f,g,h,i: need 1 to 8"},
        {"[trainer]\naddress = a\n[peer.a]\naddress = b, c\n", 4,
         "[peer.a] address = b, c: for [peer.a] 2 addresses need as many in [trainer] address, which has 1"},
        {"[peers]\naddress = b, c\n[peer.x*]\n", 2,
         "[peers] address = b, c: for [peer.x*] 2 addresses need as many in [trainer] address, which has 1"},
        {"[provider.tcp]\naddress = a, a\n", 2, "[provider.tcp] address = a, a: need 1 to 8 different IPs"},
        {"[trainer]\naddress = a, b\n[provider.tcp]\naddress = c\n[peer.a]\naddress = b, c\n", 6,
         "[peer.a] address = b, c: for [peer.a] 2 addresses need as many in [provider.tcp] address, which has 1"},
        {"[provider.efa]\naddress = c\n[peer.a]\nprovider = auto\naddress = b, c\n", 5,
         "[peer.a] address = b, c: for [peer.a] 2 addresses need as many in [trainer] address, which has 1"},
        {"[trainer]\naddress = a,b,c\n[peer.a]\naddress = a,b,c\nstreams = 3\n", 4,
         "[peer.a] address = a,b,c: for [peer.a] 3 addresses with 3 streams each: at most 8 connections"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(&bad[i], NULL);
}

static void relays(void **state)
{
    (void)state;
    static const bad_site bad[] = {
        {"[peer.a]\nvia = \n", 2, "[peer.a] via =: need trainer, or 1 to 4 peers between commas"},
        {"[peer.a]\nvia = b,\n", 2, "[peer.a] via = b,: need trainer, or 1 to 4 peers"},
        {"[peer.a]\nvia = b,c,b\n", 2, "[peer.a] via = b,c,b: need trainer, or 1 to 4 peers"},
        {"[peer.a]\nvia = b,trainer\n", 2, "[peer.a] via = b,trainer: need trainer, or 1 to 4 peers"},
        {"[peer.a]\nvia = b,c,d,e,f\n", 2, "[peer.a] via = b,c,d,e,f: need trainer, or 1 to 4 peers"},
        {"[peer.a]\nvia = B\n", 2, "[peer.a] via = B: need trainer, or 1 to 4 peers"},
        {"[peer.a]\nvia = b\n[peer.b*]\n", 2,
         "[peer.a] via = b: for [peer.a] via names b: need a section of its own for that relay"},
        {"[peer.a]\nvia = b\n[peer.b]\n", 2,
         "[peer.a] via = b: for [peer.a] via names b, which is no relay: give it relay = host:port"},
        {"[peer.b]\n[peer.x*]\nvia = b\n", 3, "[peer.x*] via = b: for [peer.x*] via names b, which is no relay"},
        {"[peer.a]\nrelay = 127.0.0.1:7\nvia = a\n", 3,
         "[peer.a] via = a: for [peer.a] via closes a ring at a: a relay cannot stand behind itself"},
        {"[peers]\nvia = a\n[peer.a]\nrelay = 127.0.0.1:7\n", 2,
         "[peers] via = a: for [peer.a] via closes a ring at a"},
        {"[peer.a]\nrelay = 127.0.0.1:7\nvia = b\n[peer.b]\nrelay = 127.0.0.1:8\nvia = c\n"
         "[peer.c]\nvia = d, a\nrelay = 127.0.0.1:9\n[peer.d]\nrelay = 127.0.0.1:10\n",
         8, "[peer.c] via = d, a: for [peer.c] via closes a ring at a"},
        {"[peer.a]\nrelay = 127.0.0.1:0\n", 2, "[peer.a] relay = 127.0.0.1:0: for [peer.a] a relay needs a port"},
        {"[peer.a]\nrelay = 127.0.0.1:65535\n[source.0]\nlisten = 127.0.0.1:5\n[source.1]\nlisten = 127.0.0.1:6\n", 2,
         "[peer.a] relay = 127.0.0.1:65535: for [peer.a] a relay takes a port for each source, from this one on"},
        {"[peer.a]\nrelay = 127.0.0.1:7\n[peer.b]\nrelay = 127.0.0.1:7\n", 4,
         "[peer.b] relay = 127.0.0.1:7: for [peer.b] [peer.a] has that port too; choose others"},
        {"[peer.a]\nrelay = 127.0.0.1:8\n[peer.b]\nrelay = 127.0.0.1:7\n[source.0]\nlisten = 127.0.0.1:5\n"
         "[source.1]\nlisten = 127.0.0.1:6\n",
         4, "[peer.b] relay = 127.0.0.1:7: for [peer.b] ports 7 to 8, one for each source, meet those of [peer.a]"},
        {"[peer.a]\nrelay = 127.0.0.1:5\n[source.0]\nlisten = 127.0.0.1:4\n[source.1]\nlisten = 127.0.0.1:6\n", 2,
         "[peer.a] relay = 127.0.0.1:5: for [peer.a] ports 5 to 6, one for each source, meet those of [source.1]"},
        {"[peer.a]\nrelay = 127.0.0.1:7117\n", 2,
         "[peer.a] relay = 127.0.0.1:7117: for [peer.a] [trainer] has that port too"},
        {"[peer.a]\nrelay = 0.0.0.0:7\n", 2,
         "[peer.a] relay = 0.0.0.0:7: for [peer.a] a relay needs the address that others dial"},
        {"[peer.g*]\nrelay = 0.0.0.0:7\n", 2,
         "[peer.g*] relay = 0.0.0.0:7: for [peer.g*] a relay needs the address that others dial"},
        {"[peer.a]\nrelay = [::]:7\n", 2, "[peer.a] relay = [::]:7: for [peer.a] a relay needs the address"},
        {"[peer.a]\nrelay = 10.0.0.1:7\n", 2, "[peer.a] relay = 10.0.0.1:7: for [peer.a] beyond loopback anyone"},
        {"[peer.a]\nrelay = 127.0.0.1:7\nrelay_memory = 16MiB\n", 3,
         "[peer.a] relay_memory = 16MiB: for [peer.a] a relay needs more than four times bucket_max"},
        {"[peer.a]\nlast_resort = relay\n", 2, "[peer.a] last_resort = relay: need trainer | none"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(&bad[i], NULL);
}

/* A chain may have eight relays, whatever the order of the sections; one more is too long. */
static void chains(void **state)
{
    (void)state;
    for (int backwards = 0; backwards < 2; backwards++)
        for (int relays = 1; relays <= 10; relays++) {
            char text[2000] = "";
            for (int i = 0; i <= relays; i++) {
                int at = backwards ? relays - i : i;
                char one[96];
                snprintf(one, sizeof one, "[peer.p%d]\n%s%.0d%srelay = 127.0.0.1:%d\n", at, at ? "via = p" : "",
                         at ? at - 1 : 0,
                         at == 1 ? "0\n"
                         : at    ? "\n"
                                 : "",
                         7000 + at);
                strcat(text, one);
            }
            weft_site *site = NULL;
            site_scratch_write(&scratch, text, strlen(text));
            weft_status status = weft_site_load(scratch.path, NULL, 0, &site);
            assert_int_equal(status, relays <= 8 ? WEFT_OK : WEFT_E_CONFIG);
            if (status == WEFT_OK)
                weft_site_free(site);
            else
                assert_non_null(strstr(weft_last_error(), "more than 8 relays stand between the trainer and it"));
        }
}

/* The relays of a peer in their order, and how far away a relay may stand and still vouch. */
static void ways(void **state)
{
    static const struct {
        const char *relay, *peer;
        uint32_t hops; /* least number that puts the relay before the peer; 0: none does */
    } rows[] = {{"b", "a", 1}, {"c", "a", 1},   {"d", "a", 2},   {"e", "a", 3},     {"a", "b", 0},
                {"e", "d", 1}, {"e", "g-7", 2}, {"d", "g-7", 1}, {"b", "nobody", 0}};
    char names[WEFT_SITE_VIAS][WEFT_SITE_NAME];
    weft_site_peer row;
    (void)state;
    weft_site *site = load("[peer.a]\nvia = c, b\n[peer.b]\nvia = d\nrelay = 127.0.0.1:1\n[peer.c]\n"
                           "relay = 127.0.0.1:2\n[peer.d]\nvia = e\nrelay = 127.0.0.1:3\n[peer.e]\n"
                           "relay = 127.0.0.1:4\n[peer.g-*]\nvia = d\n");
    assert_int_equal(weft_site_resolve(site, "a", &row), WEFT_OK);
    assert_int_equal(weft_site_via(&row, names), 2);
    assert_string_equal(names[0], "c");
    assert_string_equal(names[1], "b");
    assert_int_equal(weft_site_resolve(site, "c", &row), WEFT_OK);
    assert_int_equal(weft_site_via(&row, names), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (uint32_t hops = 0; hops < 5; hops++)
            if (weft_site_vouches(site, rows[i].relay, rows[i].peer, hops) !=
                (rows[i].hops > 0 && hops >= rows[i].hops))
                fail_msg("%s before %s over %u", rows[i].relay, rows[i].peer, hops);
    weft_site_free(site);
}

/* Where a relay listens for each source, and where ends send from. */
static void addresses(void **state)
{
    static const struct {
        const char *relay;
        uint64_t number;
        const char *listen; /* NULL: ports do not go so far */
    } ports[] = {{"10.0.0.1:7118", 0, "10.0.0.1:7118"},
                 {"10.0.0.1:7118", 63, "10.0.0.1:7181"},
                 {"[::1]:9", 1, "[::1]:10"},
                 {"h:65535", 0, "h:65535"},
                 {"h:65535", 1, NULL},
                 {"h:65500", 36, NULL}};
    static const struct {
        const char *text, *trainer, *relay; /* addresses by tcp */
    } sites[] = {{"[trainer]\nlisten = 127.0.0.1:7\n", "127.0.0.1", "127.0.0.9"},
                 {"[trainer]\naddress = eth0\n", "eth0", "127.0.0.9"},
                 {"[trainer]\naddress = eth0\n[provider.tcp]\naddress = eth1, eth2\n", "eth1", "eth1"},
                 {"[provider.stream]\naddress = eth3\n", "127.0.0.1", "127.0.0.9"}};
    char text[WEFT_SITE_TEXT], list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    (void)state;
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        assert_int_equal(weft_site_relay_listen(ports[i].relay, ports[i].number, text), ports[i].listen != NULL);
        if (ports[i].listen)
            assert_string_equal(text, ports[i].listen);
    }
    for (size_t i = 0; i < sizeof sites / sizeof sites[0]; i++) {
        weft_site *site = load(sites[i].text);
        assert_true(weft_site_trainer_rails(site, "tcp", list) > 0);
        assert_string_equal(list[0], sites[i].trainer);
        assert_int_equal(weft_site_relay_address(site, "tcp", "127.0.0.9:7118", list), 1);
        assert_string_equal(list[0], sites[i].relay);
        weft_site_free(site);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails), cmocka_unit_test(relays),    cmocka_unit_test(chains),
        cmocka_unit_test(ways),  cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

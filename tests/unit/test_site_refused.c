/* A mistake in a site file or an override is refused with file, line, section, key, value and what is allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/site_refused.h"

static void sections_and_keys(void **state)
{
    (void)state;
    static const bad_site bad[] = {
        {"[trainr]\n", 1, "[trainr]: no such section; did you mean [trainer]?"},
        {"\n\n[warp]\n", 3, "[warp]: no such section; need site, trainer, source.R, peers, peer.NAME, provider.NAME, "},
        {"[peer]\n", 1, "[peer]: need [peer.NAME] for one peer or [peers] for all"},
        {"[provider]\n", 1, "[provider]: need [provider.NAME], such as [provider.tcp]"},
        {"[provider.tpc]\n", 1,
         "[provider.tpc]: no such provider; need tcp | tcp-rxm | stream | verbs | efa | efa-direct | shm | loop"},
        {"[Peers]\n", 1, "[Peers]: sections and names are written in lower case"},
        {"[peer.A]\n", 1, "[peer.A]: sections and names are written in lower case"},
        {"[peer.]\n", 1, "[peer.]: a peer's name is 1 to 63 of a-z 0-9 _ -"},
        {"[peer.a b]\n", 1, "[peer.a b]: a peer's name is 1 to 63 of a-z 0-9 _ -"},
        {"[peer.a.b]\n", 1, "[peer.a.b]: a peer's name is 1 to 63 of a-z 0-9 _ -"},
        {"[peer.\xc3\xa4]\n", 1, "[peer.\xc3\xa4]: a peer's name is 1 to 63 of a-z 0-9 _ -"},
        {"[peer.a123456789012345678901234567890123456789012345678901234567890123]\n", 1,
         "[peer.a123456789012345678901234567890123456789012345678901234567890123]: a peer's name is 1 to 63"},
        {"[peer.*-a]\n", 1, "[peer.*-a]: a pattern has one * and ends in it"},
        {"[peer.a**]\n", 1, "[peer.a**]: a pattern has one * and ends in it"},
        {"[peer.*a*]\n", 1, "[peer.*a*]: a pattern has one * and ends in it"},
        {"[peer.A*]\n", 1, "[peer.A*]: sections and names are written in lower case"},
        {"[peer.a]\n\n[peer.b]\n[peer.a]\n", 4, "[peer.a]: this section stands twice (first on line 1)"},
        {"[peers]\n[ peers ]\n", 2, "[peers]: this section stands twice (first on line 1)"},
        {"[peers]\nwindow = 3\n# x\nwindow = 3\n", 4, "[peers] window: this key is given twice (first on line 2)"},
        {"[peers]\nwindow = 3\nwindow = three\n", 3, "[peers] window: this key is given twice (first on line 2)"},
        {"[trainer]\nmodel = m\n", 2, "[trainer] model: this key is gone: give weft trainer --model FILE"},
        {"[peer.b]\nbuckets = 1MiB\n", 2, "[peer.b] buckets: no such key; did you mean bucket?"},
        {"[peer.b]\nBucket = 1MiB\n", 2, "[peer.b] Bucket: no such key; did you mean bucket?"},
        {"[trainer]\nport = 7\n", 2, "[trainer] port: no such key; need one of listen, address, backend"},
        {"[trainer]\nwindow = 7\n", 2, "[trainer] window: this key belongs to [peers] or [peer.NAME]"},
        {"[provider.efa]\nports = 7000-7010\n", 2,
         "[provider.efa] ports = 7000-7010: only tcp and tcp-rxm listen on ports that can be chosen"},
        {"[provider.tcp]\nports = 7010-7000\n", 2, "[provider.tcp] ports = 7010-7000: need auto, or LOW-HIGH within"},
        {"[provider.tcp]\nports = 80-7000\n", 2, "[provider.tcp] ports = 80-7000: need auto, or LOW-HIGH within"},
        {"[provider.tcp]\nports = 7000\n", 2, "[provider.tcp] ports = 7000: need auto, or LOW-HIGH within"},
        {"[provider.tcp]\nports = 7000-65536\n", 2, "[provider.tcp] ports = 7000-65536: need auto, or LOW-HIGH within"},
        {"[peer.a]\ndepth = 7\n", 2, "[peer.a] depth: this key belongs to [provider.NAME]"},
        {"[peers]\njournal = 1GiB\n", 2, "[peers] journal: this key belongs to [trainer]"},
        {"[log]\nwindow size = 7\n", 2, "[log] window size: no such key; need one of level"},
        {"window = 7\n", 1, "a key before the first [header]: 'window = 7'"},
        {"[source]\n", 1, "[source]: need [source.R] with a number, such as [source.0]"},
        {"[source.x]\n", 1, "[source.x]: a source's name is its number, from 0 to 63, such as [source.0]"},
        {"[source.00]\n", 1, "[source.00]: a source's name is its number"},
        {"[source.1x]\n", 1, "[source.1x]: a source's name is its number"},
        {"[source.]\n", 1, "[source.]: a source's name is its number"},
        {"[source.100]\n", 1, "[source.100]: a source's name is its number"},
        {"[source.0]\n\n[source.2]\n", 3, "[source.2]: the 2 sources are numbered from 0 without gaps"},
        {"[source.0]\nlisten = 127.0.0.1:8\n[source.1]\nlisten = 127.0.0.1:8\n", 1,
         "[source.0] listen = 127.0.0.1:8: [source.1] listens there too"},
        {"[source.0]\n[source.1]\n", 1, "[source.0] listen = 127.0.0.1:7117: [source.1] listens there too"},
        {"[source.0]\n[source.1]\nlisten = 10.1.2.3:7\n", 2,
         "[source.1] listen = 10.1.2.3:7: beyond loopback anyone who reaches the port may join"},
        {"[source.0]\nwindow = 7\n", 2, "[source.0] window: this key belongs to [peers] or [peer.NAME]"},
        {"[peers]\nholding = a\n", 2, "[peers] holding: this key belongs to [source.R]"},
        {"[peers]\nwindow\n", 2, "need key = value, a [header] or a comment (# or ;): 'window'"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(&bad[i], NULL);
}

#define SIZE_NEED "need auto or a size such as 4MiB (64KiB..1GiB)"

static void values(void **state)
{
    (void)state;
    static const bad_site bad[] = {
        {"[peer.b]\nbucket = 3 parsecs\n", 2,
         "[peer.b] bucket = 3 parsecs: need auto or a size such as 4MiB (64KiB..1GiB)"},
        {"[peers]\nbucket_max = 4194304\n", 2, "[peers] bucket_max = 4194304: " SIZE_NEED},
        {"[peers]\nbucket_max = 4MB\n", 2, "[peers] bucket_max = 4MB: " SIZE_NEED},
        {"[peers]\nbucket_max = 4mib\n", 2, "[peers] bucket_max = 4mib: " SIZE_NEED},
        {"[peers]\nbucket_max = 1.5MiB\n", 2, "[peers] bucket_max = 1.5MiB: " SIZE_NEED},
        {"[peers]\nbucket_max = -4MiB\n", 2, "[peers] bucket_max = -4MiB: " SIZE_NEED},
        {"[peers]\nbucket_max = +4MiB\n", 2, "[peers] bucket_max = +4MiB: " SIZE_NEED},
        {"[peers]\nbucket_max = 4MiB4\n", 2, "[peers] bucket_max = 4MiB4: " SIZE_NEED},
        {"[peers]\nbucket_max = 2GiB\n", 2, "[peers] bucket_max = 2GiB: " SIZE_NEED},
        {"[peers]\nbucket_max = 63KiB\n", 2, "[peers] bucket_max = 63KiB: " SIZE_NEED},
        {"[peers]\nbucket_max = Auto\n", 2, "[peers] bucket_max = Auto: " SIZE_NEED},
        {"[peers]\nbucket_max = 17179869185GiB\n", 2, "[peers] bucket_max = 17179869185GiB: " SIZE_NEED},
        {"[peers]\nbucket_max = 18446744073709551617KiB\n", 2,
         "[peers] bucket_max = 18446744073709551617KiB: " SIZE_NEED},
        {"[peers]\nbucket_max =\n", 2, "[peers] bucket_max =: " SIZE_NEED},
        {"[peers]\nbucket_max = MiB\n", 2, "[peers] bucket_max = MiB: " SIZE_NEED},
        {"[peers]\nheartbeat = 5\n", 2, "[peers] heartbeat = 5: need a time such as 500ms or 30s (100ms..3600s)"},
        {"[peers]\nheartbeat = 5min\n", 2, "[peers] heartbeat = 5min: need a time"},
        {"[peers]\nheartbeat = 99ms\n", 2, "[peers] heartbeat = 99ms: need a time"},
        {"[session]\nio_deadline = 0s\n", 2, "[session] io_deadline = 0s: need a time such as 500ms or 30s (1ms.."},
        {"[peers]\nrate_limit = 100\n", 2,
         "[peers] rate_limit = 100: need none or a rate such as 100Mbit/s or 2GB/s (1Mbit/s..10000Gbit/s)"},
        {"[peers]\nrate_limit = 0\n", 2, "[peers] rate_limit = 0: need none or a rate"},
        {"[peers]\nrate_limit = 100MiB\n", 2, "[peers] rate_limit = 100MiB: need none or a rate"},
        {"[peers]\nrate_limit = auto\n", 2, "[peers] rate_limit = auto: need none or a rate"},
        {"[peers]\nwindow = 0\n", 2, "[peers] window = 0: need a whole number without a unit (1..256)"},
        {"[peers]\nwindow = 257\n", 2, "[peers] window = 257: need a whole number without a unit (1..256)"},
        {"[peers]\nwindow = 4 slots\n", 2, "[peers] window = 4 slots: need a whole number"},
        {"[peers]\nwindow = 0x10\n", 2, "[peers] window = 0x10: need a whole number"},
        {"[peers]\ndevice = -1\n", 2, "[peers] device = -1: need current or a whole number without a unit (0..255)"},
        {"[trainer]\nmax_peers = 5000\n", 2,
         "[trainer] max_peers = 5000: need a whole number without a unit (1..4096)"},
        {"[trainer]\njournal = 1MiB\n", 2,
         "[trainer] journal = 1MiB: need auto or a size such as 4MiB (16MiB..1024GiB)"},
        {"[peers]\nprovider = TCP\n", 2,
         "[peers] provider = TCP: need auto | tcp | tcp-rxm | stream | verbs | efa | efa-direct | shm | loop"},
        {"[peers]\nprovider = sockets\n", 2, "[peers] provider = sockets: need auto | tcp |"},
        {"[peers]\nprovider = auto | tcp\n", 2, "[peers] provider = auto | tcp: need auto | tcp |"},
        {"[peers]\nprovider =\n", 2, "[peers] provider =: need auto | tcp |"},
        {"[peers]\nlevel = tightly\n", 2, "[peers] level = tightly: need auto | full | pairs | fast | tight"},
        {"[log]\nlevel = trace\n", 2, "[log] level = trace: need error | warn | info | debug"},
        {"[site]\nname = My Site\n", 2, "[site] name = My Site: need a name of 1 to 63 of a-z 0-9 _ -"},
        {"[site]\nname =\n", 2, "[site] name =: need a name"},
        {"[site]\nname = 10.0.0.7\n", 2, "[site] name = 10.0.0.7: need a name"},
        {"[peers]\naddress = 10.0.0.1 10.0.0.2\n", 2,
         "[peers] address = 10.0.0.1 10.0.0.2: need 1 to 8 different IPs or interfaces between commas, or empty"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(&bad[i], NULL);
}

static void listen_addresses(void **state)
{
    (void)state;
    static const char *const forms[] = {"127.0.0.1",
                                        "127.0.0.1:",
                                        ":7117",
                                        "127.0.0.1:65536",
                                        "127.0.0.1:-1",
                                        "127.0.0.1:http",
                                        "::1:7117",
                                        "[::1]",
                                        "[::1]7117",
                                        "[127.0.0.1]:1",
                                        "127.0.0.1:000080",
                                        "*:7117",
                                        "a b:1",
                                        "[]:1",
                                        "tcp://localhost:1"};
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char text[128], says[256];
        snprintf(text, sizeof(text), "[security]\nmode = open\n[trainer]\nlisten = %s\n", forms[i]);
        snprintf(says, sizeof(says), "[trainer] listen = %s: need host:port, port 0..65535, IPv6 in brackets",
                 forms[i]);
        assert_refused(&(bad_site){text, 4, says}, NULL);
    }
}

/* An address beyond loopback needs the word open. */
static void listening_beyond_loopback(void **state)
{
    (void)state;
    static const char *const beyond[] = {"0.0.0.0:7117", "10.1.2.3:7117", "[::]:7117",       "[fe80::1]:7117",
                                         "trainer:7117", "128.0.0.1:0",   "127.1.example:1", "localhost.example:1"};
    static const char *const within[] = {"127.0.0.1:0", "127.255.0.9:1", "[::1]:7117", "localhost:7117"};
    char text[128], says[256];
    weft_site *site;
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        snprintf(text, sizeof(text), "[trainer]\nlisten = %s\n", beyond[i]);
        snprintf(says, sizeof(says),
                 "[trainer] listen = %s: beyond loopback anyone who reaches the port may join: "
                 "write [security] mode = tls to ask for proof, mode = open",
                 beyond[i]);
        assert_refused(&(bad_site){text, 2, says}, NULL);
        strcat(text, "[security]\nmode = open\n");
        site_scratch_write(&scratch, text, strlen(text));
        assert_int_equal(weft_site_load(scratch.path, NULL, 0, &site), WEFT_OK);
        weft_site_free(site);
    }
    for (size_t i = 0; i < sizeof(within) / sizeof(within[0]); i++) {
        snprintf(text, sizeof(text), "[trainer]\nlisten = %s\n", within[i]);
        site_scratch_write(&scratch, text, strlen(text));
        assert_int_equal(weft_site_load(scratch.path, NULL, 0, &site), WEFT_OK);
        weft_site_free(site);
    }
}

static void keys_that_do_not_fit_each_other(void **state)
{
    (void)state;
    static const bad_site bad[] = {
        {"[peer.a]\nbucket_min = 2MiB\nbucket_max = 1MiB\n", 2,
         "[peer.a] bucket_min = 2MiB: for [peer.a] bucket_min 2MiB exceeds bucket_max 1MiB"},
        {"[peer.a]\nbucket_min = 8MiB\nbucket_max = 4MiB\n", 2,
         "[peer.a] bucket_min = 8MiB: for [peer.a] bucket_min 8MiB exceeds bucket_max 4MiB"},
        {"[peers]\nbucket_min = 1MiB\n[peer.a]\n[peer.b]\nbucket_max = 512KiB\n", 2,
         "[peers] bucket_min = 1MiB: for [peer.b] bucket_min 1MiB exceeds bucket_max 512KiB"},
        {"[peer.g-*]\nbucket_min = 8MiB\nbucket_max = 4MiB\n", 2,
         "[peer.g-*] bucket_min = 8MiB: for [peer.g-*] bucket_min 8MiB"},
        {"[peer.a]\nbucket = 8MiB\nbucket_max = 4MiB\n", 2,
         "[peer.a] bucket = 8MiB: for [peer.a] a bucket must lie between bucket_min 64KiB and bucket_max 4MiB"},
        {"[peer.a]\nbucket_min = 1MiB\nbucket = 64KiB\n", 3, "[peer.a] bucket = 64KiB: for [peer.a] a bucket must lie"},
        {"[peers]\nbucket = 8MiB\nbucket_max = 4MiB\n[peer.a]\n", 2,
         "[peers] bucket = 8MiB: for [peer.a] a bucket must lie"},
        {"[trainer]\nmax_peers = 2\n[peer.a]\n[peer.b]\n[peer.c]\n", 5,
         "[peer.c]: more peers than [trainer] max_peers = 2; raise it"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(&bad[i], NULL);
}

static void keys_of_tls(void **state)
{
    (void)state;
    static const bad_site bad[] = {
        {"[security]\nmode = tls\n[peer.a]\n", 2, "[security] mode = tls: [peer.a] has no key: name one by key_file"},
        {"[security]\nmode = tls\n[peer.g-*]\n[peer.a]\nkey_file = k\n", 2,
         "[security] mode = tls: [peer.g-*] has no key"},
        {"[security]\nmode = tls\nca = c\ncertificate = c\n", 2,
         "[security] mode = tls: certificates need all three of ca, certificate and key"},
        {"[security]\nmode = tls\ncertificate = c\n", 2,
         "[security] mode = tls: certificates need all three of ca, certificate and key"},
        {"[security]\nmode = tls\nca = c\ncertificate = c\nkey = k\n[peers]\nkey_file = k\n", 7,
         "[peers] key_file = k: names are proved by certificates here"},
        {"[security]\nmode = tls\nca = c\ncertificate = c\nkey = k\nkey_file = k\n", 6,
         "[security] key_file = k: names are proved by certificates here"},
        {"[security]\nmode = tls\nca = c\ncertificate = c\nkey = k\n[peer.trainer]\n", 2,
         "[security] mode = tls: a peer named trainer would prove what the trainer proves"},
        {"[security]\nreplace = yes\n", 2,
         "[security] replace = yes: only [security] mode = tls asks for proof of a name"},
        {"[security]\nkey_file = k\n", 2, "[security] key_file = k: only [security] mode = tls uses this file"},
        {"[security]\nkey_file_next = k\n", 2,
         "[security] key_file_next = k: only [security] mode = tls uses this file"},
        {"[security]\nmode = open\nca = c\n", 3, "[security] ca = c: only [security] mode = tls uses this file"},
        {"[peers]\nkey_file_next = k\n", 2, "[peers] key_file_next = k: only [security] mode = tls uses this file"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(&bad[i], NULL);
}

static void overrides(void **state)
{
    (void)state;
    static const struct {
        const char *override;
        const char *says;
    } bad[] = {
        {"", "override '': need section.key=value"},
        {"trainer.listen", "override 'trainer.listen': need section.key=value"},
        {"listen=1", "override 'listen=1': need section.key=value"},
        {"trainer.=1", "override 'trainer.=1': need section.key=value"},
        {".key=1", "override '.key=1': need section.key=value"},
        {"peer.a.bucket=3 parsecs", "override peer.a.bucket=3 parsecs: need auto or a size such as 4MiB (64KiB..1GiB)"},
        {"peer.a.buckets=1MiB", "override peer.a.buckets: no such key; did you mean bucket?"},
        {"peer.x.bucket=1MiB", "override peer.x.bucket=1MiB: "},
        {"peer.x-*.bucket=1MiB", "override peer.x-*.bucket=1MiB: "},
        {"peer.bucket=1MiB", "override peer: need [peer.NAME] for one peer or [peers] for all"},
        {"trainr.listen=1", "override trainr: no such section; did you mean [trainer]?"},
        {"provider.warp.depth=1", "override provider.warp: no such provider"},
        {"trainer.listen=0.0.0.0:1", "override trainer.listen=0.0.0.0:1: beyond loopback"},
        {"peer.a.bucket_min=1GiB", "override peer.a.bucket_min=1GiB: for [peer.a] bucket_min 1GiB exceeds"},
        {"peer.gpu-1.bucket_min=1GiB", "override peer.gpu-1.bucket_min=1GiB: for [peer.gpu-1] bucket_min 1GiB"},
        {"trainer.store=a\nb", "an override holds a control character"},
        {"trainer.store=a\xc2\x80", "an override holds a control character"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(&(bad_site){"[peers]\nbucket_max = 4MiB\n[peer.a]\n[peer.gpu-*]\n", 0, bad[i].says},
                       bad[i].override);
}

static void an_override_that_is_null(void **state)
{
    (void)state;
    const char *const list[] = {NULL};
    weft_site *site;
    site_scratch_write(&scratch, "", 0);
    assert_int_equal(weft_site_load(scratch.path, list, 1, &site), WEFT_E_CONFIG);
    assert_int_equal(weft_site_load(scratch.path, NULL, 1, &site), WEFT_E_ARGUMENT);
    assert_int_equal(weft_site_load(NULL, NULL, 0, &site), WEFT_E_ARGUMENT);
    assert_int_equal(weft_site_load(scratch.path, NULL, 0, NULL), WEFT_E_ARGUMENT);
}

static void values_too_long(void **state)
{
    (void)state;
    char text[400] = "[trainer]\nstore = ";
    weft_site *site;
    memset(text + strlen(text), 'x', WEFT_SITE_TEXT - 1);
    site_scratch_write(&scratch, text, strlen(text));
    assert_int_equal(weft_site_load(scratch.path, NULL, 0, &site), WEFT_OK);
    assert_int_equal(strlen(site->trainer.store), WEFT_SITE_TEXT - 1);
    weft_site_free(site);
    text[strlen(text)] = 'x';
    char says[200];
    snprintf(says, sizeof says, "[trainer] store = %.80s: need a path of at most 255 bytes, or empty",
             strchr(text, 'x'));
    assert_refused(&(bad_site){text, 2, says}, NULL);
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    char path[400];
    weft_site *site;
    snprintf(path, sizeof(path), "%s/none.ini", scratch.folder);
    assert_int_equal(weft_site_load(path, NULL, 0, &site), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), path));
    assert_non_null(strstr(weft_last_error(), "No such file"));
    assert_int_equal(weft_site_load(scratch.folder, NULL, 0, &site), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "directory"));
    assert_int_equal(weft_site_load("", NULL, 0, &site), WEFT_E_FILE);
    memset(path, 'p', sizeof(path));
    path[WEFT_SITE_TEXT] = 0;
    assert_int_equal(weft_site_load(path, NULL, 0, &site), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "at most 255 bytes"));
}

static void a_file_without_end(void **state)
{
    (void)state;
    weft_site *site;
    assert_int_equal(weft_site_load("/dev/zero", NULL, 0, &site), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "is it a site file?"));
}

/* Comments of exactly as many bytes as a file may have, and of one more. */
static void the_largest_file(void **state)
{
    enum { MOST = 4 << 20 };
    static char text[MOST + 1];
    weft_site *site = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 1000 == 999 ? '\n' : '#';
    site_scratch_write(&scratch, text, MOST);
    assert_int_equal(weft_site_load(scratch.path, NULL, 0, &site), WEFT_OK);
    weft_site_free(site);
    site_scratch_write(&scratch, text, MOST + 1);
    assert_int_equal(weft_site_load(scratch.path, NULL, 0, &site), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "larger than 4194304 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_and_keys),
        cmocka_unit_test(values),
        cmocka_unit_test(listen_addresses),
        cmocka_unit_test(listening_beyond_loopback),
        cmocka_unit_test(keys_that_do_not_fit_each_other),
        cmocka_unit_test(keys_of_tls),
        cmocka_unit_test(overrides),
        cmocka_unit_test(an_override_that_is_null),
        cmocka_unit_test(values_too_long),
        cmocka_unit_test(files_that_cannot_be_read),
        cmocka_unit_test(a_file_without_end),
        cmocka_unit_test(the_largest_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

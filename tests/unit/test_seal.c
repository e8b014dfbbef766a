/* Control connections by tls: proof, streams of messages, keys that change, and what is left of a key in memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "security/inside.h"
#include "tests/support/sealed_pair.h"
#include "wire/voucher.h"

static void need_library(void)
{
    if (weft_library_absence()[0])
        skip();
}

/* Nothing is lost or reordered, whatever turns the ends take, and a long body goes whole. */
static void stream_of_messages(void **state)
{
    (void)state;
    need_library();
    sealed s;
    weft_status dialed, answered;
    open_sealed(&s, "a");
    shake(&s, &dialed, &answered);
    assert_true(s.p.a.sealed && s.p.b.sealed);
    assert_false(weft_control_is_pending(&s.p.a));
    uint64_t sent = 0, taken = 0, seed = 0, allocations = weft_mem_allocations();
    while (taken < 3000) {
        for (uint64_t burst = weft_mix64(++seed) % 15; burst > 0 && sent < 3000; burst--)
            assert_int_equal(send_nth(&s.p.a, sent++), WEFT_OK);
        for (uint64_t turns = 1 + weft_mix64(++seed) % 100; turns > 0 || sent - taken > 200; turns -= turns > 0) {
            assert_int_equal(weft_control_flush(&s.p.a), WEFT_OK);
            assert_int_equal(weft_control_fill(&s.p.b), WEFT_OK);
            take_stream(&s.p.b, &taken);
        }
    }
    assert_int_equal(taken, sent);
    assert_int_equal(weft_mem_allocations(), allocations);
    weft_control_hang_up(&s.p.a);
    assert_int_equal(weft_control_fill(&s.p.b), WEFT_E_PEER_LOST);
    close_sealed(&s);
}

/* A connection that breaks is lost for the socket's own reason, because an operator looks for that word. */
static void a_reset_is_named(void **state)
{
    (void)state;
    need_library();
    sealed s;
    weft_status dialed, answered;
    open_sealed(&s, "a");
    shake(&s, &dialed, &answered);
    assert_true(s.p.a.sealed && s.p.b.sealed);
    assert_int_equal(send_nth(&s.p.b, 1), WEFT_OK);
    assert_int_equal(weft_control_flush(&s.p.b), WEFT_OK);
    close(s.p.a.fd); /* with a message unread, and without the last words of tls */
    s.p.a.fd = -1;
    assert_int_equal(weft_control_fill(&s.p.b), WEFT_E_PEER_LOST);
    assert_non_null(strstr(weft_last_error(), strerror(ECONNRESET)));
    close_sealed(&s);
}

/* A reader is woken once: what came in one go is all there, though the seal took it off the socket before it was asked.
 */
static void nothing_waits_unseen(void **state)
{
    (void)state;
    need_library();
    sealed s;
    weft_status dialed, answered;
    open_sealed(&s, "a");
    shake(&s, &dialed, &answered);
    for (uint64_t round = 0, sent = 0, taken = 0; round < 50; round++) {
        for (int burst = 0; burst < 12; burst++)
            assert_int_equal(send_nth(&s.p.a, sent++), WEFT_OK);
        assert_int_equal(weft_control_flush(&s.p.a), WEFT_OK);
        assert_false(weft_control_is_pending(&s.p.a));
        assert_int_equal(weft_control_fill(&s.p.b), WEFT_OK);
        take_stream(&s.p.b, &taken);
        if (taken == sent)
            continue;
        assert_int_equal(recv(s.p.b.fd, &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT), 1); /* the rest wakes the reader */
        assert_int_equal(weft_control_fill(&s.p.b), WEFT_OK);
        take_stream(&s.p.b, &taken);
        assert_int_equal(taken, sent);
    }
    close_sealed(&s);
}

static void nothing_goes_before_proof(void **state)
{
    (void)state;
    need_library();
    sealed s;
    uint8_t bytes[65536];
    open_sealed(&s, "a");
    assert_int_equal(send_nth(&s.p.a, 1), WEFT_OK);
    assert_int_equal(weft_control_flush(&s.p.a), WEFT_OK);
    assert_true(weft_control_is_pending(&s.p.a));
    const ssize_t got = recv(s.p.b.fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    assert_true(got > 5 && bytes[0] == 22); /* one record, of the handshake */
    assert_int_equal(5 + bytes[3] * 256 + bytes[4], got);
    assert_false(weft_control_wants_write(&s.p.a)); /* or a caller would spin until the answer is here */
    assert_false(weft_control_proves(&s.p.b, "a"));
    close_sealed(&s);
}

static void assert_said(const sealed *s, int end, const char *text)
{
    if (text && !strstr(s->said[end], text))
        fail_msg("'%s' does not say '%s'", s->said[end], text);
}

/* Texts of the dialing end and of the dialed one about the other's proof; NULL: any. */
static void assert_refused(sealed *s, const char *at_home, const char *there)
{
    weft_status dialed, answered;
    shake(s, &dialed, &answered);
    assert_false(s->p.a.sealed && s->p.b.sealed);
    assert_int_equal(dialed, WEFT_E_CONFIG);
    assert_said(s, 0, at_home);
    assert_said(s, 1, there);
}

static void keys_that_differ(void **state)
{
    (void)state;
    need_library();
    sealed s;
    open_sealed(&s, "a");
    make_key("a.key"); /* read by the trainer from now on, and by a rollout that dials: but not both */
    weft_status first = weft_control_flush(&s.p.a);
    assert_int_equal(first, WEFT_OK);
    char ids[2][WEFT_SECRET_ID], home[100], there[100];
    for (int i = 0; i < 2; i++) {
        weft_secret *secret = weft_secret_open();
        if (i)
            make_key("a.key");
        assert_int_equal(weft_secret_read(secret, in_folder("a.key")), WEFT_OK);
        memcpy(ids[i], secret->id, sizeof ids[i]);
        weft_secret_close(secret);
    }
    snprintf(home, sizeof home, "it does not know key %s of a", ids[0]);
    snprintf(there, sizeof there, "a comes with key %s, its key here is %s", ids[0], ids[1]);
    assert_refused(&s, home, there);
    close_sealed(&s);
}

/* Before the other end is proved, a file of this end may have gone bad: its own text says so. */
static void files_gone_bad(void **state)
{
    (void)state;
    need_library();
    sealed s;
    open_sealed(&s, "a");
    chmod(in_folder("a.key"), 0640);
    assert_refused(&s, "has mode 0640, so that others may read or write it", NULL);
    close_sealed(&s);
    chmod(in_folder("a.key"), 0600);
    open_sealed(&s, "a");
    assert_int_equal(weft_control_flush(&s.p.a), WEFT_OK);
    unlink(in_folder("a.key"));
    assert_refused(&s, "it does not know key", "No such file");
    close_sealed(&s);
    make_key("a.key");
}

#define ID "0123456789abcdef"
#define K8 "00112233445566"

/* Files as they may be, and what is said of those that hold no key. */
static void files_of_keys(void **state)
{
    static const struct {
        const char *text, *says; /* NULL: it is a key */
    } rows[] = {
        {"weft-key-1 " ID " " K8 K8 K8 K8 "01234567", NULL},
        {"weft-key-1 " ID " " K8 K8 K8 K8 "01234567\n", NULL},
        {"weft-key-1 " ID " " K8 K8 K8 K8 "012345\n", "a key of less than 32 bytes"},
        {"weft-key-1 " ID " " K8 K8 K8 K8 "0123456\n", "holds no key of weft"},
        {"weft-key-1 " ID " " K8 K8 K8 K8 "01234567\n\n", "holds no key of weft"},
        {"weft-key-1 " ID " " K8 K8 K8 K8 "0123456F", "holds no key of weft"},
        {"weft-key-1 0123456789abcde " K8 K8 K8 K8 "01234567", "holds no key of weft"},
        {"weft-key-2 " ID " " K8 K8 K8 K8 "01234567", "holds no key of weft"},
        {"", "holds no key of weft"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_secret *secret = weft_secret_open();
        const int fd = open(in_folder("row"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, rows[i].text, strlen(rows[i].text)), (ssize_t)strlen(rows[i].text));
        close(fd);
        const weft_status status = weft_secret_read(secret, in_folder("row"));
        if (status != (rows[i].says ? WEFT_E_CONFIG : WEFT_OK) || secret->bytes != (rows[i].says ? 0u : 32u))
            fail_msg("row %zu: %s, %u bytes", i, weft_status_name(status), secret->bytes);
        for (size_t at = 0; at < sizeof secret->text; at++) /* nothing of the file stays beside the key */
            assert_int_equal(secret->text[at], 0);
        if (rows[i].says && !strstr(weft_last_error(), rows[i].says))
            fail_msg("row %zu: '%s'", i, weft_last_error());
        weft_secret_close(secret);
    }
}

static void a_key_is_never_written_over(void **state)
{
    char id[WEFT_SECRET_ID];
    weft_secret *first = weft_secret_open(), *then = weft_secret_open();
    (void)state;
    make_key("own");
    assert_int_equal(weft_secret_read(first, in_folder("own")), WEFT_OK);
    assert_int_equal(weft_secret_make(in_folder("own"), id), WEFT_E_FILE);
    assert_int_equal(weft_secret_read(then, in_folder("own")), WEFT_OK);
    assert_memory_equal(first->key, then->key, 32);
    weft_secret_close(first);
    weft_secret_close(then);
}

/* Files of a key that others may read or write, or that are no files, are refused, and nothing of them is kept. */
static void who_may_read_a_key(void **state)
{
    static const struct {
        mode_t mode;
        bool others; /* it belongs to somebody else */
        const char *says;
    } rows[] = {
        {0600, false, NULL},
        {0400, false, NULL},
        {0640, false, "has mode 0640"},
        {0620, false, "has mode 0620"},
        {0602, false, "has mode 0602"},
        {0604, false, "has mode 0604"},
        {0600, true, "neither root nor who runs this"},
    };
    weft_secret *secret = weft_secret_open();
    static char lines[WEFT_SECRET_FILE + 1];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        make_key("mode");
        assert_int_equal(chmod(in_folder("mode"), rows[i].mode), 0);
        if (rows[i].others && chown(in_folder("mode"), 12345, 12345) != 0)
            continue; /* this is no root */
        const weft_status status = weft_secret_read(secret, in_folder("mode"));
        if (status != (rows[i].says ? WEFT_E_CONFIG : WEFT_OK) || (secret->bytes == 0) != (rows[i].says != NULL))
            fail_msg("row %zu: %s", i, weft_status_name(status));
        if (rows[i].says)
            assert_non_null(strstr(weft_last_error(), rows[i].says));
    }
    unlink(in_folder("mode"));
    assert_int_equal(mkfifo(in_folder("mode"), 0600), 0);
    assert_int_equal(weft_secret_read(secret, in_folder("mode")), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "is no file"));
    unlink(in_folder("mode"));
    FILE *file = fopen(in_folder("mode"), "w");
    assert_true(file && chmod(in_folder("mode"), 0600) == 0);
    memset(lines, 'a', sizeof lines);
    assert_int_equal(fwrite(lines, 1, sizeof lines, file), sizeof lines);
    fclose(file);
    assert_int_equal(weft_secret_read(secret, in_folder("mode")), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "it is no key"));
    unlink(in_folder("mode"));
    weft_secret_close(secret);
}

/* Keys differ in each part of their bytes. */
static void keys_are_random(void **state)
{
    weft_secret *first = weft_secret_open(), *then = weft_secret_open();
    (void)state;
    make_key("first");
    make_key("then");
    assert_int_equal(weft_secret_read(first, in_folder("first")), WEFT_OK);
    assert_int_equal(weft_secret_read(then, in_folder("then")), WEFT_OK);
    for (size_t at = 0; at < 32; at += 8)
        assert_memory_not_equal(first->key + at, then->key + at, 8);
    weft_secret_close(first);
    weft_secret_close(then);
}

/* An end has the keys at open that it answers for: the trainer all, a relay its own and those behind it. */
static void keys_that_an_end_needs(void **state)
{
    static const struct {
        const char *name; /* NULL: the trainer */
        const char *absent;
        bool refused;
    } rows[] = {
        {NULL, "a.key", true}, {NULL, "c.key", true}, {"a", "a.key", true},  {"a", "b.key", false},
        {"r", "b.key", true},  {"r", "a.key", false}, {"r", "c.key", false}, {"s", "c.key", true},
    };
    (void)state;
    need_library();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_site *site = load_keyed();
        weft_guard *guard = NULL;
        unlink(in_folder(rows[i].absent));
        const weft_status status = weft_guard_open(site, rows[i].name, &guard);
        make_key(rows[i].absent);
        if (status != (rows[i].refused ? WEFT_E_CONFIG : WEFT_OK))
            fail_msg("row %zu: %s: %s", i, weft_status_name(status), weft_last_error());
        weft_guard_close(guard);
        weft_site_free(site);
    }
}

static char line_said[512];

static void keep_line(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    (void)level;
    snprintf(line_said, sizeof line_said, "%s", line);
}

/* Each session says at its open whether weights go in plain. */
static void where_weights_go_in_plain(void **state)
{
    static const struct {
        const char *first, *then, *says;
    } rows[] = {
        {"stream", "stream", "messages and weights are secret ("},
        {"stream", "tcp", "so are weights that go by stream; the others go in plain"},
        {"tcp", "tcp", "weights go in plain by the providers"},
    };
    weft_log_sink sink = {WEFT_LOG_DEBUG, keep_line};
    (void)state;
    need_library();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[1024];
        weft_guard *guard = NULL;
        snprintf(text, sizeof text,
                 "[security]\nmode = tls\n[peers]\nkey_file = %s\n[peer.a]\nprovider = %s\n[peer.b]\nprovider = %s\n",
                 in_folder("*.key"), rows[i].first, rows[i].then);
        weft_site *site = load(text);
        weft_log_sink *before = weft_log_enter(&sink);
        assert_int_equal(weft_guard_open(site, NULL, &guard), WEFT_OK);
        weft_log_enter(before);
        if (!strstr(line_said, rows[i].says))
            fail_msg("row %zu: %s", i, line_said);
        weft_guard_close(guard);
        weft_site_free(site);
    }
}

static void copy_key(const char *from, const char *to)
{
    char command[800];
    snprintf(command, sizeof command, "cp -p '%s' '%s'", in_folder(from), in_folder(to));
    assert_int_equal(system(command), 0);
}

/* The next key opens beside the present one, which a rollout may still have. */
static void the_next_key(void **state)
{
    (void)state;
    need_library();
    sealed s;
    weft_status dialed, answered;
    char keys[300];
    make_key("b.next");
    for (int next = 0; next < 2; next++) {
        memset(&s, 0, sizeof s);
        copy_key(next ? "b.next" : "b.key", "rollout");
        snprintf(keys, sizeof keys, "key_file = %s", in_folder("rollout"));
        s.sites[0] = load_tls(keys, "");
        s.sites[1] = load_keyed();
        guard_both(&s, "b");
        connect_both(&s);
        shake(&s, &dialed, &answered);
        assert_true(s.p.a.sealed && s.p.b.sealed);
        assert_true(weft_control_proves(&s.p.b, "b"));
        assert_false(weft_control_proves(&s.p.b, "a"));
        assert_false(weft_control_proves(&s.p.a, "a") || weft_control_proves(&s.p.a, WEFT_GUARD_TRAINER));
        close_sealed(&s);
    }
    unlink(in_folder("b.next"));
}

/* ---- who may say HELLO for whom */

static weft_status vouched(sealed *s, const char *name, const char *relay, uint8_t hops)
{
    weft_wire_hello hello = {.hops = hops};
    snprintf(hello.name, sizeof hello.name, "%s", name);
    snprintf(hello.relay, sizeof hello.relay, "%s", relay);
    return weft_voucher_check(s->sites[1], &s->p.b, &hello);
}

static void names_of_others(void **state)
{
    (void)state;
    need_library();
    static const struct {
        const char *proved, *name, *relay;
        uint8_t hops;
        bool taken;
    } cases[] = {
        {"a", "a", "", 0, true},   {"a", "b", "", 0, false},  {"a", "b", "a", 1, false}, {"r", "r", "", 0, true},
        {"r", "b", "r", 1, true},  {"r", "b", "", 0, false},  {"r", "a", "r", 1, false}, {"r", "c", "s", 2, true},
        {"r", "c", "r", 1, false}, {"s", "c", "s", 1, true},  {"s", "b", "s", 1, false}, {"s", "b", "r", 1, false},
        {"b", "b", "r", 1, false}, {"s", "c", "r", 2, false}, {"a", "c", "s", 2, false}, {"s", "c", "s", 2, false},
        {"s", "d", "t", 2, true},  {"r", "d", "t", 3, true},  {"r", "d", "t", 2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sealed s;
        weft_status dialed, answered;
        open_sealed(&s, cases[i].proved);
        shake(&s, &dialed, &answered);
        assert_true(weft_control_proves(&s.p.b, cases[i].proved));
        weft_status status = vouched(&s, cases[i].name, cases[i].relay, cases[i].hops);
        if (status != (cases[i].taken ? WEFT_OK : WEFT_E_REFUSED))
            fail_msg("who proved %s, and says HELLO for %s by %s over %u hops: %s", cases[i].proved, cases[i].name,
                     cases[i].relay, cases[i].hops, weft_status_name(status));
        close_sealed(&s);
    }
}

/* ---- babble instead of a handshake */

static void babble(void **state)
{
    (void)state;
    need_library();
    for (uint64_t seed = 1; seed < 200; seed++) {
        sealed s;
        uint8_t bytes[3000];
        const size_t count = 1 + weft_mix64(seed) % sizeof bytes;
        open_sealed(&s, "a");
        if (seed % 2) { /* a handshake, with one byte changed */
            assert_int_equal(weft_control_flush(&s.p.a), WEFT_OK);
            const ssize_t got = recv(s.p.b.fd, bytes, sizeof bytes, MSG_DONTWAIT);
            assert_true(got > 0);
            bytes[1 + weft_mix64(seed + 1) % (size_t)(got - 1)] ^= (uint8_t)(1 + weft_mix64(seed + 2) % 255);
            assert_int_equal(write(s.p.a.fd, bytes, (size_t)got), got);
        } else {
            for (size_t i = 0; i < count; i++)
                bytes[i] = (uint8_t)weft_mix64(seed * 10000 + i);
            bytes[0] = seed % 4 ? 22 : bytes[0];
            assert_int_equal(write(s.p.a.fd, bytes, count), (ssize_t)count);
        }
        for (int turn = 0; turn < 5 && s.p.b.fd >= 0; turn++)
            if (weft_control_fill(&s.p.b) != WEFT_OK)
                weft_control_hang_up(&s.p.b);
        assert_false(s.p.b.sealed);
        close_sealed(&s);
    }
}

/* A hello of 64 KiB, of which as much is read as anybody may send who has proved nothing. */
static void a_long_hello(void **state)
{
    (void)state;
    need_library();
    sealed s;
    uint8_t record[5 + 4096] = {22, 3, 1, 16, 0, 1, 1, 0, 0};
    weft_status status = WEFT_OK;
    open_sealed(&s, "a");
    const uint64_t most = s.sites[1]->guests.bytes;
    uint64_t sent = 0;
    for (; status == WEFT_OK && sent < 4 * most; sent += sizeof record) {
        assert_int_equal(write(s.p.a.fd, record, sizeof record), sizeof record);
        memset(record + 5, 0, 4); /* all but the first go on with it */
        status = weft_control_fill(&s.p.b);
    }
    assert_int_not_equal(status, WEFT_OK);
    assert_true(sent > most && sent <= most + 2 * sizeof record);
    assert_non_null(strstr(weft_last_error(), "it sent more than guest_bytes"));
    close_sealed(&s);
}

/* ---- no handshake at all */

/* An end that speaks without tls is called by that name, whichever end dials. */
static void plain_talk(void **state)
{
    (void)state;
    need_library();
    static const uint8_t plain[64] = {1, 0, 40, 0, 0, 0, 0, 0, 'w', 'e', 'f', 't'};
    for (int dials = 0; dials < 2; dials++) {
        sealed s;
        open_sealed(&s, "a");
        if (!dials)
            assert_int_equal(weft_control_flush(&s.p.a), WEFT_OK);
        assert_int_equal(write(dials ? s.p.a.fd : s.p.b.fd, plain, sizeof plain), sizeof plain);
        assert_int_equal(dials ? weft_control_fill(&s.p.b) : weft_control_flush(&s.p.a), WEFT_E_CONFIG);
        if (!strstr(weft_last_error(), "it speaks without tls"))
            fail_msg("%s", weft_last_error());
        uint8_t answer[512] = {0}; /* who was dialed says so in words that the other end can read */
        assert_true(!dials || recv(s.p.a.fd, answer, sizeof answer, MSG_DONTWAIT) > 0);
        assert_true(!dials || memmem(answer, sizeof answer, "write [security] mode = tls", 27));
        close_sealed(&s);
    }
}

/* ---- what is left of a key */

/* Counts the places in writable memory that hold `key`, which is kept inverted, where core dumps would have it. */
static uint32_t places_of(const uint8_t inverted[32])
{
    char line[512];
    FILE *maps = fopen("/proc/self/smaps", "r");
    unsigned long from = 0, to = 0;
    bool writable = false;
    uint32_t found = 0;
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        char mode[8];
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) == 3) {
            from = begin;
            to = end;
            writable = mode[0] == 'r' && mode[1] == 'w';
        }
        if (strncmp(line, "VmFlags:", 8) != 0 || !writable || strstr(line, " dd"))
            continue;
        const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        static uint8_t block[1 << 16];
        for (unsigned long at = from; at < to; at += sizeof block - 32) {
            const size_t wanted = to - at < sizeof block ? to - at : sizeof block;
            const ssize_t got = pread(memory, block, wanted, (off_t)at);
            for (ssize_t i = 0; i + 32 <= got; i++) {
                size_t same = 0;
                while (same < 32 && (block[i + (ssize_t)same] ^ inverted[same]) == 255)
                    same++;
                found += same == 32 && (at + (unsigned long)i < (unsigned long)(uintptr_t)block ||
                                        at + (unsigned long)i >= (unsigned long)(uintptr_t)block + sizeof block);
            }
        }
        explicit_bzero(block, sizeof block);
        close(memory);
    }
    fclose(maps);
    return found;
}

static void read_inverted(const char *name, uint8_t inverted[32])
{
    char line[256], pair[3] = "";
    const int fd = open(in_folder(name), O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, line, sizeof line), 11 + 16 + 1 + 64 + 1);
    close(fd);
    for (int i = 0; i < 32; i++) {
        memcpy(pair, line + 28 + 2 * i, 2);
        inverted[i] = (uint8_t)~strtoul(pair, NULL, 16);
    }
    explicit_bzero(line, sizeof line);
    explicit_bzero(pair, sizeof pair);
}

/* While both ends talk, and after, no copy of the key lies where a core dump would have it. */
static void no_key_is_left(void **state)
{
    (void)state;
    need_library();
#ifdef WEFT_SANITIZE_ADDRESS
    skip(); /* its shadow and quarantine are memory of gigabytes to look through */
#endif
#ifdef WEFT_SANITIZE_THREAD
    skip();
#endif
    sealed s;
    uint8_t inverted[32], known[32];
    weft_status dialed, answered;
    read_inverted("a.key", inverted);
    static volatile uint8_t witness[32];
    for (int i = 0; i < 32; i++)
        known[i] = (uint8_t) ~(witness[i] = (uint8_t)(weft_mix64(77) >> i % 8 * 8) + (uint8_t)i);
    assert_true(places_of(known) > 0); /* what is there is found */
    weft_secret *secret = weft_secret_open();
    assert_int_equal(weft_secret_read(secret, in_folder("a.key")), WEFT_OK);
    assert_int_equal(places_of(inverted), 0); /* core dumps leave it out, though it is there */
    weft_secret_close(secret);
    open_sealed(&s, "a");
    shake(&s, &dialed, &answered);
    assert_true(s.p.a.sealed && s.p.b.sealed);
    assert_int_equal(places_of(inverted), 0);
    for (int end = 0; end < 2; end++) /* where no core dump looks */
        for (size_t i = 0; i < sizeof s.guards[end]->secret->key; i++)
            assert_int_equal(s.guards[end]->secret->key[i], 0);
    close_sealed(&s);
    assert_int_equal(places_of(inverted), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_of_messages),
        cmocka_unit_test(a_reset_is_named),
        cmocka_unit_test(nothing_waits_unseen),
        cmocka_unit_test(nothing_goes_before_proof),
        cmocka_unit_test(keys_that_differ),
        cmocka_unit_test(files_gone_bad),
        cmocka_unit_test(files_of_keys),
        cmocka_unit_test(a_key_is_never_written_over),
        cmocka_unit_test(who_may_read_a_key),
        cmocka_unit_test(keys_are_random),
        cmocka_unit_test(keys_that_an_end_needs),
        cmocka_unit_test(where_weights_go_in_plain),
        cmocka_unit_test(the_next_key),
        cmocka_unit_test(names_of_others),
        cmocka_unit_test(babble),
        cmocka_unit_test(a_long_hello),
        cmocka_unit_test(plain_talk),
        cmocka_unit_test(no_key_is_left),
    };
    return cmocka_run_group_tests(tests, open_keys, close_keys);
}

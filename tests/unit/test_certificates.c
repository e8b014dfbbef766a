/* Names that are proved by certificates: which ones an end takes, of others and of itself, and when files are read
 * anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/sealed_pair.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool made;

static int make_files(void **state)
{
    char command[700];
    (void)state;
    set_up(state);
    snprintf(command, sizeof command, "bash '%s/tests/support/certificates.sh' '%s'", getenv("WEFT_SOURCE"),
             scratch.folder);
    made = !weft_library_absence()[0] && system("command -v openssl >/dev/null") == 0;
    return made ? system(command) : 0;
}

static void need_files(void)
{
    if (!made)
        skip();
}

/* A file under another name, put there at one moment, as a renewal does. */
static void put_file(const char *from, const char *to)
{
    char command[1000];
    snprintf(command, sizeof command, "cp '%s' '%s/new' && mv '%s/new' '%s'", in_folder(from), scratch.folder,
             scratch.folder, in_folder(to));
    assert_int_equal(system(command), 0);
}

/* The files of one end, as RUN.pem, RUN.key and RUN.ca. */
static weft_site *load_certificates(const char *run, const char *ca, const char *certificate, const char *key)
{
    char text[1200], name[3][64];
    const char *from[] = {ca, certificate, key}, *const ends[] = {"ca", "pem", "key"};
    for (int i = 0; i < 3; i++) {
        char source[64];
        snprintf(source, sizeof source, "%s.%s", from[i], i == 2 ? "key" : "pem");
        snprintf(name[i], sizeof name[i], "%s.%s", run, ends[i]);
        put_file(source, name[i]);
    }
    snprintf(text, sizeof text,
             "[security]\nmode = tls\nca = %s\ncertificate = %s\nkey = %s\n[peers]\n[peer.a]\n[peer.b]\n",
             in_folder(name[0]), in_folder(name[1]), in_folder(name[2]));
    return load(text);
}

/* ---- this end's own */

static void own_files(void **state)
{
    static const struct {
        const char *ca, *certificate, *key, *name, *says; /* NULL: taken */
    } rows[] = {
        {"ca", "a", "a", "a", NULL},
        {"ca", "trainer", "trainer", NULL, NULL},
        {"ca", "b", "b", "a", "it is not for a; it needs the DNS name a among its alternative names"},
        {"ca", "a", "a", NULL, "it is not for trainer"},
        {"ca", "pattern", "pattern", "a.site.example", "it is not for a.site.example"},
        {"ca", "nameless", "nameless", "a", "it is not for a"},
        {"ca", "a", "b", "a", "it is not the key of certificate = "},
        {"ca", "early", "early", "a", "it begins on 2099-01-01"},
        {"ca", "expired", "expired", "a", "it ended on 2001-01-01"},
        {"ca", "unbegun", "unbegun", "a", "it begins on a day that cannot be read"},
        {"ca", "unended", "unended", "a", "it ended on a day that cannot be read"},
    };
    (void)state;
    need_files();
    for (size_t i = 0; i < COUNT(rows); i++) {
        weft_guard *guard = NULL;
        weft_site *site = load_certificates("own", rows[i].ca, rows[i].certificate, rows[i].key);
        const weft_status status = weft_guard_open(site, rows[i].name, &guard);
        if (status != (rows[i].says ? WEFT_E_CONFIG : WEFT_OK))
            fail_msg("row %zu: %s: %s", i, weft_status_name(status), weft_last_error());
        if (rows[i].says && !strstr(weft_last_error(), rows[i].says))
            fail_msg("row %zu: '%s' does not say '%s'", i, weft_last_error(), rows[i].says);
        weft_guard_close(guard);
        weft_site_free(site);
    }
}

/* ---- the other end's */

/* `home` dials, as `name`; `there` is dialed: authority and certificate of each. */
typedef struct meeting {
    const char *home[2], *name, *there[2], *answers_as;
    const char *said_home, *said_there; /* both NULL: they meet */
} meeting;

static void open_meeting(sealed *s, const meeting *m)
{
    memset(s, 0, sizeof *s);
    s->sites[0] = load_certificates("home", m->home[0], m->home[1], m->home[1]);
    s->sites[1] = load_certificates("there", m->there[0], m->there[1], m->there[1]);
    if (weft_guard_open(s->sites[0], m->name, &s->guards[0]) != WEFT_OK ||
        weft_guard_open(s->sites[1], m->answers_as, &s->guards[1]) != WEFT_OK)
        fail_msg("%s", weft_last_error());
}

static void assert_meets(sealed *s, size_t row, const meeting *m)
{
    weft_status dialed, answered;
    connect_both(s);
    shake(s, &dialed, &answered);
    if ((s->p.a.sealed && s->p.b.sealed) != (!m->said_home && !m->said_there))
        fail_msg("row %zu: '%s', '%s'", row, s->said[0], s->said[1]);
    if ((m->said_home && !strstr(s->said[0], m->said_home)) || (m->said_there && !strstr(s->said[1], m->said_there)))
        fail_msg("row %zu: '%s', '%s'", row, s->said[0], s->said[1]);
    close_pair(&s->p);
}

static void other_files(void **state)
{
    static const meeting rows[] = {
        {{"ca", "a"}, "a", {"ca", "trainer"}, NULL, NULL, NULL},
        {{"ca", "stranger"}, "a", {"ca", "trainer"}, NULL, NULL, "its certificate is not taken"},
        {{"ca", "a"}, "a", {"foreign", "impostor"}, NULL, "its certificate is not taken", NULL},
        {{"ca", "a"}, "a", {"ca", "b"}, "b", "its certificate is not for trainer", NULL}, /* a peer as the trainer */
        {{"foreign", "a"}, "a", {"ca", "trainer"}, NULL, "its certificate is not taken", NULL},
    };
    (void)state;
    need_files();
    for (size_t i = 0; i < COUNT(rows); i++) {
        sealed s;
        open_meeting(&s, &rows[i]);
        assert_meets(&s, i, &rows[i]);
        close_sealed(&s);
    }
}

/* A certificate proves its name, and no other, no part of one, and nothing by a pattern. */
static void names_that_are_proved(void **state)
{
    static const meeting meets = {{"ca", "b"}, "b", {"ca", "trainer"}, NULL, NULL, NULL};
    static const char *const others[] = {"a", "c.b", "", "trainer", "*", "B.a", "b."};
    weft_status dialed, answered;
    sealed s;
    (void)state;
    need_files();
    open_meeting(&s, &meets);
    connect_both(&s);
    assert_int_equal(weft_control_flush(&s.p.a), WEFT_OK);
    assert_int_equal(weft_control_fill(&s.p.b), WEFT_OK);
    assert_false(weft_seal_proves(s.p.b.seal, "b")); /* the handshake is under way */
    shake(&s, &dialed, &answered);
    assert_true(weft_control_proves(&s.p.b, "b"));
    for (size_t i = 0; i < COUNT(others); i++)
        if (weft_control_proves(&s.p.b, others[i]))
            fail_msg("'%s' is proved", others[i]);
    close_sealed(&s);
}

/* ---- renewal */

/* What is put in place of a file while the end runs counts for its next connection. */
static void files_that_change(void **state)
{
    static const struct {
        const char *from[2], *to[2];
        meeting then;
    } rows[] = {
        {{"long.pem", "long.key"}, {"home.pem", "home.key"}, {.said_home = NULL}},
        {{"b.pem"}, {"home.pem"}, {.said_home = "it is not the key of certificate"}},
        {{"b.key"}, {"home.key"}, {.said_home = "it is not the key of certificate"}},
        {{"foreign.pem"}, {"home.ca"}, {.said_home = "its certificate is not taken"}},
        {{"a.pem", "a.key"}, {"there.pem", "there.key"}, {.said_there = "it is not for trainer"}},
        {{"b.key"}, {"there.key"}, {.said_there = "it is not the key of certificate"}},
        {{"foreign.pem"}, {"there.ca"}, {.said_there = "its certificate is not taken"}},
    };
    static const meeting meets = {{"ca", "a"}, "a", {"ca", "trainer"}, NULL, NULL, NULL};
    (void)state;
    need_files();
    for (size_t i = 0; i < COUNT(rows); i++) {
        sealed s;
        open_meeting(&s, &meets);
        assert_meets(&s, i, &meets);
        for (int f = 0; f < 2 && rows[i].from[f]; f++)
            put_file(rows[i].from[f], rows[i].to[f]);
        memset(s.said, 0, sizeof s.said);
        assert_meets(&s, i, &rows[i].then);
        close_sealed(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_files),
        cmocka_unit_test(other_files),
        cmocka_unit_test(names_that_are_proved),
        cmocka_unit_test(files_that_change),
    };
    return cmocka_run_group_tests(tests, make_files, close_keys);
}

/* sealed_pair.h - two control connections that face each other by tls, with keys in a folder of the test's own. */
#ifndef WEFT_TESTS_SEALED_PAIR_H
#define WEFT_TESTS_SEALED_PAIR_H

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "security/guard.h"
#include "security/library.h"
#include "security/secret.h"
#include "tests/support/control_pair.h"
#include "tests/support/site_load.h"

/* Trainer and rollout a, each with its site and guard. */
typedef struct sealed {
    weft_site *sites[2];
    weft_guard *guards[2];
    pair p;            /* a dials b */
    char said[2][512]; /* what either end said when it failed */
} sealed;

/* The path of a file in the folder; good until the fourth call after. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][300];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch.folder, name);
    return path;
}

static inline void make_key(const char *name)
{
    char id[WEFT_SECRET_ID];
    unlink(in_folder(name));
    assert_int_equal(weft_secret_make(in_folder(name), id), WEFT_OK);
}

static inline void make_keys(void)
{
    for (const char *const *name = (const char *const[]){"a", "b", "c", "d", "r", "s", "t", NULL}; *name; name++) {
        char file[16];
        snprintf(file, sizeof file, "%s.key", *name);
        make_key(file);
    }
}

/* The folder of a group of tests, with keys where there is OpenSSL. */
static inline int open_keys(void **state)
{
    be_quiet(state);
    set_up(state);
    if (!weft_library_absence()[0])
        make_keys();
    return 0;
}

static inline int close_keys(void **state)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch.folder);
    (void)state;
    return system(command) != 0;
}

/* A site of tls whose keys lie in the folder; `keys` are lines for [peers]. */
static inline weft_site *load_tls(const char *keys, const char *more)
{
    char text[2048];
    snprintf(text, sizeof text,
             "[security]\nmode = tls\n[peers]\n%s\n[peer.a]\n[peer.b]\nvia = r\n[peer.r]\nrelay = 127.0.0.1:7118\n"
             "[peer.s]\nvia = r\nrelay = 127.0.0.1:7119\n[peer.c]\nvia = s\n[peer.t]\nvia = s\n"
             "relay = 127.0.0.1:7120\n[peer.d]\nvia = t\n%s",
             keys, more);
    return load(text);
}

static inline weft_site *load_keyed(void)
{
    char keys[600];
    snprintf(keys, sizeof keys, "key_file = %s\nkey_file_next = %s", in_folder("*.key"), in_folder("*.next"));
    return load_tls(keys, "");
}

static inline void guard_both(sealed *s, const char *name)
{
    if (weft_guard_open(s->sites[0], name, &s->guards[0]) != WEFT_OK ||
        weft_guard_open(s->sites[1], NULL, &s->guards[1]) != WEFT_OK)
        fail_msg("%s", weft_last_error());
}

static inline void connect_both(sealed *s)
{
    connect_pair(&s->p.a, &s->p.b);
    weft_control_guard(&s->p.a, s->guards[0], WEFT_GUARD_TRAINER);
    weft_control_guard(&s->p.b, s->guards[1], NULL);
}

static inline weft_status noted(sealed *s, int end, weft_status status)
{
    if (status != WEFT_OK)
        snprintf(s->said[end], sizeof s->said[end], "%s", weft_last_error());
    return status;
}

/* Takes turns until both ends are proved, or have failed as far as they do: the two ends' statuses. */
static inline void shake(sealed *s, weft_status *dialed, weft_status *answered)
{
    *dialed = *answered = WEFT_OK;
    for (int turn = 0; turn < 50 && !(s->p.a.sealed && s->p.b.sealed); turn++) {
        if (*dialed == WEFT_OK)
            *dialed = noted(s, 0, weft_control_flush(&s->p.a));
        if (*answered == WEFT_OK)
            *answered = noted(s, 1, weft_control_fill(&s->p.b));
    }
}

static inline void close_sealed(sealed *s)
{
    close_pair(&s->p);
    weft_guard_close(s->guards[0]);
    weft_guard_close(s->guards[1]);
    weft_site_free(s->sites[0]);
    weft_site_free(s->sites[1]);
    memset(s, 0, sizeof *s);
}

static inline void open_sealed(sealed *s, const char *name)
{
    memset(s, 0, sizeof *s);
    s->sites[0] = load_keyed();
    s->sites[1] = load_keyed();
    guard_both(s, name);
    connect_both(s);
}

#endif

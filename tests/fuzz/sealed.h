/* sealed.h - both ends' guards, with one key in a folder of the target's own, for targets that make handshakes. */
#ifndef WEFT_TESTS_FUZZ_SEALED_H
#define WEFT_TESTS_FUZZ_SEALED_H

#include <sys/stat.h>
#include <unistd.h>

#include "security/library.h"
#include "security/seal.h"
#include "security/secret.h"
#include "site/site.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/site_scratch.h"

static struct {
    weft_site *site;
    weft_guard *guards[2];
} keys;

static site_scratch scratch;
static char key[256];

static inline void close_keys(void)
{
    unlink(key);
    site_scratch_close(&scratch);
}

/* The key's file stays until the end, because each connection reads it. */
static inline void open_keys(void)
{
    char text[512], id[WEFT_SECRET_ID];
    site_scratch_open(&scratch);
    atexit(close_keys);
    snprintf(key, sizeof key, "%s/key", scratch.folder);
    snprintf(text, sizeof text, "[security]\nmode = tls\nkey_file = %s\n[peer.a]\n", key);
    site_scratch_write(&scratch, text, strlen(text));
    FUZZ_MUST(weft_secret_make(key, id) == WEFT_OK);
    FUZZ_MUST(weft_site_load(scratch.path, NULL, 0, &keys.site) == WEFT_OK);
    FUZZ_MUST(weft_guard_open(keys.site, "a", &keys.guards[0]) == WEFT_OK);
    FUZZ_MUST(weft_guard_open(keys.site, NULL, &keys.guards[1]) == WEFT_OK);
}

/* False where there is no OpenSSL. */
static inline bool have_keys(void)
{
    if (*weft_library_absence())
        return false;
    if (!keys.site)
        open_keys();
    return true;
}

#endif

/* fleet_keys.h - a fleet under [security] mode = tls, with a key for each rollout in a folder of the test's own. */
#ifndef WEFT_TESTS_FLEET_KEYS_H
#define WEFT_TESTS_FLEET_KEYS_H

#include "security/library.h"
#include "security/secret.h"
#include "tests/support/fleet.h"
#include "tests/support/folder.h"

typedef struct fleet_keys {
    char folder[200];
    char file[240]; /* the override that names them */
} fleet_keys;

/* As fleet_open; NULL where there is no OpenSSL. `keys` must live as long as the fleet. */
static inline fleet *fleet_keys_open(fleet_keys *keys, fleet_size size, const char *const *overrides)
{
    if (weft_library_absence()[0])
        return NULL;
    folder_open(keys->folder, sizeof keys->folder);
    snprintf(keys->file, sizeof keys->file, "peers.key_file=%s/*.key", keys->folder);
    fleet *f = fleet_open(size, overrides);
    for (unsigned i = 0; i < FLEET_ROLLOUTS; i++) {
        char path[280], id[WEFT_SECRET_ID];
        snprintf(path, sizeof path, "%s/%s.key", keys->folder, f->rollouts[i].name);
        assert_int_equal(weft_secret_make(path, id), WEFT_OK);
    }
    f->overrides[f->override_count++] = "security.mode=tls";
    f->overrides[f->override_count++] = keys->file;
    return f;
}

static inline void fleet_keys_close(fleet_keys *keys, fleet *f)
{
    if (!f)
        return;
    fleet_close(f);
    folder_close(keys->folder);
}

/* The fleet; a test without one is skipped. */
static inline fleet *fleet_keys_need(void **state)
{
    if (!*state)
        skip();
    return *state;
}

#endif

/* fleet_stored.h - a fleet whose trainer has a store in a folder of the test's own, and what the store leads to. */
#ifndef WEFT_TESTS_FLEET_STORED_H
#define WEFT_TESTS_FLEET_STORED_H

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layout/layout.h"
#include "store/store.h"
#include "tests/support/fleet.h"
#include "tests/support/folder.h"

static char folder[300], key[320];

static inline fleet *open_stored(fleet_size size, const char *extra)
{
    const char *const overrides[] = {key, "session.close_deadline=20s", extra, NULL};
    folder_open(folder, sizeof folder);
    snprintf(key, sizeof key, "trainer.store=%s", folder);
    return fleet_open(size, overrides);
}

static inline int setup(void **state)
{
    *state = open_stored(FLEET_TILES, NULL);
    return 0;
}

static inline int teardown(void **state)
{
    fleet_close(*state);
    folder_close(folder);
    return 0;
}

/* Weights beside the fleet's, for versions of the store. */
typedef struct image {
    weft_store *store;
    fleet_model model;
    uint8_t *dense; /* room to compare */
} image;

static inline void image_open(const fleet *f, image *at)
{
    at->dense = malloc(f->bytes);
    fleet_model_open(&at->model, f->layout, 0);
    memset(at->dense, 0, f->bytes);
    fleet_model_put(&at->model, at->dense);
    if (weft_store_open(folder, NULL, &at->store) != WEFT_OK)
        fail_msg("%s", weft_last_error());
}

static inline void image_close(image *at)
{
    weft_store_close(at->store);
    fleet_model_close(&at->model);
    free(at->dense);
}

/* The store leads to the version, whose bits are those of `i` in the history. */
static inline void leads_to(const fleet *f, image *at, const weft_version *version, uint64_t i)
{
    if (weft_store_apply(at->store, version, f->layout, at->model.pieces, at->model.piece_count, NULL, NULL) != WEFT_OK)
        fail_msg("version %llu: %s", (unsigned long long)version->number, weft_last_error());
    fleet_model_get(&at->model, at->dense);
    assert_memory_equal(at->dense, f->history[i].dense, f->bytes);
}

static inline void wait_recorded(fleet *f, uint64_t recorded)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    while (fleet_stats(f->trainer.session).recorded < recorded) {
        if (fleet_now_ms() > end)
            fail_msg("%llu versions are recorded, not %llu",
                     (unsigned long long)fleet_stats(f->trainer.session).recorded, (unsigned long long)recorded);
        fleet_sleep_ms(2);
    }
}

/* A trainer's life in a run (0: a drawn one), which begins with these bits. */
static inline weft_session *life_begin(fleet *f, image *at, uint64_t run, const uint8_t *dense)
{
    weft_site *site = fleet_site(f, NULL);
    weft_session *session = NULL;
    const weft_options options = {.size = sizeof options, .log = f->log, .log_user = f->trainer.name, .run = run};
    assert_int_equal(weft_trainer_open(site, f->layout, &options, &session), WEFT_OK);
    weft_site_free(site);
    fleet_model_put(&at->model, dense);
    assert_int_equal(weft_bind(session, at->model.pieces, at->model.piece_count, NULL, 0, 0), WEFT_OK);
    return session;
}

static inline void bits_publish(weft_session *session, image *at, uint64_t number, const uint8_t *dense)
{
    fleet_model_put(&at->model, dense);
    assert_int_equal(weft_publish(session, number, NULL, NULL, NULL), WEFT_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif

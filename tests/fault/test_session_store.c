/* A trainer with a store: each version is there bit for bit, whatever disk and journal do, and publish never fails. */
#include <dirent.h>
#include <time.h>

#include "peer/peer.h"
#include "tests/support/fleet_stored.h"
#include "trainer/recorder.h"

/* ---- what the store has */

static weft_status tell_fault(void *user, const weft_store_fault *fault)
{
    (void)user;
    fail_msg("%s: version %llu: %s", fault->file ? fault->file : "lost", (unsigned long long)fault->version.number,
             fault->text);
    return WEFT_OK;
}

/* Every version from `first` on is in the store, and every file of the store is whole. */
static void has_all(const fleet *f, uint64_t first)
{
    image at;
    uint64_t faults;
    image_open(f, &at);
    for (uint64_t i = first; i < f->history_count; i++) {
        const weft_version version = {0, f->history[i].number, 0};
        leads_to(f, &at, &version, i);
    }
    assert_int_equal(weft_store_check(at.store, NULL, tell_fault, NULL, &faults), WEFT_OK);
    image_close(&at);
}

static uint64_t anchors_of(const fleet *f)
{
    image at;
    uint64_t count = 0;
    image_open(f, &at);
    for (uint64_t i = 0; i < at.store->count; i++)
        count += weft_store_has(&at.store->versions[i], WEFT_STORE_ANCHOR);
    image_close(&at);
    return count;
}

/* ---- each version */

static void versions_are_there(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, "first");
    fleet_join(f, 0, FLEET_EMPTY);
    for (uint64_t i = 0; i < 70; i++) {
        if (i % 5 == 0)
            wait_recorded(f, i + 1); /* or the journal would not keep them until they are written */
        fleet_publish(f, i % 7 == 0 ? 500 : 20);
    }
    fleet_change(f->layout, f->dense, 20, &f->seed);
    fleet_publish_dense(f, "last");
    fleet_catch_up(f, 0);
    fleet_stop_trainer(f);
    has_all(f, 0);
    assert_int_equal(anchors_of(f), 2); /* of versions 0 and 64 */
    image at;
    char text[16];
    uint64_t bytes;
    image_open(f, &at);
    for (uint64_t number = 0; number < 72; number += 64) {
        const weft_version version = {0, number, 0};
        assert_int_equal(weft_store_attachment(at.store, &version, text, sizeof text, &bytes), WEFT_OK);
        assert_memory_equal(text, "first", 5);
    }
    const weft_version last = {0, f->newest, 0};
    assert_int_equal(weft_store_attachment(at.store, &last, text, sizeof text, &bytes), WEFT_OK);
    assert_memory_equal(text, "last", 4);
    image_close(&at);
}

/* A trainer that comes back with the bits of an earlier version goes on there, in a later run. */
static void a_run_follows_another(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    for (int i = 0; i < 4; i++)
        fleet_publish(f, 20);
    fleet_stop_trainer(f);
    memcpy(f->dense, f->history[2].dense, f->bytes);
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    for (int i = 0; i < 3; i++)
        fleet_publish(f, 20);
    fleet_stop_trainer(f);
    has_all(f, 5); /* run 0 names the last run that has the number */
    image at;
    image_open(f, &at);
    assert_int_equal(at.store->count, 9);
    assert_true(at.store->versions[4].version.run < at.store->versions[5].version.run);
    assert_int_equal(at.store->versions[5].parent, 2);
    for (uint64_t i = 0; i < 5; i++)
        leads_to(f, &at, &at.store->versions[i].version, i);
    image_close(&at);
}

/* ---- what the disk does not take */

/* Makes the run's folder a file, so that nothing can be written there, and back. */
static void disk_fails(bool fails)
{
    char run[600], away[620];
    DIR *listed = opendir(folder);
    for (const struct dirent *entry; (entry = readdir(listed));)
        if (strlen(entry->d_name) == 16)
            snprintf(run, sizeof run, "%s/%s", folder, entry->d_name);
    closedir(listed);
    snprintf(away, sizeof away, "%s.away", run);
    if (fails) {
        assert_int_equal(rename(run, away), 0);
        fclose(fopen(run, "w"));
    } else {
        assert_int_equal(remove(run), 0);
        assert_int_equal(rename(away, run), 0);
    }
}

static void an_anchor_closes_a_gap(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    fleet_publish(f, 20);
    wait_recorded(f, 2);
    disk_fails(true);
    fleet_publish(f, 20);
    fleet_sleep_ms(100);
    fleet_publish(f, 20);
    disk_fails(false);
    fleet_publish(f, 20);
    wait_recorded(f, 5); /* after a rest of five seconds */
    fleet_publish(f, 20);
    wait_recorded(f, 6);
    assert_int_equal(fleet_stats(f->trainer.session).unrecorded, 0);
    fleet_stop_trainer(f);
    has_all(f, 0);
    assert_int_equal(anchors_of(f), 2);
}

static int setup_small_journal(void **state)
{
    *state = open_stored(FLEET_LARGE, "trainer.journal=16MiB");
    return 0;
}

static weft_recorder *recorder_of(const fleet *f)
{
    return f->trainer.session->trainer->publisher.recorder;
}

/* Nothing is tried before that time. */
static void rest_until(fleet *f, uint64_t ns)
{
    pthread_mutex_lock(&f->trainer.session->lock);
    recorder_of(f)->retry_ns = ns;
    weft_recorder_hear(recorder_of(f));
    pthread_mutex_unlock(&f->trainer.session->lock);
}

/* The disk fails for so long that the journal gives versions up, which are counted. The last one is in the store all
 * the same. */
static void the_journal_does_not_wait(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    disk_fails(true);
    for (int i = 0; i < 12; i++)
        fleet_publish(f, 1000);
    disk_fails(false);
    fleet_publish(f, 1000);
    rest_until(f, 0);
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    weft_stats_info stats;
    do {
        fleet_sleep_ms(2);
        stats = fleet_stats(f->trainer.session);
    } while (stats.recorded + stats.unrecorded < 14 && fleet_now_ms() < end);
    assert_true(stats.recorded + stats.unrecorded == 14 && stats.unrecorded > 0);
    fleet_stop_trainer(f);
    has_all(f, f->history_count - 1);
    assert_int_equal(anchors_of(f), 2);
    image at;
    image_open(f, &at);
    assert_int_equal(weft_store_find(at.store, 0, 1), WEFT_STORE_NONE);
    image_close(&at);
}

/* A write that failed rests, but the end tries it once more. */
static void the_end_tries_once_more(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    rest_until(f, UINT64_MAX);
    fleet_publish(f, 20);
    fleet_stop_trainer(f);
    has_all(f, f->history_count - 1);
}

static int setup_tight(void **state)
{
    *state = open_stored(FLEET_TILES, "trainer.store_level=tight");
    return 0;
}

/* Blocks in which nothing changes are not rebuilt for one. */
static void tight_updates_are_beside_the_others(void **state)
{
    fleet *f = *state;
    image at;
    fleet_start_trainer(f, "first");
    for (uint64_t i = 0; i < 10; i++) {
        wait_recorded(f, i + 1);
        fleet_publish(f, i % 3 == 0 ? 500 : 20);
    }
    wait_recorded(f, 11);
    f->dense[0] ^= 1;
    fleet_publish_dense(f, NULL);
    wait_recorded(f, 12);
    assert_int_equal(f->trainer.session->trainer->publisher.recorder->rebuilder.target.unit, 0); /* no later block */
    fleet_stop_trainer(f);
    has_all(f, 0);
    image_open(f, &at);
    for (uint64_t i = 1; i < at.store->count; i++) {
        const weft_store_version *v = &at.store->versions[i];
        assert_true(weft_store_has(v, WEFT_STORE_TIGHT));
        assert_true(v->files[WEFT_STORE_TIGHT].item.bytes < v->files[WEFT_STORE_UPDATE].item.bytes);
    }
    assert_int_equal(at.store->count, 12);
    image_close(&at);
}

/* A file whose bits have another digest than the version is not written, and that is told. */
static void wrong_bits_are_not_written(void **state)
{
    static const struct {
        const char *extra;
        uint64_t number;
        weft_store_kind kind;
    } rows[] = {{NULL, 64, WEFT_STORE_ANCHOR}, {"trainer.store_level=tight", 1, WEFT_STORE_TIGHT}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fleet *f = open_stored(FLEET_TILES, rows[i].extra);
        image at;
        fleet_start_trainer(f, NULL);
        wait_recorded(f, 1);
        rest_until(f, UINT64_MAX);
        f->newest = rows[i].number - 1;
        f->dense[0] ^= 1; /* an element that changes, because of the others an update says nothing */
        fleet_publish_dense(f, NULL);
        const weft_run *bits = f->trainer.session->trainer->publisher.shadow.binding.runs;
        while (!bits->data || !bits->count)
            bits++;
        *(uint8_t *)bits->data ^= 1;
        rest_until(f, 0);
        wait_recorded(f, 2);
        fleet_stop_trainer(f);
        image_open(f, &at);
        const uint64_t index = weft_store_find(at.store, 0, rows[i].number);
        assert_true(weft_store_has(&at.store->versions[index], WEFT_STORE_UPDATE));
        assert_false(weft_store_has(&at.store->versions[index], rows[i].kind));
        image_close(&at);
        teardown((void **)&f);
    }
}

static void a_run_is_not_mixed(void **state)
{
    fleet *f = *state;
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    fleet_publish(f, 20);
    fleet_stop_trainer(f);
    image at;
    weft_site *site = fleet_site(f, NULL);
    weft_session *session = NULL;
    weft_options options = {.size = sizeof options, .log = f->log, .log_user = f->trainer.name, .run = 5};
    assert_int_equal(weft_trainer_open(site, f->layout, &options, &session), WEFT_E_CONFIG);
    assert_non_null(strstr(weft_last_error(), "is not later"));
    image_open(f, &at);
    options.run = at.store->versions[1].version.run;
    assert_int_equal(weft_trainer_open(site, f->layout, &options, &session), WEFT_OK);
    assert_int_equal(weft_bind(session, at.model.pieces, at.model.piece_count, NULL, 0, 0), WEFT_E_STATE); /* zeros */
    assert_non_null(strstr(weft_last_error(), "with other bits"));
    fleet_model_put(&at.model, f->history[0].dense); /* the same call, with the bits of that version */
    assert_int_equal(weft_bind(session, at.model.pieces, at.model.piece_count, NULL, 0, 0), WEFT_OK);
    weft_close(session);
    image_close(&at);
    weft_site_free(site);
}

/* A life that goes over the versions of the one before goes on in the store. Another that makes other bits of one of
 * them writes nothing from there on. */
static void two_lives_of_a_run(void **state)
{
    fleet *f = *state;
    image at;
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    fleet_publish(f, 20);
    fleet_stop_trainer(f);
    const uint8_t *zeroth = f->history[0].dense, *first = f->history[1].dense;
    image_open(f, &at);
    const uint64_t run = at.store->versions[1].version.run;
    weft_session *session = life_begin(f, &at, run, zeroth);
    bits_publish(session, &at, 1, first);
    bits_publish(session, &at, 2, zeroth);
    assert_int_equal(weft_close(session), WEFT_OK);
    assert_int_equal(weft_store_refresh(at.store), WEFT_OK);
    assert_int_not_equal(weft_store_find(at.store, run, 2), WEFT_STORE_NONE);
    session = life_begin(f, &at, run, zeroth);
    bits_publish(session, &at, 1, zeroth);
    const weft_recorder *recorder = session->trainer->publisher.recorder;
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    for (bool broken = false; !broken && fleet_now_ms() < end;) {
        pthread_mutex_lock(&session->lock);
        broken = recorder->broken;
        pthread_mutex_unlock(&session->lock);
        fleet_sleep_ms(2);
    }
    assert_true(fleet_now_ms() < end);
    bits_publish(session, &at, 3, first);
    assert_int_equal(weft_close(session), WEFT_OK);
    assert_int_equal(weft_store_refresh(at.store), WEFT_OK);
    assert_int_equal(weft_store_find(at.store, run, 3), WEFT_STORE_NONE);
    image_close(&at);
}

/* A clock that was put back draws no run that is earlier than the store's last. */
static void a_drawn_run_is_later(void **state)
{
    const uint64_t far = ((uint64_t)time(NULL) + 1000000) << 32;
    fleet *f = *state;
    image at;
    weft_version held;
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    fleet_stop_trainer(f);
    image_open(f, &at);
    assert_int_equal(weft_close(life_begin(f, &at, far, f->history[0].dense)), WEFT_OK);
    weft_session *session = life_begin(f, &at, 0, f->history[0].dense);
    assert_int_equal(weft_held(session, &held), WEFT_OK);
    assert_true(held.run == far + 1);
    assert_int_equal(weft_close(session), WEFT_OK);
    image_close(&at);
}

static int setup_few(void **state)
{
    *state = open_stored(FLEET_TILES, "trainer.store_versions=1");
    return 0;
}

/* Somebody may be reading what was written a moment ago, so that nothing of that goes, whatever the site keeps. */
static void young_files_stay(void **state)
{
    fleet *f = *state;
    image at;
    fleet_start_trainer(f, NULL);
    wait_recorded(f, 1);
    fleet_publish(f, 20);
    fleet_stop_trainer(f);
    image_open(f, &at);
    const uint64_t run = at.store->versions[0].version.run;
    weft_session *session = life_begin(f, &at, run, f->history[0].dense);
    bits_publish(session, &at, 1, f->history[1].dense);
    for (uint64_t number = 63; number < 67; number++) /* an anchor is due, after which old versions go */
        bits_publish(session, &at, number, f->history[number & 1].dense);
    assert_int_equal(weft_close(session), WEFT_OK);
    assert_int_equal(weft_store_refresh(at.store), WEFT_OK);
    assert_int_equal(at.store->count, 6);
    assert_true(weft_store_has(&at.store->versions[3], WEFT_STORE_ANCHOR));
    assert_int_equal(at.store->versions[0].version.number, 0);
    image_close(&at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(versions_are_there),
        TEST(a_run_follows_another),
        TEST(an_anchor_closes_a_gap),
        cmocka_unit_test_setup_teardown(the_journal_does_not_wait, setup_small_journal, teardown),
        cmocka_unit_test_setup_teardown(the_end_tries_once_more, setup, teardown),
        cmocka_unit_test_setup_teardown(tight_updates_are_beside_the_others, setup_tight, teardown),
        cmocka_unit_test(wrong_bits_are_not_written),
        TEST(a_run_is_not_mixed),
        TEST(two_lives_of_a_run),
        TEST(a_drawn_run_is_later),
        cmocka_unit_test_setup_teardown(young_files_stay, setup_few, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

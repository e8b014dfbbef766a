/* A trainer whose store's disk hangs in any file operation. weft_close gives the recorder's thread up and says so, and
 * nothing waits for the disk. When the disk goes on, whatever was freed meanwhile, the thread comes to its end without
 * a word, leaves no unfinished file, and gives no name to a file that it had not named. A later trainer goes on there.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session/session.h"
#include "store/store.h"
#include "trainer/publish.h"
#include "trainer/recorder.h"

#include "tests/support/disk.h"
#include "tests/support/fleet.h"
#include "tests/support/folder.h"

static char folder[300], key[320];
static char said[512]; /* the line that gives the thread up */
static unsigned lines;

static void hear(void *f, weft_log_level level, const char *line)
{
    (void)f;
    (void)level;
    lines++;
    if (strstr(line, "is given up"))
        snprintf(said, sizeof said, "%s", line);
}

static fleet *world_open(const char *extra)
{
    const char *const overrides[] = {key, "session.close_deadline=20ms", extra, NULL};
    folder_open(folder, sizeof folder);
    snprintf(key, sizeof key, "trainer.store=%s", folder);
    fleet *f = fleet_open(FLEET_SMALL, overrides);
    f->heard = hear;
    said[0] = 0;
    return f;
}

static unsigned unfinished, files;

static int entry_count(const char *path, const struct stat *facts, int kind, struct FTW *at)
{
    (void)facts;
    unfinished += kind == FTW_F && strstr(path + at->base, ".tmp") != NULL;
    files += kind == FTW_F && !strstr(path + at->base, ".tmp");
    return 0;
}

static void files_count(void)
{
    unfinished = files = 0;
    nftw(folder, entry_count, 16, FTW_PHYS);
}

/* Waits until the thread hangs. False: it has written all, and did not come to the operation. */
static bool hangs_soon(fleet *f, uint64_t recorded)
{
    const uint64_t end = fleet_now_ms() + FLEET_WAIT_MS;
    while (fleet_now_ms() < end) {
        if (disk_is_hanging())
            return true;
        if (fleet_stats(f->trainer.session).recorded >= recorded)
            return disk_is_hanging();
        fleet_sleep_ms(1);
    }
    fail_msg("the thread neither writes nor hangs");
    return false;
}

/* Waits for the thread that was given up, which comes back now. */
static void thread_await(weft_recorder *recorder)
{
    pthread_mutex_t *lock = &recorder->publisher->session->lock;
    pthread_mutex_lock(lock);
    while (!recorder->done)
        pthread_cond_wait(&recorder->gone, lock);
    pthread_mutex_unlock(lock);
}

/* A file that no anchor leads to is lost with its anchor. No file is damaged. */
static weft_status file_is_whole(void *user, const weft_store_fault *fault)
{
    (void)user;
    if (fault->file)
        fail_msg("%s: version %llu: %s", fault->file, (unsigned long long)fault->version.number, fault->text);
    return WEFT_OK;
}

static void files_are_whole(void)
{
    weft_store *store;
    uint64_t faults;
    files_count();
    if (files == 0)
        return;
    assert_int_equal(weft_store_open(folder, NULL, &store), WEFT_OK);
    assert_int_equal(weft_store_check(store, NULL, file_is_whole, NULL, &faults), WEFT_OK);
    weft_store_close(store);
}

/* Another trainer goes on in the same store, whose disk is well. */
static void another_goes_on(void)
{
    const char *const overrides[] = {key, "session.close_deadline=20s", NULL};
    fleet *f = fleet_open(FLEET_SMALL, overrides);
    fleet_start_trainer(f, NULL);
    fleet_publish(f, 20);
    fleet_stop_trainer(f);
    weft_store *store;
    size_t count = 0;
    weft_store_entry *entries = calloc(64, sizeof *entries);
    assert_int_equal(weft_store_open(folder, NULL, &store), WEFT_OK);
    assert_int_equal(weft_store_list(store, entries, 64, &count), WEFT_OK);
    assert_true(count >= 2 && entries[count - 1].reachable && entries[count - 1].version.root == f->history[1].root);
    weft_store_close(store);
    free(entries);
    fleet_close(f);
}

/* Runs a trainer whose disk hangs in one operation. False: it does not come so far. */
static bool trainer_hangs(const char *extra, long operation)
{
    fleet *f = world_open(extra);
    disk_hangs(operation);
    fleet_start_trainer(f, "head");
    for (int i = 0; i < 9; i++) /* a merge is one of the files */
        fleet_publish(f, 20);
    bool hangs = hangs_soon(f, 10);
    weft_recorder *recorder = f->trainer.session->trainer->publisher.recorder;
    fleet_close(f);
    hangs = hangs || disk_is_hanging(); /* after it had written all, as it ends */
    assert_int_equal(said[0] != 0, hangs);
    if (hangs) {
        assert_non_null(strstr(said, folder));
        assert_non_null(strstr(said, "MB stay allocated"));
        assert_true(disk_is_hanging()); /* nobody waited for it */
        files_count();
        const unsigned before = files, heard = lines;
        disk_goes_on();
        thread_await(recorder);
        files_count();
        assert_true(files <= before + the_disk.naming);
        assert_int_equal(unfinished, 0);
        assert_int_equal(lines, heard);
    }
    disk_is_well();
    files_are_whole();
    if (hangs && operation % 4 == 0)
        another_goes_on();
    folder_close(folder);
    return hangs;
}

/* There are some two hundred operations, in rounds of about ten. WEFT_FULL=1 takes them one by one. */
static void the_disk_hangs_in_any_operation(void **state)
{
    const long step = getenv("WEFT_FULL") ? 1 : 7;
    long at = 0;
    (void)state;
    while (trainer_hangs(NULL, at))
        at += step;
    if (at < 100)
        fail_msg("only %ld operations could hang", at);
}

/* The thread comes back while it compares both ends of an update. */
static void the_disk_hangs_in_a_tight_update(void **state)
{
    (void)state;
    for (long at = 0; trainer_hangs("trainer.store_level=tight", at);)
        at += 23;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_disk_hangs_in_any_operation),
        cmocka_unit_test(the_disk_hangs_in_a_tight_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A folder that is watched: whoever waits there returns as soon as somebody wrote, in a folder that was there or in one
 * that is new, and otherwise when the time is over. A wait of an hour that the test's own limit ends is the failure.
 * Where nothing comes, nothing is walked; where inotify stays silent, as on NFS, times of folders tell. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "store/store.h"
#include "tests/support/folder.h"

#define HOUR_MS 3600000u
#define LOOKS   100u
#define NFS     0x6969

static char path[300];
static weft_store *store;
static const weft_store_port *port;
static void *place;

/* ---- the file system and the clock */

static bool silent; /* inotify accepts watches and tells nothing, as on a file system that other hosts write */
static unsigned walked, looked;

DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
int __real_fstatfs(int file, struct statfs *facts);
int __wrap_fstatfs(int file, struct statfs *facts);
int __real_inotify_add_watch(int events, const char *name, uint32_t mask);
int __wrap_inotify_add_watch(int events, const char *name, uint32_t mask);
int __real_statx(int folder, const char *name, int flags, unsigned mask, struct statx *facts);
int __wrap_statx(int folder, const char *name, int flags, unsigned mask, struct statx *facts);

DIR *__wrap_opendir(const char *name)
{
    walked++;
    return __real_opendir(name);
}

int __wrap_fstatfs(int file, struct statfs *facts)
{
    const int result = __real_fstatfs(file, facts);
    if (silent)
        facts->f_type = (__typeof__(facts->f_type))NFS;
    return result;
}

int __wrap_inotify_add_watch(int events, const char *name, uint32_t mask)
{
    return silent ? 1 : __real_inotify_add_watch(events, name, mask);
}

int __wrap_statx(int folder, const char *name, int flags, unsigned mask, struct statx *facts)
{
    looked += *name != 0;
    return __real_statx(folder, name, flags, mask, facts);
}

static uint64_t time_ns;

static uint64_t own_now(void *user)
{
    (void)user;
    return time_ns;
}

static void own_pass(void *user, uint64_t ns)
{
    (void)user;
    time_ns += ns;
}

static const weft_clock own_clock = {own_now, own_pass, NULL};

/* Lets the kernel's own clock go on, by which folders have their times. */
static void tick(void)
{
    struct timespec begun, now;
    clock_gettime(CLOCK_REALTIME_COARSE, &begun);
    do
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    while (now.tv_sec == begun.tv_sec && now.tv_nsec == begun.tv_nsec);
}

/* ---- the store */

static int setup(void **state)
{
    (void)state;
    silent = false;
    time_ns = WEFT_NS_PER_MS;
    folder_open(path, sizeof path);
    if (weft_store_open(path, NULL, &store) != WEFT_OK)
        return -1;
    port = store->port;
    place = store->place;
    return 0;
}

static int teardown(void **state)
{
    char command[320];
    (void)state;
    weft_clock_own = NULL;
    store->port = port;
    weft_store_close(store);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    return system(command); /* NOLINT(bugprone-command-processor,cert-env33-c): a path of the test's own */
}

static weft_status some_bytes(void *user, const weft_sink *sink)
{
    (void)user;
    return sink->write(sink->user, "bits", 4);
}

static void source_put(uint64_t number, weft_store_kind kind, uint32_t source, uint32_t sources)
{
    const weft_store_name name = {.run = 7, .number = number, .kind = kind, .source = source, .sources = sources};
    char text[WEFT_STORE_NAME_MAX];
    weft_store_name_put(&name, text);
    assert_int_equal(port->put(place, text, some_bytes, NULL), WEFT_OK);
}

static void file_put(uint64_t number, weft_store_kind kind)
{
    source_put(number, kind, 0, 1);
}

/* Looks at the place as a reader does, which shows each folder to the watch. */
static uint64_t files_there(void)
{
    weft_store_items items = {0};
    assert_int_equal(port->list(place, &items), WEFT_OK);
    weft_mem_give(items.items);
    return items.count;
}

static void a_new_file_ends_the_wait(void **state)
{
    (void)state;
    port->watch(place);
    assert_int_equal(files_there(), 0);
    file_put(1, WEFT_STORE_UPDATE); /* in folders that are new */
    assert_true(port->wait(place, HOUR_MS));
    assert_int_equal(files_there(), 1);
    file_put(1, WEFT_STORE_MERGE); /* in one that was there */
    assert_true(port->wait(place, HOUR_MS));
    assert_int_equal(files_there(), 2);
    file_put(2, WEFT_STORE_UPDATE);
    assert_true(port->wait(place, HOUR_MS));
    assert_int_equal(files_there(), 3);
}

static void a_quiet_folder_takes_the_time(void **state)
{
    (void)state;
    assert_true(port->wait(place, 1)); /* not watched */
    port->watch(place);
    assert_int_equal(files_there(), 0);
    assert_true(port->wait(place, 1));
}

/* Looks often, and tells how many folders were walked and looked at. */
static void quiet_looks(unsigned *folders, unsigned *times)
{
    walked = looked = 0;
    for (unsigned i = 0; i < LOOKS; i++)
        assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
    *folders = walked;
    *times = looked;
}

static void news_come(void)
{
    assert_int_equal(weft_store_wait(store, 0), WEFT_OK);
    time_ns += 2000 * WEFT_NS_PER_MS; /* once more, if the folder is one that may be coarse */
    assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
}

static void nothing_is_walked_where_inotify_tells_all(void **state)
{
    unsigned folders, times;
    (void)state;
    weft_clock_own = &own_clock;
    for (uint64_t number = 1; number <= 40; number++)
        file_put(number, WEFT_STORE_UPDATE);
    news_come();
    quiet_looks(&folders, &times);
    assert_int_equal(folders, 0);
    assert_int_equal(times, LOOKS); /* the place itself, which may become another folder */
    file_put(41, WEFT_STORE_UPDATE);
    walked = 0;
    news_come();
    assert_int_equal(walked, 2 + 41); /* one walk */
}

static void unfinished_files_stir_nobody(void **state)
{
    char name[400];
    (void)state;
    file_put(1, WEFT_STORE_UPDATE);
    assert_int_equal(weft_store_wait(store, 0), WEFT_OK);
    snprintf(name, sizeof name, "%s/0000000000000007/00000000000000000001/weft-0123abcd.tmp", path);
    fclose(fopen(name, "we"));
    walked = 0;
    assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
    assert_int_equal(walked, 0);
    unlink(name);
    assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
    assert_int_equal(walked, 0);
}

/* Each look takes the times of the place, of the run, and of the number that a writer may be at. */
static void where_inotify_is_silent_times_tell(void **state)
{
    unsigned folders, times;
    (void)state;
    silent = true;
    weft_clock_own = &own_clock;
    for (uint64_t number = 1; number <= 40; number++)
        file_put(number, WEFT_STORE_UPDATE);
    news_come();
    quiet_looks(&folders, &times);
    assert_int_equal(folders, 0);
    assert_int_equal(times, 3 * LOOKS);
    tick();
    file_put(40, WEFT_STORE_ANCHOR); /* in the last folder */
    news_come();
    tick();
    file_put(41, WEFT_STORE_UPDATE); /* in one that is new */
    news_come();
    quiet_looks(&folders, &times);
    assert_int_equal(folders, 0);
}

/* In whatever order the place lists them. */
static void each_run_has_its_last_number(void **state)
{
    static const uint64_t runs[] = {3, 6, 1, 7, 0, 5, 2, 4};
    unsigned folders, times;
    (void)state;
    silent = true;
    weft_clock_own = &own_clock;
    for (size_t i = 0; i < 8; i++) {
        const weft_store_name name = {.run = runs[i] << 60 | 7, .number = 1, .kind = WEFT_STORE_UPDATE, .sources = 1};
        char text[WEFT_STORE_NAME_MAX];
        weft_store_name_put(&name, text);
        assert_int_equal(port->put(place, text, some_bytes, NULL), WEFT_OK);
    }
    news_come();
    quiet_looks(&folders, &times);
    assert_int_equal(folders, 0);
    assert_int_equal(times, (1 + 2 * 8) * LOOKS);
}

/* An anchor takes long, and later versions come meanwhile. */
static void a_file_that_is_begun_is_waited_for(void **state)
{
    char folder[360], begun[400], whole[400];
    (void)state;
    silent = true;
    weft_clock_own = &own_clock;
    file_put(1, WEFT_STORE_UPDATE);
    news_come();
    snprintf(folder, sizeof folder, "%s/0000000000000007/00000000000000000001", path);
    snprintf(begun, sizeof begun, "%s/weft-0123abcd.tmp", folder);
    snprintf(whole, sizeof whole, "%s/anchor-0-of-1.weft", folder);
    FILE *file = fopen(begun, "we");
    file_put(2, WEFT_STORE_UPDATE);
    tick();
    news_come();
    fputs("bits", file);
    fclose(file);
    assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
    assert_int_equal(rename(begun, whole), 0);
    assert_int_equal(weft_store_wait(store, 0), WEFT_OK);
}

/* Sources do not wait for each other: one may be versions behind, in folders that are not the last. */
static void a_source_that_is_behind_is_waited_for(void **state)
{
    unsigned folders, times;
    (void)state;
    silent = true;
    weft_clock_own = &own_clock;
    for (uint64_t number = 1; number <= 5; number++)
        source_put(number, WEFT_STORE_UPDATE, 1, 2);
    news_come();
    for (uint64_t number = 1; number <= 5; number++) {
        tick();
        source_put(number, WEFT_STORE_UPDATE, 0, 2);
        news_come();
    }
    quiet_looks(&folders, &times);
    assert_int_equal(folders, 0);
    assert_int_equal(times, 3 * LOOKS); /* none of those that all sources wrote */
}

/* A file that grows under its name is no writer's of weft, but a copy's. */
static void a_file_that_grows_is_walked_until_it_rests(void **state)
{
    (void)state;
    silent = true;
    weft_clock_own = &own_clock;
    file_put(1, WEFT_STORE_UPDATE);
    assert_int_equal(weft_store_wait(store, 0), WEFT_OK);
    char name[400];
    snprintf(name, sizeof name, "%s/0000000000000007/00000000000000000001/source-0-of-1.weft", path);
    for (int i = 0; i < 3; i++) {
        FILE *file = fopen(name, "ae");
        fputs("more", file);
        fclose(file);
        assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
        time_ns += 1000 * WEFT_NS_PER_MS;
        assert_int_equal(weft_store_wait(store, 0), WEFT_OK);
    }
    time_ns += 1000 * WEFT_NS_PER_MS;
    assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
    walked = 0;
    time_ns += 1000 * WEFT_NS_PER_MS;
    assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
    assert_int_equal(walked, 0);
}

/* ---- a place that tells nothing */

static unsigned listed;

static weft_status list_counted(void *user, weft_store_items *items)
{
    listed++;
    return port->list(user, items);
}

/* Whoever waits by short turns lists no more often than who waits long: once a second when nothing comes. */
static void a_server_is_listed_once_a_second(void **state)
{
    static const uint32_t turns_ms[] = {10, 300, 700, 1000, 60000};
    const weft_store_port server = {.list = list_counted};
    (void)state;
    store->port = &server;
    weft_clock_own = &own_clock;
    for (size_t i = 0; i < sizeof turns_ms / sizeof *turns_ms; i++) {
        const uint64_t end_ns = time_ns + 60000 * WEFT_NS_PER_MS;
        store->look_ms = 50;
        store->look_ns = 0;
        listed = 0;
        while (time_ns < end_ns)
            assert_int_equal(weft_store_wait(store, turns_ms[i]), WEFT_AGAIN);
        assert_in_range(listed, 60, 66); /* at first after 50, 100, 200, 400, 800 ms */
    }
}

static bool signal_comes(void *user, uint32_t ms)
{
    (void)user;
    time_ns += ms * WEFT_NS_PER_MS / 2;
    return false;
}

static void a_signal_ends_a_wait(void **state)
{
    const weft_store_port server = {.list = list_counted, .wait = signal_comes};
    (void)state;
    store->port = &server;
    weft_clock_own = &own_clock;
    store->look_ns = time_ns + 1000 * WEFT_NS_PER_MS;
    listed = 0;
    assert_int_equal(weft_store_wait(store, HOUR_MS), WEFT_AGAIN);
    assert_int_equal(listed, 0); /* the first pause was the last */
}

/* Half a walk shows half of the folders, so nothing is known of the rest. */
static void after_a_walk_that_failed_a_walk_is_due(void **state)
{
    char link[400];
    weft_store_items items = {0};
    (void)state;
    snprintf(link, sizeof link, "%s/0000000000000007", path);
    assert_int_equal(symlink("/nowhere/at/all", link), 0);
    port->watch(place);
    assert_int_equal(port->list(place, &items), WEFT_E_FILE);
    assert_true(port->stirred(place));
    assert_int_equal(unlink(link), 0);
    assert_int_equal(files_there(), 0);
    assert_false(port->stirred(place));
}

static weft_status open_fails(void *user, const char *name, weft_update_file **update)
{
    (void)user;
    (void)name;
    (void)update;
    return weft_fail_quiet(WEFT_E_TIMEOUT, "the server is away");
}

/* What came is told after the error, although nothing came since. */
static void a_look_that_failed_is_made_again(void **state)
{
    weft_store_port server;
    (void)state;
    assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
    file_put(1, WEFT_STORE_UPDATE);
    server = *port;
    server.open = open_fails;
    store->port = &server;
    assert_int_equal(weft_store_wait(store, 0), WEFT_E_FILE);
    server.open = port->open;
    assert_int_equal(weft_store_wait(store, 0), WEFT_OK);
    assert_int_equal(weft_store_wait(store, 0), WEFT_AGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_file_ends_the_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(a_quiet_folder_takes_the_time, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_walked_where_inotify_tells_all, setup, teardown),
        cmocka_unit_test_setup_teardown(unfinished_files_stir_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(where_inotify_is_silent_times_tell, setup, teardown),
        cmocka_unit_test_setup_teardown(each_run_has_its_last_number, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_begun_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_source_that_is_behind_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_grows_is_walked_until_it_rests, setup, teardown),
        cmocka_unit_test_setup_teardown(a_server_is_listed_once_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(a_look_that_failed_is_made_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_signal_ends_a_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_walk_that_failed_a_walk_is_due, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

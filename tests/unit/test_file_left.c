/* Unfinished files: those of writers that live stay, those of writers that were killed go, and no writer that lives
 * loses a file to somebody who tidies up. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/status.h"
#include "base/thread.h"
#include "tests/support/folder.h"

#define FILES 1000u
#define LATER ((uint64_t)time(NULL) + 1000)

static char folder[256];

static void path_of(const char *name, char path[600])
{
    snprintf(path, 600, "%s/%s", folder, name);
}

/* Removes what was left in the folder. Returns the number of unfinished files that were seen. */
static unsigned tidy(unsigned *removed)
{
    unsigned seen = 0;
    DIR *listed = opendir(folder);
    const struct dirent *entry;
    *removed = 0;
    while (listed && (entry = readdir(listed))) {
        char path[600];
        path_of(entry->d_name, path);
        if (strncmp(entry->d_name, "weft-", 5) != 0)
            continue;
        seen++;
        *removed += weft_file_left_remove(path, LATER);
    }
    closedir(listed);
    return seen;
}

static void test_a_file_has_its_writer(void **state)
{
    (void)state;
    char path[600];
    unsigned removed;
    weft_file file;
    path_of("whole", path);
    assert_int_equal(weft_file_begin(&file, path), WEFT_OK);
    assert_int_equal(weft_file_put(&file, "half", 4), WEFT_OK);
    assert_int_equal(tidy(&removed), 1);
    assert_int_equal(removed, 0);
    assert_int_equal(weft_file_finish_new(&file), WEFT_OK);
    assert_int_equal(tidy(&removed), 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
}

static void test_a_writer_is_killed(void **state)
{
    (void)state;
    char path[600];
    unsigned removed;
    int told[2], status;
    path_of("killed", path);
    assert_int_equal(pipe(told), 0);
    const pid_t child = fork();
    if (child == 0) {
        weft_file file;
        const bool begun = weft_file_begin(&file, path) == WEFT_OK && weft_file_put(&file, "half", 4) == WEFT_OK;
        if (write(told[1], begun ? "y" : "n", 1) == 1)
            pause();
        _exit(1);
    }
    char begun = 'n';
    assert_int_equal(read(told[0], &begun, 1), 1);
    assert_int_equal(begun, 'y');
    assert_int_equal(tidy(&removed), 1);
    assert_int_equal(removed, 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(tidy(&removed), 1);
    assert_int_equal(removed, 1);
    assert_int_equal(access(path, F_OK), -1);
    close(told[0]);
    close(told[1]);
}

/* A link and a pipe by such a name are nobody's unfinished file. */
static void test_what_is_no_file_stays(void **state)
{
    (void)state;
    char path[600], other[600];
    unsigned removed;
    path_of("weft-link", path);
    path_of("other", other);
    FILE *file = fopen(other, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(tidy(&removed), 1);
    assert_int_equal(removed, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(tidy(&removed), 1);
    assert_int_equal(removed, 0);
    assert_int_equal(unlink(path), 0);
}

static void *tidy_on(void *user)
{
    unsigned removed;
    while (!atomic_load((atomic_bool *)user))
        tidy(&removed);
    return NULL;
}

static void test_nobody_who_writes_loses_a_file(void **state)
{
    (void)state;
    pthread_t thread;
    atomic_bool done = false;
    assert_int_equal(weft_thread_start(&thread, tidy_on, &done), 0);
    unsigned failed = 0;
    for (unsigned i = 0; i < FILES; i++) {
        char name[32], path[600];
        weft_file file;
        snprintf(name, sizeof name, "file-%u", i);
        path_of(name, path);
        failed += weft_file_begin(&file, path) != WEFT_OK || weft_file_put(&file, "all", 3) != WEFT_OK ||
                  weft_file_finish_new(&file) != WEFT_OK;
        unlink(path);
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_has_its_writer),
        cmocka_unit_test(test_a_writer_is_killed),
        cmocka_unit_test(test_what_is_no_file_stays),
        cmocka_unit_test(test_nobody_who_writes_loses_a_file),
    };
    folder_open(folder, sizeof folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(folder) != 0 || failed;
}

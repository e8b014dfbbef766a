/* Output files are whole under their names or are not there: what a failure leaves, in which order the disk is told,
 * which names are refused, and what a process that ends at once takes with it. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"

static char scratch[64], synced[16];

/* In place of the C library's: notes a file and a folder, and whether the name is there by then. */
int fsync(int descriptor)
{
    struct stat facts;
    const size_t used = strlen(synced);
    fstat(descriptor, &facts);
    if (used + 2 < sizeof synced)
        snprintf(synced + used, 3, "%c%c", S_ISDIR(facts.st_mode) ? 'd' : 'f', access("out", F_OK) == 0 ? '+' : '-');
    return (int)syscall(SYS_fsync, descriptor);
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool has(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");
    if (file && !fgets(found, sizeof found, file))
        found[0] = 0;
    if (file)
        fclose(file);
    return file ? text && strcmp(found, text) == 0 : !text;
}

static unsigned entries(void)
{
    unsigned count = 0;
    DIR *folder = opendir(".");
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static int lowest_free(void)
{
    const int descriptor = dup(STDERR_FILENO);
    close(descriptor);
    return descriptor;
}

static int begin(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)state;
    snprintf(scratch, sizeof scratch, "%.40s/weft-file-XXXXXX", base && strlen(base) < 40 ? base : "/tmp");
    synced[0] = 0;
    return !mkdtemp(scratch) || chdir(scratch) != 0;
}

static int end(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    return chdir("/") != 0 || system(command) != 0;
}

typedef enum fate { FINISHED, DROPPED, NOT_SYNCED, FULL } fate;

/* What is under the name before and after, for each end of a file; nothing else is ever left. */
static void whole_or_as_before(void **state)
{
    static const struct {
        const char *before;
        fate fate;
        bool only_new;
        weft_status status;
        const char *after, *text;
    } rows[] = {
        {NULL, FINISHED, false, WEFT_OK, "new", NULL},
        {"old", FINISHED, false, WEFT_OK, "new", NULL},
        {NULL, FINISHED, true, WEFT_OK, "new", NULL},
        {"old", FINISHED, true, WEFT_E_STATE, "old", "was there already"},
        {NULL, DROPPED, false, WEFT_OK, NULL, NULL},
        {"old", DROPPED, false, WEFT_OK, "old", NULL},
        {NULL, NOT_SYNCED, false, WEFT_E_FILE, NULL, "cannot be brought to disk"},
        {"old", NOT_SYNCED, true, WEFT_E_FILE, "old", "cannot be brought to disk"},
        {"old", FULL, false, WEFT_E_FILE, "old", "nothing was changed"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weft_file file;
        int ends[2];
        const int free_before = lowest_free();
        unlink("out");
        if (rows[i].before)
            put("out", rows[i].before);
        assert_int_equal(weft_file_begin(&file, "out"), WEFT_OK);
        assert_int_equal(weft_file_put(&file, "new", 3), WEFT_OK);
        assert_true(has("out", rows[i].before)); /* until the end */
        assert_int_equal(pipe(ends), 0);
        if (rows[i].fate == NOT_SYNCED)
            dup2(ends[1], file.descriptor); /* no pipe can be synced */
        if (rows[i].fate == FULL) {
            int full = open("/dev/full", O_WRONLY);
            dup2(full, file.descriptor);
            close(full);
        }
        weft_status status = WEFT_OK;
        if (rows[i].fate == FULL)
            status = weft_file_put(&file, "more", 4);
        if (rows[i].fate == FULL || rows[i].fate == DROPPED)
            weft_file_drop(&file);
        else
            status = rows[i].only_new ? weft_file_finish_new(&file) : weft_file_finish(&file);
        assert_int_equal(status, rows[i].status);
        if (rows[i].text)
            assert_non_null(strstr(weft_last_error(), rows[i].text));
        assert_true(has("out", rows[i].after));
        assert_int_equal(entries(), rows[i].after != NULL);
        close(ends[0]);
        close(ends[1]);
        assert_int_equal(lowest_free(), free_before);
    }
}

/* The bytes are on the disk before the name leads to them, and the name before the call returns. */
static void the_disk_is_told_in_order(void **state)
{
    weft_file file;
    (void)state;
    assert_int_equal(weft_file_begin(&file, "out"), WEFT_OK);
    assert_int_equal(weft_file_finish(&file), WEFT_OK);
    assert_string_equal(synced, "f-d+");
}

static void names_of_other_things_are_refused(void **state)
{
    static const struct {
        const char *name, *text; /* NULL: the name will do */
    } rows[] = {{"file", NULL},          {"none", NULL},        {"link", "is a link"},  {"folder", "is a folder"},
                {"fifo", "is a device"}, {"file/", "a folder"}, {"no/file", "in no: "}, {"file/x", "in file: "}};
    (void)state;
    put("file", "");
    assert_int_equal(symlink("file", "link"), 0);
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(weft_file_check(rows[i].name), rows[i].text ? WEFT_E_FILE : WEFT_OK);
        if (rows[i].text)
            assert_non_null(strstr(weft_last_error(), rows[i].text));
    }
}

static void short_files_are_refused(void **state)
{
    char text[4] = "";
    (void)state;
    put("out", "abc");
    int descriptor = open("out", O_RDONLY);
    assert_int_equal(weft_file_read(descriptor, text, 2, 1), WEFT_OK);
    assert_string_equal(text, "bc");
    assert_int_equal(weft_file_read(descriptor, text, 3, 1), WEFT_E_FILE);
    assert_non_null(strstr(weft_last_error(), "it ends at byte 3"));
    close(descriptor);
}

/* Files that were finished keep no place among those noted, so that the last ones are noted too. */
static void an_end_at_once_leaves_whole_files(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        weft_file file;
        char name[24];
        for (int i = 0; i < 20; i++) {
            snprintf(name, sizeof name, "whole%d", i);
            if (weft_file_begin(&file, name) != WEFT_OK || weft_file_finish(&file) != WEFT_OK)
                _exit(1);
        }
        char *folder = weft_mem_text("weft-folder.tmp");
        mkdir(folder, 0700);
        put("weft-folder.tmp/a", "");
        put("weft-folder.tmp/b", "");
        weft_file_note(folder);
        if (weft_file_begin(&file, "unfinished") != WEFT_OK || entries() != 22)
            _exit(2);
        weft_file_abandon();
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(entries(), 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole_or_as_before),      TEST(the_disk_is_told_in_order),         TEST(names_of_other_things_are_refused),
        TEST(short_files_are_refused), TEST(an_end_at_once_leaves_whole_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

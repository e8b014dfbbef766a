/* The files that --follow takes for the model's past, and its patience with a folder or file that cannot be read for a
 * moment. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "tools/follow/follow.h"
#include "tools/follow/natural.h"

static char scratch[64], folder[128], model[128];

static const char *at(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* A model of no tensors that was written so many seconds ago. */
static void put(const char *path, int age)
{
    char text[600];
    const uint64_t bytes = (uint64_t)snprintf(text, sizeof text, "{\"__metadata__\":{\"path\":\"%s\"}}", path);
    const struct timespec then = {time(NULL) - age, 0}, times[2] = {then, then};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &bytes, sizeof bytes), sizeof bytes);
    assert_int_equal(write(fd, text, bytes), bytes);
    close(fd);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static int begin(void **state)
{
    (void)state;
    snprintf(scratch, sizeof scratch, "weft-follow-XXXXXX");
    assert_non_null(mkdtemp(scratch));
    snprintf(folder, sizeof folder, "%s/in", scratch);
    snprintf(model, sizeof model, "%s/v9.safetensors", scratch);
    assert_int_equal(mkdir(folder, 0700), 0);
    put(model, 60);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    return system(command);
}

/* The next file within five seconds: its name, as published; "": none. */
static const char *next(weft_follow *follow, int tries)
{
    const char *path = "";
    const struct timespec nap = {0, 50000000};
    for (weft_status status = WEFT_AGAIN; status == WEFT_AGAIN && tries-- > 0; nanosleep(&nap, NULL)) {
        status = weft_follow_next(follow, &path);
        assert_true(status == WEFT_OK || status == WEFT_AGAIN);
        if (status == WEFT_OK)
            return strrchr(path, '/') + 1;
    }
    return "";
}

static void expect_all(bool all, const char *const *names)
{
    weft_follow *follow;
    assert_int_equal(weft_follow_open(folder, model, all, &follow), WEFT_OK);
    for (; *names; names++) {
        assert_string_equal(next(follow, 100), *names);
        weft_follow_published(follow);
    }
    assert_string_equal(next(follow, 2), "");
    weft_follow_close(follow);
}

static void numbers_tell_what_is_past(void **state)
{
    (void)state;
    put(at("v8.safetensors"), 10); /* written later than the model, as a copy may be */
    put(at("v10.safetensors"), 100);
    put(at("v9.safetensors"), 100);
    expect_all(false, (const char *const[]){"v10.safetensors", NULL});
    expect_all(true, (const char *const[]){"v8.safetensors", "v9.safetensors", "v10.safetensors", NULL});
}

/* A copy of the model, which is younger than the model, is no next version. */
static void a_copy_of_the_model_is_the_model(void **state)
{
    (void)state;
    put(at("v9.safetensors"), 10);
    expect_all(false, (const char *const[]){NULL});
    put(at("v09.safetensors"), 10);
    put(at("v10.safetensors"), 100);
    assert_int_equal(mkdir(at("v9"), 0700), 0);
    put(at("v9/weights.safetensors"), 10);
    expect_all(false, (const char *const[]){"v10.safetensors", NULL});
    expect_all(true, (const char *const[]){"v9", "v09.safetensors", "v9.safetensors", "v10.safetensors", NULL});
}

static void a_copy_of_the_model_s_folder_is_the_model(void **state)
{
    (void)state;
    snprintf(model, sizeof model, "%s/step_9", scratch);
    assert_int_equal(mkdir(model, 0700), 0);
    snprintf(model, sizeof model, "%s/step_9/weights.safetensors", scratch);
    put(model, 60);
    for (int step = 9; step < 11; step++) {
        char name[64];
        snprintf(name, sizeof name, "step_%d", step);
        assert_int_equal(mkdir(at(name), 0700), 0);
        snprintf(name, sizeof name, "step_%d/weights.safetensors", step);
        put(at(name), 10);
    }
    expect_all(false, (const char *const[]){"step_10", NULL});
}

/* A copy that comes late is past where numbers tell what is later. A name that is written anew each time is new. */
static void a_late_copy_of_the_model_is_past(void **state)
{
    (void)state;
    weft_follow *follow;
    put(at("v8.safetensors"), 100);
    assert_int_equal(weft_follow_open(folder, model, false, &follow), WEFT_OK);
    put(at("v9.safetensors"), 10);
    assert_string_equal(next(follow, 60), "");
    assert_int_equal(unlink(at("v8.safetensors")), 0);
    assert_int_equal(unlink(at("v9.safetensors")), 0);
    assert_string_equal(next(follow, 1), "");
    put(at("v9.safetensors"), 10);
    assert_string_equal(next(follow, 100), "v9.safetensors");
    weft_follow_close(follow);
}

/* As the model does that lies in the directory. */
static void a_copy_of_the_model_comes_when_it_is_written_to(void **state)
{
    (void)state;
    weft_follow *follow;
    put(at("v8.safetensors"), 100);
    put(at("v9.safetensors"), 10);
    assert_int_equal(weft_follow_open(folder, model, false, &follow), WEFT_OK);
    assert_string_equal(next(follow, 2), "");
    put(at("v9.safetensors"), 5);
    assert_string_equal(next(follow, 100), "v9.safetensors");
    weft_follow_close(follow);
}

static void times_tell_what_is_past_of_other_names(void **state)
{
    (void)state;
    put(at("step-1.safetensors"), 100);
    put(at("step-2.safetensors"), 10);
    put(at("a-3.safetensors"), 100);
    expect_all(false, (const char *const[]){"step-2.safetensors", NULL});
}

static void what_comes_late_is_past_by_its_number(void **state)
{
    (void)state;
    weft_follow *follow;
    assert_int_equal(weft_follow_open(folder, model, false, &follow), WEFT_OK);
    put(at("v7.safetensors"), 10);
    put(at("v11.safetensors"), 10);
    assert_string_equal(next(follow, 100), "v11.safetensors");
    weft_follow_close(follow);
}

/* A file that is renamed in when the folder was just listed is not taken for one that may still be written to. */
static const char *comes_late; /* NULL: nothing */

int closedir(DIR *directory)
{
    static int (*real)(DIR *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "closedir");
    if (comes_late) {
        char path[512];
        snprintf(path, sizeof path, "%s/late", scratch);
        put(path, 0);
        assert_int_equal(rename(path, at(comes_late)), 0);
        comes_late = NULL;
    }
    return real(directory);
}

static void what_comes_while_it_looks_is_taken_at_once(void **state)
{
    (void)state;
    weft_follow *follow;
    const char *path;
    assert_int_equal(weft_follow_open(folder, model, false, &follow), WEFT_OK);
    comes_late = "v10.safetensors";
    assert_int_equal(weft_follow_next(follow, &path), WEFT_OK);
    assert_string_equal(strrchr(path, '/') + 1, "v10.safetensors");
    weft_follow_close(follow);
}

static void names_are_alike_but_for_numbers(void **state)
{
    (void)state;
    assert_true(weft_natural_alike("v9.safetensors", "v10.safetensors"));
    assert_true(weft_natural_alike("v9", "v9"));
    assert_false(weft_natural_alike("v9", "w9"));
    assert_false(weft_natural_alike("v9", "v"));
    assert_false(weft_natural_alike("v", "v9"));
    assert_false(weft_natural_alike("v9a", "v9"));
    assert_false(weft_natural_alike("v9-1", "v9-x"));
}

/* Away, replaced by a file, and back as another folder. */
static void a_folder_may_be_away(void **state)
{
    (void)state;
    const char *path;
    char other[160];
    weft_follow *follow;
    snprintf(other, sizeof other, "%s.old", folder);
    assert_int_equal(weft_follow_open(folder, model, false, &follow), WEFT_OK);
    assert_int_equal(rename(folder, other), 0);
    assert_int_equal(weft_follow_next(follow, &path), WEFT_AGAIN);
    put(folder, 0);
    assert_int_equal(weft_follow_next(follow, &path), WEFT_AGAIN);
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(weft_follow_next(follow, &path), WEFT_AGAIN);
    put(at("part"), 0);
    char part[512];
    snprintf(part, sizeof part, "%s", at("part"));
    assert_int_equal(rename(part, at("v10.safetensors")), 0);
    /* renamed into the folder that is watched now: taken at once, though it was written just now */
    assert_int_equal(weft_follow_next(follow, &path), WEFT_OK);
    weft_follow_close(follow);
}

static void rename_in(const char *directory, const char *name)
{
    char from[320], to[320];
    snprintf(from, sizeof from, "%s/part", directory);
    snprintf(to, sizeof to, "%s/%s", directory, name);
    put(from, 0);
    assert_int_equal(rename(from, to), 0);
}

/* A rename there says nothing about the file of that name in the folder that came in its place. */
static void a_folder_that_was_moved_away_tells_nothing(void **state)
{
    (void)state;
    const char *path;
    char other[160];
    weft_follow *follow;
    snprintf(other, sizeof other, "%s.old", folder);
    assert_int_equal(weft_follow_open(folder, model, false, &follow), WEFT_OK);
    assert_int_equal(rename(folder, other), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    put(at("v10.safetensors"), 0);
    assert_int_equal(weft_follow_next(follow, &path), WEFT_AGAIN);
    rename_in(other, "v10.safetensors");
    assert_int_equal(weft_follow_next(follow, &path), WEFT_AGAIN);
    rename_in(folder, "v10.safetensors"); /* while one here does */
    assert_int_equal(weft_follow_next(follow, &path), WEFT_OK);
    weft_follow_close(follow);
}

/* A file was renamed in, but waits for another one, when its folder is moved away. */
static void a_folder_in_its_place_begins_anew(void **state)
{
    (void)state;
    const char *path;
    char other[160];
    weft_follow *follow;
    snprintf(other, sizeof other, "%s.old", folder);
    assert_int_equal(weft_follow_open(folder, model, false, &follow), WEFT_OK);
    put(at("v10.safetensors"), 0);
    rename_in(folder, "v11.safetensors");
    assert_int_equal(weft_follow_next(follow, &path), WEFT_AGAIN);
    assert_int_equal(rename(folder, other), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    put(at("v11.safetensors"), 0);
    assert_int_equal(weft_follow_next(follow, &path), WEFT_AGAIN);
    weft_follow_close(follow);
}

static void there_may_be_no_descriptor(void **state)
{
    (void)state;
    const char *path;
    struct rlimit limit, none;
    weft_follow *follow;
    put(at("v10.safetensors"), 10);
    assert_int_equal(weft_follow_open(folder, model, false, &follow), WEFT_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    weft_status status = weft_follow_next(follow, &path);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(status, WEFT_AGAIN);
    assert_string_equal(next(follow, 100), "v10.safetensors");
    weft_follow_close(follow);
}

static void a_file_comes_again_where_its_trouble_may_pass(void **state)
{
    (void)state;
    static const int troubles[] = {EMFILE, ENFILE, ENOMEM, EIO, ESTALE};
    weft_follow *follow;
    put(at("v10.safetensors"), 10);
    put(at("v11.safetensors"), 10);
    assert_int_equal(weft_follow_open(folder, model, false, &follow), WEFT_OK);
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++) {
        assert_string_equal(next(follow, 100), "v10.safetensors");
        weft_fail_quiet(WEFT_E_FILE, "%s: cannot be opened: %s", at("v10.safetensors"), strerror(troubles[i]));
        assert_true(weft_follow_again(follow, WEFT_E_FILE));
    }
    assert_string_equal(next(follow, 100), "v10.safetensors");
    weft_fail_quiet(WEFT_E_MEMORY, "no memory for its header");
    assert_true(weft_follow_again(follow, WEFT_E_MEMORY));
    assert_string_equal(next(follow, 100), "v10.safetensors");
    weft_fail_quiet(WEFT_E_FILE, "%s: cannot be opened: %s", at("v10.safetensors"), strerror(ENOENT));
    assert_false(weft_follow_again(follow, WEFT_E_FILE));
    assert_false(weft_follow_again(follow, WEFT_E_LAYOUT));
    assert_string_equal(next(follow, 100), "v11.safetensors");
    weft_follow_close(follow);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(numbers_tell_what_is_past),
        HERE(a_copy_of_the_model_is_the_model),
        HERE(a_copy_of_the_model_s_folder_is_the_model),
        HERE(a_late_copy_of_the_model_is_past),
        HERE(a_copy_of_the_model_comes_when_it_is_written_to),
        HERE(times_tell_what_is_past_of_other_names),
        HERE(what_comes_late_is_past_by_its_number),
        HERE(what_comes_while_it_looks_is_taken_at_once),
        HERE(names_are_alike_but_for_numbers),
        HERE(a_folder_may_be_away),
        HERE(a_folder_that_was_moved_away_tells_nothing),
        HERE(a_folder_in_its_place_begins_anew),
        HERE(there_may_be_no_descriptor),
        HERE(a_file_comes_again_where_its_trouble_may_pass),
    };
    const char *directory = getenv("TMPDIR");
    if (chdir(directory ? directory : "/tmp") != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Stores and update files, which one thread at a time uses: debug builds end the process where a second thread comes,
 * or where a callback gives back the handle that called it. Release builds do not look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/turn.h"
#include "tests/support/folder.h"
#include "tests/support/memory_file.h"

enum { ELEMENTS = 4096 };

static uint16_t base[ELEMENTS], target[ELEMENTS];
static const weft_piece old = {0, 0, ELEMENTS, base}, new = {0, 0, ELEMENTS, target};
static weft_layout *layout;
static memory_file file;
static char folder[300];
static weft_store *store;
static weft_update_file *update;

static int setup(void **state)
{
    const weft_tensor tensor = {"w", WEFT_U16, 1, (const uint64_t[]){ELEMENTS}};
    const weft_store_options options = {.size = sizeof options};
    (void)state;
    for (uint64_t i = 0; i < ELEMENTS; i += 7)
        target[i] = (uint16_t)(i + 1);
    file = (memory_file){0};
    folder_open(folder, sizeof folder);
    if (weft_layout_create(&tensor, 1, &layout) != WEFT_OK)
        return -1;
    const weft_sink sink = memory_sink(&file);
    if (weft_diff(layout, &old, 1, &new, 1, NULL, NULL, &sink, NULL) != WEFT_OK)
        return -1;
    const weft_source source = memory_source(&file);
    return weft_update_open(NULL, &source, &update) == WEFT_OK && weft_store_open(folder, &options, &store) == WEFT_OK
               ? 0
               : -1;
}

static int teardown(void **state)
{
    char command[320];
    (void)state;
    weft_store_close(store);
    weft_update_close(update);
    memory_free(&file);
    weft_layout_free(layout);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command); /* NOLINT(bugprone-command-processor,cert-env33-c): a path of the test's own */
}

/* ---- the second call */

static void *store_listed(void *unused)
{
    size_t count;
    (void)unused;
    weft_store_list(store, NULL, 0, &count);
    return NULL;
}

static void *update_described(void *unused)
{
    weft_update_header header = {.size = sizeof header};
    (void)unused;
    weft_update_describe(update, &header);
    return NULL;
}

static void *(*second)(void *);
static bool on_a_thread, came;

static weft_status on_progress(void *user, uint64_t done, uint64_t total)
{
    pthread_t thread;
    (void)user, (void)done, (void)total;
    if (came)
        return WEFT_OK;
    came = true;
    if (!on_a_thread)
        second(NULL);
    else if (pthread_create(&thread, NULL, second, NULL) == 0)
        pthread_join(thread, NULL);
    return WEFT_OK;
}

/* ---- the first call, in whose callback the second one comes */

/* Each child puts a version of its own. */
static void store_put(const weft_work *work)
{
    const weft_store_put_options options = {.size = sizeof options, .target = {.run = 7, .number = (uint64_t)getpid()}};
    weft_store_put(store, layout, NULL, 0, &new, 1, &options, work, NULL);
}

static void update_merged(const weft_work *work)
{
    const weft_sink sink = memory_sink(&(memory_file){0});
    weft_update_merge(&update, 1, layout, &old, 1, NULL, work, &sink, NULL);
}

/* Callbacks of the library mostly come on other threads, so this one is by hand. */
static void called_back(const weft_work *work)
{
    const weft_alone alone = {0};
    weft_alone_call call = weft_alone_begin(&alone, "first");
    came = work != NULL;
    weft_alone_last(&alone, "last");
    weft_alone_end(&call);
}

static void update_applied(const weft_work *work)
{
    weft_update_apply(update, layout, &old, 1, work, NULL);
}

/* Whether a line that the child left names the call that came second. */
static bool said_so(const char *path, const char *call)
{
    char line[200] = "";
    FILE *lines = fopen(path, "r");
    assert_non_null(lines);
    const bool read = fgets(line, sizeof line, lines) != NULL;
    fclose(lines);
    return read && strncmp(line, call, strlen(call)) == 0 && strstr(line, ": a call of this handle is under way");
}

/* Makes both calls in a child. Returns whether weft ended the child; else the child has to end well. */
static bool is_ended(void (*first)(const weft_work *), void *(*then)(void *), bool threads, const char *call)
{
    const weft_work work = {.size = sizeof work, .progress = on_progress};
    char lines[320];
    int status;
    snprintf(lines, sizeof lines, "%s/lines", folder);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen(lines, "w", stderr))
            _exit(2);
        setvbuf(stderr, NULL, _IONBF, 0);
        signal(SIGABRT, SIG_DFL);
        second = then, on_a_thread = threads;
        first(&work);
        _exit(came ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
        return said_so(lines, call);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
}

static void test_a_second_thread_is_seen(void **state)
{
    (void)state;
    assert_int_equal(is_ended(store_put, store_listed, true, "weft_store_list:"), WEFT_ALONE_LOOKS);
    assert_int_equal(is_ended(update_applied, update_described, true, "weft_update_describe:"), WEFT_ALONE_LOOKS);
    assert_int_equal(is_ended(update_merged, update_described, true, "weft_update_describe:"), WEFT_ALONE_LOOKS);
}

static void test_a_callback_that_closes_its_handle_is_seen(void **state)
{
    (void)state;
    assert_int_equal(is_ended(called_back, NULL, false, "last:"), WEFT_ALONE_LOOKS);
}

static void test_one_thread_may_call_within_a_call_and_with_other_handles(void **state)
{
    (void)state;
    assert_int_equal(is_ended(store_put, store_listed, false, "weft_store_list:"), false);
    assert_int_equal(is_ended(store_put, update_described, true, "weft_update_describe:"), false);
    assert_int_equal(is_ended(update_merged, store_listed, true, "weft_store_list:"), false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_second_thread_is_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_callback_that_closes_its_handle_is_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_thread_may_call_within_a_call_and_with_other_handles, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
    const char *tmp = getenv("TMPDIR");
    (void)state;
    for (uint64_t i = 0; i < ELEMENTS; i += 7)
        target[i] = (uint16_t)(i + 1);
    file = (memory_file){0};
    snprintf(folder, sizeof folder, "%s/weft-alone-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(folder) || weft_layout_create(&tensor, 1, &layout) != WEFT_OK)
        return -1;
    const weft_sink sink = memory_sink(&file);
    if (weft_diff(layout, &old, 1, &new, 1, NULL, NULL, &sink, NULL) != WEFT_OK)
        return -1;
    const weft_source source = memory_source(&file);
    return weft_update_open(&source, &update) == WEFT_OK && weft_store_open(folder, &options, &store) == WEFT_OK ? 0
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

static void *store_closed(void *unused)
{
    (void)unused;
    if (WEFT_ALONE_LOOKS) /* others would free what the call goes on to use */
        weft_store_close(store);
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

static void update_applied(const weft_work *work)
{
    weft_update_apply(update, layout, &old, 1, work, NULL);
}

/* Makes both calls in a child. Returns how the child ended. */
static int ending(void (*first)(const weft_work *), void *(*then)(void *), bool threads)
{
    const weft_work work = {.size = sizeof work, .progress = on_progress};
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        signal(SIGABRT, SIG_DFL);
        second = then, on_a_thread = threads;
        first(&work);
        _exit(came ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void test_a_second_thread_is_seen(void **state)
{
    const int seen = WEFT_ALONE_LOOKS ? SIGABRT : 0;
    (void)state;
    assert_int_equal(ending(store_put, store_listed, true), seen);
    assert_int_equal(ending(update_applied, update_described, true), seen);
    assert_int_equal(ending(update_merged, update_described, true), seen);
}

static void test_a_callback_that_closes_its_handle_is_seen(void **state)
{
    (void)state;
    assert_int_equal(ending(store_put, store_closed, false), WEFT_ALONE_LOOKS ? SIGABRT : 0);
}

static void test_one_thread_may_call_within_a_call_and_with_other_handles(void **state)
{
    (void)state;
    assert_int_equal(ending(store_put, store_listed, false), 0);
    assert_int_equal(ending(store_put, update_described, true), 0);
    assert_int_equal(ending(update_merged, store_listed, true), 0);
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

/* A folder that is watched: whoever waits there returns as soon as somebody wrote, in a folder that was there or in one
 * that is new, and otherwise when the time is over. A wait of an hour that the test's own limit ends is the failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "store/store.h"

#define HOUR_MS 3600000u

static char path[300];
static const weft_store_port *port;
static void *place;

static int setup(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)state;
    snprintf(path, sizeof path, "%s/weft-watch-XXXXXX", base ? base : "/tmp");
    return mkdtemp(path) && weft_store_folder_open(path, false, &port, &place) == WEFT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    char command[320];
    (void)state;
    port->close(place);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    return system(command); /* NOLINT(bugprone-command-processor,cert-env33-c): a path of the test's own */
}

static weft_status some_bytes(void *user, const weft_sink *sink)
{
    (void)user;
    return sink->write(sink->user, "bits", 4);
}

static void file_put(uint64_t number, weft_store_kind kind)
{
    const weft_store_name name = {.run = 7, .number = number, .kind = kind, .source = 0, .sources = 1};
    char text[WEFT_STORE_NAME_MAX];
    weft_store_name_put(&name, text);
    assert_int_equal(port->put(place, text, some_bytes, NULL), WEFT_OK);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_file_ends_the_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(a_quiet_folder_takes_the_time, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

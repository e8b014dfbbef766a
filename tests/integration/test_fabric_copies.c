/* A second libfabric in the process is found and named, once. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "port/port_provider.h"
#include "providers/copies.h"

static char folder[256], second[300];
static unsigned warnings;
static char last_warning[WEFT_LOG_LINE];

static void hear(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    if (level != WEFT_LOG_WARN || !strstr(line, "two copies of libfabric"))
        return;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", line);
}

static void open_a_link(void)
{
    weft_log_sink sink = {WEFT_LOG_WARN, hear};
    weft_log_sink *before = weft_log_enter(&sink);
    const weft_provider *tcp = weft_provider_find("tcp");
    weft_link *link = NULL;
    assert_int_equal(tcp->link_open(&(weft_link_options){.address = "127.0.0.1"}, &link), WEFT_OK);
    tcp->link_close(link);
    weft_log_enter(before);
}

static void copy_file(const char *from, const char *to)
{
    char piece[65536];
    size_t count;
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    assert_true(in && out);
    while ((count = fread(piece, 1, sizeof piece, in)))
        assert_int_equal(fwrite(piece, 1, count, out), count);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static int make_second(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)state;
    snprintf(folder, sizeof folder, "%s/weft-copies-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(second, sizeof second, "%s/libfabric.so.1", folder);
    copy_file(weft_copies_used(), second);
    return 0;
}

static int remove_second(void **state)
{
    (void)state;
    unlink(second);
    return rmdir(folder);
}

static void one_copy_brings_no_warning(void **state)
{
    (void)state;
    assert_int_equal(weft_copies_used()[0], '/');
    open_a_link();
    assert_int_equal(warnings, 0);
}

/* A module that brings its own copy loads it by path, so that the loader does not take the one that is there. */
static void a_second_copy_is_named_once(void **state)
{
    (void)state;
    void *handle = dlopen(second, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    open_a_link();
    open_a_link();
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, weft_copies_used()));
    assert_non_null(strstr(last_warning, second));
    dlclose(handle);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(one_copy_brings_no_warning),
                                              cmocka_unit_test(a_second_copy_is_named_once)};
    if (!weft_copies_used()) {
        printf("skipped: this build has no libfabric\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, make_second, remove_second);
}

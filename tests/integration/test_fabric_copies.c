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
    weft_library_info mine;
    size_t count = 0;
    const char *base = getenv("TMPDIR");
    (void)state;
    if (weft_libraries(&mine, 1, &count) != WEFT_OK || count != 1)
        return -1;
    snprintf(folder, sizeof folder, "%s/weft-copies-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return -1;
    snprintf(second, sizeof second, "%s/libfabric.so.1", folder);
    copy_file(mine.path, second);
    return 0;
}

static int remove_second(void **state)
{
    (void)state;
    unlink(second);
    return rmdir(folder);
}

static void one_copy_is_told_and_no_warning(void **state)
{
    weft_library_info libraries[2];
    size_t count = 0;
    char library[64];
    (void)state;
    assert_int_equal(weft_libraries(libraries, 2, &count), WEFT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(libraries[0].path[0], '/');
    weft_provider_library(library, sizeof library);
    assert_string_equal(library + strlen("libfabric "), libraries[0].version);
    open_a_link();
    assert_int_equal(warnings, 0);
    assert_int_equal(weft_libraries(NULL, 0, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(weft_libraries(NULL, 1, &count), WEFT_E_ARGUMENT);
}

/* As a module does that brings its own: by path, so that the loader does not take the one that is there. */
static void a_second_copy_is_named_once(void **state)
{
    weft_library_info libraries[4];
    char first[sizeof libraries[0].path];
    size_t count = 0;
    (void)state;
    assert_int_equal(weft_libraries(libraries, 1, &count), WEFT_OK);
    memcpy(first, libraries[0].path, sizeof first);
    void *handle = dlopen(second, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    assert_int_equal(weft_libraries(libraries, 4, &count), WEFT_OK);
    assert_int_equal(count, 2);
    assert_string_equal(libraries[0].path, first);
    assert_non_null(strstr(libraries[1].path, strrchr(folder, '/')));
    assert_string_equal(libraries[1].version, libraries[0].version);
    open_a_link();
    open_a_link();
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, first));
    assert_non_null(strstr(last_warning, libraries[1].path));
    dlclose(handle);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(one_copy_is_told_and_no_warning),
                                              cmocka_unit_test(a_second_copy_is_named_once)};
    size_t count = 0;
    if (weft_libraries(NULL, 0, &count) != WEFT_OK || !count) {
        printf("skipped: this build has no libfabric\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, make_second, remove_second);
}

/* Runtimes that a framework brought under a name of its own: weft works with that one, and refuses a process that has
 * two, because each knows only its own memory and streams. Each case is a process. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/fake_gpu/world.h"

static char folder[96];
static char copy[160];

/* Another soname of the same length, so that the loader takes the copy for another library. */
static void rename_inside(char *bytes, size_t count)
{
    static const char from[] = "libamdhip64.so.7", to[] = "libamdhip64.so.9";
    for (size_t i = 0; i + sizeof from <= count; i++) {
        if (memcmp(bytes + i, from, sizeof from) == 0)
            memcpy(bytes + i, to, sizeof to);
    }
}

static bool copy_write(const char *bytes, size_t count)
{
    FILE *to = fopen(copy, "wb");
    const bool written = to && fwrite(bytes, 1, count, to) == count;
    return to && fclose(to) == 0 && written;
}

static int copy_make(void **state)
{
    static char bytes[1 << 22]; /* more than the library has */
    FILE *from = fopen(world[WORLD_HIP].file, "rb");
    (void)state;
    snprintf(folder, sizeof folder, "%.70s/weft-runtimes-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder) || !from)
        return -1;
    const size_t count = fread(bytes, 1, sizeof bytes, from);
    fclose(from);
    snprintf(copy, sizeof copy, "%s/libamdhip64-0badcafe.so.6", folder);
    rename_inside(bytes, count);
    return count == sizeof bytes || !copy_write(bytes, count);
}

static int copy_end(void **state)
{
    (void)state;
    return unlink(copy) != 0 || rmdir(folder) != 0;
}

/* Loads the framework's runtime, which has `devices`. */
static bool framework_begin(const char *file, int devices)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL), *symbol = handle ? dlsym(handle, "weft_fake_gpu") : NULL;
    weft_fake_gpu_fn *control;
    weft_fake_options options = world[WORLD_HIP].options;
    options.devices = devices;
    memcpy(&control, &symbol, sizeof control);
    if (symbol)
        control()->reset(&options);
    return symbol != NULL;
}

/* In a process of its own: what opening device 0 says. */
static bool said_by(const char *first, const char *second, weft_status wanted, const char *text)
{
    int ended;
    pid_t child = fork();
    if (child == 0) {
        weft_gpu_device *device;
        const weft_gpu_driver *driver = world[WORLD_HIP].driver;
        if (!framework_begin(first, 1) || (second && !framework_begin(second, 1)))
            _exit(2);
        const bool in_use = driver->in_use();
        const weft_status status = driver->open(0, &device);
        const bool alone = second || !dlopen(world[WORLD_HIP].sonames[0], RTLD_NOW | RTLD_NOLOAD);
        _exit(!(status == wanted && in_use == (wanted == WEFT_OK) && alone && strstr(weft_last_error(), text)));
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

static void the_frameworks_is_taken(void **state)
{
    (void)state;
    assert_true(said_by(copy, NULL, WEFT_OK, ""));
}

static void two_are_refused(void **state)
{
    (void)state;
    assert_true(said_by(copy, world[WORLD_HIP].file, WEFT_E_MISSING, "libamdhip64-0badcafe.so.6"));
    assert_true(said_by(world[WORLD_HIP].file, copy, WEFT_E_MISSING, "two of them"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_frameworks_is_taken), cmocka_unit_test(two_are_refused)};
    return cmocka_run_group_tests(tests, copy_make, copy_end);
}

/* The memory of a host, read from made-up files: meminfo, control groups of both versions at any depth, and missing
 * files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem_host.h"
#include "tests/support/sanitized.h"

#define GB UINT64_C(1000000000)

static char root[64];

/* Writes a file below the root, with the folders that lead there. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(full, 0700);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(root, "/tmp/weft_mem_host.XXXXXX");
    assert_non_null(mkdtemp(root));
    put("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:          100000 kB\nMemAvailable:   12000000 kB\n");
    return 0;
}

static int teardown(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static weft_mem_host read_it(void)
{
    weft_mem_host memory;
    weft_mem_host_read(root, &memory);
    return memory;
}

static void the_host_alone(void **state)
{
    (void)state;
    const weft_mem_host memory = read_it();
    assert_int_equal(memory.total, UINT64_C(16000000) << 10);
    assert_int_equal(memory.available, UINT64_C(12000000) << 10);
    assert_string_equal(memory.by, "MemAvailable");
}

/* The tightest limit of a group and the groups around it counts. Cached files not in use count as available. "max"
 * limits nothing. */
static void groups_of_version_2(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/pods/one/weft\n");
    put("sys/fs/cgroup/pods/memory.max", "4000000000\n");
    put("sys/fs/cgroup/pods/memory.current", "3000000000\n");
    put("sys/fs/cgroup/pods/memory.stat", "anon 1\ninactive_anon 7\ninactive_file 500000000\n");
    put("sys/fs/cgroup/pods/one/memory.max", "2000000000\n");
    put("sys/fs/cgroup/pods/one/memory.current", "100000000\n");
    put("sys/fs/cgroup/pods/one/weft/memory.max", "max\n");
    put("sys/fs/cgroup/pods/one/weft/memory.current", "100000000\n");
    const weft_mem_host memory = read_it();
    assert_int_equal(memory.total, 2 * GB);
    assert_int_equal(memory.available, 3 * GB / 2); /* 4.0 - (3.0 - 0.5), less than 2.0 - 0.1 */
    assert_string_equal(memory.by, "a control group");
}

/* In a container the path may be the host's; the root is the container's own group. */
static void a_path_that_is_not_there(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/kubepods.slice/abc\n");
    put("sys/fs/cgroup/memory.max", "1000000000\n");
    put("sys/fs/cgroup/memory.current", "1200000000\n"); /* beyond it: nothing is left */
    const weft_mem_host memory = read_it();
    assert_int_equal(memory.total, GB);
    assert_int_equal(memory.available, 0);
}

static void groups_of_version_1(void **state)
{
    (void)state;
    put("proc/self/cgroup", "11:cpu,cpuacct:/other\n5:devices:/docker/x\n4:hugetlb,memory:/docker/x\n0::/unified\n");
    put("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "6000000000\n");
    put("sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes", "2500000000\n");
    put("sys/fs/cgroup/memory/docker/x/memory.stat", "inactive_file 900\ntotal_inactive_file 500000000\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1000\n"); /* of other controllers: not ours */
    const weft_mem_host memory = read_it();
    assert_int_equal(memory.total, 6 * GB);
    assert_int_equal(memory.available, 4 * GB);
}

static void files_that_say_nothing(void **state)
{
    (void)state;
    put("proc/meminfo", "MemTotal: many\n");
    put("proc/self/cgroup", "\n0\n0:\n::\n4:memory\n0::\n0::no/slash\n");
    put("sys/fs/cgroup/memory.max", "");
    const weft_mem_host memory = read_it();
    assert_true(memory.total > 0 && memory.total != UINT64_MAX && memory.available <= memory.total);
}

/* A limit of address space counts too, in a process of its own. */
static void address_space(void **state)
{
    (void)state;
#ifdef SANITIZED
    skip(); /* they have terabytes of it */
#endif
    const pid_t child = fork();
    if (child == 0) {
        weft_mem_host before, memory;
        const struct rlimit most = {2 * GB, 2 * GB};
        weft_mem_host_read("", &before);
        if (setrlimit(RLIMIT_AS, &most) != 0)
            _exit(1);
        weft_mem_host_read("", &memory);
        _exit(memory.total > 2 * GB || memory.available >= 2 * GB || memory.available < GB ? 2 : 0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
}

static uint64_t left_of(uint64_t available, uint64_t bytes)
{
    weft_mem_host memory = {UINT64_MAX, available, "a test"};
    weft_mem_host_reserve(&memory, bytes);
    return memory.available;
}

/* Weights that were taken and not yet read are still to come out of what is available. */
static void what_was_not_touched_is_pending(void **state)
{
    (void)state;
    const uint64_t all = GB, touched = 64 << 20, margin = 8 << 20;
    const uint64_t before = left_of(all, all);
    assert_int_equal(left_of(all, 0), all);
    assert_int_equal(left_of(1, all), 0);
    assert_in_range(before, 1, all - 1);
    volatile char *memory = malloc(touched);
    assert_non_null(memory);
    for (uint64_t at = 0; at < touched; at += 4096)
        memory[at] = 1;
    assert_in_range(left_of(all, all), before + touched - margin, all - 1);
    free((void *)(uintptr_t)memory);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {CASE(the_host_alone),
                                       CASE(groups_of_version_2),
                                       CASE(a_path_that_is_not_there),
                                       CASE(groups_of_version_1),
                                       CASE(files_that_say_nothing),
                                       CASE(address_space),
                                       CASE(what_was_not_touched_is_pending)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

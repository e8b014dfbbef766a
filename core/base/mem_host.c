#include "base/mem_host.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PATH_BYTES 4352 /* a path of a control group and the name of a file in it */

static void limit(weft_mem_host *memory, uint64_t total, uint64_t available, const char *by)
{
    if (total < memory->total)
        memory->total = total;
    if (available >= memory->available)
        return;
    memory->available = available;
    memory->by = by;
}

/* Reads the number after `name` at the beginning of a line; with name "" the file's first number. "max" and a missing
 * file count as no number. */
static bool number_in(const char *path, const char *name, uint64_t *number)
{
    char line[256];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file)) {
        unsigned long long value;
        const size_t bytes = strlen(name);
        found = strncmp(line, name, bytes) == 0 && sscanf(line + bytes, " %llu", &value) == 1;
        if (found)
            *number = value;
    }
    fclose(file);
    return found;
}

/* ---- the host */

static void read_host(const char *root, weft_mem_host *memory)
{
    char path[PATH_BYTES];
    uint64_t total, available;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (number_in(path, "MemTotal:", &total) && number_in(path, "MemAvailable:", &available))
        limit(memory, total << 10, available << 10, "MemAvailable");
    else
        limit(memory, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
              (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), "free pages");
}

/* ---- control groups */

/* The names of the files in one version of control groups. */
typedef struct group_files {
    const char *mount, *limit, *usage, *reclaimed;
} group_files;

static const group_files versions[] = {
    {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
    {"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"}};

/* Cached pages of files that were not used lately count as available, because the kernel gives them up first. */
static void read_group(const char *root, const group_files *files, const char *group, weft_mem_host *memory)
{
    char path[PATH_BYTES];
    uint64_t most, used = 0, cached = 0;
    snprintf(path, sizeof path, "%s/%s%s/%s", root, files->mount, group, files->limit);
    if (!number_in(path, "", &most))
        return;
    snprintf(path, sizeof path, "%s/%s%s/%s", root, files->mount, group, files->usage);
    number_in(path, "", &used);
    snprintf(path, sizeof path, "%s/%s%s/memory.stat", root, files->mount, group);
    number_in(path, files->reclaimed, &cached);
    used -= cached < used ? cached : used;
    limit(memory, most, most > used ? most - used : 0, "a control group");
}

/* A group and those around it: each may have a limit. Inside a container the path may be the host's, which is not
 * there; the outermost is the container's own then. */
static void read_groups(const char *root, const group_files *files, char *group, weft_mem_host *memory)
{
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = 0;
        read_group(root, files, group, memory);
    }
}

/* "0::/path" is version 2's, "4:cpu,memory:/path" is version 1's. */
static void read_control(const char *root, weft_mem_host *memory)
{
    char line[PATH_BYTES];
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file && fgets(line, 4096, file)) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        const bool second = strcmp(names, ":") == 0;
        bool memory_too = second;
        for (char *name = strtok(names + 1, ","); name; name = strtok(NULL, ","))
            memory_too = memory_too || strcmp(name, "memory") == 0;
        if (memory_too)
            read_groups(root, &versions[second], group, memory);
    }
    if (file)
        fclose(file);
}

/* ---- address space */

static void read_space(weft_mem_host *memory)
{
    struct rlimit space;
    uint64_t pages = 0;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY)
        return;
    number_in("/proc/self/statm", "", &pages);
    const uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    limit(memory, space.rlim_cur, space.rlim_cur > used ? space.rlim_cur - used : 0, "ulimit -v");
}

void weft_mem_host_reserve(weft_mem_host *memory, uint64_t bytes)
{
    unsigned long long size, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    const uint64_t there = resident * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t pending = bytes > there ? bytes - there : 0;
    memory->available -= pending < memory->available ? pending : memory->available;
}

void weft_mem_host_read(const char *root, weft_mem_host *memory)
{
    *memory = (weft_mem_host){UINT64_MAX, UINT64_MAX, "nobody"};
    read_host(root, memory);
    read_control(root, memory);
    if (!*root)
        read_space(memory);
}

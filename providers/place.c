#include "providers/place.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ACCELERATORS = 64 };

#define CAP_IPC_LOCK 14 /* linux/capability.h: pins whatever the limit */

/* The first line of a file of sysfs, without its end. */
static bool read_line(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    bool read = file && fgets(text, (int)capacity, file);
    if (file)
        fclose(file);
    if (read)
        text[strcspn(text, "\n")] = '\0';
    return read;
}

/* Where a link of sysfs leads. */
static bool follow(const char *path, char real[PATH_MAX])
{
    return realpath(path, real) != NULL;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_bus(const char *text)
{
    unsigned domain, bus, device, function;
    char rest;
    return sscanf(text, "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &rest) == 4;
}

int weft_place_node(const char *root, const char *bus)
{
    char path[PATH_MAX], text[32];
    if (!bus[0])
        return -1;
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/numa_node", root, bus);
    return read_line(path, text, sizeof text) ? (int)strtol(text, NULL, 10) : -1;
}

/* "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0": root complex, bridges, device. Two devices share as many parts
 * as their paths have in common; a shared bridge is one part more than the complex. */
static weft_distance compare_paths(const char *a, const char *b)
{
    const char *complex = strstr(a, "/pci");
    size_t same = 0, last = 0;
    unsigned parts = 0;
    while (a[same] && a[same] == b[same]) {
        same++;
        if ((a[same] == '/' || !a[same]) && (b[same] == '/' || !b[same]))
            last = same;
    }
    if (!complex || last < (size_t)(complex - a) + 4)
        return WEFT_DISTANCE_UNKNOWN;
    for (const char *at = complex + 1; at < a + last; at++)
        parts += *at == '/';
    return parts ? WEFT_DISTANCE_BRIDGE : WEFT_DISTANCE_COMPLEX;
}

weft_distance weft_place_distance(const char *root, const char *bus, const char *other)
{
    char path[PATH_MAX], real[PATH_MAX], real_other[PATH_MAX];
    if (!bus[0] || !other[0])
        return WEFT_DISTANCE_UNKNOWN;
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", root, bus);
    bool found = follow(path, real);
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", root, other);
    if (!found || !follow(path, real_other))
        return WEFT_DISTANCE_UNKNOWN;
    weft_distance distance = compare_paths(real, real_other);
    if (distance != WEFT_DISTANCE_UNKNOWN)
        return distance;
    int node = weft_place_node(root, bus), node_other = weft_place_node(root, other);
    if (node < 0 || node_other < 0)
        return WEFT_DISTANCE_UNKNOWN;
    return node == node_other ? WEFT_DISTANCE_NODE : WEFT_DISTANCE_FAR;
}

const char *weft_distance_text(weft_distance distance)
{
    static const char *const words[] = {
        [WEFT_DISTANCE_UNKNOWN] = "unknown",          [WEFT_DISTANCE_BRIDGE] = "one PCI bridge",
        [WEFT_DISTANCE_COMPLEX] = "one root complex", [WEFT_DISTANCE_NODE] = "one NUMA node",
        [WEFT_DISTANCE_FAR] = "another NUMA node",
    };
    return words[distance];
}

void weft_place_of_interface(const char *root, const char *interface, char bus[WEFT_PLACE_BUS])
{
    char path[PATH_MAX], real[PATH_MAX];
    bus[0] = '\0';
    snprintf(path, sizeof path, "%s/sys/class/net/%s/device", root, interface);
    if (!follow(path, real))
        return;
    /* A virtual function of a paravirtual bus lies below the PCI device. */
    for (char *part = strrchr(real, '/'); part; part = strrchr(real, '/')) {
        if (is_bus(part + 1)) {
            snprintf(bus, WEFT_PLACE_BUS, "%.*s", WEFT_PLACE_BUS - 1, part + 1);
            return;
        }
        *part = '\0';
    }
}

/* Display and 3D controllers, processing accelerators: classes 0x03 and 0x12, but no plain VGA (0x0300). */
static bool is_accelerator(const char *root, const char *bus)
{
    char path[PATH_MAX], text[32];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/class", root, bus);
    if (!read_line(path, text, sizeof text))
        return false;
    unsigned long class = strtoul(text, NULL, 16) >> 8;
    return class == 0x0302 || class == 0x0380 || class >> 8 == 0x12;
}

static void insert_bus(char (*list)[WEFT_PLACE_BUS], size_t count, size_t capacity, const char *bus)
{
    size_t at = count < capacity ? count : capacity;
    while (at && strcmp(list[at - 1], bus) > 0) {
        if (at < capacity)
            memcpy(list[at], list[at - 1], WEFT_PLACE_BUS);
        at--;
    }
    if (at < capacity)
        snprintf(list[at], WEFT_PLACE_BUS, "%.*s", WEFT_PLACE_BUS - 1, bus);
}

size_t weft_place_accelerators(const char *root, char (*list)[WEFT_PLACE_BUS], size_t capacity)
{
    char path[PATH_MAX];
    size_t count = 0;
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", root);
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        if (is_bus(entry->d_name) && is_accelerator(root, entry->d_name))
            insert_bus(list, count++, capacity, entry->d_name);
    closedir(folder);
    return count;
}

void weft_place_accelerator(const char *root, uint32_t number, char bus[WEFT_PLACE_BUS])
{
    char list[ACCELERATORS][WEFT_PLACE_BUS];
    size_t count = weft_place_accelerators(root, list, ACCELERATORS);
    snprintf(bus, WEFT_PLACE_BUS, "%s", number < count && number < ACCELERATORS ? list[number] : "");
}

static bool is_kind(const char *root, const char *device, weft_profile_device kind)
{
    char path[PATH_MAX], real[PATH_MAX];
    snprintf(path, sizeof path, "%s/sys/class/infiniband/%s/device/driver", root, device);
    bool efa = follow(path, real) ? strcmp(last_part(real), "efa") == 0 : strncmp(device, "efa", 3) == 0;
    return efa == (kind == WEFT_DEVICE_EFA);
}

size_t weft_place_rdma(const char *root, weft_profile_device kind, char *names, size_t capacity)
{
    char path[PATH_MAX];
    size_t count = 0, used = 0;
    names[0] = '\0';
    snprintf(path, sizeof path, "%s/sys/class/infiniband", root);
    DIR *folder = kind == WEFT_DEVICE_NONE ? NULL : opendir(path);
    if (!folder)
        return 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (entry->d_name[0] == '.' || !is_kind(root, entry->d_name, kind))
            continue;
        int n = snprintf(names + used, capacity - used, "%s%s", count++ ? ", " : "", entry->d_name);
        used += n > 0 && (size_t)n < capacity - used ? (size_t)n : 0;
        names[used] = '\0';
    }
    closedir(folder);
    return count;
}

/* Neither empty nor fe80::/10. */
static bool is_routable_gid(const char *text)
{
    return strspn(text, "0:") < strlen(text) && strncmp(text, "fe8", 3) != 0 && strncmp(text, "fe9", 3) != 0 &&
           strncmp(text, "fea", 3) != 0 && strncmp(text, "feb", 3) != 0;
}

int weft_place_gids(const char *root, const char *device)
{
    char path[PATH_MAX], text[64];
    int routable = 0, read = 0;
    for (int i = 0; i < 256; i++) {
        snprintf(path, sizeof path, "%s/sys/class/infiniband/%s/ports/1/gids/%d", root, device, i);
        if (!read_line(path, text, sizeof text))
            break;
        read++;
        routable += is_routable_gid(text);
    }
    return read ? routable : -1;
}

static bool may_lock_anything(void)
{
    char line[128];
    unsigned long long capabilities = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "CapEff:", 7) == 0)
            capabilities = strtoull(line + 7, NULL, 16);
    if (file)
        fclose(file);
    return capabilities >> CAP_IPC_LOCK & 1;
}

uint64_t weft_place_pin_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || may_lock_anything())
        return UINT64_MAX;
    return limit.rlim_cur;
}

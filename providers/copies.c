#include "providers/copies.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/status.h"
#include "providers/profile.h"

#define COPIES_MAX 8u
#define PATH_ROOM  4096u

typedef struct copy {
    char path[PATH_ROOM];
    dev_t device;
    ino_t inode;
    bool used; /* by weft */
} copy;

typedef struct search {
    const void *anchor;
    copy *found;
    size_t count; /* at most COPIES_MAX */
} search;

/* libfabric.so.1, libfabric.so.1.18.2; libfabric-0a1b2c3d.so.1 is what packers of Python wheels make of it. */
static bool is_libfabric(const char *path)
{
    static const char stem[] = "libfabric";
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (strncmp(name, stem, sizeof stem - 1) != 0)
        return false;
    name += sizeof stem - 1;
    return strncmp(name, ".so", 3) == 0 || (*name == '-' && strstr(name, ".so"));
}

static bool contains(const struct dl_phdr_info *object, const void *address)
{
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        uintptr_t begin = (uintptr_t)object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
        if (object->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t)address >= begin &&
            (uintptr_t)address - begin < object->dlpi_phdr[i].p_memsz)
            return true;
    }
    return false;
}

static int look(struct dl_phdr_info *object, size_t size, void *user)
{
    search *search = user;
    struct stat file;
    bool used = search->anchor && contains(object, search->anchor);
    (void)size;
    if (search->count == COPIES_MAX || !object->dlpi_name || (!used && !is_libfabric(object->dlpi_name)))
        return 0;
    copy *copy = &search->found[search->count];
    if (!*object->dlpi_name || stat(object->dlpi_name, &file) != 0)
        return 0; /* linked into the program, or a file that is gone: no path to name */
    for (size_t i = 0; i < search->count; i++)
        if (search->found[i].device == file.st_dev && search->found[i].inode == file.st_ino)
            return 0;
    copy->device = file.st_dev;
    copy->inode = file.st_ino;
    copy->used = used;
    snprintf(copy->path, sizeof copy->path, "%s", object->dlpi_name);
    search->count++;
    return 0;
}

/* The copies, the one in use first. */
static size_t copies_find(copy found[COPIES_MAX])
{
    search search = {.anchor = weft_fabric_anchor(), .found = found};
    dl_iterate_phdr(look, &search);
    for (size_t i = 1; i < search.count; i++)
        if (found[i].used) {
            copy first = found[i];
            found[i] = found[0];
            found[0] = first;
        }
    return search.count;
}

/* Asked of the copy itself. A file that another loader context keeps for itself is not found, and says nothing. */
static void version_of(const char *path, char *text, size_t capacity)
{
    uint32_t (*version)(void) = NULL;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = handle ? dlsym(handle, "fi_version") : NULL;
    text[0] = '\0';
    if (symbol) {
        memcpy(&version, &symbol, sizeof version);
        snprintf(text, capacity, "%u.%u", version() >> 16, version() & 0xffff);
    }
    if (handle)
        dlclose(handle);
}

static void describe(const copy *copy, weft_library_info *info)
{
    char resolved[PATH_ROOM];
    const char *path = realpath(copy->path, resolved) ? resolved : copy->path;
    size_t length = strlen(path), most = sizeof info->path - 1;
    memset(info, 0, sizeof *info);
    version_of(copy->path, info->version, sizeof info->version);
    memcpy(info->path, length > most ? path + length - most : path, length > most ? most : length);
}

weft_status weft_libraries(weft_library_info *libraries, size_t capacity, size_t *count)
{
    copy found[COPIES_MAX];
    if (!count || (capacity && !libraries))
        return weft_fail(WEFT_E_ARGUMENT, "weft_libraries: count and, with a capacity, the array must not be NULL");
    *count = copies_find(found);
    for (size_t i = 0; i < *count && i < capacity; i++)
        describe(&found[i], &libraries[i]);
    return WEFT_OK;
}

void weft_copies_warn(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static size_t warned = 1; /* copies that are known, the one in use among them */
    weft_library_info all[COPIES_MAX];
    size_t count = 0;
    pthread_mutex_lock(&once);
    if (weft_libraries(all, COPIES_MAX, &count) == WEFT_OK && count > warned) {
        warned = count;
        weft_log(WEFT_LOG_WARN,
                 "two copies of libfabric are in this process: weft uses %s (%s), and %s (%s) was loaded beside it by "
                 "something that brings its own. They know nothing of each other: providers may be missing, fall back "
                 "to TCP or hang, in weft or in the other. Let all use one: remove the bundled file, or start with "
                 "LD_LIBRARY_PATH naming the folder of the one that the site wants",
                 all[0].path, all[0].version, all[count - 1].path,
                 *all[count - 1].version ? all[count - 1].version : "of unknown version");
    }
    pthread_mutex_unlock(&once);
}

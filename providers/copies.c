#include "providers/copies.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "providers/profile.h"

typedef struct others {
    struct stat own; /* the file of the copy in use */
    size_t count;
    char last[4096]; /* path */
} others;

/* libfabric.so.1, libfabric.so.1.18.2; packers of Python wheels make libfabric-0a1b2c3d.so.1 of it. */
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

static int look(struct dl_phdr_info *object, size_t size, void *user)
{
    others *others = user;
    struct stat file;
    (void)size;
    if (!object->dlpi_name || !is_libfabric(object->dlpi_name) || stat(object->dlpi_name, &file) != 0)
        return 0;
    if (file.st_dev == others->own.st_dev && file.st_ino == others->own.st_ino)
        return 0;
    others->count++;
    snprintf(others->last, sizeof others->last, "%s", object->dlpi_name);
    return 0;
}

const char *weft_copies_used(void)
{
    Dl_info found;
    const void *anchor = weft_fabric_anchor();
    return anchor && dladdr(anchor, &found) ? found.dli_fname : NULL;
}

void weft_copies_warn(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static size_t warned; /* copies that were reported */
    const char *used = weft_copies_used();
    others others = {.count = 0};
    if (!used || stat(used, &others.own) != 0)
        return;
    dl_iterate_phdr(look, &others);
    pthread_mutex_lock(&once);
    bool news = others.count > warned;
    if (news)
        warned = others.count;
    pthread_mutex_unlock(&once);
    if (news)
        weft_log(WEFT_LOG_WARN,
                 "two copies of libfabric are in this process: weft uses %s, and %s was loaded beside it by something "
                 "that brings its own. They know nothing of each other: providers may be missing, fall back to TCP or "
                 "hang, in weft or in the other. Let all use one: remove the bundled file, or start with "
                 "LD_LIBRARY_PATH naming the folder of the one that the site wants",
                 used, others.last);
}

/* fabric_call.c - opens libfabric at run time, because a host without it still has update files, and because a packed
 * copy would be a second libfabric in the processes of others. Headers define most calls inline, over tables of the
 * objects that the six calls here make. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SONAME   "libfabric.so.1"
#define PACKAGES "Debian, Ubuntu: libfabric1; Fedora, SUSE: libfabric; AWS: the EFA installer"

/* The library as this process has it. */
typedef struct library {
    uint32_t (*version)(void);
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int number);
    char absence[256]; /* "": the calls are there */
} library;

/* One call: its name, the version of it that the headers describe (cmake/dependencies.cmake), its place. */
typedef struct call {
    const char *name;
    const char *version;
    size_t place;
} call;

static library opened;

static void tell_absence(const char *text)
{
    snprintf(opened.absence, sizeof opened.absence, "install libfabric %d.%d or later (" PACKAGES "): %s",
             FI_MAJOR_VERSION, FI_MINOR_VERSION, text);
}

static bool find_calls(void *handle)
{
    static const call calls[] = {
        {"fi_version", WEFT_FABRIC_ABI_fi_version, offsetof(library, version)},
        {"fi_getinfo", WEFT_FABRIC_ABI_fi_getinfo, offsetof(library, getinfo)},
        {"fi_freeinfo", WEFT_FABRIC_ABI_fi_freeinfo, offsetof(library, freeinfo)},
        {"fi_dupinfo", WEFT_FABRIC_ABI_fi_dupinfo, offsetof(library, dupinfo)},
        {"fi_fabric", WEFT_FABRIC_ABI_fi_fabric, offsetof(library, fabric)},
        {"fi_strerror", WEFT_FABRIC_ABI_fi_strerror, offsetof(library, strerror)},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = dlvsym(handle, calls[i].name, calls[i].version);
        char text[128];
        if (!found) {
            snprintf(text, sizeof text, SONAME " lacks %s of %s", calls[i].name, calls[i].version);
            tell_absence(text);
            return false;
        }
        memcpy((char *)&opened + calls[i].place, &found, sizeof found);
    }
    return true;
}

/* Libraries for InfiniPath and Omni-Path, which a libfabric may bring along, take six signals of the process when they
 * are loaded, and end the process at Ctrl-C. They leave the signals alone where these variables are set. */
static void keep_signals(void)
{
    setenv("IPATH_NO_BACKTRACE", "1", 0);
    setenv("HFI_NO_BACKTRACE", "1", 0);
}

/* The library stays mapped, because its threads and objects outlive any session. */
static void open_library(void)
{
    keep_signals();
    void *handle = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    const char *said = handle ? NULL : dlerror();
    if (!handle)
        tell_absence(said ? said : SONAME " cannot be opened");
    else if (!find_calls(handle))
        dlclose(handle);
}

/* The library, opened by the first call; NULL: it is absent. */
static const library *library_here(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    return opened.absence[0] ? NULL : &opened;
}

const char *weft_fabric_absence(void)
{
    library_here();
    return opened.absence;
}

const void *weft_fabric_anchor(void)
{
    const library *here = library_here();
    const void *address = NULL;
    if (here)
        memcpy(&address, &here->version, sizeof address); /* C has no cast between the two kinds of pointers */
    return address;
}

uint32_t weft_fabric_version(void)
{
    const library *here = library_here();
    return here ? here->version() : 0;
}

int weft_fabric_call_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                             const struct fi_info *hints, struct fi_info **info)
{
    const library *here = library_here();
    return here ? here->getinfo(version, node, service, flags, hints, info) : -FI_ENOSYS;
}

void weft_fabric_call_freeinfo(struct fi_info *info)
{
    const library *here = library_here();
    if (here)
        here->freeinfo(info);
}

struct fi_info *weft_fabric_call_dupinfo(const struct fi_info *info)
{
    const library *here = library_here();
    return here ? here->dupinfo(info) : NULL;
}

int weft_fabric_call_fabric(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context)
{
    const library *here = library_here();
    return here ? here->fabric(attributes, fabric, context) : -FI_ENOSYS;
}

const char *weft_fabric_call_strerror(int number)
{
    const library *here = library_here();
    return here ? here->strerror(number) : opened.absence;
}
#else
typedef int weft_fabric_call_is_absent;
#endif

/* gpu_library.c - the only calls of dlopen for drivers.
 *
 * A framework may bring a runtime of its own under another file name (ROCm in Python wheels). Two of them in one
 * process know nothing of each other's memory and streams. So the one that the process has is taken, whatever its name,
 * and a process that has two is refused. */
#include "backends/gpu/gpu_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* guards every library's own part */

/* Keeps the reason why a file was not opened, unless the file is missing. */
static void reason_keep(const char *file, char *reason, size_t capacity)
{
    const char *said = dlerror();
    if (said && strncmp(said, file, strlen(file)) != 0)
        snprintf(reason, capacity, "%s cannot be loaded: %s", file, said);
}

/* The files of a library that the process has mapped, whatever their names: "libamdhip64-1a2b.so.6" too. */
typedef struct loaded {
    const char *stem; /* up to its ".so" */
    size_t length;
    char file[2][PATH_MAX];
    uint32_t count; /* of files, of which two are kept */
} loaded;

/* True for what follows the stem in names as vendors and wheels give them: ".so.6", and "-1a2b3c4d.so.6". */
static int ends_so(const char *rest)
{
    if (*rest == '-')
        rest += 1 + strspn(rest + 1, "0123456789abcdef");
    return strncmp(rest, ".so", 3) == 0;
}

static int loaded_see(struct dl_phdr_info *info, size_t bytes, void *user)
{
    loaded *all = user;
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    (void)bytes;
    if (strncmp(name, all->stem, all->length) != 0 || !ends_so(name + all->length))
        return 0;
    if (all->count < 2)
        snprintf(all->file[all->count], sizeof all->file[0], "%s", info->dlpi_name);
    all->count++;
    return 0;
}

static void loaded_find(const weft_gpu_library *library, loaded *all)
{
    all->stem = library->files[0];
    all->length = (size_t)(strstr(library->files[0], ".so") - library->files[0]);
    all->count = 0;
    dl_iterate_phdr(loaded_see, all);
}

/* Opens the library that the process has already. NULL: the process has none, or several, which `reason` says. */
static void *loaded_open(const loaded *all, const char **file, char *reason, size_t capacity)
{
    if (all->count > 1)
        snprintf(reason, capacity, "this process has loaded two of them, %.160s and %.160s; load the framework's alone",
                 all->file[0], all->file[1]);
    if (all->count != 1)
        return NULL;
    *file = all->file[0];
    return dlopen(*file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

/* Kept to the end of the process: drivers have threads and exit handlers of their own. */
static void *file_open(weft_gpu_library *library, loaded *all, const char **file, char *reason, size_t capacity)
{
    loaded_find(library, all);
    void *handle = loaded_open(all, file, reason, capacity);
    library->foreign = handle != NULL;
    if (handle || all->count > 1)
        return handle;
    snprintf(reason, capacity, "there is no %s on this host", library->files[0]);
    for (size_t i = 0; library->files[i]; i++) {
        *file = library->files[i];
        handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
        if (handle)
            return handle;
        reason_keep(*file, reason, capacity);
    }
    return NULL;
}

/* Sets a function from its symbol; false if the library lacks the symbol. A row without a symbol is the other vendor's.
 */
static int function_find(void *handle, const char *symbol, void *function)
{
    void *found = symbol ? dlsym(handle, symbol) : NULL;
    memcpy(function, &found, sizeof found);
    return !symbol || found;
}

static const char *functions_find(const weft_gpu_library *library, void *handle, weft_gpu_calls *calls)
{
#define FIND(result, name, parameters, cuda, hip)                                                                      \
    {                                                                                                                  \
        const char *symbol = library->symbols == WEFT_GPU_CUDA ? cuda : hip;                                           \
        if (!function_find(handle, symbol, &calls->name))                                                              \
            return symbol;                                                                                             \
    }
    WEFT_GPU_CALLS(FIND)
#undef FIND
    return NULL;
}

static weft_status library_open(weft_gpu_library *library)
{
    static loaded all; /* guarded by `opening` */
    const char *file = NULL;
    char reason[512];
    void *handle = file_open(library, &all, &file, reason, sizeof reason);
    if (!handle)
        return weft_fail_quiet(WEFT_E_MISSING, "no %s: %s", library->owner, reason);
    const char *lacking = functions_find(library, handle, &library->calls);
    if (lacking) {
        dlclose(handle);
        return weft_fail_quiet(WEFT_E_MISSING, "the %s is too old: %s has no %s", library->owner, file, lacking);
    }
    library->handle = handle;
    return WEFT_OK;
}

weft_status weft_gpu_library_open(weft_gpu_library *library, const weft_gpu_calls **calls)
{
    pthread_mutex_lock(&opening);
    weft_status status = library->handle ? WEFT_OK : library_open(library);
    pthread_mutex_unlock(&opening);
    *calls = &library->calls;
    return status;
}

int weft_gpu_library_foreign(weft_gpu_library *library)
{
    static loaded all; /* guarded by `opening` */
    pthread_mutex_lock(&opening);
    int foreign = library->foreign;
    if (!library->handle) {
        loaded_find(library, &all);
        foreign = all.count > 0;
    }
    pthread_mutex_unlock(&opening);
    return foreign;
}

/* gpu_library.c - the only calls of dlopen for drivers. */
#include "backends/gpu/gpu_library.h"

#include <dlfcn.h>
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

/* Kept to the end of the process: drivers have threads and exit handlers of their own. */
static void *file_open(weft_gpu_library *library, const char **file, char *reason, size_t capacity)
{
    snprintf(reason, capacity, "there is no %s on this host", library->files[0]);
    for (size_t i = 0; library->files[i]; i++) {
        *file = library->files[i];
        void *handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (handle) {
            library->foreign = 1;
            return handle;
        }
    }
    for (size_t i = 0; library->files[i]; i++) {
        *file = library->files[i];
        void *handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
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
    const char *file = NULL;
    char reason[256];
    void *handle = file_open(library, &file, reason, sizeof reason);
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
    pthread_mutex_lock(&opening);
    int foreign = library->foreign;
    for (size_t i = 0; !library->handle && !foreign && library->files[i]; i++) {
        void *handle = dlopen(library->files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        foreign = handle != NULL;
        if (handle)
            dlclose(handle);
    }
    pthread_mutex_unlock(&opening);
    return foreign;
}

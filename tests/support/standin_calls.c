/* standin_calls.c - the rooms as a shared library make these calls by way of the test, where it has them wrapped
 * (LINKER:--wrap), and of the system elsewhere. */
#include <stdint.h>

#ifdef WEFT_ROOMS_SHARED
#include <dirent.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CALL(type, name, parameters, arguments)                                                                        \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    __attribute__((weak)) type __wrap_##name parameters                                                                \
    {                                                                                                                  \
        return __real_##name arguments;                                                                                \
    }

CALL(DIR *, opendir, (const char *name), (name))
CALL(int, fstat, (int file, struct stat *facts), (file, facts))
CALL(int, fstatfs, (int file, struct statfs *facts), (file, facts))
CALL(int, fsync, (int file), (file))
CALL(int, inotify_add_watch, (int events, const char *name, uint32_t mask), (events, name, mask))
CALL(int, mkdir, (const char *name, mode_t mode), (name, mode))
CALL(int, renameat2, (int from, const char *old, int to, const char *new, unsigned flags), (from, old, to, new, flags))
CALL(int, statx, (int folder, const char *name, int flags, unsigned mask, struct statx *facts),
     (folder, name, flags, mask, facts))
CALL(int, unlink, (const char *name), (name))
CALL(int, weft_curl_open, (const void **lib), (lib))
CALL(ssize_t, write, (int file, const void *data, size_t bytes), (file, data, bytes))
#endif

/* folder.h - a folder of a test's own, which goes with all that is in it. */
#ifndef WEFT_TESTS_FOLDER_H
#define WEFT_TESTS_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static inline void folder_open(char *path, size_t room)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, room, "%s/weft-test-XXXXXX", base && base[0] ? base : "/tmp");
    if (!mkdtemp(path))
        abort();
}

static inline int folder_entry_remove(const char *path, const struct stat *facts, int kind, struct FTW *at)
{
    (void)facts;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void folder_close(const char *path)
{
    nftw(path, folder_entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

#endif

/* file_unfinished.c - the process's unfinished files and folders, for a signal handler that ends it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define NOTED_MAX 16u /* an output has two at most: its folder and the file in it that is being written */

/* The thread that removes a name from its place owns the name, because a signal handler may run beside the writer. */
static char *_Atomic noted[NOTED_MAX];
static atomic_bool ending;

void weft_file_note(char *temporary)
{
    for (size_t i = 0; i < NOTED_MAX; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&noted[i], &none, temporary))
            return;
    }
}

static bool taken_back(char *temporary)
{
    for (size_t i = 0; i < NOTED_MAX; i++) {
        char *own = temporary;
        if (atomic_compare_exchange_strong(&noted[i], &own, NULL))
            return true;
    }
    return false;
}

void weft_file_forget(char *temporary)
{
    if (temporary && (taken_back(temporary) || !atomic_load(&ending)))
        weft_mem_give(temporary);
}

/* Removes files until none can be removed, because one listing may leave out entries that moved meanwhile. */
static void folder_empty(int folder)
{
    _Alignas(struct dirent64) char entries[2048];
    bool removed;
    do {
        ssize_t bytes;
        removed = false;
        lseek(folder, 0, SEEK_SET);
        while ((bytes = getdents64(folder, entries, sizeof entries)) > 0) {
            for (ssize_t at = 0; at < bytes;) {
                const struct dirent64 *entry = (const void *)(entries + at);
                removed = unlinkat(folder, entry->d_name, 0) == 0 || removed;
                at += entry->d_reclen;
            }
        }
    } while (removed);
}

static void path_remove(const char *path)
{
    if (unlink(path) == 0)
        return;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    folder_empty(folder);
    close(folder);
    rmdir(path);
}

void weft_file_abandon(void)
{
    atomic_store(&ending, true);
    for (size_t i = 0; i < NOTED_MAX; i++) {
        const char *path = atomic_exchange(&noted[i], NULL);
        if (path)
            path_remove(path);
    }
}

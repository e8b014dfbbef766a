/* file.h - an output file that is whole under its name, or is not there at all.
 *
 * Bytes go to a temporary file beside the final name. `finish` syncs that file and renames it to the final name. Error
 * texts do not name the path, because the caller does (weft_fail_about). */
#ifndef WEFT_CORE_FILE_H
#define WEFT_CORE_FILE_H

#include <stdbool.h>

#include "weft.h"

typedef struct weft_file {
    int descriptor;               /* -1: closed */
    char *path;                   /* the final name */
    char *temporary;              /* name of the temporary file; NULL: there is none */
    const _Atomic bool *unwanted; /* another thread sets it when the file is to have no name; NULL: nobody does */
} weft_file;

/* Creates the temporary file, with the mode that the umask grants. Errors: WEFT_E_FILE (also if the name belongs to
 * something that is no ordinary file), WEFT_E_MEMORY. */
weft_status weft_file_begin(weft_file *file, const char *path);
/* Checks that a file could be renamed to the path: the directory is writable, and the name is free or an ordinary
 * file's. Later trouble, such as a full disk, is not foreseen. Errors: WEFT_E_FILE, WEFT_E_MEMORY. */
weft_status weft_file_check(const char *path);
/* Checks the same for a file or a folder. The name may belong to anything but a mount point, and may end in slashes. */
weft_status weft_file_place_check(const char *path);
/* Appends bytes. Errors: WEFT_E_FILE (the disk is full, or a mapped file that is copied from shrank). */
weft_status weft_file_put(weft_file *file, const void *data, uint64_t bytes);
/* Writes bytes at an offset, of a file that is not appended to any more. Errors: as weft_file_put. */
weft_status weft_file_put_at(weft_file *file, const void *data, uint64_t bytes, uint64_t offset);
/* Syncs the file, renames it, and syncs the directory. On an error only what had the name before is left. */
weft_status weft_file_finish(weft_file *file);
/* The same, but a name that somebody took meanwhile stays as it is. Errors: WEFT_E_STATE (the name is taken). */
weft_status weft_file_finish_new(weft_file *file);
/* Removes an unfinished file. A record that is all zero or finished may be dropped too. */
void weft_file_drop(weft_file *file);

/* Makes a rename in the directory of `path` durable. Some file systems cannot. Errors: WEFT_E_FILE. */
weft_status weft_file_sync_directory(const char *path);

/* Draws a temporary name, weft-XXXXXXXX.tmp, in the directory of `path`. The name comes from weft_mem_take; NULL: no
 * memory. */
char *weft_file_beside(const char *path);

/* Registers a temporary name while a file or folder has it, so that a process that ends at once can remove it.
 * weft_file_forget frees the name when that is gone or renamed; NULL is allowed. */
void weft_file_note(char *temporary);
void weft_file_forget(char *temporary);
/* Removes all registered files, and folders with the files in them. Only for a signal handler that ends the process,
 * because no other call is sound afterwards. Async-signal-safe. */
void weft_file_abandon(void);

/* ---- file_left.c: files of writers that are gone */

/* Tells whether one host alone writes a descriptor's file system, so that its locks are all there are. */
bool weft_file_is_local(int descriptor);
/* Takes a writer's lock on a file that was just created. Returns false if somebody took the file for one that was left.
 */
bool weft_file_lock(int descriptor);
/* Removes an unfinished file whose writer is gone. Where locks do not tell that, because other hosts may write, the
 * file goes if it was last written before `time_s`. Returns true if it was removed. */
bool weft_file_left_remove(const char *path, uint64_t time_s);

/* Reads exactly `bytes` bytes at `offset`. Errors: WEFT_E_FILE (also if the file ends before). */
weft_status weft_file_read(int descriptor, void *out, uint64_t bytes, uint64_t offset);

#endif

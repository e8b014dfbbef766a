/* file.h - a file that is whole under its name, or not there at all.
 *
 * What is written goes to a temporary name beside the final one; `finish` syncs it and puts it in its place. Texts of
 * errors do not name the path: the caller does (weft_fail_about). */
#ifndef WEFT_CORE_FILE_H
#define WEFT_CORE_FILE_H

#include "weft.h"

typedef struct weft_file {
    int descriptor;  /* -1: closed */
    char *path;      /* final name */
    char *temporary; /* NULL: none stands */
} weft_file;

/* Creates the temporary, with the mode that the umask grants. Errors: WEFT_E_FILE (also when something that is no
 * ordinary file stands under the name), WEFT_E_MEMORY. */
weft_status weft_file_begin(weft_file *file, const char *path);
/* Whether a whole file could be renamed to the path: its directory is there and may be written to, and nothing that is
 * no ordinary file stands there. What comes later, such as a full disk, is not told. Errors: WEFT_E_FILE,
 * WEFT_E_MEMORY. */
weft_status weft_file_check(const char *path);
/* The same for a file or a folder, whatever stands there, but not what is mounted there. Slashes may end the path. */
weft_status weft_file_place_check(const char *path);
/* Appends. Errors: WEFT_E_FILE (disk full, or memory of a mapped file that shrank). */
weft_status weft_file_put(weft_file *file, const void *data, uint64_t bytes);
/* Syncs, renames, syncs the directory; on an error nothing of it is left but what stood under the name before. */
weft_status weft_file_finish(weft_file *file);
/* Removes what is not finished. A file that is all zero or finished may be dropped too. */
void weft_file_drop(weft_file *file);

/* Makes a rename in the directory of `path` last. Not every file system can. Errors: WEFT_E_FILE. */
weft_status weft_file_sync_directory(const char *path);

/* Draws a name in the directory of `path`, weft-XXXXXXXX.tmp, for something unfinished; comes from weft_mem_take, NULL
 * without memory. */
char *weft_file_beside(const char *path);

/* Such names as long as something stands under them, so that a process that ends at once need not leave it behind:
 * noted by who made it, and forgotten, which gives the name back, when it is gone or in its place. NULL may be
 * forgotten. */
void weft_file_note(char *temporary);
void weft_file_forget(char *temporary);
/* Removes all that is noted, folders with the files in them. For a signal handler that ends the process: nothing else
 * is sound after it. Async-signal-safe. */
void weft_file_abandon(void);

/* Reads exactly `bytes` at `offset`. Errors: WEFT_E_FILE (also when the file ends before). */
weft_status weft_file_read(int descriptor, void *out, uint64_t bytes, uint64_t offset);

#endif

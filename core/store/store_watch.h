/* store_watch.h - tells whether a folder changed since it was walked.
 *
 * inotify tells all of a file system that this host alone writes. Others (NFS, Lustre, FUSE) accept watches and stay
 * silent about what comes from elsewhere. There the times of folders are looked at, and no file's. */
#ifndef WEFT_CORE_STORE_WATCH_H
#define WEFT_CORE_STORE_WATCH_H

#include <stdbool.h>
#include <sys/stat.h>

#include "weft.h"

/* The times of one folder, as they were before it was listed. */
typedef struct weft_store_mark {
    char *path;
    uint64_t times;
} weft_store_mark;

typedef struct weft_store_watch {
    bool begun;             /* somebody waits, so walks are to show folders and files */
    int events;             /* inotify descriptor; -1: none */
    bool stirred;           /* something came since the last walk began, or there was none */
    bool silent;            /* the last walk met a folder that inotify does not tell all of */
    weft_store_mark *marks; /* folders to look at: the first one, and those that tell nothing by themselves */
    uint64_t count, capacity;
    uint64_t files, files_before; /* one word for what the last walk found, and the one before */
    uint64_t again_ns;            /* time of one more walk; 0: none is due */
} weft_store_watch;

/* Begins to watch. Nothing is known before the next walk. */
void weft_store_watch_begin(weft_store_watch *watch);
void weft_store_watch_close(weft_store_watch *watch);

/* Around a walk. Without success nothing is known after it. */
void weft_store_watch_walk(weft_store_watch *watch);
void weft_store_watch_walked(weft_store_watch *watch, bool success);
/* Shows a folder that is open, before it is listed. Returns true if inotify tells all that comes there; else *times
 * receives its times, for weft_store_watch_mark. */
bool weft_store_watch_folder(weft_store_watch *watch, const char *path, int folder, uint64_t *times);
/* Has the times of a folder be looked at from here on; 0: those of now. Without memory for that the next look is a
 * walk. */
void weft_store_watch_mark(weft_store_watch *watch, const char *path, uint64_t times);
void weft_store_watch_file(weft_store_watch *watch, const struct stat *facts);

/* Tells whether a walk may find what the last one did not. */
bool weft_store_watch_stirred(weft_store_watch *watch);
/* Returns after so many milliseconds, or as soon as inotify tells of something. False: a signal came. */
bool weft_store_watch_wait(weft_store_watch *watch, uint32_t ms);

/* Tells whether a name, without folders, is that of an unfinished file. */
bool weft_store_watch_is_unfinished(const char *name);

#endif

/* follow_list.h - the checkpoints of a directory as they were seen last, and what the system told of their names. */
#ifndef WEFT_TOOLS_FOLLOW_LIST_H
#define WEFT_TOOLS_FOLLOW_LIST_H

#include <limits.h>

#include "tools/follow/checkpoint.h"

enum { WEFT_STEADY_MS = 2000 };

/* A name and what was seen of it. */
typedef struct weft_entry {
    char name[NAME_MAX + 1];
    weft_look seen;
    weft_look out; /* as it was when it was handed out, if `is_out` */
    double since;  /* weft_now_ms when it was first seen so; long ago if its own time says so */
    bool renamed;  /* into the directory, as seen */
    bool written;  /* or put there anew, since it was handed out */
    bool taken;
    bool is_out; /* published */
    bool past;   /* of a folder: looked into again only when a name in it comes or goes */
    bool warned, waited;
    double failed;   /* weft_now_ms when it first could not be read, for a reason that may pass; 0: it could */
    double again_at; /* not before it is tried again */
} weft_entry;

typedef struct weft_follow_list {
    char directory[PATH_MAX];
    weft_entry *items; /* in natural order */
    size_t count, room;
    int watch;           /* inotify; -1: none, then steadiness alone tells */
    int wd;              /* its watch on the directory; -1: none */
    struct stat watched; /* the directory that it watches; its inode 0: none */
    bool may_pass;       /* the reason for which the directory could not be read last */
} weft_follow_list;

void weft_follow_list_open(const char *directory, weft_follow_list *list);
void weft_follow_list_close(weft_follow_list *list);

/* Lists the directory anew. What is steady for long already may be told as such by the first of these calls. Errors:
 * WEFT_E_FILE, WEFT_E_MEMORY: the list stays as it was. */
weft_status weft_follow_list_scan(weft_follow_list *list, bool first);

/* Marks what was renamed in or written since the last call. The marks count for the files as scanned, so scan first. */
void weft_follow_list_mark(weft_follow_list *list);

weft_entry *weft_follow_list_find(const weft_follow_list *list, const char *name);

/* Whether it was seen so for two seconds, or is said to be whole. */
bool weft_entry_is_steady(const weft_entry *entry);
bool weft_entry_is_told_whole(const weft_entry *entry);

/* Errors of a file that are the machine's or the network's trouble: the error that the text of the last one ends in,
 * of WEFT_E_FILE, or want of memory; 0: none. */
int weft_follow_trouble(weft_status status);

#endif

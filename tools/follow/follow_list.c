#include "tools/follow/follow_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/status.h"
#include "tools/follow/natural.h"
#include "tools/output.h"

static int entry_order(const void *a, const void *b)
{
    return weft_natural_compare(((const weft_entry *)a)->name, ((const weft_entry *)b)->name);
}

weft_entry *weft_follow_list_find(const weft_follow_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

bool weft_entry_is_told_whole(const weft_entry *entry)
{
    return entry->renamed || entry->seen.marked;
}

bool weft_entry_is_steady(const weft_entry *entry)
{
    return weft_entry_is_told_whole(entry) || weft_now_ms() - entry->since >= WEFT_STEADY_MS;
}

static weft_entry *list_push(weft_follow_list *list)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        weft_entry *items = realloc(list->items, room * sizeof *items);
        if (!items)
            return NULL;
        list->items = items;
        list->room = room;
    }
    return &list->items[list->count++];
}

/* What is there when the watch begins may have been steady for long. */
static double steady_since(const weft_look *seen, bool first)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = 1e3 * (double)(now.tv_sec - seen->changed.tv_sec);
    return first && age > 2 * WEFT_STEADY_MS ? weft_now_ms() - WEFT_STEADY_MS : weft_now_ms();
}

static weft_status scan_entry(const weft_follow_list *list, const char *name, const weft_look *seen, bool first,
                              weft_follow_list *fresh)
{
    const weft_entry *known = weft_follow_list_find(list, name);
    weft_entry *now = list_push(fresh);
    if (!now)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory to list %s", list->directory);
    if (known && weft_look_same(&known->seen, seen, !known->is_out)) {
        *now = *known;
        now->taken = known->taken && (known->seen.marked || !seen->marked || known->is_out);
        now->seen = *seen;
        return WEFT_OK;
    }
    *now = known ? *known : (weft_entry){.is_out = false};
    now->renamed =
        known && known->renamed && known->seen.self.st_ino != seen->self.st_ino; /* told before it was seen */
    now->written = now->written || seen->folder; /* nothing tells of what is written in a folder */
    now->seen = *seen;
    now->since = steady_since(seen, first);
    now->taken = now->past = false;
    snprintf(now->name, sizeof now->name, "%s", name);
    return WEFT_OK;
}

/* ---- what may pass while others are served */

static const int troubles[] = {EMFILE, ENFILE, ENOMEM, EINTR, EIO, ESTALE};

/* Returns true if an error may pass, of the directory too, which may be replaced or mounted anew. */
static bool may_pass(int error)
{
    bool found = error == ENOENT || error == ENOTDIR || error == EACCES;
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++)
        found = found || error == troubles[i];
    return found;
}

int weft_follow_trouble(weft_status status)
{
    const char *text = weft_last_error();
    for (size_t i = 0; status == WEFT_E_FILE && i < sizeof troubles / sizeof troubles[0]; i++)
        if (strstr(text, strerror(troubles[i])))
            return troubles[i];
    return status == WEFT_E_MEMORY ? ENOMEM : 0;
}

static weft_status unreadable(weft_follow_list *list, int error)
{
    list->may_pass = may_pass(error);
    return weft_fail_quiet(WEFT_E_FILE, "%s cannot be read: %s", list->directory, strerror(error));
}

static DIR *open_directory(const weft_follow_list *list)
{
    DIR *directory = opendir(list->directory);
    return directory || !weft_descriptors_short(errno) ? directory : opendir(list->directory);
}

/* A directory that is another one than before, or could not be watched yet: what the one before told is no longer of
 * use, because a file of the same name there was another file. */
static void watch(weft_follow_list *list, const struct stat *directory)
{
    if (directory->st_ino == list->watched.st_ino && directory->st_dev == list->watched.st_dev)
        return;
    for (size_t i = 0; i < list->count; i++)
        list->items[i].renamed = false;
    if (list->watch < 0)
        list->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (list->watch < 0)
        return;
    const int before = list->wd;
    list->wd = inotify_add_watch(list->watch, list->directory, IN_MOVED_TO | IN_CREATE | IN_MODIFY);
    if (before >= 0 && before != list->wd)
        inotify_rm_watch(list->watch, before);
    if (list->wd >= 0)
        list->watched = *directory;
}

/* A past folder is looked into again only when a name in it changes, because there may be thousands. */
static bool look_again(int directory, const weft_entry *known, weft_look *look)
{
    struct stat self;
    if (!known->past || !known->seen.folder)
        return weft_look_at(directory, known->name, look);
    *look = known->seen;
    if (fstatat(directory, known->name, &self, 0) != 0)
        return false;
    return (self.st_ino == known->seen.self.st_ino && self.st_mtim.tv_sec == known->seen.self.st_mtim.tv_sec &&
            self.st_mtim.tv_nsec == known->seen.self.st_mtim.tv_nsec) ||
           weft_look_at(directory, known->name, look);
}

/* What cannot be looked at now counts as unchanged. */
static weft_status scan_name(weft_follow_list *list, int directory, const char *name, bool first,
                             weft_follow_list *fresh)
{
    weft_look seen;
    const weft_entry *known = weft_follow_list_find(list, name);
    if (known ? look_again(directory, known, &seen) : weft_look_at(directory, name, &seen))
        return weft_checkpoint_is(name, &seen) ? scan_entry(list, name, &seen, first, fresh) : WEFT_OK;
    return known && errno != ENOENT ? scan_entry(list, name, &known->seen, first, fresh) : WEFT_OK;
}

static weft_status scan_all(weft_follow_list *list, DIR *directory, bool first, weft_follow_list *fresh)
{
    struct stat self;
    const struct dirent *item;
    weft_status status = WEFT_OK;
    if (fstat(dirfd(directory), &self) == 0)
        watch(list, &self);
    while (errno = 0, status == WEFT_OK && (item = readdir(directory)))
        if (item->d_type == DT_REG ? weft_checkpoint_is_file(item->d_name) : item->d_name[0] != '.')
            status = scan_name(list, dirfd(directory), item->d_name, first, fresh);
    return status == WEFT_OK && errno ? unreadable(list, errno) : status;
}

weft_status weft_follow_list_scan(weft_follow_list *list, bool first)
{
    DIR *directory = open_directory(list);
    if (!directory)
        return unreadable(list, errno);
    weft_follow_list fresh = {.items = NULL};
    weft_status status = scan_all(list, directory, first, &fresh);
    closedir(directory);
    if (status != WEFT_OK) {
        free(fresh.items);
        return status;
    }
    if (fresh.count)
        qsort(fresh.items, fresh.count, sizeof *fresh.items, entry_order);
    free(list->items);
    list->items = fresh.items;
    list->count = fresh.count;
    list->room = fresh.room;
    return WEFT_OK;
}

/* ---- what is told of names */

/* One that came when the directory had just been listed. */
static weft_entry *find_late(weft_follow_list *list, const struct inotify_event *event)
{
    weft_entry *found = weft_follow_list_find(list, event->name);
    const bool may_be = (event->mask & IN_ISDIR) || weft_checkpoint_is_file(event->name);
    if (found || !may_be || weft_follow_list_scan(list, false) != WEFT_OK)
        return found;
    return weft_follow_list_find(list, event->name);
}

static void mark(weft_follow_list *list, const struct inotify_event *event)
{
    if (event->wd != list->wd && !(event->mask & IN_Q_OVERFLOW)) /* of a directory that was moved away */
        return;
    if (event->mask & IN_IGNORED) { /* the directory is gone; another one may have its number */
        list->watched.st_ino = 0;
        list->wd = -1;
    }
    for (size_t i = 0; (event->mask & IN_Q_OVERFLOW) && i < list->count; i++)
        list->items[i].written = true;
    weft_entry *found = event->len ? find_late(list, event) : NULL;
    if (!found)
        return;
    found->written = true;
    found->renamed = found->renamed || (event->mask & IN_MOVED_TO);
}

void weft_follow_list_mark(weft_follow_list *list)
{
    _Alignas(struct inotify_event) char events[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)];
    ssize_t length;
    while (list->watch >= 0 && (length = read(list->watch, events, sizeof events)) > 0) {
        for (ssize_t at = 0; at < length;) {
            const struct inotify_event *event = (const struct inotify_event *)(events + at);
            mark(list, event);
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
}

void weft_follow_list_open(const char *directory, weft_follow_list *list)
{
    *list = (weft_follow_list){.watch = -1, .wd = -1};
    size_t length = (size_t)snprintf(list->directory, sizeof list->directory, "%s", directory);
    while (length > 1 && list->directory[length - 1] == '/')
        list->directory[--length] = '\0';
}

void weft_follow_list_close(weft_follow_list *list)
{
    if (list->watch >= 0)
        close(list->watch);
    free(list->items);
}

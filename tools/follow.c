#include "follow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/status.h"
#include "natural.h"
#include "output.h"

enum { STEADY_MS = 2000, AGAIN_MS = 1000, PATIENCE_MS = 60000 };

/* A name and the bits that change when its file does. */
typedef struct entry {
    char name[NAME_MAX + 1];
    struct stat seen;
    struct stat out; /* as it was when it was handed out, if `is_out` */
    double since;    /* weft_now_ms when it was first seen so; long ago if its own time says so */
    bool renamed;    /* into the directory, as seen */
    bool written;    /* or put there anew, since it was handed out */
    bool taken;
    bool is_out; /* published */
    bool warned;
    double failed;   /* weft_now_ms when it first could not be read, for a reason that may pass; 0: it could */
    double again_at; /* not before it is tried again */
} entry;

typedef struct entry_list {
    entry *items;
    size_t count, room;
} entry_list;

struct weft_follow {
    char directory[PATH_MAX];
    char path[PATH_MAX + NAME_MAX + 2];
    char newest[NAME_MAX + 1]; /* what lies before it is past; "": nothing is */
    char model[NAME_MAX + 1];  /* one that lies elsewhere: names that differ in numbers alone come after it; "": none */
    int watch;                 /* inotify; -1: none, then steadiness alone tells */
    int wd;                    /* its watch on the directory; -1: none */
    struct stat watched;       /* the directory it watches; its inode 0: none */
    bool may_pass;             /* the reason for which the directory could not be read last */
    bool away;                 /* it could not, which was said */
    entry_list list;
};

/* A warning, without what would move a terminal. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    char text[3 * PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    weft_log_clean(text);
    weft_output_say("weft: warn: %s", text);
}

static int entry_order(const void *a, const void *b)
{
    return weft_natural_compare(((const entry *)a)->name, ((const entry *)b)->name);
}

static bool name_is_checkpoint(const char *name)
{
    static const char suffix[] = ".safetensors";
    size_t length = strlen(name);
    return name[0] != '.' && length >= sizeof suffix && strcmp(name + length - sizeof suffix + 1, suffix) == 0;
}

static entry *list_find(const entry_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

static entry *list_push(entry_list *list)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 16;
        entry *items = realloc(list->items, room * sizeof *items);
        if (!items)
            return NULL;
        list->items = items;
        list->room = room;
    }
    return &list->items[list->count++];
}

static bool file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A file that is there when the watch begins may have been steady for long. */
static double steady_since(const struct stat *seen, bool first_scan)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = 1e3 * (double)(now.tv_sec - seen->st_mtim.tv_sec);
    return first_scan && age > 2 * STEADY_MS ? weft_now_ms() - STEADY_MS : weft_now_ms();
}

static weft_status scan_entry(const weft_follow *follow, const char *name, const struct stat *seen, bool first_scan,
                              entry_list *list)
{
    const entry *known = list_find(&follow->list, name);
    entry *now = list_push(list);
    if (!now)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory to list %s", follow->directory);
    if (known && file_is_same(&known->seen, seen)) {
        *now = *known;
        return WEFT_OK;
    }
    *now = known ? *known : (entry){.is_out = false};
    now->renamed = known && known->renamed && known->seen.st_ino != seen->st_ino; /* told before it was seen */
    now->seen = *seen;
    now->since = steady_since(seen, first_scan);
    now->taken = false;
    snprintf(now->name, sizeof now->name, "%s", name);
    return WEFT_OK;
}

/* ---- what may pass while others are served */

/* Errors of a file that are the machine's or the network's trouble. */
static const int troubles[] = {EMFILE, ENFILE, ENOMEM, EINTR, EIO, ESTALE};

/* Returns true if an error may pass, of the directory too, which may be replaced or mounted anew. */
static bool may_pass(int error)
{
    bool found = error == ENOENT || error == ENOTDIR || error == EACCES;
    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++)
        found = found || error == troubles[i];
    return found;
}

static weft_status unreadable(weft_follow *follow, int error)
{
    follow->may_pass = may_pass(error);
    return weft_fail_quiet(WEFT_E_FILE, "%s cannot be read: %s", follow->directory, strerror(error));
}

static DIR *open_directory(const weft_follow *follow)
{
    DIR *directory = opendir(follow->directory);
    return directory || !weft_descriptors_short(errno) ? directory : opendir(follow->directory);
}

/* A directory that is another one than before, or could not be watched yet: what the one before told is no longer of
 * use, because a file of the same name there was another file. */
static void watch(weft_follow *follow, const struct stat *directory)
{
    if (directory->st_ino == follow->watched.st_ino && directory->st_dev == follow->watched.st_dev)
        return;
    for (size_t i = 0; i < follow->list.count; i++)
        follow->list.items[i].renamed = false;
    if (follow->watch < 0)
        follow->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (follow->watch < 0)
        return;
    const int before = follow->wd;
    follow->wd = inotify_add_watch(follow->watch, follow->directory, IN_MOVED_TO | IN_CREATE | IN_MODIFY);
    if (before >= 0 && before != follow->wd)
        inotify_rm_watch(follow->watch, before);
    if (follow->wd >= 0)
        follow->watched = *directory;
}

/* A file that cannot be looked at now counts as unchanged. */
static weft_status scan_name(weft_follow *follow, int directory, const char *name, bool first_scan, entry_list *list)
{
    struct stat seen;
    const entry *known;
    if (fstatat(directory, name, &seen, 0) == 0)
        return S_ISREG(seen.st_mode) ? scan_entry(follow, name, &seen, first_scan, list) : WEFT_OK;
    known = errno == ENOENT ? NULL : list_find(&follow->list, name);
    return known ? scan_entry(follow, name, &known->seen, first_scan, list) : WEFT_OK;
}

static weft_status scan_all(weft_follow *follow, DIR *directory, bool first_scan, entry_list *list)
{
    struct stat self;
    const struct dirent *item;
    weft_status status = WEFT_OK;
    if (fstat(dirfd(directory), &self) == 0)
        watch(follow, &self);
    while (errno = 0, status == WEFT_OK && (item = readdir(directory)))
        if (name_is_checkpoint(item->d_name))
            status = scan_name(follow, dirfd(directory), item->d_name, first_scan, list);
    return status == WEFT_OK && errno ? unreadable(follow, errno) : status;
}

static weft_status scan(weft_follow *follow, bool first_scan)
{
    DIR *directory = open_directory(follow);
    if (!directory)
        return unreadable(follow, errno);
    entry_list list = {0};
    weft_status status = scan_all(follow, directory, first_scan, &list);
    closedir(directory);
    if (status != WEFT_OK) {
        free(list.items);
        return status;
    }
    if (list.count)
        qsort(list.items, list.count, sizeof *list.items, entry_order);
    free(follow->list.items);
    follow->list = list;
    return WEFT_OK;
}

/* A file that came when the folder had just been listed. */
static entry *find_late(weft_follow *follow, const char *name)
{
    entry *found = list_find(&follow->list, name);
    if (found || !name_is_checkpoint(name) || scan(follow, false) != WEFT_OK)
        return found;
    return list_find(&follow->list, name);
}

static void mark(weft_follow *follow, const struct inotify_event *event)
{
    if (event->wd != follow->wd && !(event->mask & IN_Q_OVERFLOW)) /* of a directory that was moved away */
        return;
    if (event->mask & IN_IGNORED) { /* the directory is gone; another one may have its number */
        follow->watched.st_ino = 0;
        follow->wd = -1;
    }
    for (size_t i = 0; (event->mask & IN_Q_OVERFLOW) && i < follow->list.count; i++)
        follow->list.items[i].written = true;
    entry *found = event->len ? find_late(follow, event->name) : NULL;
    if (!found)
        return;
    found->written = true;
    found->renamed = found->renamed || (event->mask & IN_MOVED_TO);
}

/* Marks what was renamed in or written since the last call. The marks count for the files as scanned, so scan first. */
static void mark_all(weft_follow *follow)
{
    _Alignas(struct inotify_event) char events[16 * (sizeof(struct inotify_event) + NAME_MAX + 1)];
    ssize_t length;
    while (follow->watch >= 0 && (length = read(follow->watch, events, sizeof events)) > 0) {
        for (ssize_t at = 0; at < length;) {
            const struct inotify_event *event = (const struct inotify_event *)(events + at);
            mark(follow, event);
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
}

/* In the model's own directory what is not behind the model is its past, and the model itself is out. */
static bool skip_past(weft_follow *follow, const char *model, const struct stat *bound)
{
    struct stat same;
    const char *name = basename(model);
    snprintf(follow->path, sizeof follow->path, "%s/%s", follow->directory, name);
    if (stat(follow->path, &same) != 0 || bound->st_ino != same.st_ino || bound->st_dev != same.st_dev)
        return false;
    snprintf(follow->newest, sizeof follow->newest, "%s", name);
    for (size_t i = 0; i < follow->list.count; i++) {
        entry *past = &follow->list.items[i];
        past->taken = weft_natural_compare(past->name, name) <= 0;
        past->is_out = strcmp(past->name, name) == 0;
        past->out = past->seen;
    }
    return true;
}

/* Skips models that are older than a model that lies elsewhere. A name that differs in numbers alone gives the order,
 * else the time of the file. */
static void skip_older(weft_follow *follow, const char *model, const struct stat *bound)
{
    size_t left = 0;
    snprintf(follow->model, sizeof follow->model, "%.*s", NAME_MAX, basename(model));
    for (size_t i = 0; i < follow->list.count; i++) {
        entry *item = &follow->list.items[i];
        const struct timespec *time = &item->seen.st_mtim, *first = &bound->st_mtim;
        bool later = time->tv_sec != first->tv_sec ? time->tv_sec > first->tv_sec : time->tv_nsec > first->tv_nsec;
        const int order =
            weft_natural_alike(item->name, follow->model) ? weft_natural_compare(item->name, follow->model) : 0;
        item->taken = order ? order < 0 : !later;
        left += item->taken;
    }
    if (left)
        say("left alone: %zu of %zu checkpoints in %s, because they are no later than the model %s by name or time; "
            "--follow-all publishes them too",
            left, follow->list.count, follow->directory, model);
}

weft_status weft_follow_open(const char *directory, const char *model, bool all, weft_follow **follow)
{
    struct stat bound;
    if (strlen(directory) >= PATH_MAX)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--follow: the directory's name is longer than %d bytes", PATH_MAX);
    weft_follow *opened = calloc(1, sizeof *opened);
    if (!opened)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory to watch %s", directory);
    snprintf(opened->directory, sizeof opened->directory, "%s", directory);
    opened->watch = opened->wd = -1;
    weft_status status = scan(opened, true);
    if (status != WEFT_OK) {
        weft_follow_close(opened);
        return status;
    }
    if (stat(model, &bound) == 0 && !skip_past(opened, model, &bound) && !all)
        skip_older(opened, model, &bound);
    *follow = opened;
    return WEFT_OK;
}

void weft_follow_close(weft_follow *follow)
{
    if (!follow)
        return;
    if (follow->watch >= 0)
        close(follow->watch);
    free(follow->list.items);
    free(follow);
}

static void leave(const weft_follow *follow, entry *item, const char *why)
{
    item->taken = true;
    if (!item->warned)
        say("left alone: %s/%s %s", follow->directory, item->name, why);
    item->warned = true;
}

/* A file that comes late under an earlier name would take the rollouts back to older weights. */
static bool is_past(const weft_follow *follow, entry *item)
{
    char why[NAME_MAX + 128];
    const bool behind_model = !*follow->newest && *follow->model && weft_natural_alike(item->name, follow->model);
    const char *newest = behind_model ? follow->model : follow->newest;
    if (!*newest || weft_natural_compare(item->name, newest) >= 0)
        return false;
    snprintf(why, sizeof why,
             "is not published, because it comes before %s in natural order, and that is published already: give newer "
             "weights a later name",
             newest);
    leave(follow, item, why);
    return true;
}

/* Another time alone makes no new weights. Where writing is not told (a network's file system), another file or
 * another size still is. */
static bool is_out_already(const weft_follow *follow, entry *item)
{
    if (!item->is_out || item->written || item->seen.st_ino != item->out.st_ino ||
        item->seen.st_size != item->out.st_size)
        return false;
    leave(follow, item,
          "is published already and has a new time, but no write was seen: if its weights are new, rename a new file "
          "over it");
    return true;
}

static const char *hand_out(weft_follow *follow, entry *item)
{
    item->taken = true;
    item->renamed = item->written = item->is_out = false;
    snprintf(follow->path, sizeof follow->path, "%s/%s", follow->directory, item->name);
    return follow->path;
}

/* Says once that the directory is away, and once that it is back. */
static weft_status look(weft_follow *follow)
{
    weft_status status = scan(follow, false);
    if (status == WEFT_E_MEMORY || (status == WEFT_E_FILE && follow->may_pass)) {
        if (!follow->away)
            say("%s; weft looks again until the directory can be read", weft_last_error());
        follow->away = true;
        return WEFT_AGAIN;
    }
    if (status == WEFT_OK && follow->away) {
        say("%s can be read again", follow->directory);
        follow->away = false;
    }
    return status;
}

weft_status weft_follow_next(weft_follow *follow, const char **path)
{
    weft_status status = look(follow);
    if (status != WEFT_OK)
        return status;
    mark_all(follow);
    for (size_t i = 0; i < follow->list.count; i++) {
        entry *next = &follow->list.items[i];
        if (next->taken || is_past(follow, next))
            continue;
        if (weft_now_ms() < next->again_at || (!next->renamed && weft_now_ms() - next->since < STEADY_MS))
            return WEFT_AGAIN;
        if (is_out_already(follow, next))
            continue;
        *path = hand_out(follow, next);
        return WEFT_OK;
    }
    return WEFT_AGAIN;
}

/* The last error's text ends in the system's word for the reason. */
static int find_trouble(weft_status status)
{
    const char *text = weft_last_error();
    for (size_t i = 0; status == WEFT_E_FILE && i < sizeof troubles / sizeof troubles[0]; i++)
        if (strstr(text, strerror(troubles[i])))
            return troubles[i];
    return status == WEFT_E_MEMORY ? ENOMEM : 0;
}

bool weft_follow_again(weft_follow *follow, weft_status status)
{
    entry *item = list_find(&follow->list, basename(follow->path));
    const int trouble = find_trouble(status);
    const double now = weft_now_ms();
    if (!item || !trouble)
        return false;
    if (!item->failed) {
        item->failed = now;
        say("%s; weft tries again until the file can be read", weft_last_error());
    } else if ((trouble == EIO || trouble == ESTALE) && now - item->failed > PATIENCE_MS) {
        item->failed = 0;
        return false;
    }
    weft_descriptors_short(trouble);
    item->again_at = now + AGAIN_MS;
    item->taken = false;
    return true;
}

void weft_follow_published(weft_follow *follow)
{
    entry *item = list_find(&follow->list, basename(follow->path));
    if (!item)
        return;
    if (item->failed)
        say("%s is readable now", follow->path);
    item->failed = 0;
    item->is_out = true;
    item->out = item->seen;
    snprintf(follow->newest, sizeof follow->newest, "%s", item->name);
}

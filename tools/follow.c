#include "follow.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "output.h"
#include "status.h"

enum { STEADY_MS = 2000 };

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
} entry;

typedef struct entry_list {
    entry *items;
    size_t count, room;
} entry_list;

struct weft_follow {
    char directory[PATH_MAX];
    char path[PATH_MAX + NAME_MAX + 2];
    char newest[NAME_MAX + 1]; /* what lies before it is past; "": nothing is */
    int watch;                 /* inotify; -1: none, then steadiness alone tells */
    entry_list list;
};

static size_t digits(const char *text)
{
    size_t count = 0;
    while (isdigit((unsigned char)text[count]))
        count++;
    return count;
}

int weft_natural_compare(const char *a, const char *b)
{
    const char *whole_a = a, *whole_b = b;
    while (*a && *b) {
        if (!isdigit((unsigned char)*a) || !isdigit((unsigned char)*b)) {
            if (*a != *b)
                return (unsigned char)*a - (unsigned char)*b;
            a++, b++;
            continue;
        }
        while (*a == '0')
            a++;
        while (*b == '0')
            b++;
        size_t na = digits(a), nb = digits(b);
        int order = na != nb ? (na < nb ? -1 : 1) : strncmp(a, b, na);
        if (order)
            return order;
        a += na, b += nb;
    }
    return *a || *b ? (unsigned char)*a - (unsigned char)*b : strcmp(whole_a, whole_b);
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

static weft_status scan(weft_follow *follow, bool first_scan)
{
    DIR *directory = opendir(follow->directory);
    if (!directory)
        return weft_fail_quiet(WEFT_E_FILE, "%s cannot be read: %s", follow->directory, strerror(errno));
    entry_list list = {0};
    weft_status status = WEFT_OK;
    const struct dirent *item;
    while (status == WEFT_OK && (item = readdir(directory))) {
        struct stat seen;
        if (name_is_checkpoint(item->d_name) && fstatat(dirfd(directory), item->d_name, &seen, 0) == 0 &&
            S_ISREG(seen.st_mode))
            status = scan_entry(follow, item->d_name, &seen, first_scan, &list);
    }
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

static void mark(weft_follow *follow, const struct inotify_event *event)
{
    for (size_t i = 0; (event->mask & IN_Q_OVERFLOW) && i < follow->list.count; i++)
        follow->list.items[i].written = true;
    entry *found = event->len ? list_find(&follow->list, event->name) : NULL;
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
static void skip_past(weft_follow *follow, const char *model)
{
    struct stat bound, same;
    const char *name = basename(model);
    snprintf(follow->path, sizeof follow->path, "%s/%s", follow->directory, name);
    if (stat(model, &bound) != 0 || stat(follow->path, &same) != 0 || bound.st_ino != same.st_ino ||
        bound.st_dev != same.st_dev)
        return;
    snprintf(follow->newest, sizeof follow->newest, "%s", name);
    for (size_t i = 0; i < follow->list.count; i++) {
        entry *past = &follow->list.items[i];
        past->taken = weft_natural_compare(past->name, name) <= 0;
        past->is_out = strcmp(past->name, name) == 0;
        past->out = past->seen;
    }
}

weft_status weft_follow_open(const char *directory, const char *model, weft_follow **follow)
{
    if (strlen(directory) >= PATH_MAX)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--follow: the directory's name is longer than %d bytes", PATH_MAX);
    weft_follow *opened = calloc(1, sizeof *opened);
    if (!opened)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory to watch %s", directory);
    snprintf(opened->directory, sizeof opened->directory, "%s", directory);
    opened->watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (opened->watch >= 0)
        inotify_add_watch(opened->watch, directory, IN_MOVED_TO | IN_CREATE | IN_MODIFY);
    weft_status status = scan(opened, true);
    if (status != WEFT_OK) {
        weft_follow_close(opened);
        return status;
    }
    skip_past(opened, model);
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
        fprintf(stderr, "weft: warn: left alone: %s/%s %s\n", weft_output_plain(follow->directory).text,
                weft_output_plain(item->name).text, why);
    item->warned = true;
}

/* What comes late under an earlier name would take the rollouts back to older weights. */
static bool is_past(const weft_follow *follow, entry *item)
{
    char why[NAME_MAX + 128];
    if (!*follow->newest || weft_natural_compare(item->name, follow->newest) >= 0)
        return false;
    snprintf(why, sizeof why, "comes before %s in natural order, which is out: give newer weights a later name",
             follow->newest);
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
          "is out, and has another time now but nobody is known to have written to it: rename a new file "
          "over it if its weights are others");
    return true;
}

static const char *hand_out(weft_follow *follow, entry *item)
{
    item->taken = true;
    item->renamed = item->written = item->is_out = false;
    snprintf(follow->path, sizeof follow->path, "%s/%s", follow->directory, item->name);
    return follow->path;
}

weft_status weft_follow_next(weft_follow *follow, const char **path)
{
    weft_status status = scan(follow, false);
    if (status != WEFT_OK)
        return status;
    mark_all(follow);
    for (size_t i = 0; i < follow->list.count; i++) {
        entry *next = &follow->list.items[i];
        if (next->taken || is_past(follow, next))
            continue;
        if (!next->renamed && weft_now_ms() - next->since < STEADY_MS)
            return WEFT_AGAIN;
        if (is_out_already(follow, next))
            continue;
        *path = hand_out(follow, next);
        return WEFT_OK;
    }
    return WEFT_AGAIN;
}

void weft_follow_published(weft_follow *follow)
{
    entry *item = list_find(&follow->list, basename(follow->path));
    if (!item)
        return;
    item->is_out = true;
    item->out = item->seen;
    snprintf(follow->newest, sizeof follow->newest, "%s", item->name);
}

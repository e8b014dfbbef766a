#include "store/store_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/mix64.h"

#define TOLD                                                                                                           \
    (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
/* Times of folders are as coarse as a server's clock, and a file may grow under its name. So what changed is walked
 * once more, until two walks find the same. */
#define AGAIN_MS 1000u

void weft_store_watch_begin(weft_store_watch *watch)
{
    if (watch->begun)
        return;
    *watch = (weft_store_watch){.begun = true, .stirred = true, .events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
}

static void marks_give(weft_store_watch *watch)
{
    while (watch->count > 0)
        weft_mem_give(watch->marks[--watch->count].path);
}

void weft_store_watch_close(weft_store_watch *watch)
{
    if (!watch->begun)
        return;
    if (watch->events >= 0)
        close(watch->events);
    marks_give(watch);
    weft_mem_give(watch->marks);
}

bool weft_store_watch_is_unfinished(const char *name)
{
    unsigned draw;
    int end = 0;
    return sscanf(name, "weft-%8x.tmp%n", &draw, &end) == 1 && end == sizeof "weft-01234567.tmp" - 1 && name[end] == 0;
}

/* ---- what inotify tells */

/* Unfinished files come and go beside those that count. */
static void events_take(weft_store_watch *watch)
{
    _Alignas(struct inotify_event) char events[4096];
    ssize_t bytes;
    while (watch->events >= 0 && (bytes = read(watch->events, events, sizeof events)) > 0) {
        for (ssize_t at = 0; at < bytes;) {
            const struct inotify_event *event = (const void *)(events + at);
            watch->stirred = watch->stirred || !event->len || !weft_store_watch_is_unfinished(event->name);
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
}

/* ---- what the times of folders tell */

/* Returns one word for a folder and its times, which a server is asked for anew; 0: it cannot be had. */
static uint64_t times_of(int folder, const char *path)
{
    struct statx facts;
    const int how = AT_STATX_FORCE_SYNC | (*path ? 0 : AT_EMPTY_PATH);
    uint64_t word = 0;
    if (statx(folder, path, how, STATX_MTIME | STATX_CTIME | STATX_INO, &facts) != 0)
        return 0;
    const uint64_t parts[] = {facts.stx_dev_major,     facts.stx_dev_minor,
                              facts.stx_ino,           (uint64_t)facts.stx_mtime.tv_sec,
                              facts.stx_mtime.tv_nsec, (uint64_t)facts.stx_ctime.tv_sec,
                              facts.stx_ctime.tv_nsec};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        word = weft_mix64(word + WEFT_PHI + parts[i]);
    return word;
}

/* ---- a walk */

void weft_store_watch_walk(weft_store_watch *watch)
{
    if (!watch->begun)
        return;
    events_take(watch);
    marks_give(watch);
    watch->stirred = watch->silent = false;
    watch->files = watch->again_ns = 0;
}

void weft_store_watch_walked(weft_store_watch *watch, bool success)
{
    if (!watch->begun)
        return;
    watch->stirred = watch->stirred || !success;
    if (watch->silent && watch->files != watch->files_before)
        watch->again_ns = weft_clock_ns() + AGAIN_MS * WEFT_NS_PER_MS;
    watch->files_before = watch->files;
}

bool weft_store_watch_folder(weft_store_watch *watch, const char *path, int folder, uint64_t *times)
{
    if (!watch->begun)
        return true;
    const bool told = watch->events >= 0 && inotify_add_watch(watch->events, path, TOLD | IN_ONLYDIR) >= 0;
    if (told && weft_file_is_local(folder))
        return true;
    *times = times_of(folder, "");
    watch->silent = true;
    watch->files += weft_mix64(*times);
    return false;
}

void weft_store_watch_mark(weft_store_watch *watch, const char *path, uint64_t times)
{
    if (watch->count == watch->capacity) {
        const uint64_t capacity = watch->capacity ? 2 * watch->capacity : 16;
        weft_store_mark *grown = weft_mem_grow(watch->marks, watch->capacity, capacity, sizeof *grown);
        if (grown) {
            watch->marks = grown;
            watch->capacity = capacity;
        }
    }
    char *copy = watch->count < watch->capacity ? weft_mem_text(path) : NULL;
    if (copy)
        watch->marks[watch->count++] = (weft_store_mark){copy, times ? times : times_of(AT_FDCWD, path)};
    else
        watch->stirred = true;
}

void weft_store_watch_file(weft_store_watch *watch, const struct stat *facts)
{
    watch->files += weft_mix64(facts->st_ino + WEFT_PHI * (uint64_t)facts->st_size + (uint64_t)facts->st_mtim.tv_sec);
}

/* ---- between walks */

bool weft_store_watch_stirred(weft_store_watch *watch)
{
    events_take(watch);
    watch->stirred = watch->stirred || (watch->again_ns && weft_clock_ns() >= watch->again_ns);
    for (uint64_t i = 0; i < watch->count && !watch->stirred; i++)
        watch->stirred = times_of(AT_FDCWD, watch->marks[i].path) != watch->marks[i].times;
    return watch->stirred;
}

bool weft_store_watch_wait(weft_store_watch *watch, uint32_t ms)
{
    const uint64_t end_ns = weft_clock_ns() + ms * WEFT_NS_PER_MS;
    struct pollfd watched = {.fd = watch->begun ? watch->events : -1, .events = POLLIN}; /* poll ignores -1 */
    for (uint64_t now_ns = weft_clock_ns(); now_ns < end_ns; now_ns = weft_clock_ns()) {
        const int ready = poll(&watched, 1, (int)((end_ns - now_ns) / WEFT_NS_PER_MS + 1));
        if (ready < 0)
            return false;
        if (ready > 0)
            events_take(watch);
        if (watch->stirred)
            break;
    }
    return true;
}

/* store_folder.c - a folder as a place: RUN/NUMBER/FILE, each file written beside its name and put there whole. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"
#include "store/store.h"
#include "store/store_watch.h"

#define DEPTH 3u /* RUN, NUMBER, FILE */

typedef struct folder {
    char *path;
    size_t path_bytes;
    weft_store_watch watch;
    atomic_bool left; /* nothing is changed any more */
} folder;

/* ---- paths */

static char *path_of(const folder *place, const char *name)
{
    const size_t room = place->path_bytes + strlen(name) + 2;
    char *path = weft_mem_take(room, 1);
    if (path)
        snprintf(path, room, "%s/%s", place->path, name);
    else
        weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    return path;
}

static weft_status folder_make(const char *path)
{
    struct stat facts;
    if (mkdir(path, 0777) == 0)
        return weft_file_sync_directory(path);
    if (errno == EEXIST && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return WEFT_OK;
    return weft_fail(WEFT_E_FILE, "%s: no folder can be made there: %s", path,
                     strerror(errno == EEXIST ? ENOTDIR : errno));
}

/* Makes the folders that the name of a file goes through, RUN and NUMBER. */
static weft_status parents_make(const folder *place, char *path)
{
    weft_status status = WEFT_OK;
    for (char *slash = strchr(path + place->path_bytes + 1, '/'); slash && status == WEFT_OK;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        status = folder_make(path);
        *slash = '/';
    }
    return status;
}

/* ---- listing */

/* One walk through the place. `seen` gets each file that is no folder, with its name within the place. */
typedef struct walk {
    const folder *place;
    weft_status (*seen)(struct walk *walk, const char *name, const struct stat *facts);
    weft_store_items *items;
    uint64_t time_s;
    weft_store_watch *watch; /* is shown what the walk finds; NULL: nothing waits for the place */
    uint64_t wrote;          /* sources that have a file in the folder NUMBER that was listed last, as bits */
    uint32_t sources;        /* sources that are to have one there; 0: nobody has */
    bool unfinished;         /* that folder has an unfinished file */
    char last[2 * WEFT_STORE_NAME_MAX]; /* the last folder NUMBER of the RUN that is walked; "": none to look at */
    uint64_t last_times;
} walk;

static weft_status walk_into(walk *w, const char *within, unsigned depth);

/* Looks at an entry, and at what a link stands for where a RUN, a NUMBER or a file belongs, because versions that are
 * left out would be begun anew. */
static weft_status entry_look(const char *path, const char *name, unsigned depth, struct stat *facts)
{
    static const char *const rest[DEPTH] = {"/00000000000000000001/anchor-0-of-1.weft", "/anchor-0-of-1.weft", ""};
    char whole[3 * WEFT_STORE_NAME_MAX];
    weft_store_name parts;
    if (lstat(path, facts) != 0) /* removed since */
        return errno == ENOENT ? WEFT_AGAIN : weft_fail(WEFT_E_FILE, "%s: %s", path, strerror(errno));
    snprintf(whole, sizeof whole, "%s%s", name, rest[depth]);
    if (S_ISLNK(facts->st_mode) && weft_store_name_get(whole, &parts) && stat(path, facts) != 0)
        return weft_fail(WEFT_E_FILE, "%s: the link leads nowhere: %s", path, strerror(errno));
    return WEFT_OK;
}

static weft_status walk_entry(walk *w, const char *within, const char *entry, unsigned depth)
{
    char name[2 * WEFT_STORE_NAME_MAX];
    struct stat facts;
    const int length = snprintf(name, sizeof name, "%s%s%s", within, *within ? "/" : "", entry);
    if (length < 0 || (size_t)length >= sizeof name) {
        w->items->others++;
        return WEFT_OK;
    }
    char *path = path_of(w->place, name);
    if (!path)
        return WEFT_E_MEMORY;
    weft_status status = entry_look(path, name, depth, &facts);
    if (status == WEFT_OK && S_ISDIR(facts.st_mode) && depth + 1 < DEPTH)
        status = walk_into(w, name, depth + 1);
    else if (status == WEFT_OK)
        status = w->seen(w, name, &facts);
    weft_mem_give(path);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

static weft_status listing_fails(const char *path)
{
    return errno == ENOENT ? WEFT_OK : weft_fail(WEFT_E_FILE, "%s: cannot be listed: %s", path, strerror(errno));
}

static weft_status entries_walk(walk *w, const char *within, const char *path, DIR *listed, unsigned depth)
{
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        errno = 0;
        const struct dirent *entry = readdir(listed);
        if (!entry)
            return errno ? listing_fails(path) : WEFT_OK;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = walk_entry(w, within, entry->d_name, depth);
    }
    return status;
}

/* Tells whether all sources have a file in the folder NUMBER that was listed last. */
static bool all_wrote(const walk *w)
{
    return w->sources && w->wrote == UINT64_MAX >> (64 - w->sources);
}

/* Has a folder be looked at whose new entries inotify may not tell: the place, a RUN, and in it the last NUMBER, each
 * that somebody writes in, and each that a source which is behind has yet to write in. */
static void folder_mark(walk *w, const char *within, const char *path, uint64_t times, unsigned depth)
{
    if (depth < DEPTH - 1 || !all_wrote(w) || w->unfinished)
        weft_store_watch_mark(w->watch, path, times);
    else if (strcmp(within, w->last) > 0) {
        snprintf(w->last, sizeof w->last, "%s", within);
        w->last_times = times;
    }
}

/* A RUN is at its end: its last NUMBER is known. */
static void last_mark(walk *w)
{
    char *path = w->last[0] ? path_of(w->place, w->last) : NULL;
    if (path)
        weft_store_watch_mark(w->watch, path, w->last_times);
    weft_mem_give(path);
    w->last[0] = 0;
}

static weft_status walk_into(walk *w, const char *within, unsigned depth)
{
    char *path = path_of(w->place, within);
    if (!path)
        return WEFT_E_MEMORY;
    DIR *listed = opendir(path);
    uint64_t times = 0;
    w->wrote = w->sources = 0;
    w->unfinished = false;
    /* Before the listing, so that nothing comes between them. */
    const bool told = !listed || !w->watch || weft_store_watch_folder(w->watch, path, dirfd(listed), &times);
    weft_status status = listed ? entries_walk(w, within, path, listed, depth) : listing_fails(path);
    if (w->watch && (!told || depth == 0)) /* the place may become another folder */
        folder_mark(w, within, path, times, depth);
    if (w->watch && depth == 1)
        last_mark(w);
    if (listed)
        closedir(listed);
    weft_mem_give(path);
    return status;
}

/* Tells whether a name is that of an unfinished file: RUN/NUMBER/weft-XXXXXXXX.tmp. */
static bool is_unfinished(const char *name)
{
    char beside[3 * WEFT_STORE_NAME_MAX];
    const char *slash = strrchr(name, '/');
    weft_store_name parts;
    if (!slash || !weft_store_watch_is_unfinished(slash + 1))
        return false;
    snprintf(beside, sizeof beside, "%.*s/anchor-0-of-1.weft", (int)(slash - name), name);
    return weft_store_name_get(beside, &parts);
}

static weft_status item_seen(walk *w, const char *name, const struct stat *facts)
{
    weft_store_item item = {.bytes = (uint64_t)facts->st_size, .time_s = (uint64_t)facts->st_mtim.tv_sec};
    if (w->watch)
        weft_store_watch_file(w->watch, facts);
    if (S_ISREG(facts->st_mode) && weft_store_name_get(name, &item.name)) {
        w->sources = item.name.sources;
        w->wrote |= UINT64_C(1) << item.name.source;
        return weft_store_items_add(w->items, &item);
    }
    const bool unfinished = is_unfinished(name);
    w->unfinished = w->unfinished || unfinished;
    w->items->unfinished += unfinished;
    w->items->others++;
    return WEFT_OK;
}

static weft_status folder_list(void *user, weft_store_items *items)
{
    folder *place = user;
    walk w = {.place = place, .seen = item_seen, .items = items, .watch = place->watch.begun ? &place->watch : NULL};
    weft_store_watch_walk(&place->watch);
    const weft_status status = walk_into(&w, "", 0);
    weft_store_watch_walked(&place->watch, status == WEFT_OK);
    return status;
}

/* ---- files */

static weft_status folder_open(void *user, const char *name, weft_update_file **update)
{
    char *path = path_of(user, name);
    if (!path)
        return WEFT_E_MEMORY;
    weft_status status = weft_update_open(path, NULL, update);
    weft_mem_give(path);
    return status;
}

static weft_status sink_write(void *user, const void *data, uint64_t bytes)
{
    return weft_file_put(user, data, bytes);
}

static weft_status left_check(const folder *place)
{
    return atomic_load(&place->left) ? weft_fail(WEFT_E_STATE, "%s: was given up, because it hung", place->path)
                                     : WEFT_OK;
}

static weft_status file_write(const folder *place, const char *path,
                              weft_status (*fill)(void *user, const weft_sink *sink), void *user)
{
    weft_file file = {.descriptor = -1};
    const weft_sink sink = {&file, sink_write};
    if (access(path, F_OK) == 0)
        return weft_fail(WEFT_E_STATE, "is there already, and a store overwrites nothing");
    weft_status status = weft_file_begin(&file, path);
    file.unwanted = &place->left;
    if (status == WEFT_OK)
        status = fill(user, &sink);
    if (status == WEFT_OK)
        return weft_file_finish_new(&file);
    weft_file_drop(&file);
    return status;
}

static weft_status folder_put(void *user, const char *name, weft_status (*fill)(void *user, const weft_sink *sink),
                              void *filled)
{
    const folder *place = user;
    char *path = path_of(place, name);
    if (!path)
        return WEFT_E_MEMORY;
    weft_status status = left_check(place);
    if (status == WEFT_OK)
        status = parents_make(place, path);
    if (status == WEFT_OK) {
        status = file_write(place, path, fill, filled);
        if (status != WEFT_OK)
            weft_fail_about("%s", path);
    }
    weft_mem_give(path);
    return status;
}

/* Folders that are empty now go too. One that somebody fills meanwhile stays, because rmdir leaves it. */
static weft_status folder_remove(void *user, const char *name)
{
    const folder *place = user;
    char *path = path_of(place, name);
    if (!path)
        return WEFT_E_MEMORY;
    weft_status status = left_check(place);
    if (status == WEFT_OK && unlink(path) != 0 && errno != ENOENT)
        status = weft_fail(WEFT_E_FILE, "%s: cannot be removed: %s", path, strerror(errno));
    for (char *slash = strrchr(path, '/'); status == WEFT_OK && slash > path + place->path_bytes;
         slash = strrchr(path, '/')) {
        *slash = 0;
        if (rmdir(path) != 0)
            break;
    }
    weft_mem_give(path);
    return status;
}

/* The folder stays, because another source may be about to write there. */
static weft_status unfinished_seen(walk *w, const char *name, const struct stat *facts)
{
    if (!S_ISREG(facts->st_mode) || !is_unfinished(name))
        return WEFT_OK;
    char *path = path_of(w->place, name);
    if (!path)
        return WEFT_E_MEMORY;
    weft_file_left_remove(path, w->time_s);
    weft_mem_give(path);
    return WEFT_OK;
}

static weft_status folder_tidy(void *user, uint64_t time_s)
{
    weft_store_items none = {0};
    walk w = {.place = user, .seen = unfinished_seen, .items = &none, .time_s = time_s};
    return walk_into(&w, "", 0);
}

/* ---- waiting */

static void folder_watch(void *user)
{
    folder *place = user;
    weft_store_watch_begin(&place->watch);
}

static bool folder_stirred(void *user)
{
    folder *place = user;
    return weft_store_watch_stirred(&place->watch);
}

static bool folder_wait(void *user, uint32_t ms)
{
    folder *place = user;
    return weft_store_watch_wait(&place->watch, ms);
}

/* ---- open and close */

static void folder_leave(void *user)
{
    folder *place = user;
    atomic_store(&place->left, true);
}

static void folder_close(void *user)
{
    folder *place = user;
    weft_store_watch_close(&place->watch);
    weft_mem_give(place->path);
    weft_mem_give(place);
}

static weft_status path_check(const char *path, bool create)
{
    struct stat facts;
    if (create)
        return folder_make(path);
    if (stat(path, &facts) != 0)
        return weft_fail(WEFT_E_FILE, "%s: no store is there: %s", path, strerror(errno));
    return S_ISDIR(facts.st_mode) ? WEFT_OK : weft_fail(WEFT_E_FILE, "%s: a store is a folder, and this is none", path);
}

weft_status weft_store_folder_open(const char *path, bool create, const weft_store_port **port, void **place)
{
    static const weft_store_port table = {
        .list = folder_list,
        .open = folder_open,
        .put = folder_put,
        .remove = folder_remove,
        .tidy = folder_tidy,
        .watch = folder_watch,
        .stirred = folder_stirred,
        .wait = folder_wait,
        .leave = folder_leave,
        .close = folder_close,
    };
    weft_status status = path_check(path, create);
    if (status != WEFT_OK)
        return status;
    folder *made = weft_mem_take(1, sizeof *made);
    if (made)
        made->path = weft_mem_text(path);
    if (!made || !made->path) {
        weft_mem_give(made);
        return weft_fail(WEFT_E_MEMORY, "no memory for a store");
    }
    made->path_bytes = strlen(path);
    *port = &table;
    *place = made;
    return WEFT_OK;
}

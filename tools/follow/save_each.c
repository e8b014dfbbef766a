#include "tools/follow/save_each.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"
#include "tools/output.h"
#include "tools/store/on_version.h"

#define KEPT          2u   /* the engine may still read the one before */
#define UNFINISHED_S  3600 /* after which nobody goes on with what a process left */
#define FILE_OF_MODEL "model.safetensors"
#define SAVED         "version-%" PRIu64 "-%016" PRIx64
#define UNFINISHED    "weft-%08x.tmp" /* as weft_file_beside names them */

/* ---- what goes */

typedef struct saved {
    char name[NAME_MAX + 1];
    struct timespec time;
} saved;

/* To the letter, because a name that is merely alike (version-3-1) is that of somebody else's folder. */
static bool is_saved(const char *name)
{
    char own[NAME_MAX + 1];
    uint64_t number, root;
    if (sscanf(name, "version-%" SCNu64 "-%" SCNx64, &number, &root) != 2)
        return false;
    snprintf(own, sizeof own, SAVED, number, root);
    return strcmp(name, own) == 0;
}

static bool is_unfinished(const char *name, const struct stat *facts)
{
    char own[NAME_MAX + 1];
    unsigned draw;
    if (sscanf(name, "weft-%x.tmp", &draw) != 1)
        return false;
    snprintf(own, sizeof own, UNFINISHED, draw);
    return strcmp(name, own) == 0 && time(NULL) - facts->st_mtim.tv_sec > UNFINISHED_S;
}

static int newest_first(const void *a, const void *b)
{
    const struct timespec *x = &((const saved *)a)->time, *y = &((const saved *)b)->time;
    return x->tv_sec != y->tv_sec ? (x->tv_sec < y->tv_sec) - (x->tv_sec > y->tv_sec)
                                  : (x->tv_nsec < y->tv_nsec) - (x->tv_nsec > y->tv_nsec);
}

/* A folder of weft has files alone. What stays is said: a full disk is nobody's surprise then. */
static void empty_folder(int within, const char *name)
{
    const int folder = openat(within, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *listing = folder >= 0 ? fdopendir(folder) : NULL;
    for (const struct dirent *item; listing && (item = readdir(listing));)
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0)
            unlinkat(folder, item->d_name, 0);
    if (unlinkat(within, name, AT_REMOVEDIR) != 0)
        weft_output_say("weft: warn: --save-each: %s cannot be removed: %s", name, strerror(errno));
    if (listing)
        closedir(listing);
    else if (folder >= 0)
        close(folder);
}

/* Under another name first, because a folder that has its name is whole, and whoever removes may be ended half way. */
static void remove_folder(int within, const char *name)
{
    char *gone = weft_file_beside(name);
    if (gone && renameat(within, name, within, gone) == 0)
        empty_folder(within, gone);
    else
        weft_output_say("weft: warn: --save-each: %s cannot be removed: %s", name, strerror(gone ? errno : ENOMEM));
    weft_mem_give(gone);
}

/* Lists the versions that are there, and removes what was never finished. Returns how many there are. */
static size_t list_saved(DIR *listing, saved **list)
{
    size_t count = 0;
    for (const struct dirent *item; (item = readdir(listing));) {
        struct stat facts;
        saved *grown;
        if (fstatat(dirfd(listing), item->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(facts.st_mode))
            continue;
        if (is_unfinished(item->d_name, &facts))
            remove_folder(dirfd(listing), item->d_name);
        if (!is_saved(item->d_name) || !(grown = realloc(*list, (count + 1) * sizeof **list)))
            continue;
        *list = grown;
        snprintf(grown[count].name, sizeof grown[count].name, "%s", item->d_name);
        grown[count++].time = facts.st_mtim;
    }
    return count;
}

/* The version written last, by a process before this one too; NULL: there is none. */
static char *newest_of(const char *folder)
{
    char path[PATH_MAX];
    saved *list = NULL;
    DIR *listing = opendir(folder);
    const size_t count = listing ? list_saved(listing, &list) : 0;
    if (count)
        qsort(list, count, sizeof *list, newest_first);
    const bool found = count && snprintf(path, sizeof path, "%s/%s", folder, list[0].name) < PATH_MAX;
    if (listing)
        closedir(listing);
    free(list);
    return found ? strdup(path) : NULL;
}

/* The base is its user's, and the files beside the weights come from there: a start from the version before has it. */
static bool is_base(const weft_save_each *each, const char *name)
{
    const size_t length = strlen(each->folder), rest = strlen(name);
    const char *base = each->base;
    return base && strncmp(base, each->folder, length) == 0 && base[length] == '/' &&
           strncmp(base + length + 1, name, rest) == 0 && strchr("/", base[length + 1 + rest]);
}

/* Keeps the folders that were written last. A number says less, because a trainer may go back to an older one. */
static void trim(const weft_save_each *each)
{
    const uint64_t kept = weft_args_given(each->args, WEFT_OPTION_KEPT) ? each->args->kept : KEPT;
    const char *own = strrchr(each->last, '/') + 1;
    saved *list = NULL;
    DIR *listing = opendir(each->folder);
    if (!listing)
        return;
    const size_t count = list_saved(listing, &list);
    uint64_t others = 0;
    if (count)
        qsort(list, count, sizeof *list, newest_first);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, own) != 0 && !is_base(each, list[i].name) && ++others >= kept)
            remove_folder(dirfd(listing), list[i].name);
    closedir(listing);
    free(list);
}

/* ---- the folder */

weft_status weft_save_each_open(const weft_args *args, weft_save_each *each)
{
    *each = (weft_save_each){.args = args};
    if (!args->save_each) {
        if (weft_args_given(args, WEFT_OPTION_KEPT) || args->on_version)
            return weft_fail_quiet(WEFT_E_ARGUMENT, "--keep and --on-version go with --save-each DIR");
        return WEFT_OK;
    }
    if (weft_args_given(args, WEFT_OPTION_KEPT) && args->kept == 0)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--keep 0: the newest version is kept, so need 1 or more");
    if (mkdir(args->save_each, 0777) != 0 && errno != EEXIST)
        return weft_fail_quiet(WEFT_E_FILE, "--save-each %s: cannot be made: %s", args->save_each, strerror(errno));
    each->folder = realpath(args->save_each, NULL);
    if (!each->folder || access(each->folder, W_OK | X_OK) != 0)
        return weft_fail_quiet(WEFT_E_FILE, "--save-each %s: no folder can be written there: %s", args->save_each,
                               strerror(errno));
    each->last = newest_of(each->folder);
    each->base = args->model ? realpath(args->model, NULL) : NULL;
    if (!args->model || !weft_model_is_folder_of_one(args->model, each->name))
        strcpy(each->name, FILE_OF_MODEL);
    return WEFT_OK;
}

void weft_save_each_close(weft_save_each *each)
{
    free(each->folder);
    free(each->last);
    free(each->base);
    *each = (weft_save_each){0};
}

/* ---- a version */

/* A name for these bits alone: nothing that an engine may be reading is ever written over. */
static char *path_of(const weft_save_each *each, const weft_version *version)
{
    const size_t room = strlen(each->folder) + 64;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s/" SAVED, each->folder, version->number, version->root);
    return path;
}

static weft_status write_version(const weft_save_each *each, const weft_weights *weights, const void *header,
                                 uint64_t bytes, const char *path)
{
    const weft_model_place place = {.path = path, .name = each->name, .earlier = each->last};
    struct stat facts;
    if (lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) { /* whole, because it came there by a rename */
        utimensat(AT_FDCWD, path, NULL, 0);                   /* and the newest now */
        return WEFT_OK;
    }
    return weft_weights_save_at(weights, header, bytes, &place);
}

void weft_save_each_version(weft_save_each *each, const weft_weights *weights, const void *header, uint64_t bytes,
                            const weft_version *version)
{
    if (!each->args || !each->folder)
        return;
    char *path = path_of(each, version);
    const weft_status status = path ? write_version(each, weights, header, bytes, path)
                                    : weft_fail_quiet(WEFT_E_MEMORY, "no memory for a path");
    each->failed = status != WEFT_OK;
    if (each->failed) {
        weft_output_say("weft: warn: --save-each: version %" PRIu64 " was not written: %s", version->number,
                        weft_last_error());
        free(path);
        return;
    }
    free(each->last);
    each->last = path;
    trim(each);
    if (each->args->on_version)
        weft_on_version(each->args->on_version, path, version);
}

weft_status weft_save_each_settle(const weft_save_each *each)
{
    return each->failed
               ? weft_fail_quiet(WEFT_E_FILE, "--save-each %s: the last version is not there", each->args->save_each)
               : WEFT_OK;
}

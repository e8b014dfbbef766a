#include "tools/follow/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/status.h"
#include "tools/follow/follow_list.h"
#include "tools/follow/natural.h"
#include "tools/output.h"

enum { AGAIN_MS = 1000, PATIENCE_MS = 60000 };

struct weft_follow {
    weft_follow_list list;
    char path[PATH_MAX + NAME_MAX + 2];
    char newest[NAME_MAX + 1]; /* what lies before it is past; "": nothing is */
    char model[NAME_MAX + 1];  /* one that lies elsewhere: names that differ in numbers alone come after it; "": none */
    char within[NAME_MAX + 1]; /* the folder in which that one lies */
    bool away;                 /* the directory could not be read, which was said */
    bool told_shards;          /* in no folder of their own */
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

/* ---- what is past when it begins */

/* Cuts slashes at the end, as a shell completes them, and returns the last name. */
static const char *last_name(char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    return basename(path);
}

/* Takes the entry that a model is, or whose folder it lies in. */
static weft_entry *find_model(weft_follow *follow, const char *model)
{
    char path[PATH_MAX];
    weft_look named, seen;
    snprintf(path, sizeof path, "%s", model);
    for (int up = 0; up < 2; up++) {
        weft_entry *found = weft_follow_list_find(&follow->list, last_name(path));
        char *slash = strrchr(path, '/');
        if (found && snprintf(follow->path, sizeof follow->path, "%s/%s", follow->list.directory, found->name) > 0 &&
            weft_look_at(AT_FDCWD, path, &named) && weft_look_at(AT_FDCWD, follow->path, &seen) &&
            named.self.st_ino == seen.self.st_ino && named.self.st_dev == seen.self.st_dev)
            return found;
        if (!slash)
            return NULL;
        *slash = '\0';
    }
    return NULL;
}

/* In the model's own directory what is not behind the model is its past, and the model itself is out. */
static bool skip_past(weft_follow *follow, const char *model)
{
    const weft_entry *own = find_model(follow, model);
    if (!own)
        return false;
    snprintf(follow->newest, sizeof follow->newest, "%s", own->name);
    for (size_t i = 0; i < follow->list.count; i++) {
        weft_entry *past = &follow->list.items[i];
        const int order = weft_natural_compare(past->name, follow->newest);
        past->taken = order <= 0;
        past->past = order < 0;
        past->is_out = order == 0;
        past->out = past->seen;
    }
    return true;
}

/* Whether names of checkpoints, files or folders, differ in numbers alone. *order has which number is less. */
static bool is_alike(const char *a, const char *b, int *order)
{
    char bare[2][NAME_MAX + 1];
    const char *const names[] = {a, b};
    for (int i = 0; i < 2; i++) {
        const char *suffix = strstr(names[i], ".safetensors");
        const size_t length =
            suffix && !suffix[strlen(".safetensors")] ? (size_t)(suffix - names[i]) : strlen(names[i]);
        snprintf(bare[i], sizeof bare[i], "%.*s", (int)length, names[i]);
    }
    *order = weft_natural_order(bare[0], bare[1]);
    return weft_natural_alike(bare[0], bare[1]);
}

static bool has_number(const char *name)
{
    return strpbrk(name, "0123456789");
}

/* Whether an entry has the name and the number of a model that lies elsewhere, or of the folder that it lies in: a copy
 * of that, and no later one. */
static bool is_named_as_model(const weft_follow *follow, const weft_entry *item)
{
    int order;
    const char *const names[] = {follow->model, item->seen.folder ? follow->within : ""};
    for (int i = 0; i < 2; i++)
        if (has_number(names[i]) && is_alike(item->name, names[i], &order) && order == 0)
            return true;
    return false;
}

/* Skips models that are older than a model that lies elsewhere. A name that differs in numbers alone gives the order,
 * else the time of the file. */
static void skip_older(weft_follow *follow, const char *model, const weft_look *bound)
{
    size_t left = 0, fit = 0;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", model);
    snprintf(follow->model, sizeof follow->model, "%.*s", NAME_MAX, last_name(path));
    char *slash = strrchr(path, '/');
    if (slash && !has_number(follow->model)) {
        *slash = '\0';
        snprintf(follow->within, sizeof follow->within, "%.*s", NAME_MAX, last_name(path));
    }
    for (size_t i = 0; i < follow->list.count; i++) {
        weft_entry *item = &follow->list.items[i];
        const struct timespec *time = &item->seen.changed, *first = &bound->changed;
        bool later = time->tv_sec != first->tv_sec ? time->tv_sec > first->tv_sec : time->tv_nsec > first->tv_nsec;
        int order;
        const bool alike = is_alike(item->name, follow->model, &order);
        if (weft_checkpoint_unfit(item->name, &item->seen)) /* which is said of it alone */
            continue;
        item->is_out = is_named_as_model(follow, item); /* so it comes when it is written to */
        item->out = item->seen;
        item->taken = item->is_out || (alike && order ? order < 0 : !later);
        left += item->taken;
        fit++;
    }
    if (left)
        say("left alone: %zu of %zu checkpoints in %s, because they are no later than the model %s by name or time; "
            "--follow-all publishes them too",
            left, fit, follow->list.directory, model);
}

weft_status weft_follow_open(const char *directory, const char *model, bool all, weft_follow **follow)
{
    weft_look bound;
    if (strlen(directory) >= PATH_MAX)
        return weft_fail_quiet(WEFT_E_ARGUMENT, "--follow: the directory's name is longer than %d bytes", PATH_MAX);
    weft_follow *opened = calloc(1, sizeof *opened);
    if (!opened)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory to watch %s", directory);
    weft_follow_list_open(directory, &opened->list);
    weft_status status = weft_follow_list_scan(&opened->list, true);
    if (status != WEFT_OK) {
        weft_follow_close(opened);
        return status;
    }
    if (weft_look_at(AT_FDCWD, model, &bound) && !skip_past(opened, model) && !all)
        skip_older(opened, model, &bound);
    *follow = opened;
    return WEFT_OK;
}

void weft_follow_close(weft_follow *follow)
{
    if (!follow)
        return;
    weft_follow_list_close(&follow->list);
    free(follow);
}

/* ---- what comes */

static void leave(const weft_follow *follow, weft_entry *item, const char *why)
{
    item->taken = true;
    if (!item->warned)
        say("left alone: %s/%s %s", follow->list.directory, item->name, why);
    item->warned = true;
}

/* Shards that lie in no folder of their own are many, and are told of once. */
static bool is_unfit(weft_follow *follow, weft_entry *item)
{
    const char *why = weft_checkpoint_unfit(item->name, &item->seen);
    if (!why)
        return false;
    if (!item->seen.folder) {
        item->warned = item->warned || follow->told_shards;
        follow->told_shards = true;
    }
    item->past = true;
    leave(follow, item, why);
    return true;
}

/* Whether names in the directory tell by their numbers what is later. A name that is written anew each time does not.
 */
static bool is_numbered(const weft_follow *follow)
{
    int order;
    for (size_t i = 0; i < follow->list.count; i++)
        if (is_alike(follow->list.items[i].name, follow->model, &order) && order)
            return true;
    return false;
}

/* A file that comes late under an earlier name would take the rollouts back to older weights, and a late copy of the
 * model would be the model again by the next number. */
static bool is_past(const weft_follow *follow, weft_entry *item)
{
    char why[NAME_MAX + 128];
    int order = 0;
    const bool behind_model = !*follow->newest && *follow->model && is_alike(item->name, follow->model, &order);
    const char *newest = behind_model ? follow->model : follow->newest;
    if (behind_model && order == 0 && !item->is_out && has_number(item->name) && is_numbered(follow)) {
        snprintf(why, sizeof why, "is not published, because it is named as the model that was bound, %s", newest);
        leave(follow, item, why);
        item->past = true;
        return true;
    }
    if (!*newest || (behind_model ? order : weft_natural_compare(item->name, newest)) >= 0)
        return false;
    if (weft_checkpoint_unfit(item->name, &item->seen)) /* which is told once it stands still */
        return true;
    snprintf(why, sizeof why,
             "is not published, because it comes before %s in natural order, and that is published already: give newer "
             "weights a later name",
             newest);
    leave(follow, item, why);
    item->past = true;
    return true;
}

/* Another time alone makes no new weights. Where writing is not told (a network's file system), another file or
 * another size still is. */
static bool is_out_already(const weft_follow *follow, weft_entry *item)
{
    if (!item->is_out || item->written || item->seen.self.st_ino != item->out.self.st_ino ||
        item->seen.bytes != item->out.bytes)
        return false;
    leave(follow, item,
          "is published already and has a new time, but no write was seen: if its weights are new, rename a new file "
          "over it");
    return true;
}

/* What stands still may be half of what it becomes. It holds nothing back, because its writer may be gone. */
static bool is_unwritten(weft_follow *follow, weft_entry *item)
{
    snprintf(follow->path, sizeof follow->path, "%s/%s", follow->list.directory, item->name);
    const weft_status status = weft_entry_is_told_whole(item) ? WEFT_OK : weft_checkpoint_whole(follow->path);
    if ((status != WEFT_E_LAYOUT && status != WEFT_E_FILE) || weft_follow_trouble(status))
        return false;
    item->taken = true;
    if (!item->waited)
        say("not published until the %s changes: %s", item->seen.folder ? "folder" : "file", weft_last_error());
    item->waited = true;
    return true;
}

static const char *hand_out(weft_follow *follow, weft_entry *item)
{
    item->taken = true;
    item->renamed = item->written = item->is_out = item->waited = false;
    snprintf(follow->path, sizeof follow->path, "%s/%s", follow->list.directory, item->name);
    return follow->path;
}

/* Says once that the directory is away, and once that it is back. */
static weft_status look(weft_follow *follow)
{
    weft_status status = weft_follow_list_scan(&follow->list, false);
    if (status == WEFT_E_MEMORY || (status == WEFT_E_FILE && follow->list.may_pass)) {
        if (!follow->away)
            say("%s; weft looks again until the directory can be read", weft_last_error());
        follow->away = true;
        return WEFT_AGAIN;
    }
    if (status == WEFT_OK && follow->away) {
        say("%s can be read again", follow->list.directory);
        follow->away = false;
    }
    return status;
}

weft_status weft_follow_next(weft_follow *follow, const char **path)
{
    weft_status status = look(follow);
    if (status != WEFT_OK)
        return status;
    weft_follow_list_mark(&follow->list);
    for (size_t i = 0; i < follow->list.count; i++) {
        weft_entry *next = &follow->list.items[i];
        if (next->taken || (weft_entry_is_steady(next) && is_unfit(follow, next)) || is_past(follow, next))
            continue;
        if (weft_now_ms() < next->again_at || !weft_entry_is_steady(next))
            return WEFT_AGAIN;
        if (is_out_already(follow, next) || is_unwritten(follow, next))
            continue;
        *path = hand_out(follow, next);
        return WEFT_OK;
    }
    return WEFT_AGAIN;
}

bool weft_follow_again(weft_follow *follow, weft_status status)
{
    weft_entry *item = weft_follow_list_find(&follow->list, basename(follow->path));
    const int trouble = weft_follow_trouble(status);
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
    weft_entry *item = weft_follow_list_find(&follow->list, basename(follow->path));
    if (!item)
        return;
    if (item->failed)
        say("%s is readable now", follow->path);
    item->failed = 0;
    item->is_out = true;
    item->out = item->seen;
    snprintf(follow->newest, sizeof follow->newest, "%s", item->name);
    for (weft_entry *past = follow->list.items; past < item; past++)
        past->past = past->taken;
}

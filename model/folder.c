/* folder.c - a model on disk: one file, or a folder with an index that says which file has which tensor. */
#include "model.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"

#define INDEX_MAX (UINT64_C(128) << 20)

typedef unsigned long long ull;

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static char *joined(const char *folder, const char *name)
{
    size_t length = strlen(folder), rest = strlen(name) + 1;
    char *path = weft_mem_take(length + rest, 1);
    if (path) {
        memcpy(path, folder, length);
        memcpy(path + length, name, rest);
    }
    return path;
}

static weft_status no_memory(void)
{
    return weft_fail(WEFT_E_MEMORY, "no memory for file names");
}

const char *weft_model_unopened(const char *path)
{
    struct stat facts;
    int reason = errno;
    bool link = reason == ENOENT && lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode);
    return link ? "it is a link that leads to nothing" : strerror(reason);
}

/* ---- what lies in a folder */

static bool is_checkpoint(const char *name)
{
    return name[0] != '.' && ends_with(name, ".safetensors");
}

/* The one safetensors file of a folder without an index. */
static weft_status only_file(weft_folder *folder)
{
    DIR *listing = opendir(folder->path);
    uint64_t found = 0;
    if (!listing)
        return weft_fail(WEFT_E_FILE, "cannot be listed: %s", strerror(errno));
    for (struct dirent *entry; (entry = readdir(listing)) && folder->files;) {
        if (!is_checkpoint(entry->d_name) || found++ > 0)
            continue;
        folder->files[0] = weft_mem_text(entry->d_name);
        folder->file_count = folder->files[0] ? 1 : 0;
    }
    closedir(listing);
    folder->searched = true;
    if (found != 1)
        return weft_fail(WEFT_E_FILE,
                         "a folder with %llu *.safetensors and no " WEFT_MODEL_INDEX ": which is the model?",
                         (ull)found);
    return folder->file_count ? WEFT_OK : no_memory();
}

/* ---- the index */

/* Does not wait for whoever would write into a pipe: it is opened to be refused. */
static FILE *index_open(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "rb") : NULL;
    if (!file && descriptor >= 0)
        close(descriptor);
    return file;
}

static weft_status index_read(weft_folder *folder)
{
    char *path = joined(folder->path, folder->index_name);
    FILE *file = path ? index_open(path) : NULL;
    struct stat facts;
    weft_status status = WEFT_OK;
    if (!path)
        status = no_memory();
    else if (!file || fstat(fileno(file), &facts) != 0)
        status = weft_fail(WEFT_E_FILE, "cannot be opened: %s", weft_model_unopened(path));
    else if (!S_ISREG(facts.st_mode))
        status = weft_fail(WEFT_E_FILE, "not a regular file");
    else if ((uint64_t)facts.st_size > INDEX_MAX)
        status = weft_fail(WEFT_E_FILE, "%llu bytes, which is more than the %llu of an index", (ull)facts.st_size,
                           (ull)INDEX_MAX);
    if (status == WEFT_OK) {
        folder->index = weft_mem_take((uint64_t)facts.st_size, 1);
        if (!folder->index)
            status = no_memory();
        else if (fread(folder->index, 1, (size_t)facts.st_size, file) != (size_t)facts.st_size)
            status = weft_fail(WEFT_E_FILE, "cannot be read: it was cut short");
        folder->index_bytes = (uint64_t)facts.st_size;
    }
    if (file)
        fclose(file);
    weft_mem_give(path);
    return status;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static weft_status file_name_take(const char *tensor, const json_t *value, const char **name)
{
    *name = json_string_value(value);
    if (!*name)
        return weft_fail(WEFT_E_LAYOUT, "weight_map: the file of tensor %s is no string", tensor);
    if (!weft_shards_name_fits(*name))
        return weft_fail(
            WEFT_E_LAYOUT,
            "weight_map: the file of tensor %.200s is '%.260s': only a file beside the index can be named, "
            "by 1 to 255 bytes without a slash and without a dot in front",
            tensor, *name);
    return WEFT_OK;
}

/* The files of the weight_map, each once, in byte order of their names. */
static weft_status files_take(weft_folder *folder, json_t *map)
{
    const char *tensor;
    json_t *value;
    uint64_t used = 0;
    weft_mem_give(folder->files);
    folder->files = weft_mem_take(json_object_size(map) + 1, sizeof *folder->files);
    const char **names = weft_mem_take(json_object_size(map) + 1, sizeof *names);
    weft_status status = folder->files && names ? WEFT_OK : no_memory();
    json_object_foreach(map, tensor, value)
    {
        if (status == WEFT_OK)
            status = file_name_take(tensor, value, &names[used]);
        if (status != WEFT_OK)
            break;
        used++;
    }
    qsort(names, used, sizeof *names, by_name);
    for (uint64_t i = 0; i < used && status == WEFT_OK; i++) {
        if (i > 0 && strcmp(names[i], names[i - 1]) == 0)
            continue;
        folder->files[folder->file_count] = weft_mem_text(names[i]);
        status = folder->files[folder->file_count] ? WEFT_OK : no_memory();
        folder->file_count++;
    }
    weft_mem_give(names);
    return status;
}

static weft_status index_take(weft_folder *folder)
{
    json_error_t error;
    weft_status status = index_read(folder);
    if (status != WEFT_OK)
        return status;
    json_t *root = json_loadb((const char *)folder->index, folder->index_bytes, JSON_REJECT_DUPLICATES, &error);
    json_t *map = json_incref(json_object_get(root, "weight_map"));
    folder->map = map;
    json_decref(root);
    if (!root)
        return weft_fail(WEFT_E_LAYOUT, "no JSON at byte %d: %s", error.position, error.text);
    if (!json_is_object(map) || json_object_size(map) == 0)
        return weft_fail(WEFT_E_LAYOUT, "it has no weight_map of tensors to files");
    return files_take(folder, map);
}

/* ---- which it is */

static weft_status split(weft_folder *folder, const char *path, char **name)
{
    const char *slash = strrchr(path, '/');
    *name = weft_mem_text(slash ? slash + 1 : path);
    folder->path = weft_mem_text(path);
    if (!*name || !folder->path)
        return no_memory();
    folder->path[slash ? slash + 1 - path : 0] = 0;
    return WEFT_OK;
}

/* Also one that cannot be opened, such as a link to nothing: a shard is never taken for the model in its place. */
static bool index_stands(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 || errno != ENOENT;
}

static weft_status folder_take(weft_folder *folder, const char *path)
{
    folder->path = joined(path, ends_with(path, "/") ? "" : "/");
    char *index = folder->path ? joined(folder->path, WEFT_MODEL_INDEX) : NULL;
    if (!index)
        return no_memory();
    bool indexed = index_stands(index);
    weft_mem_give(index);
    if (!indexed)
        return only_file(folder);
    folder->index_name = weft_mem_text(WEFT_MODEL_INDEX);
    weft_status status = folder->index_name ? index_take(folder) : no_memory();
    if (status != WEFT_OK)
        weft_fail_about(WEFT_MODEL_INDEX);
    return status;
}

static weft_status take(weft_folder *folder, const char *path)
{
    struct stat facts;
    folder->files = weft_mem_take(1, sizeof *folder->files);
    if (!folder->files)
        return no_memory();
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        return folder_take(folder, path);
    if (ends_with(path, ".json")) {
        weft_status status = split(folder, path, &folder->index_name);
        if (status == WEFT_OK && !weft_shards_name_fits(folder->index_name))
            status = weft_fail(WEFT_E_FILE, "an index has no dot in front of its name");
        return status == WEFT_OK ? index_take(folder) : status;
    }
    weft_status status = split(folder, path, &folder->files[0]);
    folder->file_count = folder->files[0] ? 1 : 0;
    return status;
}

weft_status weft_folder_open(const char *path, weft_folder *folder)
{
    memset(folder, 0, sizeof *folder);
    weft_status status = take(folder, path);
    if (status != WEFT_OK)
        weft_folder_close(folder);
    return status;
}

bool weft_model_is_folder_of_one(const char *path, char name[256])
{
    weft_folder folder;
    if (weft_folder_open(path, &folder) != WEFT_OK)
        return false;
    const bool one = folder.searched;
    if (one)
        snprintf(name, 256, "%s", folder.files[0]);
    weft_folder_close(&folder);
    return one;
}

weft_status weft_folder_check(const weft_folder *folder, const weft_shards *shards)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < shards->count; i++) {
        for (uint64_t end = at + shards->items[i].tensors; at < end; at++) {
            const char *tensor = shards->layout->entries[at].tensor.name;
            const char *file = json_string_value(json_object_get(folder->map, tensor));
            if (!file || strcmp(file, shards->items[i].name) != 0)
                return weft_fail(WEFT_E_LAYOUT, "tensor %s lies in %s, the index says %s", tensor,
                                 shards->items[i].name, file ? file : "nothing of it");
        }
    }
    if (at != json_object_size(folder->map))
        return weft_fail(WEFT_E_LAYOUT, "the index names %llu tensors, the files have %llu",
                         (ull)json_object_size(folder->map), (ull)at);
    return WEFT_OK;
}

const char *weft_folder_tensor(const weft_folder *folder, const char *file)
{
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)folder->map, tensor, value)
    {
        if (strcmp(json_string_value(value), file) == 0)
            return tensor;
    }
    return NULL;
}

void weft_folder_close(weft_folder *folder)
{
    for (uint64_t i = 0; i < folder->file_count; i++)
        weft_mem_give(folder->files[i]);
    weft_mem_give(folder->files);
    json_decref(folder->map);
    weft_mem_give(folder->index);
    weft_mem_give(folder->index_name);
    weft_mem_give(folder->path);
    memset(folder, 0, sizeof *folder);
}

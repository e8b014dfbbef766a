/* share_set.c - a folder of shares, read with distrust, and the whole model of it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"
#include "model.h"
#include "share_file.h"
#include "share_folder.h"
#include "slices.h"

typedef unsigned long long ull;

/* One rank's files. */
typedef struct rank_files {
    char *path; /* of the slice file */
    weft_share_file rules;
    weft_share share;
    weft_model *model;
} rank_files;

struct weft_share_set {
    char *path;
    uint8_t *header; /* `shards` lies in it */
    uint64_t header_bytes;
    weft_shards shards;
    rank_files *ranks;
    weft_slices_part *parts;
    uint64_t count;
};

static char *inside(const weft_share_set *set, const char *name)
{
    const size_t room = strlen(set->path) + strlen(name) + 2;
    char *path = weft_mem_take(room, 1);
    if (path)
        snprintf(path, room, "%s/%s", set->path, name);
    else
        weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    return path;
}

/* ---- the header */

static weft_status header_take(weft_share_set *set, const char *path)
{
    struct stat facts;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    weft_status status = WEFT_OK;
    if (descriptor < 0)
        return weft_fail(WEFT_E_FILE, "cannot be opened: %s", weft_model_unopened(path));
    if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode) || (uint64_t)facts.st_size > WEFT_ATTACHMENT_MAX)
        status = weft_fail(WEFT_E_FILE, "no regular file of at most %llu bytes", (ull)WEFT_ATTACHMENT_MAX);
    if (status == WEFT_OK) {
        set->header_bytes = (uint64_t)facts.st_size;
        set->header = weft_mem_take(set->header_bytes + 1, 1);
        status = set->header ? weft_file_read(descriptor, set->header, set->header_bytes, 0)
                             : weft_fail(WEFT_E_MEMORY, "no memory for %llu bytes", (ull)set->header_bytes);
    }
    close(descriptor);
    return status == WEFT_OK ? weft_shards_read(set->header, set->header_bytes, &set->shards) : status;
}

static weft_status header_open(weft_share_set *set)
{
    char *path = inside(set, "model.header");
    if (!path)
        return WEFT_E_MEMORY;
    weft_status status = header_take(set, path);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    weft_mem_give(path);
    return status;
}

/* ---- ranks */

/* Reads the number of ranks out of a name. 0: the name is no share file's. */
static uint64_t ranks_of(const char *name)
{
    unsigned long rank, ranks;
    char expected[WEFT_SHARE_NAME];
    if (sscanf(name, "rank-%lu-of-%lu.json", &rank, &ranks) != 2 || ranks == 0 || ranks > WEFT_SHARE_RANKS_MOST)
        return 0;
    weft_share_name(rank, ranks, "json", expected);
    return strcmp(name, expected) == 0 && rank < ranks ? ranks : 0;
}

static weft_status ranks_count(weft_share_set *set)
{
    DIR *listing = opendir(set->path);
    weft_status status = WEFT_OK;
    if (!listing)
        return weft_fail(WEFT_E_FILE, "%s cannot be listed: %s", set->path, strerror(errno));
    for (struct dirent *entry; status == WEFT_OK && (entry = readdir(listing));) {
        const uint64_t ranks = ranks_of(entry->d_name);
        if (ranks && set->count && ranks != set->count)
            status = weft_fail(WEFT_E_LAYOUT, "%s has shares of %llu ranks and of %llu: keep one of the two", set->path,
                               (ull)set->count, (ull)ranks);
        set->count = ranks ? ranks : set->count;
    }
    closedir(listing);
    if (status == WEFT_OK && set->count == 0)
        status = weft_fail(WEFT_E_FILE, "%s has no rank-R-of-N.json: this is no folder of shares", set->path);
    return status;
}

static weft_status rank_open(weft_share_set *set, uint64_t rank)
{
    rank_files *files = &set->ranks[rank];
    char name[WEFT_SHARE_NAME];
    weft_share_name(rank, set->count, "json", name);
    char *path = inside(set, name);
    weft_share_name(rank, set->count, "safetensors", name);
    files->path = inside(set, name);
    weft_status status = path && files->path ? weft_share_file_open(path, &files->rules) : WEFT_E_MEMORY;
    if (status == WEFT_OK) {
        status = weft_share_open(set->shards.layout, files->rules.rules, files->rules.count, &files->share);
        if (status != WEFT_OK)
            weft_fail_about("%s", path);
    }
    weft_mem_give(path);
    if (status == WEFT_OK)
        status = weft_model_open(files->path, 0, &files->model);
    set->parts[rank] = (weft_slices_part){files->path, files->model, &files->share, 0};
    return status == WEFT_OK ? weft_slices_check(&set->parts[rank]) : status;
}

static weft_status ranks_open(weft_share_set *set)
{
    weft_status status = ranks_count(set);
    if (status != WEFT_OK)
        return status;
    set->ranks = weft_mem_take(set->count, sizeof *set->ranks);
    set->parts = weft_mem_take(set->count, sizeof *set->parts);
    if (!set->ranks || !set->parts)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu ranks", (ull)set->count);
    for (uint64_t rank = 0; rank < set->count && status == WEFT_OK; rank++)
        status = rank_open(set, rank);
    if (status == WEFT_OK)
        status = weft_slices_cover(set->shards.layout, set->parts, (uint32_t)set->count);
    return status;
}

weft_status weft_share_set_open(const char *path, weft_share_set **set)
{
    weft_share_set *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for a set of shares");
    made->path = weft_mem_text(path);
    weft_status status = made->path ? header_open(made) : weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    if (status == WEFT_OK)
        status = ranks_open(made);
    if (status == WEFT_OK)
        *set = made;
    else
        weft_share_set_close(made);
    return status;
}

void weft_share_set_close(weft_share_set *set)
{
    if (!set)
        return;
    for (uint64_t rank = 0; set->ranks && rank < set->count; rank++) {
        weft_model_close(set->ranks[rank].model);
        weft_share_close(&set->ranks[rank].share);
        weft_share_file_close(&set->ranks[rank].rules);
        weft_mem_give(set->ranks[rank].path);
    }
    weft_mem_give(set->parts);
    weft_mem_give(set->ranks);
    weft_shards_close(&set->shards);
    weft_mem_give(set->header);
    weft_mem_give(set->path);
    weft_mem_give(set);
}

uint64_t weft_share_set_ranks(const weft_share_set *set)
{
    return set->count;
}

weft_status weft_share_set_check(const weft_share_set *set, const char *path)
{
    weft_status status = weft_model_save_check(set->header, set->header_bytes, path);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    return status;
}

/* ---- joined */

static uint64_t largest_tensor(const weft_layout *layout)
{
    uint64_t most = 0;
    for (uint64_t t = 0; t < layout->count; t++)
        most = layout->entries[t].bytes > most ? layout->entries[t].bytes : most;
    return most;
}

static weft_status tensors_write(weft_share_set *set, weft_model_output *output, weft_status (*wanted)(void),
                                 uint8_t *data, uint8_t *room)
{
    const weft_layout *layout = set->shards.layout;
    weft_status status = WEFT_OK;
    for (uint64_t t = 0; t < layout->count && status == WEFT_OK; t++) {
        status = wanted();
        if (status == WEFT_OK)
            status = weft_slices_gather(layout, t, set->parts, (uint32_t)set->count, data, room);
        if (status == WEFT_OK)
            status = weft_model_output_write(output, data, layout->entries[t].bytes);
    }
    for (uint64_t rank = 0; rank < set->count && status == WEFT_OK; rank++)
        status = weft_model_unchanged(set->ranks[rank].model);
    return status;
}

weft_status weft_share_set_join(weft_share_set *set, const char *path, weft_status (*wanted)(void), uint64_t *bytes)
{
    const weft_layout *layout = set->shards.layout;
    const uint64_t most = largest_tensor(layout);
    uint8_t *data = weft_mem_take(most + 1, 1), *room = weft_mem_take(most + 1, 1);
    weft_model_output *output = NULL;
    weft_status status = data && room ? weft_model_output_open(layout, set->header, set->header_bytes, path, &output)
                                      : weft_fail(WEFT_E_MEMORY, "no memory for a tensor of %llu bytes", (ull)most);
    if (status == WEFT_OK)
        status = tensors_write(set, output, wanted, data, room);
    if (status == WEFT_OK)
        status = weft_model_output_finish(output);
    if (output)
        weft_model_output_close(output);
    weft_mem_give(room);
    weft_mem_give(data);
    *bytes = layout->bytes;
    return status;
}

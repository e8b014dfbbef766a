/* share_folder.c - a folder of shares, written under another name until it is whole. */
#include "share_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"
#include "share_file.h"
#include "slices.h"

typedef unsigned long long ull;

void weft_share_name(uint64_t rank, uint64_t ranks, const char *ending, char name[WEFT_SHARE_NAME])
{
    snprintf(name, WEFT_SHARE_NAME, "rank-%llu-of-%llu.%s", (ull)rank, (ull)ranks, ending);
}

static char *inside(const weft_share_folder *folder, const char *name)
{
    const size_t room = strlen(folder->temporary) + strlen(name) + 2;
    char *path = weft_mem_take(room, 1);
    if (path)
        snprintf(path, room, "%s/%s", folder->temporary, name);
    else
        weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    return path;
}

/* ---- begun and finished */

static weft_status folder_make(weft_share_folder *folder)
{
    size_t length = strlen(folder->path);
    while (length > 1 && folder->path[length - 1] == '/')
        folder->path[--length] = 0;
    weft_status status = weft_file_place_check(folder->path);
    if (status == WEFT_OK && !weft_model_folder_fits(folder->path))
        status = weft_fail(WEFT_E_FILE, "there is something; name a folder that is not there yet");
    if (status != WEFT_OK)
        return status;
    folder->temporary = weft_file_beside(folder->path);
    if (!folder->temporary)
        return weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    if (mkdir(folder->temporary, 0777) == 0) {
        weft_file_note(folder->temporary);
        return WEFT_OK;
    }
    status = weft_fail(WEFT_E_FILE, "cannot create a folder beside it: %s", strerror(errno));
    weft_mem_give(folder->temporary);
    folder->temporary = NULL;
    return status;
}

weft_status weft_share_folder_begin(weft_share_folder *folder, const char *path, const weft_model *model,
                                    uint64_t ranks)
{
    uint64_t bytes;
    *folder = (weft_share_folder){.model = model, .path = weft_mem_text(path), .ranks = ranks};
    weft_status status = folder->path ? folder_make(folder) : weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    if (status != WEFT_OK) {
        weft_fail_about("%s", path);
        return status;
    }
    const void *header = weft_model_header(model, &bytes);
    return weft_share_folder_write(folder, "model.header", header, bytes);
}

weft_status weft_share_folder_finish(weft_share_folder *folder)
{
    weft_status status = WEFT_OK;
    if (rename(folder->temporary, folder->path) != 0)
        status = weft_fail(WEFT_E_FILE, "cannot be put in its place: %s", strerror(errno));
    if (status == WEFT_OK) {
        weft_file_forget(folder->temporary);
        folder->temporary = NULL;
        status = weft_file_sync_directory(folder->path);
    }
    if (status != WEFT_OK)
        weft_fail_about("%s", folder->path);
    return status;
}

static void folder_remove(const weft_share_folder *folder)
{
    DIR *listing = opendir(folder->temporary);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char *path = inside(folder, entry->d_name);
        if (path)
            unlink(path);
        weft_mem_give(path);
    }
    if (listing)
        closedir(listing);
    rmdir(folder->temporary);
}

void weft_share_folder_close(weft_share_folder *folder)
{
    if (folder->temporary) {
        folder_remove(folder);
        weft_file_forget(folder->temporary);
    }
    weft_mem_give(folder->path);
    *folder = (weft_share_folder){0};
}

/* ---- files */

weft_status weft_share_folder_write(const weft_share_folder *folder, const char *name, const void *data, uint64_t bytes)
{
    weft_file file = {.descriptor = -1};
    char *path = inside(folder, name);
    if (!path)
        return WEFT_E_MEMORY;
    weft_status status = weft_file_begin(&file, path);
    if (status == WEFT_OK)
        status = weft_file_put(&file, data, bytes);
    if (status == WEFT_OK)
        status = weft_file_finish(&file);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    weft_file_drop(&file);
    weft_mem_give(path);
    return status;
}

static uint64_t tensors_count(const weft_share *share)
{
    uint64_t count = 0;
    for (uint64_t t = 0; t < share->layout->count; t++)
        count += share->portions[t].range_count > 0;
    return count;
}

static weft_status files_put(const weft_share_folder *folder, uint64_t rank, const weft_share_rule *rules,
                             uint64_t count, const weft_share *share, weft_share_put *put)
{
    char name[WEFT_SHARE_NAME];
    weft_share_name(rank, folder->ranks, "json", name);
    char *rules_path = inside(folder, name);
    weft_share_name(rank, folder->ranks, "safetensors", name);
    char *slices_path = inside(folder, name);
    weft_status status = rules_path && slices_path ? weft_share_file_save(rules, count, rules_path) : WEFT_E_MEMORY;
    put->tensors = tensors_count(share);
    if (status == WEFT_OK)
        status = weft_slices_save(folder->model, share, slices_path, &put->bytes);
    weft_mem_give(slices_path);
    weft_mem_give(rules_path);
    return status;
}

weft_status weft_share_folder_put(const weft_share_folder *folder, uint64_t rank, const weft_share_rule *rules,
                                  uint64_t count, weft_share_put *put)
{
    weft_share share;
    weft_status status = weft_share_open(weft_model_layout(folder->model), rules, count, &share);
    if (status != WEFT_OK)
        return status;
    status = files_put(folder, rank, rules, count, &share, put);
    weft_share_close(&share);
    return status;
}

/* safetensors_save.c - a model to a file or a folder: whole under the final name, or not at all. */
#include "model.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "scatter.h"

typedef unsigned long long ull;

struct weft_model_output {
    uint8_t *attachment; /* `shards` lies in it */
    weft_shards shards;
    char *path;
    char *folder;         /* the unfinished folder of a sharded model; NULL: one file */
    char *before;         /* a folder whose files may be equal; NULL: none */
    weft_file file;       /* the shard being written */
    weft_earlier earlier; /* or still equal to this one, with nothing written */
    uint64_t shard;       /* its number; shards.count: all are done */
    uint64_t left;        /* bytes of its data still to come */
    weft_scatter scatter; /* all shards, where tensors come in another order than the headers have */
};

static weft_status no_memory(void)
{
    return weft_fail(WEFT_E_MEMORY, "no memory for a file name");
}

static char *inside(const weft_model_output *output, const char *name)
{
    size_t room = strlen(output->folder) + strlen(name) + 2;
    char *path = weft_mem_take(room, 1);
    if (path)
        snprintf(path, room, "%s/%s", output->folder, name);
    return path;
}

/* ---- shards */

static weft_status file_begin(const weft_model_output *output, const weft_shard *shard, weft_file *file)
{
    char *path = output->folder ? inside(output, shard->name) : output->path;
    weft_status status = path ? weft_file_begin(file, path) : no_memory();
    if (output->folder)
        weft_mem_give(path);
    return status;
}

/* The shard is another than the earlier one: what was equal is written now. */
static weft_status shard_part(weft_model_output *output)
{
    weft_status status = file_begin(output, &output->shards.items[output->shard], &output->file);
    if (status == WEFT_OK)
        status = weft_earlier_copy(&output->earlier, &output->file);
    weft_earlier_close(&output->earlier);
    return status;
}

static weft_status shard_put(weft_model_output *output, const void *data, uint64_t bytes)
{
    weft_status status = WEFT_OK;
    if (output->earlier.file >= 0) {
        if (weft_earlier_is(&output->earlier, data, bytes))
            return WEFT_OK;
        status = shard_part(output);
    }
    return status == WEFT_OK ? weft_file_put(&output->file, data, bytes) : status;
}

static weft_status shard_begin(weft_model_output *output)
{
    const weft_shard *shard = &output->shards.items[output->shard];
    output->left = shard->data_bytes;
    weft_earlier_open(output->before, shard->name, shard->header_bytes + shard->data_bytes, &output->earlier);
    weft_status status = output->earlier.file >= 0 ? WEFT_OK : file_begin(output, shard, &output->file);
    return status == WEFT_OK ? shard_put(output, shard->header, shard->header_bytes) : status;
}

static weft_status shard_finish(weft_model_output *output)
{
    weft_status status = WEFT_OK;
    if (output->earlier.file >= 0) {
        char *path = inside(output, output->shards.items[output->shard].name);
        const bool linked = path && weft_earlier_link(&output->earlier, path);
        weft_mem_give(path);
        if (!linked)
            status = shard_part(output);
        weft_earlier_close(&output->earlier);
        if (linked)
            return WEFT_OK;
    }
    return status == WEFT_OK ? weft_file_finish(&output->file) : status;
}

static weft_status scatter_begin(weft_model_output *output)
{
    weft_status status = WEFT_OK;
    for (uint64_t s = 0; s < output->shards.count && status == WEFT_OK; s++) {
        const weft_shard *shard = &output->shards.items[s];
        status = file_begin(output, shard, &output->scatter.files[s]);
        if (status == WEFT_OK)
            status = weft_file_put(&output->scatter.files[s], shard->header, shard->header_bytes);
    }
    return status;
}

/* A single file is put in its place by finish alone. */
static weft_status shards_step(weft_model_output *output)
{
    weft_status status = WEFT_OK;
    while (output->folder && output->left == 0 && output->shard < output->shards.count && status == WEFT_OK) {
        status = shard_finish(output);
        if (status == WEFT_OK && ++output->shard < output->shards.count)
            status = shard_begin(output);
    }
    return status;
}

/* ---- open */

/* "out/" is what shells complete: what is unfinished stands beside the folder, not in it. */
static void cut_slashes(char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
}

static weft_status index_put(const weft_model_output *output)
{
    weft_file index;
    weft_earlier earlier;
    char *path = inside(output, output->shards.index_name);
    weft_earlier_open(output->before, output->shards.index_name, output->shards.index_bytes, &earlier);
    const bool linked = path && weft_earlier_is(&earlier, output->shards.index, output->shards.index_bytes) &&
                        weft_earlier_link(&earlier, path);
    weft_earlier_close(&earlier);
    weft_status status = linked ? WEFT_OK : path ? weft_file_begin(&index, path) : no_memory();
    weft_mem_give(path);
    if (linked || status != WEFT_OK)
        return status;
    status = weft_file_put(&index, output->shards.index, output->shards.index_bytes);
    if (status == WEFT_OK)
        return weft_file_finish(&index);
    weft_file_drop(&index);
    return status;
}

static weft_status folder_begin(weft_model_output *output)
{
    cut_slashes(output->path);
    weft_status status = weft_model_folder_check(output->path); /* better told now than after hours */
    if (status != WEFT_OK)
        return status;
    output->folder = weft_file_beside(output->path);
    if (!output->folder)
        return no_memory();
    if (mkdir(output->folder, 0777) != 0) {
        int reason = errno;
        weft_mem_give(output->folder);
        output->folder = NULL;
        return weft_fail(WEFT_E_FILE, "cannot create a folder beside it: %s", strerror(reason));
    }
    weft_file_note(output->folder);
    return output->shards.index_name ? index_put(output) : WEFT_OK;
}

/* The attachment describes exactly the layout's tensors, in its order or in another. */
static weft_status shards_fit(weft_model_output *output, const weft_layout *layout)
{
    const uint64_t *wanted = layout->hash, *given = output->shards.layout->hash;
    if (wanted[0] == given[0] && wanted[1] == given[1])
        return WEFT_OK;
    return weft_scatter_open(&output->scatter, layout, &output->shards);
}

static weft_status output_begin(weft_model_output *output, const weft_layout *layout, const void *attachment,
                                uint64_t bytes, const weft_model_place *place)
{
    output->file.descriptor = output->earlier.file = -1;
    output->path = weft_mem_text(place->path);
    output->before = place->earlier ? weft_mem_text(place->earlier) : NULL;
    output->attachment = weft_mem_take(bytes, 1);
    if (!output->path || !output->attachment)
        return no_memory();
    if (bytes > 0)
        memcpy(output->attachment, attachment, bytes);
    weft_status status = weft_shards_read(output->attachment, bytes, &output->shards);
    if (status == WEFT_OK)
        status = shards_fit(output, layout);
    if (status == WEFT_OK && place->name && !output->shards.index_name) {
        output->shards.items[0].name = weft_mem_text(place->name);
        status = output->shards.items[0].name ? WEFT_OK : no_memory();
    }
    if (status == WEFT_OK && output->shards.items[0].name)
        status = folder_begin(output);
    if (status == WEFT_OK && output->scatter.places)
        return scatter_begin(output);
    if (status == WEFT_OK)
        status = shard_begin(output);
    return status == WEFT_OK ? shards_step(output) : status;
}

weft_status weft_model_output_open_at(const weft_layout *layout, const void *attachment, uint64_t bytes,
                                      const weft_model_place *place, weft_model_output **output)
{
    weft_model_output *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for an output");
    weft_status status = output_begin(made, layout, attachment, bytes, place);
    if (status == WEFT_OK) {
        *output = made;
    } else {
        weft_fail_about("%s", place->path);
        weft_model_output_close(made);
    }
    return status;
}

weft_status weft_model_output_open(const weft_layout *layout, const void *attachment, uint64_t bytes, const char *path,
                                   weft_model_output **output)
{
    return weft_model_output_open_at(layout, attachment, bytes, &(weft_model_place){.path = path}, output);
}

/* ---- data */

static weft_status put(weft_model_output *output, const uint8_t *data, uint64_t bytes)
{
    weft_status status = WEFT_OK;
    while (bytes > 0 && status == WEFT_OK) {
        uint64_t part = bytes < output->left ? bytes : output->left;
        if (part == 0)
            return weft_fail(WEFT_E_LAYOUT, "%llu bytes more than its tensors have", (ull)bytes);
        status = shard_put(output, data, part);
        output->left -= part;
        data += part;
        bytes -= part;
        if (status == WEFT_OK)
            status = shards_step(output);
    }
    return status;
}

weft_status weft_model_output_write(weft_model_output *output, const void *data, uint64_t bytes)
{
    weft_status status =
        output->scatter.places ? weft_scatter_write(&output->scatter, data, bytes) : put(output, data, bytes);
    if (status != WEFT_OK)
        weft_fail_about("%s", output->path);
    return status;
}

/* Shards that were written in pieces are compared when they are whole. */
static void shards_link(const weft_model_output *output)
{
    char to[PATH_MAX];
    for (uint64_t s = 0; output->before && s < output->shards.count; s++) {
        char *path = inside(output, output->shards.items[s].name);
        if (path && snprintf(to, sizeof to, "%s.tmp", path) < PATH_MAX &&
            weft_earlier_stand_in(output->before, output->shards.items[s].name, path, to) && rename(to, path) != 0)
            unlink(to);
        weft_mem_give(path);
    }
}

static weft_status folder_finish(weft_model_output *output)
{
    if (rename(output->folder, output->path) != 0)
        return weft_fail(WEFT_E_FILE, "cannot be put in its place: %s%s", strerror(errno),
                         errno == ENOTEMPTY || errno == EEXIST ? "; name a folder that is not there yet" : "");
    weft_file_forget(output->folder);
    output->folder = NULL;
    return weft_file_sync_directory(output->path);
}

weft_status weft_model_output_finish(weft_model_output *output)
{
    const bool scattered = output->scatter.places;
    const uint64_t left = scattered ? weft_scatter_left(&output->scatter) : output->left;
    weft_status status = WEFT_OK;
    if (left > 0)
        status = weft_fail(WEFT_E_LAYOUT, "%llu bytes of its tensors are missing", (ull)left);
    else if (scattered)
        status = weft_scatter_finish(&output->scatter);
    else if (!output->folder)
        status = weft_file_finish(&output->file);
    if (status == WEFT_OK && scattered && output->folder)
        shards_link(output);
    if (status == WEFT_OK && output->folder)
        status = folder_finish(output);
    if (status != WEFT_OK)
        weft_fail_about("%s", output->path);
    return status;
}

static void folder_remove(const weft_model_output *output)
{
    DIR *listing = opendir(output->folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char *path = inside(output, entry->d_name);
        if (path)
            unlink(path);
        weft_mem_give(path);
    }
    if (listing)
        closedir(listing);
    rmdir(output->folder);
}

void weft_model_output_close(weft_model_output *output)
{
    if (!output)
        return;
    weft_file_drop(&output->file);
    weft_earlier_close(&output->earlier);
    weft_scatter_close(&output->scatter);
    if (output->folder)
        folder_remove(output);
    weft_shards_close(&output->shards);
    weft_mem_give(output->attachment);
    weft_file_forget(output->folder);
    weft_mem_give(output->before);
    weft_mem_give(output->path);
    weft_mem_give(output);
}

/* ---- a whole model */

weft_status weft_model_output_accompany(weft_model_output *output, const char *base)
{
    weft_status status =
        output->folder ? weft_companions_bring(base, &output->shards, output->folder, output->before) : WEFT_OK;
    if (status != WEFT_OK)
        weft_fail_about("%s", output->path);
    return status;
}

/* Tensors in layout order; neighbours in memory go out together. */
static weft_status data_write(const weft_model *model, weft_model_output *output)
{
    const uint8_t *begin = NULL;
    uint64_t bytes = 0;
    weft_status status = WEFT_OK;
    for (uint64_t t = 0; t < model->layout->count && status == WEFT_OK; t++) {
        const uint8_t *data = model->pieces[t].data;
        if (bytes > 0 && begin + bytes != data) {
            status = weft_model_output_write(output, begin, bytes);
            bytes = 0;
        }
        if (bytes == 0)
            begin = data;
        bytes += model->layout->entries[t].bytes;
    }
    return status == WEFT_OK ? weft_model_output_write(output, begin, bytes) : status;
}

weft_status weft_model_output_model(weft_model_output *output, const weft_model *model)
{
    weft_status status = data_write(model, output);
    const weft_mapped *shrunk = weft_model_shrunk(model);
    return shrunk ? weft_mapped_unchanged(shrunk) : status;
}

weft_status weft_model_save(const weft_model *model, const void *attachment, uint64_t bytes, const char *path)
{
    weft_model_output *output;
    weft_status status = weft_model_output_open(model->layout, attachment, bytes, path, &output);
    if (status != WEFT_OK)
        return status;
    status = weft_model_output_model(output, model);
    if (status == WEFT_OK)
        status = weft_model_output_finish(output);
    weft_model_output_close(output);
    return status;
}

/* safetensors_map.c - a model in memory: a safetensors file mapped, or zeros for a layout. */
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/layout_match.h"

typedef unsigned long long ull;

weft_status weft_mapped_read(const weft_mapped *mapped, void *out, uint64_t bytes, uint64_t offset, const char *where)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(mapped->file, (uint8_t *)out + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weft_fail(WEFT_E_FILE, "cannot be read: %s", strerror(errno));
        if (got == 0)
            return weft_fail(WEFT_E_LAYOUT, "cut short: it ends at byte %llu, inside its %s", (ull)(offset + done),
                             where);
        done += (uint64_t)got;
    }
    return WEFT_OK;
}

static weft_status file_open(const weft_folder *folder, const char *name, weft_mapped *mapped)
{
    char path[PATH_MAX];
    struct stat facts;
    if (snprintf(path, sizeof path, "%s%s", folder->path, name) >= PATH_MAX)
        return weft_fail(WEFT_E_FILE, "cannot be opened: its path is longer than %d bytes", PATH_MAX);
    mapped->path = weft_mem_text(path);
    if (!mapped->path)
        return weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    mapped->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    if (mapped->file < 0 || fstat(mapped->file, &facts) != 0)
        return weft_fail(WEFT_E_FILE, "cannot be opened: %s", weft_model_unopened(path));
    if (!S_ISREG(facts.st_mode))
        return weft_fail(WEFT_E_FILE, S_ISDIR(facts.st_mode) ? "is a folder, not a file" : "not a regular file");
    mapped->bytes = (uint64_t)facts.st_size;
    mapped->modified = facts.st_mtim;
    return WEFT_OK;
}

/* Takes a private copy of the header, so that what was checked is what is kept. */
static weft_status header_take(weft_mapped *mapped, uint8_t **header)
{
    uint8_t prefix[WEFT_MODEL_PREFIX];
    if (mapped->bytes < WEFT_MODEL_PREFIX)
        return weft_fail(WEFT_E_LAYOUT, "cut short: %llu bytes are no safetensors file", (ull)mapped->bytes);
    weft_status status = weft_mapped_read(mapped, prefix, sizeof prefix, 0, "header");
    if (status != WEFT_OK)
        return status;
    uint64_t length = weft_bytes_get(prefix, sizeof prefix);
    if (length > WEFT_MODEL_HEADER_MAX)
        return weft_fail(WEFT_E_LAYOUT,
                         "header too long: it says %llu bytes, the format allows %llu: this is no safetensors file",
                         (ull)length, (ull)WEFT_MODEL_HEADER_MAX);
    if (length > mapped->bytes - WEFT_MODEL_PREFIX)
        return weft_fail(WEFT_E_LAYOUT, "cut short: its header has %llu bytes, the file only %llu after its length",
                         (ull)length, (ull)(mapped->bytes - WEFT_MODEL_PREFIX));
    mapped->header_bytes = WEFT_MODEL_PREFIX + length;
    *header = weft_mem_take(1, mapped->header_bytes);
    if (!*header)
        return weft_fail(WEFT_E_MEMORY, "no memory for its header of %llu bytes", (ull)mapped->header_bytes);
    return weft_mapped_read(mapped, *header, mapped->header_bytes, 0, "header");
}

static weft_status file_take(weft_model *model, const weft_folder *folder, uint64_t i, uint8_t **header)
{
    weft_status status = file_open(folder, folder->files[i], &model->files[i]);
    if (status == WEFT_OK)
        status = header_take(&model->files[i], header);
    if (status != WEFT_OK && folder->index_name)
        weft_fail_about("%s", folder->files[i]);
    if (status == WEFT_E_FILE && folder->index_name)
        weft_fail_quiet(status, "%s; %s says that tensor %s lies there", weft_last_error(), folder->index_name,
                        weft_folder_tensor(folder, folder->files[i]));
    return status;
}

/* The headers of all files in an attachment's form. */
static weft_status headers_join(weft_model *model, const weft_folder *folder, uint8_t **headers)
{
    weft_shards shards = {.count = folder->file_count,
                          .index_name = folder->index_name,
                          .index = folder->index,
                          .index_bytes = folder->index_bytes};
    if (!folder->index_name) {
        model->header = headers[0];
        model->header_bytes = model->files[0].header_bytes;
        headers[0] = NULL;
        return WEFT_OK;
    }
    shards.items = weft_mem_take(folder->file_count, sizeof *shards.items);
    if (!shards.items)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu shards", (ull)folder->file_count);
    for (uint64_t i = 0; i < folder->file_count; i++)
        shards.items[i] =
            (weft_shard){.name = folder->files[i], .header = headers[i], .header_bytes = model->files[i].header_bytes};
    weft_status status = weft_shards_write(&shards, &model->header, &model->header_bytes);
    weft_mem_give(shards.items);
    return status;
}

static weft_status files_take(weft_model *model, const weft_folder *folder)
{
    uint8_t **headers = weft_mem_take(folder->file_count, sizeof *headers);
    model->files = weft_mem_take(folder->file_count, sizeof *model->files);
    if (!headers || !model->files) {
        weft_mem_give(headers);
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu files", (ull)folder->file_count);
    }
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < folder->file_count; i++)
        model->files[i].file = -1;
    model->file_count = folder->file_count;
    for (uint64_t i = 0; i < folder->file_count && status == WEFT_OK; i++)
        status = file_take(model, folder, i, &headers[i]);
    if (status == WEFT_OK)
        status = headers_join(model, folder, headers);
    for (uint64_t i = 0; i < folder->file_count; i++)
        weft_mem_give(headers[i]);
    weft_mem_give(headers);
    return status;
}

static weft_status data_check(const weft_model *model, const weft_shards *shards)
{
    uint64_t tensors = 0;
    for (uint64_t i = 0; i < shards->count; i++) {
        uint64_t have = model->files[i].bytes - model->files[i].header_bytes, want = shards->items[i].data_bytes;
        const char *name = shards->items[i].name ? shards->items[i].name : "", *colon = *name ? ": " : "";
        tensors += shards->items[i].tensors;
        if (want > have)
            return weft_fail(WEFT_E_LAYOUT,
                             "%s%scut short: tensor %s ends at byte %llu of the data, the file has only %llu", name,
                             colon, shards->layout->entries[tensors - 1].tensor.name, (ull)want, (ull)have);
        if (want < have)
            return weft_fail(WEFT_E_LAYOUT, "%s%s%llu bytes after the last tensor belong to none", name, colon,
                             (ull)(have - want));
    }
    return WEFT_OK;
}

static weft_status pieces_take(weft_model *model)
{
    model->pieces = weft_mem_take(model->layout->count + 1, sizeof *model->pieces);
    if (!model->pieces)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (ull)model->layout->count);
    return WEFT_OK;
}

/* One range of addresses for all files, each on pages of its own, so that one range tells the model's faults. */
static weft_status range_take(weft_model *model)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), total = 0;
    for (uint64_t i = 0; i < model->file_count; i++) {
        model->files[i].offset = total;
        total += (model->files[i].bytes + page - 1) / page * page;
    }
    void *memory = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return weft_fail(WEFT_E_FILE, "cannot be mapped (%llu bytes): %s", (ull)total, strerror(errno));
    model->memory = memory;
    model->memory_bytes = total;
    return WEFT_OK;
}

static weft_status files_map(weft_model *model, int writable)
{
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    weft_status status = range_take(model);
    model->writable = writable;
    for (uint64_t i = 0; i < model->file_count && status == WEFT_OK; i++) {
        const weft_mapped *mapped = &model->files[i];
        if (mmap(model->memory + mapped->offset, mapped->bytes, protection, MAP_PRIVATE | MAP_FIXED, mapped->file, 0) ==
            MAP_FAILED)
            status = weft_fail(WEFT_E_FILE, "cannot be mapped (%llu bytes): %s", (ull)mapped->bytes, strerror(errno));
    }
    return status;
}

static weft_status pieces_point(weft_model *model, const weft_shards *shards)
{
    weft_status status = pieces_take(model);
    uint64_t t = 0;
    for (uint64_t i = 0; i < shards->count && status == WEFT_OK; i++) {
        uint8_t *data = model->memory + model->files[i].offset + model->files[i].header_bytes;
        for (uint64_t end = t + shards->items[i].tensors; t < end; t++) {
            model->pieces[t] = (weft_piece){t, 0, model->layout->entries[t].elements, data};
            data += model->layout->entries[t].bytes;
        }
    }
    return status;
}

static weft_status files_load(weft_model *model, const weft_folder *folder, int writable)
{
    weft_shards shards = {0};
    weft_status status = files_take(model, folder);
    if (status == WEFT_OK)
        status = weft_shards_read(model->header, model->header_bytes, &shards);
    if (status == WEFT_OK && folder->index_name)
        status = weft_folder_check(folder, &shards);
    if (status == WEFT_OK)
        status = data_check(model, &shards);
    if (status == WEFT_OK)
        status = files_map(model, writable);
    if (status == WEFT_OK) {
        model->layout = weft_layout_hold(shards.layout);
        status = pieces_point(model, &shards);
    }
    if (status == WEFT_OK)
        status = weft_model_align(model, &shards);
    weft_shards_close(&shards);
    return status;
}

static weft_status model_load(weft_model *model, const char *path, int writable)
{
    weft_folder folder;
    weft_status status = weft_folder_open(path, &folder);
    if (status != WEFT_OK)
        return status;
    status = files_load(model, &folder, writable);
    if (status != WEFT_OK && folder.searched)
        weft_fail_about("%s", folder.files[0]);
    weft_folder_close(&folder);
    return status;
}

static weft_model *model_take(void)
{
    weft_model *model = weft_mem_take(1, sizeof *model);
    if (!model)
        weft_fail(WEFT_E_MEMORY, "no memory for a model");
    return model;
}

weft_status weft_model_open(const char *path, int writable, weft_model **model)
{
    weft_model *made = model_take();
    if (!made)
        return WEFT_E_MEMORY;
    weft_status status = model_load(made, path, writable);
    if (status == WEFT_OK) {
        *model = made;
    } else {
        weft_fail_about("%s", path);
        weft_model_close(made);
    }
    return status;
}

static weft_status model_zero(weft_model *model)
{
    uint64_t bytes = model->layout->bytes;
    weft_status status = pieces_take(model);
    if (status != WEFT_OK)
        return status;
    model->memory = weft_mem_map(bytes > 0 ? bytes : 1);
    if (!model->memory)
        return weft_fail(WEFT_E_MEMORY, "no memory for a model of %llu bytes", (ull)bytes);
    model->memory_bytes = bytes > 0 ? bytes : 1;
    model->writable = true;
    for (uint64_t t = 0; t < model->layout->count; t++) {
        const weft_layout_entry *entry = &model->layout->entries[t];
        model->pieces[t] = (weft_piece){t, 0, entry->elements, model->memory + entry->offset};
    }
    return WEFT_OK;
}

weft_status weft_model_create(const weft_layout *layout, weft_model **model)
{
    weft_model *made = model_take();
    if (!made)
        return WEFT_E_MEMORY;
    made->layout = weft_layout_hold((weft_layout *)(uintptr_t)layout); /* only its count of references moves */
    weft_status status = model_zero(made);
    if (status == WEFT_OK)
        *model = made;
    else
        weft_model_close(made);
    return status;
}

void weft_model_close(weft_model *model)
{
    if (!model)
        return;
    for (uint64_t i = 0; i < model->file_count; i++) {
        if (model->files[i].file >= 0)
            close(model->files[i].file);
        weft_mem_give(model->files[i].path);
    }
    if (model->memory && model->file_count)
        munmap(model->memory, model->memory_bytes);
    else if (model->memory)
        weft_mem_unmap(model->memory, model->memory_bytes);
    weft_mem_unmap(model->moved, model->moved_bytes);
    weft_mem_give(model->files);
    weft_mem_give(model->header);
    weft_mem_give(model->pieces);
    weft_layout_free(model->layout);
    weft_mem_give(model);
}

const weft_layout *weft_model_layout(const weft_model *model)
{
    return model->layout;
}

weft_status weft_model_take_order(weft_model *model, const weft_layout *layout, const char *path, const char *theirs)
{
    const weft_layout *own = model->layout;
    weft_piece *pieces = NULL, *placed;
    if (own->hash[0] == layout->hash[0] && own->hash[1] == layout->hash[1])
        return WEFT_OK;
    const weft_match_side mine = weft_match_layout("it", own), other = weft_match_layout(theirs, layout);
    weft_status status = weft_match_pieces(&mine, &other, model->pieces, own->count, &pieces);
    placed = status == WEFT_OK ? weft_mem_take(own->count + 1, sizeof *placed) : NULL;
    for (uint64_t i = 0; placed && i < own->count; i++)
        placed[pieces[i].tensor] = pieces[i];
    weft_mem_give(pieces);
    if (!placed) {
        status = status == WEFT_OK ? weft_fail_quiet(WEFT_E_MEMORY, "no memory for an order") : status;
        weft_fail_about("%s", path);
        return status;
    }
    weft_mem_give(model->pieces);
    model->pieces = placed;
    weft_layout_free(model->layout);
    model->layout = weft_layout_hold((weft_layout *)(uintptr_t)layout); /* only its count of references moves */
    return WEFT_OK;
}

const weft_piece *weft_model_pieces(const weft_model *model, uint64_t *count)
{
    *count = model->layout->count;
    return model->pieces;
}

const void *weft_model_header(const weft_model *model, uint64_t *bytes)
{
    *bytes = model->header_bytes;
    return model->header;
}

weft_status weft_mapped_unchanged(const weft_mapped *mapped)
{
    struct stat facts;
    if (fstat(mapped->file, &facts) != 0)
        return weft_fail(WEFT_E_FILE, "%s: cannot be looked at: %s", mapped->path, strerror(errno));
    if ((uint64_t)facts.st_size != mapped->bytes)
        return weft_fail(WEFT_E_FILE,
                         "%s: %s while in use: it had %llu bytes, now it has %llu; replace files by rename, never in "
                         "place",
                         mapped->path, (uint64_t)facts.st_size < mapped->bytes ? "cut short" : "written to",
                         (ull)mapped->bytes, (ull)facts.st_size);
    if (facts.st_mtim.tv_sec != mapped->modified.tv_sec || facts.st_mtim.tv_nsec != mapped->modified.tv_nsec)
        return weft_fail(WEFT_E_FILE, "%s: written to while in use; replace files by rename, never in place",
                         mapped->path);
    return WEFT_OK;
}

weft_status weft_model_unchanged(const weft_model *model)
{
    weft_status status = WEFT_OK;
    for (uint64_t i = 0; i < model->file_count && status == WEFT_OK; i++)
        status = weft_mapped_unchanged(&model->files[i]);
    return status;
}

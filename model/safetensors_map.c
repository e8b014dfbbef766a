/* safetensors_map.c - a model in memory: a safetensors file mapped, or zeros for a layout. */
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "layout.h"
#include "mem.h"
#include "status.h"

typedef unsigned long long ull;

/* Reads exactly `bytes` at `offset`; a file that ends before is cut short. */
static weft_status file_read(int file, void *out, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(file, (uint8_t *)out + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weft_fail(WEFT_E_FILE, "cannot be read: %s", strerror(errno));
        if (got == 0)
            return weft_fail(WEFT_E_LAYOUT, "cut short: it ends at byte %llu, inside its header", (ull)(offset + done));
        done += (uint64_t)got;
    }
    return WEFT_OK;
}

static weft_status file_open(weft_model *model, const char *path)
{
    struct stat facts;
    model->file = open(path, O_RDONLY | O_CLOEXEC);
    if (model->file < 0 || fstat(model->file, &facts) != 0)
        return weft_fail(WEFT_E_FILE, "cannot be opened: %s", strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return weft_fail(WEFT_E_FILE, "not a regular file");
    model->file_bytes = (uint64_t)facts.st_size;
    model->modified = facts.st_mtim;
    return WEFT_OK;
}

/* Takes a private copy of the header, so that what was checked is what is kept. */
static weft_status header_take(weft_model *model)
{
    uint8_t prefix[WEFT_MODEL_PREFIX];
    if (model->file_bytes < WEFT_MODEL_PREFIX)
        return weft_fail(WEFT_E_LAYOUT, "cut short: %llu bytes are no safetensors file", (ull)model->file_bytes);
    weft_status status = file_read(model->file, prefix, sizeof prefix, 0);
    if (status != WEFT_OK)
        return status;
    uint64_t length = weft_bytes_get(prefix, sizeof prefix);
    if (length > WEFT_MODEL_HEADER_MAX)
        return weft_fail(WEFT_E_LAYOUT,
                         "header too long: it says %llu bytes, the format allows %llu: this is no safetensors file",
                         (ull)length, (ull)WEFT_MODEL_HEADER_MAX);
    if (length > model->file_bytes - WEFT_MODEL_PREFIX)
        return weft_fail(WEFT_E_LAYOUT, "cut short: its header has %llu bytes, the file only %llu behind its length",
                         (ull)length, (ull)(model->file_bytes - WEFT_MODEL_PREFIX));
    model->header_bytes = WEFT_MODEL_PREFIX + length;
    model->header = weft_mem_take(1, model->header_bytes);
    if (!model->header)
        return weft_fail(WEFT_E_MEMORY, "no memory for its header of %llu bytes", (ull)model->header_bytes);
    return file_read(model->file, model->header, model->header_bytes, 0);
}

static weft_status data_check(const weft_model *model, uint64_t data_bytes)
{
    uint64_t have = model->file_bytes - model->header_bytes;
    if (data_bytes > have)
        return weft_fail(WEFT_E_LAYOUT, "cut short: tensor %s ends at byte %llu of the data, the file has only %llu",
                         model->layout->entries[model->layout->count - 1].tensor.name, (ull)data_bytes, (ull)have);
    if (data_bytes < have)
        return weft_fail(WEFT_E_LAYOUT, "%llu bytes behind the last tensor belong to none", (ull)(have - data_bytes));
    return WEFT_OK;
}

static weft_status pieces_take(weft_model *model)
{
    model->pieces = weft_mem_take(model->layout->count + 1, sizeof *model->pieces);
    if (!model->pieces)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (ull)model->layout->count);
    return WEFT_OK;
}

static weft_status file_map(weft_model *model, int writable)
{
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *memory = mmap(NULL, model->file_bytes, protection, MAP_PRIVATE, model->file, 0);
    if (memory == MAP_FAILED)
        return weft_fail(WEFT_E_FILE, "cannot be mapped (%llu bytes): %s", (ull)model->file_bytes, strerror(errno));
    model->memory = memory;
    model->writable = writable;
    model->memory_bytes = model->file_bytes;
    weft_status status = pieces_take(model);
    uint8_t *data = model->memory + model->header_bytes;
    for (uint64_t t = 0; t < model->layout->count && status == WEFT_OK; t++) {
        model->pieces[t] = (weft_piece){t, 0, model->layout->entries[t].elements, data};
        data += model->layout->entries[t].bytes;
    }
    return status;
}

static weft_status model_load(weft_model *model, const char *path, int writable)
{
    uint64_t data_bytes = 0;
    weft_status status = file_open(model, path);
    if (status == WEFT_OK)
        status = header_take(model);
    if (status == WEFT_OK)
        status = weft_model_header_read(model->header, model->header_bytes, &model->layout, &data_bytes);
    if (status == WEFT_OK)
        status = data_check(model, data_bytes);
    return status == WEFT_OK ? file_map(model, writable) : status;
}

static weft_model *model_take(void)
{
    weft_model *model = weft_mem_take(1, sizeof *model);
    if (model)
        model->file = -1;
    else
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
    if (model->file >= 0) {
        if (model->memory)
            munmap(model->memory, model->memory_bytes);
        close(model->file);
    } else if (model->memory) {
        weft_mem_unmap(model->memory, model->memory_bytes);
    }
    weft_mem_give(model->header);
    weft_mem_give(model->pieces);
    weft_layout_free(model->layout);
    weft_mem_give(model);
}

const weft_layout *weft_model_layout(const weft_model *model)
{
    return model->layout;
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

weft_status weft_model_unchanged(const weft_model *model)
{
    struct stat facts;
    if (model->file < 0)
        return WEFT_OK;
    if (fstat(model->file, &facts) != 0)
        return weft_fail(WEFT_E_FILE, "the model file cannot be looked at: %s", strerror(errno));
    if ((uint64_t)facts.st_size != model->file_bytes)
        return weft_fail(WEFT_E_FILE,
                         "the model file changed while in use: it had %llu bytes, now it has %llu; replace files by "
                         "rename, never in place",
                         (ull)model->file_bytes, (ull)facts.st_size);
    if (facts.st_mtim.tv_sec != model->modified.tv_sec || facts.st_mtim.tv_nsec != model->modified.tv_nsec)
        return weft_fail(WEFT_E_FILE,
                         "the model file was written while in use; replace files by rename, never in place");
    return WEFT_OK;
}

/* safetensors_save.c - a model to a file: whole under the final name, or not at all. */
#include "model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "layout.h"
#include "status.h"

#define WRITE_MAX (UINT64_C(1) << 30) /* the kernel takes little more in one call */

typedef unsigned long long ull;

static weft_status write_all(int file, const uint8_t *data, uint64_t bytes)
{
    while (bytes > 0) {
        ssize_t put = write(file, data, bytes < WRITE_MAX ? bytes : WRITE_MAX);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EFAULT) /* how a shrunken mapping shows itself to the kernel */
            return weft_fail(WEFT_E_FILE, "not written: the model file was cut short while it was read");
        if (put < 0)
            return weft_fail(WEFT_E_FILE, "cannot be written: %s%s", strerror(errno),
                             errno == ENOSPC || errno == EFBIG || errno == EDQUOT
                                 ? "; nothing was changed; free some space or choose another place"
                                 : "");
        data += put;
        bytes -= (uint64_t)put;
    }
    return WEFT_OK;
}

/* Tensors in layout order; neighbours in memory go out together. */
static weft_status data_write(const weft_model *model, int file)
{
    const uint8_t *begin = NULL;
    uint64_t bytes = 0;
    weft_status status = WEFT_OK;
    for (uint64_t t = 0; t < model->layout->count && status == WEFT_OK; t++) {
        const uint8_t *data = model->pieces[t].data;
        if (bytes > 0 && begin + bytes != data) {
            status = write_all(file, begin, bytes);
            bytes = 0;
        }
        if (bytes == 0)
            begin = data;
        bytes += model->layout->entries[t].bytes;
    }
    return status == WEFT_OK ? write_all(file, begin, bytes) : status;
}

static weft_status contents_write(const weft_model *model, const void *header, uint64_t header_bytes, int file)
{
    weft_status status = write_all(file, header, header_bytes);
    if (status == WEFT_OK)
        status = data_write(model, file);
    if (status == WEFT_OK && fsync(file) != 0)
        status = weft_fail(WEFT_E_FILE, "cannot be brought to disk: %s", strerror(errno));
    if (close(file) != 0 && status == WEFT_OK)
        status = weft_fail(WEFT_E_FILE, "cannot be closed: %s", strerror(errno));
    return status;
}

/* A new file beside the final one, with the mode that the umask grants (mkstemp's would be private). */
static weft_status temporary_open(char *name, size_t stem, int *file)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        uint32_t draw = 0;
        if (getrandom(&draw, sizeof draw, 0) < 0)
            draw = (uint32_t)getpid() + (uint32_t)attempt;
        snprintf(name + stem, 16, ".%08x.tmp", draw);
        *file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*file >= 0)
            return WEFT_OK;
        if (errno != EEXIST)
            break;
    }
    return weft_fail(WEFT_E_FILE, "cannot create a file beside it: %s", strerror(errno));
}

/* Makes the rename last: the directory is synced too. Not every file system can. */
static weft_status directory_sync(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *parent = !slash ? strdup(".") : slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
    int file = parent ? open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool synced = file >= 0 && (fsync(file) == 0 || errno == EINVAL);
    int reason = errno;
    if (file >= 0)
        close(file);
    free(parent);
    return synced ? WEFT_OK
                  : weft_fail(WEFT_E_FILE, "written, but its directory cannot be synced: %s", strerror(reason));
}

static weft_status save_as(const weft_model *model, const void *header, uint64_t header_bytes, const char *path,
                           char *temporary)
{
    int file;
    weft_status status = temporary_open(temporary, strlen(path), &file);
    if (status != WEFT_OK)
        return status;
    status = contents_write(model, header, header_bytes, file);
    if (status == WEFT_OK && rename(temporary, path) != 0)
        status = weft_fail(WEFT_E_FILE, "cannot be put in its place: %s", strerror(errno));
    if (status != WEFT_OK) {
        unlink(temporary);
        return status;
    }
    return directory_sync(path);
}

/* The header describes exactly the model's tensors, in its order. */
static weft_status header_fits(const weft_model *model, const void *header, uint64_t header_bytes)
{
    weft_layout *layout;
    uint64_t data_bytes, wanted[2], given[2];
    weft_status status = weft_model_header_read(header, header_bytes, &layout, &data_bytes);
    if (status != WEFT_OK)
        return status;
    weft_layout_hash(model->layout, wanted);
    weft_layout_hash(layout, given);
    if (wanted[0] != given[0] || wanted[1] != given[1])
        status = weft_fail(WEFT_E_LAYOUT,
                           "the header (%llu tensors) does not describe the model's %llu tensors in their order",
                           (ull)layout->count, (ull)model->layout->count);
    weft_layout_free(layout);
    return status;
}

weft_status weft_model_save(const weft_model *model, const void *header, uint64_t header_bytes, const char *path)
{
    char *temporary = malloc(strlen(path) + 16);
    weft_status status = WEFT_OK;
    if (!temporary)
        return weft_fail(WEFT_E_MEMORY, "no memory for a file name");
    strcpy(temporary, path);
    status = header_fits(model, header, header_bytes);
    if (status == WEFT_OK)
        status = save_as(model, header, header_bytes, path, temporary);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    free(temporary);
    return status;
}

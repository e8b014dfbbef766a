/* memory_file.h - an update file in memory: a sink that grows and a source that reads it. */
#ifndef WEFT_TESTS_MEMORY_FILE_H
#define WEFT_TESTS_MEMORY_FILE_H

#include <stdlib.h>
#include <string.h>

#include "weft.h"

typedef struct memory_file {
    uint8_t *data;
    uint64_t bytes, capacity;
    uint64_t room; /* the sink fails beyond it; 0: never */
} memory_file;

static inline weft_status memory_write(void *user, const void *data, uint64_t bytes)
{
    memory_file *file = user;
    if (file->room && file->bytes + bytes > file->room)
        return WEFT_E_FILE;
    if (file->bytes + bytes > file->capacity) {
        file->capacity = 2 * (file->bytes + bytes);
        file->data = realloc(file->data, file->capacity);
    }
    memcpy(file->data + file->bytes, data, bytes);
    file->bytes += bytes;
    return WEFT_OK;
}

static inline weft_status memory_read(void *user, uint64_t offset, void *data, uint64_t bytes)
{
    const memory_file *file = user;
    if (offset > file->bytes || bytes > file->bytes - offset)
        return WEFT_E_FILE;
    memcpy(data, file->data + offset, bytes);
    return WEFT_OK;
}

static inline weft_sink memory_sink(memory_file *file)
{
    return (weft_sink){file, memory_write};
}

static inline weft_source memory_source(memory_file *file)
{
    return (weft_source){file, memory_read, file->bytes};
}

static inline void memory_free(memory_file *file)
{
    free(file->data);
    memset(file, 0, sizeof *file);
}

#endif

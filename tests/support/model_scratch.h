/* model_scratch.h - a folder of its own for a test's model files, written byte by byte. */
#ifndef WEFT_TESTS_MODEL_SCRATCH_H
#define WEFT_TESTS_MODEL_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/safetensors.h"
#include "tests/support/folder.h"

static char folder[512];
static char path[600];  /* the file under test */
static char other[600]; /* what is saved */

static inline int folder_make(void **state)
{
    (void)state;
    folder_open(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(other, sizeof other, "%s/saved.safetensors", folder);
    return 0;
}

static inline int folder_remove(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(folder); /* fails if a temporary file is left */
}

static inline void bytes_write(const char *name, const void *bytes, size_t length)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Writes a file: the length, the JSON, `data` bytes of data that count up from 0. */
static inline void file_write(const char *json, uint64_t length, uint64_t data)
{
    static uint8_t bytes[1 << 20];
    uint64_t json_bytes = strlen(json);
    assert_true(8 + json_bytes + data <= sizeof bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> (8 * i));
    memcpy(bytes + 8, json, json_bytes);
    for (uint64_t i = 0; i < data; i++)
        bytes[8 + json_bytes + i] = (uint8_t)i;
    bytes_write(path, bytes, 8 + json_bytes + data);
}

/* The same with the JSON padded to 8 bytes as writers do. */
static inline void file_write_padded(const char *json, uint64_t data)
{
    char padded[8192];
    size_t length = (strlen(json) + 7) / 8 * 8;
    assert_true(length < sizeof padded);
    memset(padded, ' ', length);
    memcpy(padded, json, strlen(json));
    padded[length] = 0;
    file_write(padded, length, data);
}

static inline weft_model *model_of(int writable)
{
    weft_model *model = NULL;
    if (weft_model_open(path, writable, &model) != WEFT_OK)
        fail_msg("refused: %s", weft_last_error());
    return model;
}

/* A tensor of a JSON header. */
#define T(name, dtype, shape, begin, end)                                                                              \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

#endif

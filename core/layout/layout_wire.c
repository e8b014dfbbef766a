/* layout_wire.c - the serialised layout: what the hash is over and the LAYOUT message carries.
 *
 * u32 magic, u32 epoch, u64 tensors, then per tensor u32 dtype, u32 rank, u32 name bytes, u64 sizes[rank], name; all
 * little-endian, no padding (docs/WIRE_FORMAT.md, "Layout"). */
#include "layout/layout.h"

#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"

#define LAYOUT_MAGIC UINT32_C(0x594c4657) /* "WFLY" */
#define HEAD_BYTES   16u
#define TENSOR_BYTES 12u /* before sizes and name */

uint64_t weft_layout_wire_bytes(const weft_layout *layout)
{
    uint64_t bytes = HEAD_BYTES;
    for (uint64_t t = 0; t < layout->count; t++) {
        const weft_tensor *tensor = &layout->entries[t].tensor;
        bytes += TENSOR_BYTES + 8 * (uint64_t)tensor->rank + strlen(tensor->name);
    }
    return bytes;
}

static void tensor_write(const weft_tensor *tensor, weft_out *out)
{
    uint64_t length = strlen(tensor->name);
    weft_out_word(out, (uint32_t)tensor->dtype, 4);
    weft_out_word(out, tensor->rank, 4);
    weft_out_word(out, length, 4);
    for (uint32_t i = 0; i < tensor->rank; i++)
        weft_out_word(out, tensor->shape[i], 8);
    weft_out_block(out, tensor->name, length);
}

void weft_layout_write(const weft_layout *layout, uint8_t *out)
{
    weft_out cursor = {.data = out, .capacity = UINT64_MAX};
    weft_out_word(&cursor, LAYOUT_MAGIC, 4);
    weft_out_word(&cursor, layout->epoch, 4);
    weft_out_word(&cursor, layout->count, 8);
    for (uint64_t t = 0; t < layout->count; t++)
        tensor_write(&layout->entries[t].tensor, &cursor);
}

/* A layout that is being read. Sizes and names are copied, so that tensors can point at them. */
typedef struct layout_reader {
    const uint8_t *bytes;
    uint64_t length;
    uint64_t at;
    uint64_t *shapes; /* place of the next sizes, with room for all that the message can hold */
    char *names;      /* place of the next name: room for all name bytes it can hold, each with a terminator */
} layout_reader;

static weft_status reader_head(layout_reader *reader, uint64_t *count)
{
    if (reader->length < HEAD_BYTES || weft_bytes_get(reader->bytes, 4) != LAYOUT_MAGIC)
        return weft_fail(WEFT_E_CORRUPT, "%llu bytes that are no serialised layout",
                         (unsigned long long)reader->length);
    if (weft_bytes_get(reader->bytes + 4, 4) != 1)
        return weft_fail(WEFT_E_PROTOCOL, "layout epoch %llu; this version knows only epoch 1",
                         (unsigned long long)weft_bytes_get(reader->bytes + 4, 4));
    *count = weft_bytes_get(reader->bytes + 8, 8);
    reader->at = HEAD_BYTES;
    if (*count > (reader->length - HEAD_BYTES) / (TENSOR_BYTES + 1))
        return weft_fail(WEFT_E_CORRUPT, "a serialised layout of %llu bytes cannot hold %llu tensors",
                         (unsigned long long)reader->length, (unsigned long long)*count);
    return WEFT_OK;
}

/* One tensor; its sizes and name are known to lie within the message before either is read. */
static weft_status reader_tensor(layout_reader *reader, uint64_t number, weft_tensor *tensor)
{
    uint64_t left = reader->length - reader->at;
    const uint8_t *in = reader->bytes + reader->at;
    if (left < TENSOR_BYTES)
        return weft_fail(WEFT_E_CORRUPT, "a serialised layout ends in tensor %llu", (unsigned long long)number);
    uint64_t rank = weft_bytes_get(in + 4, 4), name_bytes = weft_bytes_get(in + 8, 4);
    uint64_t need = TENSOR_BYTES + 8 * rank + name_bytes;
    if (rank > WEFT_MAX_RANK || name_bytes == 0 || name_bytes > WEFT_MAX_NAME || need > left)
        return weft_fail(WEFT_E_CORRUPT,
                         "serialised tensor %llu says rank %llu and %llu name bytes, with %llu bytes left",
                         (unsigned long long)number, (unsigned long long)rank, (unsigned long long)name_bytes,
                         (unsigned long long)left);
    const uint8_t *name = in + TENSOR_BYTES + 8 * rank;
    if (memchr(name, 0, name_bytes))
        return weft_fail(WEFT_E_CORRUPT, "the name of serialised tensor %llu holds a zero byte",
                         (unsigned long long)number);
    *tensor = (weft_tensor){reader->names, (weft_dtype)weft_bytes_get(in, 4), (uint32_t)rank, reader->shapes};
    for (uint64_t i = 0; i < rank; i++)
        *reader->shapes++ = weft_bytes_get(in + TENSOR_BYTES + 8 * i, 8);
    memcpy(reader->names, name, name_bytes);
    reader->names += name_bytes + 1;
    reader->at += need;
    return WEFT_OK;
}

static weft_status reader_run(layout_reader *reader, weft_layout_told *told)
{
    for (uint64_t t = 0; t < told->count; t++) {
        weft_status status = reader_tensor(reader, t, &told->tensors[t]);
        if (status != WEFT_OK)
            return status;
    }
    if (reader->at != reader->length)
        return weft_fail(WEFT_E_CORRUPT, "%llu bytes after a serialised layout",
                         (unsigned long long)(reader->length - reader->at));
    return WEFT_OK;
}

weft_status weft_layout_told_open(const uint8_t *bytes, uint64_t length, weft_layout_told *told)
{
    layout_reader reader = {.bytes = bytes, .length = length};
    *told = (weft_layout_told){.count = 0};
    weft_status status = reader_head(&reader, &told->count);
    if (status != WEFT_OK)
        return status;
    told->shapes = reader.shapes = weft_mem_take(length / 8 + 1, sizeof *told->shapes);
    told->names = reader.names = weft_mem_take(1, length + told->count);
    told->tensors = weft_mem_take(told->count + 1, sizeof *told->tensors);
    if (told->shapes && told->names && told->tensors)
        status = reader_run(&reader, told);
    else
        status =
            weft_fail(WEFT_E_MEMORY, "no memory to read a serialised layout of %llu bytes", (unsigned long long)length);
    if (status != WEFT_OK)
        weft_layout_told_close(told);
    return status;
}

void weft_layout_told_close(weft_layout_told *told)
{
    weft_mem_give(told->tensors);
    weft_mem_give(told->names);
    weft_mem_give(told->shapes);
    *told = (weft_layout_told){.count = 0};
}

weft_status weft_layout_parse(const uint8_t *bytes, uint64_t length, weft_layout **layout)
{
    weft_layout_told told;
    weft_status status = weft_layout_told_open(bytes, length, &told);
    if (status != WEFT_OK)
        return status;
    status = weft_layout_create(told.tensors, told.count, layout);
    weft_layout_told_close(&told);
    return status;
}

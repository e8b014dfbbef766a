/* safetensors_header.c - the JSON header: read with distrust, made as the format's own writer makes it. */
#include "model.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "layout.h"
#include "mem.h"
#include "status.h"

#define METADATA "__metadata__"

typedef unsigned long long ull;

/* A tensor as the header has it. */
typedef struct draft {
    weft_tensor tensor; /* its name lives in the JSON */
    uint64_t shape[WEFT_MAX_RANK];
    uint64_t begin;
    uint64_t end;
    uint64_t number; /* in the header */
} draft;

/* A JSON integer of at least 0. */
static bool whole_number(const json_t *value, uint64_t *number)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = (uint64_t)json_integer_value(value);
    return true;
}

static weft_status draft_dtype(draft *made, const json_t *value)
{
    const char *text = json_string_value(value);
    const weft_dtype_row *row = text ? weft_dtype_by_name(text, json_string_length(value)) : NULL;
    if (!row)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: %s%s", made->tensor.name,
                         text ? "unknown dtype " : "dtype is missing or no string", text ? text : "");
    made->tensor.dtype = row->dtype;
    return WEFT_OK;
}

static weft_status draft_shape(draft *made, const json_t *value)
{
    size_t rank = json_array_size(value);
    if (!json_is_array(value))
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: shape is missing or no array", made->tensor.name);
    if (rank > WEFT_MAX_RANK)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: shape has %zu sizes; at most %d are supported", made->tensor.name,
                         rank, WEFT_MAX_RANK);
    for (size_t i = 0; i < rank; i++) {
        if (!whole_number(json_array_get(value, i), &made->shape[i]))
            return weft_fail(WEFT_E_LAYOUT, "tensor %s: size %zu of its shape is no whole number", made->tensor.name,
                             i);
    }
    made->tensor.rank = (uint32_t)rank;
    return WEFT_OK;
}

static weft_status draft_offsets(draft *made, const json_t *value)
{
    if (json_array_size(value) != 2 || !whole_number(json_array_get(value, 0), &made->begin) ||
        !whole_number(json_array_get(value, 1), &made->end))
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: data_offsets are missing or not two whole numbers",
                         made->tensor.name);
    if (made->end < made->begin)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: its data ends at %llu before it begins at %llu", made->tensor.name,
                         (ull)made->end, (ull)made->begin);
    return WEFT_OK;
}

static weft_status draft_read(draft *made, const char *name, const json_t *value, uint64_t number)
{
    *made = (draft){.tensor = {.name = name}, .number = number};
    if (!json_is_object(value))
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: not described by an object", name);
    weft_status status = draft_dtype(made, json_object_get(value, "dtype"));
    if (status == WEFT_OK)
        status = draft_shape(made, json_object_get(value, "shape"));
    return status == WEFT_OK ? draft_offsets(made, json_object_get(value, "data_offsets")) : status;
}

static weft_status metadata_check(json_t *value)
{
    const char *key;
    json_t *entry;
    if (!json_is_object(value))
        return weft_fail(WEFT_E_LAYOUT, METADATA " is no object");
    json_object_foreach(value, key, entry)
    {
        if (!json_is_string(entry))
            return weft_fail(WEFT_E_LAYOUT, METADATA ": the value of %s is no string", key);
    }
    return WEFT_OK;
}

/* An empty tensor goes before the one that begins where it stands. */
static int draft_order(const void *left, const void *right)
{
    const draft *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static weft_status drafts_read(json_t *root, draft *drafts, uint64_t *count)
{
    const char *name;
    json_t *value;
    uint64_t used = 0;
    json_object_foreach(root, name, value)
    {
        bool metadata = strcmp(name, METADATA) == 0;
        weft_status status = metadata ? metadata_check(value) : draft_read(&drafts[used], name, value, used);
        if (status != WEFT_OK)
            return status;
        used += !metadata;
    }
    qsort(drafts, used, sizeof *drafts, draft_order);
    *count = used;
    return WEFT_OK;
}

/* The data of one tensor against its shape, the tensor before it and the alignment that weights are bound with. */
static weft_status draft_check(const weft_layout *layout, const draft *drafts, uint64_t t, uint64_t data_at)
{
    const draft *at = &drafts[t];
    const weft_layout_entry *entry = &layout->entries[t];
    const char *name = at->tensor.name;
    uint64_t before = t > 0 ? drafts[t - 1].end : 0;
    if (at->end - at->begin != entry->bytes)
        return weft_fail(WEFT_E_LAYOUT,
                         "tensor %s: data_offsets %llu to %llu hold %llu bytes, dtype and shape need %llu", name,
                         (ull)at->begin, (ull)at->end, (ull)(at->end - at->begin), (ull)entry->bytes);
    if (at->begin < before)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: its data begins at %llu and overlaps %s, which ends at %llu", name,
                         (ull)at->begin, drafts[t - 1].tensor.name, (ull)before);
    if (at->begin > before)
        return weft_fail(WEFT_E_LAYOUT,
                         "tensor %s: a gap before it: bytes %llu to %llu of the data belong to no tensor", name,
                         (ull)before, (ull)at->begin - 1);
    if (at->begin % entry->row->width != 0)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: its data begins at %llu, misaligned for %s (%u bytes)", name,
                         (ull)at->begin, entry->row->name, entry->row->width);
    if (entry->bytes > 0 && data_at % entry->row->width != 0)
        return weft_fail(
            WEFT_E_LAYOUT,
            "tensor %s: the data section begins at byte %llu of the file, misaligned for %s (%u bytes); pad "
            "the header with spaces to a multiple of 8",
            name, (ull)data_at, entry->row->name, entry->row->width);
    return WEFT_OK;
}

static weft_status drafts_check(const weft_layout *layout, const draft *drafts, uint64_t count, uint64_t data_at)
{
    for (uint64_t t = 0; t < count; t++) {
        weft_status status = draft_check(layout, drafts, t, data_at);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

static weft_status drafts_settle(draft *drafts, uint64_t count, weft_tensor *tensors, uint64_t data_at,
                                 weft_layout **layout)
{
    weft_layout *made;
    for (uint64_t t = 0; t < count; t++) {
        tensors[t] = drafts[t].tensor;
        tensors[t].shape = drafts[t].shape;
    }
    weft_status status = weft_layout_create(tensors, count, &made);
    if (status != WEFT_OK)
        return status;
    status = drafts_check(made, drafts, count, data_at);
    if (status == WEFT_OK)
        *layout = made;
    else
        weft_layout_free(made);
    return status;
}

static weft_status root_read(json_t *root, uint64_t data_at, weft_layout **layout, uint64_t *data_bytes)
{
    uint64_t size = json_object_size(root), count = 0;
    draft *drafts = weft_mem_take(size + 1, sizeof *drafts);
    weft_tensor *tensors = weft_mem_take(size + 1, sizeof *tensors);
    weft_status status;
    if (drafts && tensors)
        status = drafts_read(root, drafts, &count);
    else
        status = weft_fail(WEFT_E_MEMORY, "no memory for the header of %llu tensors", (ull)size);
    if (status == WEFT_OK)
        status = drafts_settle(drafts, count, tensors, data_at, layout);
    if (status == WEFT_OK)
        *data_bytes = count > 0 ? drafts[count - 1].end : 0;
    weft_mem_give(tensors);
    weft_mem_give(drafts);
    return status;
}

weft_status weft_model_header_read(const uint8_t *header, uint64_t bytes, weft_layout **layout, uint64_t *data_bytes)
{
    uint64_t length = bytes >= WEFT_MODEL_PREFIX ? weft_bytes_get(header, WEFT_MODEL_PREFIX) : 0;
    json_error_t error;
    if (bytes < WEFT_MODEL_PREFIX + 2 || length != bytes - WEFT_MODEL_PREFIX || length > WEFT_MODEL_HEADER_MAX)
        return weft_fail(WEFT_E_LAYOUT, "a safetensors header of %llu bytes that says its JSON has %llu", (ull)bytes,
                         (ull)length);
    if (header[WEFT_MODEL_PREFIX] != '{')
        return weft_fail(WEFT_E_LAYOUT, "the JSON header does not begin with '{': this is no safetensors file");
    json_t *root = json_loadb((const char *)header + WEFT_MODEL_PREFIX, length, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return weft_fail(WEFT_E_LAYOUT, "the JSON header is wrong at byte %d: %s", error.position, error.text);
    weft_status status = root_read(root, bytes, layout, data_bytes);
    json_decref(root);
    return status;
}

static json_t *shape_make(const weft_tensor *tensor)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < tensor->rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    return shape;
}

/* The header as JSON text; NULL if a name is no UTF-8 or memory is short. The caller frees it. */
static char *text_make(const weft_layout *layout)
{
    json_t *root = json_object();
    uint64_t begin = 0;
    for (uint64_t t = 0; root && t < layout->count; t++) {
        const weft_layout_entry *entry = &layout->entries[t];
        json_t *tensor =
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", entry->row->name, "shape", shape_make(&entry->tensor),
                      "data_offsets", (json_int_t)begin, (json_int_t)(begin + entry->bytes));
        begin += entry->bytes;
        if (!tensor || json_object_set_new(root, entry->tensor.name, tensor) != 0) {
            json_decref(root);
            return NULL;
        }
    }
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

weft_status weft_model_header_make(const weft_layout *layout, uint8_t **header, uint64_t *bytes)
{
    char *text = text_make(layout);
    if (!text)
        return weft_fail(WEFT_E_LAYOUT, "the layout's names cannot be written as JSON: they must be UTF-8");
    uint64_t length = strlen(text), padded = (length + 7) / 8 * 8;
    uint8_t *made = weft_mem_take(1, WEFT_MODEL_PREFIX + padded);
    if (made) {
        weft_bytes_put(made, padded, WEFT_MODEL_PREFIX);
        memset(made + WEFT_MODEL_PREFIX, ' ', padded);
        memcpy(made + WEFT_MODEL_PREFIX, text, length);
        *header = made;
        *bytes = WEFT_MODEL_PREFIX + padded;
    }
    free(text);
    return made ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for a header of %llu bytes", (ull)padded);
}

/* safetensors_header.c - the JSON header: read with distrust, made as the format's own writer makes it. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "safetensors_json.h"

typedef unsigned long long ull;

/* A tensor as the header has it. */
typedef struct draft {
    json_t *name, *value; /* owned */
    weft_tensor tensor;   /* its name lives in the JSON */
    uint64_t shape[WEFT_MAX_RANK];
    uint64_t begin;
    uint64_t end;
    uint64_t number; /* in the header */
} draft;

typedef struct drafts {
    draft *items;
    uint64_t count, capacity;
    bool metadata; /* was there */
} drafts;

/* A JSON integer of at least 0. */
static bool whole_number(const json_t *value, uint64_t *number)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = (uint64_t)json_integer_value(value);
    return true;
}

/* "F32"; {"F32":null} is the same to the format's own reader. NULL: neither. */
static const char *dtype_text(json_t *value)
{
    void *only = json_object_size(value) == 1 ? json_object_iter(value) : NULL;
    if (only && json_is_null(json_object_iter_value(only)))
        return json_object_iter_key(only);
    return json_string_length(value) == strlen(json_string_value(value) ? json_string_value(value) : "")
               ? json_string_value(value)
               : NULL;
}

static weft_status draft_dtype(draft *made, json_t *value)
{
    const char *text = dtype_text(value);
    const weft_dtype_row *row = text ? weft_dtype_by_name(text, strlen(text)) : NULL;
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
    return WEFT_OK;
}

/* A description by a list of the three is the same to the format's own reader. */
static json_t *described(const json_t *value, const char *key, size_t place)
{
    return json_is_array(value) ? json_array_get(value, place) : json_object_get(value, key);
}

static weft_status draft_read(draft *made)
{
    json_t *value = made->value;
    const char *name = made->tensor.name = json_string_value(made->name);
    if (!json_is_object(value) && json_array_size(value) != 3)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: not described by an object", name);
    weft_status status = draft_dtype(made, described(value, "dtype", 0));
    if (status == WEFT_OK)
        status = draft_shape(made, described(value, "shape", 1));
    return status == WEFT_OK ? draft_offsets(made, described(value, "data_offsets", 2)) : status;
}

static weft_status metadata_check(drafts *drafts, json_t *value)
{
    const char *key;
    json_t *entry;
    if (drafts->metadata)
        return weft_fail(WEFT_E_LAYOUT, WEFT_MODEL_METADATA " is there twice");
    drafts->metadata = true;
    if (!json_is_object(value) && !json_is_null(value))
        return weft_fail(WEFT_E_LAYOUT, WEFT_MODEL_METADATA " is no object");
    json_object_foreach(value, key, entry)
    {
        if (!json_is_string(entry))
            return weft_fail(WEFT_E_LAYOUT, WEFT_MODEL_METADATA ": the value of %s is no string", key);
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

static draft *draft_add(drafts *drafts)
{
    if (drafts->count == drafts->capacity) {
        uint64_t capacity = drafts->capacity ? 2 * drafts->capacity : 64;
        draft *grown = weft_mem_grow(drafts->items, drafts->capacity, capacity, sizeof *grown);
        if (!grown)
            return NULL;
        drafts->items = grown;
        drafts->capacity = capacity;
    }
    draft *added = &drafts->items[drafts->count];
    *added = (draft){.number = drafts->count++};
    return added;
}

static void draft_drop(draft *draft)
{
    json_decref(draft->name);
    json_decref(draft->value);
}

static weft_status member_read(weft_json_members *in, drafts *drafts)
{
    draft *added = draft_add(drafts);
    if (!added)
        return weft_fail(WEFT_E_MEMORY, "no memory for the header of %llu tensors", (ull)drafts->count);
    weft_status status = weft_json_members_next(in, &added->name, &added->value);
    if (status != WEFT_OK || strcmp(json_string_value(added->name), WEFT_MODEL_METADATA) != 0)
        return status == WEFT_OK ? draft_read(added) : status;
    status = metadata_check(drafts, added->value);
    draft_drop(added);
    drafts->count--;
    return status;
}

static int draft_named(const void *left, const void *right)
{
    const draft *a = left, *b = right;
    int names = strcmp(a->tensor.name, b->tensor.name);
    return names ? names : a->number < b->number ? -1 : 1;
}

/* The last of several keys of one name counts. */
static void drafts_unite(drafts *drafts)
{
    uint64_t kept = 0;
    qsort(drafts->items, drafts->count, sizeof *drafts->items, draft_named);
    for (uint64_t i = 0; i < drafts->count; i++) {
        if (kept > 0 && strcmp(drafts->items[kept - 1].tensor.name, drafts->items[i].tensor.name) == 0)
            draft_drop(&drafts->items[--kept]);
        drafts->items[kept++] = drafts->items[i];
    }
    drafts->count = kept;
}

static weft_status drafts_read(const char *text, uint64_t length, drafts *drafts)
{
    weft_json_members in;
    weft_status status = weft_json_members_begin(text, length, &in);
    while (status == WEFT_OK && in.more)
        status = member_read(&in, drafts);
    if (status == WEFT_OK)
        status = weft_json_members_end(&in);
    if (status != WEFT_OK || drafts->count == 0)
        return status;
    drafts_unite(drafts);
    qsort(drafts->items, drafts->count, sizeof *drafts->items, draft_order);
    return WEFT_OK;
}

static void drafts_drop(drafts *drafts)
{
    for (uint64_t i = 0; i < drafts->count; i++)
        draft_drop(&drafts->items[i]);
    weft_mem_give(drafts->items);
}

/* The data of one tensor against its shape and the tensor before it. */
static weft_status draft_check(const weft_layout *layout, const draft *drafts, uint64_t t)
{
    const draft *at = &drafts[t];
    const weft_layout_entry *entry = &layout->entries[t];
    const char *name = at->tensor.name;
    uint64_t before = t > 0 ? drafts[t - 1].end : 0;
    if (at->end < at->begin)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: its data ends at %llu before it begins at %llu", name, (ull)at->end,
                         (ull)at->begin);
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
    return WEFT_OK;
}

static weft_status drafts_settle(drafts *drafts, weft_tensor *tensors, weft_layout **layout)
{
    weft_layout *made;
    for (uint64_t t = 0; t < drafts->count; t++) {
        tensors[t] = drafts->items[t].tensor;
        tensors[t].shape = drafts->items[t].shape;
    }
    weft_status status = weft_layout_create(tensors, drafts->count, &made);
    for (uint64_t t = 0; t < drafts->count && status == WEFT_OK; t++) {
        status = draft_check(made, drafts->items, t);
        if (status != WEFT_OK)
            weft_layout_free(made);
    }
    if (status == WEFT_OK)
        *layout = made;
    return status;
}

weft_status weft_model_header_read(const uint8_t *header, uint64_t bytes, weft_layout **layout, uint64_t *data_bytes)
{
    uint64_t length = bytes >= WEFT_MODEL_PREFIX ? weft_bytes_get(header, WEFT_MODEL_PREFIX) : 0;
    drafts drafts = {0};
    if (bytes < WEFT_MODEL_PREFIX + 2 || length != bytes - WEFT_MODEL_PREFIX || length > WEFT_MODEL_HEADER_MAX)
        return weft_fail(WEFT_E_LAYOUT, "a safetensors header of %llu bytes that says its JSON has %llu", (ull)bytes,
                         (ull)length);
    weft_status status = drafts_read((const char *)header + WEFT_MODEL_PREFIX, length, &drafts);
    weft_tensor *tensors = weft_mem_take(drafts.count + 1, sizeof *tensors);
    if (status == WEFT_OK && !tensors)
        status = weft_fail(WEFT_E_MEMORY, "no memory for the header of %llu tensors", (ull)drafts.count);
    if (status == WEFT_OK)
        status = drafts_settle(&drafts, tensors, layout);
    if (status == WEFT_OK)
        *data_bytes = drafts.count > 0 ? drafts.items[drafts.count - 1].end : 0;
    weft_mem_give(tensors);
    drafts_drop(&drafts);
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

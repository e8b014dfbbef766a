/* layout.c - making, holding and asking a layout. */
#include "layout/layout.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/grid.h"

static weft_status tensor_check(const weft_tensor *tensor, uint64_t number)
{
    if (!tensor->name || tensor->name[0] == 0)
        return weft_fail(WEFT_E_LAYOUT, "tensor %llu has no name", (unsigned long long)number);
    if (strnlen(tensor->name, WEFT_MAX_NAME + 1) > WEFT_MAX_NAME)
        return weft_fail(WEFT_E_LAYOUT, "the name of tensor %llu is longer than %d bytes", (unsigned long long)number,
                         WEFT_MAX_NAME);
    if (!weft_dtype_find(tensor->dtype))
        return weft_fail(WEFT_E_LAYOUT, "tensor %s has the unknown dtype %d", tensor->name, (int)tensor->dtype);
    if (tensor->rank > WEFT_MAX_RANK)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s has rank %u; at most %d are supported", tensor->name, tensor->rank,
                         WEFT_MAX_RANK);
    if (tensor->rank > 0 && !tensor->shape)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s has rank %u but no shape", tensor->name, tensor->rank);
    return WEFT_OK;
}

/* Elements of a shape; false if they do not fit 64 bits. A size of 0 anywhere makes the tensor empty. */
static bool shape_elements(const weft_tensor *tensor, uint64_t *elements)
{
    uint64_t product = 1;
    bool fits = true;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0) {
            *elements = 0;
            return true;
        }
        fits = fits && !__builtin_mul_overflow(product, tensor->shape[i], &product);
    }
    *elements = product;
    return fits;
}

/* Fills the sizes of one entry and adds them to the layout's. */
static weft_status entry_measure(weft_layout *layout, weft_layout_entry *entry)
{
    const char *name = entry->tensor.name;
    uint64_t bits;
    entry->row = weft_dtype_find(entry->tensor.dtype);
    if (!shape_elements(&entry->tensor, &entry->elements) ||
        __builtin_mul_overflow(entry->elements, (uint64_t)entry->row->bits, &bits))
        return weft_fail(WEFT_E_LAYOUT, "the shape of tensor %s overflows 64 bits", name);
    if (bits % 8 != 0)
        return weft_fail(WEFT_E_LAYOUT, "tensor %s: %llu elements of %s do not fill whole bytes", name,
                         (unsigned long long)entry->elements, entry->row->name);
    entry->bytes = bits / 8;
    entry->coded = entry->bytes / entry->row->width;
    if (__builtin_add_overflow(layout->bytes, entry->bytes, &layout->bytes))
        return weft_fail(WEFT_E_LAYOUT, "the layout's bytes overflow 64 bits at tensor %s", name);
    layout->elements += entry->coded;
    return WEFT_OK;
}

/* Places tensors in the contiguous image by falling width, so that each is aligned without padding. */
static void layout_place(weft_layout *layout)
{
    uint64_t offset = 0;
    for (uint8_t width = 8; width > 0; width /= 2) {
        for (uint64_t t = 0; t < layout->count; t++) {
            if (layout->entries[t].row->width != width)
                continue;
            layout->entries[t].offset = offset;
            offset += layout->entries[t].bytes;
        }
    }
}

/* Takes the entries and copies the tensors: one block holds entries, then shapes, then names. */
static weft_status layout_copy(weft_layout *layout, const weft_tensor *tensors, const uint32_t *keys)
{
    uint64_t bytes = layout->count * sizeof(weft_layout_entry);
    for (uint64_t t = 0; t < layout->count; t++)
        bytes += tensors[t].rank * sizeof(uint64_t) + strlen(tensors[t].name) + 1;
    layout->entries = weft_mem_take(1, bytes > 0 ? bytes : 1);
    if (!layout->entries)
        return weft_fail(WEFT_E_MEMORY, "no memory for a layout of %llu tensors", (unsigned long long)layout->count);
    uint64_t *shape = (uint64_t *)(void *)(layout->entries + layout->count);
    for (uint64_t t = 0; t < layout->count; t++) {
        layout->entries[t].tensor = tensors[t];
        layout->entries[t].tensor.shape = shape;
        layout->entries[t].key = keys ? keys[t] : 0;
        for (uint32_t i = 0; i < tensors[t].rank; i++)
            *shape++ = tensors[t].shape[i];
    }
    char *name = (char *)shape;
    for (uint64_t t = 0; t < layout->count; t++) {
        layout->entries[t].tensor.name = name;
        name = stpcpy(name, tensors[t].name) + 1;
    }
    return WEFT_OK;
}

static int name_order(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* By sorting, so that no choice of names makes it slow. */
static weft_status names_unique(const weft_layout *layout)
{
    const char **names = weft_mem_take(layout->count + 1, sizeof *names);
    weft_status status = WEFT_OK;
    if (!names)
        return weft_fail(WEFT_E_MEMORY, "no memory to compare the names of %llu tensors",
                         (unsigned long long)layout->count);
    for (uint64_t t = 0; t < layout->count; t++)
        names[t] = layout->entries[t].tensor.name;
    qsort(names, layout->count, sizeof *names, name_order);
    for (uint64_t t = 1; t < layout->count && status == WEFT_OK; t++) {
        if (strcmp(names[t - 1], names[t]) == 0)
            status = weft_fail(WEFT_E_LAYOUT, "two tensors are named %s", names[t]);
    }
    weft_mem_give(names);
    return status;
}

static void number_parts(weft_layout *layout)
{
    for (uint64_t t = 0; t < layout->count; t++) {
        uint64_t tile = weft_tile_elements(layout->entries[t].row->width),
                 tiles = (layout->entries[t].coded + tile - 1) / tile;
        layout->entries[t].part = layout->part_count;
        layout->part_count += tiles ? tiles : 1;
    }
}

static weft_status layout_lay_grid(weft_layout *layout)
{
    uint64_t largest;
    layout->unit_count = weft_grid_count(layout->entries, layout->count, &largest);
    if (layout->unit_count > WEFT_MAX_UNITS)
        return weft_fail(WEFT_E_LAYOUT, "the layout has %llu units; at most %llu are supported",
                         (unsigned long long)layout->unit_count, (unsigned long long)WEFT_MAX_UNITS);
    layout->largest_frame =
        WEFT_FRAME_HEADER_BYTES + ((uint32_t)largest + WEFT_FRAME_ALIGN - 1) / WEFT_FRAME_ALIGN * WEFT_FRAME_ALIGN;
    layout->units = weft_mem_take(layout->unit_count + 1, sizeof *layout->units);
    if (!layout->units)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu units", (unsigned long long)layout->unit_count);
    weft_grid_fill(layout->entries, layout->count, layout->units);
    number_parts(layout);
    return WEFT_OK;
}

/* Takes the keys into the hash where there are any, because the grid depends on them. */
static XXH128_hash_t hash_keyed(const weft_layout *layout, XXH128_hash_t hash)
{
    uint8_t words[20];
    for (uint64_t t = 0; t < layout->count; t++) {
        if (layout->entries[t].key == 0)
            continue;
        weft_bytes_put(words, hash.low64, 8);
        weft_bytes_put(words + 8, hash.high64, 8);
        weft_bytes_put(words + 16, layout->entries[t].key, 4);
        hash = XXH3_128bits_withSeed(words, sizeof words, t);
    }
    return hash;
}

static weft_status layout_take_hash(weft_layout *layout)
{
    uint64_t length = weft_layout_wire_bytes(layout);
    uint8_t *bytes = weft_mem_take(1, length);
    if (!bytes)
        return weft_fail(WEFT_E_MEMORY, "no memory for the %llu bytes of a serialised layout",
                         (unsigned long long)length);
    weft_layout_write(layout, bytes);
    XXH128_hash_t hash = hash_keyed(layout, XXH3_128bits(bytes, length));
    layout->hash[0] = hash.low64;
    layout->hash[1] = hash.high64;
    weft_mem_give(bytes);
    return WEFT_OK;
}

static weft_status layout_build(weft_layout *layout, const weft_tensor *tensors, const uint32_t *keys)
{
    weft_status status = WEFT_OK;
    for (uint64_t t = 0; t < layout->count && status == WEFT_OK; t++)
        status = tensor_check(&tensors[t], t);
    if (status == WEFT_OK)
        status = layout_copy(layout, tensors, keys);
    for (uint64_t t = 0; t < layout->count && status == WEFT_OK; t++)
        status = entry_measure(layout, &layout->entries[t]);
    if (status == WEFT_OK)
        status = names_unique(layout);
    if (status != WEFT_OK)
        return status;
    layout_place(layout);
    status = layout_lay_grid(layout);
    return status == WEFT_OK ? layout_take_hash(layout) : status;
}

weft_status weft_layout_create_keyed(const weft_tensor *tensors, const uint32_t *keys, uint64_t count,
                                     weft_layout **layout)
{
    if (!layout || (!tensors && count > 0))
        return weft_fail(WEFT_E_ARGUMENT, "weft_layout_create needs %s", layout ? "tensors" : "a place for the layout");
    if (count > UINT32_MAX)
        return weft_fail(WEFT_E_LAYOUT, "a layout of %llu tensors; at most %u are supported", (unsigned long long)count,
                         UINT32_MAX);
    weft_layout *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for a layout");
    made->references = 1;
    made->count = count;
    made->epoch = 1;
    weft_status status = layout_build(made, tensors, keys);
    if (status == WEFT_OK)
        *layout = made;
    else
        weft_layout_free(made);
    return status;
}

weft_status weft_layout_create(const weft_tensor *tensors, uint64_t count, weft_layout **layout)
{
    return weft_layout_create_keyed(tensors, NULL, count, layout);
}

weft_layout *weft_layout_hold(weft_layout *layout)
{
    __atomic_fetch_add(&layout->references, 1, __ATOMIC_RELAXED);
    return layout;
}

void weft_layout_free(weft_layout *layout)
{
    if (!layout || __atomic_sub_fetch(&layout->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    weft_mem_give(layout->units);
    weft_mem_give(layout->entries);
    weft_mem_give(layout);
}

void weft_layout_hash(const weft_layout *layout, uint64_t hash[2])
{
    hash[0] = layout->hash[0];
    hash[1] = layout->hash[1];
}

uint64_t weft_layout_count(const weft_layout *layout)
{
    return layout->count;
}

uint64_t weft_layout_bytes(const weft_layout *layout)
{
    return layout->bytes;
}

weft_status weft_layout_tensor(const weft_layout *layout, uint64_t index, weft_tensor *tensor)
{
    if (index >= layout->count)
        return weft_fail(WEFT_E_ARGUMENT, "tensor %llu of a layout of %llu", (unsigned long long)index,
                         (unsigned long long)layout->count);
    *tensor = layout->entries[index].tensor;
    return WEFT_OK;
}

uint64_t weft_layout_tensor_bytes(const weft_layout *layout, uint64_t index)
{
    return index < layout->count ? layout->entries[index].bytes : 0;
}

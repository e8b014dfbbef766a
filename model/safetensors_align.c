/* safetensors_align.c - tensors that a file has at addresses which their elements may not have: copied where they may.
 */
#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "model.h"

typedef unsigned long long ull;

static bool is_odd(const weft_model *model, uint64_t t)
{
    const weft_layout_entry *entry = &model->layout->entries[t];
    return entry->bytes > 0 && (uintptr_t)model->pieces[t].data % entry->row->width != 0;
}

/* Rounded up, so that each is aligned in one block of all. */
static uint64_t moved_bytes(const weft_layout_entry *entry)
{
    return (entry->bytes + 7) / 8 * 8;
}

static weft_status moved_take(weft_model *model)
{
    for (uint64_t t = 0; t < model->layout->count; t++)
        model->moved_bytes += is_odd(model, t) ? moved_bytes(&model->layout->entries[t]) : 0;
    if (model->moved_bytes == 0)
        return WEFT_OK;
    model->moved = weft_mem_map(model->moved_bytes);
    return model->moved ? WEFT_OK
                        : weft_fail(WEFT_E_MEMORY,
                                    "no memory for %llu bytes of tensors that lie misaligned in their file; pad its "
                                    "header with spaces to a multiple of 8",
                                    (ull)model->moved_bytes);
}

/* Weights are bound aligned to their elements: what the file has at another address is copied. */
weft_status weft_model_align(weft_model *model, const weft_shards *shards)
{
    uint64_t t = 0, used = 0;
    weft_status status = moved_take(model);
    for (uint64_t i = 0; i < shards->count && model->moved; i++) {
        const weft_mapped *mapped = &model->files[i];
        const uint8_t *begin = model->memory + mapped->offset;
        for (uint64_t end = t + shards->items[i].tensors; t < end && status == WEFT_OK; t++) {
            weft_piece *piece = &model->pieces[t];
            if (!is_odd(model, t))
                continue;
            status = weft_mapped_read(mapped, model->moved + used, model->layout->entries[t].bytes,
                                      (uint64_t)((uint8_t *)piece->data - begin), "tensors");
            piece->data = model->moved + used;
            used += moved_bytes(&model->layout->entries[t]);
        }
    }
    return status;
}

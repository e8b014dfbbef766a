#include "shard/naming.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

weft_status weft_naming_copy(const weft_naming *by, const weft_division *division, weft_naming *made)
{
    const uint64_t size = by->blocks ? sizeof *by->blocks : sizeof *by->pieces;
    const void *from = by->blocks ? (const void *)by->blocks : by->pieces;
    void *copy = by->count < UINT64_MAX / size ? weft_mem_take(by->count + 1, size) : NULL;
    *made = (weft_naming){by->call, by->blocks ? NULL : copy, by->blocks ? copy : NULL, by->count};
    if (!copy)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (unsigned long long)by->count);
    if (by->count && from)
        memcpy(copy, from, by->count * size);
    for (uint64_t i = 0; division && i < by->count; i++) {
        uint64_t *tensor = by->blocks ? &((weft_block *)copy)[i].slice.tensor : &((weft_piece *)copy)[i].tensor;
        *tensor = weft_division_number(division, *tensor);
    }
    return WEFT_OK;
}

void weft_naming_give(weft_naming *made)
{
    weft_mem_give((void *)(uintptr_t)made->pieces); /* its own copies */
    weft_mem_give((void *)(uintptr_t)made->blocks);
    *made = (weft_naming){0};
}

/* Binds what is named by the numbers of the division's model. */
static weft_status name_here(const weft_division *division, const weft_naming *by, bool beyond, weft_binding *fresh)
{
    if (weft_division_is_cut(division))
        return weft_division_bind(division, by->pieces, by->blocks, by->count, beyond, fresh);
    return by->blocks ? weft_binding_open_blocks(division->layout, by->blocks, by->count, fresh)
                      : weft_binding_open(division->layout, by->pieces, by->count, fresh);
}

weft_status weft_naming_bind(const weft_division *division, const weft_naming *by, bool beyond, weft_binding *fresh)
{
    weft_naming here;
    if (!division->order)
        return name_here(division, by, beyond, fresh);
    weft_status status = weft_naming_copy(by, division, &here);
    if (status == WEFT_OK)
        status = name_here(division, &here, beyond, fresh);
    weft_naming_give(&here);
    return status;
}

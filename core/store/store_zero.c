#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "store/store.h"

weft_status weft_store_zero_open(const weft_layout *layout, weft_store_zero *zero)
{
    *zero = (weft_store_zero){.bytes = layout->bytes + 8};
    zero->data = weft_mem_map(zero->bytes);
    zero->pieces = weft_mem_take(layout->count, sizeof *zero->pieces);
    if (!zero->data || !zero->pieces) {
        weft_store_zero_close(zero);
        return weft_fail(WEFT_E_MEMORY, "no room for %llu bytes of zeros", (unsigned long long)layout->bytes);
    }
    for (uint64_t t = 0; t < layout->count; t++) {
        const weft_layout_entry *entry = &layout->entries[t];
        zero->pieces[t] = (weft_piece){t, 0, entry->elements, (uint8_t *)zero->data + entry->offset};
    }
    return WEFT_OK;
}

void weft_store_zero_close(weft_store_zero *zero)
{
    if (zero->data)
        weft_mem_unmap(zero->data, zero->bytes);
    weft_mem_give(zero->pieces);
    *zero = (weft_store_zero){0};
}

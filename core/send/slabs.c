#include "send/slabs.h"

weft_mem_list weft_buffers_memory(weft_buffers *buffers)
{
    weft_slabs *slabs = &buffers->slabs;
    return (weft_mem_list){{WEFT_MEM_PAGES(buffers->headers, buffers->headers_bytes),
                            WEFT_MEM_PAGES(buffers->parcels, buffers->parcel_count),
                            WEFT_MEM_PAGES(slabs->memory, slabs->slab_bytes * slabs->count),
                            WEFT_MEM_TAKEN(slabs->free, slabs->count)}};
}

weft_status weft_buffers_open(weft_buffers *buffers)
{
    return weft_mem_list_take(weft_buffers_memory(buffers), "to send from: %u times %llu, and headers of buckets",
                              buffers->slabs.count, (unsigned long long)buffers->slabs.slab_bytes);
}

void weft_buffers_close(weft_buffers *buffers)
{
    weft_mem_list_give(weft_buffers_memory(buffers));
}

#include "send/slabs.h"

#include "base/mem.h"
#include "base/status.h"

weft_status weft_buffers_open(weft_buffers *buffers, uint32_t receivers)
{
    weft_slabs *slabs = &buffers->slabs;
    buffers->headers_bytes = (uint64_t)receivers * buffers->slots_most * WEFT_HEADER_STRIDE;
    buffers->headers = weft_mem_map(buffers->headers_bytes);
    slabs->memory = weft_mem_map(slabs->slab_bytes * slabs->count);
    return buffers->headers && slabs->memory
               ? WEFT_OK
               : weft_fail(
                     WEFT_E_MEMORY, "no memory to send from: %u times %llu bytes, and %llu bytes of bucket headers",
                     slabs->count, (unsigned long long)slabs->slab_bytes, (unsigned long long)buffers->headers_bytes);
}

void weft_buffers_close(weft_buffers *buffers)
{
    if (buffers->headers)
        weft_mem_unmap(buffers->headers, buffers->headers_bytes);
    if (buffers->slabs.memory)
        weft_mem_unmap(buffers->slabs.memory, buffers->slabs.slab_bytes * buffers->slabs.count);
}

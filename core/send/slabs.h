/* slabs.h - registered memory that receivers are sent from, beside the journal. */
#ifndef WEFT_CORE_SLABS_H
#define WEFT_CORE_SLABS_H

#include "codec/planes.h"
#include "send/rail.h"

#define WEFT_SLABS_MAX 16u /* slabs of the pool, at most */
#define WEFT_HEADER_STRIDE                                                                                             \
    256u /* bytes from a bucket's header to the next: whole cache lines, shared by no two slots */

/* Slabs: equal pieces of registered memory, for frames that are made on the fly (snapshots) and for attachments. The
 * trainer owns the pool, and a bucket owns its slab until the bucket's receipt. */
typedef struct weft_slabs {
    uint8_t *memory;
    uint64_t slab_bytes;
    uint32_t count;
    uint32_t free_count;
    uint32_t *free;     /* numbers of the free slabs, as a stack */
    uint64_t turn;      /* slabs taken so far */
    weft_packer packer; /* packs the frames that go into slabs */
} weft_slabs;

/* Buffers: the memory that all senders send from besides the journal. The session owns them; each sender has a part of
 * `headers` and of `parcels` for its own slots. */
struct weft_buffers {
    weft_slabs slabs;
    uint8_t *headers;     /* headers of buckets: one for each receiver and slot */
    weft_parcel *parcels; /* as many; NULL: no receiver has several rails */
    uint64_t headers_bytes, parcel_count;
    uint32_t slots_most; /* slots that a receiver may use, at most */
};

static inline uint8_t *weft_slab_at(const weft_slabs *slabs, int32_t slab)
{
    return slabs->memory + (uint64_t)slab * slabs->slab_bytes;
}

/* Lists the memory of the slabs, of headers and of parcels, whose numbers and bytes are set. */
weft_mem_list weft_buffers_memory(weft_buffers *buffers);
weft_status weft_buffers_open(weft_buffers *buffers);
void weft_buffers_close(weft_buffers *buffers);

#endif

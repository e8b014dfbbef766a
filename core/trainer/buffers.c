/* buffers.c - takes the registered memory that peers are sent from beside the journal, and says how much that is. */
#include "base/mem.h"
#include "base/status.h"
#include "trainer/publish.h"

#define SLABS_LEAST 4u /* slabs of one peer: to copy, send and acknowledge at once */

/* The pool is a hundredth of what the trainer needs anyway, within reason. */
uint32_t weft_trainer_slabs(const weft_layout *layout, uint64_t journal_bytes)
{
    const uint64_t count = (layout->bytes + journal_bytes) / 100 / weft_size_slab(layout);
    return count < SLABS_LEAST ? SLABS_LEAST : count < WEFT_SLABS_MAX ? (uint32_t)count : WEFT_SLABS_MAX;
}

static weft_buffers sized(const weft_site *site, const weft_layout *layout, uint64_t journal_bytes)
{
    const uint32_t slabs = weft_trainer_slabs(layout, journal_bytes);
    const uint64_t headers = weft_trainer_headers(site);
    return (weft_buffers){.slabs = {.slab_bytes = weft_size_slab(layout), .count = slabs, .free_count = slabs},
                          .slots_most = weft_trainer_slots(site),
                          .headers_bytes = headers,
                          .parcel_count = weft_parcels_wanted(site) ? headers / WEFT_HEADER_STRIDE : 0};
}

uint64_t weft_trainer_buffers_need(const weft_site *site, const weft_layout *layout, uint64_t journal_bytes)
{
    weft_buffers buffers = sized(site, layout, journal_bytes);
    return weft_mem_list_bytes(weft_buffers_memory(&buffers)) +
           weft_mem_list_bytes(weft_packer_memory(&buffers.slabs.packer));
}

weft_status weft_trainer_buffers_open(weft_buffers *buffers, const weft_session *session)
{
    weft_slabs *slabs = &buffers->slabs;
    *buffers = sized(session->site, session->layout, session->site->trainer.journal);
    weft_status status = weft_buffers_open(buffers);
    for (uint32_t i = 0; status == WEFT_OK && i < slabs->count; i++)
        slabs->free[i] = i;
    return status == WEFT_OK ? weft_packer_open(&slabs->packer) : status;
}

void weft_trainer_buffers_close(weft_buffers *buffers)
{
    weft_packer_close(&buffers->slabs.packer);
    weft_buffers_close(buffers);
}

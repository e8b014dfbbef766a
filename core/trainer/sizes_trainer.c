#include "trainer/sizes_trainer.h"

#include "peer/peer.h"
#include "trainer/publish.h"
#include "trainer/recorder.h"

#define SLABS_LEAST 4u /* slabs of one peer: to copy, send and acknowledge at once */

_Static_assert(WEFT_BRIDGE_SHARE == WEFT_SIZES_MERGES, "sizes count on the share that merges have");

/* The pool is a hundredth of what the trainer needs anyway, within reason. */
uint32_t weft_trainer_slabs(const weft_layout *layout, uint64_t journal_bytes)
{
    const uint64_t count = (layout->bytes + journal_bytes) / 100 / weft_size_slab(layout);
    return count < SLABS_LEAST ? SLABS_LEAST : count < WEFT_SLABS_MAX ? (uint32_t)count : WEFT_SLABS_MAX;
}

/* Returns the bytes of the runs of the weights and of the shadow, and two more of the latter, for versions that are
 * rebuilt. */
static uint64_t binding_bytes(const weft_layout *layout)
{
    const uint64_t runs = layout->unit_count + layout->count;
    return 4 * runs * sizeof(weft_run) + 2 * layout->unit_count * sizeof(uint64_t);
}

static uint64_t peer_bytes(const weft_site *site, const weft_layout *layout)
{
    const uint64_t peers = site->trainer.max_peers + WEFT_GUESTS, slots = peers * weft_trainer_slots(site);
    return peers * (sizeof(weft_peer) + WEFT_CONTROL_IN_BYTES + WEFT_CONTROL_OUT_BYTES) + slots * WEFT_HEADER_STRIDE +
           weft_parcel_need(site, slots) + weft_layout_wire_bytes(layout);
}

/* Returns the bytes of what works on the weights, for every worker. If that is a device, the host's backend works
 * beside it, for what is the host's and for the shadow. */
static uint64_t workers_bytes(const weft_site *site, const weft_layout *layout, const weft_backend *backend)
{
    const weft_backend *host = weft_backend_find("host");
    const uint32_t workers = weft_team_workers(site->trainer.threads);
    const uint64_t states = backend->depth == 1 ? workers * backend->host_bytes : backend->host_bytes;
    return weft_encoder_need(layout, workers, backend->depth) + states + (backend == host ? 0 : 2 * host->host_bytes) +
           weft_staging_largest(layout);
}

static void add_device(const weft_site *site, const weft_layout *layout, const weft_backend *backend,
                       weft_trainer_sizes *sizes)
{
    const bool far = site->trainer.shadow == WEFT_SHADOW_DEVICE;
    sizes->batches = weft_size_batches(backend, site->trainer.device_memory);
    sizes->lists = far ? weft_shadow_lists(layout, backend) : 0;
    sizes->device = sizes->batches + sizes->lists + (far ? sizes->shadow : 0);
}

weft_trainer_sizes weft_trainer_sizes_of(const weft_site *site, const weft_layout *layout, const weft_backend *backend,
                                         const weft_mem_host *memory)
{
    const bool far = site->trainer.shadow == WEFT_SHADOW_DEVICE;
    const weft_room_for room = weft_sizes_host(memory, far ? 0 : layout->bytes);
    weft_trainer_sizes sizes = {.shadow = weft_binding_spaced_bytes(layout),
                                .journal = weft_size_journal(layout, site->trainer.journal, &room),
                                .merging = weft_bridge_need(layout) + weft_backend_find("host")->host_bytes,
                                .encoding = workers_bytes(site, layout, backend),
                                .peers = peer_bytes(site, layout)};
    const uint64_t journal = sizes.journal.bytes;
    if (site->trainer.store[0])
        sizes.merging += weft_recorder_need(layout) + weft_backend_find("host")->host_bytes;
    sizes.digests = weft_history_need(layout->part_count, journal) + 3 * layout->part_count * sizeof(uint64_t) +
                    binding_bytes(layout);
    sizes.slabs = weft_trainer_slabs(layout, journal) * weft_size_slab(layout) + weft_packer_need();
    sizes.bytes = sizes.shadow + journal + sizes.digests + sizes.merging + sizes.encoding + sizes.slabs + sizes.peers;
    add_device(site, layout, backend, &sizes);
    return sizes;
}

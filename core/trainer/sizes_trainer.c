#include "trainer/sizes_trainer.h"

#include "trainer/publish.h"
#include "trainer/recorder.h"

_Static_assert(WEFT_BRIDGE_SHARE == WEFT_SIZES_MERGES, "sizes count on the share that merges have");

/* Returns the bytes of digests, and of where the weights and the shadow lie. */
static uint64_t digests_bytes(const weft_layout *layout, uint64_t journal)
{
    return weft_history_need(layout->part_count, journal) +
           weft_mem_list_bytes(weft_publish_digests(&(weft_publisher){0}, layout)) + 2 * weft_binding_need(layout);
}

/* Returns the bytes of what makes merged updates, and of what writes into a store. The host's backend works for each.
 */
static uint64_t merging_bytes(const weft_site *site, const weft_layout *layout)
{
    const uint64_t each = weft_backend_find("host")->host_bytes;
    return weft_bridge_need(layout) + each + (site->trainer.store[0] ? weft_recorder_need(layout) + each : 0);
}

/* Returns the bytes of what works on the weights, for every worker. If that is a device, the host's backend works
 * beside it, for what is the host's and for the shadow. */
static uint64_t workers_bytes(const weft_site *site, const weft_layout *layout, const weft_backend *backend)
{
    const weft_backend *host = weft_backend_find("host");
    const uint32_t workers = weft_team_workers(site->trainer.threads);
    const uint64_t states = backend->depth == 1 ? workers * backend->host_bytes : backend->host_bytes;
    return weft_encoder_need(layout, workers, backend->depth) +
           weft_frame_copies_need(backend->depth > 1 ? workers : 0) + states +
           (backend == host ? 0 : 2 * host->host_bytes) + weft_staging_largest(layout);
}

static uint64_t peers_bytes(const weft_site *site, const weft_layout *layout)
{
    const uint64_t peers = site->trainer.max_peers + WEFT_GUESTS;
    return peers * (sizeof(weft_peer) + weft_mem_list_bytes(weft_control_memory(&(weft_control){.fd = -1}))) +
           weft_layout_wire_bytes(layout);
}

weft_sizes weft_trainer_sizes(const weft_site *site, const weft_layout *layout, const weft_backend *backend,
                              const weft_mem_host *memory)
{
    const bool far = site->trainer.shadow == WEFT_SHADOW_DEVICE;
    const uint64_t shadow = weft_binding_spaced_bytes(layout);
    const weft_room_for room = weft_sizes_host(memory, far ? 0 : layout->bytes);
    weft_sizes sizes = {.chosen = weft_size_journal(layout, site->trainer.journal, &room),
                        .batches = weft_size_batches(backend, site->trainer.device_memory),
                        .lists = far ? weft_shadow_lists(layout, backend) : 0};
    const uint64_t journal = sizes.chosen.bytes;
    sizes.device = sizes.batches + sizes.lists + (far ? shadow : 0);
    weft_sizes_add(&sizes, "shadow", shadow);
    weft_sizes_add(&sizes, "journal", journal);
    weft_sizes_add(&sizes, "digests", digests_bytes(layout, journal));
    weft_sizes_add(&sizes, "merging", merging_bytes(site, layout));
    weft_sizes_add(&sizes, "encoding", workers_bytes(site, layout, backend));
    weft_sizes_add(&sizes, "slabs", weft_trainer_buffers_need(site, layout, journal));
    weft_sizes_add(&sizes, "peers", peers_bytes(site, layout));
    return sizes;
}

#include "rollout/sizes_rollout.h"

#include <stdio.h>

#include "rollout/rollout.h"

/* Returns the bytes of digests, of records of change lists, and of where the weights and an image lie. */
static uint64_t digests_bytes(const weft_site_peer *peer, const weft_layout *layout, bool image)
{
    const uint64_t parts = (layout->part_count + 1) * sizeof(uint64_t), lists = layout->unit_count + 1;
    return weft_mem_list_bytes(weft_rollout_digests(&(weft_rollout){0}, layout)) +
           weft_mem_list_bytes(weft_search_memory(&(weft_searching){0}, layout)) +
           3 * parts + /* for frames decoded again, a proof, and a scrub */
           lists * sizeof(weft_changes) + (image ? 2 : 1) * weft_binding_need(layout) +
           (peer->relay[0] ? weft_layout_wire_bytes(layout) : 0);
}

static weft_sizes sizes_with(const weft_site *site, const weft_site_peer *peer, const weft_layout *layout,
                             const weft_backend *backend, const weft_size *staging)
{
    const bool image = site->commit.snapshot == WEFT_SNAPSHOT_STAGED;
    weft_sizes sizes = {.chosen = *staging,
                        .batches = weft_size_batches(backend, peer->device_memory),
                        .bucket = weft_size_bucket(layout, peer)};
    sizes.device = sizes.batches > 0 ? sizes.batches + staging->bytes : 0;
    weft_sizes_add(&sizes, "slots", weft_slots_need(peer->window, sizes.bucket) + sizes.bucket + weft_unpacker_need());
    weft_sizes_add(&sizes, "decoding", backend->host_bytes);
    weft_sizes_add(&sizes, "staging", staging->bytes);
    weft_sizes_add(&sizes, "encoded", weft_stage_encoded_bytes(layout, peer->encoded, staging->bytes));
    weft_sizes_add(&sizes, "digests", digests_bytes(peer, layout, image));
    weft_sizes_add(&sizes, "image", image ? weft_binding_spaced_bytes(layout) : 0);
    weft_sizes_add(&sizes, "relay", peer->relay[0] ? peer->relay_memory : 0);
    return sizes;
}

weft_sizes weft_rollout_sizes(const weft_site *site, const weft_site_peer *peer, const weft_layout *layout,
                              const weft_backend *backend, const weft_mem_host *memory)
{
    const bool image = site->commit.snapshot == WEFT_SNAPSHOT_STAGED;
    const uint64_t taken = (image ? weft_binding_spaced_bytes(layout) : 0) + (peer->relay[0] ? peer->relay_memory : 0);
    const weft_room_for room = weft_sizes_lists(backend, peer->device, peer->device_memory, memory, taken);
    const weft_size staging = weft_size_staging(layout, peer->staging, &room);
    return sizes_with(site, peer, layout, backend, &staging);
}

void weft_rollout_sizes_lower(weft_sizes *sizes, const weft_rollout *rollout)
{
    const uint64_t staging = rollout->site.staging;
    const double percent = 100 * (double)staging / (double)weft_size_staged(rollout->layout, 100);
    weft_size lower = {.bytes = staging, .automatic = true, .percent = percent < 100 ? percent : 100};
    snprintf(lower.why, sizeof lower.why, "more could not be had");
    *sizes = sizes_with(rollout->session->site, &rollout->site, rollout->layout, rollout->session->backend, &lower);
}

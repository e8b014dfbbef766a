#include "rollout/sizes_rollout.h"

#include <stdio.h>

#include "rollout/rollout.h"

/* Six digests a part, an entry a frame of an update, and the runs of the weights and of an image. */
static uint64_t digest_bytes(const weft_layout *layout, bool image)
{
    const uint64_t runs = layout->unit_count + layout->count;
    return 6 * layout->part_count * sizeof(uint64_t) + (layout->unit_count + 1) * sizeof(weft_changes) +
           (image ? 2 : 1) * (runs * sizeof(weft_run) + layout->unit_count * sizeof(uint64_t)) + layout->count / 4 +
           layout->unit_count / 8;
}

static void add_up(weft_rollout_sizes *sizes)
{
    sizes->bytes = sizes->slots + sizes->decoding + sizes->staging.bytes + sizes->encoded + sizes->digests +
                   sizes->image + sizes->relay;
    sizes->device = sizes->batches > 0 ? sizes->batches + sizes->staging.bytes : 0;
}

weft_rollout_sizes weft_rollout_sizes_of(const weft_site *site, const weft_site_peer *peer, const weft_layout *layout,
                                         const weft_backend *backend, const weft_mem_host *memory)
{
    const bool staged = site->commit.snapshot == WEFT_SNAPSHOT_STAGED;
    weft_rollout_sizes sizes = {.bucket = weft_size_bucket(layout, peer),
                                .image = staged ? weft_binding_spaced_bytes(layout) : 0};
    const uint64_t taken = sizes.image + (peer->relay[0] ? peer->relay_memory : 0);
    const weft_room_for room = weft_sizes_lists(backend, peer->device, peer->device_memory, memory, taken);
    sizes.staging = weft_size_staging(layout, peer->staging, &room);
    sizes.given_encoded = peer->encoded;
    sizes.encoded = weft_stage_encoded_bytes(layout, peer->encoded, sizes.staging.bytes);
    sizes.slots = weft_slots_stride(sizes.bucket) * peer->window + sizes.bucket + weft_unpacker_need();
    sizes.decoding = backend->host_bytes;
    sizes.digests = digest_bytes(layout, staged) + (peer->relay[0] ? weft_layout_wire_bytes(layout) : 0);
    sizes.batches = weft_size_batches(backend, peer->device_memory);
    sizes.relay = peer->relay[0] ? peer->relay_memory : 0;
    add_up(&sizes);
    return sizes;
}

void weft_rollout_sizes_lower(weft_rollout_sizes *sizes, const weft_layout *layout, uint64_t staging)
{
    const double percent = 100 * (double)staging / (double)weft_size_staged(layout, 100);
    sizes->staging.bytes = staging;
    sizes->encoded = weft_stage_encoded_bytes(layout, sizes->given_encoded, staging);
    sizes->staging.percent = percent < 100 ? percent : 100;
    snprintf(sizes->staging.why, sizeof sizes->staging.why, "more could not be had");
    add_up(sizes);
}

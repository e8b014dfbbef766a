/* sizes_rollout.h - what a rollout's end takes beside the weights, known before anything is opened. */
#ifndef WEFT_CORE_SIZES_ROLLOUT_H
#define WEFT_CORE_SIZES_ROLLOUT_H

#include "encode/sizes.h"

typedef struct weft_rollout_sizes {
    uint64_t bucket; /* bucket_max, resolved */
    weft_size staging;
    uint64_t given_encoded; /* the site's, or auto */
    uint64_t encoded;       /* frames of an update that exceeds staging */
    uint64_t slots;         /* that buckets land in, one bucket aside, and what unpacks tiles */
    uint64_t decoding;      /* the backend's own */
    uint64_t digests;       /* of the weights, of what is staged, and where the weights lie */
    uint64_t image;         /* of [commit] snapshot = staged */
    uint64_t relay;         /* what it has for those behind it */
    uint64_t bytes;         /* of all */
    uint64_t batches;       /* device memory for batches of jobs */
    uint64_t device;        /* device memory: batches and staging; 0: the backend has none */
} weft_rollout_sizes;

/* Computes the sizes of a peer's row for a layout, with the memory of this host, or of the device if its backend has
 * the change lists. */
weft_rollout_sizes weft_rollout_sizes_of(const weft_site *site, const weft_site_peer *peer, const weft_layout *layout,
                                         const weft_backend *backend, const weft_mem_host *memory);
/* The same with so many bytes of staging, where those could not be had. */
void weft_rollout_sizes_lower(weft_rollout_sizes *sizes, const weft_layout *layout, uint64_t staging);

#endif

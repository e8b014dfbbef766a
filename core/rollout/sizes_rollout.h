/* sizes_rollout.h - what a rollout's end takes beside the weights, known before anything is opened. */
#ifndef WEFT_CORE_SIZES_ROLLOUT_H
#define WEFT_CORE_SIZES_ROLLOUT_H

#include "encode/sizes.h"

/* Adds up the row of a peer, with the memory of this host, or of the device if its backend has the change lists. */
weft_sizes weft_rollout_sizes(const weft_site *site, const weft_site_peer *peer, const weft_layout *layout,
                              const weft_backend *backend, const weft_mem_host *memory);

#endif

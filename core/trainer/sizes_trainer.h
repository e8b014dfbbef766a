/* sizes_trainer.h - what a trainer's end takes of its host beside the weights, known before anything is opened. */
#ifndef WEFT_CORE_SIZES_TRAINER_H
#define WEFT_CORE_SIZES_TRAINER_H

#include "encode/sizes.h"

typedef struct weft_trainer_sizes {
    weft_size journal;
    uint64_t shadow;
    uint64_t digests;  /* of the weights, how each past version moved them, and where the weights lie */
    uint64_t merging;  /* what makes merged updates */
    uint64_t encoding; /* frames on their way into the journal, by thread */
    uint64_t slabs;
    uint64_t peers;
    uint64_t bytes;          /* of all */
    uint64_t batches, lists; /* device memory: for batches of jobs, and change lists of a shadow that lies there */
    uint64_t device;         /* device memory, with such a shadow */
} weft_trainer_sizes;

/* Merging and encoding have room for the worst of updates: pages that no update reaches cost no memory but a place in
 * the address space. */
weft_trainer_sizes weft_trainer_sizes_of(const weft_site *site, const weft_layout *layout, const weft_backend *backend,
                                         const weft_mem_host *memory);

/* Slabs in the pool, with a journal of so many bytes. */
uint32_t weft_trainer_slabs(const weft_layout *layout, uint64_t journal_bytes);

#endif

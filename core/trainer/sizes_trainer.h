/* sizes_trainer.h - what a trainer's end takes of its host beside the weights, known before anything is opened. */
#ifndef WEFT_CORE_SIZES_TRAINER_H
#define WEFT_CORE_SIZES_TRAINER_H

#include "encode/sizes.h"

/* Merging and encoding have room for the worst of updates: pages that no update reaches cost no memory but a place in
 * the address space. */
weft_sizes weft_trainer_sizes(const weft_site *site, const weft_layout *layout, const weft_backend *backend,
                              const weft_mem_host *memory);

#endif

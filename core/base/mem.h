/* mem.h - memory, taken at open, counted, and given back in reverse. Only mem.c calls malloc.
 *
 * Small objects come from weft_mem_take. Slabs (arena, slots, shadow, staging) come from weft_mem_map, because whole
 * pages are fit for registration. The counters feed weft_stats: `allocations` must not change in the steady state. */
#ifndef WEFT_CORE_MEM_H
#define WEFT_CORE_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "weft.h"

/* Takes zeroed memory for `count` objects of `bytes` each. NULL if memory is out or the product overflows. */
void *weft_mem_take(uint64_t count, uint64_t bytes);
/* Grows or shrinks a block of weft_mem_take and zeroes the new part. NULL leaves the old block as it was. */
void *weft_mem_grow(void *memory, uint64_t old_count, uint64_t new_count, uint64_t bytes);
/* Copies a string into memory of weft_mem_take. */
char *weft_mem_text(const char *text);
void weft_mem_give(void *memory);

/* Maps whole zeroed pages, with huge pages advised from 2 MiB on. NULL if they cannot be had. */
void *weft_mem_map(uint64_t bytes);
void weft_mem_unmap(void *memory, uint64_t bytes);
/* Has the kernel back the whole pages of mapped memory now instead of at first use, and keeps their content. A kernel
 * before 5.14 cannot, and nothing changes. Any thread, also while others use the memory. */
void weft_mem_prefault(void *memory, uint64_t bytes);

/* One block of an object's memory. */
typedef struct weft_mem_block {
    void *at; /* of the object's pointer to the block */
    uint64_t count, bytes;
    bool pages; /* by weft_mem_map, else by weft_mem_take */
} weft_mem_block;

#define WEFT_MEM_TAKEN(pointer, count)                                                                                 \
    {                                                                                                                  \
        &(pointer), (count), sizeof *(pointer), false                                                                  \
    }
#define WEFT_MEM_PAGES(pointer, count)                                                                                 \
    {                                                                                                                  \
        &(pointer), (count), sizeof *(pointer), true                                                                   \
    }

/* All blocks that an object takes at open, which a function of the object's file lists once: to be taken, given back,
 * and added up before any is taken. The last block is empty. */
typedef struct weft_mem_list {
    weft_mem_block blocks[8];
} weft_mem_list;

/* Takes all blocks or none. The pointer to a block of no bytes becomes NULL. `format` says whose they are: "for %u
 * slots". Errors: WEFT_E_MEMORY. */
__attribute__((format(printf, 2, 3))) weft_status weft_mem_list_take(weft_mem_list list, const char *format, ...);
/* Gives back what was taken, and sets the pointers to NULL. */
void weft_mem_list_give(weft_mem_list list);
uint64_t weft_mem_list_bytes(weft_mem_list list);

/* Counts the blocks that this process took so far, of both kinds. */
uint64_t weft_mem_allocations(void);
/* Counts the blocks that were not given back yet. */
uint64_t weft_mem_blocks(void);

#endif

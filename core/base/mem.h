/* mem.h - the only file that calls malloc: memory is taken at open, counted, and given back in reverse.
 *
 * Small objects come from weft_mem_take; slabs (arena, slots, shadow, staging) from weft_mem_map, which are whole pages
 * fit for registration. The counters feed weft_stats: the steady state must not move `allocations`. */
#ifndef WEFT_CORE_MEM_H
#define WEFT_CORE_MEM_H

#include <stdint.h>

/* Zeroed memory for count objects of `bytes` each; NULL if it cannot be had or the product overflows. */
void *weft_mem_take(uint64_t count, uint64_t bytes);
/* Grows (or shrinks) what weft_mem_take gave, zeroing what is new; NULL leaves the old block as it was. */
void *weft_mem_grow(void *memory, uint64_t old_count, uint64_t new_count, uint64_t bytes);
/* A copy of a string from weft_mem_take. */
char *weft_mem_text(const char *text);
void weft_mem_give(void *memory);

/* Whole zeroed pages (huge pages advised from 2 MiB on); NULL if they cannot be had. */
void *weft_mem_map(uint64_t bytes);
void weft_mem_unmap(void *memory, uint64_t bytes);
/* Lets the kernel give whole pages of such memory now that would otherwise come with their first use; what they hold
 * stays. A kernel that cannot (before 5.14) leaves them to that. Any thread, whoever uses them meanwhile. */
void weft_mem_prefault(void *memory, uint64_t bytes);

/* Blocks taken by the calling process so far, both kinds. */
uint64_t weft_mem_allocations(void);
/* Of these, not given back yet. */
uint64_t weft_mem_blocks(void);

#endif

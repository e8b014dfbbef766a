/* arena.h - the registered memory that holds encoded frames, in blocks.
 *
 * Frames of one update and level stand back to back in a chain of blocks; a frame never crosses a block. Each block
 * keeps its frames from the front and their index (check, length, unit) from the back, so that taking and giving
 * blocks moves frames and index together and nothing is ever compacted. A block holds at least one frame of any unit.
 */
#ifndef WEFT_CORE_ARENA_H
#define WEFT_CORE_ARENA_H

#include <pthread.h>

#include "port/port_backend.h"

#define WEFT_NO_BLOCK UINT32_MAX

typedef struct weft_index_entry {
    uint64_t check; /* weft_frame_check */
    uint32_t bytes;
    uint32_t unit;
} weft_index_entry;

typedef struct weft_chain_block {
    uint32_t used;   /* bytes of frames */
    uint32_t frames; /* in it, and entries of its index */
    uint32_t next;   /* in its chain, or WEFT_NO_BLOCK */
} weft_chain_block;

typedef struct weft_arena {
    uint8_t *memory;
    uint64_t bytes;
    uint32_t block_bytes;
    uint32_t block_count;
    pthread_mutex_t lock; /* of the free list and `fresh`: publish and merges take blocks at the same time */
    uint32_t fresh;       /* no block from here on was ever taken; they are taken in order */
    uint32_t prefaulted;  /* blocks before this one have their memory; of the thread that prefaults */
    uint32_t free_count;
    uint32_t *free;
    weft_chain_block *blocks;
} weft_arena;

/* A chain of blocks: the frames of one update at one level. */
typedef struct weft_chain {
    uint32_t first, last; /* WEFT_NO_BLOCK: empty */
    uint32_t last_frames; /* in the last block: a copy of the chain says how far it reached when it was made */
    uint64_t frames;
    uint64_t bytes;
    uint64_t staged_bytes; /* what a peer's staging needs for all of it */
} weft_chain;

weft_status weft_arena_open(weft_arena *arena, uint64_t bytes, uint32_t largest_frame);
/* Bytes of a block, for frames of at most so many. */
uint32_t weft_arena_block_bytes(uint64_t largest_frame);
void weft_arena_close(weft_arena *arena);
uint8_t *weft_arena_block(const weft_arena *arena, uint32_t block);
const weft_index_entry *weft_arena_index(const weft_arena *arena, uint32_t block, uint32_t frame);

void weft_chain_begin(weft_chain *chain);
/* Appends a free block; false if there is none. Any thread, each on a chain of its own. */
bool weft_chain_extend(weft_arena *arena, weft_chain *chain);
/* The same, but leaves at least `leave` blocks free. */
bool weft_chain_extend_leaving(weft_arena *arena, weft_chain *chain, uint32_t leave);
/* Where the next frame goes: room behind the last frame, less the index entry it will need. */
weft_frame_sink weft_chain_sink(const weft_arena *arena, const weft_chain *chain);
/* Takes note of a frame of `bytes` just written at the sink. */
void weft_chain_note(weft_arena *arena, weft_chain *chain, uint32_t unit, uint32_t bytes);
/* Blocks that no chain has. */
uint32_t weft_arena_free_blocks(weft_arena *arena);
/* How many of the next `ahead` blocks that were never taken have no memory of the kernel yet. */
uint32_t weft_arena_bare(weft_arena *arena, uint32_t ahead);
/* Lets the kernel give it to the first of those, a few MiB of them. One thread at a time, while others take blocks. */
void weft_arena_prefault(weft_arena *arena, uint32_t ahead);
/* Gives the blocks back; how many. */
uint32_t weft_chain_free(weft_arena *arena, weft_chain *chain);

#endif

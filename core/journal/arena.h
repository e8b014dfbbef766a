/* arena.h - the registered memory of encoded frames, in blocks.
 *
 * Frames of one update and level stand in a row in a chain of blocks; a frame never crosses a block. Each block has its
 * frames at the front and their index (check, length, unit) at the back. So blocks are taken and given with their
 * index, and nothing is ever compacted. A block has room for at least one frame of any unit. That is much for a small
 * update, so a chain may begin in the room that the chain before it left: then both have the block. */
#ifndef WEFT_CORE_ARENA_H
#define WEFT_CORE_ARENA_H

#include <pthread.h>

#include "port/port_backend.h"

#define WEFT_NO_BLOCK UINT32_MAX

typedef struct weft_index_entry {
    uint64_t check; /* check of the frame, as weft_frame_check */
    uint32_t bytes;
    uint32_t unit;
} weft_index_entry;

typedef struct weft_chain_block {
    uint32_t used;   /* bytes of frames */
    uint32_t frames; /* number of frames, and of index entries */
    uint32_t next;   /* next block of the chain, or WEFT_NO_BLOCK */
    uint32_t chains; /* chains that have frames here */
} weft_chain_block;

typedef struct weft_arena {
    uint8_t *memory;
    uint64_t bytes;
    uint32_t block_bytes;
    uint32_t block_count;
    pthread_mutex_t
        lock;            /* guards the free list and `fresh`, because publish and merges take blocks at the same time */
    uint32_t fresh;      /* first block that was never taken; blocks are taken in order */
    uint32_t prefaulted; /* blocks before this one are backed by memory; only the thread that prefaults has it */
    uint32_t free_count;
    uint32_t *free;
    _Atomic uint64_t given_back; /* chains given back so far: while none is, a first frame names its chain */
    weft_chain_block *blocks;
} weft_arena;

/* A chain of blocks: the frames of one update at one level. */
typedef struct weft_chain {
    uint32_t first, last;               /* first and last block; WEFT_NO_BLOCK: empty */
    uint32_t first_frame, first_offset; /* place of the first frame in the first block */
    uint32_t last_frames;               /* frames in the last block, so that a copy of the chain keeps its own end */
    uint64_t frames;
    uint64_t bytes;
    uint64_t staged_bytes; /* bytes that a peer's staging needs for the whole chain */
} weft_chain;

weft_status weft_arena_open(weft_arena *arena, uint64_t bytes, uint32_t largest_frame);
/* Returns the bytes of a block for frames of at most `largest_frame` bytes. */
uint32_t weft_arena_block_bytes(uint64_t largest_frame);
void weft_arena_close(weft_arena *arena);
uint8_t *weft_arena_block(const weft_arena *arena, uint32_t block);
const weft_index_entry *weft_arena_index(const weft_arena *arena, uint32_t block, uint32_t frame);

void weft_chain_begin(weft_chain *chain);
/* Appends a free block; false if there is none. Any thread, each with a chain of its own. */
bool weft_chain_extend(weft_arena *arena, weft_chain *chain);
/* Appends a free block if at least `leave` blocks stay free. */
bool weft_chain_extend_leaving(weft_arena *arena, weft_chain *chain, uint32_t leave);
/* Begins an empty chain behind the last frame of the chain `before`. False, and nothing is done: the block there has no
 * room for a frame of `bytes` bytes, or another chain goes on from it. One thread appends to chains that share blocks.
 */
bool weft_chain_join(weft_arena *arena, weft_chain *chain, const weft_chain *before, uint32_t bytes);
/* Returns the place of the next frame: the room after the last frame, less the index entry that the frame will need. */
weft_frame_sink weft_chain_sink(const weft_arena *arena, const weft_chain *chain);
/* Adds the index entry of the next frame, of `bytes` bytes, which is written to the sink before or after. Returns the
 * entry, in which whoever writes the frame sets the check. */
weft_index_entry *weft_chain_place(weft_arena *arena, weft_chain *chain, uint32_t unit, uint32_t bytes);
/* Adds the index entry of a frame of `bytes` bytes that was just written to the sink. */
void weft_chain_note(weft_arena *arena, weft_chain *chain, uint32_t unit, uint32_t bytes);
/* Counts the blocks that no chain has. */
uint32_t weft_arena_free_blocks(weft_arena *arena);
/* Counts the blocks among the next `ahead` that were never taken and are not backed by memory yet. */
uint32_t weft_arena_bare(weft_arena *arena, uint32_t ahead);
/* Has the kernel back the first of those blocks, a few MiB of them. One thread at a time, while others take blocks. */
void weft_arena_prefault(weft_arena *arena, uint32_t ahead);
/* Gives back the chain's blocks, but for those that other chains have frames in. Returns their number. */
uint32_t weft_chain_free(weft_arena *arena, weft_chain *chain);

#endif

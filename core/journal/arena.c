#include "journal/arena.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

#define BLOCK_BYTES_MIN (64u << 10)
#define PREFAULT_BYTES  (4u << 20) /* at a time */

uint32_t weft_arena_block_bytes(uint64_t largest_frame)
{
    uint64_t bytes = BLOCK_BYTES_MIN;
    while (bytes < largest_frame + sizeof(weft_index_entry))
        bytes *= 2;
    return (uint32_t)bytes;
}

static void reset(weft_chain_block *block)
{
    *block = (weft_chain_block){0, 0, WEFT_NO_BLOCK, 0};
}

static weft_mem_list memory_of(weft_arena *arena)
{
    return (weft_mem_list){{WEFT_MEM_PAGES(arena->memory, arena->bytes),
                            WEFT_MEM_TAKEN(arena->free, arena->block_count),
                            WEFT_MEM_TAKEN(arena->blocks, arena->block_count)}};
}

weft_status weft_arena_open(weft_arena *arena, uint64_t bytes, uint32_t largest_frame)
{
    memset(arena, 0, sizeof *arena);
    pthread_mutex_init(&arena->lock, NULL);
    arena->block_bytes = weft_arena_block_bytes(largest_frame);
    arena->block_count = (uint32_t)(bytes / arena->block_bytes);
    arena->bytes = (uint64_t)arena->block_count * arena->block_bytes;
    if (arena->block_count < 2)
        return weft_fail(WEFT_E_CONFIG, "[trainer] journal = %llu bytes holds less than two blocks of %u: need %llu",
                         (unsigned long long)bytes, arena->block_bytes, 2ull * arena->block_bytes);
    weft_status status = weft_mem_list_take(memory_of(arena), "for a journal; lower [trainer] journal");
    if (status != WEFT_OK)
        weft_arena_close(arena);
    for (uint32_t i = 0; status == WEFT_OK && i < arena->block_count; i++) {
        arena->free[i] = arena->block_count - 1 - i;
        reset(&arena->blocks[i]);
    }
    arena->free_count = arena->block_count;
    return status;
}

void weft_arena_close(weft_arena *arena)
{
    weft_mem_list_give(memory_of(arena));
    pthread_mutex_destroy(&arena->lock);
    memset(arena, 0, sizeof *arena);
}

uint8_t *weft_arena_block(const weft_arena *arena, uint32_t block)
{
    return arena->memory + (uint64_t)block * arena->block_bytes;
}

/* The index grows down from the block's end. */
static weft_index_entry *entry_at(const weft_arena *arena, uint32_t block, uint32_t frame)
{
    return (weft_index_entry *)(void *)(weft_arena_block(arena, block) + arena->block_bytes) - 1 - frame;
}

const weft_index_entry *weft_arena_index(const weft_arena *arena, uint32_t block, uint32_t frame)
{
    return entry_at(arena, block, frame);
}

void weft_chain_begin(weft_chain *chain)
{
    *chain = (weft_chain){.first = WEFT_NO_BLOCK, .last = WEFT_NO_BLOCK};
}

bool weft_chain_extend(weft_arena *arena, weft_chain *chain)
{
    return weft_chain_extend_leaving(arena, chain, 0);
}

bool weft_chain_extend_leaving(weft_arena *arena, weft_chain *chain, uint32_t leave)
{
    pthread_mutex_lock(&arena->lock);
    uint32_t block = arena->free_count > leave ? arena->free[--arena->free_count] : WEFT_NO_BLOCK;
    if (block != WEFT_NO_BLOCK && block >= arena->fresh)
        arena->fresh = block + 1;
    pthread_mutex_unlock(&arena->lock);
    if (block == WEFT_NO_BLOCK)
        return false;
    reset(&arena->blocks[block]);
    arena->blocks[block].chains = 1;
    if (chain->first == WEFT_NO_BLOCK)
        chain->first = block;
    else
        arena->blocks[chain->last].next = block;
    chain->last = block;
    chain->last_frames = 0;
    return true;
}

bool weft_chain_join(weft_arena *arena, weft_chain *chain, const weft_chain *before, uint32_t bytes)
{
    weft_chain_block *shared = before->last == WEFT_NO_BLOCK ? NULL : &arena->blocks[before->last];
    if (!shared || chain->first != WEFT_NO_BLOCK || shared->next != WEFT_NO_BLOCK ||
        weft_chain_sink(arena, before).capacity < bytes)
        return false;
    pthread_mutex_lock(&arena->lock);
    shared->chains++;
    pthread_mutex_unlock(&arena->lock);
    chain->first = chain->last = before->last;
    chain->first_frame = chain->last_frames = shared->frames;
    chain->first_offset = shared->used;
    return true;
}

weft_frame_sink weft_chain_sink(const weft_arena *arena, const weft_chain *chain)
{
    if (chain->last == WEFT_NO_BLOCK)
        return (weft_frame_sink){NULL, 0, 0, false};
    const weft_chain_block *block = &arena->blocks[chain->last];
    uint64_t taken = block->used + (block->frames + 1ull) * sizeof(weft_index_entry);
    uint64_t room = taken < arena->block_bytes ? arena->block_bytes - taken : 0;
    return (weft_frame_sink){weft_arena_block(arena, chain->last) + block->used, room, 0, false};
}

weft_index_entry *weft_chain_place(weft_arena *arena, weft_chain *chain, uint32_t unit, uint32_t bytes)
{
    weft_chain_block *block = &arena->blocks[chain->last];
    weft_index_entry *entry = entry_at(arena, chain->last, block->frames);
    *entry = (weft_index_entry){0, bytes, unit};
    block->used += bytes;
    chain->last_frames = ++block->frames;
    chain->frames++;
    chain->bytes += bytes;
    return entry;
}

void weft_chain_note(weft_arena *arena, weft_chain *chain, uint32_t unit, uint32_t bytes)
{
    const uint8_t *frame = weft_chain_sink(arena, chain).data;
    weft_chain_place(arena, chain, unit, bytes)->check = weft_frame_check(frame, bytes);
}

uint32_t weft_chain_free(weft_arena *arena, weft_chain *chain)
{
    arena->given_back++;
    pthread_mutex_lock(&arena->lock);
    const uint32_t before = arena->free_count;
    for (uint32_t block = chain->first; block != WEFT_NO_BLOCK;) {
        const uint32_t next = block == chain->last ? WEFT_NO_BLOCK : arena->blocks[block].next;
        if (--arena->blocks[block].chains == 0)
            arena->free[arena->free_count++] = block;
        block = next;
    }
    uint32_t given = arena->free_count - before;
    pthread_mutex_unlock(&arena->lock);
    weft_chain_begin(chain);
    return given;
}

uint32_t weft_arena_bare(weft_arena *arena, uint32_t ahead)
{
    pthread_mutex_lock(&arena->lock);
    const uint32_t fresh = arena->fresh;
    pthread_mutex_unlock(&arena->lock);
    if (arena->prefaulted < fresh)
        arena->prefaulted = fresh;
    const uint32_t has = arena->prefaulted - fresh, left = arena->block_count - arena->prefaulted;
    const uint32_t lacks = ahead > has ? ahead - has : 0;
    return lacks < left ? lacks : left;
}

void weft_arena_prefault(weft_arena *arena, uint32_t ahead)
{
    const uint32_t slice = (PREFAULT_BYTES + arena->block_bytes - 1) / arena->block_bytes;
    const uint32_t bare = weft_arena_bare(arena, ahead), some = bare < slice ? bare : slice;
    if (some > 0)
        weft_mem_prefault(weft_arena_block(arena, arena->prefaulted), (uint64_t)some * arena->block_bytes);
    arena->prefaulted += some;
}

uint32_t weft_arena_free_blocks(weft_arena *arena)
{
    pthread_mutex_lock(&arena->lock);
    uint32_t count = arena->free_count;
    pthread_mutex_unlock(&arena->lock);
    return count;
}

/* fake_memory.c - memory of the emulated devices, out of the host's reach but while they work. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fake_gpu/fake_state.h"

#define ARENA_BYTES (UINT64_C(1) << 34)
#define GRAIN       UINT64_C(512) /* no more than real drivers promise */
#define NOISE_BYTES (UINT64_C(1) << 18)

static int opened;

static void protection_set(int protection)
{
    for (int i = 0; i < WEFT_FAKE_DEVICES; i++) {
        if (fake.arena[i])
            mprotect(fake.arena[i], ARENA_BYTES, protection);
    }
}

void fake_memory_open(void)
{
    if (!fake.options.open_memory && opened++ == 0)
        protection_set(PROT_READ | PROT_WRITE);
}

void fake_memory_close(void)
{
    if (!fake.options.open_memory && --opened == 0)
        protection_set(PROT_NONE);
}

void fake_memory_reset(void)
{
    while (fake.blocks) {
        fake_block *block = fake.blocks;
        fake.blocks = block->next;
        if (block->pinned)
            munmap((void *)(uintptr_t)block->address, block->bytes);
        free(block);
    }
    for (int i = 0; i < WEFT_FAKE_DEVICES; i++) {
        if (fake.arena[i])
            munmap(fake.arena[i], ARENA_BYTES);
        void *arena = mmap(NULL, ARENA_BYTES, fake.options.open_memory ? PROT_READ | PROT_WRITE : PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        fake.arena[i] = arena == MAP_FAILED ? NULL : arena;
        fake.taken_bytes[i] = 0;
    }
}

/* Blocks of a device's memory are listed by address: the first gap that is large enough. */
static fake_block **gap_find(int device, uint64_t bytes, uint64_t *address)
{
    fake_block **at = &fake.blocks;
    *address = (uintptr_t)fake.arena[device];
    for (; *at; at = &(*at)->next) {
        const fake_block *block = *at;
        if (block->pinned || block->device != device)
            continue;
        if (block->address - *address >= bytes)
            break;
        *address = (block->address + block->bytes + GRAIN - 1) / GRAIN * GRAIN;
    }
    return at;
}

/* New memory is filled with noise. */
static void noise_put(uint64_t address, uint64_t bytes)
{
    fake_memory_open();
    memset((void *)(uintptr_t)address, 0xa5, bytes < NOISE_BYTES ? bytes : NOISE_BYTES);
    fake_memory_close();
}

int fake_memory_take(int device, uint64_t bytes, bool pinned, uint64_t *address)
{
    fake_block *block = calloc(1, sizeof *block), **at = &fake.blocks;
    if (!block || bytes == 0)
        return free(block), block ? WEFT_GPU_VALUE : WEFT_GPU_NO_MEMORY;
    *block = (fake_block){.bytes = bytes, .device = device, .pinned = pinned};
    if (pinned) {
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        block->address = memory == MAP_FAILED ? 0 : (uintptr_t)memory;
    } else if (bytes <= fake.options.memory_bytes - fake.taken_bytes[device]) {
        at = gap_find(device, bytes, &block->address);
        fake.taken_bytes[device] += bytes;
        noise_put(block->address, bytes);
    }
    if (!block->address)
        return free(block), WEFT_GPU_NO_MEMORY;
    block->next = *at;
    *at = block;
    fake.live++;
    *address = block->address;
    return WEFT_GPU_DONE;
}

int fake_memory_give(uint64_t address, bool pinned)
{
    fake_block **at = &fake.blocks, *block;
    while (*at && ((*at)->address != address || (*at)->pinned != pinned))
        at = &(*at)->next;
    if (!(block = *at))
        return WEFT_GPU_VALUE;
    *at = block->next;
    if (pinned)
        munmap((void *)(uintptr_t)address, block->bytes);
    else
        fake.taken_bytes[block->device] -= block->bytes;
    free(block);
    fake.live--;
    return WEFT_GPU_DONE;
}

const fake_block *fake_block_of(uint64_t address, uint64_t bytes)
{
    for (const fake_block *block = fake.blocks; block; block = block->next) {
        if (address >= block->address && address - block->address < block->bytes &&
            bytes <= block->bytes - (address - block->address))
            return block;
    }
    return NULL;
}

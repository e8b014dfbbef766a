/* mem.c - the only calls of malloc and mmap, counted. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

static _Atomic uint64_t allocations, blocks;

static void *counted(void *memory)
{
    if (memory)
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return memory;
}

static void *held(void *memory)
{
    if (memory)
        atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
    return memory;
}

uint64_t weft_mem_blocks(void)
{
    return atomic_load_explicit(&blocks, memory_order_relaxed);
}

uint64_t weft_mem_allocations(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

/* An empty block is a block of one byte, so that NULL always means failure. */
void *weft_mem_take(uint64_t count, uint64_t bytes)
{
    uint64_t size;
    if (__builtin_mul_overflow(count, bytes, &size))
        return NULL;
    return held(counted(calloc(1, size ? size : 1)));
}

void *weft_mem_grow(void *memory, uint64_t old_count, uint64_t new_count, uint64_t bytes)
{
    uint64_t old_bytes;
    uint64_t new_bytes;
    if (__builtin_mul_overflow(old_count, bytes, &old_bytes) || __builtin_mul_overflow(new_count, bytes, &new_bytes))
        return NULL;
    uint8_t *grown = counted(realloc(memory, new_bytes ? new_bytes : 1));
    if (!memory)
        held(grown);
    if (grown && new_bytes > old_bytes)
        memset(grown + old_bytes, 0, new_bytes - old_bytes);
    return grown;
}

char *weft_mem_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = weft_mem_take(bytes, 1);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

void weft_mem_give(void *memory)
{
    if (memory)
        atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
    free(memory);
}

/* Rounds `bytes` up to whole pages, at least one; 0 if the size overflows. */
static uint64_t page_bytes(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t rounded;
    if (__builtin_add_overflow(bytes ? bytes : 1, page - 1, &rounded))
        return 0;
    return rounded & ~(page - 1);
}

void *weft_mem_map(uint64_t bytes)
{
    uint64_t size = page_bytes(bytes);
    if (size == 0)
        return NULL;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (size >= HUGE_PAGE)
        (void)madvise(memory, size, MADV_HUGEPAGE); /* a kernel without huge pages refuses, which costs only speed */
    return held(counted(memory));
}

void weft_mem_prefault(void *memory, uint64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    (void)madvise(memory, bytes, MADV_POPULATE_WRITE);
#else
    (void)memory;
    (void)bytes;
#endif
}

void weft_mem_unmap(void *memory, uint64_t bytes)
{
    if (!memory)
        return;
    atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
    (void)munmap(memory, page_bytes(bytes));
}

/* ---- lists */

static bool block_take(const weft_mem_block *block)
{
    uint64_t bytes;
    const bool known = !__builtin_mul_overflow(block->count, block->bytes, &bytes);
    void *memory = !known || bytes == 0 ? NULL : block->pages ? weft_mem_map(bytes) : weft_mem_take(1, bytes);
    memcpy(block->at, &memory, sizeof memory);
    return memory || (known && bytes == 0);
}

weft_status weft_mem_list_take(weft_mem_list list, const char *format, ...)
{
    char text[256];
    va_list values;
    bool all = true;
    for (const weft_mem_block *block = list.blocks; block->at; block++)
        all = block_take(block) && all;
    if (all)
        return WEFT_OK;
    weft_mem_list_give(list);
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return weft_fail(WEFT_E_MEMORY, "no memory: %llu bytes %s", (unsigned long long)weft_mem_list_bytes(list), text);
}

void weft_mem_list_give(weft_mem_list list)
{
    for (const weft_mem_block *block = list.blocks; block->at; block++) {
        void *memory, *none = NULL;
        memcpy(&memory, block->at, sizeof memory);
        memcpy(block->at, &none, sizeof none);
        if (block->pages)
            weft_mem_unmap(memory, block->count * block->bytes);
        else
            weft_mem_give(memory);
    }
}

uint64_t weft_mem_list_bytes(weft_mem_list list)
{
    uint64_t bytes = 0;
    for (const weft_mem_block *block = list.blocks; block->at; block++)
        bytes += block->count * block->bytes;
    return bytes;
}

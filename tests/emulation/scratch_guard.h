/* scratch_guard.h - for an executable linked with --wrap=weft_gpu_sheet_take: each scratch of the kernels is a block of
 * its own, full of noise, and not a part of one block. */
#ifndef WEFT_TESTS_SCRATCH_GUARD_H
#define WEFT_TESTS_SCRATCH_GUARD_H

#include <stdlib.h>
#include <string.h>

#include "backends/gpu/gpu_sheet.h"

#define GUARD_BLOCKS 16384u

static void *guard_blocks[GUARD_BLOCKS];
static uint32_t guard_count;

uint64_t __real_weft_gpu_sheet_take(weft_gpu_sheet *sheet, uint64_t bytes, void **row);
uint64_t __wrap_weft_gpu_sheet_take(weft_gpu_sheet *sheet, uint64_t bytes, void **row);

uint64_t __wrap_weft_gpu_sheet_take(weft_gpu_sheet *sheet, uint64_t bytes, void **row)
{
    const uint64_t address = __real_weft_gpu_sheet_take(sheet, bytes, row);
    if (sheet->used > sheet->bytes)
        abort(); /* the job's need was too small */
    if (sheet->host)
        return address;
    void *block = malloc(bytes ? bytes : 1);
    if (!block || guard_count == GUARD_BLOCKS)
        abort();
    memset(block, 0xa5, bytes);
    guard_blocks[guard_count++] = block;
    return (uintptr_t)block;
}

static void scratch_guard_free(void)
{
    while (guard_count > 0)
        free(guard_blocks[--guard_count]);
}

#endif

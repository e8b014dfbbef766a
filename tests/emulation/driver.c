/* driver.c - the driver whose launches are emulated, each in a schedule of its own. */
#include "tests/emulation/driver.h"

#include <string.h>

#include "tests/emulation/emulation.h"
#include "tests/emulation/inline_driver.h"

#define ALIGN 256u

static weft_schedule schedule = {32, 1, 0};
static uint64_t own_address, own_bytes;
static uint32_t launched[WEFT_GPU_KERNELS];

void weft_emulation_driver_set(uint32_t lanes, uint64_t seed)
{
    schedule = (weft_schedule){lanes, seed, 0};
    memset(launched, 0, sizeof launched);
}

uint32_t weft_emulation_driver_launches(enum weft_gpu_kernel kernel)
{
    return launched[kernel];
}

void weft_emulation_driver_own(const void *memory, uint64_t bytes)
{
    own_address = (uintptr_t)memory;
    own_bytes = memory ? bytes : 0;
}

static void *inline_take(uint64_t bytes)
{
    void *memory = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (!memory)
        abort();
    return memory;
}

static void inline_give(void *memory)
{
    free(memory);
}

static bool inline_holds(uint64_t address, uint64_t bytes)
{
    return address >= own_address && address - own_address < own_bytes && bytes <= own_bytes - (address - own_address);
}

static weft_status inline_launch(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument)
{
    launched[kernel]++;
    schedule.seed++;
    const char *wrong = weft_emulation_launch(&schedule, kernel, blocks, argument);
    if (!wrong)
        return WEFT_OK;
    fprintf(stderr, "kernel %d: %s\n", (int)kernel, wrong);
    abort();
}

const weft_gpu_driver weft_emulation_driver = INLINE_DRIVER("emulation");

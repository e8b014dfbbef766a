/* record_driver.c - the driver whose launches are recorded. */
#include "base/status.h"
#include "tests/emulation/inline_driver.h"
#include "tests/isa/record.h"

static void *inline_take(uint64_t bytes)
{
    return weft_record_take(bytes);
}

static void inline_give(void *memory)
{
    weft_record_give(memory);
}

static bool inline_holds(uint64_t address, uint64_t bytes)
{
    return weft_record_holds(address, bytes);
}

static weft_status inline_launch(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument)
{
    const char *wrong = weft_record_launch(kernel, blocks, argument);
    return wrong ? weft_fail(WEFT_E_DEVICE, "%s", wrong) : WEFT_OK;
}

const weft_gpu_driver weft_record_driver = INLINE_DRIVER("record");

/* driver.h - a driver without a device: memory is the process's, every allocation by itself, and work is done when it
 * is asked for, by the emulation. For tests of what stands above drivers; how real ones behave is fake_gpu's to show.
 */
#ifndef WEFT_TESTS_EMULATION_DRIVER_H
#define WEFT_TESTS_EMULATION_DRIVER_H

#include "backends/gpu/gpu_driver.h"

extern const weft_gpu_driver weft_emulation_driver;

/* Sets how the driver's next launches are done. */
void weft_emulation_driver_set(uint32_t lanes, uint64_t seed);

/* Counts the launches of a kernel since the last weft_emulation_driver_set. */
uint32_t weft_emulation_driver_launches(enum weft_gpu_kernel kernel);

/* Memory that counts as the device's; all else is the host's. NULL: none does. */
void weft_emulation_driver_own(const void *memory, uint64_t bytes);

#endif

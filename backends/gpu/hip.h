/* hip.h - AMD's devices. */
#ifndef WEFT_BACKENDS_HIP_H
#define WEFT_BACKENDS_HIP_H

#include "backends/gpu/gpu_driver.h"

extern const weft_gpu_driver weft_gpu_driver_hip;

#endif

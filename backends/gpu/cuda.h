/* cuda.h - NVIDIA's devices. */
#ifndef WEFT_BACKENDS_CUDA_H
#define WEFT_BACKENDS_CUDA_H

#include "backends/gpu/gpu_driver.h"

extern const weft_gpu_driver weft_gpu_driver_cuda;

#endif

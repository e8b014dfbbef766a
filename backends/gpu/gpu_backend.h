/* gpu_backend.h - the device backends: one table per vendor over the same slots. */
#ifndef WEFT_BACKENDS_GPU_BACKEND_H
#define WEFT_BACKENDS_GPU_BACKEND_H

#include "port/port_backend.h"

extern const weft_backend weft_backend_cuda, weft_backend_hip;

#endif

/* weft.cu - every kernel for NVIDIA devices, in one translation unit. */
#include "kernels_cuda/lanes.h"

#include "backends/kernels/all.h"

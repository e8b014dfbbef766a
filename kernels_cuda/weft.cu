/* weft.cu - every kernel for NVIDIA devices, in one translation unit. */
#include "kernels_cuda/lanes.h"

#if __has_include("backends/kernels/all.h")
#include "backends/kernels/all.h"
#endif

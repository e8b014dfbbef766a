/* weft.hip - every kernel for AMD devices, in one translation unit. */
#include "kernels_hip/lanes.h"

#if __has_include("backends/kernels/all.h")
#include "backends/kernels/all.h"
#endif

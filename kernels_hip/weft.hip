/* weft.hip - every kernel for AMD devices, in one translation unit. */
#include "kernels_hip/lanes.h"

#include "backends/kernels/all.h"

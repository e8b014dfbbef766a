/* all.h - every kernel's body; each platform compiles them once, behind its own lanes.h. */
#ifndef WEFT_BACKENDS_KERNELS_ALL_H
#define WEFT_BACKENDS_KERNELS_ALL_H

#include "backends/kernels/list.h"
#include "backends/kernels/rows.h"

#include "backends/kernels/digest.h"

#endif

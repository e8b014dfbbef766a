/* all.h - every kernel's body; each platform compiles them once, after its own lanes.h. */
#ifndef WEFT_BACKENDS_KERNELS_ALL_H
#define WEFT_BACKENDS_KERNELS_ALL_H

#include "backends/kernels/list.h"
#include "backends/kernels/rows.h"

#include "backends/kernels/apply.h"
#include "backends/kernels/boxes.h"
#include "backends/kernels/decode_classes.h"
#include "backends/kernels/decode_dense.h"
#include "backends/kernels/decode_fast.h"
#include "backends/kernels/decode_lists.h"
#include "backends/kernels/decode_magnitudes.h"
#include "backends/kernels/decode_places.h"
#include "backends/kernels/diff.h"
#include "backends/kernels/digest.h"
#include "backends/kernels/encode_fast.h"
#include "backends/kernels/encode_frame.h"
#include "backends/kernels/encode_tight.h"
#include "backends/kernels/follow.h"
#include "backends/kernels/gather.h"
#include "backends/kernels/lists.h"
#include "backends/kernels/store.h"

#endif

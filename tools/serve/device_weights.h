/* device_weights.h - weights in a device's memory, as a framework would hold them: taken through the driver, in the
 * context that weft's sessions share.
 *
 * Bytes go over two pinned buffers, one of which is filled or emptied while the other one is copied. Every call returns
 * when its copies are done. One thread at a time. */
#ifndef WEFT_TOOLS_DEVICE_WEIGHTS_H
#define WEFT_TOOLS_DEVICE_WEIGHTS_H

#include "backends/gpu/gpu_driver.h"

typedef struct weft_device_weights weft_device_weights;

/* Takes memory for a layout on a device (-1: the current one). Its content is unknown. Errors: the driver's. */
weft_status weft_device_weights_open(const weft_gpu_driver *driver, int device, const weft_layout *layout,
                                     weft_device_weights **weights);
/* NULL is allowed. */
void weft_device_weights_close(weft_device_weights *weights);

/* One per tensor, in layout order. As long as the weights. */
const weft_piece *weft_device_weights_pieces(const weft_device_weights *weights, uint64_t *count);

/* Copies pieces of host memory, one per tensor in layout order, over the weights. After an error they are undefined. */
weft_status weft_device_weights_fill(weft_device_weights *weights, const weft_piece *from);

/* Hands out every tensor's bytes in layout order, nothing in between. Errors: the driver's, the sink's. */
weft_status weft_device_weights_read(weft_device_weights *weights, const weft_sink *sink);

#endif

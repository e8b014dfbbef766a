/* gpu_boxes.h - strided weights on a device: before a batch, the elements that lie in boxes with strides are copied
 * into dense memory of the slab, where the jobs work. After a batch that writes they are copied back.
 *
 * Jobs that touch few elements, apply and its like, take a view of rows that say where each element lies. */
#ifndef WEFT_BACKENDS_GPU_BOXES_H
#define WEFT_BACKENDS_GPU_BOXES_H

#include "backends/gpu/gpu_sheet.h"

/* Returns what a job's strided runs need of its slab. */
weft_gpu_need weft_gpu_boxes_need(const weft_view *view);

/* Gives the jobs of a slab views of dense memory in place of strided runs, and puts the copies that fill it on the
 * slab's stream. */
weft_status weft_gpu_boxes_begin(weft_gpu *gpu, weft_gpu_slab *slab);
/* Puts the copies back into the boxes on the stream. */
weft_status weft_gpu_boxes_return(weft_gpu *gpu, weft_gpu_slab *slab);
/* Gives the jobs their own views again. */
void weft_gpu_boxes_end(weft_gpu_slab *slab);

/* Writes a view whose strided runs are rows of their boxes (weft_k_swap), *boxed if there are such; and returns the
 * bytes of the sheet that this takes, at most. */
weft_k_view weft_gpu_boxed_view_put(weft_gpu_sheet *sheet, const weft_view *view, bool *boxed);
uint64_t weft_gpu_boxed_view_bytes(const weft_view *view);

#endif

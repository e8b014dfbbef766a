/* gpu_sheet.h - a sheet is memory for the rows of a batch, in a row. A mirrored sheet is filled in pinned memory and
 * copied to the device in one piece. Any other sheet lies on the device alone and is scratch. */
#ifndef WEFT_BACKENDS_GPU_SHEET_H
#define WEFT_BACKENDS_GPU_SHEET_H

#include "backends/gpu/gpu.h"
#include "backends/kernels/rows.h"
#include "codec/classes.h"

#define WEFT_GPU_ROW_ALIGN 16u

typedef struct weft_gpu_sheet {
    uint8_t *host;    /* rows on the host; NULL: on the device alone */
    uint64_t pinned;  /* the device's address of `host` */
    uint64_t address; /* address of the rows on the device */
    uint64_t bytes;
    uint64_t used;
} weft_gpu_sheet;

static inline uint64_t weft_gpu_row_bytes(uint64_t bytes)
{
    return (bytes + WEFT_GPU_ROW_ALIGN - 1) / WEFT_GPU_ROW_ALIGN * WEFT_GPU_ROW_ALIGN;
}

/* Takes the sheet's memory from the slab, which must have it. `mirrored` sheets have a host side. */
weft_gpu_sheet weft_gpu_sheet_open(weft_gpu_slab *slab, uint64_t bytes, bool mirrored);

/* Takes the next `bytes` of a mirrored sheet as a sheet of its own, which is sent with the one. */
weft_gpu_sheet weft_gpu_sheet_stretch(weft_gpu_sheet *sheet, uint64_t bytes);
/* The same, zeroed on the host. Sending the one sheet clears this part on the device; only this part is fetched. */
weft_gpu_sheet weft_gpu_sheet_part(weft_gpu_sheet *sheet, uint64_t bytes);

/* Takes the next `bytes`, aligned to WEFT_GPU_ROW_ALIGN, for which there must be room. Returns the device's address;
 * `*row`, which may be NULL, is the host's address in a mirrored sheet. */
uint64_t weft_gpu_sheet_take(weft_gpu_sheet *sheet, uint64_t bytes, void **row);

/* Copy the used part of a mirrored sheet to the device, or from the device. */
weft_status weft_gpu_sheet_send(weft_gpu *gpu, weft_gpu_slab *slab, const weft_gpu_sheet *sheet);
weft_status weft_gpu_sheet_fetch(weft_gpu *gpu, weft_gpu_slab *slab, const weft_gpu_sheet *sheet);

/* Writes a view as a row, without its empty runs; and returns the bytes of the sheet that this takes. */
weft_k_view weft_gpu_view_put(weft_gpu_sheet *sheet, const weft_view *view);
uint64_t weft_gpu_view_bytes(const weft_view *view);

/* Writes the row of a copy between a view and dense bytes, and returns its address; and the bytes that this takes. */
uint64_t weft_gpu_copy_put(weft_gpu_sheet *sheet, const weft_view *view, uint64_t bytes);
uint64_t weft_gpu_copy_bytes(const weft_view *view);

/* Classes of the jobs of a batch, which have one update's parameters and, as a rule, one kind of element. */
typedef struct weft_gpu_classes {
    weft_class_map map;
    const weft_parameters *parameters;
    uint8_t exponent_bits;
    uint64_t of; /* the map's classes in the sheet; 0: there are none yet */
} weft_gpu_classes;

/* Has the classes of a view's elements in the sheet. What the last call of the batch made is used again where possible.
 */
void weft_gpu_classes_put(weft_gpu_classes *classes, weft_gpu_sheet *sheet, const weft_parameters *parameters,
                          const weft_view *view);
/* Returns the bytes of the sheet that this takes, at most. */
static inline uint64_t weft_gpu_classes_bytes(const weft_view *view)
{
    return weft_gpu_row_bytes(UINT64_C(1) << view->exponent_bits);
}

/* Writes rows for `parts` parts of a job whose own row is at `job`. Returns the place after the last. */
weft_k_part *weft_gpu_parts_put(weft_k_part *row, uint64_t job, uint64_t parts, uint32_t list);

/* Returns how many parts of `each` elements `count` elements make. */
static inline uint32_t weft_gpu_parts(uint64_t count, uint32_t each)
{
    return (uint32_t)((count + each - 1) / each);
}

#endif

/* list.h - the kernels of the device backends, by name: WEFT_KERNELS(ROW) gives ROW(name) for each. Read by the host's
 * C and by every platform's translation unit; the symbol of a kernel is weft_kernel_NAME, its rows are struct
 * weft_k_NAME.
 *
 * A kernel takes one argument, the device address of its rows (rows.h), and runs in blocks of 256 threads. */
#ifndef WEFT_BACKENDS_KERNELS_LIST_H
#define WEFT_BACKENDS_KERNELS_LIST_H

/* clang-format off */
#define WEFT_KERNELS(ROW)                                                                                              \
    ROW(digest)                                                                                                        \
    ROW(decode_ones)                                                                                                   \
    ROW(decode_lows)                                                                                                   \
    ROW(decode_lists)                                                                                                  \
    ROW(decode_sizes)                                                                                                  \
    ROW(decode_exceptions)                                                                                             \
    ROW(decode_steps)                                                                                                  \
    ROW(decode_classes)                                                                                                \
    ROW(decode_populations)                                                                                            \
    ROW(decode_bounds)                                                                                                 \
    ROW(decode_places)                                                                                                 \
    ROW(decode_further)                                                                                                \
    ROW(decode_lengths)                                                                                                \
    ROW(decode_magnitudes)                                                                                             \
    ROW(decode_differ)                                                                                                 \
    ROW(decode_elements)                                                                                               \
    ROW(decode_pairs)                                                                                                  \
    ROW(decode_kept)                                                                                                   \
    ROW(prove)                                                                                                         \
    ROW(apply)                                                                                                         \
    ROW(undo)                                                                                                          \
    ROW(load)                                                                                                          \
    ROW(store)                                                                                                         \
    ROW(boxes_load)                                                                                                    \
    ROW(boxes_store)                                                                                                   \
    ROW(diff)                                                                                                          \
    ROW(scan)                                                                                                          \
    ROW(gather)                                                                                                        \
    ROW(follow)                                                                                                        \
    ROW(frame_lists)                                                                                                   \
    ROW(fast_frame)                                                                                                    \
    ROW(class_rank)                                                                                                    \
    ROW(tight_count)                                                                                                   \
    ROW(list_make)                                                                                                     \
    ROW(tight_frame)
/* clang-format on */

#define WEFT_KERNEL_NUMBER(name) WEFT_GPU_KERNEL_##name,
enum weft_gpu_kernel { WEFT_KERNELS(WEFT_KERNEL_NUMBER) WEFT_GPU_KERNELS };
#undef WEFT_KERNEL_NUMBER

#endif

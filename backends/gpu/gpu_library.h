/* gpu_library.h - a vendor's driver library, opened when first asked for and kept until the process ends. */
#ifndef WEFT_BACKENDS_GPU_LIBRARY_H
#define WEFT_BACKENDS_GPU_LIBRARY_H

#include "backends/gpu/gpu_library_calls.h"
#include "weft.h"

typedef enum weft_gpu_symbols { WEFT_GPU_CUDA, WEFT_GPU_HIP } weft_gpu_symbols;

typedef struct weft_gpu_library {
    weft_gpu_symbols symbols;
    const char *owner;        /* "NVIDIA driver" */
    const char *const *files; /* names to try, NULL behind the last */
    /* The rest is the library's own; all 0 at first. */
    void *handle;
    int foreign; /* the process had it before weft asked */
    weft_gpu_calls calls;
} weft_gpu_library;

/* The library's functions. Any thread. Errors, said quietly: WEFT_E_MISSING (no file, or one that lacks a function). */
weft_status weft_gpu_library_open(weft_gpu_library *library, const weft_gpu_calls **calls);

/* Whether others than weft brought the library into this process. Does not bring it. */
int weft_gpu_library_foreign(weft_gpu_library *library);

#endif

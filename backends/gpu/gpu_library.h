/* gpu_library.h - a vendor's driver library, opened at the first call and kept until the process ends. */
#ifndef WEFT_BACKENDS_GPU_LIBRARY_H
#define WEFT_BACKENDS_GPU_LIBRARY_H

#include "backends/gpu/gpu_library_calls.h"
#include "weft.h"

typedef enum weft_gpu_symbols { WEFT_GPU_CUDA, WEFT_GPU_HIP } weft_gpu_symbols;

typedef struct weft_gpu_library {
    weft_gpu_symbols symbols;
    const char *owner;        /* name of the library for messages: "NVIDIA driver" */
    const char *const *files; /* file names to try, then NULL */
    /* The fields below are gpu_library.c's; all 0 at first. */
    void *handle;
    int foreign; /* the process had the library before weft opened it */
    weft_gpu_calls calls;
} weft_gpu_library;

/* Opens the library and returns its functions. The one that the process has already is taken, under any file name. Any
 * thread. Errors, not logged: WEFT_E_MISSING (no file, one that lacks a function, or the process has two). */
weft_status weft_gpu_library_open(weft_gpu_library *library, const weft_gpu_calls **calls);

/* True if other code than weft opened the library in this process. Does not open it. */
int weft_gpu_library_foreign(weft_gpu_library *library);

#endif

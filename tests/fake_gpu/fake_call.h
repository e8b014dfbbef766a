/* fake_call.h - how every function of the test drivers begins and ends. */
#ifndef WEFT_TESTS_FAKE_CALL_H
#define WEFT_TESTS_FAKE_CALL_H

#include "tests/fake_gpu/fake_state.h"

#define API __attribute__((visibility("default")))

#ifdef WEFT_FAKE_HIP
#define SYMBOL(cuda, hip) hip
#else
#define SYMBOL(cuda, hip) cuda
#endif

/* Counts a call: the code that it is to return instead of doing anything. */
int fake_call_begin(const char *symbol);
/* Adds up the time of a call, which is the driver's and not weft's. */
void fake_call_end(uint64_t since_ns);
uint64_t fake_now_ns(void);

#define CALL_OF(code, body)                                                                                            \
    const uint64_t since_ns = fake_now_ns();                                                                           \
    pthread_mutex_lock(&fake_mutex);                                                                                   \
    int code = fake_call_begin(__func__);                                                                              \
    if (code == WEFT_GPU_DONE)                                                                                         \
        body;                                                                                                          \
    fake_call_end(since_ns);                                                                                           \
    pthread_mutex_unlock(&fake_mutex);                                                                                 \
    return code

/* Calls that are refused while any stream is captured, and break that, unless the thread takes no part in captures. */
#define UNSAFE_CALL_OF(code, body)                                                                                     \
    CALL_OF(code, {                                                                                                    \
        code = fake_unsafe_code();                                                                                     \
        if (code == WEFT_GPU_DONE)                                                                                     \
            body;                                                                                                      \
    })

int fake_unsafe_code(void);
int fake_capture_mode(void); /* the calling thread's */

int fake_device_code(int device);
/* The calling thread's device; -1: none. */
int fake_current(void);
/* Most calls need one. */
int fake_here(void);
/* As if the framework had the thread to itself. */
void fake_choose(int device);
void fake_contexts_reset(void);

#endif

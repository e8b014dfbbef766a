/* fake_gpu.h - the drivers of the tests: a libcuda.so.1 and a libamdhip64.so.7 whose devices are emulated.
 *
 * Device memory lies in a region of this process that only launches and copies can touch; host code that does is ended
 * by a signal. Work is queued on streams and done a few steps at a time when an event is asked for, on a stream that a
 * seed chooses. So results are late, and in no order that was not asked for. Every function can be made to fail at its
 * n-th call. Each library has a state of its own. */
#ifndef WEFT_TESTS_FAKE_GPU_H
#define WEFT_TESTS_FAKE_GPU_H

#include <stdbool.h>
#include <stdint.h>

typedef struct weft_fake_options {
    int devices;            /* 0 to WEFT_FAKE_DEVICES */
    int init_code;          /* what init returns */
    int major, minor;       /* capability */
    int version;            /* of the driver */
    uint32_t lanes;         /* 32 or 64 */
    uint64_t seed;          /* of the order of work and of lanes */
    uint64_t memory_bytes;  /* of a device */
    bool eager;             /* all work is done when any event is asked for: quicker, and proves less */
    bool mute_captures;     /* no event can be asked for while a stream is captured, as with older ROCm */
    bool breaking_captures; /* asking for an event whose stream is captured breaks the capture, as with ROCm 6 */
    bool one_queue; /* work is done in the order in which it was queued, whatever the stream, as with one connection */
    bool open_memory; /* device memory can be touched at any time: quicker, and proves less */
    bool idle;        /* launches do nothing, and a comparison must see it */
    /* A function that is called in place of a kernel, with all memory open; NULL: the emulation. */
    void (*stand_in)(uint32_t kernel, uint32_t blocks, uint64_t rows);
} weft_fake_options;

#define WEFT_FAKE_DEVICES 2

typedef struct weft_fake_control {
    /* Forgets all state. Call it between tests, while the driver is not in use. */
    void (*reset)(const weft_fake_options *options);
    /* Makes a function return `code` at its n-th call from now on (from 1), once; `sticky`: everything after it too, as
     * after a kernel's fault. NULL takes it back. */
    void (*spoil)(const char *symbol, uint64_t nth, int code, bool sticky);
    bool (*spoiled)(void);                 /* whether it came to that */
    uint64_t (*calls)(const char *symbol); /* since reset */
    const char *(*symbol)(uint32_t index); /* names of the functions that were called; NULL past the last */
    uint64_t (*spent_ns)(void);            /* in the driver's functions, since reset */
    uint64_t (*live)(void);                /* contexts, modules, streams, events and blocks of memory not given back */
    uint64_t (*slow_copies)(void);         /* of host memory that is not pinned */
    void (*stall)(bool stalled);           /* no more work is done */
    void (*finish)(void);                  /* all work is done */
    /* Device memory as a framework has it: blocks until what is queued is done. */
    uint64_t (*take)(int device, uint64_t bytes);
    void (*give)(uint64_t address);
    void (*write)(uint64_t address, const void *from, uint64_t bytes);
    void (*read)(void *to, uint64_t address, uint64_t bytes);
    /* A stream of a framework's, and a copy that is queued on it. */
    void *(*stream_take)(int device);
    void (*stream_give)(void *stream);
    void (*stream_stall)(void *stream,
                         bool stalled); /* no work of the stream is done, as after a collective that waits */
    /* Begins the capture of a framework's stream, by another thread; ends it, and says whether it came to its end
     * unbroken. `blocking`: the default stream orders itself against it. */
    void (*capture)(void *stream, bool blocking);
    bool (*captured)(void);
    int (*capture_mode)(void); /* the calling thread's */
    void (*queue_write)(void *stream, uint64_t address, const void *from, uint64_t bytes);
    /* Makes a device current on the calling thread as a framework does; -1: none. */
    void (*choose)(int device);
    int (*chosen)(void);      /* the one that is; -1: none */
    int (*launched_at)(void); /* priority of the stream that the last launch was put on; 0 is the lowest */
} weft_fake_control;

/* Exported by the libraries. */
typedef const weft_fake_control *weft_fake_gpu_fn(void);

#endif

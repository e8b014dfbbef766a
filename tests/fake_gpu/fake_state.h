/* fake_state.h - what the files of the test drivers share. */
#ifndef WEFT_TESTS_FAKE_STATE_H
#define WEFT_TESTS_FAKE_STATE_H

#include <pthread.h>
#include <stddef.h>

#include "backends/gpu/gpu_library_calls.h"
#include "tests/fake_gpu/fake_gpu.h"

enum { FAKE_LOWEST = 0, FAKE_HIGHEST = -5 }; /* priorities of streams */

enum fake_work { FAKE_COPY, FAKE_CLEAR, FAKE_LAUNCH, FAKE_RECORD, FAKE_WAIT };

typedef struct fake_event {
    struct fake_event *next;
    uint64_t recorded; /* times */
    uint64_t reached;
    bool given;   /* back; kept until nothing that is queued needs it */
    void *stream; /* on which it was recorded last */
} fake_event;

typedef struct fake_op {
    struct fake_op *next;
    enum fake_work work;
    uint64_t to, from, bytes;
    unsigned char byte;
    uint32_t kernel, blocks;
    uint64_t argument;
    fake_event *event;
    uint64_t turn;   /* of the event */
    void *staged;    /* a copy's bytes, kept here */
    uint64_t serial; /* of all that was queued */
} fake_op;

typedef struct fake_stream {
    struct fake_stream *next;
    int device;
    bool stalled;
    int priority;
    fake_op *head, **tail;
} fake_stream;

typedef struct fake_block {
    struct fake_block *next;
    uint64_t address, bytes;
    int device;
    bool pinned;
} fake_block;

/* A stream that some other thread captures into a graph, in the mode that is usual. */
typedef struct fake_capture {
    fake_stream *stream; /* NULL: no capture runs */
    bool blocking;       /* the default stream orders itself against it */
    bool broken;         /* by a call that was made meanwhile */
} fake_capture;

typedef struct fake_state {
    weft_fake_options options;
    uint64_t random;
    uint64_t live;
    uint64_t slow_copies;
    uint64_t spent_ns;
    uint64_t queued; /* what was put on streams so far */
    int launched_at; /* priority of the stream of the last launch */
    bool stalled;
    int fault; /* code that every call returns from now on */
    uint64_t taken_bytes[WEFT_FAKE_DEVICES];
    uint8_t *arena[WEFT_FAKE_DEVICES];
    fake_block *blocks;
    fake_stream *streams;
    fake_event *events;
    fake_capture capture;
} fake_state;

extern fake_state fake;
extern pthread_mutex_t fake_mutex; /* held by every call */

uint64_t fake_draw(void);

/* fake_memory.c */
void fake_memory_reset(void);
int fake_memory_take(int device, uint64_t bytes, bool pinned, uint64_t *address);
int fake_memory_give(uint64_t address, bool pinned);
/* The block in which a range lies; NULL if it is in none. */
const fake_block *fake_block_of(uint64_t address, uint64_t bytes);
void fake_memory_open(void);
void fake_memory_close(void);

/* fake_stream.c */
void fake_streams_reset(void);
fake_stream *fake_stream_make(int device);
fake_stream *fake_stream_of(void *stream, int device); /* NULL stream: the device's default one */
void fake_stream_end(fake_stream *stream);
fake_event *fake_event_make(void);
void fake_event_end(fake_event *event);
void fake_queue(fake_stream *stream, const fake_op *op);
/* Why nothing can be put on a stream: it is captured, which that breaks, or comes after one that is. */
int fake_captured_code(const fake_stream *stream);
void fake_work_some(void);
void fake_work_all(void);

#endif

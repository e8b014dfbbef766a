/* fake_work.c - memory, streams, events and what is put on a stream. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/fake_gpu/fake_call.h"

/* Memory is the current device's. */
static int memory_give_new(uint64_t *address, size_t bytes, bool pinned)
{
    int code = fake_here();
    return code == WEFT_GPU_DONE ? fake_memory_take(fake_current(), bytes, pinned, address) : code;
}

API int SYMBOL(cuMemAlloc_v2, hipMalloc)(uint64_t *address, size_t bytes)
{
    UNSAFE_CALL_OF(code, code = memory_give_new(address, bytes, false));
}

static int memory_end(uint64_t address, bool pinned)
{
    fake_work_all(); /* as drivers do */
    return fake_memory_give(address, pinned);
}

API int SYMBOL(cuMemFree_v2, hipFree)(uint64_t address)
{
    UNSAFE_CALL_OF(code, code = memory_end(address, false));
}

static int left_give(size_t *left, size_t *all)
{
    int code = fake_here();
    if (code == WEFT_GPU_DONE) {
        *all = fake.options.memory_bytes;
        *left = *all - fake.taken_bytes[fake_current()];
    }
    return code;
}

API int SYMBOL(cuMemGetInfo_v2, hipMemGetInfo)(size_t *left, size_t *all)
{
    CALL_OF(code, code = left_give(left, all));
}

static int pinned_give_new(void **memory, size_t bytes)
{
    uint64_t address = 0;
    int code = memory_give_new(&address, bytes, true);
    if (code == WEFT_GPU_DONE)
        *memory = (void *)(uintptr_t)address;
    return code;
}

API int SYMBOL(cuMemHostAlloc, hipHostMalloc)(void **memory, size_t bytes, unsigned flags)
{
    UNSAFE_CALL_OF(code, code = flags == WEFT_GPU_PINNED_FLAGS ? pinned_give_new(memory, bytes) : WEFT_GPU_VALUE);
}

API int SYMBOL(cuMemFreeHost, hipHostFree)(void *memory)
{
    UNSAFE_CALL_OF(code, code = memory_end((uintptr_t)memory, true));
}

API int SYMBOL(cuMemHostGetDevicePointer_v2, hipHostGetDevicePointer)(uint64_t *address, void *memory, unsigned flags)
{
    (void)flags;
    CALL_OF(code, *address = (uintptr_t)memory);
}

static int stream_give_new(void **stream, int priority)
{
    int code = fake_here();
    if (code != WEFT_GPU_DONE)
        return code;
    fake_stream *made = fake_stream_make(fake_current());
    made->priority = priority;
    *stream = made;
    fake.live++;
    return WEFT_GPU_DONE;
}

static int priorities_give(int *lowest, int *highest)
{
    *lowest = FAKE_LOWEST;
    *highest = FAKE_HIGHEST;
    return fake_here();
}

API int SYMBOL(cuCtxGetStreamPriorityRange, hipDeviceGetStreamPriorityRange)(int *lowest, int *highest)
{
    CALL_OF(code, code = priorities_give(lowest, highest));
}

API int SYMBOL(cuStreamCreateWithPriority, hipStreamCreateWithPriority)(void **stream, unsigned flags, int priority)
{
    const bool good = flags == WEFT_GPU_STREAM_FLAGS && (priority == FAKE_LOWEST || priority == FAKE_HIGHEST);
    CALL_OF(code, code = good ? stream_give_new(stream, priority) : WEFT_GPU_VALUE);
}

static int stream_end(void *stream)
{
    if (!stream || !fake_stream_of(stream, 0))
        return WEFT_GPU_WRONG_HANDLE;
    fake_stream_end(stream);
    fake.live--;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuStreamDestroy_v2, hipStreamDestroy)(void *stream)
{
    CALL_OF(code, code = stream_end(stream));
}

/* Work is put on a stream of the current device only. */
static int queue(void *stream, const fake_op *op)
{
    int code = fake_here();
    if (code != WEFT_GPU_DONE)
        return code;
    fake_stream *on = fake_stream_of(stream, fake_current());
    if (!on || on->device != fake_current())
        return WEFT_GPU_WRONG_HANDLE;
    code = fake_captured_code(on);
    if (op->work == FAKE_LAUNCH)
        fake.launched_at = on->priority;
    if (code == WEFT_GPU_DONE)
        fake_queue(on, op);
    return code;
}

static int captured_give(void *stream, int *state)
{
    const fake_stream *captured = fake.capture.stream;
    if (stream && !fake_stream_of(stream, 0))
        return SYMBOL(WEFT_GPU_WRONG_HANDLE, 709); /* AMD's says so of streams that are no more */
    if (!stream && captured && fake.capture.blocking)
        return WEFT_GPU_CAPTURED_BESIDE;
    *state = !stream || stream != captured ? 0 : fake.capture.broken ? 2 : 1;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuStreamIsCapturing, hipStreamIsCapturing)(void *stream, int *state)
{
    CALL_OF(code, code = captured_give(stream, state));
}

static int event_give_new(void **event)
{
    int code = fake_here();
    if (code != WEFT_GPU_DONE)
        return code;
    *event = fake_event_make();
    fake.live++;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuEventCreate, hipEventCreateWithFlags)(void **event, unsigned flags)
{
    CALL_OF(code, code = flags == WEFT_GPU_EVENT_FLAGS ? event_give_new(event) : WEFT_GPU_VALUE);
}

static int event_end(fake_event *event)
{
    if (event->given)
        return WEFT_GPU_WRONG_HANDLE;
    fake_event_end(event);
    fake.live--;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuEventDestroy_v2, hipEventDestroy)(void *event)
{
    CALL_OF(code, code = event_end(event));
}

static int record_queue(fake_event *event, void *stream)
{
    if (event->given)
        return WEFT_GPU_WRONG_HANDLE;
    int code = queue(stream, &(fake_op){.work = FAKE_RECORD, .event = event, .turn = event->recorded + 1});
    if (code != WEFT_GPU_DONE)
        return code;
    event->recorded++;
    event->stream = stream;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuEventRecord, hipEventRecord)(void *event, void *stream)
{
    CALL_OF(code, code = record_queue(event, stream));
}

static int wait_queue(void *stream, fake_event *event)
{
    return event->given ? WEFT_GPU_WRONG_HANDLE
                        : queue(stream, &(fake_op){.work = FAKE_WAIT, .event = event, .turn = event->recorded});
}

API int SYMBOL(cuStreamWaitEvent, hipStreamWaitEvent)(void *stream, void *event, unsigned flags)
{
    CALL_OF(code, code = flags == 0 ? wait_queue(stream, event) : WEFT_GPU_VALUE);
}

static int event_ask(const fake_event *event)
{
    fake_work_some();
    if (fake.fault)
        return fake.fault;
    if (fake.options.breaking_captures && fake.capture.stream && event->stream == fake.capture.stream) {
        fake.capture.broken = true;
        return WEFT_GPU_CAPTURED;
    }
    if (fake.capture.stream && fake.options.mute_captures)
        return WEFT_GPU_CAPTURED;
    return event->reached == event->recorded ? WEFT_GPU_DONE : WEFT_GPU_NOT_READY;
}

API int SYMBOL(cuEventQuery, hipEventQuery)(void *event)
{
    UNSAFE_CALL_OF(code, code = event_ask(event));
}

static int launch_queue(uintptr_t function, uint32_t blocks, uint64_t argument, void *stream)
{
    if (function == 0 || blocks == 0)
        return WEFT_GPU_WRONG_HANDLE;
    return queue(
        stream,
        &(fake_op){.work = FAKE_LAUNCH, .kernel = (uint32_t)(function - 1), .blocks = blocks, .argument = argument});
}

API int SYMBOL(cuLaunchKernel, hipModuleLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                                      unsigned block_x, unsigned block_y, unsigned block_z,
                                                      unsigned shared_bytes, void *stream, void **arguments,
                                                      void **extra)
{
    const bool counted = SYMBOL(grid_x < (1u << 31), (uint64_t)grid_x * block_x <= UINT32_MAX); /* blocks; threads */
    bool plain = counted && grid_y == 1 && grid_z == 1 && block_x == 256 && block_y == 1 && block_z == 1 &&
                 !shared_bytes && !extra;
    uint64_t argument;
    memcpy(&argument, arguments[0], sizeof argument);
    CALL_OF(code, code = plain ? launch_queue((uintptr_t)function, grid_x, argument, stream) : WEFT_GPU_VALUE);
}

/* A range that begins in the driver's memory and leaves its block is a fault. */
static int range_code(uint64_t address, uint64_t bytes)
{
    return fake_block_of(address, 1) && !fake_block_of(address, bytes) ? WEFT_GPU_VALUE : WEFT_GPU_DONE;
}

static int clear_queue(uint64_t address, unsigned char byte, size_t bytes, void *stream)
{
    if (!fake_block_of(address, bytes))
        return WEFT_GPU_VALUE;
    return queue(stream, &(fake_op){.work = FAKE_CLEAR, .to = address, .byte = byte, .bytes = bytes});
}

API int SYMBOL(cuMemsetD8Async, hipMemsetD8Async)(uint64_t address, unsigned char byte, size_t bytes, void *stream)
{
    CALL_OF(code, code = clear_queue(address, byte, bytes, stream));
}

/* Host memory that is not pinned: the caller's bytes are read before the call returns, and what goes there has
 * arrived. */
static int copy_queue(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    fake_op op = {.work = FAKE_COPY, .to = to, .from = from, .bytes = bytes};
    bool slow_to = !fake_block_of(to, 1), slow_from = !fake_block_of(from, 1);
    if (range_code(to, bytes) != WEFT_GPU_DONE || range_code(from, bytes) != WEFT_GPU_DONE)
        return WEFT_GPU_VALUE;
    if ((slow_to || slow_from) && fake_unsafe_code() != WEFT_GPU_DONE)
        return WEFT_GPU_CAPTURED;
    if (slow_from && (op.staged = malloc(bytes)))
        memcpy(op.staged, (const void *)(uintptr_t)from, bytes);
    int code = queue(stream, &op);
    fake.slow_copies += slow_to || slow_from;
    if (slow_to)
        fake_work_all();
    return code;
}

#ifdef WEFT_FAKE_HIP

API int hipMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, int kind, void *stream)
{
    CALL_OF(code, code = kind == 4 ? copy_queue(to, from, bytes, stream) : WEFT_GPU_VALUE);
}

#else

API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    CALL_OF(code, code = copy_queue(to, from, bytes, stream));
}

#endif

static int pointer_code(void *value, int attribute, uint64_t address)
{
    const fake_block *block = fake_block_of(address, 1);
    const bool host = attribute == WEFT_GPU_POINTER_HOST, here = attribute == WEFT_GPU_POINTER_HERE;
    if (!block || (host && !block->pinned) || (here && !block->pinned && block->device != fake_current()))
        return WEFT_GPU_VALUE;
    if (host || here)
        memcpy(value, &address, sizeof address);
    else if (attribute == WEFT_GPU_POINTER_DEVICE)
        memcpy(value, &block->device, sizeof block->device);
    else
        return WEFT_GPU_VALUE;
    return WEFT_GPU_DONE;
}

API int SYMBOL(cuPointerGetAttribute, hipPointerGetAttribute)(void *value, int attribute, uint64_t address)
{
    CALL_OF(code, code = pointer_code(value, attribute, address));
}

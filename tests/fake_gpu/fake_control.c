/* fake_control.c - what the tests ask of the drivers: counts, failures, and a framework's own work. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fake_gpu/fake_call.h"

fake_state fake;
pthread_mutex_t fake_mutex = PTHREAD_MUTEX_INITIALIZER;

enum { COUNTED = 64 };
static struct {
    const char *symbol;
    uint64_t calls;
} counts[COUNTED];

static struct {
    const char *symbol;
    uint64_t at; /* call */
    int code;
    bool sticky;
    bool came;
} failure;

static uint64_t *count_of(const char *symbol)
{
    int i = 0;
    while (i < COUNTED - 1 && counts[i].symbol && strcmp(counts[i].symbol, symbol) != 0)
        i++;
    counts[i].symbol = symbol;
    return &counts[i].calls;
}

/* A thread's current device and context stay its own, whatever became of the device. */
static bool outlives_faults(const char *symbol)
{
    static const char *const rows[] = {"cuInit",    "cuDevice",     "cuCtx",        "cuThread", "hipInit",
                                       "hipDevice", "hipGetDevice", "hipSetDevice", "hipThread"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(symbol, rows[i], strlen(rows[i])) == 0)
            return true;
    }
    return false;
}

int fake_call_begin(const char *symbol)
{
    uint64_t *count = count_of(symbol);
    ++*count;
    if (failure.symbol && strcmp(failure.symbol, symbol) == 0 && *count == failure.at) {
        failure.came = true;
        if (failure.sticky)
            fake.fault = failure.code;
        return failure.code;
    }
    return outlives_faults(symbol) ? WEFT_GPU_DONE : fake.fault;
}

uint64_t fake_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void fake_call_end(uint64_t since_ns)
{
    fake.spent_ns += fake_now_ns() - since_ns;
}

static void fake_reset(const weft_fake_options *options)
{
    pthread_mutex_lock(&fake_mutex);
    fake_streams_reset();
    memset(counts, 0, sizeof counts);
    memset(&failure, 0, sizeof failure);
    fake_contexts_reset();
    fake.options = *options;
    fake.random = options->seed;
    fake.live = fake.slow_copies = fake.spent_ns = 0;
    fake.stalled = false;
    fake.capture = (fake_capture){0};
    fake.fault = WEFT_GPU_DONE;
    fake_memory_reset();
    pthread_mutex_unlock(&fake_mutex);
}

static void fake_spoil(const char *symbol, uint64_t nth, int code, bool sticky)
{
    pthread_mutex_lock(&fake_mutex);
    memset(&failure, 0, sizeof failure);
    if (symbol) {
        failure.symbol = symbol;
        failure.at = *count_of(symbol) + nth;
        failure.code = code;
        failure.sticky = sticky;
    }
    pthread_mutex_unlock(&fake_mutex);
}

static bool fake_spoiled(void)
{
    pthread_mutex_lock(&fake_mutex);
    bool came = failure.came;
    pthread_mutex_unlock(&fake_mutex);
    return came;
}

static uint64_t fake_calls(const char *symbol)
{
    pthread_mutex_lock(&fake_mutex);
    uint64_t calls = *count_of(symbol);
    pthread_mutex_unlock(&fake_mutex);
    return calls;
}

static const char *fake_symbol(uint32_t index)
{
    return index < COUNTED ? counts[index].symbol : NULL;
}

static uint64_t fake_spent_ns(void)
{
    pthread_mutex_lock(&fake_mutex);
    uint64_t spent = fake.spent_ns;
    pthread_mutex_unlock(&fake_mutex);
    return spent;
}

static uint64_t fake_live(void)
{
    pthread_mutex_lock(&fake_mutex);
    uint64_t live = fake.live;
    pthread_mutex_unlock(&fake_mutex);
    return live;
}

static uint64_t fake_slow_copies(void)
{
    pthread_mutex_lock(&fake_mutex);
    uint64_t copies = fake.slow_copies;
    pthread_mutex_unlock(&fake_mutex);
    return copies;
}

static void fake_stall(bool stalled)
{
    pthread_mutex_lock(&fake_mutex);
    fake.stalled = stalled;
    pthread_mutex_unlock(&fake_mutex);
}

static void fake_finish(void)
{
    pthread_mutex_lock(&fake_mutex);
    fake_work_all();
    pthread_mutex_unlock(&fake_mutex);
}

static uint64_t fake_take(int device, uint64_t bytes)
{
    uint64_t address = 0;
    pthread_mutex_lock(&fake_mutex);
    fake_memory_take(device, bytes, false, &address);
    pthread_mutex_unlock(&fake_mutex);
    return address;
}

static void fake_give(uint64_t address)
{
    pthread_mutex_lock(&fake_mutex);
    fake_work_all();
    fake_memory_give(address, false);
    pthread_mutex_unlock(&fake_mutex);
}

static void bytes_move(void *to, const void *from, uint64_t bytes)
{
    pthread_mutex_lock(&fake_mutex);
    fake_work_all();
    fake_memory_open();
    memcpy(to, from, bytes);
    fake_memory_close();
    pthread_mutex_unlock(&fake_mutex);
}

static void fake_write(uint64_t address, const void *from, uint64_t bytes)
{
    bytes_move((void *)(uintptr_t)address, from, bytes);
}

static void fake_read(void *to, uint64_t address, uint64_t bytes)
{
    bytes_move(to, (const void *)(uintptr_t)address, bytes);
}

static void *fake_stream_take(int device)
{
    pthread_mutex_lock(&fake_mutex);
    void *stream = fake_stream_make(device);
    pthread_mutex_unlock(&fake_mutex);
    return stream;
}

static void fake_stream_give(void *stream)
{
    pthread_mutex_lock(&fake_mutex);
    fake_stream_end(stream);
    pthread_mutex_unlock(&fake_mutex);
}

static void fake_stream_stall(void *stream, bool stalled)
{
    pthread_mutex_lock(&fake_mutex);
    fake_stream_of(stream, 0)->stalled = stalled;
    pthread_mutex_unlock(&fake_mutex);
}

static void fake_capture_begin(void *stream, bool blocking)
{
    pthread_mutex_lock(&fake_mutex);
    fake.capture = (fake_capture){.stream = stream, .blocking = blocking};
    pthread_mutex_unlock(&fake_mutex);
}

static bool fake_capture_end(void)
{
    pthread_mutex_lock(&fake_mutex);
    bool whole = fake.capture.stream && !fake.capture.broken;
    fake.capture = (fake_capture){0};
    pthread_mutex_unlock(&fake_mutex);
    return whole;
}

static void fake_queue_write(void *stream, uint64_t address, const void *from, uint64_t bytes)
{
    fake_op op = {.work = FAKE_COPY, .to = address, .bytes = bytes, .staged = malloc(bytes)};
    if (!op.staged)
        abort();
    memcpy(op.staged, from, bytes);
    pthread_mutex_lock(&fake_mutex);
    fake_queue(fake_stream_of(stream, 0), &op);
    pthread_mutex_unlock(&fake_mutex);
}

static int fake_launched_at(void)
{
    return fake.launched_at;
}

/* A process that knows nothing of the tests has as many devices as WEFT_FAKE_DEVICES says: none; with WEFT_FAKE_IDLE
 * they do not compute. WEFT_FAKE_VERSION is the driver's. */
__attribute__((constructor)) static void fake_begin(void)
{
    const char *devices = getenv("WEFT_FAKE_DEVICES"), *version = getenv("WEFT_FAKE_VERSION");
    const weft_fake_options options = {.devices = devices ? atoi(devices) : 0,
                                       .major = 9,
                                       .minor = SYMBOL(0, 4),
                                       .version = version ? atoi(version) : SYMBOL(12080, 60342134),
                                       .lanes = SYMBOL(32, 64),
                                       .memory_bytes = UINT64_C(4) << 30,
                                       .idle = getenv("WEFT_FAKE_IDLE") != NULL};
    if (options.devices <= WEFT_FAKE_DEVICES)
        fake_reset(&options);
}

weft_fake_gpu_fn weft_fake_gpu;
API const weft_fake_control *weft_fake_gpu(void)
{
    static const weft_fake_control control = {
        .reset = fake_reset,
        .spoil = fake_spoil,
        .spoiled = fake_spoiled,
        .calls = fake_calls,
        .symbol = fake_symbol,
        .spent_ns = fake_spent_ns,
        .live = fake_live,
        .slow_copies = fake_slow_copies,
        .stall = fake_stall,
        .finish = fake_finish,
        .take = fake_take,
        .give = fake_give,
        .write = fake_write,
        .read = fake_read,
        .stream_take = fake_stream_take,
        .stream_give = fake_stream_give,
        .stream_stall = fake_stream_stall,
        .capture = fake_capture_begin,
        .captured = fake_capture_end,
        .capture_mode = fake_capture_mode,
        .queue_write = fake_queue_write,
        .choose = fake_choose,
        .chosen = fake_current,
        .launched_at = fake_launched_at,
    };
    return &control;
}

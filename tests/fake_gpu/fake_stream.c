/* fake_stream.c - work that is queued on the emulated devices, and the doing of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulation/emulation.h"
#include "tests/fake_gpu/fake_state.h"

static fake_stream *defaults[WEFT_FAKE_DEVICES];

uint64_t fake_draw(void)
{
    fake.random = fake.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return fake.random >> 33;
}

fake_stream *fake_stream_make(int device)
{
    fake_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        abort();
    stream->device = device;
    stream->tail = &stream->head;
    stream->next = fake.streams;
    fake.streams = stream;
    return stream;
}

fake_stream *fake_stream_of(void *stream, int device)
{
    if (!stream && !defaults[device])
        defaults[device] = fake_stream_make(device);
    if (!stream)
        return defaults[device];
    for (fake_stream *one = fake.streams; one; one = one->next) {
        if (one == stream)
            return one;
    }
    return NULL;
}

fake_event *fake_event_make(void)
{
    fake_event *event = calloc(1, sizeof *event);
    if (!event)
        abort();
    event->next = fake.events;
    fake.events = event;
    return event;
}

/* It is freed with all that is. */
void fake_event_end(fake_event *event)
{
    event->given = true;
}

int fake_captured_code(const fake_stream *stream)
{
    if (!fake.capture.stream)
        return WEFT_GPU_DONE;
    const int code = stream == fake.capture.stream                                 ? WEFT_GPU_CAPTURED
                     : fake.capture.blocking && stream == defaults[stream->device] ? WEFT_GPU_CAPTURED_BESIDE
                                                                                   : WEFT_GPU_DONE;
    fake.capture.broken = fake.capture.broken || code != WEFT_GPU_DONE;
    return code;
}

static void op_free(fake_op *op)
{
    free(op->staged);
    free(op);
}

void fake_queue(fake_stream *stream, const fake_op *op)
{
    fake_op *queued = malloc(sizeof *queued);
    if (!queued)
        abort();
    *queued = *op;
    queued->serial = fake.queued++;
    queued->next = NULL;
    *stream->tail = queued;
    stream->tail = &queued->next;
}

/* A fault is the device's last word. */
static void fault_set(int code, const char *why)
{
    fprintf(stderr, "emulated device: %s\n", why);
    fake.fault = code;
}

static void op_do(const fake_op *op)
{
    const weft_schedule schedule = {.lanes = fake.options.lanes, .seed = fake_draw()};
    const char *wrong = NULL;
    switch (op->work) {
    case FAKE_COPY:
        memmove((void *)(uintptr_t)op->to, op->staged ? op->staged : (const void *)(uintptr_t)op->from, op->bytes);
        break;
    case FAKE_CLEAR:
        memset((void *)(uintptr_t)op->to, op->byte, op->bytes);
        break;
    case FAKE_LAUNCH:
        if (fake.options.stand_in)
            fake.options.stand_in(op->kernel, op->blocks, op->argument);
        if (fake.options.stand_in || fake.options.idle)
            break;
        wrong = weft_emulation_launch(&schedule, (enum weft_gpu_kernel)op->kernel, op->blocks, op->argument);
        break;
    case FAKE_WAIT:
        break;
    case FAKE_RECORD:
        op->event->reached = op->event->reached < op->turn ? op->turn : op->event->reached;
        break;
    }
    if (wrong)
        fault_set(WEFT_GPU_LAUNCH_FAILED, wrong);
}

/* True if no other stream of the device has work that was queued before this stream's. */
static bool stream_is_next(const fake_stream *stream)
{
    for (const fake_stream *one = fake.streams; one; one = one->next) {
        if (one->device == stream->device && one->head && one->head->serial < stream->head->serial)
            return false;
    }
    return true;
}

static bool stream_can(const fake_stream *stream)
{
    const fake_op *op = stream->head;
    if (op && op->work == FAKE_WAIT && op->event->reached < op->turn)
        return false;
    return op && !stream->stalled && (!fake.options.one_queue || stream_is_next(stream));
}

static void stream_step(fake_stream *stream)
{
    fake_op *op = stream->head;
    if (!fake.fault)
        op_do(op);
    stream->head = op->next;
    if (!stream->head)
        stream->tail = &stream->head;
    op_free(op);
}

/* Any of the streams that can go on; NULL if none can. */
static fake_stream *stream_draw(void)
{
    uint64_t able = 0;
    for (fake_stream *one = fake.streams; one; one = one->next)
        able += stream_can(one);
    uint64_t nth = able ? fake_draw() % able : 0;
    for (fake_stream *one = fake.streams; one && able; one = one->next) {
        if (stream_can(one) && nth-- == 0)
            return one;
    }
    return NULL;
}

static void work(uint64_t steps)
{
    fake_stream *stream;
    if (fake.stalled || steps == 0)
        return;
    fake_memory_open();
    while (steps-- && (stream = stream_draw()))
        stream_step(stream);
    fake_memory_close();
}

void fake_work_some(void)
{
    work(fake.options.eager ? UINT64_MAX : fake_draw() % 8);
}

void fake_work_all(void)
{
    work(UINT64_MAX);
}

void fake_stream_end(fake_stream *stream)
{
    fake_stream **at = &fake.streams;
    fake_work_all();
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    while (stream->head) {
        fake_op *op = stream->head;
        stream->head = op->next;
        op_free(op);
    }
    free(stream);
}

void fake_streams_reset(void)
{
    fake.stalled = true;
    while (fake.streams)
        fake_stream_end(fake.streams);
    while (fake.events) {
        fake_event *event = fake.events;
        fake.events = event->next;
        free(event);
    }
    memset(defaults, 0, sizeof defaults);
}

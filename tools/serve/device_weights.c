#include "tools/serve/device_weights.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"

#define BUFFER_BYTES (UINT64_C(16) << 20)
#define ALIGN        16u /* of tensors: what kernels load at once */

#define PATIENCE_NS (120000 * WEFT_NS_PER_MS)
#define PAUSE_NS    50000

typedef struct buffer {
    void *host;
    uint64_t address;
    void *mark; /* after its last copy */
} buffer;

struct weft_device_weights {
    const weft_gpu_driver *driver;
    weft_gpu_device *device;
    weft_layout *layout;
    weft_piece *pieces;
    void *stream;
    uint64_t address; /* of the tensors, one after the other */
    uint64_t bytes;   /* theirs, and between them */
    buffer buffers[2];
    bool hung;
};

/* ---- a range of the device's memory, tensor by tensor */

typedef weft_status part_fn(void *user, uint64_t tensor, uint64_t offset, uint8_t *data, uint64_t bytes);

typedef struct walk {
    const weft_device_weights *weights;
    uint64_t tensor; /* the first that may reach into what comes next */
    part_fn *part;
    void *user;
} walk;

/* Calls `part` for what of each tensor lies in [at, at + bytes), which `data` is a copy of. Ranges come in order. */
static weft_status walk_range(walk *w, uint64_t at, uint64_t bytes, uint8_t *data)
{
    const weft_device_weights *weights = w->weights;
    for (; w->tensor < weights->layout->count; w->tensor++) {
        uint64_t first = (uintptr_t)weights->pieces[w->tensor].data - weights->address;
        uint64_t end = first + weights->layout->entries[w->tensor].bytes;
        uint64_t from = first > at ? first : at, to = end < at + bytes ? end : at + bytes;
        if (first >= at + bytes)
            break;
        weft_status status =
            from < to ? w->part(w->user, w->tensor, from - first, data + (from - at), to - from) : WEFT_OK;
        if (status != WEFT_OK)
            return status;
        if (end > at + bytes)
            break;
    }
    return WEFT_OK;
}

/* ---- copies */

static weft_status copy(weft_device_weights *weights, const buffer *through, uint64_t to, uint64_t from, uint64_t bytes)
{
    weft_status status = weights->driver->copy(weights->device, weights->stream, to, from, bytes);
    return status == WEFT_OK ? weights->driver->mark(weights->device, weights->stream, through->mark) : status;
}

static weft_status wait_for(weft_device_weights *weights, const buffer *through)
{
    uint64_t until_ns = weft_clock_ns() + PATIENCE_NS;
    weft_status status = weights->driver->reached(weights->device, through->mark);
    while ((status == WEFT_AGAIN || status == WEFT_E_STATE) && weft_clock_ns() < until_ns) {
        weft_clock_pass(PAUSE_NS);
        status = weights->driver->reached(weights->device, through->mark);
    }
    if (status != WEFT_AGAIN && status != WEFT_E_STATE)
        return status;
    weights->hung = true;
    return weft_fail(WEFT_E_DEVICE, "%s: a copy of weights did not end for %llu s", weights->driver->name,
                     (unsigned long long)(PATIENCE_NS / WEFT_NS_PER_MS / 1000));
}

/* Whatever became of the work, no copy is under way afterwards. */
static weft_status wait_for_both(weft_device_weights *weights, weft_status status)
{
    for (int i = 0; i < 2 && !weights->hung; i++) {
        weft_status waited = wait_for(weights, &weights->buffers[i]);
        status = status == WEFT_OK ? waited : status;
    }
    return status;
}

static uint64_t bytes_at(const weft_device_weights *weights, uint64_t at)
{
    return weights->bytes - at < BUFFER_BYTES ? weights->bytes - at : BUFFER_BYTES;
}

static weft_status gather_part(void *user, uint64_t tensor, uint64_t offset, uint8_t *data, uint64_t bytes)
{
    const weft_piece *from = user;
    memcpy(data, (const uint8_t *)from[tensor].data + offset, bytes);
    return WEFT_OK;
}

weft_status weft_device_weights_fill(weft_device_weights *weights, const weft_piece *from)
{
    walk w = {.weights = weights, .part = gather_part, .user = (void *)(uintptr_t)from};
    weft_status status = WEFT_OK;
    unsigned turn = 0;
    for (uint64_t at = 0; status == WEFT_OK && at < weights->bytes; at += BUFFER_BYTES, turn ^= 1) {
        const buffer *through = &weights->buffers[turn];
        uint64_t bytes = bytes_at(weights, at);
        status = wait_for(weights, through);
        if (status == WEFT_OK)
            status = walk_range(&w, at, bytes, through->host);
        if (status == WEFT_OK)
            status = copy(weights, through, weights->address + at, through->address, bytes);
    }
    return wait_for_both(weights, status);
}

static weft_status begin_read(weft_device_weights *weights, unsigned turn, uint64_t at)
{
    const buffer *through = &weights->buffers[turn];
    return at < weights->bytes ? copy(weights, through, through->address, weights->address + at, bytes_at(weights, at))
                               : WEFT_OK;
}

static weft_status sink_part(void *user, uint64_t tensor, uint64_t offset, uint8_t *data, uint64_t bytes)
{
    const weft_sink *sink = user;
    (void)tensor, (void)offset;
    return sink->write(sink->user, data, bytes);
}

weft_status weft_device_weights_read(weft_device_weights *weights, const weft_sink *sink)
{
    walk w = {.weights = weights, .part = sink_part, .user = (void *)(uintptr_t)sink};
    weft_status status = begin_read(weights, 0, 0);
    unsigned turn = 0;
    for (uint64_t at = 0; status == WEFT_OK && at < weights->bytes; at += BUFFER_BYTES, turn ^= 1) {
        status = begin_read(weights, turn ^ 1, at + BUFFER_BYTES);
        if (status == WEFT_OK)
            status = wait_for(weights, &weights->buffers[turn]);
        if (status == WEFT_OK)
            status = walk_range(&w, at, bytes_at(weights, at), weights->buffers[turn].host);
    }
    return wait_for_both(weights, status);
}

/* ---- open and close */

static weft_status place_tensors(weft_device_weights *weights)
{
    const weft_gpu_driver *driver = weights->driver;
    const weft_layout *layout = weights->layout;
    for (uint64_t t = 0; t < layout->count; t++)
        weights->bytes += (layout->entries[t].bytes + ALIGN - 1) / ALIGN * ALIGN;
    weights->pieces = weft_mem_take(layout->count + 1, sizeof *weights->pieces);
    if (!weights->pieces)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu pieces", (unsigned long long)layout->count);
    weft_status status =
        driver->memory_take(weights->device, weights->bytes ? weights->bytes : ALIGN, &weights->address);
    uint64_t at = weights->address;
    for (uint64_t t = 0; t < layout->count && status == WEFT_OK; t++) {
        weights->pieces[t] = (weft_piece){t, 0, layout->entries[t].elements, (void *)(uintptr_t)at};
        at += (layout->entries[t].bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (status == WEFT_E_MEMORY)
        weft_fail_about("weights of %llu bytes", (unsigned long long)weights->bytes);
    return status;
}

static weft_status take_parts(weft_device_weights *weights, int device)
{
    const weft_gpu_driver *driver = weights->driver;
    weft_status status = driver->open(device, &weights->device);
    if (status == WEFT_OK)
        status = place_tensors(weights);
    if (status == WEFT_OK)
        status = driver->stream_take(weights->device, false, &weights->stream);
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        buffer *through = &weights->buffers[i];
        status = driver->pinned_take(weights->device, BUFFER_BYTES, &through->host, &through->address);
        if (status == WEFT_OK)
            status = driver->mark_take(weights->device, &through->mark);
    }
    return status;
}

weft_status weft_device_weights_open(const weft_gpu_driver *driver, int device, const weft_layout *layout,
                                     weft_device_weights **weights)
{
    weft_device_weights *made = weft_mem_take(1, sizeof *made);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory for a record of weights");
    made->driver = driver;
    made->layout = weft_layout_hold((weft_layout *)(uintptr_t)layout); /* only its count of references moves */
    weft_status status = take_parts(made, device);
    if (status == WEFT_OK)
        *weights = made;
    else
        weft_device_weights_close(made);
    return status;
}

static void give_parts(weft_device_weights *weights)
{
    const weft_gpu_driver *driver = weights->driver;
    for (int i = 0; i < 2; i++) {
        driver->mark_give(weights->device, weights->buffers[i].mark);
        driver->pinned_give(weights->device, weights->buffers[i].host);
    }
    driver->stream_give(weights->device, weights->stream);
    driver->memory_give(weights->device, weights->address);
    driver->close(weights->device);
}

void weft_device_weights_close(weft_device_weights *weights)
{
    if (!weights)
        return;
    if (weights->device && weights->hung)
        weights->driver->abandon(weights->device); /* giving back would wait for what does not end */
    else if (weights->device)
        give_parts(weights);
    weft_mem_give(weights->pieces);
    weft_layout_free(weights->layout);
    weft_mem_give(weights);
}

const weft_piece *weft_device_weights_pieces(const weft_device_weights *weights, uint64_t *count)
{
    *count = weights->layout->count;
    return weights->pieces;
}

/* encode_pass.h - one pass of the encoder over two bindings: its frames by level, and what the backend was asked for.
 */
#ifndef WEFT_TESTS_ENCODE_PASS_H
#define WEFT_TESTS_ENCODE_PASS_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backends/host/host.h"
#include "base/status.h"
#include "encode/encode.h"

/* Frames of one level back to back. */
typedef struct pass_frames {
    uint8_t *data;
    uint64_t bytes, capacity, count;
} pass_frames;

typedef struct encode_result {
    pass_frames level[WEFT_LEVEL_COUNT];
    uint64_t changed;
    uint64_t jobs; /* of encoding, of all lanes */
} encode_result;

static _Atomic uint64_t pass_jobs;
/* NULL, or is called after each job, on its lane. */
static void (*pass_look)(const weft_backend_state *state, const weft_encode_job *job);

static inline weft_status pass_encode(weft_backend_state *state, weft_encode_job *job)
{
    atomic_fetch_add(&pass_jobs, 1);
    weft_status status = weft_backend_host.encode(state, job);
    if (pass_look)
        pass_look(state, job);
    return status;
}

static inline weft_status pass_emit(void *user, weft_level level, const uint8_t *frame, uint32_t bytes)
{
    pass_frames *frames = &((encode_result *)user)->level[level];
    if (frames->bytes + bytes > frames->capacity) {
        frames->capacity = 2 * (frames->bytes + bytes);
        frames->data = realloc(frames->data, frames->capacity);
        if (!frames->data)
            abort();
    }
    memcpy(frames->data + frames->bytes, frame, bytes);
    frames->bytes += bytes;
    frames->count++;
    return WEFT_OK;
}

/* Encodes all units by `lanes` lanes with a kernel set. `delta` and `digests` as in weft_encode_pass. */
static inline weft_status encode_all(const weft_binding *now, const weft_binding *shadow,
                                     const weft_parameters *parameters, uint32_t levels, uint32_t lanes,
                                     const char *kernels, uint64_t *delta, uint64_t *digests, encode_result *result)
{
    weft_backend counting = weft_backend_host;
    weft_backend_options options = {-1, kernels, 0, 0};
    weft_encoder encoder;
    memset(result, 0, sizeof *result);
    counting.encode = pass_encode;
    weft_status status = weft_encoder_open(&encoder, &counting, &options, NULL, now->layout, lanes);
    if (status != WEFT_OK)
        return status;
    weft_encode_pass pass = {.now = now,
                             .shadow = shadow,
                             .parameters = parameters,
                             .levels = levels,
                             .delta = delta,
                             .emit = pass_emit,
                             .user = result,
                             .digests = digests};
    uint64_t before = atomic_load(&pass_jobs);
    status = weft_encoder_run(&encoder, &pass);
    result->changed = pass.changed;
    result->jobs = atomic_load(&pass_jobs) - before;
    weft_encoder_close(&encoder);
    return status;
}

static inline void encode_result_free(encode_result *result)
{
    for (int level = 0; level < WEFT_LEVEL_COUNT; level++)
        free(result->level[level].data);
    memset(result, 0, sizeof *result);
}

#endif

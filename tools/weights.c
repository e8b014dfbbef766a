#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "status.h"

typedef struct copy_job {
    const weft_model *from;
    const weft_model *to;
    void *header;
    uint64_t header_bytes;
} copy_job;

static weft_status copy_body(void *user)
{
    copy_job *job = user;
    uint64_t count = 0;
    const weft_piece *from = weft_model_pieces(job->from, &count);
    const weft_piece *to = weft_model_pieces(job->to, &count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bytes = weft_layout_tensor_bytes(weft_model_layout(job->from), from[i].tensor);
        if (bytes)
            memcpy(to[i].data, from[i].data, bytes);
    }
    const void *header = weft_model_header(job->from, &job->header_bytes);
    job->header = malloc(job->header_bytes);
    if (!job->header)
        return weft_fail_quiet(WEFT_E_MEMORY, "no memory for a header of %llu bytes",
                               (unsigned long long)job->header_bytes);
    memcpy(job->header, header, job->header_bytes);
    return WEFT_OK;
}

static weft_status copy_model(const weft_model *from, weft_weights *weights)
{
    copy_job job = {.from = from, .to = weights->model};
    weft_status status = weft_model_guard(from, copy_body, &job);
    if (status == WEFT_OK)
        status = weft_model_unchanged(from);
    if (status != WEFT_OK) {
        free(job.header);
        return status;
    }
    free(weights->header);
    weights->header = job.header;
    weights->header_bytes = job.header_bytes;
    return WEFT_OK;
}

static weft_status copy_file(const weft_model *from, const char *path, weft_weights *weights)
{
    weft_status status = copy_model(from, weights);
    if (status != WEFT_OK)
        weft_fail_about("%s", path);
    return status;
}

weft_status weft_weights_create(const weft_layout *layout, weft_weights *weights)
{
    return weft_model_create(layout, &weights->model);
}

weft_status weft_weights_open(const char *path, weft_weights *weights)
{
    weft_model *file = NULL;
    weft_status status = weft_model_open(path, 0, &file);
    if (status != WEFT_OK)
        return status;
    status = weft_weights_create(weft_model_layout(file), weights);
    if (status == WEFT_OK)
        status = copy_file(file, path, weights);
    weft_model_close(file);
    return status;
}

static void tensor_text(const weft_layout *layout, uint64_t index, char *text, size_t capacity)
{
    weft_tensor tensor;
    if (index >= weft_layout_count(layout) || weft_layout_tensor(layout, index, &tensor) != WEFT_OK) {
        snprintf(text, capacity, "nothing");
        return;
    }
    size_t used = (size_t)snprintf(text, capacity, "'%.200s' %s [", tensor.name, weft_dtype_find(tensor.dtype)->name);
    for (uint32_t i = 0; i < tensor.rank && used < capacity; i++)
        used +=
            (size_t)snprintf(text + used, capacity - used, "%s%llu", i ? "," : "", (unsigned long long)tensor.shape[i]);
    if (used < capacity)
        snprintf(text + used, capacity - used, "]");
}

weft_status weft_weights_differ(const char *path, const weft_layout *bound, const weft_layout *file)
{
    char want[512], have[512];
    uint64_t count =
        weft_layout_count(bound) > weft_layout_count(file) ? weft_layout_count(bound) : weft_layout_count(file);
    for (uint64_t i = 0; i < count; i++) {
        tensor_text(bound, i, want, sizeof want);
        tensor_text(file, i, have, sizeof have);
        if (strcmp(want, have) != 0)
            return weft_fail_quiet(
                WEFT_E_LAYOUT,
                "%s: another layout: tensor %llu is %s, but %s in the first model; use checkpoints of "
                "one model only",
                path, (unsigned long long)i, have, want);
    }
    return weft_fail_quiet(WEFT_E_LAYOUT, "%s: another layout than the first model", path);
}

weft_status weft_weights_load(weft_weights *weights, const char *path)
{
    weft_model *file = NULL;
    weft_status status = weft_model_open(path, 0, &file);
    if (status != WEFT_OK)
        return status;
    uint64_t have[2], want[2];
    weft_layout_hash(weft_model_layout(file), have);
    weft_layout_hash(weft_model_layout(weights->model), want);
    if (have[0] != want[0] || have[1] != want[1])
        status = weft_weights_differ(path, weft_model_layout(weights->model), weft_model_layout(file));
    else
        status = copy_file(file, path, weights);
    weft_model_close(file);
    return status;
}

void weft_weights_close(weft_weights *weights)
{
    weft_model_close(weights->model);
    free(weights->header);
    *weights = (weft_weights){0};
}

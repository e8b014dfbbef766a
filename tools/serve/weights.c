#include "tools/serve/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "layout/layout.h"
#include "tools/update/offline.h"

void weft_weights_place(const weft_site *site, const char *peer, weft_weights *weights)
{
    char backend[32] = "host", device[32] = "current";
    weft_site_get(site, peer, peer ? "peer.backend" : "trainer.backend", backend, sizeof backend);
    weft_site_get(site, peer, peer ? "peer.device" : "trainer.device", device, sizeof device);
    weights->driver = weft_gpu_driver_find(backend);
    weights->device = strcmp(device, "current") == 0 ? -1 : (int)strtol(device, NULL, 10);
}

/* ---- from files */

typedef struct copy_job {
    const weft_model *from;
    weft_weights *to;
    void *header;
    uint64_t header_bytes;
} copy_job;

static void copy_to_host(const weft_piece *from, weft_model *host)
{
    uint64_t count = 0;
    const weft_piece *to = weft_model_pieces(host, &count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bytes = weft_layout_tensor_bytes(weft_model_layout(host), from[i].tensor);
        if (bytes)
            memcpy(to[i].data, from[i].data, bytes);
    }
}

static weft_status copy_body(void *user)
{
    copy_job *job = user;
    uint64_t count = 0;
    const weft_piece *from = weft_model_pieces(job->from, &count);
    weft_status status = WEFT_OK;
    if (job->to->far)
        status = weft_device_weights_fill(job->to->far, from);
    else
        copy_to_host(from, job->to->host);
    if (status != WEFT_OK)
        return status;
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
    copy_job job = {.from = from, .to = weights};
    weft_status status = weft_model_guard_all(&from, 1, copy_body, &job);
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
    if (status != WEFT_OK && status != WEFT_E_FILE) /* which says whose it is */
        weft_fail_about("%s", path);
    return status;
}

weft_status weft_weights_create(const weft_layout *layout, weft_weights *weights)
{
    weights->layout = weft_layout_hold((weft_layout *)(uintptr_t)layout); /* only its count of references moves */
    return weights->driver ? weft_device_weights_open(weights->driver, weights->device, layout, &weights->far)
                           : weft_model_create(layout, &weights->host);
}

weft_status weft_weights_begin(const char *path, weft_weights *weights)
{
    weft_status status = weft_model_open(path, 0, &weights->file);
    if (status != WEFT_OK)
        return status;
    status = weft_weights_create(weft_model_layout(weights->file), weights);
    weights->path = strdup(path); /* without memory for it nothing is brought along */
    return status;
}

weft_status weft_weights_fill(const char *path, weft_weights *weights)
{
    weft_status status = copy_file(weights->file, path, weights);
    weft_model_close(weights->file);
    weights->file = NULL;
    return status;
}

weft_status weft_weights_open(const char *path, weft_weights *weights)
{
    weft_status status = weft_weights_begin(path, weights);
    return status == WEFT_OK ? weft_weights_fill(path, weights) : status;
}

weft_status weft_weights_load(weft_weights *weights, const char *path)
{
    weft_model *file = NULL;
    weft_status status = weft_model_open(path, 0, &file);
    if (status != WEFT_OK)
        return status;
    status = weft_model_take_order(file, weights->layout, path, "the first model");
    if (status == WEFT_OK)
        status = copy_file(file, path, weights);
    weft_model_close(file);
    return status;
}

const weft_piece *weft_weights_pieces(const weft_weights *weights, uint64_t *count)
{
    return weights->far ? weft_device_weights_pieces(weights->far, count) : weft_model_pieces(weights->host, count);
}

/* ---- to files */

static weft_status output_write(void *user, const void *data, uint64_t bytes)
{
    return weft_model_output_write(user, data, bytes);
}

/* Weights that no engine loads yet are better than none. */
static void accompany(const weft_weights *weights, weft_model_output *output)
{
    if (weights->path && weft_model_output_accompany(output, weights->path) != WEFT_OK)
        weft_output_say("weft: warn: %s; the weights are written without it", weft_last_error());
}

static weft_status save_to(const weft_weights *weights, weft_model_output *output)
{
    accompany(weights, output);
    weft_status status = weights->far ? weft_device_weights_read(weights->far, &(weft_sink){output, output_write})
                                      : weft_model_output_model(output, weights->host);
    return status == WEFT_OK ? weft_model_output_finish(output) : status;
}

weft_status weft_weights_save_at(const weft_weights *weights, const void *header, uint64_t bytes,
                                 const weft_model_place *place)
{
    weft_model_output *output;
    if (!header || !bytes) {
        header = weights->header;
        bytes = weights->header_bytes;
    }
    weft_status status = weft_model_output_open_at(weights->layout, header, bytes, place, &output);
    if (status != WEFT_OK)
        return status;
    status = save_to(weights, output);
    weft_model_output_close(output);
    return status;
}

weft_status weft_weights_save(const weft_weights *weights, const void *header, uint64_t bytes, const char *path)
{
    char name[256];
    const weft_model_place place = weft_offline_place(weights->path, path, name);
    return weft_weights_save_at(weights, header, bytes, &place);
}

weft_status weft_weights_save_check(const weft_weights *weights, const void *header, uint64_t bytes, const char *path)
{
    char name[256];
    const weft_model_place place = weft_offline_place(weights->path, path, name);
    if (!header || !bytes) {
        header = weights->header;
        bytes = weights->header_bytes;
    }
    return weft_model_place_check(header, bytes, &place);
}

void weft_weights_close(weft_weights *weights)
{
    weft_model_close(weights->file);
    weft_model_close(weights->host);
    weft_device_weights_close(weights->far);
    weft_layout_free(weights->layout);
    free(weights->header);
    free(weights->path);
    *weights = (weft_weights){0};
}

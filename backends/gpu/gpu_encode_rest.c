/* gpu_encode_rest.c - levels full and pairs, and payloads that are not worth a frame: the elements of these units come
 * to the host, as many as memory allows at once, and the host backend codes them. */
#include <string.h>

#include "backends/gpu/gpu_encode.h"
#include "backends/host/host.h"

/* A view whose elements are brought, and where they come to lie. */
typedef struct brought {
    weft_view view; /* with runs of its own, which have addresses on the host */
    uint64_t row;   /* weft_k_copy */
} brought;

struct weft_gpu_rest {
    weft_gpu_sheet rows, dense;
    brought views[2 * WEFT_GPU_JOBS]; /* now and shadow of each job of the round that is the host's */
};

static uint64_t dense_bytes(const weft_view *view)
{
    return weft_gpu_row_bytes((uint64_t)view->count * view->width);
}

static uint64_t view_rows(const weft_view *view)
{
    return weft_gpu_copy_bytes(view) + weft_gpu_parts(view->count, WEFT_K_ELEMENTS) * sizeof(weft_k_part);
}

uint64_t weft_gpu_rest_plain(void)
{
    return sizeof(struct weft_gpu_rest) + WEFT_GPU_ALIGN;
}

static uint64_t beyond(uint64_t bytes, uint64_t there)
{
    return bytes > there ? bytes - there : 0;
}

/* Only single units come to the host, one at a time at the least. They have the memory that the chain had for the
 * lists and payloads of one job. */
weft_gpu_need weft_gpu_rest_need(const weft_encode_job *job)
{
    const weft_gpu_need chain = weft_gpu_chain_least();
    const uint64_t bytes = view_rows(&job->now) + view_rows(&job->shadow) + dense_bytes(&job->now) +
                           dense_bytes(&job->shadow) + 8 * WEFT_GPU_ALIGN;
    const uint64_t runs = (uint64_t)job->now.run_count + job->shadow.run_count;
    if (job->now.units > 1)
        return (weft_gpu_need){0};
    return (weft_gpu_need){.device = beyond(bytes, chain.device),
                           .pinned = beyond(bytes, chain.pinned),
                           .plain = runs * sizeof(weft_run) + 2 * WEFT_GPU_ALIGN};
}

/* Ends the round after the last job for which there is memory. Returns the bytes of the elements. */
static uint64_t round_choose(weft_gpu_batch *batch, uint64_t *rows)
{
    const weft_gpu_slab *slab = batch->slab;
    uint64_t dense = 0;
    *rows = WEFT_GPU_ROW_ALIGN;
    for (batch->end = batch->first; batch->end < slab->count; batch->end++) {
        const weft_encode_job *job = batch->encodings[batch->end].job;
        if (!batch->encodings[batch->end].left)
            continue;
        const uint64_t bytes = dense_bytes(&job->now) + dense_bytes(&job->shadow);
        const uint64_t more = view_rows(&job->now) + view_rows(&job->shadow), all = *rows + more + dense + bytes;
        const uint64_t room = all + 4 * WEFT_GPU_ALIGN;
        if (dense > 0 &&
            (room > slab->device.bytes - slab->device.used || room > slab->pinned.bytes - slab->pinned.used))
            break;
        dense += bytes;
        *rows += more;
    }
    return dense;
}

static void view_put(weft_gpu_batch *batch, brought *made, const weft_view *view)
{
    struct weft_gpu_rest *rest = batch->rest;
    weft_run *runs = weft_gpu_take_plain(batch->slab, view->run_count * sizeof *runs);
    void *host;
    const uint64_t address = weft_gpu_sheet_take(&rest->dense, (uint64_t)view->count * view->width, &host);
    made->row = weft_gpu_copy_put(&rest->rows, view, address);
    made->view = *view;
    made->view.runs = runs;
    made->view.boxes = NULL;
    made->view.run_count = 0;
    for (uint32_t r = 0; r < view->run_count; r++) {
        weft_run *run = &runs[made->view.run_count];
        *run = view->runs[r];
        run->data = (uint8_t *)host + (uint64_t)weft_run_position(view, run) * view->width;
        made->view.run_count += run->count > 0;
    }
}

/* Fills the rows of the round's jobs; returns the number of their parts. */
static uint32_t rows_put(weft_gpu_batch *batch, uint64_t *parts)
{
    struct weft_gpu_rest *rest = batch->rest;
    brought *next = rest->views;
    uint32_t blocks = 0;
    void *made;
    for (uint32_t i = batch->first; i < batch->end; i++) {
        const weft_encode_job *job = batch->encodings[i].job;
        if (!batch->encodings[i].left)
            continue;
        view_put(batch, next++, &job->now);
        view_put(batch, next++, &job->shadow);
        blocks += 2 * weft_gpu_parts(job->now.count, WEFT_K_ELEMENTS);
    }
    *parts = weft_gpu_sheet_take(&rest->rows, blocks * sizeof(weft_k_part), &made);
    weft_k_part *row = made;
    for (const brought *one = rest->views; one < next; one++)
        row = weft_gpu_parts_put(row, one->row, weft_gpu_parts(one->view.count, WEFT_K_ELEMENTS), 0);
    return blocks;
}

weft_status weft_gpu_rest_begin(weft_gpu_batch *batch)
{
    weft_gpu_slab *slab = batch->slab;
    uint64_t rows, parts;
    slab->device.used = batch->device_used;
    slab->pinned.used = batch->pinned_used;
    slab->plain.used = batch->plain_used;
    for (batch->first = batch->end; batch->first < slab->count && !batch->encodings[batch->first].left;)
        batch->first++;
    if (batch->first == slab->count)
        return WEFT_OK;
    const uint64_t dense = round_choose(batch, &rows);
    batch->rest = weft_gpu_take_plain(slab, sizeof *batch->rest);
    batch->rest->rows = weft_gpu_sheet_open(slab, rows, true);
    batch->rest->dense = weft_gpu_sheet_open(slab, dense, true);
    const uint32_t blocks = rows_put(batch, &parts);
    weft_status status = weft_gpu_sheet_send(batch->gpu, slab, &batch->rest->rows);
    if (status == WEFT_OK)
        status = weft_gpu_launch(batch->gpu, slab, WEFT_GPU_KERNEL_load, blocks, parts);
    if (status == WEFT_OK)
        status = weft_gpu_sheet_fetch(batch->gpu, slab, &batch->rest->dense);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

/* Codes a job at the levels that are left. */
static weft_status job_encode(weft_backend_state *host, weft_gpu_encoding *encoding, const brought *views)
{
    weft_encode_job *job = encoding->job, coded = *job;
    coded.now = views[0].view;
    coded.shadow = views[1].view;
    coded.levels = encoding->left;
    const weft_status status = weft_backend_host.encode(host, &coded);
    for (unsigned level = 0; level < WEFT_LEVEL_COUNT; level++)
        if (encoding->left >> level & 1)
            job->frame_bytes[level] = coded.frame_bytes[level];
    job->changed = coded.changed;
    job->diff_ms = coded.diff_ms;
    job->encode_ms = coded.encode_ms;
    encoding->left = 0;
    return status;
}

weft_status weft_gpu_rest_end(weft_gpu_batch *batch)
{
    const brought *views = batch->rest->views;
    weft_status status = WEFT_OK;
    for (uint32_t i = batch->first; i < batch->end && status == WEFT_OK; i++) {
        if (!batch->encodings[i].left)
            continue;
        status = job_encode(batch->gpu->host, &batch->encodings[i], views);
        views += 2;
    }
    return status;
}

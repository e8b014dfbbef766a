/* update_digest.c - the digests of bound weights, by the same workers that make and prove updates. */
#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "update/update_pass.h"
#include "update/update_work.h"

typedef struct weft_update_digester {
    weft_binding binding;
    uint64_t *parts;
    weft_update_pass pass;
} digester;

weft_status weft_update_digest_units(const weft_update_pass *pass, const weft_update_worker *worker,
                                     const weft_binding *binding, uint64_t unit, uint64_t end, uint64_t *parts)
{
    weft_status status = WEFT_OK;
    for (; unit < end && status == WEFT_OK; unit++) {
        weft_digest_job job = {.view = weft_binding_view(binding, unit), .tensor_delta = parts};
        status = weft_backend_wait(pass->backend, worker->device, pass->backend->digest(worker->device, &job), &job);
    }
    return status;
}

static weft_status digest_group(weft_update_pass *pass, weft_update_worker *worker, weft_update_group *group)
{
    const digester *d = pass->user;
    return weft_update_digest_units(pass, worker, &d->binding, group->unit, group->end, d->parts);
}

static weft_status run(digester *d, const weft_layout *layout, const weft_work *work)
{
    weft_status status = WEFT_OK;
    weft_update_pass_begin(&d->pass, 0, digest_group, d);
    while (status == WEFT_OK && weft_update_pass_fill(&d->pass)) {
        status = weft_update_pass_run(&d->pass);
        if (status == WEFT_OK)
            status = weft_update_progress(work, d->pass.next_unit, layout->unit_count);
    }
    return status;
}

weft_status weft_update_digest(const weft_layout *layout, const weft_piece *pieces, uint64_t count,
                               const weft_work *work, uint64_t *parts)
{
    digester d = {.parts = parts};
    weft_status status = weft_binding_open((weft_layout *)(uintptr_t)layout, pieces, count, &d.binding);
    if (status == WEFT_OK)
        status = weft_update_pass_open(&d.pass, layout, work);
    if (status == WEFT_OK)
        status = run(&d, layout, work);
    weft_update_pass_close(&d.pass);
    weft_binding_close(&d.binding);
    return status;
}

weft_status weft_digest_tensors(const weft_layout *layout, const weft_piece *pieces, uint64_t count,
                                const weft_work *work, uint64_t *tensors, uint64_t *root)
{
    weft_work own;
    weft_status status = weft_size_check(work, "weft_work");
    if (status != WEFT_OK)
        return status;
    uint64_t *parts = weft_mem_take(layout->part_count + 1, sizeof *parts);
    if (!parts)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu digests", (unsigned long long)layout->part_count);
    status = weft_update_digest(layout, pieces, count, weft_update_work_take(work, &own), parts);
    for (uint64_t t = 0; t < layout->count && status == WEFT_OK && tensors; t++)
        tensors[t] = weft_digest_tensor(layout, parts, t);
    if (status == WEFT_OK)
        *root = weft_digest_parts_root(layout, parts);
    weft_mem_give(parts);
    return status;
}

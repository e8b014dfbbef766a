#include "update/update_pass.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

#define MEMORY_MOST (UINT64_C(512) << 20) /* of all groups' rooms; untouched pages cost nothing */

/* ---- open */

static weft_status worker_open(weft_update_worker *worker, const weft_backend *backend)
{
    const weft_backend_options options = {-1, "auto", 0, 0};
    uint32_t elements = weft_tile_elements(1);
    worker->changes = (weft_changes){.capacity = elements,
                                     .position = weft_mem_take(elements, sizeof(uint32_t)),
                                     .before = weft_mem_take(elements, 8),
                                     .after = weft_mem_take(elements, 8)};
    if (!worker->changes.position || !worker->changes.before || !worker->changes.after)
        return weft_fail(WEFT_E_MEMORY, "no memory for a change list of %u elements", elements);
    weft_status status = backend->open(&options, &worker->device);
    if (status == WEFT_OK)
        status = weft_packer_open(&worker->packer);
    return status == WEFT_OK ? weft_unpacker_open(&worker->unpacker) : status;
}

static void worker_close(weft_update_worker *worker, const weft_backend *backend)
{
    weft_unpacker_close(&worker->unpacker);
    weft_packer_close(&worker->packer);
    if (worker->device)
        backend->close(worker->device);
    weft_mem_give(worker->changes.after);
    weft_mem_give(worker->changes.before);
    weft_mem_give(worker->changes.position);
}

static weft_status groups_open(weft_update_pass *pass)
{
    uint64_t units = pass->layout->unit_count < WEFT_PASS_UNITS ? pass->layout->unit_count : WEFT_PASS_UNITS;
    uint64_t room = (units ? units : 1) * pass->layout->largest_frame, wanted = 2 * (uint64_t)pass->lanes.count;
    uint64_t most = MEMORY_MOST / (room ? room : 1);
    wanted = wanted < most ? wanted : most ? most : 1;
    pass->group_count = (uint32_t)(wanted < WEFT_PASS_GROUPS ? wanted : WEFT_PASS_GROUPS);
    pass->memory_bytes = room * pass->group_count;
    pass->memory = weft_mem_map(pass->memory_bytes ? pass->memory_bytes : 1);
    if (!pass->memory)
        return weft_fail(WEFT_E_MEMORY, "no memory for frames of %llu bytes", (unsigned long long)pass->memory_bytes);
    for (uint32_t i = 0; i < pass->group_count; i++)
        pass->groups[i] = (weft_update_group){.data = pass->memory + i * room, .capacity = room};
    return WEFT_OK;
}

weft_status weft_update_pass_open(weft_update_pass *pass, const weft_layout *layout, const weft_work *work)
{
    memset(pass, 0, sizeof *pass);
    pass->layout = layout;
    pass->backend = weft_backend_find("host");
    weft_status status = weft_lanes_open(&pass->lanes, weft_team_workers(work ? work->threads : 1));
    if (status != WEFT_OK)
        return status;
    pass->workers = weft_mem_take(pass->lanes.count, sizeof *pass->workers);
    if (!pass->workers)
        status = weft_fail(WEFT_E_MEMORY, "no memory for %u workers", pass->lanes.count);
    for (uint32_t i = 0; i < pass->lanes.count && status == WEFT_OK; i++)
        status = worker_open(&pass->workers[i], pass->backend);
    if (status == WEFT_OK)
        status = groups_open(pass);
    if (status != WEFT_OK)
        weft_update_pass_close(pass);
    return status;
}

void weft_update_pass_close(weft_update_pass *pass)
{
    for (uint32_t i = 0; pass->workers && i < pass->lanes.count; i++)
        worker_close(&pass->workers[i], pass->backend);
    weft_lanes_close(&pass->lanes);
    weft_mem_give(pass->workers);
    if (pass->memory)
        weft_mem_unmap(pass->memory, pass->memory_bytes ? pass->memory_bytes : 1);
    memset(pass, 0, sizeof *pass);
}

/* ---- rounds */

void weft_update_pass_begin(weft_update_pass *pass, uint32_t shift,
                            weft_status (*task)(weft_update_pass *, weft_update_worker *, weft_update_group *),
                            void *user)
{
    pass->shift = shift;
    pass->task = task;
    pass->user = user;
    pass->next_unit = 0;
    pass->filled = 0;
}

static void group_begin(weft_update_group *group, uint64_t unit)
{
    group->unit = group->end = unit;
    group->used = group->changed = 0;
    group->failure = WEFT_OK;
}

void weft_update_pass_take(weft_update_pass *pass, uint64_t unit, uint32_t units)
{
    group_begin(&pass->groups[0], unit);
    pass->groups[0].end = pass->next_unit = unit + units;
    pass->filled = 1;
}

bool weft_update_pass_fill(weft_update_pass *pass)
{
    const weft_layout *layout = pass->layout;
    for (pass->filled = 0; pass->filled < pass->group_count && pass->next_unit < layout->unit_count; pass->filled++) {
        weft_update_group *group = &pass->groups[pass->filled];
        group_begin(group, pass->next_unit);
        while (group->end < layout->unit_count && group->end - group->unit < WEFT_PASS_LEAST)
            group->end += weft_layout_run(layout, group->end, pass->shift);
        pass->next_unit = group->end;
    }
    return pass->filled > 0;
}

static weft_status group_run(void *user, const weft_lane_turn *turn)
{
    weft_update_pass *pass = user;
    return pass->task(pass, &pass->workers[turn->lane], &pass->groups[turn->from]);
}

weft_status weft_update_pass_run(weft_update_pass *pass)
{
    const weft_lane_work work = {.count = pass->filled, .work = group_run, .user = pass};
    return weft_lanes_run(&pass->lanes, &work);
}

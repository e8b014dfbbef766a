#include "update/update_team.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

#define GROUP_UNITS 16u /* a group has at least so many units, if the layout has */
#define GROUP_MOST  (GROUP_UNITS + (1u << WEFT_RUN_SHIFT_MAX))
#define MEMORY_MOST (UINT64_C(512) << 20) /* of all groups' rooms; untouched pages cost nothing */

/* ---- open */

static weft_status lane_open(weft_update_lane *lane, const weft_backend *backend)
{
    const weft_backend_options options = {-1, "auto", 0};
    uint32_t elements = weft_tile_elements(1);
    lane->changes = (weft_changes){.capacity = elements,
                                   .position = weft_mem_take(elements, sizeof(uint32_t)),
                                   .before = weft_mem_take(elements, 8),
                                   .after = weft_mem_take(elements, 8)};
    if (!lane->changes.position || !lane->changes.before || !lane->changes.after)
        return weft_fail(WEFT_E_MEMORY, "no memory for a change list of %u elements", elements);
    weft_status status = backend->open(&options, &lane->device);
    if (status == WEFT_OK)
        status = weft_packer_open(&lane->packer);
    return status == WEFT_OK ? weft_unpacker_open(&lane->unpacker) : status;
}

static void lane_close(weft_update_lane *lane, const weft_backend *backend)
{
    weft_unpacker_close(&lane->unpacker);
    weft_packer_close(&lane->packer);
    if (lane->device)
        backend->close(lane->device);
    weft_mem_give(lane->changes.after);
    weft_mem_give(lane->changes.before);
    weft_mem_give(lane->changes.position);
}

static weft_status groups_open(weft_update_team *team)
{
    uint64_t units = team->layout->unit_count < GROUP_MOST ? team->layout->unit_count : GROUP_MOST;
    uint64_t room = (units ? units : 1) * team->layout->largest_frame, wanted = 2 * (uint64_t)team->crew.lanes;
    uint64_t most = MEMORY_MOST / (room ? room : 1);
    wanted = wanted < most ? wanted : most ? most : 1;
    team->group_count = (uint32_t)(wanted < WEFT_TEAM_GROUPS ? wanted : WEFT_TEAM_GROUPS);
    team->memory_bytes = room * team->group_count;
    team->memory = weft_mem_map(team->memory_bytes ? team->memory_bytes : 1);
    if (!team->memory)
        return weft_fail(WEFT_E_MEMORY, "no memory for frames of %llu bytes", (unsigned long long)team->memory_bytes);
    for (uint32_t i = 0; i < team->group_count; i++)
        team->groups[i] = (weft_update_group){.data = team->memory + i * room, .capacity = room};
    return WEFT_OK;
}

weft_status weft_update_team_open(weft_update_team *team, const weft_layout *layout, const weft_work *work)
{
    memset(team, 0, sizeof *team);
    team->layout = layout;
    team->backend = weft_backend_find("host");
    weft_status status = weft_crew_open(&team->crew, weft_crew_lanes(work ? work->threads : 1));
    if (status != WEFT_OK)
        return status;
    team->lanes = weft_mem_take(team->crew.lanes, sizeof *team->lanes);
    if (!team->lanes)
        status = weft_fail(WEFT_E_MEMORY, "no memory for %u lanes", team->crew.lanes);
    for (uint32_t i = 0; i < team->crew.lanes && status == WEFT_OK; i++)
        status = lane_open(&team->lanes[i], team->backend);
    if (status == WEFT_OK)
        status = groups_open(team);
    if (status != WEFT_OK)
        weft_update_team_close(team);
    return status;
}

void weft_update_team_close(weft_update_team *team)
{
    for (uint32_t i = 0; team->lanes && i < team->crew.lanes; i++)
        lane_close(&team->lanes[i], team->backend);
    weft_crew_close(&team->crew);
    weft_mem_give(team->lanes);
    if (team->memory)
        weft_mem_unmap(team->memory, team->memory_bytes ? team->memory_bytes : 1);
    memset(team, 0, sizeof *team);
}

/* ---- rounds */

void weft_update_team_begin(weft_update_team *team, uint32_t shift,
                            weft_status (*task)(weft_update_team *, weft_update_lane *, weft_update_group *),
                            void *user)
{
    team->shift = shift;
    team->task = task;
    team->user = user;
    team->next_unit = 0;
    team->filled = 0;
}

bool weft_update_team_fill(weft_update_team *team)
{
    const weft_layout *layout = team->layout;
    for (team->filled = 0; team->filled < team->group_count && team->next_unit < layout->unit_count; team->filled++) {
        weft_update_group *group = &team->groups[team->filled];
        group->unit = group->end = team->next_unit;
        while (group->end < layout->unit_count && group->end - group->unit < GROUP_UNITS)
            group->end += weft_layout_run(layout, group->end, team->shift);
        group->used = group->changed = 0;
        group->failed = false;
        team->next_unit = group->end;
    }
    return team->filled > 0;
}

static void lane_run(void *context, uint32_t lane)
{
    weft_update_team *team = context;
    weft_log_sink *before = weft_log_quiet();
    for (uint32_t i; (i = atomic_fetch_add(&team->taken, 1)) < team->filled;)
        team->groups[i].status = team->task(team, &team->lanes[lane], &team->groups[i]);
    weft_log_enter(before);
}

weft_status weft_update_team_run(weft_update_team *team)
{
    atomic_store(&team->taken, 0);
    weft_crew_run(&team->crew, lane_run, team);
    for (uint32_t i = 0; i < team->filled; i++)
        if (team->groups[i].status != WEFT_OK) /* again, where its words are heard */
            return team->task(team, &team->lanes[0], &team->groups[i]) == WEFT_OK
                       ? weft_fail(WEFT_E_STATE, "units %llu to %llu changed while they were read",
                                   (unsigned long long)team->groups[i].unit, (unsigned long long)team->groups[i].end)
                       : team->groups[i].status;
    return WEFT_OK;
}

/* joint.c - the rollout's session: opens its ends, takes their steps, closes them. */
#include "joint/joint.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

/* Descriptors that the step of one end may wait for. */
#define END_FDS (8 + WEFT_PORTS_MAX)

/* Descriptors a relay's step may wait for: two connections and two ports per rollout behind it. */
#define RELAY_FDS (16 + WEFT_PORTS_MAX + 4 * 64)

/* ---- one step */

/* Tells once that a commit waits for weft_settle, which is one commit also where it moved several ends. */
static void check_held(weft_joint *joint, weft_waits *waits)
{
    for (uint32_t i = 0; i < joint->count; i++) {
        if (!joint->ends[i]->stage.held_back)
            continue;
        weft_rollout_check_held(joint->ends[i], weft_clock_ns(), waits);
        return;
    }
}

/* If the caller's thread takes the steps over meanwhile, the rest of this one is that thread's. */
static void step(weft_session *session, bool work, weft_waits *waits)
{
    weft_joint *joint = session->joint;
    const bool parked = atomic_load(&session->parked);
    weft_joint_order_step(joint, waits);
    for (uint32_t i = 0; i < joint->count && atomic_load(&session->parked) == parked; i++)
        weft_rollout_step(joint->ends[i], work, waits);
    check_held(joint, waits);
    if (joint->several && joint->ends[0]->current.bound && atomic_load(&session->parked) == parked)
        weft_accord_step(joint);
}

static bool help(weft_session *session)
{
    const weft_joint *joint = session->joint;
    bool helped = false;
    for (uint32_t i = 0; i < joint->count && !helped; i++)
        helped = weft_proof_help(&joint->ends[i]->stage.proof);
    return helped;
}

static void figures(const weft_session *session, weft_stats_info *stats)
{
    const weft_joint *joint = session->joint;
    const weft_rollout *first = joint->ends[0];
    for (uint32_t i = 0; i < joint->count; i++) {
        const double away_ms = weft_rollout_away_ms(joint->ends[i]);
        stats->away_ms = away_ms > stats->away_ms ? away_ms : stats->away_ms;
    }
    stats->rail_count = weft_inlet_rails(&first->intake, &first->site, stats->rails);
}

/* ---- close */

static void give_back(weft_joint *joint)
{
    weft_session *session = joint->session;
    while (joint->count-- > 0) {
        if (joint->ends[joint->count])
            weft_rollout_give_back(joint->ends[joint->count]);
        if (joint->divisions[joint->count])
            weft_division_close(joint->divisions[joint->count]);
        weft_mem_give(joint->divisions[joint->count]);
    }
    weft_joint_forget(joint);
    weft_session_unmake(session);
    weft_mem_give(joint);
}

static void close_joint(weft_session *session)
{
    weft_joint *joint = session->joint;
    const uint64_t deadline_ns = weft_clock_ns() + session->site->session.close_deadline_ms * WEFT_NS_PER_MS;
    for (uint32_t i = 0; i < joint->count; i++)
        weft_rollout_let_pass(joint->ends[i], deadline_ns);
    weft_session_stop(session);
    weft_log_sink *before = weft_log_enter(&session->sink);
    weft_joint_queue_drop(joint);
    for (uint32_t i = 0; i < joint->count; i++)
        weft_rollout_leave(joint->ends[i], deadline_ns);
    weft_log_enter(before);
    if (session->own_log) /* while a callback may still ask what the session holds */
        weft_session_hand_out(session);
    give_back(joint);
}

/* ---- open */

static weft_status open_end(weft_joint *joint, const weft_site_peer *row, const weft_relay_hooks *hooks)
{
    const weft_rollout_share all = {.ends = 1, .of_bytes = 1};
    joint->count = 1;
    return weft_rollout_make(joint->session, row, &joint->session->division, &all, hooks, &joint->ends[0]);
}

/* Where the end joins source `number`, and where it serves those that join that source through it. */
static weft_status row_for(const weft_joint *joint, const weft_site_peer *row, const char *address, uint32_t number,
                           weft_site_peer *at)
{
    *at = *row;
    snprintf(at->listen, sizeof at->listen, "%s",
             address ? address : weft_site_source_listen(joint->session->site, number));
    if (!row->relay[0] || weft_site_relay_listen(row->relay, number, at->relay))
        return WEFT_OK;
    return weft_fail(WEFT_E_CONFIG, "[peer.%s] relay = %s: there is no port for source %u; choose a lower one",
                     row->name, row->relay, number);
}

static weft_status open_ends(weft_joint *joint, const weft_site_peer *row, const weft_options *options,
                             const weft_relay_hooks *hooks)
{
    uint32_t sources[WEFT_SOURCES_MAX];
    weft_status status = weft_joint_divide(joint, options, sources);
    for (uint32_t i = 0; i < joint->count && status == WEFT_OK; i++) {
        const weft_division *division = joint->divisions[i];
        const weft_rollout_share share = {true, joint->count, sources[i],
                                          (double)division->layout->bytes /
                                              (double)joint->session->division.layout->bytes};
        weft_site_peer at;
        status = row_for(joint, row, options->sources[sources[i]].address, sources[i], &at);
        if (status == WEFT_OK)
            status = weft_rollout_make(joint->session, &at, division, &share, hooks, &joint->ends[i]);
    }
    return status;
}

/* Makes the session without ends. */
static weft_status make_session(const weft_site *site, const weft_site_peer *row, const weft_layout *layout,
                                const weft_options *options, weft_session **session)
{
    const weft_backend_options work = {(int)row->device, row->kernels, row->device_memory,
                                       site->session.device_deadline_ms};
    const uint32_t sources = weft_session_options(options).source_count;
    const uint32_t ends = sources > 0 && sources <= WEFT_SOURCES_MAX ? sources : 1;
    weft_division division;
    weft_status status = weft_session_divide(site, layout, options, false, &division);
    return status == WEFT_OK ? weft_session_make(site, &division, options, row->backend, &work,
                                                 (row->relay[0] ? RELAY_FDS : END_FDS) * ends, session)
                             : status;
}

weft_status weft_joint_open(const weft_site *site, const char *peer, const weft_layout *layout,
                            const weft_options *options, const weft_relay_hooks *hooks, weft_session **session)
{
    weft_site_peer row;
    weft_session *made = NULL;
    weft_status status = weft_site_resolve(site, peer, &row);
    row.device = status == WEFT_OK ? weft_session_device(row.device, options) : -1;
    if (status == WEFT_OK)
        status = make_session(site, &row, layout, options, &made);
    if (status != WEFT_OK)
        return status;
    weft_joint *joint = weft_mem_take(1, sizeof *joint);
    if (!joint) {
        weft_session_unmake(made);
        return weft_fail(WEFT_E_MEMORY, "no memory for a rollout");
    }
    const weft_options given = weft_session_options(options);
    made->joint = joint;
    made->step = step;
    made->figures = figures;
    made->help = help;
    made->close = close_joint;
    joint->session = made;
    joint->several = given.source_count > 0;
    joint->wishes.named = given.wants;
    weft_log_sink *before = weft_log_enter(&made->sink);
    status = joint->several ? open_ends(joint, &row, &given, hooks) : open_end(joint, &row, hooks);
    if (status == WEFT_OK)
        status = weft_joint_keep(joint, &given);
    made->rollout = joint->ends[0];
    weft_log_enter(before);
    if (status != WEFT_OK)
        give_back(joint);
    else
        *session = made;
    return status;
}

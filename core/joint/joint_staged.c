/* joint_staged.c - what the ends have staged or are offered, as one version that may be committed. */
#include <string.h>

#include "base/mix64.h"
#include "joint/joint.h"

bool weft_joint_is_snapshot(const weft_rollout *end)
{
    return end->course.state == WEFT_COURSE_OFFERED ||
           (end->course.state == WEFT_COURSE_STAGED && end->arriving.queue[0].header.snapshot);
}

/* Returns true if the end has something that leads where the trainer wants: a snapshot, or a repair. */
static bool is_led(const weft_rollout *end)
{
    const bool staged = end->course.state == WEFT_COURSE_STAGED;
    return weft_joint_is_snapshot(end) || (staged && end->arriving.queue[0].header.base.run == 0);
}

bool weft_joint_is_offered(const weft_joint *joint, const weft_rollout *end)
{
    return end->course.state == WEFT_COURSE_OFFERED && (!joint->moving || weft_joint_run_of(end) == joint->taking);
}

weft_joint_figures weft_joint_survey(const weft_joint *joint)
{
    weft_joint_figures found = {.ready = true, .one = true};
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_rollout *end = joint->ends[i];
        const bool staged = end->course.state == WEFT_COURSE_STAGED;
        const bool offered = weft_joint_is_offered(joint, end);
        const weft_version *target = staged    ? &end->arriving.queue[0].trailer.target
                                     : offered ? &end->course.offer
                                               : &end->current.version;
        found.staged += staged;
        found.offered += offered;
        found.snapshots += weft_joint_is_snapshot(end);
        found.ready = found.ready && (staged || offered || end->current.known);
        const bool later = target->run == joint->accord.run && found.target.run != joint->accord.run;
        if (i == 0 || later || weft_joint_number(joint, target) > weft_joint_number(joint, &found.target))
            found.target = *target;
        found.target.root = 0;
    }
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_rollout *end = joint->ends[i];
        const bool staged = end->course.state == WEFT_COURSE_STAGED; /* then that is what a commit would move it to */
        found.one = found.one && (staged ? weft_joint_has_staged(end, found.target.run, found.target.number)
                                         : weft_joint_is_at(end, found.target.run, found.target.number));
    }
    return found;
}

bool weft_joint_has_to_join(const weft_joint *joint)
{
    uint32_t led = 0, offered = 0;
    uint64_t most = 0, least_led = UINT64_MAX;
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_rollout *end = joint->ends[i];
        const uint64_t number = end->arriving.queue[0].trailer.target.number;
        const uint64_t has = weft_joint_number(joint, &end->current.version);
        offered += end->course.state == WEFT_COURSE_OFFERED;
        led += is_led(end);
        if (is_led(end))
            least_led = number < least_led ? number : least_led;
        else
            most = has > most ? has : most;
    }
    const bool alone = joint->accord.shuns && least_led == joint->accord.shunned;
    return offered > 0 || led > 1 || (led == 1 && (!joint->whole || least_led < most || alone));
}

static void add_up(const weft_joint *joint, weft_staged_info *all)
{
    for (uint32_t i = 0; i < joint->count; i++) {
        weft_staged_info one = {.size = sizeof one};
        const weft_rollout *end = joint->ends[i];
        const bool staged = weft_rollout_describe(end, &one);
        all->target.root = weft_mix64(all->target.root + (staged ? one.target.root : end->current.version.root));
        if (!staged)
            continue;
        all->changed += one.changed;
        all->bytes += one.bytes;
        all->receive_ms = one.receive_ms > all->receive_ms ? one.receive_ms : all->receive_ms;
        all->decode_ms += one.decode_ms;
        all->encoded |= one.encoded;
        all->pause_ms += one.pause_ms;
    }
}

/* Returns true if all ends have one run, so that snapshots of all come to one version. */
static bool is_one_run(const weft_joint *joint)
{
    bool one = true;
    for (uint32_t i = 1; i < joint->count; i++)
        one = one && weft_joint_run_of(joint->ends[i]) == weft_joint_run_of(joint->ends[0]);
    return one;
}

bool weft_joint_describe(const weft_joint *joint, weft_staged_info *info)
{
    if (!joint->several)
        return weft_rollout_describe(joint->ends[0], info);
    const weft_joint_figures found = weft_joint_survey(joint);
    const bool ready = weft_joint_has_to_join(joint) ? found.ready && is_one_run(joint) : found.one && found.staged > 0;
    if (!ready || joint->moving || joint->held_back)
        return false;
    const bool snapshot = found.snapshots > 0 || weft_joint_has_to_join(joint);
    weft_staged_info all = {.kind = snapshot ? WEFT_STAGED_SNAPSHOT : WEFT_STAGED_UPDATE, .target = found.target};
    if (joint->whole && !snapshot)
        all.base = joint->held;
    add_up(joint, &all);
    if (weft_joint_has_to_join(joint))
        all.target.root = 0; /* which version it comes to is known in the end */
    all.size = info->size < sizeof all ? info->size : sizeof all;
    memcpy(info, &all, all.size);
    return true;
}

weft_status weft_joint_staged(weft_joint *joint, uint32_t deadline_ms, weft_staged_info *info)
{
    const uint64_t deadline_ns = weft_clock_ns() + deadline_ms * WEFT_NS_PER_MS;
    if (!joint->several)
        return weft_rollout_staged(joint->ends[0], deadline_ms, info);
    weft_status status = weft_wishing_check(&joint->wishes);
    while (status == WEFT_OK && !weft_joint_describe(joint, info)) {
        status = weft_joint_await(joint, deadline_ns);
        if (status == WEFT_OK)
            status = weft_wishing_check(&joint->wishes);
    }
    return status;
}

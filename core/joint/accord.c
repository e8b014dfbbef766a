/* accord.c - the ends of several sources agree on a number.
 *
 * Trainers never talk to each other. They publish the same numbers, each when it comes to that. So the rollout wants of
 * all of them one number that all offer: the newest such, or the one that the caller named. All updates to it are
 * staged, and then the weights move.
 *
 * A number stays wanted until the weights have it, or some trainer passes it over. An end may come to a number that
 * nobody wanted, because a snapshot or a repair ends at the newest version. Then the others are brought to that one. An
 * end that has staged less joins again, and what it staged is dropped, because one commit moves all ends to one number.
 * A repair to less than what is wanted comes first, because nothing else leads on from bits that are of no version.
 * While the trainers are of different runs nothing is wanted, so that nothing of two runs is ever mixed. */
#include "base/mix64.h"
#include "base/status.h"
#include "joint/joint.h"

/* ---- what is held */

/* Returns one word for the weights of all ends, from the roots of each, in order. */
static uint64_t root_of(const weft_joint *joint)
{
    uint64_t root = 0;
    for (uint32_t i = 0; i < joint->count; i++)
        root = weft_mix64(root + joint->ends[i]->current.version.root);
    return root;
}

void weft_accord_note(weft_joint *joint)
{
    const weft_version *first = &joint->ends[0]->current.version;
    const uint64_t root = root_of(joint);
    bool known = true, same = first->run != 0;
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_current *current = &joint->ends[i]->current;
        known = known && current->bound && current->known;
        same = same && current->version.run == first->run && current->version.number == first->number;
    }
    joint->whole = known && (same || joint->whole);
    if (joint->whole && same)
        joint->held = (weft_version){first->run, first->number, root};
    else if (joint->whole && root != joint->held.root)
        joint->held = (weft_version){0, 0, root};
}

weft_version weft_accord_held(const weft_joint *joint)
{
    const uint64_t root = root_of(joint);
    const bool moves = joint->moving || joint->held_back; /* the ends do not move at one moment */
    return moves || root == joint->held.root ? joint->held : (weft_version){0, 0, root};
}

/* ---- one number */

/* Returns the run that all trainers have; 0: one of them is away, or they differ. */
static uint64_t common_run(const weft_joint *joint)
{
    const uint64_t run = joint->ends[0]->joining.welcome.run;
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_joining *joining = &joint->ends[i]->joining;
        if (joining->state != WEFT_JOIN_JOINED || joining->welcome.run != run)
            return 0;
    }
    return run;
}

/* Returns true if updates lead on from what an end has: from a version of this run, or from another one that the
 * trainer knows, such as one out of its store. */
static bool may_follow(const weft_rollout *end, uint64_t run)
{
    return end->current.known && (end->current.version.run == run || end->joining.welcome.held.run != 0);
}

/* Returns true if updates lead on from what each end has, or the end has staged a version. */
static bool all_take_part(const weft_joint *joint, uint64_t run)
{
    bool all = !weft_joint_has_to_join(joint);
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_rollout *end = joint->ends[i];
        all = all && (end->course.state == WEFT_COURSE_STAGED ||
                      (end->course.state == WEFT_COURSE_RECEIVING && may_follow(end, run)));
    }
    return all;
}

/* Finds the version that an end is on its way to, or has staged. False: to none. */
static bool heads_for(const weft_rollout *end, uint64_t *number)
{
    if (end->arriving.queued == 0)
        return false;
    *number = end->arriving.queue[end->arriving.queued - 1].header.target.number;
    if (end->course.state == WEFT_COURSE_STAGED) /* of a snapshot the trailer names the version */
        *number = end->arriving.queue[0].trailer.target.number;
    return true;
}

static bool is_idle(const weft_joint *joint)
{
    uint64_t number;
    bool idle = true;
    for (uint32_t i = 0; i < joint->count; i++)
        idle = idle && !heads_for(joint->ends[i], &number);
    return idle;
}

/* Wants the number of every end that neither has it nor is on its way there. */
static void begin(weft_joint *joint, uint64_t number)
{
    weft_accord *accord = &joint->accord;
    uint64_t heading = 0;
    accord->open = true;
    accord->number = number;
    for (uint32_t i = 0; i < joint->count; i++) {
        weft_rollout *end = joint->ends[i];
        const bool heads = heads_for(end, &heading);
        if (heads && heading != number)
            weft_join_again(end, "another source has no version of that number");
        if (!weft_joint_is_at(end, accord->run, number) && !(heads && heading == number))
            weft_wishing_want(end, number);
    }
}

/* Wants nothing any more: each end is asked for what it has. */
static void give_up(weft_joint *joint)
{
    joint->accord.open = false;
    for (uint32_t i = 0; i < joint->count; i++) {
        weft_rollout *end = joint->ends[i];
        if (end->wishing.open && end->current.version.run == joint->accord.run)
            weft_wishing_want(end, end->current.version.number);
    }
}

static void take_passed(weft_joint *joint)
{
    weft_accord *accord = &joint->accord;
    for (uint32_t i = 0; i < joint->count; i++) {
        weft_wishing *wishing = &joint->ends[i]->wishing;
        const weft_wire_passed passed = wishing->passed;
        wishing->passed.reason = (weft_wire_pass)0;
        if (passed.reason == 0 || !accord->open || passed.number != accord->number)
            continue;
        accord->shuns = true;
        accord->shunned = passed.number;
        accord->below = passed.below;
        if (joint->wishes.named && !accord->named) /* else nobody asked for this one, or the wish was replaced */
            joint->wishes.passed = passed;
        give_up(joint);
        weft_session_changed(joint->session);
    }
}

/* Finds the newest number that all trainers offer. False: one of them has offered none. */
static bool least_offered(const weft_joint *joint, uint64_t *number)
{
    bool all = true;
    *number = UINT64_MAX;
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_wishing *wishing = &joint->ends[i]->wishing;
        all = all && wishing->offers;
        *number = wishing->offered < *number ? wishing->offered : *number;
    }
    return all;
}

/* Finds the largest number that an end has, or has come to by itself. False: all ends have what is wanted, or less. */
static bool find_lead(const weft_joint *joint, uint64_t *lead)
{
    const weft_accord *accord = &joint->accord;
    bool found = false;
    uint64_t number;
    *lead = 0;
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_rollout *end = joint->ends[i];
        const bool heads = heads_for(end, &number) && !(accord->shuns && number == accord->shunned);
        const uint64_t reached = heads ? number : weft_joint_number(joint, &end->current.version);
        found = found || heads;
        *lead = reached > *lead ? reached : *lead;
    }
    return accord->open ? *lead > accord->number : found;
}

/* Finds a repair of a lower number than the one wanted, which no end has passed. It cannot be led on before it is
 * committed. */
static bool find_repair(const weft_joint *joint, uint64_t *number)
{
    uint64_t floor = 0;
    bool found = false;
    for (uint32_t i = 0; i < joint->count; i++) {
        const weft_rollout *end = joint->ends[i];
        const weft_incoming *first = &end->arriving.queue[0];
        const uint64_t has = weft_joint_number(joint, &end->current.version);
        floor = has > floor ? has : floor;
        if (end->course.state != WEFT_COURSE_STAGED || first->header.snapshot || first->header.base.run != 0)
            continue;
        found = true;
        *number = weft_joint_number(joint, &first->trailer.target);
    }
    return found && joint->accord.open && *number < joint->accord.number && *number >= floor;
}

/* Finds the least number that all ends can come to. False: some trainer has not published it yet. */
static bool choose(const weft_joint *joint, uint64_t *number)
{
    const weft_accord *accord = &joint->accord;
    uint64_t least, floor = 0;
    if (!least_offered(joint, &least))
        return false;
    for (uint32_t i = 0; i < joint->count; i++) {
        const uint64_t has = weft_joint_number(joint, &joint->ends[i]->current.version);
        floor = has > floor ? has : floor;
    }
    *number = least > floor ? least : floor;
    if (accord->shuns && *number == accord->shunned)
        *number = accord->below;
    return *number <= least && *number >= floor;
}

static bool is_reached(const weft_joint *joint, uint64_t number)
{
    bool reached = true;
    for (uint32_t i = 0; i < joint->count; i++)
        reached = reached && weft_joint_is_at(joint->ends[i], joint->accord.run, number);
    return reached;
}

/* Drops what is staged of another number than the one wanted: an update that was begun before that was wanted. */
static void drop_others(weft_joint *joint)
{
    for (uint32_t i = 0; i < joint->count; i++) {
        weft_rollout *end = joint->ends[i];
        if (end->course.state == WEFT_COURSE_STAGED &&
            !weft_joint_has_staged(end, joint->accord.run, joint->accord.number))
            weft_join_again(end, "another version is wanted now");
    }
}

/* Wants the number again of an end that had staged it and gave it up, because its source did not know that. */
static void want_again(weft_joint *joint)
{
    const weft_accord *accord = &joint->accord;
    uint64_t heading;
    for (uint32_t i = 0; i < joint->count; i++) {
        weft_rollout *end = joint->ends[i];
        const bool wants = end->wishing.open && end->wishing.number == accord->number;
        if (!wants && !heads_for(end, &heading) && !weft_joint_is_at(end, accord->run, accord->number))
            weft_wishing_want(end, accord->number);
    }
}

/* Wants the number of a repair first. What is wanted now comes after that. */
static void begin_repair(weft_joint *joint, uint64_t number)
{
    weft_accord *accord = &joint->accord;
    if (joint->wishes.named && !accord->named) {
        accord->named = true;
        accord->wanted = accord->number;
    }
    for (uint32_t i = 0; i < joint->count; i++)
        if (weft_joint_is_at(joint->ends[i], accord->run, number))
            weft_wishing_want(joint->ends[i], number);
    begin(joint, number);
}

static void agree(weft_joint *joint)
{
    weft_accord *accord = &joint->accord;
    uint64_t number;
    accord->open = accord->open && !is_reached(joint, accord->number);
    if (find_lead(joint, &number)) {
        begin(joint, number);
    } else if (find_repair(joint, &number)) {
        begin_repair(joint, number);
    } else if (accord->named && (!accord->open || is_idle(joint))) {
        accord->named = false;
        accord->shuns = false;
        if (!is_reached(joint, accord->wanted))
            begin(joint, accord->wanted);
    } else if (!joint->wishes.named && !accord->open && choose(joint, &number) && !is_reached(joint, number)) {
        begin(joint, number);
    }
    if (accord->open) {
        drop_others(joint);
        want_again(joint);
    }
}

/* ---- the step */

/* Tells once what is ready to commit. */
static void tell(weft_joint *joint)
{
    weft_staged_info info = {.size = sizeof info};
    const bool ready = weft_joint_describe(joint, &info);
    if (ready && !joint->told) {
        weft_session_event(joint->session, WEFT_EVENT_STAGED, WEFT_OK, joint->ends[0]->site.name, &info.target, "");
        weft_session_changed(joint->session);
    }
    joint->told = ready;
}

/* Tells once that two trainers have different runs, because nothing comes before they have one. */
static void tell_apart(weft_joint *joint)
{
    weft_accord *accord = &joint->accord;
    const weft_joining *first = NULL, *other = NULL;
    char names[2][WEFT_SITE_NAME + 8];
    for (uint32_t i = 0; i < joint->count && !other; i++) {
        const weft_joining *joining = &joint->ends[i]->joining;
        if (joining->state != WEFT_JOIN_JOINED)
            continue;
        if (!first)
            first = joining;
        else if (joining->welcome.run != first->welcome.run)
            other = joining;
    }
    if (!other || (accord->apart[0] == first->welcome.run && accord->apart[1] == other->welcome.run))
        return;
    accord->apart[0] = first->welcome.run;
    accord->apart[1] = other->welcome.run;
    weft_gateway_trainer(&first->route, names[0]);
    weft_gateway_trainer(&other->route, names[1]);
    weft_log(
        WEFT_LOG_WARN,
        "%s has run %llu and %s has run %llu: nothing is taken, and what is held is served, until all sources have "
        "one run; start one of them again with the run of the other",
        names[0], (unsigned long long)accord->apart[0], names[1], (unsigned long long)accord->apart[1]);
    weft_session_changed(joint->session);
}

void weft_accord_step(weft_joint *joint)
{
    weft_accord *accord = &joint->accord;
    if (joint->moving || joint->held_back || joint->session->ended != WEFT_OK)
        return;
    weft_accord_note(joint);
    const uint64_t run = common_run(joint);
    if (run)
        accord->apart[0] = accord->apart[1] = 0;
    else
        tell_apart(joint);
    if (run && run != accord->run) {
        give_up(joint);
        accord->run = run;
        accord->shuns = false;
    }
    take_passed(joint);
    if (run && all_take_part(joint, run))
        agree(joint);
    tell(joint);
}

/* ---- the public calls */

weft_status weft_joint_want(weft_joint *joint, uint64_t number)
{
    if (!joint->several)
        return weft_wishing_want(joint->ends[0], number);
    if (!joint->wishes.named)
        return weft_fail(WEFT_E_STATE, "weft_want: this session takes each version; open it with weft_options.wants");
    joint->accord.named = true;
    joint->accord.wanted = number;
    joint->wishes.passed.reason = (weft_wire_pass)0;
    weft_session_wake(joint->session);
    return WEFT_OK;
}

weft_status weft_joint_offered(weft_joint *joint, uint64_t after, uint32_t deadline_ms, uint64_t *number)
{
    const uint64_t deadline_ns = weft_clock_ns() + deadline_ms * WEFT_NS_PER_MS;
    uint64_t least;
    weft_status status = WEFT_OK;
    if (!joint->several)
        return weft_wishing_offered(joint->ends[0], after, deadline_ms, number);
    if (!joint->wishes.named)
        return weft_fail(WEFT_E_STATE,
                         "weft_offered: this session takes each version; open it with weft_options.wants");
    while (status == WEFT_OK &&
           (!common_run(joint) || !least_offered(joint, &least) || (after != UINT64_MAX && least <= after)))
        status = weft_joint_await(joint, deadline_ns);
    if (status == WEFT_OK)
        *number = least;
    return status;
}

/* api.c - the public calls that both ends answer, and the trainer's questions about its peers.
 *
 * In comes a call of weft.h, with a session that is a trainer's or a rollout's. Each call takes its turn first
 * (base/turn.c), which refuses calls that no lock keeps apart. Then it checks what the caller gave, such as the size of
 * a struct, because the caller may have been built with another version. With progress by hand, a call that waits also
 * takes the session's steps.
 *
 * Under the session's lock the call asks the part that has the answer. weft_held and weft_attachment ask the trainer's
 * publisher or the rollout. weft_staged, weft_commit and weft_scrub are the rollout's alone, and go on in that room.
 * weft_peers copies out the record of each peer. weft_wait judges those records again after each change. It ends when
 * all that are waited for hold the version, when all are lost, or at the deadline.
 *
 * Out goes a status, and results only on WEFT_OK or as weft.h says. An error names what is missing, such as the peers
 * that do not hold the version yet. weft_bind is in bind.c, and weft_publish in trainer/publish.c. Each end opens and
 * closes its own sessions. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "joint/joint.h"
#include "trainer/publish.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *weft_version_string(void)
{
    return TEXT(WEFT_VERSION_MAJOR) "." TEXT(WEFT_VERSION_MINOR) "." TEXT(WEFT_VERSION_PATCH);
}

weft_status weft_held(weft_session *session, weft_version *held)
{
    weft_status status = weft_turn_here(&session->turn, "weft_held");
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    const bool holds = session->trainer ? session->trainer->publisher.bound : weft_joint_held(session->joint, held);
    if (session->trainer && holds)
        *held = session->trainer->publisher.newest.version;
    weft_session_leave(session, before);
    return holds ? WEFT_OK : weft_fail_quiet(WEFT_E_STATE, "nothing is held");
}

/* ---- calls that make steps, with progress by hand */

static weft_status steps_begin(weft_session *session, const char *call)
{
    return session->site->session.progress == WEFT_PROGRESS_MANUAL
               ? weft_turn_begin(&session->turn, WEFT_TURN_STEPS, call)
               : WEFT_OK;
}

static void steps_end(weft_session *session)
{
    if (session->site->session.progress == WEFT_PROGRESS_MANUAL)
        weft_turn_end(&session->turn, WEFT_TURN_STEPS);
}

static weft_status wait_begin(weft_session *session, weft_turn_guest guest)
{
    weft_status status = weft_turn_join(&session->turn, guest);
    if (status != WEFT_OK)
        return status;
    status = steps_begin(session, weft_turn_name(guest));
    if (status != WEFT_OK)
        weft_turn_leave(&session->turn, guest);
    return status;
}

static void wait_end(weft_session *session, weft_turn_guest guest)
{
    steps_end(session);
    weft_turn_leave(&session->turn, guest);
}

/* ---- rollout */

static weft_status need_rollout(const weft_session *session, const char *call)
{
    return session->rollout ? WEFT_OK : weft_fail(WEFT_E_STATE, "%s: this session is a trainer's", call);
}

weft_status weft_staged(weft_session *session, uint32_t deadline_ms, weft_staged_info *info)
{
    weft_status status = need_rollout(session, "weft_staged");
    if (status == WEFT_OK)
        status = weft_size_check(info, "weft_staged_info");
    if (status == WEFT_OK)
        status = wait_begin(session, WEFT_TURN_STAGED);
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    status = weft_joint_staged(session->joint, deadline_ms, info);
    weft_session_leave(session, before);
    wait_end(session, WEFT_TURN_STAGED);
    return status;
}

weft_status weft_want(weft_session *session, uint64_t number)
{
    weft_status status = need_rollout(session, "weft_want");
    if (status == WEFT_OK)
        status = weft_turn_join(&session->turn, WEFT_TURN_WANT);
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    status = weft_joint_want(session->joint, number);
    weft_session_leave(session, before);
    weft_turn_leave(&session->turn, WEFT_TURN_WANT);
    return status;
}

weft_status weft_offered(weft_session *session, uint64_t after, uint32_t deadline_ms, uint64_t *number)
{
    weft_status status = need_rollout(session, "weft_offered");
    if (status == WEFT_OK && !number)
        status = weft_fail(WEFT_E_ARGUMENT, "weft_offered: number must not be NULL");
    if (status == WEFT_OK)
        status = wait_begin(session, WEFT_TURN_OFFERED);
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    status = weft_joint_offered(session->joint, after, deadline_ms, number);
    weft_session_leave(session, before);
    wait_end(session, WEFT_TURN_OFFERED);
    return status;
}

static weft_status commit_alone(weft_session *session, uint64_t version, void *stream, uint32_t flags,
                                weft_version *held)
{
    weft_status status = steps_begin(session, "weft_commit");
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    status = weft_joint_commit(session->joint, version, stream, flags, held);
    weft_session_leave(session, before);
    steps_end(session);
    return status;
}

weft_status weft_commit(weft_session *session, uint64_t version, void *stream, uint32_t flags, weft_version *held)
{
    weft_status status = need_rollout(session, "weft_commit");
    if (status == WEFT_OK && (flags & ~(WEFT_COMMIT_HOLD | WEFT_COMMIT_QUEUE)))
        status = weft_fail(WEFT_E_ARGUMENT, "commit: flags %x are reserved",
                           flags & ~(WEFT_COMMIT_HOLD | WEFT_COMMIT_QUEUE));
    if (status == WEFT_OK)
        status = weft_turn_begin(&session->turn, WEFT_TURN_WEIGHTS, "weft_commit");
    if (status != WEFT_OK)
        return status;
    status = commit_alone(session, version, stream, flags, held);
    weft_turn_end(&session->turn, WEFT_TURN_WEIGHTS);
    return status;
}

weft_status weft_settle(weft_session *session, weft_settlement how, void *stream, weft_version *held)
{
    weft_status status = need_rollout(session, "weft_settle");
    if (status == WEFT_OK && how != WEFT_SETTLE_KEEP && how != WEFT_SETTLE_UNDO)
        status = weft_fail(WEFT_E_ARGUMENT, "settle: %d is neither WEFT_SETTLE_KEEP nor WEFT_SETTLE_UNDO", (int)how);
    if (status == WEFT_OK)
        status = weft_turn_begin(&session->turn, WEFT_TURN_WEIGHTS, "weft_settle");
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    status = weft_joint_settle(session->joint, how, stream, held);
    weft_session_leave(session, before);
    weft_turn_end(&session->turn, WEFT_TURN_WEIGHTS);
    return status;
}

weft_status weft_attachment(weft_session *session, const void **data, uint64_t *bytes)
{
    if (!data || !bytes)
        return weft_fail(WEFT_E_ARGUMENT, "weft_attachment: data and bytes must not be NULL");
    weft_status status = weft_turn_join(&session->turn, WEFT_TURN_ATTACHMENT);
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    const weft_blob *blob =
        session->trainer ? session->trainer->publisher.newest.attachment : session->rollout->current.attachment;
    *data = blob ? blob->data : NULL;
    *bytes = blob ? blob->bytes : 0;
    weft_session_leave(session, before);
    weft_turn_leave(&session->turn, WEFT_TURN_ATTACHMENT);
    return WEFT_OK;
}

weft_status weft_scrub(weft_session *session)
{
    weft_status status = need_rollout(session, "weft_scrub");
    if (status == WEFT_OK)
        status = weft_turn_begin(&session->turn, WEFT_TURN_WEIGHTS, "weft_scrub");
    if (status != WEFT_OK)
        return status;
    weft_log_sink *before = weft_session_enter(session);
    status = weft_joint_scrub(session->joint);
    weft_session_leave(session, before);
    weft_turn_end(&session->turn, WEFT_TURN_WEIGHTS);
    return status;
}

/* ---- peers */

static void describe_peer(weft_publisher *publisher, const weft_peer *peer, weft_peer_info *info)
{
    *info = peer->info;
    snprintf(info->name, sizeof info->name, "%s", peer->claim.name);
    snprintf(info->backend, sizeof info->backend, "%s", peer->claim.hello.backend);
    info->state = peer->state;
    info->provider = peer->sender.rails.outlet && peer->sender.rails.outlet->provider
                         ? peer->sender.rails.outlet->provider->name
                         : "";
    info->level = weft_level_name(peer->tuning.level);
    snprintf(info->via, sizeof info->via, "%s", peer->following.parent ? peer->following.parent->claim.name : "");
    info->held = peer->standing.held;
    info->lag = weft_peer_lag(&publisher->newest, &peer->standing);
    info->lag_ms = (double)weft_peer_lag_ns(&publisher->journal, &publisher->newest, peer) / 1e6;
    info->rate_bytes_s = peer->tuning.estimate.rate_bytes_s;
    info->rtt_ms = peer->tuning.estimate.rtt_s * 1e3;
    info->apply_bytes_s = weft_estimate_apply(&peer->tuning.estimate, peer->tuning.level);
    info->bucket_cost_ms =
        (weft_estimate_post(&peer->tuning.estimate) + weft_estimate_accept(&peer->tuning.estimate)) * 1e3;
    info->bucket_bound = weft_bucket_bound_name(peer->tuning.bound);
    info->streams = weft_rail_streams(&peer->sender.rails);
    info->rail_count = weft_rail_describe(&peer->sender.rails, info->rails);
}

static void describe_self(const weft_rollout *rollout, weft_peer_info *info)
{
    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "%s", rollout->site.name);
    if (rollout->joining.route.source)
        snprintf(info->name, sizeof info->name, "source %u", rollout->joining.route.source - 1);
    snprintf(info->backend, sizeof info->backend, "%s", rollout->session->backend_name);
    info->state = rollout->joining.state == WEFT_JOIN_JOINED ? WEFT_PEER_LIVE : WEFT_PEER_LOST;
    info->provider = rollout->intake.provider->name;
    info->level = rollout->stage.level;
    info->bucket_bound = "";
    info->streams = weft_inlet_used(&rollout->intake);
    info->rail_count = weft_inlet_rails(&rollout->intake, &rollout->site, info->rails);
    info->held = rollout->current.version;
    info->update_bytes = rollout->stage.last.bytes;
    snprintf(info->via, sizeof info->via, "%s", rollout->joining.route.gateways[rollout->joining.route.at].relay);
}

/* `size`: of the caller's struct. */
static void put_peer(weft_peer_info *peers, size_t size, size_t at, weft_peer_info *all)
{
    all->size = size < sizeof *all ? size : sizeof *all;
    memcpy((char *)peers + at * size, all, all->size);
}

weft_status weft_peers(weft_session *session, weft_peer_info *peers, size_t capacity, size_t *count)
{
    size_t found = 0;
    if (!count || (capacity > 0 && !peers))
        return weft_fail(WEFT_E_ARGUMENT, "weft_peers: count and peers must not be NULL");
    weft_status status = weft_size_check(capacity > 0 ? peers : NULL, "weft_peer_info");
    if (status == WEFT_OK)
        status = weft_turn_here(&session->turn, "weft_peers");
    if (status != WEFT_OK)
        return status;
    const size_t size = capacity > 0 ? peers->size : 0;
    weft_peer_info all;
    weft_log_sink *before = weft_session_enter(session);
    for (; session->joint && found < session->joint->count; found++) {
        describe_self(session->joint->ends[found], &all);
        if (found < capacity)
            put_peer(peers, size, found, &all);
    }
    for (uint32_t i = 0; session->trainer && i < session->trainer->peers.count; i++) {
        const weft_peer *peer = &session->trainer->peers.list[i];
        if (!peer->claim.known)
            continue;
        if (found < capacity) {
            describe_peer(&session->trainer->publisher, peer, &all);
            put_peer(peers, size, found, &all);
        }
        found++;
    }
    weft_session_leave(session, before);
    *count = found;
    return WEFT_OK;
}

/* ---- wait */

typedef enum verdict { VERDICT_HOLDS, VERDICT_WAITS, VERDICT_LOST } verdict;

static verdict judge(const weft_publisher *publisher, const weft_peer *peer, uint64_t version)
{
    if (peer->standing.held.run == publisher->run && peer->standing.held.number >= version &&
        peer->standing.held_order != WEFT_ORDER_UNKNOWN)
        return VERDICT_HOLDS;
    return peer->state == WEFT_PEER_LOST ? VERDICT_LOST : VERDICT_WAITS;
}

static const weft_peer *find_peer(const weft_peer_table *peers, const char *name)
{
    for (uint32_t i = 0; i < peers->count; i++)
        if (peers->list[i].claim.known && strcmp(peers->list[i].claim.name, name) == 0)
            return &peers->list[i];
    return NULL;
}

static verdict judge_name(const weft_publisher *publisher, const char *name, uint64_t version)
{
    const weft_peer *peer = find_peer(publisher->peers, name);
    return peer ? judge(publisher, peer, version) : VERDICT_WAITS;
}

/* The worst verdict over the named peers. */
static verdict judge_named(const weft_publisher *publisher, uint64_t version, const char *const *names, size_t count)
{
    verdict worst = VERDICT_HOLDS;
    for (size_t i = 0; i < count; i++) {
        verdict one = judge_name(publisher, names[i], version);
        worst = one > worst ? one : worst;
    }
    return worst;
}

/* Every peer that has joined: lost ones are left out unless all are. `*last` is who was waited for last: while that one
 * has not moved, nobody else need be asked. */
static verdict judge_all(const weft_publisher *publisher, uint64_t version, uint32_t *last)
{
    const weft_peer *waited = &publisher->peers->list[*last];
    if (waited->claim.known && judge(publisher, waited, version) == VERDICT_WAITS)
        return VERDICT_WAITS;
    uint32_t seen = 0, lost = 0;
    verdict worst = VERDICT_HOLDS;
    for (uint32_t i = 0; i < publisher->peers->count; i++) {
        const weft_peer *peer = &publisher->peers->list[i];
        if (!peer->claim.known)
            continue;
        verdict one = judge(publisher, peer, version);
        seen++;
        lost += one == VERDICT_LOST;
        if (one == VERDICT_WAITS) {
            worst = VERDICT_WAITS;
            *last = i;
        }
    }
    return seen && lost == seen ? VERDICT_LOST : worst;
}

#define NAME_SHOWN 63 /* bytes, as many as a peer's name can have; what is waited for may be no peer's */

/* Names for an error's text: as many as have room, and how many more there are. */
typedef struct name_list {
    char text[256];
    size_t used, more;
} name_list;

static void list_add(name_list *list, const char *name)
{
    const size_t room = sizeof list->text - list->used, need = strnlen(name, NAME_SHOWN) + sizeof ", ";
    if (list->more || need > room)
        list->more++;
    else
        list->used +=
            (size_t)snprintf(list->text + list->used, room, "%s%.*s", list->used ? ", " : "", NAME_SHOWN, name);
}

/* Those that are waited for of whom `found` is true. */
static name_list list_found(const weft_publisher *publisher, uint64_t version, const char *const *names, size_t count,
                            verdict found)
{
    name_list list = {0};
    for (size_t i = 0; names && i < count; i++)
        if (judge_name(publisher, names[i], version) == found)
            list_add(&list, names[i]);
    for (uint32_t i = 0; !names && i < publisher->peers->count; i++) {
        const weft_peer *peer = &publisher->peers->list[i];
        if (peer->claim.known && judge(publisher, peer, version) == found)
            list_add(&list, peer->claim.name);
    }
    return list;
}

static weft_status wait_failed(verdict found, const name_list *missing, uint64_t version, uint32_t deadline_ms)
{
    char more[40] = "";
    if (missing->more)
        snprintf(more, sizeof more, " and %zu more", missing->more);
    if (found == VERDICT_LOST)
        return weft_fail_quiet(WEFT_E_PEER_LOST, "wait: lost without version %llu: %s%s", (unsigned long long)version,
                               missing->text, more);
    return weft_fail_quiet(WEFT_E_TIMEOUT, "wait: after %u ms version %llu is not held by %s%s", deadline_ms,
                           (unsigned long long)version, missing->text, more);
}

static bool was_published(weft_session *session, uint64_t version)
{
    weft_log_sink *before = weft_session_enter(session);
    const weft_trainer *trainer = session->trainer;
    const bool published = trainer && trainer->publisher.bound && version <= trainer->publisher.newest.version.number;
    weft_session_leave(session, before);
    return published;
}

static weft_status wait_held(weft_session *session, uint64_t version, const char *const *peers, size_t count,
                             uint32_t deadline_ms)
{
    uint64_t deadline_ns = weft_clock_ns() + deadline_ms * WEFT_NS_PER_MS;
    const weft_trainer *trainer = session->trainer;
    if (!was_published(session, version))
        return weft_fail(WEFT_E_STATE, "wait: version %llu was not published here", (unsigned long long)version);
    weft_log_sink *before = weft_session_enter(session);
    verdict found;
    bool interrupted;
    uint32_t last = 0;
    do {
        found = peers ? judge_named(&trainer->publisher, version, peers, count)
                      : judge_all(&trainer->publisher, version, &last);
        interrupted = found == VERDICT_WAITS && weft_session_interrupted(session);
    } while (found == VERDICT_WAITS && !interrupted && weft_session_wait(session, deadline_ns));
    const name_list missing =
        found == VERDICT_HOLDS ? (name_list){0} : list_found(&trainer->publisher, version, peers, count, found);
    weft_session_leave(session, before);
    if (found == VERDICT_HOLDS)
        return WEFT_OK;
    return interrupted ? weft_fail_quiet(WEFT_E_TIMEOUT, "wait: interrupted")
                       : wait_failed(found, &missing, version, deadline_ms);
}

weft_status weft_wait(weft_session *session, uint64_t version, const char *const *peers, size_t count,
                      uint32_t deadline_ms)
{
    weft_status status = wait_begin(session, WEFT_TURN_WAIT);
    if (status != WEFT_OK)
        return status;
    status = wait_held(session, version, peers, count, deadline_ms);
    wait_end(session, WEFT_TURN_WAIT);
    return status;
}

/* search.c - asks the trainer for digests to find the tensor and the tile in which bits here differ from a version's.
 *
 * One question is under way at a time: first about all tensors, page by page, then about the tiles of the first that
 * differs. It changes nothing of what follows: a fault waits for the answer no longer than io_deadline. */
#include <stdio.h>
#include <string.h>

#include "digest.h"
#include "part.h"
#include "rollout.h"
#include "status.h"

/* Versions that unknown bits are compared with, from the newest back: a model is stale by a few, or by too many. */
#define WALK_MAX 16u

static uint64_t limit_of(const weft_rollout *rollout)
{
    const weft_search *search = &rollout->search;
    const weft_layout *layout = rollout->session->layout;
    return search->tiles ? weft_part_count(layout, search->tensor) : layout->count;
}

static weft_status ask(weft_rollout *rollout)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    weft_search *search = &rollout->search;
    uint64_t left = limit_of(rollout) - search->next;
    search->query = (weft_wire_query){.version = search->version,
                                      .kind = search->tiles ? WEFT_DIGESTS_TILES : WEFT_DIGESTS_TENSORS,
                                      .tensor = search->tiles ? search->tensor : 0,
                                      .first = search->next,
                                      .count = left < WEFT_DIGESTS_MAX ? (uint32_t)left : WEFT_DIGESTS_MAX};
    weft_wire_put_query(&out, &search->query);
    rollout->moved_ns = weft_clock_ns();
    return weft_join_send(rollout, WEFT_MESSAGE_QUERY, &out);
}

static weft_status begin(weft_rollout *rollout, weft_search_reason reason, const uint64_t *mine, weft_version version)
{
    uint64_t patience_ms = rollout->session->site->session.io_deadline_ms;
    rollout->search = (weft_search){.reason = reason,
                                    .late = rollout->search.late,
                                    .mine = mine,
                                    .version = version,
                                    .nearest_count = UINT64_MAX,
                                    .until_ns = weft_clock_ns() + patience_ms * WEFT_NS_PER_MS};
    rollout->search.done = rollout->session->layout->count == 0;
    return rollout->search.done ? WEFT_OK : ask(rollout);
}

weft_status weft_search_target(weft_rollout *rollout)
{
    rollout->doubt = rollout->doubt || rollout->holds; /* even if the connection is lost before the fault is told */
    weft_status status = begin(rollout, WEFT_SEARCH_TARGET, rollout->staged, rollout->queue[0].trailer.target);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

weft_status weft_search_join(weft_rollout *rollout)
{
    return begin(rollout, WEFT_SEARCH_JOIN, rollout->digests, (weft_version){0, 0, 0});
}

/* ---- answers */

static void name_part(weft_rollout *rollout, uint64_t part)
{
    weft_search *search = &rollout->search;
    char name[WEFT_PART_TEXT];
    weft_part_name(rollout->session->layout, part, name);
    if (search->nearest_count > 1)
        snprintf(search->name, sizeof search->name, "%s and %llu tensors more", name,
                 (unsigned long long)search->nearest_count - 1);
    else
        snprintf(search->name, sizeof search->name, "%s", name);
    search->done = true;
}

/* All tensors of a version were compared: on to the one before it, or to the tiles of the nearest. */
static weft_status end_of_tensors(weft_rollout *rollout, const weft_version *before)
{
    weft_search *search = &rollout->search;
    const weft_layout *layout = rollout->session->layout;
    if (search->count < search->nearest_count) {
        search->nearest_count = search->count;
        search->nearest = search->version;
        search->tensor = search->first;
    }
    search->next = search->count = 0;
    if (search->reason == WEFT_SEARCH_JOIN && search->nearest_count > 1 && before->run && ++search->walked < WALK_MAX) {
        search->version = *before;
        return ask(rollout);
    }
    search->version = search->nearest;
    search->done = search->nearest_count == 0;
    if (search->done)
        return WEFT_OK;
    search->tiles = true;
    if (limit_of(rollout) > 1)
        return ask(rollout);
    name_part(rollout, layout->entries[search->tensor].part);
    return WEFT_OK;
}

static weft_status take_tensors(weft_rollout *rollout, const weft_wire_digests *answer)
{
    weft_search *search = &rollout->search;
    for (uint32_t i = 0; i < answer->count; i++)
        if (weft_digest_tensor(rollout->session->layout, search->mine, answer->first + i) != answer->digest[i] &&
            search->count++ == 0)
            search->first = answer->first + i;
    search->next += answer->count;
    return search->next < limit_of(rollout) ? ask(rollout) : end_of_tensors(rollout, &answer->before);
}

static weft_status take_tiles(weft_rollout *rollout, const weft_wire_digests *answer)
{
    weft_search *search = &rollout->search;
    uint64_t part = rollout->session->layout->entries[search->tensor].part + answer->first;
    for (uint32_t i = 0; i < answer->count; i++)
        if (search->mine[part + i] != answer->digest[i]) {
            name_part(rollout, part + i);
            return WEFT_OK;
        }
    search->next += answer->count;
    search->done = search->next == limit_of(rollout);
    return search->done ? WEFT_OK : ask(rollout);
}

static bool fits(const weft_wire_query *query, const weft_wire_digests *answer)
{
    bool none = (answer->version.run | answer->version.number | answer->version.root) == 0;
    bool newest = (query->version.run | query->version.number | query->version.root) == 0;
    return answer->kind == query->kind && answer->tensor == query->tensor && answer->first == query->first &&
           answer->count <= query->count && none == (answer->count == 0) &&
           (none || newest || answer->version.root == query->version.root);
}

weft_status weft_search_hear(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    weft_search *search = &rollout->search;
    weft_wire_digests answer;
    weft_status status = weft_wire_get_digests(body, length, &answer);
    if (status != WEFT_OK)
        return status;
    if (search->late > 0) { /* answers come in the order of the questions: this one was given up before it came */
        search->late--;
        return WEFT_OK;
    }
    if (search->reason == WEFT_SEARCH_NONE || search->done || !fits(&search->query, &answer))
        return weft_fail(WEFT_E_PROTOCOL, "DIGESTS of version %llu, %u from %llu on: not what was asked for",
                         (unsigned long long)answer.version.number, answer.count, (unsigned long long)answer.first);
    search->done = answer.count == 0;
    if (search->done)
        return WEFT_OK;
    search->version = answer.version; /* a publish in between must not mix two versions */
    return search->tiles ? take_tiles(rollout, &answer) : take_tensors(rollout, &answer);
}

/* ---- the end */

static weft_status tell_target(const weft_rollout *rollout)
{
    const weft_version *target = &rollout->queue[0].trailer.target;
    uint64_t root = weft_digest_parts_root(rollout->session->layout, rollout->staged);
    if (rollout->search.name[0])
        return weft_fail(WEFT_E_TARGET, "version %llu: %s: staged bits are not those published",
                         (unsigned long long)target->number, rollout->search.name);
    return weft_fail(WEFT_E_TARGET,
                     "version %llu: staged bits have digest %016llx, the trainer published %016llx; it does not tell "
                     "which tensor differs",
                     (unsigned long long)target->number, (unsigned long long)root, (unsigned long long)target->root);
}

/* Bits that differ in most tensors are another model, or an older one; in few, they are a version gone wrong. */
static void tell_join(weft_rollout *rollout)
{
    const weft_search *search = &rollout->search;
    uint64_t tensors = rollout->session->layout->count;
    char text[sizeof search->name + 64];
    if (!search->name[0])
        return;
    snprintf(text, sizeof text, "%s: bits differ from version %llu, the nearest known", search->name,
             (unsigned long long)search->nearest.number);
    if (search->nearest_count > 1 && search->nearest_count > tensors / 2) {
        weft_log(WEFT_LOG_INFO, "%s", text);
        return;
    }
    weft_log(WEFT_LOG_ERROR, "%s", text);
    weft_session_event(rollout->session, WEFT_EVENT_RESYNC, WEFT_E_BASE, rollout->site.name, &search->nearest, text);
}

void weft_search_drop(weft_rollout *rollout)
{
    rollout->search = (weft_search){0};
}

weft_status weft_search_check(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    weft_search *search = &rollout->search;
    weft_status status = WEFT_OK;
    if (!search->done && now_ns < search->until_ns) {
        weft_waits_until(waits, search->until_ns);
        return WEFT_OK;
    }
    uint32_t late = search->late + !search->done;
    bool joins = search->reason == WEFT_SEARCH_JOIN;
    if (joins) {
        tell_join(rollout);
        rollout->told = true;
    } else {
        status = tell_target(rollout);
    }
    *search = (weft_search){.late = late};
    return joins ? weft_hear_offered(rollout) : status;
}

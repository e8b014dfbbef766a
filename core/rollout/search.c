/* search.c - asks the trainer for digests to find the tensor and the tile in which bits here differ from a version's.
 *
 * One question is under way at a time: first about all tensors, page by page, then about the tiles of those that
 * differ. A fault wants the first of them, for its name, and waits no longer than io_deadline. A rollout whose bits are
 * no version wants all of them: if they are few it asks for a repair, which brings those units alone, else for a
 * snapshot. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "layout/digest.h"
#include "layout/part.h"
#include "rollout/rollout.h"

/* Versions that unknown bits are compared with, from the newest back, because a model is stale by a few or by too many.
 */
#define WALK_MAX 16u

static uint64_t limit_of(const weft_searching *searching, const weft_layout *layout)
{
    const weft_search *search = &searching->search;
    return search->tiles ? weft_part_count(layout, search->tensor) : layout->count;
}

/* The trainer's number of a tensor of this rollout's layout. *left: how many tensors from there on have numbers in a
 * row.
 */
static uint64_t wire_tensor(const weft_excerpt *excerpt, uint64_t tensor, uint64_t *left)
{
    *left = UINT64_MAX;
    return excerpt->keys.count ? weft_number_of_own(&excerpt->tensors, tensor, left) : tensor;
}

/* Names the next digests to be asked for, by the trainer's numbers. */
static void name_query(const weft_excerpt *excerpt, weft_search *search, uint64_t limit)
{
    uint64_t left = limit - search->next, row;
    const uint64_t tensor = wire_tensor(excerpt, search->tiles ? search->tensor : search->next, &row);
    if (!search->tiles && left > row)
        left = row;
    search->query = (weft_wire_query){.version = search->version,
                                      .kind = search->tiles ? WEFT_DIGESTS_TILES : WEFT_DIGESTS_TENSORS,
                                      .tensor = search->tiles ? tensor : 0,
                                      .first = search->tiles ? search->next : tensor,
                                      .count = left < WEFT_DIGESTS_MAX ? (uint32_t)left : WEFT_DIGESTS_MAX};
}

static weft_status ask(weft_rollout *rollout)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    weft_search *search = &rollout->searching.search;
    name_query(&rollout->division->excerpt, search, limit_of(&rollout->searching, rollout->layout));
    weft_wire_put_query(&out, &search->query);
    rollout->intake.moved_ns = weft_clock_ns();
    if (search->reason == WEFT_SEARCH_JOIN) /* each answer brings it on */
        search->until_ns = rollout->intake.moved_ns + rollout->session->site->session.io_deadline_ms * WEFT_NS_PER_MS;
    return weft_rollout_send(&rollout->joining, WEFT_MESSAGE_QUERY, &out);
}

static weft_status begin(weft_rollout *rollout, weft_search_reason reason, const uint64_t *mine, weft_version version)
{
    uint64_t patience_ms = rollout->session->site->session.io_deadline_ms;
    rollout->searching.search = (weft_search){.reason = reason,
                                              .late = rollout->searching.search.late,
                                              .mine = mine,
                                              .version = version,
                                              .nearest_count = UINT64_MAX,
                                              .until_ns = weft_clock_ns() + patience_ms * WEFT_NS_PER_MS};
    rollout->searching.search.done = rollout->layout->count == 0;
    memset(rollout->searching.tensors, 0, rollout->layout->count / 8 + 1);
    memset(rollout->searching.wrong, 0, rollout->layout->unit_count / 8 + 1);
    return rollout->searching.search.done ? WEFT_OK : ask(rollout);
}

weft_status weft_search_target(weft_rollout *rollout)
{
    rollout->current.doubt =
        rollout->current.doubt || rollout->current.known; /* even if the connection is lost before the fault is told */
    weft_status status =
        begin(rollout, WEFT_SEARCH_TARGET, rollout->stage.digests, rollout->arriving.queue[0].trailer.target);
    return status == WEFT_OK ? WEFT_AGAIN : status;
}

weft_status weft_search_join(weft_rollout *rollout)
{
    return begin(rollout, WEFT_SEARCH_JOIN, rollout->current.digests, (weft_version){0, 0, 0});
}

weft_mem_list weft_search_memory(weft_searching *searching, const weft_layout *layout)
{
    return (weft_mem_list){{WEFT_MEM_TAKEN(searching->tensors, layout->count / 8 + 1),
                            WEFT_MEM_TAKEN(searching->nearest_tensors, layout->count / 8 + 1),
                            WEFT_MEM_TAKEN(searching->wrong, layout->unit_count / 8 + 1)}};
}

weft_status weft_search_open(weft_searching *searching, const weft_layout *layout)
{
    return weft_mem_list_take(weft_search_memory(searching, layout), "to find wrong tiles");
}

void weft_search_close(weft_searching *searching, const weft_layout *layout)
{
    weft_mem_list_give(weft_search_memory(searching, layout));
}

/* ---- answers */

static bool bit_at(const uint8_t *bits, uint64_t at)
{
    return bits[at / 8] >> at % 8 & 1;
}

static void bit_set(uint8_t *bits, uint64_t at)
{
    bits[at / 8] |= (uint8_t)(1u << at % 8);
}

static uint64_t unit_of(const weft_layout *layout, uint64_t part)
{
    uint64_t low = 0, high = layout->unit_count - 1;
    while (low < high) { /* the last unit whose parts do not begin after `part` */
        uint64_t middle = high - (high - low) / 2;
        if (weft_part_of_unit(layout, middle) <= part)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Notes a unit that differs, and gives up if more units differ than one update can bring. */
static void note_unit(weft_rollout *rollout, uint64_t part)
{
    weft_search *search = &rollout->searching.search;
    const weft_layout *layout = rollout->layout;
    uint64_t unit = unit_of(layout, part);
    if (bit_at(rollout->searching.wrong, unit))
        return;
    bit_set(rollout->searching.wrong, unit);
    search->units++;
    search->staged_bytes += weft_staging_need(layout->units[unit].count, layout->units[unit].width);
    if (search->staged_bytes > rollout->stage.staging.bytes || search->units > layout->unit_count / 2 + 1)
        search->all = false;
    search->done = !search->all;
}

static void name_part(weft_searching *searching, const weft_layout *layout, uint64_t part)
{
    weft_search *search = &searching->search;
    char name[WEFT_PART_TEXT];
    weft_part_name(layout, part, name);
    if (search->nearest_count > 1)
        snprintf(search->name, sizeof search->name, "%s and %llu tensors more", name,
                 (unsigned long long)search->nearest_count - 1);
    else
        snprintf(search->name, sizeof search->name, "%s", name);
}

/* A part differs: the first gives the name; all are wanted for a repair. */
static void take_part(weft_rollout *rollout, uint64_t part)
{
    weft_search *search = &rollout->searching.search;
    if (!search->name[0])
        name_part(&rollout->searching, rollout->layout, part);
    if (search->all)
        note_unit(rollout, part);
    else
        search->done = true;
}

/* On to the tiles of the next tensor that differs from the nearest version. */
static weft_status next_tensor(weft_rollout *rollout)
{
    weft_search *search = &rollout->searching.search;
    const weft_layout *layout = rollout->layout;
    for (; search->tensor < layout->count && !search->done; search->tensor++) {
        if (!bit_at(rollout->searching.nearest_tensors, search->tensor))
            continue;
        search->next = 0;
        if (weft_part_count(layout, search->tensor) > 1)
            return ask(rollout);
        take_part(rollout, layout->entries[search->tensor].part);
    }
    search->done = true;
    return WEFT_OK;
}

/* All tensors of a version were compared: on to the one before it, or to the tiles of the nearest. */
static weft_status end_of_tensors(weft_rollout *rollout, const weft_version *before)
{
    weft_search *search = &rollout->searching.search;
    const weft_layout *layout = rollout->layout;
    if (search->count < search->nearest_count) {
        search->nearest_count = search->count;
        search->nearest = search->version;
        search->tensor = search->first;
        uint8_t *bits = rollout->searching.tensors;
        rollout->searching.tensors = rollout->searching.nearest_tensors;
        rollout->searching.nearest_tensors = bits;
    }
    memset(rollout->searching.tensors, 0, layout->count / 8 + 1);
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
    search->all = search->reason == WEFT_SEARCH_JOIN &&
                  (search->nearest_count == 1 || search->nearest_count <= layout->count / 2);
    return next_tensor(rollout);
}

static weft_status take_tensors(weft_rollout *rollout, const weft_wire_digests *answer)
{
    weft_search *search = &rollout->searching.search;
    for (uint32_t i = 0; i < answer->count; i++)
        if (weft_digest_tensor(rollout->layout, search->mine, answer->first + i) != answer->digest[i]) {
            bit_set(rollout->searching.tensors, answer->first + i);
            if (search->count++ == 0)
                search->first = answer->first + i;
        }
    search->next += answer->count;
    return search->next < limit_of(&rollout->searching, rollout->layout) ? ask(rollout)
                                                                         : end_of_tensors(rollout, &answer->before);
}

static weft_status take_tiles(weft_rollout *rollout, const weft_wire_digests *answer)
{
    weft_search *search = &rollout->searching.search;
    uint64_t part = rollout->layout->entries[search->tensor].part + answer->first;
    for (uint32_t i = 0; i < answer->count && !search->done; i++)
        if (search->mine[part + i] != answer->digest[i])
            take_part(rollout, part + i);
    search->next += answer->count;
    if (search->done)
        return WEFT_OK;
    if (search->next < limit_of(&rollout->searching, rollout->layout))
        return ask(rollout);
    search->tensor++;
    return next_tensor(rollout);
}

static bool fits(const weft_wire_query *query, const weft_wire_digests *answer)
{
    bool none = (answer->version.run | answer->version.number | answer->version.root) == 0;
    bool newest = (query->version.run | query->version.number | query->version.root) == 0;
    return answer->kind == query->kind && answer->tensor == query->tensor && answer->first == query->first &&
           answer->count <= query->count && none == (answer->count == 0) &&
           (none || newest || answer->version.root == query->version.root);
}

weft_status weft_search_answer(weft_rollout *rollout, const uint8_t *body, uint64_t length)
{
    weft_search *search = &rollout->searching.search;
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
    answer.first = search->next;      /* by this rollout's numbers */
    search->version = answer.version; /* a publish in between must not mix two versions */
    return search->tiles ? take_tiles(rollout, &answer) : take_tensors(rollout, &answer);
}

/* ---- the end */

static weft_status tell_target(const weft_rollout *rollout)
{
    const weft_version *target = &rollout->arriving.queue[0].trailer.target;
    uint64_t root = weft_digest_parts_root(rollout->layout, rollout->stage.digests);
    if (rollout->searching.search.name[0])
        return weft_fail(WEFT_E_TARGET, "version %llu: %s: staged bits are not those published",
                         (unsigned long long)target->number, rollout->searching.search.name);
    return weft_fail(WEFT_E_TARGET,
                     "version %llu: staged bits have digest %016llx, the trainer published %016llx; it does not tell "
                     "which tensor differs",
                     (unsigned long long)target->number, (unsigned long long)root, (unsigned long long)target->root);
}

/* Bits that differ in most tensors are another model, or an older one; in few, they are a version gone wrong. */
static void tell_join(weft_rollout *rollout)
{
    const weft_search *search = &rollout->searching.search;
    uint64_t tensors = rollout->layout->count;
    char text[sizeof search->name + 64];
    if (!search->name[0] || rollout->searching.told)
        return;
    snprintf(text, sizeof text, "%s: bits differ from version %llu, the nearest known", search->name,
             (unsigned long long)search->nearest.number);
    if ((search->nearest_count > 1 && search->nearest_count > tensors / 2) || rollout->current.version.run) {
        weft_log(WEFT_LOG_INFO, "%s", text);
        return;
    }
    weft_log(WEFT_LOG_ERROR, "%s", text);
    weft_session_event(rollout->session, WEFT_EVENT_RESYNC, WEFT_E_BASE, rollout->site.name, &search->nearest, text);
}

/* The trainer's number of a unit of this rollout's layout. */
static uint64_t wire_unit(const weft_excerpt *excerpt, uint64_t unit)
{
    uint64_t left;
    return excerpt->keys.count ? weft_number_of_own(&excerpt->units, unit, &left) : unit;
}

/* The runs of units that differ; false: more than one message says. */
static bool list_units(const weft_rollout *rollout, weft_wire_repair *repair)
{
    uint64_t next = 0;
    for (uint64_t own = 0; own < rollout->layout->unit_count; own++) {
        if (!bit_at(rollout->searching.wrong, own))
            continue;
        const uint64_t unit = wire_unit(&rollout->division->excerpt, own);
        if (repair->count == 0 || unit != next) {
            if (repair->count == WEFT_REPAIR_RANGES_MAX)
                return false;
            repair->range[repair->count++].first = (uint32_t)unit;
        }
        repair->range[repair->count - 1].units++;
        next = unit + 1;
    }
    return repair->count > 0;
}

/* Asks for the units that differ, if they are few and all known; else the offer stands. */
static weft_status end_join(weft_rollout *rollout, bool whole, const weft_version *nearest)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_repair repair = {.root = rollout->current.version.root, .version = *nearest};
    if (!whole || !list_units(rollout, &repair))
        return weft_ask_offered(rollout);
    weft_wire_put_repair(&out, &repair);
    weft_log(WEFT_LOG_INFO, "asking for a repair to version %llu: %u ranges of units",
             (unsigned long long)nearest->number, repair.count);
    return weft_ask_send(rollout, WEFT_COURSE_ON_REPAIR, WEFT_MESSAGE_REPAIR, &out);
}

void weft_search_drop(weft_searching *searching)
{
    searching->search = (weft_search){0};
}

weft_status weft_search_check(weft_rollout *rollout, uint64_t now_ns, weft_waits *waits)
{
    weft_search *search = &rollout->searching.search;
    weft_status status = WEFT_OK;
    if (!search->done && now_ns < search->until_ns) {
        weft_waits_until(waits, search->until_ns);
        return WEFT_OK;
    }
    uint32_t late = search->late + !search->done;
    bool joins = search->reason == WEFT_SEARCH_JOIN;
    bool whole = search->done && search->all;
    weft_version nearest = search->nearest;
    if (joins) {
        tell_join(rollout);
        rollout->searching.told = rollout->searching.done = true;
    } else {
        status = tell_target(rollout);
    }
    *search = (weft_search){.late = late};
    return joins ? end_join(rollout, whole, &nearest) : status;
}

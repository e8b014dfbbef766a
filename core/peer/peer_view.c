/* peer_view.c - finds and keeps the views that peers take, with their roots. */
#include "peer/peer_view.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/status.h"
#include "encode/staging.h"
#include "layout/digest.h"
#include "peer/peer.h"

static void give(weft_peer_view *view)
{
    if (!view)
        return;
    weft_excerpt_close(&view->excerpt);
    weft_mem_give(view);
}

void weft_peer_views_close(weft_peer_views *views)
{
    for (uint32_t i = 0; i < WEFT_PEER_VIEWS; i++)
        give(views->list[i]);
    memset(views, 0, sizeof *views);
}

/* ---- roots */

static uint64_t *root_at(weft_peer_view *view, uint64_t order)
{
    return &view->roots[order % (WEFT_JOURNAL_UPDATES + 1)];
}

/* Goes back from the newest version as far as history reaches. `words` has room for all digests. */
static void fill_roots(weft_publisher *publisher, weft_peer_view *view, uint64_t *words)
{
    const weft_layout *layout = publisher->session->layout;
    uint64_t order = publisher->newest.order;
    memcpy(words, publisher->newest.digests, layout->part_count * sizeof *words);
    view->newest = order;
    *root_at(view, order) = weft_excerpt_root(&view->excerpt, layout, words);
    while (order > 0 && publisher->newest.order - order < WEFT_JOURNAL_UPDATES &&
           weft_history_reaches(&publisher->history, order - 1)) {
        weft_history_step_back(&publisher->history, order--, words);
        *root_at(view, order) = weft_excerpt_root(&view->excerpt, layout, words);
    }
    view->oldest = order;
}

void weft_peer_views_note(weft_publisher *publisher)
{
    const uint64_t order = publisher->newest.order;
    for (uint32_t i = 0; i < WEFT_PEER_VIEWS; i++) {
        weft_peer_view *view = publisher->views.list[i];
        if (!view)
            continue;
        *root_at(view, order) =
            weft_excerpt_root(&view->excerpt, publisher->session->layout, publisher->newest.digests);
        view->newest = order;
        if (order - view->oldest > WEFT_JOURNAL_UPDATES)
            view->oldest = order - WEFT_JOURNAL_UPDATES;
    }
}

/* ---- records */

static weft_status make(weft_publisher *publisher, const weft_view_keys *keys, weft_peer_view **made)
{
    const weft_division *division = &publisher->session->division;
    uint64_t *words = weft_mem_take(publisher->session->layout->part_count + 1, sizeof *words);
    weft_peer_view *view = weft_mem_take(1, sizeof *view);
    weft_status status = words && view ? WEFT_OK : weft_fail(WEFT_E_MEMORY, "no memory for a view");
    if (status == WEFT_OK)
        status = weft_excerpt_open(division->model, &division->cells, division->layout, keys, &view->excerpt);
    if (status == WEFT_OK)
        fill_roots(publisher, view, words);
    weft_mem_give(words);
    if (status != WEFT_OK)
        weft_mem_give(view);
    else
        *made = view;
    return status;
}

/* Finds a place for one more view: a free one, else that of a view that nobody takes. NULL: there is none. */
static weft_peer_view **place_for(weft_peer_views *views)
{
    weft_peer_view **unused = NULL;
    for (uint32_t i = 0; i < WEFT_PEER_VIEWS; i++) {
        if (!views->list[i])
            return &views->list[i];
        if (views->list[i]->peers == 0)
            unused = &views->list[i];
    }
    return unused;
}

static weft_peer_view *find(weft_peer_views *views, const weft_view_keys *keys)
{
    weft_peer_view *found = NULL;
    for (uint32_t i = 0; i < WEFT_PEER_VIEWS && !found; i++)
        if (views->list[i] && weft_view_keys_equal(&views->list[i]->excerpt.keys, keys))
            found = views->list[i];
    return found;
}

/* A name brings a new view once in so long, but for its first one, and at most in so many times as long as the last
 * took to be made. */
#define VIEW_EVERY_NS (1000 * WEFT_NS_PER_MS)
#define VIEW_TIMES    20u

static weft_view_asked *asked_by(weft_peer_views *views, const char *name)
{
    const uint64_t hash = XXH3_64bits(name, strlen(name));
    for (uint32_t i = 0; i < WEFT_VIEW_NAMES; i++)
        if (views->asked[i].name == hash)
            return &views->asked[i];
    weft_view_asked *oldest = &views->asked[views->next_asked++ % WEFT_VIEW_NAMES];
    *oldest = (weft_view_asked){.name = hash};
    return oldest;
}

/* By name and not by record, because a HELLO that is refused for another reason leaves no record. */
bool weft_peer_view_hurries(weft_peer_views *views, const weft_wire_hello *hello)
{
    const uint64_t now_ns = weft_clock_ns();
    if (hello->keys.count == 0 || find(views, &hello->keys))
        return false;
    weft_view_asked *asked = asked_by(views, hello->name);
    if (now_ns < asked->until_ns)
        return true;
    asked->until_ns = asked->came ? now_ns + VIEW_EVERY_NS : 0;
    asked->came = true;
    return false;
}

void weft_peer_view_took(weft_peer_views *views, const char *name, uint64_t took_ns)
{
    const uint64_t until_ns = weft_clock_ns() + VIEW_TIMES * took_ns;
    weft_view_asked *asked = asked_by(views, name);
    if (asked->until_ns < until_ns)
        asked->until_ns = until_ns;
}

static weft_status check_keys(const weft_session *session, const weft_wire_hello *hello)
{
    const weft_division *division = &session->division;
    if (!weft_division_is_cut(division))
        return weft_fail(WEFT_E_LAYOUT,
                         "%s takes a part of the model, and the trainer's site has no cut; write the same [cut.NAME] "
                         "sections at both ends",
                         hello->name);
    if (!weft_view_keys_fit(&hello->keys, division->cells.key_count))
        return weft_fail(WEFT_E_LAYOUT,
                         "%s takes keys that are not among the trainer's %u; write the same [cut.NAME] sections at "
                         "both ends",
                         hello->name, division->cells.key_count);
    return WEFT_OK;
}

weft_status weft_peer_view_find(weft_publisher *publisher, const weft_wire_hello *hello, weft_peer_view **view)
{
    *view = NULL;
    if (hello->keys.count == 0)
        return WEFT_OK;
    weft_status status = check_keys(publisher->session, hello);
    if (status != WEFT_OK)
        return status;
    *view = find(&publisher->views, &hello->keys);
    if (*view)
        return WEFT_OK;
    weft_peer_view **place = place_for(&publisher->views);
    if (!place)
        return weft_fail(WEFT_E_REFUSED, "%s takes other keys than any peer, and there are %u different views already",
                         hello->name, WEFT_PEER_VIEWS);
    const uint64_t begun_ns = weft_clock_ns();
    status = make(publisher, &hello->keys, view);
    weft_peer_view_took(&publisher->views, hello->name, weft_clock_ns() - begun_ns);
    if (status != WEFT_OK)
        return status;
    give(*place);
    *place = *view;
    return WEFT_OK;
}

void weft_peer_view_take(weft_peer *peer, weft_peer_view *view)
{
    if (view)
        view->peers++;
    if (peer->view)
        peer->view->peers--;
    peer->view = view;
}

/* ---- what a view makes of the trainer's */

const weft_layout *weft_peer_view_layout(const weft_peer_view *view, const weft_session *session)
{
    return view ? view->excerpt.layout : session->layout;
}

double weft_peer_view_share(const weft_peer_view *view, const weft_session *session)
{
    const uint64_t all = session->layout->bytes;
    return view && all > 0 ? (double)view->excerpt.layout->bytes / (double)all : 1;
}

weft_version weft_peer_view_version(const weft_peer_view *view, const weft_version *version, uint64_t order)
{
    weft_version named = *version;
    if (view && order >= view->oldest && order <= view->newest)
        named.root = view->roots[order % (WEFT_JOURNAL_UPDATES + 1)];
    return named;
}

uint64_t weft_peer_view_seek(const weft_peer_view *view, const weft_arena *arena, weft_cursor *cursor, uint64_t limit)
{
    uint64_t unit, end;
    while (view && weft_cursor_unit(arena, cursor, limit, &unit)) {
        const uint64_t next = weft_number_next(&view->excerpt.units, unit, &end);
        if (next == unit)
            return end < limit ? end : limit;
        weft_cursor_skip(arena, cursor, next < limit ? next : limit);
    }
    return limit;
}

/* ---- what a view needs of a chain */

static weft_view_need *need_of(weft_peer_view *view, const weft_arena *arena, const weft_chain *chain)
{
    const uint64_t given_back = atomic_load(&arena->given_back);
    for (uint32_t i = 0; i < WEFT_VIEW_COUNTED; i++)
        if (view->needs[i].first == chain->first && view->needs[i].first_frame == chain->first_frame &&
            view->needs[i].given_back == given_back)
            return &view->needs[i];
    weft_view_need *need = &view->needs[view->next_need++ % WEFT_VIEW_COUNTED];
    *need = (weft_view_need){.first = chain->first,
                             .first_frame = chain->first_frame,
                             .given_back = given_back,
                             .cursor = weft_cursor_begin(chain)};
    return need;
}

/* Counts on to the end of what there is of the chain. */
static void count(weft_peer_view *view, const weft_layout *layout, const weft_arena *arena, weft_view_need *need)
{
    weft_frame_header header;
    uint64_t unit;
    for (;;) {
        weft_peer_view_seek(view, arena, &need->cursor, UINT64_MAX);
        if (!weft_cursor_unit(arena, &need->cursor, UINT64_MAX, &unit))
            return;
        weft_cursor_header(arena, &need->cursor, &header);
        need->staged_bytes += weft_staging_need(header.changed, layout->units[unit].width);
        need->frame_bytes += WEFT_FRAME_HEADER_BYTES + header.payload_bytes;
        weft_cursor_skip(arena, &need->cursor, unit + 1);
    }
}

static weft_view_need measure(const weft_peer *peer, const weft_arena *arena, const weft_chain *chain)
{
    if (!peer->view || chain->first == WEFT_NO_BLOCK)
        return (weft_view_need){.staged_bytes = chain->staged_bytes, .frame_bytes = chain->bytes};
    weft_view_need *need = need_of(peer->view, arena, chain);
    weft_cursor_reach(&need->cursor, chain);
    count(peer->view, peer->session->layout, arena, need);
    return *need;
}

uint64_t weft_peer_view_lists(const weft_peer *peer, const weft_arena *arena, const weft_update *update,
                              weft_level level)
{
    return measure(peer, arena, &update->chain[level]).staged_bytes;
}

bool weft_peer_view_stages(const weft_peer *peer, const weft_arena *arena, const weft_update *update, weft_level level)
{
    const weft_view_need need = measure(peer, arena, &update->chain[level]);
    const bool encoded = level == WEFT_LEVEL_FAST && need.frame_bytes <= peer->claim.hello.encoded_bytes;
    return need.staged_bytes <= peer->claim.hello.staging_bytes || encoded;
}

uint64_t weft_peer_view_changed(const weft_arena *arena, weft_cursor cursor, uint32_t frames)
{
    weft_frame_header header;
    uint64_t changed = 0, unit;
    for (uint32_t i = 0; i < frames && weft_cursor_unit(arena, &cursor, UINT64_MAX, &unit); i++) {
        weft_cursor_header(arena, &cursor, &header);
        changed += header.changed;
        weft_cursor_skip(arena, &cursor, unit + 1);
    }
    return changed;
}

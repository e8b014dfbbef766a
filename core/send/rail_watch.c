/* rail_watch.c - watches which rails of a receiver carry. It closes a rail that fails, or that stands still while
 * others do not. The others send what that rail had. A rail that has cooled is tried again. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "send/send.h"

/* Times its first cooling that a rail which keeps failing cools, at most. */
#define COOL_MOST 16u
/* Time from one LOOK to the next, which asks the receiver how far each rail is, while buckets are under way. */
#define LOOK_NS (5 * WEFT_NS_PER_MS)
/* Part of a rate that is kept when the rate is measured again, which takes so many chunks. */
#define RATE_KEPT   0.75
#define RATE_CHUNKS 4u

static const char *name_of(const weft_rail *rail)
{
    return rail->outlet->address[0] ? rail->outlet->address : rail->outlet->facts.fabric;
}

static uint32_t place_of(const weft_rails *rails, const weft_rail *rail)
{
    return (uint32_t)(rail - rails->list);
}

/* Returns true if buckets may still go without this rail. */
static bool has_other(const weft_rails *rails, const weft_rail *rail)
{
    bool other = false;
    for (uint32_t at = 0; at < rails->count; at++)
        other = other || (&rails->list[at] != rail &&
                          (rails->list[at].state == WEFT_RAIL_UP || rails->list[at].state == WEFT_RAIL_TRYING));
    return other;
}

static void report(const weft_sender *sender, weft_status status, const char *text)
{
    weft_log(status == WEFT_OK ? WEFT_LOG_INFO : WEFT_LOG_WARN, "%s: %s", sender->hello->name, text);
    weft_session_event(sender->session, WEFT_EVENT_RAIL, status, sender->hello->name, sender->held, text);
    weft_session_changed(sender->session);
}

/* Sets how long the rail cools. A rail that was up for long begins with a short pause; one that comes and goes is tried
 * ever more seldom. */
static void set_pause(const weft_site *site, weft_rail *rail)
{
    const uint64_t least = weft_rail_patience_ns(site), most = COOL_MOST * least;
    const uint64_t up_ns = rail->state == WEFT_RAIL_UP ? weft_clock_ns() - rail->since_ns : 0;
    rail->cool_ns = up_ns > 4 * rail->cool_ns ? least : 2 * rail->cool_ns;
    rail->cool_ns = rail->cool_ns < most ? rail->cool_ns : most;
}

weft_status weft_rail_fail(weft_sender *sender, weft_rail *rail, const char *why)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    const weft_wire_close close = {place_of(&sender->rails, rail), rail->turn};
    const bool carried = rail->state == WEFT_RAIL_UP;
    char reason[128], text[256];
    snprintf(reason, sizeof reason, "%s", why);
    if (!has_other(&sender->rails, rail))
        return weft_fail_quiet(WEFT_E_PEER_LOST, "%s", reason);
    set_pause(sender->session->site, rail);
    weft_rail_port_close(rail);
    weft_flights_write_off(&sender->flights, close.port);
    weft_rail_enter(rail, WEFT_RAIL_CLOSING);
    snprintf(text, sizeof text, "rail %u by %.60s failed: %.90s; the others carry on, it is tried again in %llu ms",
             close.port, name_of(rail), reason, (unsigned long long)(rail->cool_ns / WEFT_NS_PER_MS));
    if (carried) {
        rail->sent.failures++;
        rail->outlet->sent.failures++;
        report(sender, WEFT_E_PEER_LOST, text);
    } else {
        weft_log(WEFT_LOG_DEBUG, "%s: %s", sender->hello->name, text);
    }
    weft_wire_put_close(&out, &close);
    return weft_control_send(sender->control, WEFT_MESSAGE_CLOSE, out.data, out.used);
}

/* Finds the rail that a receiver's message names, if that rail is in this state. */
static bool find(weft_rails *rails, uint32_t port, uint32_t turn, weft_rail_state state, weft_rail **rail)
{
    *rail = port < rails->count ? &rails->list[port] : NULL;
    return rails->used > 1 && *rail && (*rail)->state == state && (*rail)->turn == turn;
}

static weft_status not_asked(const weft_wire_hello *hello, const char *message, uint32_t port, uint32_t turn)
{
    return weft_fail(WEFT_E_PROTOCOL, "%s: %s of port %u in turn %u, which was not asked for", hello->name, message,
                     port, turn);
}

static bool is_busy(const weft_rail *rail)
{
    return rail->writes > 0 || rail->posted > rail->landed;
}

static bool is_any_busy(const weft_rails *rails)
{
    bool busy = false;
    for (uint32_t at = 0; at < rails->count; at++)
        busy = busy || (rails->list[at].state == WEFT_RAIL_UP && is_busy(&rails->list[at]));
    return busy;
}

/* Returns true if the rail takes no write any more: it was asked again and again, and took none for so long. */
static bool refuses(const weft_site *site, const weft_rail *rail)
{
    return rail->refused_ns && rail->asked_ns > rail->refused_ns + weft_rail_patience_ns(site);
}

/* Returns true if another rail is up and does what it is given. If all stand still, the receiver does. */
static bool others_move(const weft_rails *rails, const weft_site *site, const weft_rail *rail, uint64_t now_ns)
{
    const uint64_t since_ns = now_ns - weft_rail_patience_ns(site);
    bool move = false;
    for (uint32_t at = 0; at < rails->count; at++) {
        const weft_rail *other = &rails->list[at];
        move = move || (other != rail && other->state == WEFT_RAIL_UP && !refuses(site, other) &&
                        (!is_busy(other) || other->moved_ns > since_ns));
    }
    return move;
}

/* Returns the time within which a receiver must answer. A receiver that does not, or by whose answers nothing arrives,
 * is lost then, whatever else it sends. */
static uint64_t answer_ns(const weft_sender *sender)
{
    const uint64_t io_ms = sender->session->site->session.io_deadline_ms, heartbeat_ms = sender->site->heartbeat_ms;
    return (io_ms > heartbeat_ms ? io_ms : heartbeat_ms) * WEFT_NS_PER_MS;
}

/* Checks the time of an answer that is still to come: `what` was sent to the receiver at `sent_ns`. */
static weft_status check_answer(const weft_sender *sender, const char *what, uint64_t sent_ns, uint64_t now_ns,
                                weft_waits *waits)
{
    const uint64_t until_ns = sent_ns + answer_ns(sender);
    weft_waits_until(waits, until_ns + WEFT_NS_PER_MS);
    if (now_ns <= until_ns)
        return WEFT_OK;
    return weft_fail_quiet(WEFT_E_PEER_LOST, "no answer to %s for %llu ms", what,
                           (unsigned long long)((now_ns - sent_ns) / WEFT_NS_PER_MS));
}

/* Judges a rail by the receiver's answer to the last LOOK: at that time the rail had stood still for so long. */
static weft_status judge(weft_sender *sender, weft_rail *rail)
{
    char why[96];
    const uint64_t looked_ns = sender->rails.looked_ns, patience_ns = weft_rail_patience_ns(sender->session->site);
    const bool still = rail->state == WEFT_RAIL_UP && is_busy(rail) && looked_ns >= rail->moved_ns + patience_ns;
    const bool others = others_move(&sender->rails, sender->session->site, rail, looked_ns);
    if (!still || (!others && looked_ns < rail->moved_ns + answer_ns(sender)))
        return WEFT_OK;
    snprintf(why, sizeof why, "%llu of %llu writes did not come in %llu ms",
             (unsigned long long)(rail->posted - rail->landed), (unsigned long long)rail->posted,
             (unsigned long long)((looked_ns - rail->moved_ns) / WEFT_NS_PER_MS));
    return others ? weft_rail_fail(sender, rail, why) : weft_fail_quiet(WEFT_E_PEER_LOST, "%s", why);
}

/* Measures the rate of a rail by what lands while more is under way. That takes a few chunks at least, because a chunk
 * lands whole or not at all. */
static void measure(weft_rail *rail, uint64_t bytes, uint64_t chunk_bytes, uint64_t now_ns)
{
    const bool more = rail->landed < rail->posted; /* else the rail ran dry some time ago */
    rail->window = rail->window_ns ? rail->window + bytes : 0;
    if (more && rail->window_ns && (rail->window < RATE_CHUNKS * chunk_bytes || now_ns <= rail->window_ns))
        return;
    if (more && rail->window_ns) {
        double rate = (double)rail->window / ((double)(now_ns - rail->window_ns) / 1e9);
        rail->rate_bytes_s = rail->rate_bytes_s > 0 ? RATE_KEPT * rail->rate_bytes_s + (1 - RATE_KEPT) * rate : rate;
    }
    rail->window = 0;
    rail->window_ns = more ? now_ns : 0;
}

/* Counts writes as landed, in the order in which they were posted, because they land about so. */
static void note_landed(weft_rail *rail, uint64_t writes, uint64_t chunk_bytes, uint64_t now_ns)
{
    uint64_t bytes = 0;
    if (writes == rail->landed)
        return;
    for (; rail->landed < writes; rail->landed++)
        bytes += rail->sizes[rail->landed % WEFT_RAIL_WRITES];
    rail->unlanded -= bytes;
    rail->moved_ns = now_ns;
    measure(rail, bytes, chunk_bytes, now_ns);
}

static weft_status take_landed(weft_sender *sender, weft_rail *rail, uint64_t writes, bool failed)
{
    if (writes > rail->posted || writes < rail->landed)
        return weft_fail(WEFT_E_PROTOCOL, "%s: LANDED of %llu writes by port %u; %llu were sent, %llu came before",
                         sender->hello->name, (unsigned long long)writes, place_of(&sender->rails, rail),
                         (unsigned long long)rail->posted, (unsigned long long)rail->landed);
    uint64_t now_ns = weft_clock_ns();
    note_landed(rail, writes, sender->posting.chunk_bytes, now_ns);
    if (failed)
        return weft_rail_fail(sender, rail, "the peer's fabric reports an error");
    if (rail->state == WEFT_RAIL_TRYING && writes > 0) {
        char text[192];
        weft_rail_enter(rail, WEFT_RAIL_UP);
        snprintf(text, sizeof text, "rail %u by %.150s carries again", place_of(&sender->rails, rail), name_of(rail));
        if (rail->turn > 0)
            report(sender, WEFT_OK, text);
    }
    return judge(sender, rail);
}

weft_status weft_rail_landed(weft_sender *sender, const uint8_t *body, uint64_t length)
{
    weft_wire_landed landed;
    weft_status status = weft_wire_get_landed(body, length, &landed);
    if (status == WEFT_OK && (landed.count != sender->rails.count || sender->rails.used < 2))
        status = weft_fail(WEFT_E_PROTOCOL, "%s: LANDED of %u ports; it has %u", sender->hello->name, landed.count,
                           sender->rails.count);
    sender->rails.looking = false;
    for (uint32_t at = 0; at < landed.count && status == WEFT_OK; at++) {
        weft_rail *rail = &sender->rails.list[at];
        if (landed.port[at].turn > rail->turn)
            return weft_fail(WEFT_E_PROTOCOL, "%s: LANDED of port %u in turn %u; it was opened in turn %u",
                             sender->hello->name, at, landed.port[at].turn, rail->turn);
        if (landed.port[at].turn == rail->turn && rail->port) /* else LANDED crossed CLOSE or OPEN */
            status = take_landed(sender, rail, landed.port[at].writes, landed.port[at].failed);
    }
    return status;
}

weft_status weft_rail_closed(weft_sender *sender, const uint8_t *body, uint64_t length)
{
    weft_wire_closed closed;
    weft_rail *rail;
    uint32_t chunks;
    weft_status status = weft_wire_get_closed(body, length, &closed);
    if (status == WEFT_OK && !find(&sender->rails, closed.port, closed.turn, WEFT_RAIL_CLOSING, &rail))
        status = not_asked(sender->hello, "CLOSED", closed.port, closed.turn);
    if (status == WEFT_OK)
        status = weft_parcel_again(sender, closed.port, &closed, &chunks);
    if (status != WEFT_OK)
        return status;
    if (chunks > 0)
        weft_log(WEFT_LOG_INFO, "%s: %u chunks that went by rail %u go again by the others", sender->hello->name,
                 chunks, closed.port);
    weft_rail_cool(rail);
    return WEFT_OK;
}

/* Opens the port of a rail again. This end's address may have been away, and may now cut smaller than was agreed. */
static weft_status open_again(const weft_sender *sender, weft_rail *rail, weft_wire_port *mine)
{
    weft_outlet *outlet = rail->outlet;
    weft_status status = weft_outlet_find(sender->outlets, outlet->provider->name, outlet->rail, &outlet);
    if (status == WEFT_OK && outlet->facts.chunk_bytes < sender->posting.chunk_bytes)
        status = weft_fail_quiet(WEFT_E_PROVIDER, "it takes %llu bytes at once, and %u were agreed",
                                 (unsigned long long)outlet->facts.chunk_bytes, sender->posting.chunk_bytes);
    return status == WEFT_OK ? weft_rail_port_open(rail, mine) : status;
}

static weft_status reopen(weft_sender *sender, weft_rail *rail)
{
    uint8_t body[WEFT_MESSAGE_MAX];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_open open = {.port = place_of(&sender->rails, rail), .turn = rail->turn + 1};
    if (open_again(sender, rail, &open.at) != WEFT_OK) {
        weft_log(WEFT_LOG_DEBUG, "%s: rail %u cannot be opened: %s", sender->hello->name, open.port, weft_last_error());
        set_pause(sender->session->site, rail);
        weft_rail_cool(rail);
        return WEFT_OK;
    }
    rail->turn++;
    weft_rail_enter(rail, WEFT_RAIL_OPENING);
    weft_wire_put_open(&out, &open);
    return weft_control_send(sender->control, WEFT_MESSAGE_OPEN, out.data, out.used);
}

weft_status weft_rail_opened(weft_sender *sender, const uint8_t *body, uint64_t length)
{
    weft_wire_open opened;
    weft_rail *rail;
    weft_status status = weft_wire_get_opened(body, length, &opened);
    if (status == WEFT_OK && find(&sender->rails, opened.port, opened.turn, WEFT_RAIL_CLOSING, &rail))
        return WEFT_OK; /* because this end's port failed meanwhile, and CLOSE crossed OPENED */
    if (status == WEFT_OK && !find(&sender->rails, opened.port, opened.turn, WEFT_RAIL_OPENING, &rail))
        status = not_asked(sender->hello, "OPENED", opened.port, opened.turn);
    if (status != WEFT_OK)
        return status;
    if (opened.at.address_bytes == 0) {
        weft_log(WEFT_LOG_DEBUG, "%s: its port %u cannot be opened now", sender->hello->name, opened.port);
        set_pause(sender->session->site, rail);
        weft_rail_port_close(rail);
        weft_rail_cool(rail);
        return WEFT_OK;
    }
    rail->there = opened.at;
    if (weft_rail_may_reach(sender->outlets, rail->outlet, sender->control, sender->hello, opened.at.address,
                            opened.at.address_bytes) != WEFT_OK ||
        rail->outlet->provider->port_connect(rail->port, opened.at.address, opened.at.address_bytes) != WEFT_OK)
        return weft_rail_fail(sender, rail, weft_last_error());
    weft_rail_enter(rail, WEFT_RAIL_TRYING);
    return WEFT_OK;
}

/* ---- time */

/* Returns the time in which a rail has to show that it carries. While none does, the receiver may stand still. */
static uint64_t trial_ns(const weft_sender *sender)
{
    return weft_rail_carries(&sender->rails) ? weft_rail_patience_ns(sender->session->site)
                                             : sender->session->site->session.io_deadline_ms * WEFT_NS_PER_MS;
}

static weft_status try_rail(weft_sender *sender, weft_rail *rail, uint64_t now_ns, weft_waits *waits)
{
    const uint64_t until_ns = rail->since_ns + trial_ns(sender);
    weft_status status = rail->probed ? WEFT_OK : weft_rail_probe(sender, rail);
    rail->probed = rail->probed || status == WEFT_OK;
    if (status != WEFT_OK && status != WEFT_AGAIN)
        return weft_rail_fail(sender, rail, weft_last_error());
    if (now_ns > until_ns)
        return weft_rail_fail(sender, rail, "no write comes through");
    weft_waits_until(waits, rail->probed ? until_ns + WEFT_NS_PER_MS : now_ns + WEFT_NS_PER_MS);
    return WEFT_OK;
}

/* Asks a rail that refused a write now and then, though no chunk is to go. It may be well again, or be none any more
 * that the others can count on. */
static weft_status check_refusal(weft_sender *sender, weft_rail *rail, uint64_t now_ns, weft_waits *waits)
{
    const uint64_t every_ns = weft_rail_patience_ns(sender->session->site) / 4;
    weft_status status = WEFT_AGAIN;
    if (!rail->refused_ns)
        return WEFT_OK;
    if (now_ns > rail->asked_ns + every_ns && weft_rail_has_room(&sender->rails, rail))
        status = weft_rail_probe(sender, rail);
    if (status != WEFT_OK && status != WEFT_AGAIN)
        return weft_rail_fail(sender, rail, weft_last_error());
    if (refuses(sender->session->site, rail) && others_move(&sender->rails, sender->session->site, rail, now_ns))
        return weft_rail_fail(sender, rail, "it takes no write any more");
    if (rail->refused_ns)
        weft_waits_until(waits, rail->asked_ns + every_ns + WEFT_NS_PER_MS);
    return WEFT_OK;
}

/* Checks a rail that is up. What the rail took and did not move, the receiver is asked for. What the rail does not
 * take, the rail itself is asked for. */
static weft_status check_up(weft_sender *sender, weft_rail *rail, uint64_t now_ns, bool *look, weft_waits *waits)
{
    const uint64_t still_ns = rail->moved_ns + weft_rail_patience_ns(sender->session->site) / 4;
    if (is_busy(rail))
        weft_waits_until(waits, still_ns + WEFT_NS_PER_MS);
    *look = *look || (is_busy(rail) && now_ns > still_ns);
    return check_refusal(sender, rail, now_ns, waits);
}

static weft_status check_rail(weft_sender *sender, weft_rail *rail, uint64_t now_ns, bool *look, weft_waits *waits)
{
    switch (rail->state) {
    case WEFT_RAIL_TRYING:
        return try_rail(sender, rail, now_ns, waits);
    case WEFT_RAIL_UP:
        return check_up(sender, rail, now_ns, look, waits);
    case WEFT_RAIL_COOLING:
        weft_waits_until(waits, rail->retry_ns);
        return now_ns < rail->retry_ns ? WEFT_OK : reopen(sender, rail);
    case WEFT_RAIL_CLOSING:
        return check_answer(sender, "CLOSE", rail->since_ns, now_ns, waits);
    case WEFT_RAIL_OPENING:
        return check_answer(sender, "OPEN", rail->since_ns, now_ns, waits);
    default:
        return WEFT_OK;
    }
}

weft_status weft_rail_check(weft_sender *sender, uint64_t now_ns, weft_waits *waits)
{
    bool look = false;
    weft_status status = WEFT_OK;
    weft_waits own = *waits; /* because what is due is looked at only with the next LOOK */
    own.wake_ns = UINT64_MAX;
    if (sender->rails.used < 2)
        return WEFT_OK;
    for (uint32_t at = 0; at < sender->rails.count && status == WEFT_OK; at++)
        status = check_rail(sender, &sender->rails.list[at], now_ns, &look, &own);
    if (status == WEFT_OK && sender->rails.looking)
        status = check_answer(sender, "LOOK", sender->rails.looked_ns, now_ns, &own);
    const bool streams = sender->flights.slots_free < sender->flights.slots && is_any_busy(&sender->rails);
    const uint64_t every_ns = streams ? LOOK_NS : weft_rail_patience_ns(sender->session->site) / 4;
    const uint64_t next_ns = sender->rails.looked_ns + every_ns;
    if (own.wake_ns <= now_ns || streams)
        own.wake_ns = next_ns > now_ns ? next_ns : now_ns + every_ns;
    weft_waits_until(waits, own.wake_ns);
    if (status != WEFT_OK || !(look || streams) || sender->rails.looking || now_ns < next_ns)
        return status;
    sender->rails.looked_ns = now_ns;
    sender->rails.looking = true;
    return weft_control_send(sender->control, WEFT_MESSAGE_LOOK, NULL, 0);
}

/* relay.c - takes the relay's steps for each child: accepts, serves, loses. */
#include "relay/relay.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* A guest that said who it is waits no longer for the relay itself to be joined. */
#define JOIN_NS (10000 * WEFT_NS_PER_MS)

/* It takes a layout, which may be long, within this time. */
#define LAYOUT_NS (60000 * WEFT_NS_PER_MS)

/* ---- losing all of them */

/* The trainer's goodbye to this relay is one to those behind it: their own may still be on its way. */
static void pass_goodbye(weft_relay *relay, weft_child *child)
{
    const weft_wire_notice notice = {.version = relay->rollout->current.version.number,
                                     .text = "the trainer said goodbye"};
    weft_control_notice(&child->down, WEFT_MESSAGE_BYE, &notice);
    weft_log(WEFT_LOG_INFO, "goodbye passed on to %s behind this relay%s", child->hello.name, relay->source);
    weft_child_enter(child, WEFT_CHILD_LEAVING);
    weft_child_close(child);
}

void weft_relay_lose(weft_relay *relay, weft_status status, const char *why)
{
    for (uint32_t i = 0; i < relay->child_count; i++) {
        weft_child *child = &relay->children[i];
        if (child->state == WEFT_CHILD_JOINED && status == WEFT_OK) {
            pass_goodbye(relay, child);
        } else if (child->state == WEFT_CHILD_JOINED) {
            weft_child_lose(child, why);
        } else if (child->state > WEFT_CHILD_GUEST && child->state < WEFT_CHILD_JOINED) {
            weft_child_close(child);
            weft_control_hang_up(&child->up);
            weft_child_enter(child, WEFT_CHILD_GUEST);
        }
    }
    relay->pass_sequence = 0;
}

/* ---- one step */

static uint32_t list_guests(void *owner, weft_guest guests[WEFT_GUESTS_MOST])
{
    const weft_relay *relay = owner;
    uint32_t count = 0;
    for (uint32_t i = 0; i < relay->child_count; i++) {
        const weft_child *child = &relay->children[i];
        if (!child->greeted && (child->state == WEFT_CHILD_GUEST || child->state == WEFT_CHILD_LEAVING))
            guests[count++] = (weft_guest){&child->down, child->since_ns, child->state == WEFT_CHILD_LEAVING, i};
    }
    return count;
}

static weft_control *find_child(void *owner, uint32_t *place)
{
    weft_relay *relay = owner;
    for (*place = 0; *place < relay->child_count; ++*place)
        if (relay->children[*place].state == WEFT_CHILD_FREE)
            return &relay->children[*place].down;
    return NULL;
}

static void clear_child(void *owner, uint32_t place)
{
    weft_child_free(&((weft_relay *)owner)->children[place]);
}

static void take_guest(void *owner, uint32_t place)
{
    weft_relay *relay = owner;
    relay->children[place].route = ++relay->next_route;
    weft_child_enter(&relay->children[place], WEFT_CHILD_GUEST);
}

const weft_door_places weft_relay_places = {list_guests, find_child, clear_child, take_guest};

/* Returns true if the child has taken everything that came in for it. If not, the child waits for buckets that were
 * sent, and its own deadline must notice their loss. */
static bool waits_for_more(const weft_child *child)
{
    return child->sender.flights.slots_free == child->sender.flights.slots && child->queue_count == 0;
}

/* Tells a child that the bytes it waits for are still on their way to this relay. */
static weft_status tell_passing(weft_relay *relay, weft_child *child, uint64_t now_ns, weft_waits *waits)
{
    const uint64_t every_ns = weft_session_passing_ns(relay->rollout->session);
    uint64_t moved_ns =
        relay->rollout->intake.moved_ns > child->moved_ns ? relay->rollout->intake.moved_ns : child->moved_ns;
    if (child->open == 0)
        return WEFT_OK;
    weft_waits_until(waits, child->told_ns + every_ns > now_ns ? child->told_ns + every_ns : now_ns + every_ns);
    if (now_ns < child->told_ns + every_ns || moved_ns <= child->told_ns || !waits_for_more(child))
        return WEFT_OK;
    child->told_ns = now_ns;
    return weft_control_send(&child->down, WEFT_MESSAGE_PASSING, NULL, 0);
}

static weft_status check_time(weft_relay *relay, weft_child *child, uint64_t now_ns, weft_waits *waits)
{
    if (child->state == WEFT_CHILD_JOINED) {
        if (weft_send_stalls(&child->sender, now_ns))
            return weft_fail_quiet(WEFT_E_PEER_LOST, "no write moved for io_deadline, %u under way to %s",
                                   child->sender.flights.writes, child->down.peer);
        return tell_passing(relay, child, now_ns, waits);
    }
    const uint64_t guest_ns = relay->rollout->session->site->guests.deadline_ms * WEFT_NS_PER_MS;
    const uint64_t end_ns = child->since_ns + (child->greeted ? JOIN_NS : guest_ns);
    weft_waits_until(waits, end_ns);
    return now_ns > end_ns ? weft_fail_quiet(WEFT_E_PEER_LOST,
                                             child->greeted ? "it was not joined in time" : "it did not say who it is")
                           : WEFT_OK;
}

static weft_status serve_data(weft_relay *relay, weft_child *child, uint64_t now_ns, weft_waits *waits)
{
    bool came = false, moved = false;
    weft_status status = weft_child_arrivals(relay, child, &came);
    if (status == WEFT_OK)
        status = weft_send_poll(&child->sender, now_ns, &moved);
    if (status == WEFT_OK)
        status = weft_child_pump(child, now_ns, waits);
    waits->busy = waits->busy || came || moved;
    return status;
}

static weft_status serve(weft_relay *relay, weft_child *child, weft_waits *waits)
{
    uint64_t now_ns = weft_clock_ns();
    weft_status status = weft_child_greet(relay, child);
    if (status == WEFT_OK)
        status = weft_child_hear(relay, child);
    if (status == WEFT_OK)
        status = child->state == WEFT_CHILD_LEAVING ? WEFT_OK : check_time(relay, child, now_ns, waits);
    if (status == WEFT_OK && child->state == WEFT_CHILD_JOINED)
        status = serve_data(relay, child, now_ns, waits);
    if (status == WEFT_OK && child->state >= WEFT_CHILD_KNOCKING && child->state != WEFT_CHILD_LEAVING)
        status = weft_control_flush(&child->up);
    if (status == WEFT_OK && child->state != WEFT_CHILD_LEAVING)
        status = weft_control_flush(&child->down);
    return status;
}

/* Both ends get what was said to them, each as long as it reads. */
static void leave(weft_relay *relay, weft_child *child, weft_waits *waits)
{
    weft_control *ends[] = {&child->up, &child->down};
    uint64_t patience_ns = relay->rollout->session->site->session.close_deadline_ms * WEFT_NS_PER_MS;
    if (child->down.tail_bytes)
        patience_ns = LAYOUT_NS;
    bool left = false, late = weft_clock_ns() > child->since_ns + patience_ns;
    for (int i = 0; i < 2; i++) {
        if (ends[i]->fd >= 0 && (weft_control_flush(ends[i]) != WEFT_OK || ends[i]->connecting))
            weft_control_hang_up(ends[i]);
        bool writes = weft_control_wants_write(ends[i]);
        left = left || writes;
        if (writes)
            weft_waits_fd(waits, ends[i]->fd, POLLOUT);
    }
    weft_waits_until(waits, child->since_ns + patience_ns + WEFT_NS_PER_MS);
    if (!left || late)
        weft_child_free(child);
}

static void wait_for(const weft_control *from, const weft_control *to, weft_waits *waits)
{
    bool reads = to->out_end - to->out_begin < WEFT_CONTROL_OUT_BYTES / 2;
    short events = (short)((reads ? POLLIN : 0) | (weft_control_wants_write(from) ? POLLOUT : 0));
    if (events) /* else its end, which poll always tells, would keep this end awake until there is room to act on it */
        weft_waits_fd(waits, from->fd, events);
}

static void serve_or_lose(weft_relay *relay, weft_child *child, weft_waits *waits)
{
    weft_log_sink *before = weft_log_enter(child->greeted ? &child->limit.sink : &relay->door.strangers.sink);
    if (serve(relay, child, waits) != WEFT_OK)
        weft_child_lose(child, weft_last_error());
    weft_log_limit_tell(&child->limit);
    weft_log_enter(before);
}

void weft_relay_step(weft_relay *relay, weft_waits *waits)
{
    char full[96];
    snprintf(full, sizeof full, "a connection was closed: %u rollouts are behind this relay already (relay_memory)",
             relay->child_count);
    weft_door_accept(&relay->door, full, waits);
    weft_log_limit_tell(&relay->door.strangers);
    weft_relay_pass(relay);
    for (uint32_t i = 0; i < relay->child_count; i++) {
        weft_child *child = &relay->children[i];
        if (child->state == WEFT_CHILD_FREE)
            continue;
        if (child->state != WEFT_CHILD_LEAVING)
            serve_or_lose(relay, child, waits);
        if (child->state == WEFT_CHILD_LEAVING) {
            leave(relay, child, waits);
            continue;
        }
        wait_for(&child->down, &child->up, waits);
        if (child->up.fd >= 0)
            wait_for(&child->up, &child->down, waits);
    }
}

void weft_relay_wait(const weft_relay *relay, weft_waits *waits)
{
    for (uint32_t i = 0; i < relay->child_count; i++) {
        const weft_child *child = &relay->children[i];
        if (child->own_port && (child->open || weft_provider_is_piped(relay->rollout->intake.provider)))
            weft_waits_port(waits, relay->rollout->intake.provider, child->own_port);
        weft_send_wait(&child->sender, waits);
    }
}

bool weft_relay_busy(const weft_relay *relay)
{
    bool busy = false;
    for (uint32_t i = 0; i < relay->child_count; i++)
        busy = busy || (relay->children[i].state == WEFT_CHILD_JOINED && relay->children[i].open > 0);
    return busy;
}

/* Whether a child that is to leave has still to read what it was told. */
static bool words_are_left(weft_relay *relay)
{
    bool left = false;
    for (uint32_t i = 0; i < relay->child_count; i++) {
        weft_control *down = &relay->children[i].down;
        if (relay->children[i].state == WEFT_CHILD_LEAVING && down->fd >= 0 && weft_control_flush(down) == WEFT_OK)
            left = left || weft_control_wants_write(down);
    }
    return left;
}

void weft_relay_flush(weft_relay *relay, uint64_t deadline_ns)
{
    while (words_are_left(relay) && weft_clock_ns() < deadline_ns)
        weft_clock_pass(WEFT_NS_PER_MS);
}

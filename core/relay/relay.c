/* relay.c - opens and closes the relay's room, and takes its steps for each child. */
#include "relay/relay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/mem.h"
#include "base/status.h"
#include "layout/layout.h"
#include "session/await.h"
#include "wire/guest.h"

/* A guest says who it is within this time, and waits no longer for the relay itself to be joined. */
#define GUEST_NS (10000 * WEFT_NS_PER_MS)

/* Lines at once about one of those behind it, before they are limited. */
#define CHILD_LINES 32u

/* It takes a layout, which may be long, within this time. */
#define LAYOUT_NS (60000 * WEFT_NS_PER_MS)

void weft_child_enter(weft_child *child, weft_child_state state)
{
    child->state = state;
    child->since_ns = weft_clock_ns();
}

/* ---- losing a child */

/* The receiving port before its registration, and both before the blocks are anybody else's. */
static void close_data(weft_relay *relay, weft_child *child)
{
    const weft_provider *provider = relay->rollout->intake.provider;
    if (child->port)
        child->outlet->provider->port_close(child->port);
    if (child->own_port)
        provider->port_close(child->own_port);
    if (child->own_region)
        provider->region_close(child->own_region);
    child->port = child->own_port = NULL;
    child->own_region = NULL;
    weft_child_abandon(relay, child);
}

static void free_child(weft_relay *relay, weft_child *child)
{
    close_data(relay, child);
    weft_control_hang_up(&child->up);
    weft_control_hang_up(&child->down);
    child->greeted = false;
    weft_log_limit_end(&child->limit);
    child->state = WEFT_CHILD_FREE;
}

void weft_child_lose(weft_relay *relay, weft_child *child, const char *why)
{
    if (child->state == WEFT_CHILD_JOINED)
        weft_log(WEFT_LOG_WARN, "lost: %s behind this relay: %s", child->hello.name, why);
    weft_child_enter(child, WEFT_CHILD_LEAVING);
    close_data(relay, child);
}

/* The trainer's goodbye to this relay is one to those behind it: their own may still be on its way. */
static void pass_goodbye(weft_relay *relay, weft_child *child)
{
    uint8_t body[64];
    weft_out out = {body, sizeof body, 0, false};
    weft_wire_notice notice = {.version = relay->rollout->current.version.number, .text = "the trainer said goodbye"};
    weft_wire_put_notice(&out, &notice);
    weft_control_send(&child->down, WEFT_MESSAGE_BYE, out.data, out.used);
    weft_log(WEFT_LOG_INFO, "goodbye passed on to %s behind this relay", child->hello.name);
    weft_child_enter(child, WEFT_CHILD_LEAVING);
    close_data(relay, child);
}

void weft_relay_lose(weft_relay *relay, weft_status status, const char *why)
{
    for (uint32_t i = 0; i < relay->child_count; i++) {
        weft_child *child = &relay->children[i];
        if (child->state == WEFT_CHILD_JOINED && status == WEFT_OK) {
            pass_goodbye(relay, child);
        } else if (child->state == WEFT_CHILD_JOINED) {
            weft_child_lose(relay, child, why);
        } else if (child->state > WEFT_CHILD_GUEST && child->state < WEFT_CHILD_JOINED) {
            close_data(relay, child);
            weft_control_hang_up(&child->up);
            weft_child_enter(child, WEFT_CHILD_GUEST);
        }
    }
    relay->pass_sequence = 0;
}

/* ---- one step */

/* Lists those who have not said who they are. Returns their count. */
static uint32_t list_guests(weft_relay *relay, weft_guest guests[WEFT_CHILDREN_MAX],
                            weft_child *children[WEFT_CHILDREN_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < relay->child_count; i++) {
        weft_child *child = &relay->children[i];
        if (child->greeted || (child->state != WEFT_CHILD_GUEST && child->state != WEFT_CHILD_LEAVING))
            continue;
        children[count] = child;
        guests[count++] = (weft_guest){&child->down, child->since_ns, child->state == WEFT_CHILD_LEAVING};
    }
    return count;
}

static bool is_one_more(weft_relay *relay, const weft_child *newcomer)
{
    weft_guest guests[WEFT_CHILDREN_MAX];
    weft_child *children[WEFT_CHILDREN_MAX];
    const uint32_t count = list_guests(relay, guests, children);
    return weft_guest_is_one_more(relay->rollout->session->site, guests, count, &newcomer->down);
}

static void adopt(weft_relay *relay, weft_child *child, int fd)
{
    weft_control_adopt(&child->down, fd, relay->rollout->session->site->session.io_deadline_ms);
    if (is_one_more(relay, child)) {
        weft_log_sink *before = weft_log_enter(&relay->strangers.sink);
        weft_log(WEFT_LOG_WARN, "a connection from %s was closed: guests_per_address have not said who they are",
                 child->down.peer);
        weft_log_enter(before);
        weft_control_hang_up(&child->down);
        return;
    }
    weft_control_guard(&child->down, relay->rollout->session->guard, NULL);
    child->route = ++relay->next_route;
    weft_child_enter(child, WEFT_CHILD_GUEST);
}

/* The place of one that has not said who it is. NULL: there is none. */
static weft_child *make_room(weft_relay *relay)
{
    weft_guest guests[WEFT_CHILDREN_MAX];
    weft_child *children[WEFT_CHILDREN_MAX];
    const uint32_t count = list_guests(relay, guests, children);
    if (count == 0)
        return NULL;
    weft_child *child = children[weft_guest_pick(guests, count)];
    weft_log(WEFT_LOG_DEBUG, "%s makes room: it did not say who it is", child->down.peer);
    free_child(relay, child);
    return child;
}

static void accept_guests(weft_relay *relay, weft_waits *waits)
{
    for (uint32_t i = 0; i < relay->child_count; i++) {
        weft_child *child = &relay->children[i];
        if (child->state != WEFT_CHILD_FREE)
            continue;
        int fd = accept4(relay->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && weft_descriptors_short(errno))
            fd = accept4(relay->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                weft_waits_fd(waits, relay->listen_fd, POLLIN);
            return;
        }
        adopt(relay, child, fd);
    }
    for (uint32_t turned = 0; turned < WEFT_GUESTS_TURN; turned++) {
        int fd = accept4(relay->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        weft_child *child = fd < 0 ? NULL : make_room(relay);
        if (child) {
            adopt(relay, child, fd);
        } else if (fd >= 0) { /* at once, so that it turns to another */
            close(fd);
            weft_log_sink *before = weft_log_enter(&relay->strangers.sink);
            weft_log(WEFT_LOG_WARN, "a connection was closed: %u rollouts are behind this relay already (relay_memory)",
                     relay->child_count);
            weft_log_enter(before);
        }
    }
    weft_waits_fd(waits, relay->listen_fd, POLLIN);
}

/* Whether all that came in for a child is taken there: else it waits for what it has been sent, and must find out if
 * that was lost. */
static bool waits_for_more(const weft_child *child)
{
    return child->slots_used == 0 && child->queue_count == 0;
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
    uint64_t io_ns = relay->rollout->session->site->session.io_deadline_ms * WEFT_NS_PER_MS;
    if (child->state == WEFT_CHILD_JOINED) {
        if ((child->writes || child->again) && now_ns > child->progress_ns + io_ns)
            return weft_fail_quiet(WEFT_E_PEER_LOST, "no write moved for io_deadline, %u under way to %s",
                                   child->writes, child->down.peer);
        return tell_passing(relay, child, now_ns, waits);
    }
    weft_waits_until(waits, child->since_ns + GUEST_NS);
    return now_ns > child->since_ns + GUEST_NS ? weft_fail_quiet(WEFT_E_PEER_LOST, "it was not joined in time")
                                               : WEFT_OK;
}

static weft_status serve_data(weft_relay *relay, weft_child *child, uint64_t now_ns, weft_waits *waits)
{
    bool any = false;
    weft_status status = weft_child_arrivals(relay, child, &any);
    if (status == WEFT_OK)
        status = weft_child_poll(relay, child, now_ns, &any);
    if (status == WEFT_OK)
        status = weft_child_pump(relay, child, now_ns, waits);
    waits->busy = waits->busy || any;
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
        free_child(relay, child);
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
    weft_log_sink *before = weft_log_enter(child->greeted ? &child->limit.sink : &relay->strangers.sink);
    if (serve(relay, child, waits) != WEFT_OK)
        weft_child_lose(relay, child, weft_last_error());
    weft_log_limit_tell(&child->limit);
    weft_log_enter(before);
}

void weft_relay_step(weft_relay *relay, weft_waits *waits)
{
    accept_guests(relay, waits);
    weft_log_limit_tell(&relay->strangers);
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

static void wait(const weft_relay *relay, weft_waits *waits)
{
    for (uint32_t i = 0; i < relay->child_count; i++) {
        const weft_child *child = &relay->children[i];
        if (child->own_port && (child->open || weft_provider_is_piped(relay->rollout->intake.provider)))
            weft_waits_port(waits, relay->rollout->intake.provider, child->own_port);
        if (child->port && (child->writes || child->again))
            weft_waits_port(waits, child->outlet->provider, child->port);
    }
}

static bool is_busy(const weft_relay *relay)
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

static void flush(weft_relay *relay, uint64_t deadline_ns)
{
    while (words_are_left(relay) && weft_clock_ns() < deadline_ns)
        weft_clock_pass(WEFT_NS_PER_MS);
}

/* ---- open and close */

static weft_status open_memory(weft_relay *relay)
{
    const weft_rollout *rollout = relay->rollout;
    relay->stride = rollout->intake.slots.stride;
    relay->block_count = (uint32_t)(rollout->site.relay_memory / relay->stride < WEFT_BLOCKS_MAX
                                        ? rollout->site.relay_memory / relay->stride
                                        : WEFT_BLOCKS_MAX);
    relay->child_count = relay->block_count / 2 / WEFT_CHILD_OWN;
    if (relay->child_count > WEFT_CHILDREN_MAX)
        relay->child_count = WEFT_CHILDREN_MAX;
    if (relay->child_count == 0)
        return weft_fail(WEFT_E_CONFIG, "[peer.%s] relay_memory = %llu bytes: need four slots of %llu",
                         rollout->site.name, (unsigned long long)rollout->site.relay_memory,
                         (unsigned long long)relay->stride);
    relay->shared_count = relay->block_count - relay->child_count * WEFT_CHILD_OWN;
    relay->memory_bytes = relay->stride * relay->block_count;
    relay->headers_bytes = (uint64_t)relay->child_count * WEFT_CHILD_SLOTS * WEFT_RELAY_HEADER;
    relay->memory = weft_mem_map(relay->memory_bytes);
    relay->headers = weft_mem_map(relay->headers_bytes);
    relay->blocks = weft_mem_take(relay->block_count, sizeof *relay->blocks);
    relay->children = weft_mem_take(relay->child_count, sizeof *relay->children);
    relay->queues = weft_mem_take((uint64_t)relay->child_count * relay->block_count, sizeof *relay->queues);
    if (!relay->memory || !relay->headers || !relay->blocks || !relay->children || !relay->queues)
        return weft_fail(WEFT_E_MEMORY, "no memory for a relay: %llu bytes; lower relay_memory",
                         (unsigned long long)relay->memory_bytes);
    return WEFT_OK;
}

static weft_status open_child(weft_relay *relay, weft_child *child)
{
    child->queue = relay->queues + (uint64_t)weft_child_index(relay, child) * relay->block_count;
    child->own.memory = relay->memory + weft_child_block(relay, child) * relay->stride;
    child->own.stride = relay->stride;
    weft_log_limit_open(&child->limit, &relay->rollout->session->sink, CHILD_LINES);
    child->own.slot = weft_mem_take(WEFT_CHILD_OWN, sizeof *child->own.slot);
    if (!child->own.slot)
        return weft_fail(WEFT_E_MEMORY, "no memory for a relay's slots");
    weft_status status = weft_control_open(&child->up);
    return status == WEFT_OK ? weft_control_open(&child->down) : status;
}

static weft_status open_layout(weft_relay *relay)
{
    const weft_layout *layout = relay->rollout->session->layout;
    relay->layout_length = weft_layout_wire_bytes(layout);
    relay->layout_bytes = weft_mem_take(1, relay->layout_length);
    if (!relay->layout_bytes)
        return weft_fail(WEFT_E_MEMORY, "no memory for the layout's %llu bytes",
                         (unsigned long long)relay->layout_length);
    weft_layout_write(layout, relay->layout_bytes);
    return WEFT_OK;
}

/* The address may come with its interface. */
static weft_status listen_at(weft_relay *relay)
{
    const weft_rollout *rollout = relay->rollout;
    weft_await await = weft_await_begin(rollout->session->site);
    weft_status status;
    do
        status = weft_control_listen(rollout->site.relay, &relay->listen_fd, relay->listen);
    while (weft_await_more(&await, status));
    return weft_await_end(&await, status);
}

static uint64_t bytes_of(const weft_relay *relay)
{
    uint64_t child = sizeof *relay->children + WEFT_CHILD_OWN * sizeof(weft_slot) + 2 * WEFT_CONTROL_OUT_BYTES +
                     relay->block_count * sizeof *relay->queues;
    return relay->memory_bytes + relay->headers_bytes + relay->block_count * sizeof *relay->blocks +
           relay->child_count * child;
}

static weft_status open_relay(weft_rollout *rollout)
{
    weft_relay *relay = weft_mem_take(1, sizeof *relay);
    if (!relay)
        return weft_fail(WEFT_E_MEMORY, "no memory for a relay");
    rollout->relay = relay;
    relay->rollout = rollout;
    relay->listen_fd = -1;
    weft_status status = open_memory(relay);
    weft_log_limit_open(&relay->strangers, &rollout->session->sink, 1);
    for (uint32_t i = 0; i < relay->child_count && status == WEFT_OK; i++)
        status = open_child(relay, &relay->children[i]);
    if (status == WEFT_OK)
        status = open_layout(relay);
    if (status == WEFT_OK)
        status = listen_at(relay);
    if (status != WEFT_OK)
        return status;
    weft_log(WEFT_LOG_INFO, "relay %s on %s: %.1f MB: %u blocks of %llu bytes for all, 2 for each of %u behind it",
             rollout->site.name, relay->listen, (double)bytes_of(relay) / 1e6, relay->shared_count,
             (unsigned long long)rollout->intake.slots.payload, relay->child_count);
    return WEFT_OK;
}

static void close_relay(weft_rollout *rollout)
{
    weft_relay *relay = rollout->relay;
    for (uint32_t i = 0; relay->children && i < relay->child_count; i++) {
        weft_child *child = &relay->children[i];
        if (child->down.in) /* else neither connection was opened, and none has a descriptor */
            free_child(relay, child);
        weft_log_limit_end(&child->limit);
        weft_control_close(&child->up);
        weft_control_close(&child->down);
        weft_mem_give(child->own.slot);
    }
    for (uint32_t i = 0; i < WEFT_RELAY_OUTLETS; i++)
        if (relay->outlets[i].provider)
            weft_relay_outlet_close(&relay->outlets[i]);
    weft_log_limit_end(&relay->strangers);
    weft_control_unlisten(relay->listen_fd);
    weft_mem_give(relay->layout_bytes);
    weft_mem_give(relay->queues);
    weft_mem_give(relay->children);
    weft_mem_give(relay->blocks);
    if (relay->headers)
        weft_mem_unmap(relay->headers, relay->headers_bytes);
    if (relay->memory)
        weft_mem_unmap(relay->memory, relay->memory_bytes);
    weft_mem_give(relay);
    rollout->relay = NULL;
}

static const weft_relay_hooks hooks = {.open = open_relay,
                                       .close = close_relay,
                                       .bytes = bytes_of,
                                       .step = weft_relay_step,
                                       .wait = wait,
                                       .busy = is_busy,
                                       .pass = weft_relay_pass,
                                       .follow = weft_relay_follow,
                                       .unfollow = weft_relay_unfollow,
                                       .lose = weft_relay_lose,
                                       .flush = flush};

weft_status weft_rollout_open(const weft_site *site, const char *peer, const weft_layout *layout,
                              const weft_options *options, weft_session **session)
{
    return weft_rollout_make(site, peer, layout, options, &hooks, session);
}

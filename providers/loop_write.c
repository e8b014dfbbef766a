/* loop_write.c - posting, landing and polling in the loop, with the faults. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "providers/loop_hub.h"

/* splitmix64: every seed gives another sequence, 0 included. */
static uint64_t draw(weft_loop_state *state)
{
    uint64_t x = state->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static bool hits(uint64_t write, uint64_t every, uint64_t at)
{
    return (every && write % every == 0) || (at && write == at);
}

static void push(weft_port *port, weft_completion completion)
{
    static const uint64_t one = 1;
    port->ring[(port->ring_head + port->ring_count++) % port->ring_size] = completion;
    if (port->ring_count == 1 && write(port->fd, &one, sizeof one) < 0)
        return; /* EAGAIN: it is readable already */
}

static weft_completion pop(weft_port *port)
{
    weft_completion completion = port->ring[port->ring_head];
    port->ring_head = (port->ring_head + 1) % port->ring_size;
    port->ring_count--;
    return completion;
}

static void complete(weft_port *port, const weft_write *write, weft_status status)
{
    push(port, (weft_completion){.kind = status == WEFT_OK ? WEFT_COMPLETION_WRITTEN : WEFT_COMPLETION_FAILED,
                                 .status = status,
                                 .cookie = write->cookie});
}

static void arrive(weft_port *port, uint32_t immediate)
{
    push(port, (weft_completion){.kind = WEFT_COMPLETION_ARRIVED, .status = WEFT_OK, .immediate = immediate});
    port->arrivals++;
}

/* Where the write lands; NULL if its key, address or length names no granted memory. */
static uint8_t *target_of(const weft_write *write)
{
    weft_region *region = write->remote_key ? weft_loop_region_of(write->remote_key) : NULL;
    if (!region || write->remote_address < region->address)
        return NULL;
    uint64_t offset = write->remote_address - region->address;
    if (offset > region->bytes || write->bytes > region->bytes - offset)
        return NULL;
    return region->memory + offset;
}

/* A full receiver takes nothing; one place is kept for a duplicate. */
static bool is_full(const weft_port *peer)
{
    return peer->arrivals + 2 > WEFT_LOOP_ARRIVALS_MAX;
}

typedef struct landing {
    bool corrupt;
    bool duplicate;
    bool completed; /* when it was taken */
} landing;

static void land(weft_port *port, const weft_write *write, landing how)
{
    weft_loop_state *state = weft_loop_state_of(port);
    weft_port *peer = weft_loop_port_of(port->peer);
    uint8_t *target = target_of(write);
    if (!peer || !target || is_full(peer)) {
        state->counts.failed++;
        complete(port, write, WEFT_E_PEER_LOST);
        return;
    }
    memcpy(target, write->data, write->bytes);
    if (how.corrupt) {
        uint64_t bit = draw(state) % (write->bytes * 8);
        target[bit / 8] ^= (uint8_t)(1u << bit % 8);
        state->counts.corrupted++;
    }
    state->counts.landed++;
    arrive(peer, write->immediate);
    if (how.duplicate) {
        arrive(peer, write->immediate);
        state->counts.duplicated++;
    }
    if (!how.completed)
        complete(port, write, WEFT_OK);
}

/* Bytes that the line has carried by now. */
static void land_lined(weft_port *port)
{
    const uint64_t now_ns = weft_clock_ns();
    uint32_t landed = 0;
    for (; landed < port->held_count && port->due_ns[landed] <= now_ns; landed++)
        land(port, &port->held[landed], (landing){.completed = true});
    port->held_count -= landed;
    memmove(port->held, port->held + landed, port->held_count * sizeof *port->held);
    memmove(port->due_ns, port->due_ns + landed, port->held_count * sizeof *port->due_ns);
    port->lined = port->held_count > 0;
}

/* After all that the line was given before. */
static void line_up(weft_port *port, const weft_write *write, weft_loop_state *state)
{
    const uint64_t rate = state->faults.line_bytes_s, now_ns = weft_clock_ns();
    if (state->line_ns < now_ns)
        state->line_ns = now_ns;
    state->line_ns += rate ? write->bytes * UINT64_C(1000000000) / rate : 0;
    port->due_ns[port->held_count - 1] = state->line_ns;
    complete(port, write, WEFT_OK);
}

static void land_one_held(weft_port *port)
{
    uint32_t i = (uint32_t)(draw(weft_loop_state_of(port)) % port->held_count);
    weft_write write = port->held[i];
    port->held[i] = port->held[--port->held_count];
    land(port, &write, (landing){.corrupt = false});
}

static void break_port(weft_port *port)
{
    port->broken = true;
    port->held_count = 0;
    push(port, (weft_completion){.kind = WEFT_COMPLETION_FAILED, .status = WEFT_E_PEER_LOST, .cookie = UINT64_MAX});
}

/* Writes that are taken but do not land. */
static bool lose(weft_port *port, const weft_write *write, weft_loop_state *state)
{
    const weft_loop_faults *f = &state->faults;
    uint64_t n = state->counts.posted;
    if (port->broken || (f->stall_after && n > f->stall_after)) {
        state->counts.stalled++;
    } else if (hits(n, f->fail_every, f->fail_at)) {
        state->counts.failed++;
        complete(port, write, f->fail_status != WEFT_OK ? f->fail_status : WEFT_E_PEER_LOST);
    } else if (f->break_at == n) {
        state->counts.failed++;
        break_port(port);
    } else if (hits(n, f->drop_every, f->drop_at)) {
        state->counts.dropped++;
        complete(port, write, WEFT_OK);
    } else {
        return false;
    }
    return true;
}

static uint32_t window_of(const weft_port *port, const weft_loop_state *state)
{
    uint32_t asked = state->faults.reorder_window;
    return asked < port->link->depth ? asked : port->link->depth;
}

static void take(weft_port *port, const weft_write *write, weft_loop_state *state)
{
    const weft_loop_faults *f = &state->faults;
    uint64_t n = state->counts.posted;
    landing how = {.corrupt = hits(n, f->corrupt_every, f->corrupt_at),
                   .duplicate = hits(n, f->duplicate_every, f->duplicate_at)};
    port->in_flight++;
    if (lose(port, write, state))
        return;
    port->lined = port->lined || (f->line_bytes_s && port->held_count == 0);
    if (how.corrupt || how.duplicate || (!port->lined && !window_of(port, state))) {
        land(port, write, how);
        return;
    }
    state->counts.held++;
    port->held[port->held_count++] = *write;
    if (port->lined)
        line_up(port, write, state);
    else if (port->held_count > window_of(port, state))
        land_one_held(port);
}

static weft_status post(weft_port *port, const weft_write *write)
{
    weft_loop_state *state = weft_loop_state_of(port);
    const weft_port *peer = weft_loop_port_of(port->peer);
    if (port->in_flight >= port->link->depth || port->held_count == port->link->depth || (peer && is_full(peer)))
        return WEFT_AGAIN;
    state->counts.posted++;
    port->posted = true;
    if (state->faults.again_every && state->counts.posted % state->faults.again_every == 0) {
        state->counts.refused++;
        return WEFT_AGAIN;
    }
    take(port, write, state);
    return WEFT_OK;
}

weft_status weft_loop_write(weft_port *port, const weft_write *write)
{
    if (!port->peer || !write->bytes || write->bytes > port->link->chunk_bytes)
        return weft_fail(WEFT_E_ARGUMENT, "provider loop: a write of %llu bytes; 1 to %llu fit, on a connected port",
                         (unsigned long long)write->bytes, (unsigned long long)port->link->chunk_bytes);
    weft_loop_lock();
    weft_status status = post(port, write);
    weft_loop_unlock();
    return status;
}

static size_t take_completions(weft_port *port, weft_completion *completions, size_t capacity)
{
    size_t count = 0;
    uint64_t drained;
    while (count < capacity && port->ring_count) {
        completions[count] = pop(port);
        if (completions[count].kind == WEFT_COMPLETION_ARRIVED)
            port->arrivals--;
        else if (port->in_flight)
            port->in_flight--;
        count++;
    }
    if (!port->ring_count && read(port->fd, &drained, sizeof drained) < 0)
        return count; /* EAGAIN: nothing was signalled */
    return count;
}

size_t weft_loop_poll(weft_port *port, weft_completion *completions, size_t capacity)
{
    weft_loop_lock();
    weft_port *sender = weft_loop_port_of(port->peer);
    if (sender && sender->lined)
        land_lined(sender);
    if (port->lined)
        land_lined(port);
    else if (port->held_count && !port->posted)
        land_one_held(port);
    port->posted = false;
    size_t count = take_completions(port, completions, capacity);
    weft_loop_unlock();
    return count;
}

weft_status weft_loop_wait_arm(weft_port *port)
{
    weft_loop_lock();
    bool busy = port->ring_count || port->held_count;
    weft_loop_unlock();
    return busy ? WEFT_AGAIN : WEFT_OK;
}

#include "tools/bench/fabric/end.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"

#define NAP_NS 100000u /* where there is no descriptor; a session's sleep is adaptive and begins about there */

/* ---- open */

static weft_status open_memory(weft_bench_end *end)
{
    end->out = weft_mem_map(WEFT_BENCH_SPAN);
    end->in = weft_mem_map(WEFT_BENCH_SPAN);
    if (!end->out || !end->in)
        return weft_fail(WEFT_E_MEMORY, "no memory for two times %u MiB", (unsigned)(WEFT_BENCH_SPAN >> 20));
    memset(end->out, 0x5a, WEFT_BENCH_SPAN);
    memset(end->in, 0, WEFT_BENCH_SPAN);
    weft_status status = end->provider->region_open(end->link, end->port, end->out, WEFT_BENCH_SPAN, false, &end->from);
    if (status == WEFT_OK)
        status = end->provider->region_open(end->link, end->port, end->in, WEFT_BENCH_SPAN, true, &end->to);
    return status;
}

static weft_status open_local(weft_bench_end *end, const char *name, const weft_link_options *link)
{
    weft_link_options options = *link;
    options.chunk_bytes = WEFT_BENCH_CHUNK_MAX;
    options.depth = WEFT_BENCH_DEPTH_MAX;
    options.landing = (weft_landing){.slots = WEFT_BENCH_WRITES};
    end->provider = weft_provider_find(name);
    if (!end->provider)
        return weft_fail(WEFT_E_MISSING, "this build has no provider '%s'", name);
    weft_status status = end->provider->link_open(&options, &end->link);
    if (status != WEFT_OK)
        return status;
    end->provider->link_facts(end->link, &end->facts);
    status = end->provider->port_open(end->link, &end->port);
    return status == WEFT_OK ? open_memory(end) : status;
}

static weft_status say_hello(weft_bench_end *end)
{
    weft_bench_message mine = {.order = WEFT_BENCH_HELLO};
    weft_status status = end->provider->port_address(end->port, mine.port, &mine.length);
    end->provider->region_remote(end->to, &mine.address, &mine.key);
    return status == WEFT_OK ? weft_bench_say(end->line, &mine) : status;
}

static weft_status hear_hello(const weft_bench_end *end, weft_bench_message *theirs)
{
    weft_status status = weft_bench_hear(end->line, theirs);
    if (status == WEFT_OK && theirs->order != WEFT_BENCH_HELLO)
        return weft_fail_quiet(WEFT_E_PROTOCOL, "the other end does not begin with its address");
    return status;
}

/* The end that waits opens nothing before the other one has: what both would miss is told once. */
static weft_status open_in_turn(weft_bench_end *end, const char *provider, const weft_link_options *link, bool waits)
{
    weft_bench_message theirs = {0};
    weft_status status = waits ? hear_hello(end, &theirs) : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    status = open_local(end, provider, link);
    if (status != WEFT_OK) {
        weft_bench_say_failed(end->line);
        return status;
    }
    status = say_hello(end);
    if (status == WEFT_OK && !waits)
        status = hear_hello(end, &theirs);
    if (status != WEFT_OK)
        return status;
    end->remote_address = theirs.address;
    end->remote_key = theirs.key;
    return end->provider->port_connect(end->port, theirs.port, theirs.length);
}

weft_status weft_bench_end_open(weft_bench_end *end, const char *provider, const weft_link_options *link,
                                weft_bench_line *line, bool waits)
{
    *end = (weft_bench_end){.line = line, .progress_ns = weft_clock_ns()};
    return open_in_turn(end, provider, link, waits);
}

void weft_bench_end_close(weft_bench_end *end)
{
    if (end->port)
        end->provider->port_close(end->port);
    if (end->from)
        end->provider->region_close(end->from);
    if (end->to)
        end->provider->region_close(end->to);
    if (end->link)
        end->provider->link_close(end->link);
    weft_mem_unmap(end->out, WEFT_BENCH_SPAN);
    if (end->in)
        weft_mem_unmap(end->in, WEFT_BENCH_SPAN);
    *end = (weft_bench_end){.line = NULL};
}

/* ---- writes */

weft_status weft_bench_end_post(weft_bench_end *end, uint64_t number, uint64_t bytes)
{
    uint64_t offset = number % WEFT_BENCH_DEPTH_MAX * bytes;
    weft_write write = {.region = end->from,
                        .data = end->out + offset,
                        .bytes = bytes,
                        .remote_address = end->remote_address + offset,
                        .remote_key = end->remote_key,
                        .immediate = (uint32_t)number,
                        .cookie = number};
    weft_status status = end->provider->write(end->port, &write);
    if (status == WEFT_OK) {
        end->under_way++;
        end->progress_ns = weft_clock_ns();
    }
    return status;
}

static void wait_for_more(weft_bench_end *end)
{
    struct pollfd descriptor = {.fd = end->provider->wait_fd(end->port), .events = POLLIN};
    struct timespec nap = {0, NAP_NS};
    if (descriptor.fd < 0)
        nanosleep(&nap, NULL);
    else if (end->provider->wait_arm(end->port) == WEFT_OK)
        poll(&descriptor, 1, 100);
}

weft_status weft_bench_end_step(weft_bench_end *end, bool asleep)
{
    weft_completion done[16];
    size_t count = end->provider->poll(end->port, done, 16);
    for (size_t i = 0; i < count; i++) {
        if (done[i].kind == WEFT_COMPLETION_FAILED)
            return done[i].status;
        if (done[i].kind == WEFT_COMPLETION_ARRIVED)
            end->arrived++;
        else
            end->under_way--;
    }
    if (count) {
        end->progress_ns = weft_clock_ns();
        return WEFT_OK;
    }
    if (weft_clock_ms(end->progress_ns, weft_clock_ns()) > WEFT_BENCH_STALL_MS)
        return weft_fail_quiet(WEFT_E_TIMEOUT, "provider %s: no write has ended for %d s", end->provider->name,
                               WEFT_BENCH_STALL_MS / 1000);
    if (asleep)
        wait_for_more(end);
    return WEFT_OK;
}

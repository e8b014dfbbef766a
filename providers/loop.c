/* loop.c - the in-process fabric under the provider table: links, regions, ports. */
#include "providers/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "providers/loop_hub.h"
#include "providers/no_pipe.h"

#define CHUNK_BYTES   (UINT64_C(1) << 20)
#define DEPTH         8u
#define DEPTH_MAX     1024u
#define ADDRESS_BYTES 16u
#define ADDRESS_MAGIC UINT64_C(0x31706f6f6c746665) /* "eftloop1" */

static pthread_mutex_t hub = PTHREAD_MUTEX_INITIALIZER;
/* By the low bits of their random numbers. */
#define BUCKETS 1024u
static weft_port *ports[BUCKETS];
static weft_region *regions[BUCKETS];
static weft_loop_state shared;
static struct {
    char address[64]; /* "": unused */
    weft_loop_state state;
} rails[WEFT_LOOP_RAILS];

void weft_loop_lock(void)
{
    pthread_mutex_lock(&hub);
}

void weft_loop_unlock(void)
{
    pthread_mutex_unlock(&hub);
}

weft_port *weft_loop_port_of(uint64_t id)
{
    weft_port *port = ports[id % BUCKETS];
    while (port && port->id != id)
        port = port->next;
    return port;
}

weft_region *weft_loop_region_of(uint64_t key)
{
    weft_region *region = regions[key % BUCKETS];
    while (region && region->key != key)
        region = region->next;
    return region;
}

static weft_loop_state *rail_of(const char *address)
{
    for (uint32_t i = 0; address[0] && i < WEFT_LOOP_RAILS; i++)
        if (strcmp(rails[i].address, address) == 0)
            return &rails[i].state;
    return NULL;
}

weft_loop_state *weft_loop_state_of(const weft_port *port)
{
    weft_loop_state *rail = port->link->has_faults ? &port->link->own : rail_of(port->link->address);
    return rail ? rail : &shared;
}

static weft_status loop_link_here(const weft_link *link)
{
    weft_loop_lock();
    const weft_loop_state *rail = rail_of(link->address);
    const bool away = rail && rail->faults.away;
    weft_loop_unlock();
    return away ? weft_fail_quiet(WEFT_E_CONFIG, "provider loop: %s is away", link->address) : WEFT_OK;
}

void weft_loop_state_set(weft_loop_state *state, const weft_loop_faults *faults)
{
    memset(state, 0, sizeof *state);
    if (faults)
        state->faults = *faults;
    state->random = state->faults.seed;
}

void weft_loop_set_faults(const weft_loop_faults *faults)
{
    weft_loop_lock();
    weft_loop_state_set(&shared, faults);
    weft_loop_unlock();
}

void weft_loop_set_rail(const char *address, const weft_loop_faults *faults)
{
    uint32_t at = WEFT_LOOP_RAILS;
    weft_loop_lock();
    for (uint32_t i = 0; i < WEFT_LOOP_RAILS; i++)
        if (strcmp(rails[i].address, address) == 0 || (at == WEFT_LOOP_RAILS && !rails[i].address[0]))
            at = i;
    if (at < WEFT_LOOP_RAILS) {
        snprintf(rails[at].address, sizeof rails[at].address, "%s", faults ? address : "");
        weft_loop_state_set(&rails[at].state, faults);
    }
    weft_loop_unlock();
}

void weft_loop_counted(weft_loop_counts *counts)
{
    weft_loop_lock();
    *counts = shared.counts;
    weft_loop_unlock();
}

void weft_loop_link_counted(const weft_link *link, weft_loop_counts *counts)
{
    weft_loop_lock();
    *counts = link->own.counts;
    weft_loop_unlock();
}

static size_t loop_probe(weft_provider_info *list, size_t capacity)
{
    if (capacity) {
        memset(list, 0, sizeof *list);
        snprintf(list->provider, sizeof list->provider, "loop");
        snprintf(list->fabric, sizeof list->fabric, "loop");
        snprintf(list->detail, sizeof list->detail, "within one process, for tests; %u writes in flight per peer",
                 DEPTH);
        list->message_bytes = CHUNK_BYTES;
        list->usable = 1;
    }
    return 1;
}

static weft_status loop_link_open(const weft_link_options *options, weft_link **link)
{
    weft_link *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider loop: no memory for a link");
    uint32_t depth = options->depth ? options->depth : DEPTH;
    opened->chunk_bytes = options->chunk_bytes ? options->chunk_bytes : CHUNK_BYTES;
    opened->depth = depth < DEPTH_MAX ? depth : DEPTH_MAX;
    snprintf(opened->address, sizeof opened->address, "%s", options->address ? options->address : "");
    opened->has_faults = options->faults != NULL;
    weft_loop_state_set(&opened->own, options->faults);
    weft_status status = loop_link_here(opened);
    if (status != WEFT_OK)
        weft_mem_give(opened);
    else
        *link = opened;
    return status == WEFT_E_CONFIG ? WEFT_AGAIN : status; /* what is away may come */
}

static void loop_link_close(weft_link *link)
{
    weft_mem_give(link);
}

static void loop_link_facts(const weft_link *link, weft_link_facts *facts)
{
    *facts = (weft_link_facts){
        .fabric = "loop",
        .chunk_bytes = link->chunk_bytes,
        .depth = link->depth,
        .has_fd = true,
        .version = 0,
    };
}

/* Never 0, which means none. */
static weft_status random_number(uint64_t *number)
{
    do {
        if (getrandom(number, sizeof *number, 0) != sizeof *number)
            return weft_fail(WEFT_E_SYSTEM, "getrandom: %s", strerror(errno));
    } while (!*number);
    return WEFT_OK;
}

static weft_status publish_region(weft_region *region)
{
    uint64_t base;
    weft_status status = random_number(&region->key);
    if (status == WEFT_OK)
        status = random_number(&base);
    if (status != WEFT_OK)
        return status;
    region->address = base >> 2 & ~UINT64_C(0xfff); /* room above it for any length */
    weft_loop_lock();
    region->next = regions[region->key % BUCKETS];
    regions[region->key % BUCKETS] = region;
    weft_loop_unlock();
    return WEFT_OK;
}

static weft_status loop_region_open(weft_link *link, weft_port *port, void *memory, uint64_t bytes, bool remote,
                                    weft_region **region)
{
    (void)link;
    (void)port;
    weft_region *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider loop: no memory for a region");
    opened->memory = memory;
    opened->bytes = bytes;
    weft_status status = remote ? publish_region(opened) : WEFT_OK;
    if (status != WEFT_OK)
        weft_mem_give(opened);
    else
        *region = opened;
    return status;
}

static void loop_region_close(weft_region *region)
{
    if (!region)
        return;
    weft_loop_lock();
    for (weft_region **at = &regions[region->key % BUCKETS]; *at; at = &(*at)->next)
        if (*at == region) {
            *at = region->next;
            break;
        }
    weft_loop_unlock();
    weft_mem_give(region);
}

static void loop_region_remote(const weft_region *region, uint64_t *address, uint64_t *key)
{
    *address = region->address;
    *key = region->key;
}

static void give_port(weft_port *port)
{
    if (port->fd >= 0)
        close(port->fd);
    weft_mem_give(port->due_ns);
    weft_mem_give(port->held);
    weft_mem_give(port->ring);
    weft_mem_give(port);
}

static weft_status fill_port(weft_port *port)
{
    uint32_t depth = port->link->depth;
    port->ring_size = depth + WEFT_LOOP_ARRIVALS_MAX + 1; /* 1: the port's own failure */
    port->ring = weft_mem_take(port->ring_size, sizeof *port->ring);
    port->held = weft_mem_take(depth, sizeof *port->held);
    port->due_ns = weft_mem_take(depth, sizeof *port->due_ns);
    if (!port->ring || !port->held || !port->due_ns)
        return weft_fail(WEFT_E_MEMORY, "provider loop: no memory for a port");
    port->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (port->fd < 0)
        return weft_fail(WEFT_E_SYSTEM, "provider loop: eventfd: %s", strerror(errno));
    return random_number(&port->id);
}

static weft_status loop_port_open(weft_link *link, weft_port **port)
{
    weft_status status = loop_link_here(link);
    if (status != WEFT_OK)
        return status;
    weft_port *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider loop: no memory for a port");
    opened->link = link;
    opened->fd = -1;
    status = fill_port(opened);
    if (status != WEFT_OK) {
        give_port(opened);
        return status;
    }
    weft_loop_lock();
    opened->next = ports[opened->id % BUCKETS];
    ports[opened->id % BUCKETS] = opened;
    weft_loop_unlock();
    *port = opened;
    return WEFT_OK;
}

static void loop_port_close(weft_port *port)
{
    if (!port)
        return;
    weft_loop_lock();
    for (weft_port **at = &ports[port->id % BUCKETS]; *at; at = &(*at)->next)
        if (*at == port) {
            *at = port->next;
            break;
        }
    weft_loop_unlock();
    give_port(port);
}

static weft_status loop_port_address(const weft_port *port, uint8_t *address, uint32_t *length)
{
    static const uint64_t magic = ADDRESS_MAGIC;
    memcpy(address, &magic, sizeof magic);
    memcpy(address + sizeof magic, &port->id, sizeof port->id);
    *length = ADDRESS_BYTES;
    return WEFT_OK;
}

static weft_status loop_port_connect(weft_port *port, const uint8_t *address, uint32_t length)
{
    uint64_t words[2] = {0};
    if (length != ADDRESS_BYTES)
        return weft_fail(WEFT_E_PROTOCOL, "provider loop: %u bytes that are no address of this provider", length);
    memcpy(words, address, sizeof words);
    if (words[0] != ADDRESS_MAGIC)
        return weft_fail(WEFT_E_PROTOCOL, "provider loop: bytes that are no address of this provider");
    if (port->peer)
        return weft_fail(WEFT_E_STATE, "provider loop: the port is connected already");
    weft_loop_lock();
    bool known = weft_loop_port_of(words[1]) != NULL;
    weft_loop_unlock();
    if (!known)
        return weft_fail(WEFT_E_UNREACHABLE, "provider loop: no such port in this process; loop joins no processes");
    port->peer = words[1];
    return WEFT_OK;
}

static int loop_wait_fd(const weft_port *port)
{
    return port->fd;
}

const weft_provider weft_provider_loop = {
    .abi = WEFT_PROVIDER_ABI,
    .name = "loop",
    .probe = loop_probe,
    .link_open = loop_link_open,
    .link_close = loop_link_close,
    .link_facts = loop_link_facts,
    .link_here = loop_link_here,
    .region_open = loop_region_open,
    .region_close = loop_region_close,
    .region_remote = loop_region_remote,
    .port_open = loop_port_open,
    .port_close = loop_port_close,
    .port_address = loop_port_address,
    .port_connect = loop_port_connect,
    .port_pipe = weft_no_pipe,
    .write = weft_loop_write,
    .poll = weft_loop_poll,
    .wait_fd = loop_wait_fd,
    .wait_arm = weft_loop_wait_arm,
};

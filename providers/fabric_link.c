/* fabric_link.c - opening one local address on libfabric, and registering memory there. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "log.h"
#include "mem.h"
#include "providers/copies.h"
#include "providers/place.h"
#include "status.h"

#define KEY_RETRIES 4 /* random keys may collide where the provider's are short */

/* Locked by registrations of this process: its limit is one for all sessions. */
static _Atomic uint64_t pinned_bytes;

static void warn_environment(const weft_profile *profile)
{
    for (const weft_profile_environment *e = profile->environment; e < profile->environment + WEFT_PROFILE_ENVIRONMENT;
         e++) {
        if (!e->name)
            return;
        if (e->duty != WEFT_DUTY_WARN)
            continue;
        const char *value = getenv(e->name);
        if (!value || strcmp(value, e->value) != 0)
            weft_log(WEFT_LOG_WARN, "provider %s: %s=%s is not set in the environment: %s", profile->name, e->name,
                     e->value, e->reason);
    }
}

static weft_status take(weft_link *link, const weft_review *review)
{
    const weft_profile *profile = link->profile;
    const weft_selection *selection = &review->selection;
    if (selection->missing != WEFT_MISSING_NOTHING)
        return weft_fail(weft_select_status(selection->missing), "provider %s: %s", profile->name, selection->text);
    const weft_candidate *candidate = &review->candidates[selection->taken];
    bool source = profile->addressing == WEFT_ADDRESS_SOURCE;
    link->fabric_name = weft_profile_fabric(profile, fi_version());
    if (source)
        memcpy(link->address, review->numeric, sizeof link->address);
    int error = weft_fabric_getinfo(profile, candidate, source ? link->address : NULL, &link->info);
    if (error)
        return weft_fail(WEFT_E_MISSING, "provider %s: fi_getinfo(%s, %s%s%s): %s; %s", profile->name,
                         candidate->provider, candidate->domain, link->address[0] ? ", " : "", link->address,
                         fi_strerror(-error), profile->absent);
    return WEFT_OK;
}

static weft_status find(weft_link *link, const char *address)
{
    weft_review review;
    if (link->profile->addressing == WEFT_ADDRESS_SOURCE && !*address) {
        char numeric[WEFT_INTERFACE_TEXT];
        return weft_interface_resolve(link->profile->name, address, numeric);
    }
    weft_status status = weft_review_open(&review, link->profile, address, 0);
    if (status == WEFT_OK)
        status = take(link, &review);
    weft_review_close(&review);
    return status;
}

static weft_status refuse(const weft_link *link, const char *call, int error)
{
    return weft_fail(WEFT_E_PROVIDER, "provider %s: %s on %s: %s", link->profile->name, call,
                     link->address[0] ? link->address : link->fabric_name, fi_strerror(-error));
}

int weft_fabric_queue(const weft_link *link, bool fd, struct fid_cq **queue)
{
    struct fi_cq_attr attributes = {
        .size = link->info->tx_attr->size + link->info->rx_attr->size,
        .format = FI_CQ_FORMAT_DATA,
        .wait_obj = fd ? FI_WAIT_FD : FI_WAIT_NONE,
    };
    return fi_cq_open(link->domain, &attributes, queue, NULL);
}

/* Whether ports will have a descriptor shows only when one is asked for. */
static bool offers_fd(const weft_link *link)
{
    struct fid_cq *queue;
    int fd = -1;
    if (link->profile->wait != WEFT_WAIT_FD || weft_fabric_queue(link, true, &queue) != 0)
        return false;
    bool offered = fi_control(&queue->fid, FI_GETWAIT, &fd) == 0 && fd >= 0;
    fi_close(&queue->fid);
    return offered;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t chosen(uint64_t asked, uint64_t fallback, uint64_t limit)
{
    return least(asked ? asked : fallback, limit);
}

static weft_status open_domain(weft_link *link, const weft_link_options *options)
{
    weft_status status = find(link, options->address ? options->address : "");
    if (status != WEFT_OK)
        return status;
    warn_environment(link->profile);
    weft_copies_warn();
    int error = fi_fabric(link->info->fabric_attr, &link->fabric, NULL);
    if (error)
        return refuse(link, "fi_fabric", error);
    error = fi_domain(link->fabric, link->info, &link->domain, NULL);
    if (error)
        return refuse(link, "fi_domain", error);
    const weft_profile *profile = link->profile;
    link->chunk_bytes = chosen(options->chunk_bytes, profile->chunk_bytes,
                               least(link->info->ep_attr->max_msg_size, profile->chunk_max));
    link->depth =
        (uint32_t)chosen(options->depth, profile->depth, least(link->info->tx_attr->size, profile->depth_max));
    link->has_fd = offers_fd(link);
    link->port_low = options->port_low;
    link->port_high = options->port_high;
    return WEFT_OK;
}

weft_status weft_fabric_link_open(const weft_profile *profile, const weft_link_options *options, weft_link **link)
{
    weft_link *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider %s: no memory for a link", profile->name);
    opened->profile = profile;
    weft_status status = open_domain(opened, options);
    if (status != WEFT_OK)
        weft_fabric_link_close(opened);
    else
        *link = opened;
    return status;
}

void weft_fabric_link_close(weft_link *link)
{
    if (!link)
        return;
    if (link->domain && fi_close(&link->domain->fid) != 0)
        weft_log(WEFT_LOG_WARN, "provider %s: a domain stays open: a port or region of it was not closed",
                 link->profile->name);
    if (link->fabric)
        fi_close(&link->fabric->fid);
    fi_freeinfo(link->info);
    weft_mem_give(link);
}

void weft_fabric_link_facts(const weft_link *link, weft_link_facts *facts)
{
    *facts = (weft_link_facts){
        .fabric = link->fabric_name,
        .chunk_bytes = link->chunk_bytes,
        .depth = link->depth,
        .has_fd = link->has_fd,
        .version = fi_version(),
        .one_major = link->profile->mixing == WEFT_MIXING_REFUSED,
    };
}

/* Keys are random so that a write meant for an earlier registration finds none. */
static weft_status random_key(const weft_link *link, uint64_t *key)
{
    *key = 0;
    if (link->info->domain_attr->mr_mode & FI_MR_PROV_KEY)
        return WEFT_OK;
    if (getrandom(key, sizeof *key, 0) != sizeof *key)
        return weft_fail(WEFT_E_SYSTEM, "getrandom: %s", strerror(errno));
    size_t bytes = link->info->domain_attr->mr_key_size;
    if (bytes < sizeof *key)
        *key &= (UINT64_C(1) << 8 * bytes) - 1;
    return WEFT_OK;
}

static int bind_to_port(const weft_port *port, struct fid_mr *mr)
{
    int error = fi_mr_bind(mr, &port->ep->fid, 0);
    return error ? error : fi_mr_enable(mr);
}

static weft_status register_memory(const weft_link *link, const weft_port *port, void *memory, uint64_t bytes,
                                   bool remote, struct fid_mr **mr)
{
    int error = -FI_ENOKEY;
    for (int i = 0; i < KEY_RETRIES && error == -FI_ENOKEY; i++) {
        uint64_t key;
        weft_status status = random_key(link, &key);
        if (status != WEFT_OK)
            return status;
        error = fi_mr_reg(link->domain, memory, bytes, remote ? FI_REMOTE_WRITE : FI_WRITE, 0, key, 0, mr, NULL);
    }
    if (!error && (link->info->domain_attr->mr_mode & FI_MR_ENDPOINT)) {
        error = port ? bind_to_port(port, *mr) : -FI_EINVAL;
        if (error)
            fi_close(&(*mr)->fid);
    }
    if (error)
        return weft_fail(WEFT_E_PROVIDER, "provider %s: %llu bytes cannot be registered: %s%s", link->profile->name,
                         (unsigned long long)bytes, fi_strerror(-error),
                         error == -FI_ENOKEY ? "; each of several random keys is taken: something else registers "
                                               "memory on this domain"
                                             : "");
    return WEFT_OK;
}

/* Counts what will be locked, or refuses it with the number needed: the device's own word would be "no memory". */
static weft_status pin(const weft_link *link, uint64_t bytes, uint64_t *pinned)
{
    char text[320];
    if (!link->profile->pins)
        return WEFT_OK;
    uint64_t before = atomic_fetch_add(&pinned_bytes, bytes);
    *pinned = bytes;
    if (weft_select_may_pin(link->profile, weft_place_pin_limit(), before, bytes, text, sizeof text))
        return WEFT_OK;
    return weft_fail(WEFT_E_MISSING, "provider %s: %s", link->profile->name, text);
}

static weft_status fill_region(weft_link *link, weft_port *port, void *memory, uint64_t bytes, bool remote,
                               weft_region *region)
{
    int mode = link->info->domain_attr->mr_mode;
    if (!remote && !(mode & FI_MR_LOCAL))
        return WEFT_OK;
    weft_status status = pin(link, bytes, &region->pinned);
    if (status == WEFT_OK)
        status = register_memory(link, port, memory, bytes, remote, &region->mr);
    if (status != WEFT_OK)
        return status;
    region->key = fi_mr_key(region->mr);
    region->address = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
    return WEFT_OK;
}

weft_status weft_fabric_region_open(weft_link *link, weft_port *port, void *memory, uint64_t bytes, bool remote,
                                    weft_region **region)
{
    weft_region *opened = weft_mem_take(1, sizeof *opened);
    if (!opened)
        return weft_fail(WEFT_E_MEMORY, "provider %s: no memory for a region", link->profile->name);
    weft_status status = fill_region(link, port, memory, bytes, remote, opened);
    if (status != WEFT_OK)
        weft_fabric_region_close(opened);
    else
        *region = opened;
    return status;
}

void weft_fabric_region_close(weft_region *region)
{
    if (!region)
        return;
    if (region->mr && fi_close(&region->mr->fid) != 0)
        weft_log(WEFT_LOG_WARN, "a memory region stays registered: operations on it are under way");
    atomic_fetch_sub(&pinned_bytes, region->pinned);
    weft_mem_give(region);
}

void weft_fabric_region_remote(const weft_region *region, uint64_t *address, uint64_t *key)
{
    *address = region->address;
    *key = region->key;
}
#else
typedef int weft_fabric_link_is_absent;
#endif

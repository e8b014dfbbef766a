/* fabric_link.c - opening one local address on libfabric. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "providers/copies.h"
#include "providers/near.h"

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
    link->fabric_name = weft_profile_fabric(profile, weft_fabric_version());
    if (source) {
        snprintf(link->asked, sizeof link->asked, "%.*s", (int)sizeof link->asked - 1, review->address);
        memcpy(link->address, review->numeric, sizeof link->address);
    }
    const char *node = source ? link->address : NULL;
    int error = weft_fabric_getinfo(profile, candidate, node, &link->info);
    if (error)
        return weft_fail(WEFT_E_MISSING, "provider %s: fi_getinfo(%s, %s%s%s): %s; %s", profile->name,
                         candidate->provider, candidate->domain, link->address[0] ? ", " : "", link->address,
                         weft_fabric_call_strerror(-error), profile->absent);
    return WEFT_OK;
}

static weft_status find(weft_link *link, const weft_link_options *options)
{
    weft_review review;
    char address[WEFT_INTERFACE_TEXT];
    const char *asked = options->address ? options->address : "";
    weft_status status = weft_near_resolve(link->profile, asked, options->accelerator, address, sizeof address);
    if (status != WEFT_OK)
        return status;
    if (link->profile->addressing == WEFT_ADDRESS_SOURCE && !*asked) {
        char numeric[WEFT_INTERFACE_TEXT];
        return weft_interface_resolve(link->profile->name, address, numeric);
    }
    status = weft_review_open(&review, link->profile, address, 0);
    if (status == WEFT_OK)
        status = take(link, &review);
    weft_review_close(&review);
    return status;
}

static weft_status refuse(const weft_link *link, const char *call, int error)
{
    return weft_fail(WEFT_E_PROVIDER, "provider %s: %s on %s: %s", link->profile->name, call,
                     link->address[0] ? link->address : link->fabric_name, weft_fabric_call_strerror(-error));
}

int weft_fabric_queue(const weft_link *link, bool fd, struct fid_cq **queue)
{
    struct fi_cq_attr attributes = {
        .size = link->info->tx_attr->size + link->arrivals,
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

/* Writes with an immediate need not consume a receive, so that nothing but the slots granted bounds what arrives before
 * the queue is read. */
static uint64_t count_arrivals(const weft_link *link, const weft_landing *landing)
{
    const uint64_t chunk = landing->chunk ? least(landing->chunk, link->chunk_bytes) : link->chunk_bytes;
    const uint64_t most = landing->slots * (1 + landing->pieces + landing->bytes / chunk);
    return most > link->info->rx_attr->size ? most : link->info->rx_attr->size;
}

/* Whether a port of the range is free shows only on an endpoint; one that is bound to nothing crashes libfabric 1.17
 * when it is closed. */
static weft_status try_port(weft_link *link)
{
    weft_port *port = NULL;
    weft_status status = link->port_low ? weft_fabric_port_open(link, &port) : WEFT_OK;
    weft_fabric_port_close(port);
    return status;
}

static weft_status open_domain(weft_link *link, const weft_link_options *options)
{
    weft_status status = find(link, options);
    if (status != WEFT_OK)
        return status;
    warn_environment(link->profile);
    weft_copies_warn();
    int error = weft_fabric_call_fabric(link->info->fabric_attr, &link->fabric, NULL);
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
    link->arrivals = count_arrivals(link, &options->landing);
    link->has_fd = offers_fd(link);
    link->port_low = options->port_low;
    link->port_high = options->port_high;
    link->only_writes = options->only_writes;
    return try_port(link);
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
    weft_fabric_call_freeinfo(link->info);
    weft_mem_give(link);
}

weft_status weft_fabric_link_here(const weft_link *link)
{
    return link->address[0] ? weft_interface_here(link->profile->name, link->asked, link->address) : WEFT_OK;
}

void weft_fabric_link_facts(const weft_link *link, weft_link_facts *facts)
{
    *facts = (weft_link_facts){
        .fabric = link->fabric_name,
        .chunk_bytes = link->chunk_bytes,
        .depth = link->depth,
        .has_fd = link->has_fd,
        .version = weft_fabric_version(),
        .descriptors = link->profile->descriptors,
        .one_major = link->profile->mixing == WEFT_MIXING_REFUSED,
        .dials = link->profile->dials,
    };
}
#else
typedef int weft_fabric_link_is_absent;
#endif

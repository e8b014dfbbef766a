/* fabric_survey.c - libfabric's answers as plain candidates: asked widely, so that what would not serve is seen too. */
#ifndef WEFT_NO_FABRIC
#include "providers/fabric.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static void copy(char *to, size_t capacity, const char *from)
{
    snprintf(to, capacity, "%s", from ? from : "");
}

static weft_profile_protocol protocol_of(const struct fi_info *info)
{
    return info->ep_attr->protocol == FI_PROTO_RXM_TCP ? WEFT_PROTOCOL_RXM_THROUGH : WEFT_PROTOCOL_OTHER;
}

static unsigned caps_of(const struct fi_info *info)
{
    const uint64_t write = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
    return ((info->caps & write) == write ? WEFT_CAP_WRITE : 0u) | (info->caps & FI_MSG ? WEFT_CAP_MESSAGE : 0u);
}

static unsigned registration_of(const struct fi_info *info)
{
    int left = info->domain_attr->mr_mode;
    unsigned result = 0;
    for (unsigned bit = 1; bit < WEFT_MR_OTHER; bit <<= 1) {
        int mode = weft_fabric_modes(bit);
        if (left & mode)
            result |= bit;
        left &= ~mode;
    }
    return left ? result | WEFT_MR_OTHER : result;
}

static void describe_nic(const struct fid_nic *nic, weft_candidate *candidate)
{
    static const weft_link_state states[] = {
        [FI_LINK_UNKNOWN] = WEFT_LINK_UNKNOWN, [FI_LINK_DOWN] = WEFT_LINK_DOWN, [FI_LINK_UP] = WEFT_LINK_UP};
    const struct fi_link_attr *link = nic->link_attr;
    const struct fi_bus_attr *bus = nic->bus_attr;
    if (link && (unsigned)link->state < sizeof states / sizeof states[0])
        candidate->link = states[link->state];
    if (link) {
        candidate->bits_s = link->speed;
        copy(candidate->network, sizeof candidate->network, link->network_type);
    }
    if (bus && bus->bus_type == FI_BUS_PCI)
        snprintf(candidate->bus, sizeof candidate->bus, "%04x:%02x:%02x.%x", bus->attr.pci.domain_id,
                 bus->attr.pci.bus_id, bus->attr.pci.device_id, bus->attr.pci.function_id & 15u);
}

/* Link-local addresses too: the verdict needs them. */
static void describe_address(const struct fi_info *info, char *text)
{
    const struct sockaddr *address = info->src_addr;
    struct sockaddr_in6 v6;
    if (info->addr_format != FI_SOCKADDR_IN && info->addr_format != FI_SOCKADDR_IN6 && info->addr_format != FI_SOCKADDR)
        return;
    if (weft_interface_text(address, text) || !address || address->sa_family != AF_INET6)
        return;
    memcpy(&v6, address, sizeof v6);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, WEFT_INTERFACE_TEXT);
}

static void describe(const struct fi_info *info, weft_candidate *candidate)
{
    *candidate = (weft_candidate){.protocol = protocol_of(info),
                                  .caps = caps_of(info),
                                  .registration = registration_of(info),
                                  .immediate_bytes = (uint32_t)info->domain_attr->cq_data_size,
                                  .key_bytes = (uint32_t)info->domain_attr->mr_key_size,
                                  .message_bytes = info->ep_attr->max_msg_size,
                                  .transmit = info->tx_attr->size,
                                  .receive = info->rx_attr->size,
                                  .gids = -1};
    copy(candidate->provider, sizeof candidate->provider, info->fabric_attr->prov_name);
    copy(candidate->fabric, sizeof candidate->fabric, info->fabric_attr->name);
    copy(candidate->domain, sizeof candidate->domain, info->domain_attr->name);
    describe_address(info, candidate->address);
    if (info->nic)
        describe_nic(info->nic, candidate);
}

/* The two lowest bits are the modes before 1.5, which exclude all others; their names are deprecated in 2.x. */
#define ALL_MODES (~3)

/* Every mode is offered, so that a demand that weft does not meet shows as such. */
static int ask_widely(const weft_profile *profile, const char *fabric, struct fi_info **list)
{
    struct fi_info *hints = weft_fabric_call_dupinfo(NULL);
    char room[64]; /* fi_freeinfo frees the name: lent for the call */
    if (!hints)
        return -FI_ENOMEM;
    snprintf(room, sizeof room, "%s", fabric);
    hints->mode = UINT64_MAX;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = ALL_MODES;
    hints->fabric_attr->prov_name = room;
    int error = weft_fabric_call_getinfo(weft_profile_api(profile, weft_fabric_version(), weft_fabric_header()), NULL,
                                         NULL, 0, hints, list);
    hints->fabric_attr->prov_name = NULL;
    weft_fabric_call_freeinfo(hints);
    return error;
}

/* Providers that found nothing may be listed or not: 1.17 registers verbs and efa only where there is a device. The
 * core provider of "verbs;ofi_rxm" is "verbs". */
static bool is_known(const char *fabric)
{
    struct fi_info *all = NULL;
    size_t length = strcspn(fabric, ";");
    bool known = false;
    if (weft_fabric_call_getinfo(weft_fabric_version(), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &all) != 0)
        return false;
    for (const struct fi_info *info = all; info; info = info->next) {
        const char *name = info->fabric_attr->prov_name;
        known = known || (strncmp(name, fabric, length) == 0 && (!name[length] || name[length] == ';'));
    }
    weft_fabric_call_freeinfo(all);
    return known;
}

size_t weft_fabric_candidates(const weft_profile *profile, weft_candidate *list, size_t capacity, bool *known,
                              char *error, size_t error_capacity)
{
    struct fi_info *all = NULL;
    size_t count = 0;
    weft_fabric_switches();
    const char *fabric = weft_profile_fabric(profile, weft_fabric_version());
    int result = ask_widely(profile, fabric, &all);
    for (const struct fi_info *info = result ? NULL : all; info; info = info->next, count++)
        if (count < capacity)
            describe(info, &list[count]);
    if (!result)
        weft_fabric_call_freeinfo(all);
    *known = count || is_known(fabric);
    snprintf(error, error_capacity, "%s", result ? weft_fabric_call_strerror(-result) : "");
    return count;
}

uint32_t weft_fabric_header(void)
{
    return FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
}
#else
typedef int weft_fabric_survey_is_absent;
#endif

#include "providers/select.h"

#include <stdio.h>
#include <string.h>

static bool is_fabric(const weft_profile *profile, const weft_candidate *candidate)
{
    if (profile->only && strcmp(candidate->fabric, profile->only) != 0)
        return false;
    return !profile->never || strcmp(candidate->fabric, profile->never) != 0;
}

static bool is_link_local(const char *address)
{
    return strncmp(address, "fe80:", 5) == 0 || strncmp(address, "169.254.", 8) == 0;
}

/* Returns true if the address names the candidate's device: in full, or without libfabric's suffix ("rdmap16s27" for
 * "rdmap16s27-rdm"). An IP says no more than "this host" to a provider whose addresses are no IPs. */
static bool is_domain(const weft_host_survey *survey, const weft_candidate *candidate)
{
    size_t length = strlen(survey->address);
    if (!length || survey->numeric[0])
        return true;
    return strncmp(candidate->domain, survey->address, length) == 0 &&
           (!candidate->domain[length] || strcmp(candidate->domain + length, "-rdm") == 0);
}

/* All of 127/8 is this host's, though only 127.0.0.1 is listed. */
static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0;
}

static bool is_address(const weft_host_survey *survey, const weft_candidate *candidate)
{
    if (survey->profile->addressing == WEFT_ADDRESS_DOMAIN)
        return is_domain(survey, candidate);
    return survey->profile->addressing == WEFT_ADDRESS_NONE || !survey->numeric[0] ||
           strcmp(candidate->address, survey->numeric) == 0 ||
           (is_loopback(candidate->address) && is_loopback(survey->numeric));
}

static weft_verdict judge(const weft_host_survey *survey, const weft_candidate *candidate)
{
    const weft_profile *profile = survey->profile;
    if (strcmp(candidate->provider, weft_profile_fabric(profile, survey->library)) != 0)
        return WEFT_VERDICT_PROVIDER;
    if (!is_fabric(profile, candidate))
        return WEFT_VERDICT_FABRIC;
    if (profile->protocol != WEFT_PROTOCOL_ANY && candidate->protocol != profile->protocol)
        return WEFT_VERDICT_PROTOCOL;
    if (profile->caps & ~candidate->caps)
        return WEFT_VERDICT_CAPS;
    if (candidate->registration & ~profile->registration)
        return WEFT_VERDICT_REGISTRATION;
    if (candidate->immediate_bytes < profile->immediate_bytes)
        return WEFT_VERDICT_IMMEDIATE;
    if (!is_address(survey, candidate))
        return WEFT_VERDICT_ADDRESS;
    if (candidate->link == WEFT_LINK_DOWN)
        return WEFT_VERDICT_DOWN;
    if (is_link_local(candidate->address) && profile->addressing == WEFT_ADDRESS_SOURCE)
        return WEFT_VERDICT_LINK_LOCAL;
    /* InfiniBand routes by LID, and its GIDs are link-local by default: only on Ethernet do they tell. */
    if (candidate->gids == 0 && profile->device == WEFT_DEVICE_RDMA && strcmp(candidate->network, "InfiniBand") != 0)
        return WEFT_VERDICT_GID;
    return WEFT_VERDICT_FITS;
}

/* ---- what is missing */

static weft_missing missing_of(weft_verdict furthest)
{
    switch (furthest) {
    case WEFT_VERDICT_PROVIDER:
        return WEFT_MISSING_DEVICE;
    case WEFT_VERDICT_FABRIC:
    case WEFT_VERDICT_PROTOCOL:
    case WEFT_VERDICT_CAPS:
    case WEFT_VERDICT_REGISTRATION:
    case WEFT_VERDICT_IMMEDIATE:
        return WEFT_MISSING_CAPABILITY;
    case WEFT_VERDICT_ADDRESS:
        return WEFT_MISSING_ADDRESS;
    case WEFT_VERDICT_DOWN:
        return WEFT_MISSING_LINK;
    case WEFT_VERDICT_LINK_LOCAL:
        return WEFT_MISSING_ROUTABLE;
    case WEFT_VERDICT_GID:
        return WEFT_MISSING_GID;
    case WEFT_VERDICT_FITS:
    case WEFT_VERDICT_TAKEN:
        break;
    }
    return WEFT_MISSING_NOTHING;
}

/* "mlx5_0 10.1.0.5, mlx5_1 10.2.0.5": those that would serve if they were asked for. */
static void list_others(const weft_host_survey *survey, const weft_verdict *verdicts, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < survey->count; i++) {
        const weft_candidate *candidate = &survey->candidates[i];
        if (verdicts[i] != WEFT_VERDICT_ADDRESS || candidate->link == WEFT_LINK_DOWN ||
            is_link_local(candidate->address))
            continue;
        int n = snprintf(text + used, capacity - used, "%s%s%s%s", used ? ", " : "", candidate->domain,
                         candidate->address[0] ? " " : "", candidate->address);
        if (n < 0 || (size_t)n >= capacity - used) {
            text[used] = '\0';
            return;
        }
        used += (size_t)n;
    }
}

static void tell_device(const weft_host_survey *survey, weft_selection *selection)
{
    const weft_profile *profile = survey->profile;
    const char *fabric = weft_profile_fabric(profile, survey->library);
    if (profile->device != WEFT_DEVICE_NONE && !survey->here[0])
        snprintf(selection->text, sizeof selection->text, "this host has no %s for libfabric to use; %s",
                 profile->device == WEFT_DEVICE_EFA ? "EFA device" : "RDMA device", profile->absent);
    else if (profile->device != WEFT_DEVICE_NONE && !survey->known) {
        selection->missing = WEFT_MISSING_PROVIDER;
        snprintf(selection->text, sizeof selection->text,
                 "%s is here, but libfabric %u.%u was built without its provider %s, or cannot open the device; %s",
                 survey->here, survey->library >> 16, survey->library & 0xffff, fabric, profile->absent);
    } else {
        snprintf(selection->text, sizeof selection->text, "fi_getinfo(%s): %s; %s", fabric,
                 survey->error && survey->error[0] ? survey->error : "no answer", profile->absent);
    }
}

static void tell_missing(const weft_host_survey *survey, const weft_verdict *verdicts, size_t furthest,
                         weft_selection *selection)
{
    char detail[224];
    const weft_profile *profile = survey->profile;
    selection->missing = missing_of(verdicts[furthest]);
    if (selection->missing == WEFT_MISSING_DEVICE) {
        tell_device(survey, selection);
        return;
    }
    if (selection->missing == WEFT_MISSING_ADDRESS && survey->hindered && survey->hindered[0]) {
        selection->missing = WEFT_MISSING_LINK; /* libfabric leaves out what is not up, so that it looks foreign */
        snprintf(selection->text, sizeof selection->text, "%s", survey->hindered);
        return;
    }
    if (selection->missing == WEFT_MISSING_ADDRESS) {
        list_others(survey, verdicts, detail, sizeof detail);
        snprintf(selection->text, sizeof selection->text, "address %s belongs to no %s of it; choose one of these: %s",
                 survey->address, profile->addressing == WEFT_ADDRESS_DOMAIN ? "device" : "port",
                 detail[0] ? detail : "none is up");
        return;
    }
    weft_verdict_text(survey, furthest, verdicts[furthest], detail, sizeof detail);
    snprintf(selection->text, sizeof selection->text, "%s: %s", survey->candidates[furthest].domain, detail);
}

/* These checks need no list. */
static bool tell_library(const weft_host_survey *survey, weft_selection *selection)
{
    const weft_profile *profile = survey->profile;
    uint32_t have = survey->library;
    if (!have) {
        selection->missing = WEFT_MISSING_LIBRARY;
        snprintf(selection->text, sizeof selection->text, "%s", survey->error);
    } else if (have < profile->oldest) {
        selection->missing = WEFT_MISSING_VERSION;
        snprintf(selection->text, sizeof selection->text,
                 "libfabric %u.%u is too old, provider %s needs %u.%u or later", have >> 16, have & 0xffff,
                 profile->name, profile->oldest >> 16, profile->oldest & 0xffff);
    }
    return selection->missing != WEFT_MISSING_NOTHING;
}

bool weft_select_may_pin(const weft_profile *profile, uint64_t limit, uint64_t pinned, uint64_t bytes, char *text,
                         size_t capacity)
{
    uint64_t need = bytes > UINT64_MAX - pinned ? UINT64_MAX : pinned + bytes;
    if (!profile->pins || need <= limit)
        return true;
    snprintf(text, capacity,
             "%llu KiB of memory are to be locked, this process may lock %llu KiB: raise the limit to %llu KiB or more "
             "(`ulimit -l %llu`, memlock in /etc/security/limits.conf, LimitMEMLOCK= of a service, --ulimit memlock of "
             "a container)",
             (unsigned long long)(need >> 10), (unsigned long long)(limit >> 10),
             (unsigned long long)((need + 1023) >> 10), (unsigned long long)((need + 1023) >> 10));
    return false;
}

static void take(const weft_host_survey *survey, size_t index, weft_selection *selection)
{
    const weft_candidate *candidate = &survey->candidates[index];
    char refusal[sizeof selection->text];
    selection->taken = index;
    snprintf(selection->text, sizeof selection->text, "%s, %s%s%s", candidate->provider, candidate->domain,
             candidate->address[0] ? " " : "", candidate->address);
    if (weft_select_may_pin(survey->profile, survey->pin_limit, 0, survey->pin_bytes, refusal, sizeof refusal))
        return;
    selection->missing = WEFT_MISSING_PINNING;
    memcpy(selection->text, refusal, sizeof refusal);
}

void weft_select(const weft_host_survey *survey, weft_verdict *verdicts, weft_selection *selection)
{
    size_t furthest = 0;
    *selection = (weft_selection){.taken = survey->count};
    for (size_t i = 0; i < survey->count; i++) {
        verdicts[i] = judge(survey, &survey->candidates[i]);
        if (verdicts[i] > verdicts[furthest])
            furthest = i;
    }
    if (tell_library(survey, selection))
        return;
    if (!survey->count) {
        selection->missing = WEFT_MISSING_DEVICE;
        tell_device(survey, selection);
    } else if (verdicts[furthest] < WEFT_VERDICT_FITS) {
        tell_missing(survey, verdicts, furthest, selection);
    } else {
        verdicts[furthest] = WEFT_VERDICT_TAKEN;
        take(survey, furthest, selection);
    }
}

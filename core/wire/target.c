#include "wire/target.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "site/site_text.h"

/* IPv6, or IPv4 as ::ffff:a.b.c.d. */
typedef struct ip {
    uint8_t bytes[16];
} ip;

static const ip v4_prefix = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}};

static bool ip_equal(const ip *a, const ip *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The address bytes may lie anywhere. */
static bool ip_of(const void *address, uint64_t bytes, ip *to)
{
    sa_family_t family;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (!address || bytes < sizeof family)
        return false;
    memcpy(&family, address, sizeof family);
    if (family == AF_INET && bytes >= sizeof v4) {
        memcpy(&v4, address, sizeof v4);
        *to = v4_prefix;
        memcpy(to->bytes + 12, &v4.sin_addr, 4);
        return true;
    }
    if (family == AF_INET6 && bytes >= sizeof v6) {
        memcpy(&v6, address, sizeof v6);
        memcpy(to->bytes, &v6.sin6_addr, 16);
        return true;
    }
    return false;
}

/* Numbers alone; an IPv6 one may name its interface. */
static bool ip_parse(const char *text, ip *to)
{
    char plain[WEFT_SITE_TEXT];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(text, "%"), text);
    *to = v4_prefix;
    return inet_pton(AF_INET, plain, to->bytes + 12) == 1 || inet_pton(AF_INET6, plain, to->bytes) == 1;
}

static bool is_host_of(const char *listen, const ip *target)
{
    char host[WEFT_SITE_TEXT];
    uint32_t port;
    ip at;
    return weft_site_listen_split(listen, host, &port) && ip_parse(host, &at) && ip_equal(&at, target);
}

static bool is_among(const weft_site_peer *row, const ip *target)
{
    char list[WEFT_SITE_RAILS][WEFT_SITE_NAME];
    const uint32_t rails = weft_site_rails(row->address, list);
    ip at;
    for (uint32_t rail = 0; rail < rails; rail++)
        if (ip_parse(list[rail], &at) && ip_equal(&at, target))
            return true;
    return row->relay[0] && is_host_of(row->relay, target);
}

/* Data for a rollout after relays lands at one of these relays. */
static bool is_listed(const weft_site *site, const weft_wire_hello *hello, const ip *target)
{
    weft_site_peer row;
    bool pattern;
    if (weft_site_resolve(site, hello->name, &row) == WEFT_OK && is_among(&row, target))
        return true;
    for (size_t i = 0; hello->hops > 0 && weft_site_row(site, i, &row, &pattern); i++)
        if (row.relay[0] && is_among(&row, target))
            return true;
    return false;
}

static bool is_within(const ip *a, const ip *b, const ip *mask)
{
    bool within = true;
    for (size_t i = 0; i < sizeof a->bytes; i++)
        within = within && ((a->bytes[i] ^ b->bytes[i]) & mask->bytes[i]) == 0;
    return within;
}

/* True if an interface's address is an own rail's, or its subnet has that rail, as 127.0.0.1/8 has 127.0.0.2. */
static bool is_own(const weft_target_law *law, const struct ifaddrs *one, const ip *at, const ip *mask)
{
    ip own;
    for (uint32_t rail = 0; rail < law->own_count; rail++)
        if (strcmp(law->own[rail], one->ifa_name) == 0 || (ip_parse(law->own[rail], &own) && is_within(&own, at, mask)))
            return true;
    return false;
}

static bool is_near(const weft_target_law *law, const ip *target)
{
    struct ifaddrs *all;
    bool near = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *one = all; one && !near; one = one->ifa_next) {
        ip at, mask;
        if (!ip_of(one->ifa_addr, sizeof(struct sockaddr_storage), &at) ||
            !ip_of(one->ifa_netmask, sizeof(struct sockaddr_storage), &mask))
            continue;
        if (one->ifa_addr->sa_family == AF_INET)
            memset(mask.bytes, 0xff, 12);
        near = is_within(target, &at, &mask) && is_own(law, one, &at, &mask);
    }
    freeifaddrs(all);
    return near;
}

/* Nothing leads from IPv4 to IPv6 or back: the provider refuses it, and says so better. */
static bool is_other_family(const weft_target_law *law, const uint8_t *address)
{
    sa_family_t family;
    bool other = law->own_count > 0;
    ip at;
    memcpy(&family, address, sizeof family);
    for (uint32_t rail = 0; rail < law->own_count; rail++)
        other = other && ip_parse(law->own[rail], &at) && (strchr(law->own[rail], ':') == NULL) != (family == AF_INET);
    return other;
}

static weft_status refuse(const weft_target_law *law, const weft_wire_hello *hello, const weft_control *control,
                          const ip *target)
{
    char text[INET6_ADDRSTRLEN] = "?";
    const bool v4 = memcmp(target, &v4_prefix, 12) == 0;
    inet_ntop(v4 ? AF_INET : AF_INET6, target->bytes + (v4 ? 12 : 0), text, sizeof text);
    weft_fail(WEFT_E_REFUSED,
              "%s comes from %s and wants its data at %s by provider %s: neither that host, nor in a subnet of an own "
              "address, nor listed; [peer.%s] address = %s in the site file of this end would allow it",
              hello->name, control->peer, text, law->provider, hello->name, text);
    weft_fail_outside(
        "%s wants its data at %s, which is neither the host that it comes from nor near this end; [peer.%s] "
        "address = %s in this end's site file would allow it",
        hello->name, text, hello->name, text);
    return WEFT_E_REFUSED;
}

weft_status weft_target_check(const weft_target_law *law, const weft_wire_hello *hello, const weft_control *control,
                              const uint8_t *address, uint32_t bytes)
{
    ip target;
    if (!ip_of(address, bytes, &target) || is_other_family(law, address)) /* an address that connects to no host */
        return WEFT_OK;
    if (is_host_of(control->peer, &target) || is_listed(law->site, hello, &target) || is_near(law, &target))
        return WEFT_OK;
    return refuse(law, hello, control, &target);
}

#include "providers/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

typedef union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} socket_address;

static socklen_t parse(const char *address, socket_address *parsed)
{
    memset(parsed, 0, sizeof *parsed);
    if (inet_pton(AF_INET, address, &parsed->v4.sin_addr) == 1) {
        parsed->v4.sin_family = AF_INET;
        return sizeof parsed->v4;
    }
    if (inet_pton(AF_INET6, address, &parsed->v6.sin6_addr) == 1) {
        parsed->v6.sin6_family = AF_INET6;
        return sizeof parsed->v6;
    }
    return 0;
}

bool weft_interface_is_ip(const char *address)
{
    socket_address parsed;
    return parse(address, &parsed) != 0;
}

bool weft_interface_text(const struct sockaddr *address, char numeric[WEFT_INTERFACE_TEXT])
{
    if (!address)
        return false;
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        return inet_ntop(AF_INET, &v4.sin_addr, numeric, WEFT_INTERFACE_TEXT) != NULL;
    }
    if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        return !IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) &&
               inet_ntop(AF_INET6, &v6.sin6_addr, numeric, WEFT_INTERFACE_TEXT) != NULL;
    }
    return false;
}

static bool is_wildcard(const socket_address *parsed)
{
    if (parsed->any.sa_family == AF_INET)
        return parsed->v4.sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&parsed->v6.sin6_addr);
}

/* The kernel's word: all of 127/8 is here although only 127.0.0.1 is listed. Returns an errno; 0: it is here. */
static int try_bind(const socket_address *parsed, socklen_t length)
{
    int fd = socket(parsed->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int error = bind(fd, &parsed->any, length) == 0 ? 0 : errno;
    close(fd);
    return error;
}

/* Whether an interface could ever have this name. */
static bool may_be_name(const char *name)
{
    return strlen(name) < IF_NAMESIZE && !name[strcspn(name, "/: \t\r\n")] && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* "lo 127.0.0.1, eth0 192.0.2.2" */
static void describe_host(const struct ifaddrs *all, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char numeric[WEFT_INTERFACE_TEXT];
        if (!(i->ifa_flags & IFF_UP) || !weft_interface_text(i->ifa_addr, numeric))
            continue;
        int n = snprintf(text + used, capacity - used, "%s%s %s", used ? ", " : "", i->ifa_name, numeric);
        if (n < 0 || (size_t)n >= capacity - used) {
            text[used] = '\0';
            return;
        }
        used += (size_t)n;
    }
}

static bool find_by_name(const struct ifaddrs *all, const char *name, char numeric[WEFT_INTERFACE_TEXT])
{
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t f = 0; f < 2; f++)
        for (const struct ifaddrs *i = all; i; i = i->ifa_next)
            if (i->ifa_addr && i->ifa_addr->sa_family == families[f] && (i->ifa_flags & IFF_UP) &&
                strcmp(i->ifa_name, name) == 0 && weft_interface_text(i->ifa_addr, numeric))
                return true;
    return false;
}

/* Why an interface cannot be used. Without an address it is listed all the same, as a packet socket. */
static const char *lacks(const struct ifaddrs *all, const char *name)
{
    bool there = false, up = false, link_local = false;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (strcmp(i->ifa_name, name) != 0)
            continue;
        there = true;
        up = up || (i->ifa_flags & IFF_UP);
        link_local = link_local || (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6);
    }
    if (!there)
        return "is neither an IP nor an interface of this host";
    if (!up)
        return "is an interface that is down: set it up, or choose another";
    return link_local ? "is an interface with a link-local address only, which peers cannot name: give it an IP"
                      : "is an interface without an IP: give it one";
}

/* An address of a shape that is right, for which no socket can be bound now. */
static weft_status refuse_bind(const char *provider, const char *address, int error, const char *host)
{
    if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS)
        return weft_fail(WEFT_E_SYSTEM, "provider %s: no socket to ask for address %s: %s", provider, address,
                         strerror(error));
    return weft_fail(WEFT_AGAIN, "provider %s: address %s is not on this host (%s)", provider, address, host);
}

static weft_status resolve(const char *provider, const char *address, const struct ifaddrs *all,
                           char numeric[WEFT_INTERFACE_TEXT])
{
    char host[512];
    socket_address parsed;
    socklen_t length = parse(address, &parsed);
    describe_host(all, host, sizeof host);
    if (!*address)
        return weft_fail(WEFT_E_CONFIG,
                         "provider %s needs an address: the interface or IP of this host that it shall use (%s)",
                         provider, host);
    if (!length)
        return find_by_name(all, address, numeric)
                   ? WEFT_OK
                   : weft_fail(may_be_name(address) ? WEFT_AGAIN : WEFT_E_CONFIG, "provider %s: address \"%s\" %s (%s)",
                               provider, address, lacks(all, address), host);
    if (is_wildcard(&parsed))
        return weft_fail(WEFT_E_CONFIG, "provider %s: address %s names no interface; choose one of this host's (%s)",
                         provider, address, host);
    int error = try_bind(&parsed, length);
    if (error)
        return refuse_bind(provider, address, error, host);
    return weft_interface_text(&parsed.any, numeric)
               ? WEFT_OK
               : weft_fail(WEFT_E_CONFIG, "provider %s: address %s is link-local; use a routable one", provider,
                           address);
}

weft_status weft_interface_resolve(const char *provider, const char *address, char numeric[WEFT_INTERFACE_TEXT])
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return weft_fail(WEFT_E_SYSTEM, "provider %s: the interfaces of this host cannot be listed: %s", provider,
                         strerror(errno));
    weft_status status = resolve(provider, address, all, numeric);
    freeifaddrs(all);
    return status;
}

/* Returns the obstacle at the interface that has this IP; NULL: none, or the IP is not listed, as 127.0.0.2. */
static const char *hinders(const struct ifaddrs *all, const char *numeric, const char **name)
{
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char text[WEFT_INTERFACE_TEXT];
        if (!weft_interface_text(i->ifa_addr, text) || strcmp(text, numeric) != 0)
            continue;
        *name = i->ifa_name;
        return !(i->ifa_flags & IFF_UP) ? "is down" : !(i->ifa_flags & IFF_RUNNING) ? "has no carrier" : NULL;
    }
    return NULL;
}

static weft_status check_here(const char *provider, const char *address, const char *numeric, const struct ifaddrs *all)
{
    char now[WEFT_INTERFACE_TEXT];
    const char *name = "";
    weft_status status = resolve(provider, address, all, now);
    if (status == WEFT_OK && strcmp(now, numeric) != 0)
        return weft_fail_quiet(WEFT_E_CONFIG, "provider %s: %s was %s and is %s now", provider, address, numeric, now);
    const char *why = status == WEFT_OK ? hinders(all, numeric, &name) : NULL;
    if (why)
        return weft_fail_quiet(WEFT_E_CONFIG, "provider %s: interface %s, which has %s, %s", provider, name, numeric,
                               why);
    return status == WEFT_AGAIN ? WEFT_E_CONFIG : status;
}

void weft_interface_hindered(const char *numeric, char *text, size_t capacity)
{
    struct ifaddrs *all;
    const char *name = "";
    text[0] = '\0';
    if (getifaddrs(&all) != 0)
        return;
    const char *why = hinders(all, numeric, &name);
    if (why)
        snprintf(text, capacity, "interface %s, which has %s, %s", name, numeric, why);
    freeifaddrs(all);
}

weft_status weft_interface_here(const char *provider, const char *address, const char *numeric)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return weft_fail_quiet(WEFT_E_SYSTEM, "provider %s: the interfaces of this host cannot be listed: %s", provider,
                               strerror(errno));
    weft_status status = check_here(provider, address, numeric, all);
    freeifaddrs(all);
    return status;
}

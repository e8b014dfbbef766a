#include "wire/guest.h"

#include <xxhash.h>

/* Hashes the host without its port: "192.0.2.7:4711" and "[2001:db8::7]:4711". */
static uint64_t host_of(const weft_control *control)
{
    const char *port = strrchr(control->peer, ':');
    return XXH3_64bits(control->peer, port ? (size_t)(port - control->peer) : strlen(control->peer));
}

/* A guest goes the sooner the less it has sent, and then the longer it has been here. */
static bool goes_before(const weft_guest *a, const weft_guest *b)
{
    const uint32_t said_a = a->leaving ? 2 : a->control->nonce != 0, said_b = b->leaving ? 2 : b->control->nonce != 0;
    return said_a != said_b ? said_a < said_b : a->since_ns < b->since_ns;
}

uint32_t weft_guest_pick(const weft_guest *guests, uint32_t count)
{
    uint64_t hosts[WEFT_GUESTS_MOST];
    uint32_t most = 0, picked = 0;
    for (uint32_t i = 0; i < count; i++)
        hosts[i] = host_of(guests[i].control);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t same = 0;
        for (uint32_t other = 0; other < count; other++)
            same += hosts[other] == hosts[i];
        if (same < most || (same == most && !goes_before(&guests[i], &guests[picked])))
            continue;
        most = same;
        picked = i;
    }
    return picked;
}

bool weft_guest_is_one_more(const weft_site *site, const weft_guest *guests, uint32_t count,
                            const weft_control *newcomer)
{
    const uint64_t host = host_of(newcomer);
    uint64_t same = 0;
    for (uint32_t i = 0; i < count; i++)
        same += guests[i].control != newcomer && host_of(guests[i].control) == host;
    return same >= site->guests.of_address;
}

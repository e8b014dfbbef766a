/* resolver.c - looks up host names beside everything else. */
#include "wire/resolver.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/thread.h"

#define LOOK_NS (2 * WEFT_NS_PER_MS)
/* Once there is an address the others are waited for no longer than this. */
#define OTHERS_NS (1000 * WEFT_NS_PER_MS)

/* One lookup, which its thread writes until the answer is known. */
typedef struct look {
    weft_resolver *resolver;
    _Atomic bool known;
    char host[WEFT_SITE_TEXT];
    weft_name found, awaited;
} look;

struct weft_resolver {
    _Atomic uint32_t users; /* who asked, and the threads: the last gives the memory back */
    uint32_t count;
    look looks[WEFT_RESOLVER_NAMES];
};

static void leave(weft_resolver *resolver)
{
    if (atomic_fetch_sub(&resolver->users, 1) == 1)
        weft_mem_give(resolver);
}

static void answer(look *one, weft_status status)
{
    one->found.status = status;
    if (status != WEFT_OK)
        snprintf(one->found.text, sizeof one->found.text, "%s", weft_last_error());
    atomic_store(&one->known, true);
}

static void *look_up(void *argument)
{
    look *one = argument;
    answer(one, weft_control_resolve(one->host, one->found.address, &one->found.count));
    leave(one->resolver);
    return NULL;
}

static void ask(weft_resolver *resolver, look *one, const char host[WEFT_SITE_TEXT])
{
    pthread_t thread;
    one->resolver = resolver;
    memcpy(one->host, host, sizeof one->host);
    one->found.count = weft_control_is_numeric(host, one->found.address[0]);
    if (one->found.count > 0) {
        answer(one, WEFT_OK);
        return;
    }
    one->awaited.status = WEFT_E_UNREACHABLE;
    snprintf(one->awaited.text, sizeof one->awaited.text, "the name server does not answer for %.150s", host);
    atomic_fetch_add(&resolver->users, 1);
    int error = weft_thread_start(&thread, look_up, one);
    if (error == 0) {
        pthread_detach(thread);
        return;
    }
    answer(one, weft_fail_quiet(WEFT_E_UNREACHABLE, "no thread to look up %s: %s", host, strerror(error)));
    leave(resolver);
}

weft_resolver *weft_resolver_ask(const char (*hosts)[WEFT_SITE_TEXT], uint32_t count)
{
    weft_resolver *resolver = weft_mem_take(1, sizeof *resolver);
    if (!resolver)
        return NULL;
    resolver->count = count;
    atomic_store(&resolver->users, 1);
    for (uint32_t i = 0; i < count; i++)
        ask(resolver, &resolver->looks[i], hosts[i]);
    return resolver;
}

bool weft_resolver_known(const weft_resolver *resolver)
{
    bool known = true;
    for (uint32_t i = 0; i < resolver->count; i++)
        known = known && atomic_load(&resolver->looks[i].known);
    return known;
}

static bool has_address(const weft_resolver *resolver)
{
    bool has = false;
    for (uint32_t i = 0; i < resolver->count; i++)
        has = has || weft_resolver_at(resolver, i)->count > 0;
    return has;
}

bool weft_resolver_wait(const weft_resolver *resolver, uint64_t deadline_ns)
{
    uint64_t until_ns = deadline_ns;
    bool has = false;
    while (!weft_resolver_known(resolver)) {
        const uint64_t now_ns = weft_clock_ns();
        if (!has && has_address(resolver)) {
            has = true;
            until_ns = now_ns + OTHERS_NS < deadline_ns ? now_ns + OTHERS_NS : deadline_ns;
        }
        if (now_ns >= until_ns)
            return has;
        weft_clock_pass(LOOK_NS);
    }
    return true;
}

const weft_name *weft_resolver_at(const weft_resolver *resolver, uint32_t index)
{
    const look *one = &resolver->looks[index];
    return atomic_load(&one->known) ? &one->found : &one->awaited;
}

void weft_resolver_give(weft_resolver *resolver)
{
    if (resolver)
        leave(resolver);
}

/* names.c - looks up host names beside everything else. */
#include "names.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "status.h"
#include "thread.h"

#define LOOK_NS (2 * WEFT_NS_PER_MS)

struct weft_names {
    _Atomic uint32_t users; /* who asked, and the thread: the last gives the memory back */
    _Atomic bool known;
    uint32_t count;
    char hosts[WEFT_NAMES][WEFT_SITE_TEXT];
    weft_name found[WEFT_NAMES];
};

static void leave(weft_names *names)
{
    if (atomic_fetch_sub(&names->users, 1) == 1)
        weft_mem_give(names);
}

static void *look_up(void *argument)
{
    weft_names *names = argument;
    for (uint32_t i = 0; i < names->count; i++) {
        weft_name *name = &names->found[i];
        if (name->count)
            continue;
        name->status = weft_control_resolve(names->hosts[i], name->address, &name->count);
        if (name->status != WEFT_OK)
            snprintf(name->text, sizeof name->text, "%s", weft_last_error());
    }
    atomic_store(&names->known, true);
    leave(names);
    return NULL;
}

weft_names *weft_names_ask(const char (*hosts)[WEFT_SITE_TEXT], uint32_t count)
{
    pthread_t thread;
    bool known = true;
    weft_names *names = weft_mem_take(1, sizeof *names);
    if (!names)
        return NULL;
    names->count = count;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(names->hosts[i], hosts[i], sizeof names->hosts[i]);
        names->found[i].count = weft_control_is_numeric(hosts[i], names->found[i].address[0]);
        known = known && names->found[i].count;
    }
    atomic_store(&names->users, known ? 1 : 2);
    atomic_store(&names->known, known);
    if (known)
        return names;
    if (weft_thread_start(&thread, look_up, names) == 0) {
        pthread_detach(thread);
        return names;
    }
    weft_mem_give(names);
    return NULL;
}

bool weft_names_known(const weft_names *names)
{
    return atomic_load(&names->known);
}

bool weft_names_wait(const weft_names *names, uint64_t deadline_ns)
{
    while (!weft_names_known(names) && weft_clock_ns() < deadline_ns)
        weft_clock_pass(LOOK_NS);
    return weft_names_known(names);
}

const weft_name *weft_names_at(const weft_names *names, uint32_t index)
{
    return &names->found[index];
}

void weft_names_give(weft_names *names)
{
    if (names)
        leave(names);
}

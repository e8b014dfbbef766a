#include "wire/watch.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

#define BATCH 64

weft_status weft_watch_open(weft_watch *watch, uint32_t count)
{
    watch->count = count;
    watch->stirred = weft_mem_take(count, sizeof *watch->stirred);
    watch->due_ns = weft_mem_take(count, sizeof *watch->due_ns);
    watch->fd = epoll_create1(EPOLL_CLOEXEC);
    if (!watch->stirred || !watch->due_ns)
        return weft_fail(WEFT_E_MEMORY, "no memory for %u connections", count);
    if (watch->fd < 0)
        return weft_fail(WEFT_E_SYSTEM, "epoll: %s", strerror(errno));
    for (uint32_t i = 0; i < count; i++)
        watch->due_ns[i] = UINT64_MAX;
    return WEFT_OK;
}

void weft_watch_close(weft_watch *watch)
{
    if (watch->fd > 0)
        close(watch->fd);
    weft_mem_give(watch->due_ns);
    weft_mem_give(watch->stirred);
}

/* A connection that is ready stays so until it is read, so the loop takes as many turns as all of them can fill. */
void weft_watch_gather(weft_watch *watch)
{
    struct epoll_event ready[BATCH];
    int count = BATCH;
    for (uint32_t seen = 0; count == BATCH && seen <= watch->count; seen += BATCH) {
        count = epoll_wait(watch->fd, ready, BATCH, 0);
        for (int i = 0; i < count; i++)
            watch->stirred[ready[i].data.u32] = true;
    }
}

bool weft_watch_control(weft_watch *watch, weft_control *control, uint32_t number, bool reads, bool writes)
{
    struct epoll_event wanted = {.events = (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u), .data.u32 = number};
    bool first = !control->watched;
    if (control->fd < 0 || (!first && control->watched_for == wanted.events && control->watched_as == number))
        return true;
    if (epoll_ctl(watch->fd, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, control->fd, &wanted) != 0) {
        watch->stirred[number] = true;
        return false;
    }
    control->watched = true;
    control->watched_for = wanted.events;
    control->watched_as = number;
    return true;
}

void weft_watch_forget(weft_watch *watch, weft_control *control)
{
    if (control->watched)
        epoll_ctl(watch->fd, EPOLL_CTL_DEL, control->fd, NULL);
    control->watched = false;
}

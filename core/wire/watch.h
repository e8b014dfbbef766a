/* watch.h - a watch knows which of many connections have news, so that a step costs what happened and not how many
 * connections there are.
 *
 * Each connection has a number. It is due if its descriptor is ready, if it was stirred, or if its time has come. Its
 * server sets the next time. */
#ifndef WEFT_CORE_WATCH_H
#define WEFT_CORE_WATCH_H

#include "wire/control.h"

typedef struct weft_watch {
    int fd; /* descriptor that is readable while any connection is ready */
    uint32_t count;
    bool *stirred;
    uint64_t *due_ns; /* time of each connection in ns; UINT64_MAX: none */
} weft_watch;

weft_status weft_watch_open(weft_watch *watch, uint32_t count);
void weft_watch_close(weft_watch *watch);

/* Stirs the connections that are ready. */
void weft_watch_gather(weft_watch *watch);
/* Watches a connection under `number` until it is hung up; cheap if nothing changed since the last call. False: the
 * connection cannot be watched, and stays stirred. */
bool weft_watch_control(weft_watch *watch, weft_control *control, uint32_t number, bool reads, bool writes);

/* Forgets a connection whose socket another owner takes over. */
void weft_watch_forget(weft_watch *watch, weft_control *control);

static inline bool weft_watch_due(const weft_watch *watch, uint32_t number, uint64_t now_ns)
{
    return watch->stirred[number] || watch->due_ns[number] <= now_ns;
}

#endif

/* watch.h - which of many connections have news, so that a step costs what has happened and not how many there are.
 *
 * Each connection has a number. It is due when its descriptor is ready, when somebody stirred it, or when its time has
 * come; whoever serves it says when its time comes next. */
#ifndef WEFT_CORE_WATCH_H
#define WEFT_CORE_WATCH_H

#include "wire/control.h"

typedef struct weft_watch {
    int fd; /* readable while any connection is ready */
    uint32_t count;
    bool *stirred;
    uint64_t *due_ns; /* UINT64_MAX: at no time of its own */
} weft_watch;

weft_status weft_watch_open(weft_watch *watch, uint32_t count);
void weft_watch_close(weft_watch *watch);

/* Stirs those whose connection is ready. */
void weft_watch_gather(weft_watch *watch);
/* Watches a connection under `number` until it is hung up; cheap while nothing differs from the last time. What cannot
 * be watched stays stirred, and false says so. */
bool weft_watch_control(weft_watch *watch, weft_control *control, uint32_t number, bool reads, bool writes);

static inline bool weft_watch_due(const weft_watch *watch, uint32_t number, uint64_t now_ns)
{
    return watch->stirred[number] || watch->due_ns[number] <= now_ns;
}

#endif

/* descriptors.h - the descriptors that this process may open: as many as the system lets it, a few kept for need, and a
 * warning before there are none left. They are the process's: all sessions share what is here. */
#ifndef WEFT_CORE_DESCRIPTORS_H
#define WEFT_CORE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#define WEFT_DESCRIPTORS_KEPT 24u /* a peer that joins by tcp-rxm takes 15 */

/* Raises the limit (RLIMIT_NOFILE) to the hard one and keeps some for need; once for each session, each with a close.
 * What cannot be had is left out. */
void weft_descriptors_open(void);
/* The last one gives the kept ones back; the limit stays. */
void weft_descriptors_close(void);

/* Whether a call that failed with `error` may succeed now: it was short of descriptors, and the kept ones were given up
 * for it, which is logged. */
bool weft_descriptors_short(int error);
/* Gives the kept ones up where fewer than `count` could be opened now. */
void weft_descriptors_need(uint32_t count);

/* About each second, else nothing: takes back what was given up where enough are left, and warns, once, where most of
 * what may be open is. */
void weft_descriptors_watch(void);

typedef struct weft_descriptors_use {
    uint64_t open;  /* now, at least */
    uint64_t limit; /* the soft one */
    uint32_t kept;  /* of those open */
} weft_descriptors_use;

weft_descriptors_use weft_descriptors_now(void);

#endif

/* descriptors.h - the file descriptors of this process, which all its sessions share.
 *
 * The limit is raised as far as the system allows, a few descriptors are kept in reserve, and a warning comes before
 * none is left. */
#ifndef WEFT_CORE_DESCRIPTORS_H
#define WEFT_CORE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#define WEFT_DESCRIPTORS_KEPT 24u /* reserved descriptors; a peer that joins by tcp-rxm takes 15 */

/* Raises the limit (RLIMIT_NOFILE) to the hard limit and takes the reserve. Call it once for each session, each with a
 * close. The reserve stays empty if the descriptors cannot be had. */
void weft_descriptors_open(void);
/* Ends one session's use; the last call gives the reserve back. The limit stays raised. */
void weft_descriptors_close(void);

/* True if a call that failed with `error` may succeed now: it lacked descriptors, so the reserve was given up. That is
 * logged. */
bool weft_descriptors_short(int error);
/* Gives the reserve up if fewer than `count` descriptors could be opened now. */
void weft_descriptors_need(uint32_t count);

/* Takes the reserve again once enough descriptors are free, and warns once when most of the limit is in use. Does
 * nothing more often than about once a second. */
void weft_descriptors_watch(void);

typedef struct weft_descriptors_use {
    uint64_t open;  /* descriptors open now, at least */
    uint64_t limit; /* the soft limit, in descriptors */
    uint32_t kept;  /* open descriptors that are the reserve */
} weft_descriptors_use;

weft_descriptors_use weft_descriptors_now(void);

#endif

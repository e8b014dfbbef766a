/* loop.h - the in-process fabric for tests, and the faults it can be told to make.
 *
 * Every link of the process meets in one hub. A write copies its bytes straight into the remote region and queues the
 * immediate there; both ends may be in different threads. */
#ifndef WEFT_PROVIDERS_LOOP_H
#define WEFT_PROVIDERS_LOOP_H

#include "port/port_provider.h"

/* Faults by the count of writes posted under this set of faults, from 1. `every` N hits writes N, 2N, 3N ...; `at` N
 * hits write N alone; 0 is never. Where several hit one write, the first named here wins. */
typedef struct weft_loop_faults {
    uint64_t seed;           /* of the choices that reordering and corruption make */
    uint64_t again_every;    /* the post is refused with WEFT_AGAIN (it counts as posted) */
    uint64_t stall_after;    /* later writes never land and never complete */
    uint64_t fail_every;     /* never lands, completes as FAILED with fail_status */
    uint64_t fail_at;        /* as fail_every, once */
    weft_status fail_status; /* WEFT_OK: WEFT_E_PEER_LOST */
    uint64_t break_at;       /* the port fails: FAILED with cookie UINT64_MAX; nothing of it lands or completes later */
    uint64_t drop_every;     /* completes, never lands */
    uint64_t drop_at;        /* as drop_every, once */
    uint64_t corrupt_every;  /* one bit of the landed bytes is flipped */
    uint64_t corrupt_at;     /* as corrupt_every, once */
    uint64_t duplicate_every; /* lands once, its immediate arrives twice */
    uint64_t duplicate_at;    /* as duplicate_every, once */
    uint64_t line_bytes_s;    /* writes complete when taken, as by a socket's buffer of the port's depth, and land in
                               * order, at so many bytes a second for all ports together; 0: at once. For a clock of
                               * the test's own: a port that waits for the line is busy */
    uint32_t reorder_window;  /* up to this many writes of a port wait (at most its depth), and land in random order */
    bool away;                /* weft_loop_set_rail: no link and no port can be opened on the address */
} weft_loop_faults;

/* The fate of the writes posted under a set of faults. */
typedef struct weft_loop_counts {
    uint64_t posted; /* calls of write that reached the faults */
    uint64_t landed;
    uint64_t refused; /* WEFT_AGAIN made by a fault */
    uint64_t stalled;
    uint64_t failed; /* by a fault, or with a bad key, bounds or a closed port */
    uint64_t dropped;
    uint64_t corrupted;
    uint64_t duplicated;
    uint64_t held; /* waited in the reorder window */
} weft_loop_counts;

/* Sets the faults of every link, open or not, that was given none by its options, and starts their counts anew; NULL:
 * no faults. Any thread. The struct is copied. */
void weft_loop_set_faults(const weft_loop_faults *faults);

/* The same for links on one address, which the others then do not count for; NULL: they are as all others again. At
 * most WEFT_LOOP_RAILS addresses at one time. */
#define WEFT_LOOP_RAILS 8u
void weft_loop_set_rail(const char *address, const weft_loop_faults *faults);

/* The counts under weft_loop_set_faults. Any thread. */
void weft_loop_counted(weft_loop_counts *counts);

/* The counts of a link that has faults of its own. Any thread, until the link is closed. */
void weft_loop_link_counted(const weft_link *link, weft_loop_counts *counts);

#endif

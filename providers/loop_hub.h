/* loop_hub.h - what loop.c and loop_write.c share: the hub where all links of the process meet. */
#ifndef WEFT_PROVIDERS_LOOP_HUB_H
#define WEFT_PROVIDERS_LOOP_HUB_H

#include "providers/loop.h"

#define WEFT_LOOP_ARRIVALS_MAX 4096u /* of one port, not yet polled: beyond it writers get WEFT_AGAIN */

/* A set of faults at work. */
typedef struct weft_loop_state {
    weft_loop_faults faults;
    weft_loop_counts counts;
    uint64_t random;
    uint64_t line_ns; /* when the line has carried all that was given to it */
} weft_loop_state;

struct weft_link {
    uint64_t chunk_bytes;
    uint32_t depth;
    char address[64];
    bool has_faults;
    weft_loop_state own;
};

struct weft_region {
    weft_region *next; /* in the hub's list */
    uint8_t *memory;
    uint64_t bytes;
    uint64_t address; /* of its first byte, as remote writers say it: no pointer of this process */
    uint64_t key;     /* 0: local */
};

struct weft_port {
    weft_port *next; /* in the hub's list */
    weft_link *link;
    uint64_t id;
    uint64_t peer; /* 0: not connected */
    int fd;
    uint32_t in_flight; /* posted, completion not yet polled */
    bool broken;
    bool posted;           /* since the last poll: held writes wait for more company */
    weft_completion *ring; /* completions and arrivals in order */
    uint32_t ring_size, ring_head, ring_count;
    uint32_t arrivals; /* of the ring */
    weft_write *held;  /* writes that the reorder window or the line keeps back; room for the link's depth */
    uint32_t held_count;
    uint64_t *due_ns; /* of those kept back by the line: when they land */
    bool lined;       /* by the line: they are completed, and land in order */
};

/* Guards everything below, and every port, region and fault state; held for a copy of one chunk at most. */
void weft_loop_lock(void);
void weft_loop_unlock(void);

/* The rest under the lock. */
weft_port *weft_loop_port_of(uint64_t id);
weft_region *weft_loop_region_of(uint64_t key);
weft_loop_state *weft_loop_state_of(const weft_port *port);
void weft_loop_state_set(weft_loop_state *state, const weft_loop_faults *faults);

/* The table's slots that move bytes; they take the lock themselves. */
weft_status weft_loop_write(weft_port *port, const weft_write *write);
size_t weft_loop_poll(weft_port *port, weft_completion *completions, size_t capacity);
weft_status weft_loop_wait_arm(weft_port *port);

#endif

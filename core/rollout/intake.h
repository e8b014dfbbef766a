/* intake.h - the slots that buckets land in, and the inlets that they land through. */
#ifndef WEFT_CORE_INTAKE_H
#define WEFT_CORE_INTAKE_H

#include "port/port_provider.h"
#include "rollout/joining.h"
#include "session/session.h"
#include "wire/wire.h"

typedef struct weft_slot {
    uint8_t by[WEFT_CHUNKS_MAX + 1]; /* the inlet that each chunk came by, counted from 1; 0: it has not come */
    uint32_t count;                  /* chunks arrived */
    uint64_t whole_ns;               /* when the last did */
    bool has_header;                 /* chunk 0 was read and judged */
    weft_wire_bucket header;
} weft_slot;

static inline bool weft_slot_whole(const weft_slot *slot)
{
    return slot->has_header && slot->count == slot->header.chunks + 1;
}

/* Registered memory that buckets land in; the header page of each slot stands before its payload. */
typedef struct weft_slots {
    uint8_t *memory;
    uint64_t bytes, stride, payload;
    uint32_t count;
    weft_slot *slot;
} weft_slots;

static inline uint64_t weft_slots_stride(uint64_t payload)
{
    return WEFT_SLOT_HEADER_BYTES + (payload + 4095) / 4096 * 4096;
}

/* Returns the bytes of so many slots, and of what is known of each. */
uint64_t weft_slots_need(uint64_t window, uint64_t bucket);

/* Values that the bucket headers of a connection must have. */
typedef struct weft_slots_law {
    const uint64_t *layout;
    uint32_t epoch;
    uint64_t incarnation;
} weft_slots_law;

/* A port that buckets land through, with the slots registered for it. */
typedef struct weft_inlet {
    weft_port *port; /* NULL: closed */
    weft_region *region;
    uint32_t turn;     /* how often it was opened before */
    bool failed;       /* the fabric reports so: the trainer is told, and has it closed */
    uint64_t arrivals; /* since it was opened */
} weft_inlet;

/* A rollout has one intake for each trainer. inlet.c owns links and inlets, receive.c the slots. */
typedef struct weft_intake {
    const weft_provider *provider;
    weft_link
        *links[WEFT_SITE_RAILS]; /* one of each address, for inlets by their place modulo link_count. NULL: away */
    uint32_t link_count;
    char address[WEFT_SITE_NAME]; /* address of the first link, chosen where the site names none */
    uint64_t link_writes[WEFT_SITE_RAILS], link_failures[WEFT_SITE_RAILS];
    weft_link_facts facts; /* facts of the first link that was there; chunk_bytes of the smallest */
    weft_inlet inlets[WEFT_PORTS_MAX];
    uint32_t inlet_count;
    uint32_t epoch;
    weft_slots slots;
    uint64_t next_sequence;
    uint64_t moved_ns; /* last time a chunk came, a bucket was taken, or an update was begun, announced or asked for */
} weft_intake;

typedef struct weft_arriving weft_arriving;

/* ---- links.c */
/* Chooses the provider and opens a link on each of the addresses. It closes what an earlier attempt opened.
 * WEFT_AGAIN: an interface, its IP or a route is not there yet. */
weft_status weft_links_open(weft_rollout *rollout);
/* Refuses, without a line, addresses that the gateway numbered `way` cannot reach. */
weft_status weft_links_reach(const weft_rollout *rollout, uint32_t way);

/* ---- inlet.c */
/* Opens a link on each of the addresses; `first` stands for the first address. One open link of several is enough for a
 * rollout that is no relay, because the others are opened when the trainer asks for them. */
weft_status weft_inlet_links(weft_rollout *rollout, const char *first);
/* Opens all inlets of a new connection, and names the inlets in HELLO. */
weft_status weft_inlet_open(weft_rollout *rollout, weft_wire_hello *hello);
/* Joins the inlets with the trainer's ports, and closes the inlets that the trainer will not use. */
weft_status weft_inlet_connect(weft_intake *intake, weft_joining *joining, const weft_wire_welcome *welcome);
/* Closes all inlets, which fences the connection; with `links` the links too. */
void weft_inlet_close(weft_intake *intake, bool links);
uint32_t weft_inlet_used(const weft_intake *intake);
/* Describes the rails, and returns their number. */
uint32_t weft_inlet_rails(const weft_intake *intake, const weft_site_peer *site, weft_rail_info rails[WEFT_RAILS_MAX]);
/* Reports a failed inlet to the trainer. Errors: WEFT_E_PEER_LOST, because there is no other inlet. */
weft_status weft_inlet_fail(weft_intake *intake, weft_joining *joining, weft_inlet *inlet, weft_status why);
/* Answer LOOK (tell), CLOSE (shut) and OPEN (reopen). */
weft_status weft_inlet_tell(weft_intake *intake, weft_joining *joining);
weft_status weft_inlet_shut(weft_intake *intake, weft_joining *joining, const uint8_t *body, uint64_t length);
weft_status weft_inlet_reopen(weft_rollout *rollout, const uint8_t *body, uint64_t length);
/* Adds the inlets that may have arrivals to `waits`. */
void weft_inlet_wait(const weft_arriving *arriving, const weft_intake *intake, weft_waits *waits);

/* ---- slots.c */
/* Counts an arrival by an inlet into its slot and judges the bucket's header. */
weft_status weft_slots_count(weft_slots *slots, const weft_slots_law *law, uint32_t inlet, uint32_t immediate,
                             uint64_t now_ns);
/* Forgets the chunks that came by an inlet, of buckets that are not whole. `whole` receives a bit for each slot whose
 * bucket is whole. */
void weft_slots_forget(weft_slots *slots, uint32_t inlet, uint8_t whole[WEFT_SLOTS_MAX / 8]);
/* Finds the slot with the whole bucket of a sequence. Returns slots->count: there is none. */
uint32_t weft_slots_find(const weft_slots *slots, uint64_t sequence);

/* ---- receive.c */
weft_status weft_receive_open(weft_rollout *rollout);
void weft_receive_close(weft_arriving *arriving, weft_intake *intake);
/* Forgets all arrivals of the connection. */
/* Takes the memory for frames: for those of an update that is kept encoded, and for one bucket. Errors: WEFT_E_MEMORY.
 */
weft_status weft_receive_keep(weft_arriving *arriving, const weft_layout *layout, uint64_t bytes);
void weft_receive_reset(weft_arriving *arriving, weft_intake *intake);
/* Takes arrivals off the port; true if there were any. */
weft_status weft_receive_poll(weft_rollout *rollout, bool *any);
/* Copies the next bucket in sequence out of its slot, checks the copy, and grants the slot again. WEFT_AGAIN: none is
 * whole. */
weft_status weft_receive_take(weft_rollout *rollout);

#endif

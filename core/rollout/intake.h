/* intake.h - the slots that buckets land in, and the inlets that they land through. */
#ifndef WEFT_CORE_INTAKE_H
#define WEFT_CORE_INTAKE_H

#include "port/port_provider.h"
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

/* What the bucket headers of a connection must say. */
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

#endif

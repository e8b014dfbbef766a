/* flights.h - the buckets of one peer between their first write and their receipt. */
#ifndef WEFT_CORE_FLIGHTS_H
#define WEFT_CORE_FLIGHTS_H

#include "journal/journal.h"
#include "peer/peer_state.h"
#include "peer/slabs.h"
#include "wire/control.h"

/* A flight: a bucket on its way, found by its slot. */
typedef struct weft_flight {
    bool used; /* the slot is taken */
    bool receipted;
    bool resent;                 /* some of it went again by another rail, so its times say nothing */
    uint32_t writes;             /* writes posted and not completed here */
    uint16_t by[WEFT_PORTS_MAX]; /* of these writes, how many by each rail */
    uint64_t sequence;
    uint64_t bytes;
    uint64_t posted_ns;
    weft_update *update; /* update whose chain the bucket reads, held; NULL: none */
    int32_t slab;        /* slab that the bucket reads; -1: none */
} weft_flight;

/* Flights: the slots of a peer and the buckets in them. The peer's record owns them. */
struct weft_flights {
    weft_slabs *slabs;    /* pool of the trainer, shared by all peers */
    uint8_t *headers;     /* headers of buckets, one for each slot */
    weft_parcel *parcels; /* what went by which rail, for each slot; NULL: no peer of the site has several rails */
    uint32_t slots_most;  /* slots that the peer may use, at most */
    weft_flight list[WEFT_SLOTS_MAX];
    uint32_t slots_free;
    uint32_t next_slot;
    uint64_t sequence;     /* of the next bucket */
    uint32_t writes;       /* writes posted and not completed, of all buckets */
    uint32_t again_chunks; /* chunks to be sent again by another rail */
    uint64_t progress_ns;  /* when a write was last taken or completed */
    uint32_t slabs_used;   /* slabs that the peer's buckets have */
    bool starved;          /* the peer waits for a slab of the pool */
    uint64_t slab_turn;    /* weft_slabs.turn when the peer took its last slab; 0: never */
};

/* Frees the slot if the peer granted the slot again and the provider no longer reads the bucket's memory. */
void weft_flight_release(weft_flights *flights, weft_flight *flight);
/* Takes a receipt. Errors: WEFT_E_PROTOCOL, because no such bucket is on its way. */
weft_status weft_flight_receipt(weft_peer *peer, const weft_wire_receipt *receipt, uint64_t now_ns);
/* Returns true if all of the bucket in a used slot was posted, and nothing of the bucket is to go again. */
bool weft_flight_is_whole(const weft_posting *posting, const weft_flights *flights, uint32_t slot);
/* Writes off the writes of a rail, because the rail's port is closed. */
void weft_flights_write_off(weft_flights *flights, uint32_t rail);
/* Writes off every bucket in flight, because all ports are closed. */
void weft_flights_abandon(weft_posting *posting, weft_flights *flights);

#endif

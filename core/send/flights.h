/* flights.h - the buckets of one receiver between their first write and their receipt. */
#ifndef WEFT_CORE_FLIGHTS_H
#define WEFT_CORE_FLIGHTS_H

#include "journal/journal.h"
#include "send/slabs.h"
#include "wire/control.h"

typedef struct weft_sender weft_sender;

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

/* Flights: the slots of a receiver and the buckets in them. Its sender owns them. */
typedef struct weft_flights weft_flights;
struct weft_flights {
    weft_slabs *slabs;    /* pool of the session, shared by all receivers */
    uint8_t *headers;     /* headers of buckets, one for each slot */
    weft_parcel *parcels; /* what went by which rail, for each slot; NULL: no receiver has several rails */
    uint32_t slots_most;  /* slots that a receiver may use, at most */
    void (*give)(weft_flights *flights, int32_t slab); /* gives back a slab that nobody reads any more */
    weft_flight list[WEFT_SLOTS_MAX];
    uint32_t slots; /* slots that the receiver has, as far as they are used */
    uint32_t slots_free;
    uint32_t next_slot;
    uint64_t sequence;     /* of the next bucket */
    uint32_t writes;       /* writes posted and not completed, of all buckets */
    uint32_t again_chunks; /* chunks to be sent again by another rail */
    uint64_t progress_ns;  /* when a write was last taken or completed */
    uint32_t slabs_used;   /* slabs that the receiver's buckets have */
    bool starved;          /* the receiver waits for a slab of the pool */
    uint64_t slab_turn;    /* weft_slabs.turn when the receiver took its last slab; 0: never */
};

/* Frees the slot if the receiver granted the slot again and the provider no longer reads the bucket's memory. */
void weft_flight_release(weft_flights *flights, weft_flight *flight);
/* Finds the flight that a receipt is for, which is receipted then; the caller releases it. Errors: WEFT_E_PROTOCOL,
 * because no such bucket is on its way. */
weft_status weft_flight_receipt(weft_sender *sender, const weft_wire_receipt *receipt, weft_flight **flight);
/* Returns true if all of the bucket in a used slot was posted, and nothing of the bucket is to go again. */
bool weft_flight_is_whole(const weft_sender *sender, uint32_t slot);
/* Writes off the writes of a rail, because the rail's port is closed. */
void weft_flights_write_off(weft_flights *flights, uint32_t rail);
/* Writes off every bucket in flight, because all ports are closed. */
void weft_flights_abandon(weft_flights *flights);

#endif

/* loop_pair.h - two ends of the in-process fabric joined one way, and a tally of what their completions say. */
#ifndef WEFT_TESTS_LOOP_PAIR_H
#define WEFT_TESTS_LOOP_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "providers/loop.h"

#define CHUNK UINT64_C(256)
#define SPOTS 64u
#define DEPTH 8u
#define BYTES (CHUNK * SPOTS)

static const weft_provider *const loop = &weft_provider_loop;

/* Two ends joined one way: writes from `tx` land in `memory` of `rx`. */
typedef struct pair {
    weft_link *tx_link, *rx_link;
    weft_port *tx, *rx;
    weft_region *from, *to;
    uint8_t *source, *memory;
    uint64_t address, key;
} pair;

/* The completions so far. */
typedef struct tally {
    uint32_t written, failed, arrived;
    uint32_t arrivals_of[SPOTS]; /* by immediate */
    uint32_t order[4 * SPOTS];   /* immediates as they came */
    weft_status status;          /* of the last failure */
    uint64_t cookie;             /* of the last completion of a write */
} tally;

/* Connects `tx` to the address of `rx`. */
void pair_join(weft_port *tx, const weft_port *rx);
/* `faults` are those of the writing link; NULL: none. */
pair pair_open(const weft_loop_faults *faults);
void pair_close(pair *p);

/* The write of CHUNK bytes to the same spot (below SPOTS) of the other end; the immediate is the spot. */
weft_write pair_write(const pair *p, uint32_t spot);
weft_status pair_post(const pair *p, uint32_t spot);
/* True if the spot holds the source's bytes. */
bool pair_landed(const pair *p, uint32_t spot);
/* Polls both ends until nothing more comes, also from a reorder window, which lands one write a poll. */
void pair_drain(const pair *p, tally *t);
/* Posts every spot once, polling when the port is full; a post refused by a fault is tried again. */
tally pair_send_spots(const pair *p);

#endif

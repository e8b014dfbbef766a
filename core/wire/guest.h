/* guest.h - a guest is a connection without a HELLO yet. When all places are taken, one guest makes room for a
 * newcomer.
 *
 * Connecting often keeps no other host out, because the host with the most guests loses one first. */
#ifndef WEFT_CORE_GUEST_H
#define WEFT_CORE_GUEST_H

#include "wire/control.h"

#define WEFT_GUESTS_MOST 512u /* guests at one time, however many places there are */
/* Guests that lose their place in one step, at most, so that each is read once before it can go. */
#define WEFT_GUESTS_TURN 4u

typedef struct weft_guest {
    const weft_control *control;
    uint64_t since_ns;
    bool leaving;   /* an answer to the guest is on its way */
    uint32_t place; /* the owner's number of the guest's place */
} weft_guest;

/* Picks the guest of `count` (1..WEFT_GUESTS_MOST) that makes room: one of the host with the most guests. Silent guests
 * go before those that sent something, those before guests that wait for their answer to leave, and older ones before
 * newer. */
uint32_t weft_guest_pick(const weft_guest *guests, uint32_t count);

/* True if a host has as many guests as the site gives one address, without `newcomer`, who is of that host. */
bool weft_guest_is_one_more(const weft_site *site, const weft_guest *guests, uint32_t count,
                            const weft_control *newcomer);

#endif

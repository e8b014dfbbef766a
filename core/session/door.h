/* door.h - where guests come to a session: the end that listens, the layout that guests may ask for, and their places.
 *
 * A trainer's guests have records of peers, and a relay's those of children. The door asks its owner for places by a
 * table of functions. */
#ifndef WEFT_CORE_DOOR_H
#define WEFT_CORE_DOOR_H

#include "base/log_limit.h"
#include "session/session.h"
#include "wire/guest.h"

/* Places, by number. */
typedef struct weft_door_places {
    /* Lists the guests that have not said who they are. Returns their count. */
    uint32_t (*guests)(void *owner, weft_guest guests[WEFT_GUESTS_MOST]);
    /* Finds a free place. NULL: there is none. */
    weft_control *(*find)(void *owner, uint32_t *place);
    /* Ends the guest at a place, who makes room. */
    void (*clear)(void *owner, uint32_t place);
    /* A guest has come to a place that was free, by the place's connection. */
    void (*take)(void *owner, uint32_t place);
} weft_door_places;

typedef struct weft_door {
    weft_session *session;
    const weft_door_places *places;
    void *owner; /* of the places */
    int listen_fd;
    uint8_t *layout_bytes; /* body of a LAYOUT message */
    uint64_t layout_length;
    weft_log_limit strangers; /* lines about connections that did not say a HELLO of the site's */
} weft_door;

/* The session, the places and their owner are set. */
weft_status weft_door_open(weft_door *door, const weft_layout *layout);
/* Listens at an address, which may come with its interface, and names it as bound. */
weft_status weft_door_listen(weft_door *door, const char *address, char listen[64]);
/* Accepts guests as far as there are places, and waits for more. Who finds no place is closed, with `full` as the
 * reason. If no descriptor can be had now, what waits is left for a later step. */
void weft_door_accept(weft_door *door, const char *full, weft_waits *waits);
/* Sends the layout to a guest that asks for it. */
weft_status weft_door_answer(const weft_door *door, weft_control *control);
void weft_door_close(weft_door *door);

#endif

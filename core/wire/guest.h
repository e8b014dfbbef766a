/* guest.h - connections that have not said who they are, and which of them makes room where places are short.
 *
 * Nobody can keep others out by connecting: the host that has the most waits shortest. */
#ifndef WEFT_CORE_GUEST_H
#define WEFT_CORE_GUEST_H

#include "wire/control.h"

#define WEFT_GUESTS_MOST 512u /* at one time, however many places there are */
/* Places that are taken from others in one step at most: whoever has one is read before it can go. */
#define WEFT_GUESTS_TURN 4u

typedef struct weft_guest {
    const weft_control *control;
    uint64_t since_ns;
    bool leaving; /* an answer is on its way to it */
} weft_guest;

/* The one of `count` (1..WEFT_GUESTS_MOST) that loses its place to a newcomer: of the host that has most of them, or of
 * any of several such hosts; one that has not said a word before one that has, that before one that is being answered;
 * of those the oldest. */
uint32_t weft_guest_pick(const weft_guest *guests, uint32_t count);

#endif

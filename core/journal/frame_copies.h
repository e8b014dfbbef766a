/* frame_copies.h - frames that have their place in an arena, and whose bytes come later: copied and checked by several
 * lanes, because one thread copies a device's frames more slowly than the device makes them. */
#ifndef WEFT_CORE_FRAME_COPIES_H
#define WEFT_CORE_FRAME_COPIES_H

#include "base/lanes.h"
#include "journal/arena.h"

/* Lanes at most: four fill what memory takes. */
#define WEFT_FRAME_COPIES_LANES 4u

typedef struct weft_frame_copy {
    const uint8_t *from;
    uint8_t *to;
    weft_index_entry *entry; /* has the length, and receives the check */
} weft_frame_copy;

typedef struct weft_frame_copies {
    weft_lanes lanes;
    weft_frame_copy *list; /* NULL: each frame is copied when it is added */
    uint32_t count;
} weft_frame_copies;

/* `lanes` 0: each frame is copied when it is added. Errors: WEFT_E_MEMORY, WEFT_E_SYSTEM. */
weft_status weft_frame_copies_open(weft_frame_copies *copies, uint32_t lanes);
void weft_frame_copies_close(weft_frame_copies *copies);
/* Bytes that it takes, its threads aside. */
uint64_t weft_frame_copies_need(uint32_t lanes);

/* Has `from` copied to where the arena has the place of a frame. `from` stays until weft_frame_copies_end. */
void weft_frame_copies_add(weft_frame_copies *copies, const uint8_t *from, uint8_t *to, weft_index_entry *entry);
/* Copies what was added. One caller at a time, who adds too. */
void weft_frame_copies_end(weft_frame_copies *copies);

#endif

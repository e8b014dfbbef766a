/* rebuild.h - the bits of a version that is no longer the newest: the shadow's, less what later versions changed.
 *
 * On a thread beside publish, outside the lock; the shadow is copied unit by unit under it, never while a publish
 * brings it up to date. Blocks of units are rebuilt whole: no frame that is undone reaches beyond one. */
#ifndef WEFT_CORE_REBUILD_H
#define WEFT_CORE_REBUILD_H

#include "peer/bridge.h"

/* A block of units, as they were after some update. */
typedef struct weft_image {
    uint64_t unit;  /* the first */
    uint32_t units; /* at most 2^WEFT_RUN_SHIFT_MAX; 0: nothing stands in it */
    uint64_t order; /* of that update */
    uint8_t *dense;
    weft_binding bound; /* the shadow's runs, of which those of the block point to `dense` */
} weft_image;

/* The owner of a rebuilder: a thread beside publish, and what the thread works with. */
typedef struct weft_rebuilder_owner {
    weft_publisher *publisher;
    const weft_backend *backend; /* host's */
    weft_backend_state *device;
    uint8_t *frame;               /* room for the largest frame */
    const bool *running, *broken; /* under the lock: the thread runs; its work comes to nothing */
} weft_rebuilder_owner;

typedef struct weft_rebuilder {
    weft_rebuilder_owner owner;
    weft_image target, base; /* base: where a merge begins */
    weft_changes changes;
    uint64_t *discard; /* digests, by part */
} weft_rebuilder;

weft_status weft_rebuilder_open(weft_rebuilder *rebuilder, const weft_rebuilder_owner *owner);
/* Once the shadow has its runs; takes memory the first time only. */
weft_status weft_rebuilder_bind(weft_rebuilder *rebuilder, const weft_binding *shadow);
void weft_rebuilder_close(weft_rebuilder *rebuilder);
/* Bytes that it takes at open and bind, if all of them were touched. */
uint64_t weft_rebuilder_need(const weft_layout *layout);

/* Makes `target` hold the run of 2^shift units around `unit`, or a longer one, as it was after update `order`.
 * Errors: WEFT_E_BUDGET (a later version's frames are gone, or the work is broken off). */
weft_status weft_rebuild_target(weft_rebuilder *r, uint64_t order, uint64_t unit, uint32_t shift);
/* Makes `base` hold the same block as `target`, as it was after the earlier update `order`; no frame in between may
 * cross it. Errors: as above. */
weft_status weft_rebuild_base(weft_rebuilder *r, uint64_t order);
/* Makes `base` hold the same block as `target`, with all bits zero. */
void weft_rebuild_zeros(weft_rebuilder *r);
/* Its bits. */
uint8_t *weft_image_at(const weft_layout *layout, const weft_image *image, uint64_t unit);

/* Writes a unit as it was after update `order`, as a full frame of its bits, into the owner's frame. Errors: as above.
 */
weft_status weft_rebuild_frame(weft_rebuilder *r, uint64_t order, uint64_t unit, uint32_t *bytes);

#endif

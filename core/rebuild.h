/* rebuild.h - the bits of a version that is no longer the newest: the shadow's, less what later versions changed.
 *
 * On the bridge's thread, outside the lock; the shadow is copied unit by unit under it, never while a publish brings it
 * up to date. */
#ifndef WEFT_CORE_REBUILD_H
#define WEFT_CORE_REBUILD_H

#include "bridge.h"

typedef struct weft_rebuilder {
    uint8_t *dense; /* the units of one run */
    uint64_t dense_bytes;
    weft_binding moved; /* the shadow's runs, of which those of one run of units point to `dense` */
    weft_changes changes;
    uint64_t *discard; /* digests, by part */
} weft_rebuilder;

weft_status weft_rebuilder_open(weft_rebuilder *rebuilder, const weft_layout *layout);
/* Once the shadow has its runs; takes memory the first time only. */
weft_status weft_rebuilder_bind(weft_rebuilder *rebuilder, const weft_binding *shadow);
void weft_rebuilder_close(weft_rebuilder *rebuilder);

/* Makes `*bits` point to the dense elements of a unit as they were after update `order`, until the next call.
 * Errors: WEFT_E_BUDGET (a later version's frames are gone, or give that unit whole and not what changed, or versions
 * are published faster than they can be undone), WEFT_AGAIN (the work is broken off). */
weft_status weft_rebuild_unit(weft_bridge *bridge, uint64_t order, uint64_t unit, const uint8_t **bits);
/* The same as a full frame in bridge->frame. */
weft_status weft_rebuild_frame(weft_bridge *bridge, uint64_t order, uint64_t unit, uint32_t *bytes);

#endif

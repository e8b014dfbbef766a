/* bridge_repair.c - a repair as the bridge's thread makes it: units with absolute values. */
#include <string.h>

#include "base/status.h"
#include "peer/peer.h"
#include "peer/rebuild.h"

/* Appends the frame of one unit. On the bridge's thread, without the lock. */
static weft_status append_unit(weft_bridge *bridge, weft_update *update, uint64_t unit)
{
    uint32_t bytes;
    weft_status status = weft_rebuild_frame(bridge->rebuilder, update->order, unit, &bytes);
    if (status != WEFT_OK)
        return status;
    update->changed += bridge->publisher->session->layout->units[unit].count;
    return weft_bridge_append(bridge, update, WEFT_LEVEL_FULL, bridge->frame, bytes);
}

weft_status weft_repair_make(weft_bridge *bridge, weft_update *update, const weft_wire_repair *repair)
{
    weft_status status = WEFT_OK;
    weft_chain_begin(&update->chain[WEFT_LEVEL_FULL]);
    update->levels = 1u << WEFT_LEVEL_FULL;
    for (uint32_t i = 0; i < repair->count; i++)
        for (uint32_t n = 0; n < repair->range[i].units && status == WEFT_OK; n++) {
            status = append_unit(bridge, update, (uint64_t)repair->range[i].first + n);
            if (status == WEFT_OK)
                status = weft_bridge_pause(bridge);
        }
    return status;
}

/* update_invert.h - what an update file turned round shares with merged ones. */
#ifndef WEFT_CORE_UPDATE_INVERT_H
#define WEFT_CORE_UPDATE_INVERT_H

#include "update/update_chain.h"

/* Exchanges the base and the target of the new update. */
void weft_update_turn(weft_update_chain *chain);

/* ---- update_merge.c */

/* Codes the way back from the base and the update. */
weft_status weft_update_invert_bound(weft_update_file *update, const weft_layout *layout, const weft_piece *base,
                                     uint64_t base_count, weft_level level, const weft_update_attachment_of *attachment,
                                     const weft_work *work, const weft_sink *sink, weft_update_info *info);

#endif

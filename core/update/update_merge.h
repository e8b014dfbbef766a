/* update_merge.h - the two ways to make one update of several: weft_update_merge takes the one that fits. */
#ifndef WEFT_CORE_UPDATE_MERGE_H
#define WEFT_CORE_UPDATE_MERGE_H

#include "update/update_chain.h"

/* Without the base: `layout` NULL takes the updates' own, `level` NULL the one they can have. */
weft_status weft_update_merge_free(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                                   const char *level, const weft_work *work, const weft_sink *sink,
                                   weft_update_info *info);

#endif

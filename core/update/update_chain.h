/* update_chain.h - a chain of update files that follow each other, and the update that they merge into. Merging with a
 * base and merging without one share this. */
#ifndef WEFT_CORE_UPDATE_CHAIN_H
#define WEFT_CORE_UPDATE_CHAIN_H

#include "update/update_cursor.h"
#include "update/update_writer.h"

/* An attachment that the caller gives in place of the updates' own. */
typedef struct weft_update_attachment_of {
    const void *data;
    uint64_t bytes; /* 0: none */
} weft_update_attachment_of;

typedef struct weft_update_chain {
    weft_update_file *const *updates;
    size_t count;
    const weft_layout *layout;
    weft_update_cursor *cursors;                 /* cursors, one for each update */
    weft_wire_update header;                     /* header of the new update; open sets base, target and layout */
    const weft_update_attachment_of *attachment; /* attachment of the new update; NULL: the newest of the updates */
    weft_update_cells cells;                     /* cells of the new update; no model: the layout is not of cells */
    weft_update_writer writer;
} weft_update_chain;

/* Proves that the updates follow each other and belong to one layout, of which `layout` has the units.
 * Errors: WEFT_E_ARGUMENT, WEFT_E_LAYOUT, WEFT_E_MEMORY. */
weft_status weft_update_chain_open(weft_update_chain *chain, weft_update_file *const *updates, size_t count,
                                   const weft_layout *layout);
void weft_update_chain_close(weft_update_chain *chain);

/* Opens the cursors, at the first frames. Errors: WEFT_E_MEMORY. */
weft_status weft_update_chain_read(weft_update_chain *chain);
/* Checks every trailer after the last frame. */
weft_status weft_update_chain_end(const weft_update_chain *chain);

/* Writes the head, with the attachment. */
weft_status weft_update_chain_begin(weft_update_chain *chain, const weft_sink *sink);
/* Writes the sections after the frames. */
weft_status weft_update_chain_finish(weft_update_chain *chain, bool named, uint64_t changed);
void weft_update_chain_report(const weft_update_chain *chain, uint64_t changed, double diff_ms, double encode_ms,
                              weft_update_info *info);

/* ---- update_merge_free.c */

/* Merges without a base. `layout` NULL: the updates' own; `level` NULL: the level that they can have. */
weft_status weft_update_merge_free(weft_update_file *const *updates, size_t count, const weft_layout *layout,
                                   const char *level, const weft_work *work, const weft_sink *sink,
                                   weft_update_info *info);

#endif

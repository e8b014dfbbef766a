/* update_writer.h - writes an update file to a sink: begin, frames in order, finish. */
#ifndef WEFT_CORE_UPDATE_WRITER_H
#define WEFT_CORE_UPDATE_WRITER_H

#include "codec/planes.h"
#include "update/update_format.h"

typedef struct weft_update_writer {
    const weft_sink *sink;     /* sink, borrowed */
    weft_update_cells *cells;  /* cells that the layout is of, borrowed; NULL: the layout is not of cells */
    const weft_layout *layout; /* layout of the cells, borrowed */
    uint32_t share;            /* share that had the last frame */
    uint64_t bytes;            /* bytes written so far */
    uint8_t head[WEFT_HEAD_MAX];
    uint32_t head_bytes;
    uint8_t *packed; /* attachment, as it goes into the file */
    uint64_t packed_bytes;
    uint8_t *checks; /* checks, 8 bytes for each frame */
    uint64_t checks_capacity;
    weft_wire_trailer trailer; /* trailer, which counts frames and frame_bytes */
    weft_packer packer;
    uint8_t *frame; /* room for a packed frame; NULL: none was packed yet */
    double pack_ms;
} weft_update_writer;

/* Writes the head. Roots of `header` are left out, and its attachment fields are computed from the bytes. Errors: the
 * sink's, WEFT_E_MEMORY. */
weft_status weft_update_writer_begin(weft_update_writer *writer, const weft_sink *sink, const weft_wire_update *header,
                                     const void *attachment, uint64_t bytes);
/* Says that the layout is of cells, before the first frame. The shares count the frames, and go into the file. */
void weft_update_writer_divide(weft_update_writer *writer, const weft_layout *layout, weft_update_cells *cells);
/* Appends `bytes` bytes of whole frames, in order of their units. */
weft_status weft_update_writer_frames(weft_update_writer *writer, const uint8_t *frames, uint64_t bytes);
/* Appends one frame; a full frame is packed in planes if that is shorter. */
weft_status weft_update_writer_frame(weft_update_writer *writer, const weft_layout *layout, const uint8_t *frame,
                                     uint32_t bytes);
/* Writes the sections after the frames. `layout` is the update's, or made from a grid (`named` false). Errors: the
 * sink's, WEFT_E_MEMORY, WEFT_E_LAYOUT (cells, and the names of their model take too much room). */
weft_status weft_update_writer_finish(weft_update_writer *writer, const weft_layout *layout, bool named,
                                      uint64_t base_root, const weft_version *target, uint64_t changed);
void weft_update_writer_close(weft_update_writer *writer);

#endif

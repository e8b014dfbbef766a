/* update_writer.h - an update as bytes for a sink: begin, frames in order, finish. */
#ifndef WEFT_CORE_UPDATE_WRITER_H
#define WEFT_CORE_UPDATE_WRITER_H

#include "codec/planes.h"
#include "update/update_format.h"

typedef struct weft_update_writer {
    const weft_sink *sink; /* borrowed */
    uint64_t bytes;        /* written so far */
    uint8_t head[WEFT_HEAD_MAX];
    uint32_t head_bytes;
    uint8_t *packed; /* the attachment as it goes into the file */
    uint64_t packed_bytes;
    uint8_t *checks; /* 8 bytes a frame */
    uint64_t checks_capacity;
    weft_wire_trailer trailer; /* frames and frame_bytes are kept here */
    weft_packer packer;
    uint8_t *frame; /* one that is packed; NULL: none was yet */
    double pack_ms;
} weft_update_writer;

/* Writes the head. Roots in `header` are left out, what it says of the attachment is made from its bytes.
 * Errors: the sink's, WEFT_E_MEMORY. */
weft_status weft_update_writer_begin(weft_update_writer *writer, const weft_sink *sink, const weft_wire_update *header,
                                     const void *attachment, uint64_t bytes);
/* Appends `bytes` bytes of whole frames, in order of their units. */
weft_status weft_update_writer_frames(weft_update_writer *writer, const uint8_t *frames, uint64_t bytes);
/* Appends one frame; a full one is packed in planes where that pays. */
weft_status weft_update_writer_frame(weft_update_writer *writer, const weft_layout *layout, const uint8_t *frame,
                                     uint32_t bytes);
/* Writes what is behind the frames. `layout` as the update's, or made from a grid (`named` false). */
weft_status weft_update_writer_finish(weft_update_writer *writer, const weft_layout *layout, bool named,
                                      uint64_t base_root, const weft_version *target, uint64_t changed);
void weft_update_writer_close(weft_update_writer *writer);

#endif

/* reseal.h - checks made right, of an update file that is wrong otherwise. */
#ifndef WEFT_TESTS_RESEAL_H
#define WEFT_TESTS_RESEAL_H

#include "base/bytes.h"
#include "codec/frame.h"
#include "update/update_format.h"
#include "wire/wire.h"

static inline void reseal(uint8_t *data, uint64_t bytes)
{
    weft_update_tail tail;
    weft_wire_trailer trailer;
    uint64_t frames_at = weft_frame_pad(128 + 2 * weft_bytes_get(data + 110, 2));
    uint8_t *end = data + bytes - WEFT_TAIL_BYTES - WEFT_UPDATE_TRAILER_BYTES;
    weft_update_tail_get(end, &tail);
    if (weft_wire_get_trailer(end + WEFT_TAIL_BYTES, WEFT_UPDATE_TRAILER_BYTES, &trailer) != WEFT_OK)
        return;
    uint64_t told = frames_at + trailer.frame_bytes;
    if (trailer.frame_bytes > bytes || trailer.frames > bytes / 8 ||
        told + tail.shape_bytes + tail.packed_bytes + 8 * trailer.frames != (uint64_t)(end - data))
        return;
    uint8_t *shape = data + told, *checks = shape + tail.shape_bytes + tail.packed_bytes;
    uint64_t at = frames_at, length, number = 0;
    for (; at < told && number < trailer.frames && (length = weft_frame_measure(data + at, told - at)); at += length)
        weft_bytes_put(checks + 8 * number++, weft_frame_check(data + at, length), 8);
    weft_update_sections sections = {.head = data,
                                     .head_bytes = frames_at,
                                     .shape = shape,
                                     .shape_bytes = tail.shape_bytes,
                                     .packed = shape + tail.shape_bytes,
                                     .packed_bytes = tail.packed_bytes,
                                     .checks = checks,
                                     .checks_bytes = 8 * trailer.frames,
                                     .tail = end,
                                     .trailer = end + WEFT_TAIL_BYTES};
    tail.check = weft_update_check(&sections);
    weft_update_tail_put(end, &tail);
}

#endif

/* host_payload.c - the ends of planes, checked. */
#include "backends/host/host_payload.h"

#include "base/status.h"
#include "codec/frame.h"

weft_status weft_host_unary_short(uint32_t unit, const weft_bit_source *source)
{
    return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: the unary plane runs past the payload's %llu bytes", unit,
                     (unsigned long long)source->bytes);
}

weft_status weft_host_magnitudes_find(uint32_t unit, const weft_bit_source *source, const weft_bit_walker *unary,
                                      uint64_t count, uint64_t *magnitudes)
{
    weft_bit_walker walker = *unary;
    if (!weft_bits_skip(&walker, count))
        return weft_host_unary_short(unit, source);
    if (!weft_bits_tail_clear(source, walker.last))
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: ones after the unary plane's last number", unit);
    *magnitudes = (walker.last + 7) / 8 * 8;
    return WEFT_OK;
}

weft_status weft_host_payload_end(uint32_t unit, const weft_bit_source *source, uint64_t first, uint64_t second,
                                  uint64_t magnitudes)
{
    uint64_t used = (magnitudes + 7) / 8;
    bool clear = weft_bits_tail_clear(source, first) && weft_bits_tail_clear(source, second) &&
                 weft_bits_tail_clear(source, magnitudes);
    if (weft_frame_pad(used) != source->bytes)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: the planes end at byte %llu of a payload of %llu", unit,
                         (unsigned long long)used, (unsigned long long)source->bytes);
    for (uint64_t i = used; i < source->bytes; i++)
        clear = clear && source->data[i] == 0;
    if (!clear)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: padding that is not zero", unit);
    return WEFT_OK;
}

/* update_number.h - numbers of an update file's shape: seven bits a byte, lowest first, the top bit set in all but the
 * last. */
#ifndef WEFT_CORE_UPDATE_NUMBER_H
#define WEFT_CORE_UPDATE_NUMBER_H

#include "base/bytes.h"

static inline void weft_number_put(weft_out *out, uint64_t value)
{
    for (; value >> 7; value >>= 7)
        weft_out_word(out, (value & 0x7f) | 0x80, 1);
    weft_out_word(out, value, 1);
}

static inline uint64_t weft_number_get(weft_in *in)
{
    uint64_t value = 0;
    for (uint32_t shift = 0;; shift += 7) {
        uint64_t byte = weft_in_word(in, 1);
        in->bad = in->bad || (shift == 63 && byte > 1) || (shift > 0 && byte == 0); /* beyond 64 bits; a useless zero */
        if (in->bad)
            return 0;
        value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

#endif

/* rice.h - Golomb-Rice codes, bit by bit: as plain as a yardstick may be. */
#ifndef WEFT_BENCH_CODEC_RICE_H
#define WEFT_BENCH_CODEC_RICE_H

#include <stdint.h>

typedef struct bits {
    uint8_t *data;
    uint64_t at;
} bits;

static inline void bit_put(bits *out, unsigned bit)
{
    if (out->at % 8 == 0)
        out->data[out->at / 8] = 0;
    out->data[out->at / 8] |= (uint8_t)(bit << out->at % 8);
    out->at++;
}

static inline unsigned bit_get(bits *in)
{
    unsigned bit = in->data[in->at / 8] >> in->at % 8 & 1;
    in->at++;
    return bit;
}

static inline void rice_put(bits *out, uint32_t value, unsigned low)
{
    for (uint32_t i = value >> low; i > 0; i--)
        bit_put(out, 1);
    bit_put(out, 0);
    for (unsigned i = 0; i < low; i++)
        bit_put(out, value >> i & 1);
}

static inline uint32_t rice_get(bits *in, unsigned low)
{
    uint32_t high = 0, value = 0;
    while (bit_get(in))
        high++;
    for (unsigned i = 0; i < low; i++)
        value |= (uint32_t)bit_get(in) << i;
    return high << low | value;
}

/* The parameter with the fewest bits. */
static inline uint8_t rice_best(const uint32_t *values, uint64_t count)
{
    uint64_t least = UINT64_MAX;
    uint8_t best = 0;
    for (unsigned low = 0; low < 32; low++) {
        uint64_t size = count * (low + 1);
        for (uint64_t i = 0; i < count; i++)
            size += values[i] >> low;
        if (size < least) {
            least = size;
            best = (uint8_t)low;
        }
    }
    return best;
}

#endif

/* cast_world.h - a master of F32 for each tensor of BF16 and F16 in a layout, in blocks of every storage that are read
 * through the cast; and the mirror that a trainer without the cast would keep. The rules are written here by values,
 * and not by bits. */
#ifndef WEFT_TESTS_CAST_WORLD_H
#define WEFT_TESTS_CAST_WORLD_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/block_world.h"
#include "tests/support/unit_pair.h"

#define CAST_TENSORS 32

typedef struct cast_world {
    const weft_layout *layout; /* borrowed */
    weft_layout *master;       /* the same tensors, with F32 in place of what is cast */
    uint8_t *dense;            /* the master's tensors, in their order */
    block_world world;         /* the same bits in blocks that fit `layout` */
} cast_world;

static inline bool cast_is(weft_dtype dtype)
{
    return weft_cast_find(WEFT_F32, dtype) != WEFT_CAST_NONE;
}

static inline double cast_value(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return isinf(value) ? copysign(ldexp(1, 128), value) : value;
}

/* The nearer of the two neighbours, of two as near the even one. */
static inline uint16_t cast_rule_bf16(uint32_t bits)
{
    const uint32_t low = bits & 0xffff0000u, high = low + 0x10000u;
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fc0;
    if (bits == low)
        return (uint16_t)(low >> 16);
    const double down = fabs(cast_value(bits) - cast_value(low)), up = fabs(cast_value(high) - cast_value(bits));
    const bool take_high = up < down || (up == down && (low >> 16) % 2 == 1);
    return (uint16_t)((take_high ? high : low) >> 16);
}

/* So many steps of the exponent's size, rounded as C's rint does: to nearest, ties to even. */
static inline uint16_t cast_rule_f16(uint32_t bits)
{
    const double value = fabs(cast_value(bits));
    const uint16_t sign = bits >> 31 ? 0x8000 : 0;
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7e00;
    const int exponent = value < ldexp(1, -14) ? -14 : ilogb(value);
    const double steps = rint(ldexp(value, 10 - exponent)), number = ldexp(exponent + 14, 10) + steps;
    return sign | (number < 0x7c00 ? (uint16_t)number : 0x7c00);
}

static inline uint16_t cast_rule(weft_dtype dtype, uint32_t bits)
{
    return dtype == WEFT_F16 ? cast_rule_f16(bits) : cast_rule_bf16(bits);
}

/* The value of an F16 that is finite. */
static inline float cast_half_value(uint32_t half)
{
    const int exponent = half >> 10 & 31, least = exponent ? exponent : 1;
    return (float)ldexp((half & 0x3ff) + (exponent ? 0x400 : 0), least - 25);
}

/* Bits at and beside ties of F16 and its values, and any bits. */
static inline uint32_t cast_bits_f16(uint64_t *seed)
{
    const uint32_t half = (uint32_t)pair_below(seed, 0x7bff), sign = (uint32_t)pair_below(seed, 2) << 31;
    const float low = cast_half_value(half), high = cast_half_value(half + 1), tie = low + (high - low) / 2;
    const uint64_t which = pair_below(seed, 6);
    uint32_t bits;
    memcpy(&bits, which ? &tie : &low, sizeof bits);
    return which > 3 ? (uint32_t)pair_random(seed) : sign | (bits + (which == 2) - (which == 3));
}

/* Bits at and beside ties, above every BF16 that is special. */
static inline uint32_t cast_bits_bf16(uint64_t *seed)
{
    static const uint16_t lows[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    const uint32_t high = (uint32_t)pair_bits(seed, weft_dtype_find(WEFT_BF16)) << 16;
    const uint64_t low = pair_below(seed, 8);
    return high | (low < 6 ? lows[low] : (uint16_t)pair_random(seed));
}

static inline uint32_t cast_bits(weft_dtype dtype, uint64_t *seed)
{
    return dtype == WEFT_F16 ? cast_bits_f16(seed) : cast_bits_bf16(seed);
}

/* Writes the mirror: an image, or the tensors in their order. */
static inline void cast_mirror(const cast_world *w, uint8_t *mirror, bool image)
{
    const uint8_t *from = w->dense;
    uint64_t at = 0;
    for (uint64_t t = 0; t < w->layout->count; t++) {
        const weft_layout_entry *entry = &w->layout->entries[t];
        uint8_t *to = mirror + (image ? entry->offset : at);
        if (cast_is(entry->row->dtype))
            for (uint64_t i = 0; i < entry->elements; i++)
                pair_put(to, i, cast_rule(entry->row->dtype, (uint32_t)pair_get(from, i, 4)), 2);
        else
            memcpy(to, from, entry->bytes);
        at += entry->bytes;
        from += w->master->entries[t].bytes;
    }
}

/* Gives about `per_mille` of the elements other bits: most move by less than their mirror can tell, or by a little
 * more.
 */
static inline void cast_change(cast_world *w, uint64_t *seed, uint64_t per_mille)
{
    uint8_t *tensor = w->dense;
    for (uint64_t t = 0; t < w->layout->count; t++) {
        const weft_layout_entry *entry = &w->master->entries[t];
        const weft_dtype dtype = w->layout->entries[t].row->dtype;
        const uint32_t place = dtype == WEFT_F16 ? 1u << 13 : 1u << 16; /* of a normal number's last bit */
        const bool cast = cast_is(dtype);
        for (uint64_t i = 0; i < entry->coded; i++) {
            if (pair_below(seed, 1000) >= per_mille)
                continue;
            uint64_t bits = pair_get(tensor, i, entry->row->width);
            if (cast && pair_below(seed, 4))
                bits += pair_below(seed, place / 2 * 3) - place / 4 * 3;
            else
                bits = cast ? cast_bits(dtype, seed) : pair_bits(seed, entry->row);
            pair_put(tensor, i, bits, entry->row->width);
        }
        tensor += entry->bytes;
    }
    block_world_put(&w->world, w->dense);
}

static inline void cast_world_open(cast_world *w, const weft_layout *layout, uint64_t *seed)
{
    weft_tensor tensors[CAST_TENSORS];
    *w = (cast_world){.layout = layout};
    for (uint64_t t = 0; t < layout->count; t++) {
        tensors[t] = layout->entries[t].tensor;
        if (cast_is(tensors[t].dtype))
            tensors[t].dtype = WEFT_F32;
    }
    pair_must(weft_layout_create(tensors, layout->count, &w->master), "layout of the master");
    w->dense = pair_memory(w->master->bytes);
    block_world_open(&w->world, w->master, pair_random(seed), false);
    for (uint64_t b = 0; b < w->world.count; b++)
        if (cast_is(layout->entries[w->world.blocks[b].slice.tensor].row->dtype))
            w->world.blocks[b].memory = WEFT_F32;
    cast_change(w, seed, 1000);
}

static inline void cast_world_close(cast_world *w)
{
    block_world_close(&w->world);
    weft_layout_free(w->master);
    free(w->dense);
}

#endif

#include "update/update_format.h"

#include <xxhash.h>

#define WHOLE       (UINT32_C(1) << 31)
#define DIVIDED     (UINT32_C(1) << 30)
#define CHECK_BYTES 8u
#define CELLS       2u /* place among the sections */

void weft_update_tail_put(uint8_t out[WEFT_TAIL_BYTES], const weft_update_tail *tail)
{
    weft_bytes_put(out, tail->base_root, 8);
    weft_bytes_put(out + 8, tail->shape_bytes | (tail->whole ? WHOLE : 0) | (tail->divided ? DIVIDED : 0), 4);
    weft_bytes_put(out + 12, tail->packed_bytes, 4);
    weft_bytes_put(out + 16, tail->check, CHECK_BYTES);
}

void weft_update_tail_get(const uint8_t in[WEFT_TAIL_BYTES], weft_update_tail *tail)
{
    uint32_t shape = (uint32_t)weft_bytes_get(in + 8, 4);
    tail->base_root = weft_bytes_get(in, 8);
    tail->shape_bytes = shape & ~(WHOLE | DIVIDED);
    tail->whole = shape & WHOLE;
    tail->divided = shape & DIVIDED;
    tail->packed_bytes = (uint32_t)weft_bytes_get(in + 12, 4);
    tail->check = weft_bytes_get(in + 16, CHECK_BYTES);
}

uint64_t weft_update_check(const weft_update_sections *sections)
{
    const struct {
        const uint8_t *data;
        uint64_t bytes;
    } parts[] = {
        {sections->head, sections->head_bytes},         {sections->shape, sections->shape_bytes},
        {sections->cells, sections->cells_bytes},       {sections->packed, sections->packed_bytes},
        {sections->checks, sections->checks_bytes},     {sections->tail, WEFT_TAIL_BYTES - CHECK_BYTES},
        {sections->trailer, WEFT_UPDATE_TRAILER_BYTES},
    };
    uint8_t checks[sizeof parts / sizeof *parts][8];
    size_t count = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (i != CELLS || parts[i].bytes)
            weft_bytes_put(checks[count++], XXH3_64bits(parts[i].data, parts[i].bytes), 8);
    return XXH3_64bits(checks, count * sizeof *checks);
}

/* update_pack.c - zstd at its densest, or the bytes as they are. */
#include "update_pack.h"

#include <string.h>
#include <zstd.h>

#include "codec/packed.h"
#include "mem.h"
#include "status.h"

#define LEVEL 19 /* a few hundred KB at most: density is all that counts */

typedef unsigned long long ull;

weft_status weft_update_pack(const void *plain, uint64_t bytes, uint8_t **packed, uint64_t *packed_bytes)
{
    uint8_t *made = weft_mem_take(bytes ? bytes : 1, 1);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory to pack %llu bytes", (ull)bytes);
    size_t used = ZSTD_compress(made, bytes, plain, bytes, LEVEL); /* fails where it would not shrink */
    if (ZSTD_isError(used) || used >= bytes) {
        memcpy(made, plain, bytes);
        used = bytes;
    }
    *packed = made;
    *packed_bytes = used;
    return WEFT_OK;
}

weft_status weft_update_unpack(const uint8_t *packed, uint64_t packed_bytes, uint64_t bytes, uint8_t **plain)
{
    uint8_t *made = weft_mem_take(bytes ? bytes : 1, 1);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory to unpack %llu bytes", (ull)bytes);
    bool unpacked = packed_bytes == bytes;
    if (unpacked && bytes > 0)
        memcpy(made, packed, bytes);
    else if (packed_bytes < bytes)
        unpacked = weft_packed_is_one(packed, packed_bytes, bytes) &&
                   ZSTD_decompress(made, bytes, packed, packed_bytes) == bytes;
    if (!unpacked) {
        weft_mem_give(made);
        return weft_fail(WEFT_E_CORRUPT, "update file: %llu packed bytes do not unpack to %llu", (ull)packed_bytes,
                         (ull)bytes);
    }
    *plain = made;
    return WEFT_OK;
}

weft_status weft_update_unpacked(const uint8_t *packed, uint64_t packed_bytes, uint64_t most, uint64_t *bytes)
{
    unsigned long long size = ZSTD_getFrameContentSize(packed, packed_bytes);
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > most || size <= packed_bytes)
        return weft_fail(WEFT_E_CORRUPT, "update file: its layout of %llu packed bytes is none", (ull)packed_bytes);
    *bytes = size;
    return WEFT_OK;
}

/* update_pack.c - packs with zstd, at its densest level if that is quick, or copies the bytes. */
#include "update/update_pack.h"

#include <string.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/status.h"
#include "codec/packed.h"

#define DENSE_MOST (UINT64_C(1) << 20) /* bytes up to which density is all that counts */

/* The densest level takes seconds a MB, in which nothing asks whether the work is still wanted. Readers know no level.
 */
static int level_for(uint64_t bytes)
{
    return bytes <= DENSE_MOST ? 19 : 3;
}

typedef unsigned long long ull;

weft_status weft_update_pack(const void *plain, uint64_t bytes, uint8_t **packed, uint64_t *packed_bytes)
{
    uint8_t *made = weft_mem_take(bytes ? bytes : 1, 1);
    if (!made)
        return weft_fail(WEFT_E_MEMORY, "no memory to pack %llu bytes", (ull)bytes);
    size_t used = ZSTD_compress(made, bytes, plain, bytes, level_for(bytes)); /* fails where it would not shrink */
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
        return weft_fail(WEFT_E_CORRUPT, "update file: its layout of %llu packed bytes is invalid", (ull)packed_bytes);
    *bytes = size;
    return WEFT_OK;
}

/* packed.c - zstd's library takes more than a frame: several of them, ones of older formats, ones to be skipped. */
#define ZSTD_STATIC_LINKING_ONLY /* the magic number */
#include "codec/packed.h"

#include <zstd.h>

#include "base/bytes.h"

#define MAGIC_BYTES     4u
#define DICTIONARY_FLAG 3u /* of the byte after the magic number */

bool weft_packed_is_one(const uint8_t *packed, uint64_t bytes, uint64_t holds)
{
    return bytes > MAGIC_BYTES && weft_bytes_get(packed, MAGIC_BYTES) == ZSTD_MAGICNUMBER &&
           (packed[MAGIC_BYTES] & DICTIONARY_FLAG) == 0 && ZSTD_getFrameContentSize(packed, bytes) == holds &&
           ZSTD_findFrameCompressedSize(packed, bytes) == bytes;
}

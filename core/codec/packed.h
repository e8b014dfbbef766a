/* packed.h - which bytes of zstd the wire takes. */
#ifndef WEFT_CORE_CODEC_PACKED_H
#define WEFT_CORE_CODEC_PACKED_H

#include <stdbool.h>
#include <stdint.h>

/* Whether they are, from the first to the last, one frame of RFC 8878 that needs no dictionary and says that it holds
 * `holds` bytes. Whether it does shows when it is unpacked. */
bool weft_packed_is_one(const uint8_t *packed, uint64_t bytes, uint64_t holds);

#endif

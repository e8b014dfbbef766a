/* update_pack.h - byte strings with repetitions (headers, names), packed with zstd. */
#ifndef WEFT_CORE_UPDATE_PACK_H
#define WEFT_CORE_UPDATE_PACK_H

#include "weft.h"

/* Packs bytes. Bytes that would not shrink are copied, and the equal length shows it. *packed comes from weft_mem_take.
 * Errors: WEFT_E_MEMORY. */
weft_status weft_update_pack(const void *plain, uint64_t bytes, uint8_t **packed, uint64_t *packed_bytes);

/* Unpacks to exactly `bytes` bytes; *plain comes from weft_mem_take. Errors: WEFT_E_CORRUPT, WEFT_E_MEMORY. */
weft_status weft_update_unpack(const uint8_t *packed, uint64_t packed_bytes, uint64_t bytes, uint8_t **plain);

/* Returns the unpacked length that a packed string claims, at most `most`. Errors: WEFT_E_CORRUPT. */
weft_status weft_update_unpacked(const uint8_t *packed, uint64_t packed_bytes, uint64_t most, uint64_t *bytes);

#endif

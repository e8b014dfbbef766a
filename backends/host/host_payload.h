/* host_payload.h - what the planes of levels fast and tight have in common at their ends. Errors: WEFT_E_CORRUPT. */
#ifndef WEFT_BACKENDS_HOST_PAYLOAD_H
#define WEFT_BACKENDS_HOST_PAYLOAD_H

#include "backends/host/host_bits.h"
#include "weft.h"

/* Says that the unary plane has fewer numbers than the frame needs. */
weft_status weft_host_unary_short(uint32_t unit, const weft_bit_source *source);

/* Where the magnitudes begin, as a bit: after the byte that holds the last of `count` more unary ones. */
weft_status weft_host_magnitudes_find(uint32_t unit, const weft_bit_source *source, const weft_bit_walker *unary,
                                      uint64_t count, uint64_t *magnitudes);

/* The last bits of two planes and of the magnitudes, which end at these bits, and everything after are zero, and the
 * payload ends there, padded. */
weft_status weft_host_payload_end(uint32_t unit, const weft_bit_source *source, uint64_t first, uint64_t second,
                                  uint64_t magnitudes);

#endif

/* planes.h - full frames in byte planes: how every element of a unit is packed, for snapshots and dense updates.
 *
 * A unit's words are split into planes, one for each byte of the word. First the sign goes to the lowest bit: floats
 * are rotated left by one bit, so that an exponent of eight bits fills a byte of its own, and steps are folded, so that
 * small ones of either direction have zeros above. Exponents and small steps are far from random, and zstd packs them;
 * mantissas stay as they are. This is the one coding whose bytes are no pure function of the weights, because zstd's
 * bytes depend on its version: the decoding is the law.
 *
 * Packer and unpacker take all their memory at open; each serves one thread at a time. */
#ifndef WEFT_CORE_CODEC_PLANES_H
#define WEFT_CORE_CODEC_PLANES_H

#include "base/mem.h"
#include "codec/frame.h"

typedef struct weft_packer {
    uint64_t bytes; /* of memory, taken at open */
    void *memory;   /* the context's */
    void *context;  /* of zstd */
    uint8_t *split;
} weft_packer;

typedef struct weft_unpacker {
    uint64_t bytes;
    void *memory;
    void *context;
    uint8_t *split;
    uint8_t *dense;
} weft_unpacker;

/* Errors: WEFT_E_MEMORY, WEFT_E_MISSING (this host's zstd lacks what is needed). */
weft_status weft_packer_open(weft_packer *packer);
void weft_packer_close(weft_packer *packer);
weft_mem_list weft_packer_memory(weft_packer *packer);

/* Errors: WEFT_E_MEMORY. */
weft_status weft_unpacker_open(weft_unpacker *unpacker);
void weft_unpacker_close(weft_unpacker *unpacker);
uint64_t weft_unpacker_need(void);

/* Packs in place the verbatim `full` frame of `unit` at `frame`, of new bits or of steps, which this process made, and
 * returns the bytes it has now. A frame that would not become smaller is left as it is. */
uint32_t weft_planes_pack(weft_packer *packer, const weft_unit *unit, uint8_t *frame);

/* weft_frame_admit for readers that can unpack: a full frame with planes comes out as the verbatim frame it stands for,
 * its payload, new bits or steps, in the unpacker's memory until the next call. `length` is what the frame takes at
 * `bytes`; written on WEFT_OK only, as is `frame`. Errors: WEFT_E_CORRUPT with the values. */
weft_status weft_planes_admit(weft_unpacker *unpacker, const weft_layout *layout, const uint8_t *bytes,
                              uint64_t available, weft_frame *frame, uint64_t *length);

#endif

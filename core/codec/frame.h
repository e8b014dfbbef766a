/* frame.h - the law of frames: header, levels, plane offsets, parameter rules on counts, validation.
 * No loop over elements lives here: those are the backends'. Bytes are in docs/WIRE_FORMAT.md. */
#ifndef WEFT_CORE_CODEC_FRAME_H
#define WEFT_CORE_CODEC_FRAME_H

#include "layout/layout.h"

/* How a frame is coded. The numbers are on the wire. */
typedef enum weft_level {
    WEFT_LEVEL_FULL = 0,  /* every element: new bits, or steps where level fast or tight would not be smaller */
    WEFT_LEVEL_PAIRS = 1, /* u32 position + value */
    WEFT_LEVEL_FAST = 2,  /* Rice-coded gaps, directions, magnitudes: base-free */
    WEFT_LEVEL_TIGHT = 3  /* positions by class of the old exponent: decoding reads the base */
} weft_level;
#define WEFT_LEVEL_COUNT 4

const char *weft_level_name(weft_level level);
/* Errors: WEFT_E_ARGUMENT (unknown name). */
weft_status weft_level_by_name(const char *name, weft_level *level);

static inline uint64_t weft_frame_pad(uint64_t bytes)
{
    return (bytes + (WEFT_FRAME_ALIGN - 1)) & ~(uint64_t)(WEFT_FRAME_ALIGN - 1);
}

/* Payload of a `full` frame of `count` elements and of a `pairs` frame of `changed` ones. */
static inline uint64_t weft_frame_full_payload(uint32_t count, uint8_t width)
{
    return weft_frame_pad((uint64_t)count * width);
}

static inline uint64_t weft_frame_pairs_payload(uint32_t changed, uint8_t width)
{
    return weft_frame_pad((uint64_t)changed * (4u + width));
}

/* A frame of several units codes at most so many changes and is no larger than the layout's largest frame of one unit;
 * what exceeds that is coded unit by unit. */
#define WEFT_FRAME_RUN_CHANGES (1u << 16)

/* A frame's header, read but not yet believed. */
typedef struct weft_frame_header {
    uint32_t unit;  /* first unit coded */
    uint32_t units; /* units of one stretch coded; 1 for full and pairs */
    weft_level level;
    uint32_t payload_bytes; /* after the header, padding included */
    uint32_t changed;       /* elements coded */
    uint32_t parameters;    /* the level's */
} weft_frame_header;

/* Parameters word of a `full` frame. New bits need no base: snapshots and repairs have them. Steps are the differences
 * of level fast: updates have them, because steps add up and can be undone. */
#define WEFT_FULL_BITS        0u /* new bits, as words */
#define WEFT_FULL_PLANES      1u /* new bits, in byte planes: see planes.h */
#define WEFT_FULL_STEP_PLANES 2u /* steps, in byte planes */
#define WEFT_FULL_STEPS       3u /* steps, as words */

static inline bool weft_frame_has_planes(const weft_frame_header *header)
{
    return header->level == WEFT_LEVEL_FULL &&
           (header->parameters == WEFT_FULL_PLANES || header->parameters == WEFT_FULL_STEP_PLANES);
}

/* Whether a `full` frame has steps, and not new bits. */
static inline bool weft_frame_has_full_steps(const weft_frame_header *header)
{
    return header->level == WEFT_LEVEL_FULL &&
           (header->parameters == WEFT_FULL_STEPS || header->parameters == WEFT_FULL_STEP_PLANES);
}

/* A frame whose header, lengths and counts were checked against the layout; payload not yet decoded. Only
 * weft_frame_admit makes one. */
typedef struct weft_frame {
    weft_frame_header header;
    uint32_t count; /* coded elements of its units */
    const uint8_t *payload;
} weft_frame;

/* Reads the header of a frame that was written here, or was admitted. */
void weft_frame_read_header(const uint8_t *bytes, weft_frame_header *header);
void weft_frame_write_header(uint8_t *out, const weft_frame_header *header);

/* Total bytes of the frame that begins at `bytes`, so that a walker can step; 0 if the header is no header or the
 * frame does not fit `available`. */
uint64_t weft_frame_measure(const uint8_t *bytes, uint64_t available);

/* Reads and checks the frame at `bytes` (private memory!), which may be any but a full one with planes: those are for
 * weft_planes_admit. Errors: WEFT_E_CORRUPT with the values. */
weft_status weft_frame_admit(const weft_layout *layout, const uint8_t *bytes, uint64_t available, weft_frame *frame);

/* For planes.c alone: takes full frames with planes too, of which only the payload's size is checked. */
weft_status weft_frame_admit_packed(const weft_layout *layout, const uint8_t *bytes, uint64_t available,
                                    weft_frame *frame);

/* The check of one frame: xxh3-64 over header and payload. */
uint64_t weft_frame_check(const uint8_t *frame, uint64_t bytes);

#endif

/* planes.c - reads the frames of an update and sums up its bits by what they are for (docs/WIRE_FORMAT.md). */
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "bench/codec/codec.h"
#include "codec/fast.h"
#include "codec/tight.h"
#include "layout/layout.h"

#define HEAD_BYTES    128u
#define HEAD_WORDS_AT 110u /* u16: how many parameter words follow the header */
#define CHECK_BYTES   8u
#define WORD_BITS     16u

const char *weft_bench_plane_name(weft_bench_plane plane)
{
    static const char *const names[WEFT_BENCH_PLANES] = {
        [WEFT_BENCH_HEADERS] = "frame headers", [WEFT_BENCH_LISTS] = "list descriptors",
        [WEFT_BENCH_POSITIONS] = "positions",   [WEFT_BENCH_DIRECTIONS] = "directions",
        [WEFT_BENCH_EXCEPTIONS] = "exceptions", [WEFT_BENCH_MAGNITUDES] = "magnitudes",
        [WEFT_BENCH_PADDING] = "padding",       [WEFT_BENCH_DENSE] = "full and pairs",
        [WEFT_BENCH_CHECKS] = "checks",         [WEFT_BENCH_REST] = "header, tail, trailer",
    };
    return names[plane];
}

/* A plane of unary numbers, each so many zeros and a one. */
typedef struct unary {
    const uint8_t *data;
    uint64_t bit, end;
} unary;

/* Passes `count` numbers; returns their bits. */
static uint64_t unary_pass(unary *plane, uint64_t count)
{
    uint64_t begin = plane->bit;
    for (; count > 0 && plane->bit < plane->end; plane->bit++)
        count -= plane->data[plane->bit / 8] >> (plane->bit % 8) & 1;
    return plane->bit - begin;
}

static weft_status tight_count(const weft_frame *frame, uint64_t bits[WEFT_BENCH_PLANES])
{
    weft_tight_shape shape;
    const uint64_t payload = 8 * (uint64_t)frame->header.payload_bytes;
    weft_status status = weft_tight_shape_read(&frame->header, frame->payload, WEFT_CLASS_MAX, &shape);
    if (status != WEFT_OK)
        return status;
    const uint64_t first = 8 * weft_tight_unary_offset(&shape), lists = 8 * weft_tight_lists_bytes(&shape);
    unary plane = {frame->payload, first, payload};
    for (uint32_t i = 0; i < WEFT_TIGHT_LISTS; i++) {
        const weft_tight_list *list = weft_tight_list_at(&shape, i);
        weft_bench_plane kind = i < WEFT_CLASS_MAX ? WEFT_BENCH_POSITIONS : WEFT_BENCH_EXCEPTIONS;
        bits[kind] += (uint64_t)list->members * list->low_bits + unary_pass(&plane, list->members);
    }
    bits[WEFT_BENCH_LISTS] += lists;
    bits[WEFT_BENCH_DIRECTIONS] += shape.changed;
    bits[WEFT_BENCH_PADDING] += first - lists - shape.changed - weft_tight_low_bits(&shape);
    bits[WEFT_BENCH_MAGNITUDES] += payload - plane.bit;
    return WEFT_OK;
}

static weft_status fast_count(const weft_frame *frame, uint8_t width, uint64_t bits[WEFT_BENCH_PLANES])
{
    weft_fast_shape shape;
    weft_status status = weft_fast_shape_read(&frame->header, frame->count, width, &shape);
    if (status != WEFT_OK)
        return status;
    const uint64_t first = 8 * weft_fast_unary_offset(&shape), m = shape.changed, e = shape.exceptions;
    const uint64_t ranks = e * shape.rank_bits;
    unary plane = {frame->payload, first, 8 * (uint64_t)frame->header.payload_bytes};
    bits[WEFT_BENCH_DIRECTIONS] += m;
    bits[WEFT_BENCH_POSITIONS] += m * shape.gap_bits + unary_pass(&plane, m);
    bits[WEFT_BENCH_EXCEPTIONS] += ranks;
    bits[WEFT_BENCH_PADDING] += first - m * (shape.gap_bits + 1) - ranks;
    for (uint64_t i = 0; i < e; i++) {
        bits[WEFT_BENCH_EXCEPTIONS] += unary_pass(&plane, 1);
        bits[WEFT_BENCH_MAGNITUDES] += unary_pass(&plane, 1);
    }
    bits[WEFT_BENCH_MAGNITUDES] += plane.end - plane.bit;
    return WEFT_OK;
}

static weft_status frame_count(const weft_layout *layout, const uint8_t *bytes, uint64_t length,
                               uint64_t bits[WEFT_BENCH_PLANES])
{
    weft_frame frame;
    bits[WEFT_BENCH_HEADERS] += 8 * WEFT_FRAME_HEADER_BYTES;
    if ((bytes[7] & 0x0f) < WEFT_LEVEL_FAST) { /* as the header has it: full ones may be packed, and are one plane */
        bits[WEFT_BENCH_DENSE] += 8 * (length - WEFT_FRAME_HEADER_BYTES);
        return WEFT_OK;
    }
    weft_status status = weft_frame_admit(layout, bytes, length, &frame);
    if (status == WEFT_OK && frame.header.level == WEFT_LEVEL_TIGHT)
        return tight_count(&frame, bits);
    return status == WEFT_OK ? fast_count(&frame, layout->units[frame.header.unit].width, bits) : status;
}

weft_status weft_bench_planes_count(const weft_bench_bytes *file, const weft_layout *layout,
                                    uint64_t bits[WEFT_BENCH_PLANES])
{
    weft_update_header header;
    memset(bits, 0, WEFT_BENCH_PLANES * sizeof *bits);
    weft_status status = weft_bench_describe(file, &header);
    if (status != WEFT_OK)
        return status;
    uint64_t words = weft_bytes_get(file->data + HEAD_WORDS_AT, 2);
    uint64_t at = weft_frame_pad(HEAD_BYTES + words * WORD_BITS / 8), end = at + header.frame_bytes;
    while (at < end && status == WEFT_OK) {
        uint64_t length = weft_frame_measure(file->data + at, end - at);
        if (length == 0)
            return weft_fail(WEFT_E_CORRUPT, "no frame at byte %llu of an update", (unsigned long long)at);
        status = frame_count(layout, file->data + at, length, bits);
        at += length;
    }
    bits[WEFT_BENCH_CHECKS] = 8 * CHECK_BYTES * header.frames;
    bits[WEFT_BENCH_REST] = 8 * (file->used - header.frame_bytes) - bits[WEFT_BENCH_CHECKS];
    return status;
}

/* planes.c - full frames in byte planes: split and joined, packed and unpacked. */
#define ZSTD_STATIC_LINKING_ONLY /* contexts in memory of our own */
#include "codec/planes.h"

#include <string.h>
#include <zstd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/status.h"
#include "codec/packed.h"

#define UNIT_BYTES_MAX (UINT64_C(1) << 20)

#define ENTRY_BYTES 4u
#define LENGTH_BITS 24u

typedef enum plane_kind { PLANE_VERBATIM = 0, PLANE_CONSTANT = 1, PLANE_ZSTD = 2 } plane_kind;

/* zstd is asked for its entropy coder alone. Exponents do not repeat, they are only unevenly spread: on bf16 models
 * every level that looks for repetitions is three times slower and packs worse. At this level it looks at one place in
 * a thousand, which still finds long runs. */
#define ZSTD_LEVEL (-1000)

#define SAMPLE 4096u /* bytes looked at before a plane is packed */

/* ---- splitting and joining: one pass over the words */

/* How a word is turned before it is split: the one bit that says which way goes below the others. */
typedef enum word_turn {
    TURN_NONE, /* new bits of integers */
    TURN_SIGN, /* of floats, as it is: a rotation */
    TURN_STEPS /* steps: the smallest in magnitude become the smallest words, up before down */
} word_turn;

static word_turn turn_of(const weft_unit *unit, bool steps)
{
    return steps ? TURN_STEPS : unit->is_float ? TURN_SIGN : TURN_NONE;
}

/* The top bit as a word of ones or of zeros, and the lowest. */
#define TOP_SPREAD(x, bits) ((uint##bits##_t)(0 - ((x) >> ((bits)-1))))
#define LOW_SPREAD(x, bits) ((uint##bits##_t)(0 - ((x)&1)))

/* A pair of loops for each width, and in them one for each turn, so that compilers see the constants. */
#define SPLIT(bits, turned)                                                                                            \
    for (uint32_t i = 0; i < count; i++) {                                                                             \
        uint##bits##_t x;                                                                                              \
        memcpy(&x, dense + (uint64_t)i * (bits / 8), bits / 8);                                                        \
        x = (uint##bits##_t)(turned);                                                                                  \
        for (uint32_t p = 0; p < bits / 8; p++)                                                                        \
            planes[(uint64_t)p * count + i] = (uint8_t)(x >> 8 * p);                                                   \
    }

#define JOIN(bits, turned)                                                                                             \
    for (uint32_t i = 0; i < count; i++) {                                                                             \
        uint##bits##_t x = 0;                                                                                          \
        for (uint32_t p = 0; p < bits / 8; p++)                                                                        \
            x = (uint##bits##_t)(x | (uint##bits##_t)plane[p][i] << 8 * p);                                            \
        x = (uint##bits##_t)(turned);                                                                                  \
        memcpy(dense + (uint64_t)i * (bits / 8), &x, bits / 8);                                                        \
    }

#define WORDS(bits)                                                                                                    \
    static void split_##bits(const uint8_t *restrict dense, uint32_t count, word_turn turn, uint8_t *restrict planes)  \
    {                                                                                                                  \
        if (turn == TURN_NONE)                                                                                         \
            SPLIT(bits, x)                                                                                             \
        else if (turn == TURN_SIGN)                                                                                    \
            SPLIT(bits, x << 1 | x >> (bits - 1))                                                                      \
        else                                                                                                           \
            SPLIT(bits, x << 1 ^ TOP_SPREAD(x, bits))                                                                  \
    }                                                                                                                  \
    static void join_##bits(const uint8_t *const plane[8], uint32_t count, word_turn turn, uint8_t *restrict dense)    \
    {                                                                                                                  \
        if (turn == TURN_NONE)                                                                                         \
            JOIN(bits, x)                                                                                              \
        else if (turn == TURN_SIGN)                                                                                    \
            JOIN(bits, x >> 1 | x << (bits - 1))                                                                       \
        else                                                                                                           \
            JOIN(bits, x >> 1 ^ LOW_SPREAD(x, bits))                                                                   \
    }

WORDS(8)
WORDS(16)
WORDS(32)
WORDS(64)

static void split(const weft_unit *unit, word_turn turn, const uint8_t *dense, uint8_t *planes)
{
    switch (unit->width) {
    case 1:
        split_8(dense, unit->count, turn, planes);
        return;
    case 2:
        split_16(dense, unit->count, turn, planes);
        return;
    case 4:
        split_32(dense, unit->count, turn, planes);
        return;
    default:
        split_64(dense, unit->count, turn, planes);
    }
}

static void join(const weft_unit *unit, word_turn turn, const uint8_t *const plane[8], uint8_t *dense)
{
    switch (unit->width) {
    case 1:
        join_8(plane, unit->count, turn, dense);
        return;
    case 2:
        join_16(plane, unit->count, turn, dense);
        return;
    case 4:
        join_32(plane, unit->count, turn, dense);
        return;
    default:
        join_64(plane, unit->count, turn, dense);
    }
}

/* ---- packing */

weft_mem_list weft_packer_memory(weft_packer *packer)
{
    const uint64_t context = ZSTD_estimateCCtxSize(ZSTD_LEVEL);
    return (weft_mem_list){{{&packer->memory, 1, context, false}, WEFT_MEM_PAGES(packer->split, UNIT_BYTES_MAX)}};
}

weft_status weft_packer_open(weft_packer *packer)
{
    *packer = (weft_packer){0};
    weft_status status = weft_mem_list_take(weft_packer_memory(packer), "to pack snapshots");
    if (status != WEFT_OK)
        return status;
    ZSTD_CCtx *context = ZSTD_initStaticCCtx(packer->memory, ZSTD_estimateCCtxSize(ZSTD_LEVEL));
    packer->context = context;
    if (!context || ZSTD_isError(ZSTD_CCtx_reset(context, ZSTD_reset_parameters)) || /* static ones have no defaults */
        ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, ZSTD_LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_literalCompressionMode, ZSTD_ps_enable)))
        return weft_fail(WEFT_E_MISSING, "zstd %s cannot pack literals alone; 1.5 can", ZSTD_versionString());
    return WEFT_OK;
}

void weft_packer_close(weft_packer *packer)
{
    weft_mem_list_give(weft_packer_memory(packer));
    *packer = (weft_packer){0};
}

static bool same_bytes(const uint8_t *bytes, uint64_t count)
{
    return memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* Whether a large plane is noise, as mantissas are: the bytes of a sample meet their like hardly more often than random
 * ones do, which is once in 256 pairs. It saves zstd a pass that it would give up at its end. */
static bool looks_random(const uint8_t *plane, uint32_t count)
{
    uint32_t seen[256] = {0}, alike = 0;
    if (count < 4 * SAMPLE)
        return false;
    for (uint64_t i = 0; i < SAMPLE; i++)
        alike += seen[plane[i * (count / SAMPLE)]]++;
    return alike < SAMPLE / 2 * (SAMPLE - 1) / 256 * 9 / 8;
}

/* Writes one plane in the cheapest way at `out`; its bytes there, 0 if it has no room. */
static uint32_t plane_pack(const weft_packer *packer, const uint8_t *plane, uint32_t count, uint8_t *out, uint64_t room,
                           plane_kind *kind)
{
    if (room == 0)
        return 0;
    *kind = PLANE_CONSTANT;
    out[0] = plane[0];
    if (same_bytes(plane, count))
        return 1;
    if (!looks_random(plane, count)) {
        *kind = PLANE_ZSTD;
        size_t packed = ZSTD_compress2(packer->context, out, room < count - 1 ? room : count - 1, plane, count);
        if (!ZSTD_isError(packed))
            return (uint32_t)packed;
    }
    *kind = PLANE_VERBATIM;
    if (room < count)
        return 0;
    memcpy(out, plane, count);
    return count;
}

/* Directory and planes at `out`, below `limit` bytes; 0 if they do not fit. */
static uint32_t planes_pack(const weft_packer *packer, const weft_unit *unit, uint8_t *out, uint64_t limit)
{
    uint64_t used = ENTRY_BYTES * (uint64_t)unit->width;
    if (used >= limit)
        return 0;
    for (uint32_t p = 0; p < unit->width; p++) {
        plane_kind kind;
        const uint8_t *plane = packer->split + (uint64_t)p * unit->count;
        uint32_t bytes = plane_pack(packer, plane, unit->count, out + used, limit - used, &kind);
        if (bytes == 0)
            return 0;
        weft_bytes_put(out + (uint64_t)p * ENTRY_BYTES, bytes | (uint32_t)kind << LENGTH_BITS, ENTRY_BYTES);
        used += bytes;
    }
    memset(out + used, 0, weft_frame_pad(used) - used);
    return (uint32_t)weft_frame_pad(used);
}

uint32_t weft_planes_pack(weft_packer *packer, const weft_unit *unit, uint8_t *frame)
{
    const uint8_t *plane[8];
    uint8_t *payload = frame + WEFT_FRAME_HEADER_BYTES;
    const bool steps = weft_bytes_get(frame + 12, 4) == WEFT_FULL_STEPS;
    const word_turn turn = turn_of(unit, steps);
    uint32_t dense = (uint32_t)weft_frame_full_payload(unit->count, unit->width);
    weft_frame_header header = {(uint32_t)weft_bytes_get(frame, 4), 1, WEFT_LEVEL_FULL, 0, unit->count, 0};
    split(unit, turn, payload, packer->split);
    header.payload_bytes = planes_pack(packer, unit, payload, dense - WEFT_FRAME_ALIGN);
    header.parameters = steps ? WEFT_FULL_STEP_PLANES : WEFT_FULL_PLANES;
    if (header.payload_bytes == 0) { /* what stood here was overwritten in part */
        uint64_t elements = (uint64_t)unit->count * unit->width;
        for (uint32_t p = 0; p < 8; p++) /* those beyond the width are not read */
            plane[p] = packer->split + (uint64_t)(p < unit->width ? p : 0) * unit->count;
        join(unit, turn, plane, payload);
        memset(payload + elements, 0, dense - elements);
        header.payload_bytes = dense;
        header.parameters = steps ? WEFT_FULL_STEPS : WEFT_FULL_BITS;
    }
    weft_frame_write_header(frame, &header);
    return WEFT_FRAME_HEADER_BYTES + header.payload_bytes;
}

/* ---- unpacking */

static weft_mem_list unpacker_memory(weft_unpacker *unpacker)
{
    return (weft_mem_list){{{&unpacker->memory, 1, ZSTD_estimateDCtxSize(), false},
                            WEFT_MEM_PAGES(unpacker->split, UNIT_BYTES_MAX),
                            WEFT_MEM_PAGES(unpacker->dense, UNIT_BYTES_MAX)}};
}

uint64_t weft_unpacker_need(void)
{
    return weft_mem_list_bytes(unpacker_memory(&(weft_unpacker){0}));
}

weft_status weft_unpacker_open(weft_unpacker *unpacker)
{
    *unpacker = (weft_unpacker){.bytes = weft_unpacker_need()};
    weft_status status = weft_mem_list_take(unpacker_memory(unpacker), "to unpack snapshots");
    if (status == WEFT_OK)
        unpacker->context = ZSTD_initStaticDCtx(unpacker->memory, ZSTD_estimateDCtxSize());
    return status;
}

void weft_unpacker_close(weft_unpacker *unpacker)
{
    weft_mem_list_give(unpacker_memory(unpacker));
    *unpacker = (weft_unpacker){0};
}

/* One entry of the directory. */
typedef struct plane_entry {
    uint32_t kind;
    uint32_t bytes;
} plane_entry;

static plane_entry entry_read(const uint8_t *payload, uint32_t p)
{
    uint32_t word = (uint32_t)weft_bytes_get(payload + (uint64_t)p * ENTRY_BYTES, ENTRY_BYTES);
    return (plane_entry){word >> LENGTH_BITS, word & ((1u << LENGTH_BITS) - 1)};
}

static bool length_fits(plane_entry entry, uint32_t count)
{
    switch (entry.kind) {
    case PLANE_VERBATIM:
        return entry.bytes == count;
    case PLANE_CONSTANT:
        return entry.bytes == 1;
    case PLANE_ZSTD:
        return entry.bytes >= 1 && entry.bytes < count;
    default:
        return false;
    }
}

/* The planes fill the payload exactly, up to zeros that pad it. */
static weft_status directory_check(const weft_frame *frame, const weft_unit *unit)
{
    uint64_t used = ENTRY_BYTES * (uint64_t)unit->width, bytes = frame->header.payload_bytes;
    for (uint32_t p = 0; p < unit->width && used <= bytes; p++) {
        plane_entry entry = entry_read(frame->payload, p);
        if (!length_fits(entry, unit->count))
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: plane %u of kind %u has %u bytes for %u elements",
                             frame->header.unit, p, entry.kind, entry.bytes, unit->count);
        used += entry.bytes;
    }
    if (weft_frame_pad(used) != bytes)
        return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: its planes reach to byte %llu of %llu", frame->header.unit,
                         (unsigned long long)used, (unsigned long long)bytes);
    for (uint64_t i = used; i < bytes; i++) {
        if (frame->payload[i] != 0)
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: padding byte %llu is 0x%02x, not zero",
                             frame->header.unit, (unsigned long long)i, frame->payload[i]);
    }
    return WEFT_OK;
}

static bool zstd_unpack(const weft_unpacker *unpacker, const uint8_t *packed, uint32_t bytes, uint8_t *out,
                        uint32_t count)
{
    return weft_packed_is_one(packed, bytes, count) &&
           ZSTD_decompressDCtx(unpacker->context, out, count, packed, bytes) == count;
}

static weft_status planes_unpack(weft_unpacker *unpacker, const weft_frame *frame, const weft_unit *unit)
{
    const uint8_t *plane[8], *at = frame->payload + ENTRY_BYTES * (uint64_t)unit->width;
    for (uint32_t p = 0; p < 8; p++) /* those beyond the width are not read */
        plane[p] = unpacker->split;
    for (uint32_t p = 0; p < unit->width; p++) {
        plane_entry entry = entry_read(frame->payload, p);
        uint8_t *out = unpacker->split + (uint64_t)p * unit->count;
        plane[p] = entry.kind == PLANE_VERBATIM ? at : out;
        if (entry.kind == PLANE_CONSTANT)
            memset(out, at[0], unit->count);
        if (entry.kind == PLANE_ZSTD && !zstd_unpack(unpacker, at, entry.bytes, out, unit->count))
            return weft_fail(WEFT_E_CORRUPT, "frame of unit %u: plane %u is no zstd frame of %u bytes",
                             frame->header.unit, p, unit->count);
        at += entry.bytes;
    }
    uint64_t elements = (uint64_t)unit->count * unit->width;
    join(unit, turn_of(unit, weft_frame_has_full_steps(&frame->header)), plane, unpacker->dense);
    memset(unpacker->dense + elements, 0, weft_frame_pad(elements) - elements);
    return WEFT_OK;
}

weft_status weft_planes_admit(weft_unpacker *unpacker, const weft_layout *layout, const uint8_t *bytes,
                              uint64_t available, weft_frame *frame, uint64_t *length)
{
    weft_frame packed;
    weft_status status = weft_frame_admit_packed(layout, bytes, available, &packed);
    if (status != WEFT_OK)
        return status;
    uint64_t taken = WEFT_FRAME_HEADER_BYTES + (uint64_t)packed.header.payload_bytes;
    if (weft_frame_has_planes(&packed.header)) {
        const weft_unit *unit = &layout->units[packed.header.unit];
        status = directory_check(&packed, unit);
        if (status == WEFT_OK)
            status = planes_unpack(unpacker, &packed, unit);
        if (status != WEFT_OK)
            return status;
        packed.header.payload_bytes = (uint32_t)weft_frame_full_payload(unit->count, unit->width);
        packed.header.parameters = weft_frame_has_full_steps(&packed.header) ? WEFT_FULL_STEPS : WEFT_FULL_BITS;
        packed.payload = unpacker->dense;
    }
    *frame = packed;
    *length = taken;
    return WEFT_OK;
}

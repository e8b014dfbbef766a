/* wire_samples.h - one value of every message of the control plane, and a uniform way to write and read each. */
#ifndef WEFT_TESTS_WIRE_SAMPLES_H
#define WEFT_TESTS_WIRE_SAMPLES_H

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "wire/wire.h"

/* Every u64 of a sample is another number, so that swapped fields show. */
#define SAMPLE_LAYOUT                                                                                                  \
    {                                                                                                                  \
        UINT64_C(0x1716151413121110), UINT64_C(0x1f1e1d1c1b1a1918)                                                     \
    }
#define SAMPLE_HELD                                                                                                    \
    {                                                                                                                  \
        UINT64_C(0x2716151413121110), 126, UINT64_C(0x2f1e1d1c1b1a1918)                                                \
    }
#define SAMPLE_NEXT                                                                                                    \
    {                                                                                                                  \
        UINT64_C(0x2716151413121110), 127, UINT64_C(0x3f1e1d1c1b1a1918)                                                \
    }
#define SAMPLE_COMING                                                                                                  \
    {                                                                                                                  \
        UINT64_C(0x2716151413121110), 127, 0                                                                           \
    }

typedef union sample_any {
    weft_wire_knock knock;
    weft_wire_greeting greeting;
    weft_wire_hello hello;
    weft_wire_welcome welcome;
    weft_wire_update update;
    weft_wire_trailer trailer;
    weft_wire_receipt receipt;
    weft_wire_held held;
    weft_wire_notice notice;
    weft_wire_query query;
    weft_wire_digests digests;
    weft_wire_follow follow;
    weft_wire_repair repair;
    weft_wire_landed landed;
    weft_wire_close close;
    weft_wire_closed closed;
    weft_wire_open open;
    weft_wire_duct duct;
    weft_wire_passed passed;
    weft_version version;
    uint64_t word;
} sample_any;

static const weft_wire_knock sample_knock = {3, 773};
static const weft_wire_greeting sample_greeting = {3, 773, UINT64_C(0xe1e2e3e4e5e6e7e8)};
static const weft_wire_hello sample_hello = {
    .nonce = UINT64_C(0xe1e2e3e4e5e6e7e8),
    .name = "r0",
    .incarnation = UINT64_C(0x4041424344454647),
    .layout = SAMPLE_LAYOUT,
    .holds = true,
    .held = SAMPLE_HELD,
    .attachment = UINT64_C(0x5051525354555657),
    .provider = "tcp",
    .backend = "host",
    .fabric = 0x00010011,
    .address = {2, 0, 0x1b, 0xa5, 127, 0, 0, 1},
    .address_bytes = 8,
    .region_address = UINT64_C(0x7f0011223344),
    .region_key = UINT64_C(0xfedcba9876543210),
    .further = 1,
    .more = {{{2, 0, 0x1b, 0xa6, 127, 0, 0, 1}, 8, UINT64_C(0x7f0011223355), UINT64_C(0xfedcba9876543211)}},
    .further_rails = 1,
    .slot_stride = 4096 + (4u << 20),
    .slot_payload = 4u << 20,
    .slots = 4,
    .epoch = 0xa7,
    .chunk_bytes = 1u << 20,
    .levels = 7,
    .staging_bytes = 64u << 20,
    .encoded_bytes = 32u << 20};
static const weft_wire_hello sample_relayed = {.nonce = UINT64_C(0xe1e2e3e4e5e6e7e9),
                                               .name = "r1",
                                               .differs = "'w' is F32 in r1 and BF16 in the trainer",
                                               .incarnation = UINT64_C(0x4041424344454648),
                                               .layout = SAMPLE_LAYOUT,
                                               .provider = "shm",
                                               .backend = "host",
                                               .slot_stride = 4096 + (4u << 20),
                                               .slot_payload = 4u << 20,
                                               .slots = 2,
                                               .epoch = 1,
                                               .chunk_bytes = 1u << 20,
                                               .levels = 7,
                                               .staging_bytes = 64u << 20,
                                               .encoded_bytes = 32u << 20,
                                               .hops = 2,
                                               .relay = "r0",
                                               .relay_incarnation = UINT64_C(0x4041424344454647),
                                               .route = 0xb1b2b3b4};
/* From a rollout that takes keys 1, 2 and 7, names its versions, and has one staged. */
static const weft_wire_hello sample_viewed = {.nonce = UINT64_C(0xe1e2e3e4e5e6e7ea),
                                              .name = "r2",
                                              .incarnation = UINT64_C(0x4041424344454649),
                                              .layout = SAMPLE_LAYOUT,
                                              .stages = true,
                                              .staged = SAMPLE_NEXT,
                                              .staged_attachment = UINT64_C(0x5152535455565758),
                                              .provider = "tcp",
                                              .backend = "host",
                                              .slot_stride = 4096 + (4u << 20),
                                              .slot_payload = 4u << 20,
                                              .slots = 2,
                                              .epoch = 1,
                                              .chunk_bytes = 1u << 20,
                                              .levels = 7,
                                              .staging_bytes = 64u << 20,
                                              .encoded_bytes = 32u << 20,
                                              .keys = {.range = {{1, 2}, {7, 1}}, .count = 2},
                                              .named = true};
#define SAMPLE_VIEWED_KEYS 17u /* bytes of its last field, without which it is a HELLO for all keys */
static const weft_wire_hello sample_ask = {.wants_layout = true, .name = "rollout-with-no-weights"};
static const weft_wire_welcome sample_welcome = {.run = UINT64_C(0x2716151413121110),
                                                 .incarnation = UINT64_C(0x6061626364656667),
                                                 .layout = SAMPLE_LAYOUT,
                                                 .held = SAMPLE_HELD,
                                                 .newest = SAMPLE_NEXT,
                                                 .staged = SAMPLE_COMING,
                                                 .heartbeat_ms = 1000,
                                                 .chunk_bytes = 1u << 19,
                                                 .address = {10, 0, 0, 9, 8},
                                                 .address_bytes = 5,
                                                 .further = 2,
                                                 .more = {{{10, 0, 0, 9, 9}, 5, 0, 0}, {{10, 0, 0, 9}, 4, 0, 0}}};
static const weft_wire_update sample_update = {.level = WEFT_LEVEL_FAST,
                                               .layout = SAMPLE_LAYOUT,
                                               .base = SAMPLE_HELD,
                                               .target = SAMPLE_COMING,
                                               .attachment_bytes = 70001,
                                               .attachment = UINT64_C(0x5151525354555657)};
static const weft_wire_trailer sample_trailer = {
    .target = SAMPLE_NEXT, .buckets = 3, .frames = 17, .frame_bytes = 123456, .changed = UINT64_C(0xa1a2a3a4a5a6a7)};
static const weft_wire_trailer sample_withdrawn = {.buckets = 3, .frames = 17, .frame_bytes = 123456};
static const weft_wire_receipt sample_receipt = {UINT64_C(0x7071727374757677), 3, 250000, 1250000};
static const weft_wire_held sample_held = {.layout = SAMPLE_LAYOUT,
                                           .version = SAMPLE_NEXT,
                                           .attachment = UINT64_C(0x5051525354555657),
                                           .decode_ns = 1500000,
                                           .commit_ns = 900000};
static const weft_wire_notice sample_notice = {WEFT_E_TARGET, 127, "staged bits have another digest"};
static const weft_wire_query sample_query = {
    .version = SAMPLE_NEXT, .kind = WEFT_DIGESTS_TILES, .tensor = 11, .first = 500, .count = 480};
static const weft_wire_digests sample_digests = {
    .version = SAMPLE_NEXT,
    .before = SAMPLE_HELD,
    .kind = WEFT_DIGESTS_TILES,
    .tensor = 11,
    .first = 500,
    .count = 3,
    .digest = {UINT64_C(0x8182838485868788), 0, UINT64_C(0x9192939495969798)}};
static const weft_wire_follow sample_follow = {.target = SAMPLE_COMING, .count = 3, .routes = {1, 0xb1b2b3b4, 7}};
static const weft_wire_repair sample_repair = {
    .root = UINT64_C(0x4f1e1d1c1b1a1918), .version = SAMPLE_NEXT, .count = 2, .range = {{3, 1}, {70000, 17}}};
static const weft_wire_landed sample_landed = {
    .count = 3, .port = {{0, false, UINT64_C(0xc1c2c3c4c5c6c7c8)}, {7, true, 0}, {0x01020304, false, 5}}};
static const weft_wire_close sample_close = {.port = 1, .turn = 0xd1d2d3d4};
static const weft_wire_closed sample_closed = {.port = 7, .turn = 0xd1d2d3d4, .whole = {0x81, 0, 0x10, [31] = 0x80}};
static const weft_wire_open sample_open = {
    .port = 1, .turn = 0xd1d2d3d5, .at = {{2, 0, 0x1b, 0xa7, 10, 0, 0, 9}, 8, 0, 0}};
static const weft_wire_open sample_opened = {
    .port = 1,
    .turn = 0xd1d2d3d5,
    .at = {{2, 0, 0x1b, 0xa8, 10, 0, 0, 8}, 8, UINT64_C(0x7f0011223366), UINT64_C(0xfedcba9876543212)}};
static const weft_wire_duct sample_duct = {.address = {'w',  'f',  's',  't',  'r',  'm',  '1',  0,
                                                       0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7,
                                                       0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff},
                                           .address_bytes = 24};
static const weft_wire_passed sample_passed = {UINT64_C(0xc1c2c3c4c5c6c7c8), WEFT_PASS_SKIPPED,
                                               UINT64_C(0xd1d2d3d4d5d6d7d8), UINT64_C(0xe1e2e3e4e5e6e7e8)};
static const weft_version sample_version = SAMPLE_NEXT;
static const uint64_t sample_word = UINT64_C(0x8081828384858687);

#define SAMPLE_WAYS(kind, type)                                                                                        \
    static void sample_put_##kind(weft_out *out, const void *value)                                                    \
    {                                                                                                                  \
        weft_wire_put_##kind(out, (const type *)value);                                                                \
    }                                                                                                                  \
    static weft_status sample_get_##kind(const uint8_t *body, uint64_t length, void *value)                            \
    {                                                                                                                  \
        return weft_wire_get_##kind(body, length, (type *)value);                                                      \
    }
SAMPLE_WAYS(knock, weft_wire_knock)
SAMPLE_WAYS(greeting, weft_wire_greeting)
SAMPLE_WAYS(hello, weft_wire_hello)
SAMPLE_WAYS(welcome, weft_wire_welcome)
SAMPLE_WAYS(update, weft_wire_update)
SAMPLE_WAYS(trailer, weft_wire_trailer)
SAMPLE_WAYS(receipt, weft_wire_receipt)
SAMPLE_WAYS(held, weft_wire_held)
SAMPLE_WAYS(notice, weft_wire_notice)
SAMPLE_WAYS(query, weft_wire_query)
SAMPLE_WAYS(digests, weft_wire_digests)
SAMPLE_WAYS(follow, weft_wire_follow)
SAMPLE_WAYS(repair, weft_wire_repair)
SAMPLE_WAYS(landed, weft_wire_landed)
SAMPLE_WAYS(close, weft_wire_close)
SAMPLE_WAYS(closed, weft_wire_closed)
SAMPLE_WAYS(open, weft_wire_open)
SAMPLE_WAYS(opened, weft_wire_open)
SAMPLE_WAYS(duct, weft_wire_duct)
SAMPLE_WAYS(passed, weft_wire_passed)
SAMPLE_WAYS(version, weft_version)
#undef SAMPLE_WAYS

static void sample_put_word(weft_out *out, const void *value)
{
    weft_wire_put_word(out, *(const uint64_t *)value);
}

static weft_status sample_get_word(const uint8_t *body, uint64_t length, void *value)
{
    return weft_wire_get_word(body, length, (uint64_t *)value);
}

typedef struct sample_row {
    const char *file; /* its bytes, under tests/golden */
    const void *value;
    uint64_t bytes; /* of the value */
    void (*put)(weft_out *out, const void *value);
    weft_status (*get)(const uint8_t *body, uint64_t length, void *value);
    bool marked; /* begins with a mark and the protocol */
} sample_row;

#define SAMPLE_ROW(name, kind, marked)                                                                                 \
    {                                                                                                                  \
        "wire_" #name ".bin", &sample_##name, sizeof sample_##name, sample_put_##kind, sample_get_##kind, marked       \
    }
static const sample_row sample_rows[] = {
    SAMPLE_ROW(hello, hello, true),       SAMPLE_ROW(ask, hello, true),         SAMPLE_ROW(welcome, welcome, true),
    SAMPLE_ROW(update, update, true),     SAMPLE_ROW(trailer, trailer, true),   SAMPLE_ROW(receipt, receipt, false),
    SAMPLE_ROW(held, held, false),        SAMPLE_ROW(notice, notice, false),    SAMPLE_ROW(version, version, false),
    SAMPLE_ROW(word, word, false),        SAMPLE_ROW(query, query, false),      SAMPLE_ROW(digests, digests, false),
    SAMPLE_ROW(relayed, hello, true),     SAMPLE_ROW(follow, follow, false),    SAMPLE_ROW(repair, repair, false),
    SAMPLE_ROW(withdrawn, trailer, true), SAMPLE_ROW(landed, landed, false),    SAMPLE_ROW(close, close, false),
    SAMPLE_ROW(closed, closed, false),    SAMPLE_ROW(open, open, false),        SAMPLE_ROW(opened, opened, false),
    SAMPLE_ROW(knock, knock, true),       SAMPLE_ROW(greeting, greeting, true), SAMPLE_ROW(duct, duct, false),
    SAMPLE_ROW(viewed, hello, true),      SAMPLE_ROW(passed, passed, false),
};
#undef SAMPLE_ROW
#define SAMPLE_ROWS (sizeof sample_rows / sizeof sample_rows[0])

/* Writes a row's sample; its length. */
static inline uint64_t sample_write(const sample_row *row, uint8_t body[WEFT_MESSAGE_MAX])
{
    weft_out out = {body, WEFT_MESSAGE_MAX, 0, false};
    row->put(&out, row->value);
    return out.bad ? 0 : out.used;
}

/* Reads `length` bytes that lie in memory of exactly that size, so that an over-read is seen. */
static inline weft_status sample_read(const sample_row *row, const uint8_t *body, uint64_t length, sample_any *value)
{
    uint8_t *exact = malloc(length ? length : 1);
    memset(value, 0, sizeof *value);
    if (!exact)
        abort();
    memcpy(exact, body, length);
    weft_status status = row->get(length ? exact : exact + 1, length, value);
    free(exact);
    return status;
}

static inline const sample_row *sample_of(const char *file)
{
    for (size_t i = 0; i < SAMPLE_ROWS; i++)
        if (strcmp(sample_rows[i].file, file) == 0)
            return &sample_rows[i];
    abort();
}

#endif

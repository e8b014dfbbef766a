/* Level fast on the host: planes laid by hand, one fault each, and the rules that choose the parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "codec/fast.h"
#include "tests/support/unit_pair.h"

#define ELEMENTS 64u
#define CHANGED  37u
#define MOST     64u

/* Planes as strings of bits, least significant first; anything but 0 and 1 is for the eye. */
typedef struct planes {
    const char *fields, *ranks, *unary, *magnitudes;
} planes;

static const char up_37[] = "00000000 00000000 00000000 00000000 00000";
static const char last_down[] = "00000000 00000000 00000000 00000000 00001";
static const char ranks_0_1_36[] = "000 000 010";
/* 37 gaps of 0; exceptions' gaps 0, 0 and 34 = 4 * 8 + 2; lengths 0, 1 and 6. */
static const char unary_good[] = "11111111 11111111 11111111 11111111 11111 | 1 1  1 01  00001 0000001";
static const char magnitudes_good[] = "0 11 0000000"; /* x + 2 = 2, 7 and 128, each without its top bit */

static unit_pair pair;

static int pair_make(void **state)
{
    (void)state;
    static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    static const uint64_t size = ELEMENTS;
    uint64_t seed = 3;
    weft_log_enter(&quiet);
    pair_open(&pair, &seed, WEFT_U8, &size, 1, "portable");
    return 0;
}

static int pair_drop(void **state)
{
    (void)state;
    pair_close(&pair);
    weft_log_enter(NULL);
    return 0;
}

static uint32_t plane_lay(const char *bits, uint8_t *out)
{
    uint32_t count = 0;
    for (; *bits; bits++) {
        if (*bits != '0' && *bits != '1')
            continue;
        if (*bits == '1')
            out[count / 8] |= (uint8_t)(1u << count % 8);
        count++;
    }
    return (count + 7) / 8;
}

typedef struct laid {
    uint8_t payload[MOST];
    uint32_t ranks, unary, magnitudes, end; /* byte offsets */
} laid;

static laid lay(planes p)
{
    laid out = {.payload = {0}};
    out.ranks = plane_lay(p.fields, out.payload);
    out.unary = out.ranks + plane_lay(p.ranks, out.payload + out.ranks);
    out.magnitudes = out.unary + plane_lay(p.unary, out.payload + out.unary);
    out.end = out.magnitudes + plane_lay(p.magnitudes, out.payload + out.magnitudes);
    return out;
}

/* Of the changes from the limit on none is listed, and none moves a digest. */
static void decode_below(const weft_decode_job *whole)
{
    const uint32_t kept = whole->changes->count / 2;
    uint64_t delta[PAIR_PARTS] = {0}, expected[PAIR_PARTS] = {0};
    weft_changes changes = pair_changes();
    weft_decode_job job = *whole;
    job.changes = &changes;
    job.tensor_delta = delta;
    job.limit = whole->changes->position[kept];
    pair_must(weft_backend_host.decode(pair.state, &job), "decode");
    assert_int_equal(changes.count, kept);
    for (uint32_t i = 0; i < changes.count; i++)
        expected[0] += weft_digest_term(changes.position[i], ((uint8_t *)changes.after)[i]) -
                       weft_digest_term(changes.position[i], ((uint8_t *)changes.before)[i]);
    assert_memory_equal(delta, expected, sizeof delta);
    pair_changes_free(&changes);
}

/* A frame that is refused has no opposite, so no header is written. */
static void has_no_opposite(const weft_frame *frame)
{
    const uint8_t zeros[WEFT_FRAME_HEADER_BYTES] = {0};
    uint8_t *bytes = calloc(1, WEFT_FRAME_HEADER_BYTES + frame->header.payload_bytes);
    weft_invert_job job = {.layout = pair.layout, .frame = *frame, .bytes = bytes};
    assert_int_equal(weft_backend_host.invert(pair.state, &job), WEFT_E_CORRUPT);
    assert_memory_equal(bytes, zeros, sizeof zeros);
    free(bytes);
}

/* Decodes a payload of 37 changes, 3 of them exceptions, k = 0, q = 1. */
static weft_status decode(const laid *made, uint32_t payload_bytes, weft_changes *changes)
{
    uint64_t delta[PAIR_PARTS] = {0};
    weft_frame frame;
    weft_frame_header header = {.units = 1, .level = WEFT_LEVEL_FAST, .changed = CHANGED};
    header.payload_bytes = payload_bytes;
    header.parameters = 3 | 0u << 20 | 1u << 25;
    uint8_t *bytes = pair_memory(WEFT_FRAME_HEADER_BYTES + payload_bytes);
    weft_frame_write_header(bytes, &header);
    memcpy(bytes + WEFT_FRAME_HEADER_BYTES, made->payload, payload_bytes);
    pair_must(weft_frame_admit(pair.layout, bytes, WEFT_FRAME_HEADER_BYTES + payload_bytes, &frame), "admit");
    weft_decode_job job = {
        .frame = frame, .base = weft_binding_view(&pair.live_binding, 0), .changes = changes, .tensor_delta = delta};
    weft_status status = weft_backend_host.decode(pair.state, &job);
    if (status == WEFT_OK)
        decode_below(&job);
    else
        has_no_opposite(&frame);
    free(bytes);
    return status;
}

static void refused(const laid *made, uint32_t payload_bytes, const char *words)
{
    weft_changes changes = pair_changes();
    assert_int_equal(decode(made, payload_bytes, &changes), WEFT_E_CORRUPT);
    assert_int_equal(changes.count, 0);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
    pair_changes_free(&changes);
}

static uint32_t padded(const laid *made)
{
    return (made->end + 3) / 4 * 4;
}

static void planes_by_hand_decode(void **state)
{
    (void)state;
    laid good = lay((planes){last_down, ranks_0_1_36, unary_good, magnitudes_good});
    weft_changes changes = pair_changes();
    pair_must(decode(&good, padded(&good), &changes), "decode");
    assert_int_equal(changes.count, CHANGED);
    for (uint32_t i = 0; i < CHANGED; i++) {
        uint8_t step = i == 0 ? 2 : i == 1 ? 7 : i == 36 ? 0x80 : 1;
        assert_int_equal(changes.position[i], i);
        assert_int_equal(((uint8_t *)changes.before)[i], pair.base[i]);
        assert_int_equal(((uint8_t *)changes.after)[i], (uint8_t)(pair.base[i] + step));
    }
    pair_changes_free(&changes);
}

static void magnitudes_out_of_range_are_refused(void **state)
{
    (void)state;
    laid up = lay((planes){up_37, ranks_0_1_36, unary_good, magnitudes_good});
    refused(&up, padded(&up), "magnitude of change 36");
    laid beyond = lay((planes){last_down, ranks_0_1_36, unary_good, "0 11 1000000"});
    refused(&beyond, padded(&beyond), "magnitude of change 36");
}

static void ranks_out_of_range_are_refused(void **state)
{
    (void)state;
    laid beyond = lay((planes){last_down, "000 000 110", unary_good, magnitudes_good});
    refused(&beyond, padded(&beyond), "exception 37 of 37");
}

static void positions_out_of_range_are_refused(void **state)
{
    (void)state;
    static const char tail[] = "1111111 11111111 11111111 11111111 11111 | 1 1  1 01  00001 0000001";
    char unary[160];
    weft_changes changes = pair_changes();
    for (int zeros = 27; zeros < 29; zeros++) {
        snprintf(unary, sizeof(unary), "%.*s1%s", zeros, "0000000000000000000000000000", tail);
        laid made = lay((planes){last_down, ranks_0_1_36, unary, magnitudes_good});
        if (zeros == 27)
            pair_must(decode(&made, padded(&made), &changes), "decode");
        else
            refused(&made, padded(&made), "position 64 of 64");
    }
    assert_int_equal(changes.position[CHANGED - 1], ELEMENTS - 1);
    pair_changes_free(&changes);
}

/* The last bit of each plane's last byte, and of the payload. */
static void bits_after_a_plane_are_refused(void **state)
{
    (void)state;
    const laid good = lay((planes){last_down, ranks_0_1_36, unary_good, magnitudes_good});
    const uint32_t ends[] = {good.ranks, good.unary, good.end, padded(&good)};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        laid bad = good;
        assert_int_equal(bad.payload[ends[i] - 1] & 0x80, 0);
        bad.payload[ends[i] - 1] |= 0x80;
        refused(&bad, padded(&bad), "padding that is not zero");
    }
    laid bad = good;
    bad.payload[good.magnitudes - 1] |= 0x80;
    refused(&bad, padded(&bad), "ones after the unary plane");
}

static void lengths_must_fit(void **state)
{
    (void)state;
    laid good = lay((planes){last_down, ranks_0_1_36, unary_good, magnitudes_good});
    refused(&good, padded(&good) + 4, "the planes end at byte");
    laid open = good;
    memset(open.payload + good.magnitudes - 2, 0, MOST - good.magnitudes);
    refused(&open, padded(&good), "unary plane runs past");
}

static uint64_t high_sum(const uint32_t *gap, uint32_t count, uint32_t k)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += gap[i] >> k;
    return sum;
}

static unsigned length_of(uint64_t x)
{
    unsigned bits = 0;
    for (; x; x >>= 1)
        bits++;
    return bits;
}

/* The order q as docs/WIRE_FORMAT.md states it. */
static uint32_t order_stated(const uint64_t *x, uint32_t e)
{
    uint64_t total = 0, best = UINT64_MAX;
    for (uint32_t i = 0; i < e; i++)
        total += length_of(x[i]);
    uint32_t q = e ? (uint32_t)(total / e) + 1 : 0;
    while (q > 0) {
        uint64_t lengths = 0;
        for (uint32_t i = 0; i < e; i++)
            lengths += length_of(x[i] + (UINT64_C(1) << (q - 1))) - q;
        if (2 * lengths + (uint64_t)e * (q - 1) >= best)
            break;
        best = 2 * lengths + (uint64_t)e * (q - 1);
        q--;
    }
    return q;
}

/* Compares the parameters of one frame with the rules, computed from scratch for I32. */
static void parameters_follow(const unit_pair *made, const weft_frame_header *header)
{
    uint32_t gap[4096], m = 0, e = 0, next = 0;
    uint64_t x[4096];
    for (uint32_t i = 0; i < made->layout->units[0].count; i++) {
        uint32_t d = (uint32_t)pair_get(made->target, i, 4) - (uint32_t)pair_get(made->base, i, 4);
        if (d == 0)
            continue;
        gap[m++] = i - next;
        next = i + 1;
        uint64_t magnitude = d >> 31 ? 0u - d : d;
        if (magnitude > 1)
            x[e++] = magnitude - 2;
    }
    uint32_t k = header->parameters >> 20 & 31, limit = weft_fast_rice(made->layout->units[0].count, m);
    assert_int_equal(header->changed, m);
    assert_int_equal(header->parameters & 0xfffff, e);
    for (uint32_t other = 0; other <= limit; other++) {
        uint64_t here = high_sum(gap, m, k) + (uint64_t)m * k, there = high_sum(gap, m, other) + (uint64_t)m * other;
        assert_true(here < there || (here == there && k >= other));
    }
    assert_int_equal(header->parameters >> 25, order_stated(x, e));
}

static void parameters_follow_the_rules(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 400; round++) {
        uint64_t seed = round, ignored[PAIR_PARTS] = {0}, size = 20 + pair_below(&seed, 4000);
        unit_pair made;
        weft_frame frame;
        pair_open(&made, &seed, WEFT_I32, &size, 1, "auto");
        pair_change(&made, &seed, 2000 + pair_below(&seed, 200000), round % 2);
        pair_put(made.target, 0, pair_get(made.base, 0, 4) + 1, 4);
        weft_frame_sink sink = {.data = pair_memory(made.layout->largest_frame),
                                .capacity = made.layout->largest_frame};
        uint32_t bytes = pair_encode(&made, 0, WEFT_LEVEL_FAST, &sink, ignored);
        pair_must(weft_frame_admit(made.layout, sink.data, bytes, &frame), "admit");
        if (frame.header.level == WEFT_LEVEL_FAST)
            parameters_follow(&made, &frame.header);
        free(sink.data);
        pair_close(&made);
    }
}

/* A payload that only reaches the dense one is not sent. */
static void equal_to_dense_becomes_full(void **state)
{
    (void)state;
    uint64_t seed = 1, ignored[PAIR_PARTS] = {0};
    const uint64_t size = 4;
    const weft_level coded[] = {WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST};
    unit_pair small;
    weft_frame frame;
    pair_open(&small, &seed, WEFT_U8, &size, 1, "auto");
    small.target[2] ^= 1;
    for (int i = 0; i < 2; i++) {
        uint8_t bytes[32];
        weft_frame_sink sink = {.data = bytes, .capacity = sizeof(bytes)};
        assert_int_equal(pair_encode(&small, 0, coded[i], &sink, ignored), WEFT_FRAME_HEADER_BYTES + 4);
        pair_must(weft_frame_admit(small.layout, bytes, sink.used, &frame), "admit");
        assert_int_equal(frame.header.level, WEFT_LEVEL_FULL);
    }
    pair_close(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_by_hand_decode),          cmocka_unit_test(magnitudes_out_of_range_are_refused),
        cmocka_unit_test(ranks_out_of_range_are_refused), cmocka_unit_test(positions_out_of_range_are_refused),
        cmocka_unit_test(bits_after_a_plane_are_refused), cmocka_unit_test(lengths_must_fit),
        cmocka_unit_test(parameters_follow_the_rules),    cmocka_unit_test(equal_to_dense_becomes_full),
    };
    return cmocka_run_group_tests(tests, pair_make, pair_drop);
}

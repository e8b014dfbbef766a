/* Full frames in byte planes: what is packed comes back bit by bit, what does not shrink is left alone, and every
 * refusal of the unpacker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/planes.h"
#include "tests/support/unit_pair.h"
#include "tests/support/zstd_bad.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static weft_packer packer;
static weft_unpacker unpacker;
static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};

/* A layout of one tensor, the verbatim full frame of its first unit and a working copy in memory of exactly its size.
 */
typedef struct sample {
    weft_layout *layout;
    const weft_unit *unit;
    uint8_t *frame, *packed;
    uint32_t bytes, packed_bytes;
} sample;

static sample sample_make(weft_dtype dtype, uint64_t elements, uint64_t (*bits)(uint64_t *seed, uint64_t i),
                          uint64_t seed)
{
    sample made = {0};
    const weft_tensor tensor = {"t", dtype, 1, &elements};
    pair_must(weft_layout_create(&tensor, 1, &made.layout), "layout");
    made.unit = &made.layout->units[0];
    uint32_t payload = (uint32_t)weft_frame_full_payload(made.unit->count, made.unit->width);
    weft_frame_header header = {0, 1, WEFT_LEVEL_FULL, payload, made.unit->count, 0};
    made.bytes = WEFT_FRAME_HEADER_BYTES + payload;
    made.frame = pair_memory(made.bytes);
    made.packed = pair_memory(made.bytes);
    weft_frame_write_header(made.frame, &header);
    for (uint64_t i = 0; i < made.unit->count; i++)
        pair_put(made.frame + WEFT_FRAME_HEADER_BYTES, i, bits(&seed, i), made.unit->width);
    memcpy(made.packed, made.frame, made.bytes);
    made.packed_bytes = weft_planes_pack(&packer, made.unit, made.packed);
    return made;
}

static void sample_free(sample *made)
{
    free(made->packed);
    free(made->frame);
    weft_layout_free(made->layout);
}

/* The packed bytes, in memory of exactly their size, stand for the verbatim frame. */
static void comes_back(const sample *made)
{
    uint8_t *bytes = pair_memory(made->packed_bytes);
    uint64_t length = 0;
    weft_frame frame, plain;
    memcpy(bytes, made->packed, made->packed_bytes);
    pair_must(weft_planes_admit(&unpacker, made->layout, bytes, made->packed_bytes, &frame, &length), "admit");
    pair_must(weft_frame_admit(made->layout, made->frame, made->bytes, &plain), "admit the verbatim one");
    assert_int_equal(length, made->packed_bytes);
    assert_memory_equal(&frame.header, &plain.header, sizeof frame.header);
    assert_memory_equal(frame.payload, plain.payload, plain.header.payload_bytes);
    free(bytes);
}

/* ---- bits */

static uint64_t any_bits(uint64_t *seed, uint64_t i)
{
    (void)i;
    return pair_random(seed);
}

static uint64_t zero_bits(uint64_t *seed, uint64_t i)
{
    (void)seed;
    (void)i;
    return UINT64_C(0x8000);
}

static uint64_t few_bits(uint64_t *seed, uint64_t i)
{
    return i % 3 ? pair_below(seed, 5) << 55 | pair_below(seed, 5) << 23 | pair_below(seed, 5) << 7 : i;
}

/* Bell-shaped around zero, as weights are: a sum of twelve uniform numbers, rounded to bf16. */
static uint64_t weight_bits(uint64_t *seed, uint64_t i)
{
    (void)i;
    float sum = -6;
    for (int k = 0; k < 12; k++)
        sum += (float)pair_below(seed, 1 << 20) / (1 << 20);
    sum *= 0.02f;
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    return bits >> 16;
}

/* ---- tests */

static void every_width_comes_back(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_BOOL, WEFT_U8,  WEFT_F8_E4M3, WEFT_F8_E5M2, WEFT_I16, WEFT_F16,
                                        WEFT_BF16, WEFT_I32, WEFT_F32,     WEFT_I64,     WEFT_F64, WEFT_C64};
    static const uint64_t sizes[] = {1, 2, 3, 5, 31, 1000, 4097, 262144, 300000};
    static uint64_t (*const kinds[])(uint64_t *, uint64_t) = {any_bits, zero_bits, few_bits};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        for (size_t s = 0; s < COUNT(sizes); s++) {
            sample made = sample_make(dtypes[d], sizes[s], kinds[(d + s) % 3], d * 100 + s);
            assert_true(made.packed_bytes <= made.bytes);
            comes_back(&made);
            sample_free(&made);
        }
    }
}

static void noise_is_left_as_it_is(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 100, 200000};
    for (size_t s = 0; s < COUNT(sizes); s++) {
        sample made = sample_make(WEFT_F32, sizes[s], any_bits, s);
        assert_int_equal(made.packed_bytes, made.bytes);
        assert_memory_equal(made.packed, made.frame, made.bytes);
        sample_free(&made);
    }
}

/* Mantissa and sign of bell-shaped weights are noise (8 bits), the exponent has about 2.6 bits: 0.66 in all. */
static void bell_shaped_weights_shrink(void **state)
{
    (void)state;
    sample made = sample_make(WEFT_BF16, 262144, weight_bits, 1);
    assert_true(made.packed_bytes < made.bytes * 0.68);
    assert_true(made.packed_bytes > made.bytes * 0.60);
    assert_int_equal(weft_bytes_get(made.packed + 12, 4), WEFT_FULL_PLANES);
    comes_back(&made);
    sample_free(&made);
}

static void constant_planes_take_a_byte(void **state)
{
    (void)state;
    sample made = sample_make(WEFT_F32, 200000, zero_bits, 1);
    assert_int_equal(made.packed_bytes, WEFT_FRAME_HEADER_BYTES + 4 * 4 + 4);
    comes_back(&made);
    sample_free(&made);
}

static void plain_reading_refuses_planes(void **state)
{
    (void)state;
    sample made = sample_make(WEFT_BF16, 1000, weight_bits, 1);
    weft_frame frame;
    assert_true(made.packed_bytes < made.bytes);
    assert_int_equal(weft_frame_admit(made.layout, made.packed, made.packed_bytes, &frame), WEFT_E_CORRUPT);
    assert_non_null(strstr(weft_last_error(), "in byte planes where none are taken"));
    sample_free(&made);
}

static void no_memory_is_taken_on_the_way(void **state)
{
    (void)state;
    uint64_t before = weft_mem_allocations();
    sample made = sample_make(WEFT_BF16, 262144, weight_bits, 1);
    uint64_t made_it = weft_mem_allocations();
    for (int i = 0; i < 3; i++) {
        memcpy(made.packed, made.frame, made.bytes);
        assert_true(weft_planes_pack(&packer, made.unit, made.packed) < made.bytes);
        comes_back(&made);
    }
    assert_true(made_it > before); /* the counter counts: the layout's */
    assert_int_equal(weft_mem_allocations(), made_it);
    sample_free(&made);
}

/* ---- refusals: a unit of 8 bf16 (dense payload 16) and one of 1000 */

static void refused(const sample *made, const uint8_t *payload, uint32_t bytes, uint32_t parameters, const char *words)
{
    weft_frame_header header = {0, 1, WEFT_LEVEL_FULL, bytes, made->unit->count, parameters};
    uint8_t *frame_bytes = pair_memory(WEFT_FRAME_HEADER_BYTES + bytes);
    weft_frame frame;
    uint64_t length = 77;
    weft_frame_write_header(frame_bytes, &header);
    memcpy(frame_bytes + WEFT_FRAME_HEADER_BYTES, payload, bytes);
    weft_status status =
        weft_planes_admit(&unpacker, made->layout, frame_bytes, WEFT_FRAME_HEADER_BYTES + bytes, &frame, &length);
    if (status != WEFT_E_CORRUPT || !strstr(weft_last_error(), words))
        fail_msg("%s: \"%s\" does not say \"%s\"", weft_status_name(status), weft_last_error(), words);
    assert_int_equal(length, 77);
    free(frame_bytes);
}

static void bad_directories_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t payload[20];
        uint32_t bytes;
        const char *words;
    } cases[] = {
        {{1, 0, 0, 1, 8, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8}, 20, "reaches the dense 16"},
        {{1, 0, 0, 1}, 4, "planes reach to byte 8 of 4"},
        {{1, 0, 0, 1, 1, 0, 0, 1}, 8, "planes reach to byte 9 of 8"},
        {{2, 0, 0, 1, 1, 0, 0, 1, 7, 8}, 12, "plane 0 of kind 1 has 2 bytes for 8 elements"},
        {{0, 0, 0, 1, 1, 0, 0, 1, 7, 8}, 12, "plane 0 of kind 1 has 0 bytes"},
        {{1, 0, 0, 1, 7, 0, 0, 0, 7, 8}, 12, "plane 1 of kind 0 has 7 bytes"},
        {{1, 0, 0, 1, 0, 0, 0, 2, 7, 8}, 12, "plane 1 of kind 2 has 0 bytes"},
        {{1, 0, 0, 1, 8, 0, 0, 2, 7, 8}, 12, "plane 1 of kind 2 has 8 bytes"},
        {{1, 0, 0, 1, 1, 0, 0, 3, 7, 8}, 12, "plane 1 of kind 3"},
        {{1, 0, 0, 1, 1, 0, 0, 0x11, 7, 8}, 12, "plane 1 of kind 17"},
        {{1, 0, 0, 1, 0xff, 0xff, 0xff, 0, 7, 8}, 12, "plane 1 of kind 0 has 16777215 bytes"},
        {{1, 0, 0, 1, 1, 0, 0, 1, 7, 8, 0, 1}, 12, "padding byte 11 is 0x01"},
        {{1, 0, 0, 1, 2, 0, 0, 2, 7, 8, 9}, 12, "plane 1 is no zstd frame of 8 bytes"},
    };
    sample made = sample_make(WEFT_BF16, 8, zero_bits, 1);
    for (size_t i = 0; i < COUNT(cases); i++)
        for (uint32_t parameters = WEFT_FULL_PLANES; parameters <= WEFT_FULL_STEP_PLANES; parameters++)
            refused(&made, cases[i].payload, cases[i].bytes, parameters, cases[i].words);
    refused(&made, cases[0].payload, 12, 4, "full has parameters 0 to 3");
    refused(&made, cases[0].payload, 12, WEFT_FULL_STEPS, "12 bytes, 16 expected");
    sample_free(&made);
    made = sample_make(WEFT_BF16, 1000, zero_bits, 1); /* which leaves room for bytes that no plane has */
    refused(&made, (const uint8_t[20]){1, 0, 0, 1, 1, 0, 0, 1, 7, 8}, 16, WEFT_FULL_PLANES, "reach to byte 10 of 16");
    sample_free(&made);
}

/* A payload of one constant plane and one of `packed`, which is to be refused as no zstd frame of 1000 bytes. */
static void zstd_refused(void *user, const char *what, const uint8_t *packed, uint64_t bytes)
{
    uint8_t payload[4096] = {1, 0, 0, 1};
    (void)what;
    if (bytes == 0)
        return; /* no length of a plane */
    weft_bytes_put(payload + 4, bytes | 2u << 24, 4);
    memcpy(payload + 9, packed, bytes);
    for (uint32_t parameters = WEFT_FULL_PLANES; parameters <= WEFT_FULL_STEP_PLANES; parameters++)
        refused(user, payload, (uint32_t)weft_frame_pad(9 + bytes), parameters,
                "plane 1 is no zstd frame of 1000 bytes");
}

static void bad_zstd_is_refused(void **state)
{
    (void)state;
    sample made = sample_make(WEFT_BF16, ZSTD_BAD_PLAIN, zero_bits, 1);
    zstd_bad_each(zstd_refused, &made);
    sample_free(&made);
}

static int group_open(void **state)
{
    (void)state;
    weft_log_enter(&quiet);
    return weft_packer_open(&packer) != WEFT_OK || weft_unpacker_open(&unpacker) != WEFT_OK;
}

static int group_close(void **state)
{
    (void)state;
    weft_unpacker_close(&unpacker);
    weft_packer_close(&packer);
    weft_log_enter(NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_width_comes_back),       cmocka_unit_test(noise_is_left_as_it_is),
        cmocka_unit_test(bell_shaped_weights_shrink),   cmocka_unit_test(constant_planes_take_a_byte),
        cmocka_unit_test(plain_reading_refuses_planes), cmocka_unit_test(no_memory_is_taken_on_the_way),
        cmocka_unit_test(bad_directories_are_refused),  cmocka_unit_test(bad_zstd_is_refused),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}

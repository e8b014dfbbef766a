/* The law of frames: bytes of the header, rules of level fast, and every refusal of admit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "codec/fast.h"

#define UNITS    2u
#define ELEMENTS 1000u /* bf16, unit 0; unit 1 has 3 u8 */

static weft_layout *layout;
static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};

static int layout_make(void **state)
{
    (void)state;
    const uint64_t large = ELEMENTS, small = 3;
    weft_log_enter(&quiet);
    const weft_tensor tensors[] = {{"large", WEFT_BF16, 1, &large}, {"small", WEFT_U8, 1, &small}};
    return weft_layout_create(tensors, 2, &layout) != WEFT_OK || layout->unit_count != UNITS;
}

static int layout_drop(void **state)
{
    (void)state;
    weft_layout_free(layout);
    weft_log_enter(NULL);
    return 0;
}

/* A header and its payload of zeros in memory of exactly that size. */
typedef struct sample {
    uint8_t *bytes;
    uint64_t length;
} sample;

static sample sample_make(weft_frame_header header)
{
    sample made = {NULL, WEFT_FRAME_HEADER_BYTES + (uint64_t)header.payload_bytes};
    made.bytes = calloc(made.length, 1);
    assert_non_null(made.bytes);
    weft_frame_write_header(made.bytes, &header);
    return made;
}

static void admitted(weft_frame_header header)
{
    sample made = sample_make(header);
    weft_frame frame;
    if (weft_frame_admit(layout, made.bytes, made.length, &frame) != WEFT_OK)
        fail_msg("refused: %s", weft_last_error());
    assert_memory_equal(&frame.header, &header, sizeof(header));
    assert_ptr_equal(frame.payload, made.bytes + WEFT_FRAME_HEADER_BYTES);
    free(made.bytes);
}

static void bytes_refused(const uint8_t *bytes, uint64_t length, const char *words)
{
    weft_frame frame = {.payload = bytes};
    assert_int_equal(weft_frame_admit(layout, bytes, length, &frame), WEFT_E_CORRUPT);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static void refused(weft_frame_header header, const char *words)
{
    sample made = sample_make(header);
    bytes_refused(made.bytes, made.length, words);
    free(made.bytes);
}

static weft_frame_header full(void)
{
    return (weft_frame_header){
        .unit = 0, .units = 1, .level = WEFT_LEVEL_FULL, .payload_bytes = 2 * ELEMENTS, .changed = ELEMENTS};
}

static weft_frame_header pairs(uint32_t changed)
{
    return (weft_frame_header){.unit = 0,
                               .units = 1,
                               .level = WEFT_LEVEL_PAIRS,
                               .payload_bytes = (6 * changed + 3) / 4 * 4,
                               .changed = changed};
}

static weft_frame_header fast(uint32_t changed, uint32_t exceptions, uint32_t gap_bits, uint32_t magnitude_bits)
{
    return (weft_frame_header){.unit = 0,
                               .units = 1,
                               .level = WEFT_LEVEL_FAST,
                               .payload_bytes = 400,
                               .changed = changed,
                               .parameters = exceptions | gap_bits << 20 | magnitude_bits << 25};
}

static void header_has_these_bytes(void **state)
{
    (void)state;
    const weft_frame_header header = {.unit = 0x01020304,
                                      .units = 2,
                                      .level = WEFT_LEVEL_FAST,
                                      .payload_bytes = 0x0a0b0c,
                                      .changed = 0x0d0e0,
                                      .parameters = 0x11121314};
    const uint8_t expected[] = {0x04, 0x03, 0x02, 0x01, 0x0c, 0x0b, 0x0a, 0x02,
                                0xe0, 0xd0, 0x10, 0x00, 0x14, 0x13, 0x12, 0x11};
    uint8_t bytes[WEFT_FRAME_HEADER_BYTES];
    weft_frame_write_header(bytes, &header);
    assert_memory_equal(bytes, expected, sizeof(expected));
}

static void good_headers_are_admitted(void **state)
{
    (void)state;
    weft_frame_header small = {.unit = 1, .units = 1, .level = WEFT_LEVEL_FULL, .payload_bytes = 4, .changed = 3};
    weft_frame_header steps = full();
    steps.parameters = WEFT_FULL_STEPS;
    admitted(full());
    admitted(steps);
    admitted(small);
    admitted(pairs(1));
    admitted(pairs(332));
    admitted(fast(100, 20, 3, 15));
    admitted(fast(100, 100, 0, 0));
    admitted(fast(1000, 0, 0, 0));
}

static void bad_headers_are_refused(void **state)
{
    (void)state;
    weft_frame_header h = full();
    h.unit = UNITS;
    refused(h, "the layout has 2 units");
    h = full();
    h.units = 2;
    refused(h, "2 units in one frame");
    h = fast(100, 0, 0, 0);
    h.units = 3;
    refused(h, "unit 0 and 2 more: the layout has 2 units");
    h.units = 2;
    refused(h, "not of one dtype");
    h.unit = 1;
    refused(h, "unit 1 and 1 more: the layout has 2 units");
    h.changed = WEFT_FRAME_RUN_CHANGES + 1;
    refused(h, "changes in a run of 2 units");
    h = full();
    h.level = WEFT_LEVEL_TIGHT;
    h.parameters = 1u << 16;
    refused(h, "masks 0x0 and 0x1");
    h = full();
    h.level = (weft_level)4;
    refused(h, "unknown level or reserved bits 4");
    h = full();
    h.level = (weft_level)0x12;
    refused(h, "unknown level or reserved bits 18");
    h = full();
    h.payload_bytes = 2 * ELEMENTS - 1;
    refused(h, "not padded");
    h = full();
    h.changed = 0;
    refused(h, "0 changed of 1000");
    h = full();
    h.changed = ELEMENTS + 1;
    refused(h, "1001 changed of 1000");
}

static void bad_sizes_are_refused(void **state)
{
    (void)state;
    weft_frame_header h = full();
    h.changed = ELEMENTS - 1;
    refused(h, "full with 999 of 1000");
    h = full();
    h.payload_bytes += 4;
    refused(h, "2000 expected");
    h = full();
    h.parameters = 4;
    refused(h, "full has parameters 0 to 3, got 0x00000004");
    h.parameters = WEFT_FULL_STEPS | 1u << 31;
    refused(h, "got 0x80000003");
    for (h.parameters = WEFT_FULL_PLANES; h.parameters <= WEFT_FULL_STEP_PLANES; h.parameters++) {
        h.payload_bytes = 2 * ELEMENTS;
        refused(h, "reaches the dense 2000");
        h.payload_bytes -= 4;
        refused(h, "in byte planes where none are taken");
    }
    h.parameters = WEFT_FULL_STEPS;
    refused(h, "1996 bytes, 2000 expected");
    h = pairs(10);
    h.payload_bytes -= 4;
    refused(h, "60 expected");
    h = pairs(10);
    for (h.parameters = 1; h.parameters; h.parameters <<= 1)
        refused(h, "pairs has no parameters");
    refused(pairs(334), "reaches the dense 2000");
}

/* A frame of a run is no larger than that of one unit may be. */
static void no_frame_is_larger_than_the_largest(void **state)
{
    const uint64_t elements = (1u << 18) + 1000;
    const weft_tensor tensor = {"t", WEFT_BF16, 1, &elements};
    weft_layout *units = layout;
    weft_frame_header h = fast(1000, 0, 0, 0);
    (void)state;
    assert_int_equal(weft_layout_create(&tensor, 1, &layout), WEFT_OK);
    h.units = 2;
    h.payload_bytes = layout->largest_frame - WEFT_FRAME_HEADER_BYTES;
    admitted(h);
    h.payload_bytes += WEFT_FRAME_ALIGN;
    refused(h, "the largest frame has");
    weft_layout_free(layout);
    layout = units;
}

static void bad_parameters_are_refused(void **state)
{
    (void)state;
    weft_frame_header h = fast(100, 0, 0, 0);
    h.parameters = 1u << 31;
    refused(h, "unknown bits");
    refused(fast(100, 101, 0, 0), "101 exceptions among 100");
    refused(fast(100, 0, 4, 0), "gap parameter 4, at most 3");
    refused(fast(100, 1, 0, 16), "magnitude parameter 16, at most 15");
    refused(fast(100, 0, 0, 1), "magnitude parameter 1, at most 0");
    h = fast(1000, 0, 0, 0);
    h.payload_bytes = 248;
    refused(h, "at least 252");
    h = fast(100, 0, 0, 0);
    h.payload_bytes = 2000;
    refused(h, "reaches the dense 2000");
}

static void padding_must_be_zero(void **state)
{
    (void)state;
    weft_frame_header h = pairs(1);
    sample made = sample_make(h);
    made.bytes[WEFT_FRAME_HEADER_BYTES + 7] = 1;
    bytes_refused(made.bytes, made.length, "padding byte 7 is 0x01");
    free(made.bytes);
}

static void truncated_frames_are_refused(void **state)
{
    (void)state;
    sample made = sample_make(pairs(10));
    for (uint64_t length = 0; length < made.length; length++) {
        uint8_t *cut = malloc(length ? length : 1);
        assert_non_null(cut);
        memcpy(cut, made.bytes, length);
        bytes_refused(cut, length, length < WEFT_FRAME_HEADER_BYTES ? "header needs 16" : "are there");
        assert_int_equal(weft_frame_measure(cut, length), 0);
        free(cut);
    }
    assert_int_equal(weft_frame_measure(made.bytes, made.length), made.length);
    assert_int_equal(weft_frame_measure(made.bytes, made.length + 100), made.length);
    free(made.bytes);
}

static void measure_refuses_what_is_no_header(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0};
    assert_int_equal(weft_frame_measure(bytes, sizeof(bytes)), 0);
    weft_frame_header h = {.units = 1, .level = (weft_level)5, .payload_bytes = 8, .changed = 1};
    weft_frame_write_header(bytes, &h);
    assert_int_equal(weft_frame_measure(bytes, sizeof(bytes)), 0);
    h.level = WEFT_LEVEL_TIGHT;
    weft_frame_write_header(bytes, &h);
    assert_int_equal(weft_frame_measure(bytes, sizeof(bytes)), 24);
    h.payload_bytes = 9;
    weft_frame_write_header(bytes, &h);
    assert_int_equal(weft_frame_measure(bytes, sizeof(bytes)), 0);
}

static void levels_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < WEFT_LEVEL_COUNT; i++) {
        weft_level level = WEFT_LEVEL_COUNT;
        assert_int_equal(weft_level_by_name(weft_level_name((weft_level)i), &level), WEFT_OK);
        assert_int_equal(level, i);
    }
    static const char *const wrong[] = {"", "ful", "fulls", "Full", "dense"};
    weft_level level;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(weft_level_by_name(wrong[i], &level), WEFT_E_ARGUMENT);
    assert_string_equal(weft_level_name((weft_level)9), "unknown");
}

/* The parameter is the least k whose coded bits, expected over random places, do not fall by a step to k + 1. */
static double expected_bits(double p, unsigned k)
{
    double rest = 1, q = 1 - p;
    for (unsigned i = 0; i < k; i++)
        q *= q;
    for (double term = q; term > 1e-9; term *= q)
        rest += term;
    return rest + k;
}

static void rice_rule_is_the_best_for_random_places(void **state)
{
    (void)state;
    const uint32_t universe = 1 << 18;
    for (uint32_t count = 1; count <= universe; count += 1 + count / 7) {
        unsigned k = weft_fast_rice(universe, count);
        double p = (double)count / universe, here = expected_bits(p, k);
        assert_true(k <= 17);
        assert_true(here <= expected_bits(p, k + 1) + 0.01);
        assert_true(k == 0 || here <= expected_bits(p, k - 1) + 0.01);
    }
    assert_int_equal(weft_fast_rice(1, 1), 0);
    assert_int_equal(weft_fast_rice(universe, 1), 17);
}

static void fast_parameters_come_back(void **state)
{
    (void)state;
    const weft_fast_shape shape = {.count = ELEMENTS,
                                   .changed = 40,
                                   .exceptions = 7,
                                   .gap_bits = 4,
                                   .rank_bits = weft_fast_rice(40, 7),
                                   .magnitude_bits = 9};
    weft_fast_shape read;
    weft_frame_header header = {.changed = 40, .parameters = weft_fast_parameters(&shape)};
    assert_int_equal(weft_fast_shape_read(&header, layout->units[0].count, layout->units[0].width, &read), WEFT_OK);
    assert_memory_equal(&read, &shape, sizeof(read));
    assert_int_equal(weft_fast_ranks_offset(&shape), 25);
    assert_int_equal(weft_fast_unary_offset(&shape), 25 + (7 * shape.rank_bits + 7) / 8);
}

static void check_covers_every_byte(void **state)
{
    (void)state;
    uint8_t bytes[24] = {0};
    uint64_t whole = weft_frame_check(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x40;
        assert_int_not_equal(weft_frame_check(bytes, sizeof(bytes)), whole);
        bytes[i] ^= 0x40;
    }
    assert_int_equal(weft_frame_check(bytes, sizeof(bytes)), whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_has_these_bytes),
        cmocka_unit_test(good_headers_are_admitted),
        cmocka_unit_test(bad_headers_are_refused),
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(no_frame_is_larger_than_the_largest),
        cmocka_unit_test(bad_parameters_are_refused),
        cmocka_unit_test(padding_must_be_zero),
        cmocka_unit_test(truncated_frames_are_refused),
        cmocka_unit_test(measure_refuses_what_is_no_header),
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(rice_rule_is_the_best_for_random_places),
        cmocka_unit_test(fast_parameters_come_back),
        cmocka_unit_test(check_covers_every_byte),
    };
    return cmocka_run_group_tests(tests, layout_make, layout_drop);
}

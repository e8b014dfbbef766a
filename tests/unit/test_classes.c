/* Kinds, classes and parameter words: what is written comes back, and nothing else is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "codec/classes.h"
#include "tests/support/unit_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { INTEGER_8, INTEGER_16, INTEGER_32, INTEGER_64, E4M3, E5M2, F16, BF16, F32, F64 };

static weft_log_sink quiet = {.level = WEFT_LOG_ERROR};

static void every_dtype_has_the_kind_of_its_words(void **state)
{
    (void)state;
    for (int dtype = WEFT_BOOL; dtype <= WEFT_DTYPE_LAST; dtype++) {
        const weft_dtype_row *row = weft_dtype_find((weft_dtype)dtype);
        const weft_kind_row *kind = &weft_kinds[weft_kind_of(row->width, row->exponent_bits)];
        assert_int_equal(kind->width, row->width);
        assert_int_equal(kind->exponent_bits, row->exponent_bits);
    }
}

static bool equal(const weft_parameters *a, const weft_parameters *b)
{
    bool same = a->run_shift == b->run_shift;
    for (uint32_t k = 0; k < WEFT_KIND_COUNT && same; k++) {
        const weft_classes *x = &a->classes[k], *y = &b->classes[k];
        same = x->thresholds == y->thresholds && x->magnitude_base == y->magnitude_base &&
               memcmp(x->threshold, y->threshold, x->thresholds * sizeof *x->threshold) == 0;
    }
    return same;
}

static void words_come_back(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        weft_parameters made, read;
        uint16_t words[WEFT_PARAMETER_WORDS_MAX];
        pair_parameters(&seed, &made);
        made.run_shift = (uint32_t)pair_below(&seed, WEFT_RUN_SHIFT_MAX + 1);
        for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++)
            if (pair_below(&seed, 2))
                made.classes[k] = (weft_classes){0};
        uint32_t count = weft_parameters_write(&made, words);
        assert_true(count <= WEFT_PARAMETER_WORDS_MAX);
        if (weft_parameters_read(words, count, &read) != WEFT_OK)
            fail_msg("refused: %s", weft_last_error());
        assert_true(equal(&made, &read));
    }
}

/* As many words as there can be: every kind with all the classes that its exponents allow. */
static void the_longest_words_fit(void **state)
{
    (void)state;
    weft_parameters made = {.run_shift = WEFT_RUN_SHIFT_MAX}, read;
    uint16_t words[WEFT_PARAMETER_WORDS_MAX];
    uint32_t expected = 1;
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
        made.classes[k].magnitude_base = WEFT_EXPONENTS_MAX + 63;
        made.classes[k].thresholds = weft_kinds[k].exponent_bits ? WEFT_CLASS_MAX - 1 : 0;
        for (uint32_t c = 0; c < made.classes[k].thresholds; c++)
            made.classes[k].threshold[c] = (1u << weft_kinds[k].exponent_bits) - (WEFT_CLASS_MAX - 1) + c;
        expected += 2 + made.classes[k].thresholds;
    }
    assert_int_equal(weft_parameters_write(&made, words), expected);
    assert_int_equal(weft_parameters_read(words, expected, &read), WEFT_OK);
    assert_true(equal(&made, &read));
}

static void default_ones_have_no_words(void **state)
{
    (void)state;
    weft_parameters none = {0}, runs = {.run_shift = 3}, read = {.run_shift = 9};
    uint16_t words[WEFT_PARAMETER_WORDS_MAX];
    assert_int_equal(weft_parameters_write(&none, words), 0);
    assert_int_equal(weft_parameters_read(words, 0, &read), WEFT_OK);
    assert_true(equal(&none, &read));
    assert_int_equal(weft_parameters_write(&runs, words), 1);
    assert_int_equal(words[0], 3);
}

#define ROW(kind, classes) ((kind) | (classes) << 8)

static void wrong_words_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint16_t words[6];
        uint32_t count, at; /* the word that is called wrong */
    } cases[] = {
        {{7}, 1, 0},                                   /* runs of 2^7 units */
        {{UINT16_MAX}, 1, 0},                          /* */
        {{0, ROW(10, 1), 0}, 3, 1},                    /* no such kind */
        {{0, ROW(255, 1), 0}, 3, 1},                   /* */
        {{0, ROW(BF16, 0), 0}, 3, 1},                  /* no class */
        {{0, ROW(BF16, 17), 0}, 3, 1},                 /* too many */
        {{0, ROW(INTEGER_32, 2), 0, 1}, 4, 1},         /* classes without exponents */
        {{0, ROW(BF16, 1)}, 2, 1},                     /* ends after its first word */
        {{0, ROW(BF16, 3), 0, 7}, 4, 1},               /* one threshold short */
        {{0, ROW(BF16, 1), 2112}, 3, 2},               /* E too large */
        {{0, ROW(BF16, 2), 0, 0}, 4, 3},               /* an exponent that all reach */
        {{0, ROW(BF16, 2), 0, 256}, 4, 3},             /* one that none has */
        {{0, ROW(E4M3, 2), 0, 16}, 4, 3},              /* */
        {{0, ROW(F64, 2), 0, 2048}, 4, 3},             /* */
        {{0, ROW(BF16, 3), 0, 9, 9}, 5, 4},            /* not rising */
        {{0, ROW(BF16, 3), 0, 9, 8}, 5, 4},            /* */
        {{0, ROW(BF16, 1), 5, ROW(BF16, 1), 5}, 5, 3}, /* a kind twice */
        {{0, ROW(BF16, 1), 5, ROW(F16, 1), 5}, 5, 3},  /* out of order */
        {{0}, 1, 0},                                   /* what no words say */
        {{0, ROW(BF16, 1), 0}, 3, 1},                  /* what no row says */
        {{2, ROW(F16, 1), 5, ROW(BF16, 1), 0}, 5, 3},  /* */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        weft_parameters read;
        char word[32];
        snprintf(word, sizeof word, "word %u is %u", cases[i].at, cases[i].words[cases[i].at]);
        weft_log_enter(&quiet);
        weft_status status = weft_parameters_read(cases[i].words, cases[i].count, &read);
        weft_log_enter(NULL);
        assert_int_equal(status, WEFT_E_PROTOCOL);
        if (!strstr(weft_last_error(), word))
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, weft_last_error(), word);
    }
}

/* Any words are refused or are the very ones that what they say is written as. */
static void noise_is_refused_or_holds_together(void **state)
{
    (void)state;
    uint64_t seed = 5;
    uint32_t taken = 0;
    weft_log_enter(&quiet);
    for (int round = 0; round < 20000; round++) {
        uint16_t words[12], again[WEFT_PARAMETER_WORDS_MAX];
        weft_parameters read, twice;
        uint32_t count = (uint32_t)pair_below(&seed, COUNT(words) + 1);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t any = pair_random(&seed);
            words[i] = (uint16_t)(pair_below(&seed, 3) ? any % 12 | (any >> 32) % 4 << 8 : any >> 48);
        }
        if (count > 0 && pair_below(&seed, 4))
            words[0] = (uint16_t)pair_below(&seed, 7);
        if (weft_parameters_read(words, count, &read) != WEFT_OK)
            continue;
        taken++;
        assert_int_equal(weft_parameters_write(&read, again), count);
        assert_memory_equal(again, words, count * sizeof *words);
        assert_int_equal(weft_parameters_read(again, count, &twice), WEFT_OK);
        assert_true(equal(&read, &twice));
    }
    weft_log_enter(NULL);
    assert_in_range(taken, 1000, 19000);
}

static void classes_count_thresholds_up_to_the_exponent(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 50; round++) {
        weft_parameters parameters;
        pair_parameters(&seed, &parameters);
        for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
            const weft_kind_row *kind = &weft_kinds[k];
            const weft_classes *classes = &parameters.classes[k];
            weft_class_map map;
            weft_class_map_make(&map, &parameters, kind->width, kind->exponent_bits);
            assert_int_equal(map.count, classes->thresholds + 1);
            for (uint32_t e = 0; e < 1u << kind->exponent_bits; e++) {
                uint32_t class = 0;
                for (uint32_t c = 0; c < classes->thresholds; c++)
                    class += classes->threshold[c] <= e;
                assert_int_equal(map.of[e], class);
            }
        }
    }
}

static void exponents_are_the_bits_below_the_sign(void **state)
{
    (void)state;
    static const struct {
        weft_dtype dtype;
        uint64_t bits;
        uint32_t exponent;
    } cases[] = {
        {WEFT_BF16, 0x8000, 0},
        {WEFT_BF16, 0x8001, 0},
        {WEFT_BF16, 0xff81, 255},
        {WEFT_BF16, 0x3f80, 127},
        {WEFT_F16, 0xfc00, 31},
        {WEFT_F16, 0x83ff, 0},
        {WEFT_F32, 0xffffffff, 255},
        {WEFT_C64, 0x80800000, 1},
        {WEFT_F64, UINT64_MAX, 2047},
        {WEFT_F64, UINT64_C(0x8010000000000000), 1},
        {WEFT_F8_E4M3, 0xff, 15},
        {WEFT_F8_E5M2, 0x84, 1},
        {WEFT_F8_E4M3FNUZ, 0x88, 1},
        {WEFT_F8_E5M2FNUZ, 0x7f, 31},
        {WEFT_F8_E8M0, 0xff, 0},
        {WEFT_I64, UINT64_MAX, 0},
        {WEFT_BOOL, 1, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const weft_dtype_row *row = weft_dtype_find(cases[i].dtype);
        weft_class_map map;
        weft_class_map_make(&map, NULL, row->width, row->exponent_bits);
        assert_int_equal(map.count, 1);
        assert_int_equal(weft_class_exponent(&map, cases[i].bits), cases[i].exponent);
    }
}

/* The Rice parameter falls with the exponent and leaves room for an escape within 64 bits. */
static void magnitude_bits_have_a_limit(void **state)
{
    (void)state;
    static const uint32_t limits[] = {[1] = 6, [2] = 14, [4] = 30, [8] = 56};
    weft_parameters parameters = {0};
    for (uint32_t k = 0; k < WEFT_KIND_COUNT; k++) {
        const weft_kind_row *kind = &weft_kinds[k];
        weft_class_map map;
        parameters.classes[k].magnitude_base = 60;
        weft_class_map_make(&map, &parameters, kind->width, kind->exponent_bits);
        assert_int_equal(weft_class_magnitude_bits(&map, 60), 0);
        assert_int_equal(weft_class_magnitude_bits(&map, 58), 2);
        assert_int_equal(weft_class_magnitude_bits(&map, 0), limits[kind->width]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_has_the_kind_of_its_words),
        cmocka_unit_test(words_come_back),
        cmocka_unit_test(the_longest_words_fit),
        cmocka_unit_test(default_ones_have_no_words),
        cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(noise_is_refused_or_holds_together),
        cmocka_unit_test(classes_count_thresholds_up_to_the_exponent),
        cmocka_unit_test(exponents_are_the_bits_below_the_sign),
        cmocka_unit_test(magnitude_bits_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

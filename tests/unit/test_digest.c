/* The digest: the vectors of the wire format, and the two properties it is trusted for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layout/digest.h"

/* The source root: the build says it, the environment may say another. */
#ifndef WEFT_SOURCE_DIR
#define WEFT_SOURCE_DIR "."
#endif

static uint64_t tensor_digest(const uint64_t *bits, uint64_t first, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += weft_digest_term(first + i, bits[i]);
    return sum;
}

/* Computes what a vector's line defines from its arguments. */
static uint64_t vector_result(const char *kind, const uint64_t *words, uint64_t count)
{
    if (strcmp(kind, "mix") == 0)
        return weft_mix64(words[0]);
    if (strcmp(kind, "term") == 0)
        return weft_digest_term(words[0], words[1]);
    if (strcmp(kind, "tensor") == 0)
        return tensor_digest(words, 0, count);
    assert_string_equal(kind, "root");
    return weft_digest_root(words, count);
}

static void vector_check(char *line)
{
    char *rest = NULL;
    const char *kind = strtok_r(line, " ", &rest);
    uint64_t words[8] = {0}, count = 0;
    for (char *word = strtok_r(NULL, " \n", &rest); word && *word != '='; word = strtok_r(NULL, " \n", &rest)) {
        assert_true(count < 8);
        words[count++] = strtoull(word, NULL, 16);
    }
    const char *wanted = strtok_r(NULL, " \n", &rest);
    assert_non_null(wanted);
    if (vector_result(kind, words, count) != strtoull(wanted, NULL, 16))
        fail_msg("%s wants %s, got %016llx", kind, wanted, (unsigned long long)vector_result(kind, words, count));
}

static void vectors_hold(void **state)
{
    (void)state;
    const char *source = getenv("WEFT_SOURCE");
    char path[4096], line[512];
    int checked = 0;
    snprintf(path, sizeof path, "%s/tests/golden/digest.txt", source ? source : WEFT_SOURCE_DIR);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("cannot open %s: set WEFT_SOURCE to the source root", path);
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        vector_check(line);
        checked++;
    }
    fclose(file);
    assert_true(checked >= 16);
}

static void sums_over_slices(void **state)
{
    (void)state;
    uint64_t bits[100];
    for (uint64_t i = 0; i < 100; i++)
        bits[i] = weft_mix64(i) & 0xffff;
    uint64_t whole = tensor_digest(bits, 0, 100);
    for (uint64_t cut = 0; cut <= 100; cut++)
        assert_true(whole == tensor_digest(bits + cut, cut, 100 - cut) + tensor_digest(bits, 0, cut));
}

/* An update made for one base must not pass on another: the same change of bits moves the digest differently. */
static void is_not_linear_in_the_bits(void **state)
{
    (void)state;
    const uint64_t masks[] = {1, 0x8000, 0x7fff, UINT64_C(1) << 63};
    for (uint64_t m = 0; m < sizeof masks / sizeof masks[0]; m++) {
        for (uint64_t base = 0; base < 64; base++) {
            uint64_t other = base + 0x3f80;
            uint64_t xor_delta = weft_digest_term(5, base ^ masks[m]) - weft_digest_term(5, base);
            uint64_t xor_other = weft_digest_term(5, other ^ masks[m]) - weft_digest_term(5, other);
            assert_true(xor_delta != xor_other);
            uint64_t sum_delta = weft_digest_term(5, base + masks[m]) - weft_digest_term(5, base);
            uint64_t sum_other = weft_digest_term(5, other + masks[m]) - weft_digest_term(5, other);
            assert_true(sum_delta != sum_other);
        }
    }
}

/* Moving the same bits elsewhere, within a tensor or between tensors, is seen. */
static void is_keyed_by_position(void **state)
{
    (void)state;
    const uint64_t bits[] = {1, 2, 2, 1}, swapped[] = {2, 1, 1, 2}, zeros[] = {0, 0}, zero[] = {0};
    assert_true(tensor_digest(bits, 0, 4) != tensor_digest(swapped, 0, 4));
    assert_true(tensor_digest(zeros, 0, 2) != tensor_digest(zero, 0, 1));
    const uint64_t digests[] = {11, 12}, crossed[] = {12, 11};
    assert_true(weft_digest_root(digests, 2) != weft_digest_root(crossed, 2));
    assert_true(weft_digest_root(NULL, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_hold),
        cmocka_unit_test(sums_over_slices),
        cmocka_unit_test(is_not_linear_in_the_bits),
        cmocka_unit_test(is_keyed_by_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

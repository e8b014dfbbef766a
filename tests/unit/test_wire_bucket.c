/* Bucket headers: written, read, and refused; and the immediate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <xxhash.h>

#include "base/log.h"
#include "base/status.h"
#include "layout/digest.h"
#include "tests/support/quiet.h"
#include "wire/wire.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const uint64_t layout[2] = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)};

static const weft_wire_bucket sample = {.kind = WEFT_BUCKET_FRAMES,
                                        .layout = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)},
                                        .incarnation = 11,
                                        .sequence = 12,
                                        .base = {13, 14, 15},
                                        .target = {16, 17, 0},
                                        .epoch = 255,
                                        .slot = 255,
                                        .chunks = WEFT_CHUNKS_MAX,
                                        .offset = 19,
                                        .payload_bytes = 20,
                                        .frames = 21,
                                        .check = 22};

/* Reads from memory of exactly a header's size. */
static weft_status read_exact(const uint8_t header[WEFT_BUCKET_HEADER_BYTES], weft_wire_bucket *bucket)
{
    uint8_t *exact = malloc(WEFT_BUCKET_HEADER_BYTES);
    memcpy(exact, header, WEFT_BUCKET_HEADER_BYTES);
    weft_status status = weft_wire_get_bucket(exact, layout, bucket);
    free(exact);
    return status;
}

static void seal(uint8_t header[WEFT_BUCKET_HEADER_BYTES])
{
    weft_bytes_put(header + WEFT_BUCKET_HEADER_BYTES - 8, XXH3_64bits(header, WEFT_BUCKET_HEADER_BYTES - 8), 8);
}

static void round_trip(void **state)
{
    (void)state;
    uint8_t header[WEFT_BUCKET_HEADER_BYTES];
    weft_wire_bucket read;
    for (int kind = WEFT_BUCKET_FRAMES; kind <= WEFT_BUCKET_ATTACHMENT; kind++) {
        weft_wire_bucket bucket;
        memcpy(&bucket, &sample, sizeof bucket); /* its padding too */
        bucket.kind = (weft_bucket_kind)kind;
        weft_wire_put_bucket(header, &bucket);
        assert_int_equal(read_exact(header, &read), WEFT_OK);
        assert_memory_equal(&read, &bucket, sizeof bucket);
    }
}

static void any_flipped_bit(void **state)
{
    (void)state;
    uint8_t header[WEFT_BUCKET_HEADER_BYTES];
    weft_wire_bucket read;
    weft_wire_put_bucket(header, &sample);
    for (uint32_t bit = 0; bit < 8 * WEFT_BUCKET_HEADER_BYTES; bit++) {
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(read_exact(header, &read), WEFT_E_CHECK);
        header[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(read_exact(header, &read), WEFT_OK);
}

/* Headers that another weft might well have sealed. */
static void sealed_but_unknown(void **state)
{
    (void)state;
    const struct {
        uint32_t at, width;
        uint64_t value;
        const char *words;
    } cases[] = {{4, 2, 2, "protocol 2"},     {6, 1, 2, "kind 2"},          {8, 2, 1, "stream 1"},
                 {10, 1, 1, "source 1"},      {11, 1, 2, "of 2"},           {11, 1, 0, "of 0"},
                 {14, 2, 0, "chunks 0"},      {14, 2, 4096, "chunks 4096"}, {16, 8, 1, "this layout"},
                 {24, 4, 1, "group 1"},       {104, 8, 0, "payload 0"},     {120, 8, 1, "reserved 1"},
                 {128, 8, 16, "reserved 10"}, {135, 1, 128, "reserved"},    {88, 8, 18, "root 12"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t header[WEFT_BUCKET_HEADER_BYTES];
        weft_wire_bucket read;
        weft_wire_put_bucket(header, &sample);
        weft_bytes_put(header + cases[i].at, cases[i].value, cases[i].width);
        seal(header);
        weft_status status = read_exact(header, &read);
        if (status != WEFT_E_PROTOCOL || !strstr(weft_last_error(), cases[i].words))
            fail_msg("%s: %s, \"%s\"", cases[i].words, weft_status_name(status), weft_last_error());
    }
}

static void other_layout(void **state)
{
    (void)state;
    uint8_t header[WEFT_BUCKET_HEADER_BYTES];
    weft_wire_bucket bucket = sample, read;
    bucket.layout[1] ^= UINT64_C(1) << 40;
    weft_wire_put_bucket(header, &bucket);
    assert_int_equal(read_exact(header, &read), WEFT_E_PROTOCOL);
}

/* Random bytes, half of them with a valid mark and seal, so that the fields after these are judged too. */
static void random_bytes(void **state)
{
    (void)state;
    uint8_t header[WEFT_BUCKET_HEADER_BYTES], good[WEFT_BUCKET_HEADER_BYTES];
    uint64_t seed = 2;
    weft_wire_bucket read;
    weft_wire_put_bucket(good, &sample);
    for (uint32_t round = 0; round < 20000; round++) {
        for (uint32_t i = 0; i < sizeof header; i++)
            header[i] = (uint8_t)weft_mix64(++seed);
        if (round & 1) {
            memcpy(header, good, 4 + weft_mix64(++seed) % 132);
            seal(header);
        }
        weft_status status = read_exact(header, &read);
        assert_true(status == WEFT_E_CHECK || status == WEFT_E_PROTOCOL || status == WEFT_OK);
        if (status != WEFT_OK)
            continue;
        uint8_t again[WEFT_BUCKET_HEADER_BYTES];
        weft_wire_put_bucket(again, &read);
        assert_memory_equal(again, header, sizeof header);
    }
}

static void immediates(void **state)
{
    (void)state;
    assert_int_equal(weft_wire_immediate(0, 0, 0), 0);
    assert_true(weft_wire_immediate(0xff, 0xfff, 0xfff) == UINT32_MAX);
    assert_true(weft_wire_immediate(0xa7, 3, 2) == 0xa7003002u);
    assert_true(weft_wire_immediate(0x100, 0x1000, 0x1000) == 0); /* fields never spill into each other */
    assert_true(WEFT_SLOTS_MAX - 1 <= 0xfffu && WEFT_CHUNKS_MAX <= 0xfffu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),   cmocka_unit_test(any_flipped_bit), cmocka_unit_test(sealed_but_unknown),
        cmocka_unit_test(other_layout), cmocka_unit_test(random_bytes),    cmocka_unit_test(immediates),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}

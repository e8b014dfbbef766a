/* test_decode_edges.c - frames made for one edge of the kernels that read them, where random ones hardly come: the same
 * changes and verdicts as the host backend's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "codec/fast.h"
#include "tests/emulation/decode_batch.h"

/* A frame of a unit whose last element changed, for a unit that lacks it. */
static void a_position_at_the_end_is_refused(void **state)
{
    (void)state;
    const uint64_t size = 700, less = 699;
    uint64_t seed = 700, other = 701;
    decode_world whole, w;
    decode_case cases[4];
    uint32_t count = 0;
    world_open(&whole, &seed, WEFT_BF16, &size, 1, 3);
    world_open(&w, &other, WEFT_BF16, &less, 1, 3);
    memset(&whole.parameters, 0, sizeof whole.parameters);
    memset(&w.parameters, 0, sizeof w.parameters);
    whole.target[2 * 350] ^= 1;
    whole.target[2 * (size - 1)] ^= 1;
    for (int level = WEFT_LEVEL_PAIRS; level < WEFT_LEVEL_COUNT; level++) {
        uint8_t *bytes;
        const uint64_t length = world_encode(&whole, 0, 1, (weft_level)level, &bytes);
        assert_true(case_open(&w, &cases[count++], bytes, length, 0));
    }
    batch_run(&w, cases, count, 64, seed);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(cases[i].gpu.status, WEFT_E_CORRUPT);
    batch_close(cases, &count);
    world_close(&whole);
    world_close(&w);
}

/* A list that is too short is refused before anything is done; others of the batch are read. */
static void a_short_list_is_refused(void **state)
{
    (void)state;
    uint64_t seed = 600;
    const uint64_t size = 500;
    decode_world w;
    decode_case cases[2];
    uint32_t count = 2;
    world_open(&w, &seed, WEFT_BF16, &size, 1, 3);
    world_change(&w, &seed, 50000);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *bytes;
        const uint64_t length = world_encode(&w, 0, 1, WEFT_LEVEL_FAST, &bytes);
        assert_true(case_open(&w, &cases[i], bytes, length, 0));
    }
    cases[0].host.changes.capacity--;
    cases[0].gpu.changes.capacity--;
    batch_run(&w, cases, count, 32, seed);
    assert_int_equal(cases[0].gpu.status, WEFT_E_BUDGET);
    assert_int_equal(cases[1].gpu.status, WEFT_OK);
    batch_close(cases, &count);
    world_close(&w);
}

/* All sixteen classes. Nearly all elements of the last class changed, so its list has those that did not. Bytes after
 * the unit's last element stay. */
static void a_last_class_that_changed_is_read_alike(void **state)
{
    (void)state;
    enum { CLASSES = 16, EXPONENTS = 256 };
    static const uint64_t size = 3000;
    for (uint32_t lanes = 32; lanes <= 64; lanes += 32) {
        uint64_t seed = 800;
        decode_world w;
        decode_case one;
        uint8_t *bytes;
        world_open(&w, &seed, WEFT_BF16, &size, 1, 3);
        weft_classes *classes = &w.parameters.classes[weft_kind_of(w.row->width, w.row->exponent_bits)];
        classes->thresholds = CLASSES - 1;
        for (uint32_t c = 1; c < CLASSES; c++)
            classes->threshold[c - 1] = c * EXPONENTS / CLASSES;
        for (uint64_t i = 0; i < size; i++) {
            const uint64_t bits = pair_get(w.base, i, w.row->width);
            const bool last = (bits >> 7 & 255) >= EXPONENTS - EXPONENTS / CLASSES;
            pair_put(w.target, i, bits ^ (pair_below(&seed, 40) == 0 ? !last : last), w.row->width);
        }
        const uint64_t length = world_encode(&w, 0, 1, WEFT_LEVEL_TIGHT, &bytes);
        assert_true(case_open(&w, &one, bytes, length, 0));
        assert_int_equal(one.job.frame.header.parameters & 0xffff, 0xffff); /* a list of positions for each class */
        assert_true(bytes[16 + 3 * (CLASSES - 1) + 2] & 0x80);              /* the last one is inverted */
        batch_run(&w, &one, 1, lanes, seed);
        assert_int_equal(one.host.status, WEFT_OK);
        case_close(&one);
        world_close(&w);
    }
}

/* Exceptions of two parts, each of which fits, where the last one's rank is the number of changes. */
static void a_rank_at_the_end_is_refused(void **state)
{
    (void)state;
    static const uint64_t size = 4499; /* all changed, every fourth by more than a step, and the last */
    for (uint32_t lanes = 32; lanes <= 64; lanes += 32) {
        uint64_t seed = 900;
        decode_world w;
        decode_case cases[2];
        uint8_t *bytes[2];
        world_open(&w, &seed, WEFT_BF16, &size, 1, 3);
        for (uint64_t i = 0; i < size; i++) {
            pair_put(w.base, i, 0x3f80, w.row->width);
            pair_put(w.target, i, i % 4 == 3 || i == size - 1 ? 0x3f85 : 0x3f81, w.row->width);
        }
        world_restore(&w);
        for (uint32_t i = 0; i < 2; i++) {
            const uint64_t length = world_encode(&w, 0, 1, WEFT_LEVEL_FAST, &bytes[i]);
            assert_true(case_open(&w, &cases[i], bytes[i], length, 0));
        }
        weft_fast_shape shape;
        const weft_frame_header *header = &cases[1].job.frame.header;
        assert_int_equal(header->changed, size);
        assert_int_equal(weft_fast_shape_read(header, (uint32_t)size, w.row->width, &shape), WEFT_OK);
        assert_true(shape.exceptions > 1024 && shape.exceptions < 2 * 1024 && shape.rank_bits == 1);
        const uint32_t last = shape.exceptions - 1; /* its gap of 2 becomes one of 3 */
        uint8_t *low = &bytes[1][16 + weft_fast_ranks_offset(&shape) + last / 8];
        assert_int_equal(*low >> last % 8 & 1, 0);
        *low |= (uint8_t)(1u << last % 8);
        batch_run(&w, cases, 2, lanes, seed);
        assert_int_equal(cases[0].gpu.status, WEFT_OK);
        assert_int_equal(cases[1].gpu.status, WEFT_E_CORRUPT);
        case_close(&cases[0]);
        case_close(&cases[1]);
        world_close(&w);
    }
}

int main(void)
{
    weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    weft_log_enter(&quiet);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_position_at_the_end_is_refused),
        cmocka_unit_test(a_short_list_is_refused),
        cmocka_unit_test(a_last_class_that_changed_is_read_alike),
        cmocka_unit_test(a_rank_at_the_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Frames with flipped bits, lengths cut and parameters invented: decode fails as corrupt or yields changes in range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/support/unit_pair.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const weft_dtype dtypes[] = {WEFT_U8, WEFT_F8_E4M3, WEFT_BF16, WEFT_F32, WEFT_I64, WEFT_F64};
static const weft_level levels[] = {WEFT_LEVEL_FULL, WEFT_LEVEL_PAIRS, WEFT_LEVEL_FAST, WEFT_LEVEL_TIGHT};

typedef struct tally {
    uint64_t corrupt, base;
    uint64_t decoded;
} tally;

static void changes_in_range(const weft_changes *changes, const weft_view *view, const weft_frame *frame)
{
    assert_true(changes->count <= frame->header.changed);
    for (uint32_t i = 0; i < changes->count; i++) {
        assert_true(changes->position[i] < view->count);
        assert_true(i == 0 || changes->position[i] > changes->position[i - 1]);
        assert_memory_not_equal((uint8_t *)changes->before + (uint64_t)i * view->width,
                                (uint8_t *)changes->after + (uint64_t)i * view->width, view->width);
    }
}

/* Admits and decodes `length` bytes that lie in memory of exactly that size. */
static void attack(unit_pair *pair, const uint8_t *bytes, uint64_t length, weft_changes *changes, tally *sum)
{
    uint64_t delta[PAIR_PARTS] = {0}, untouched[PAIR_PARTS] = {0};
    weft_frame frame;
    weft_status status = weft_frame_admit(pair->layout, bytes, length, &frame);
    if (status == WEFT_OK) {
        weft_view view = weft_binding_span(&pair->live_binding, frame.header.unit, frame.header.units);
        changes->capacity = frame.header.changed;
        weft_decode_job job = {
            .frame = frame, .base = view, .parameters = pair->parameters, .changes = changes, .tensor_delta = delta};
        status = weft_backend_host.decode(pair->state, &job);
        if (status == WEFT_OK)
            changes_in_range(changes, &view, &frame);
        assert_true(pair_holds(pair, &pair->base_binding, frame.header.unit));
    }
    assert_true(status == WEFT_OK || status == WEFT_E_CORRUPT ||
                (status == WEFT_E_BASE && frame.header.level == WEFT_LEVEL_TIGHT));
    if (status == WEFT_E_CORRUPT)
        assert_memory_equal(delta, untouched, sizeof(delta));
    sum->corrupt += status == WEFT_E_CORRUPT;
    sum->base += status == WEFT_E_BASE;
    sum->decoded += status == WEFT_OK;
}

/* Change lists of exactly the frame's size, so that a write beyond it is seen. */
static weft_changes changes_exact(uint32_t capacity, uint8_t width)
{
    weft_changes changes = {.capacity = capacity};
    changes.position = pair_memory(4 * (uint64_t)capacity);
    changes.before = pair_memory((uint64_t)capacity * width);
    changes.after = pair_memory((uint64_t)capacity * width);
    return changes;
}

static void mutate(uint64_t *seed, uint8_t *bytes, uint64_t length)
{
    for (uint64_t flips = 1 + pair_below(seed, 3); flips > 0; flips--) {
        uint64_t at = pair_below(seed, 3) == 0 ? pair_below(seed, 16) : pair_below(seed, length);
        bytes[at] =
            pair_below(seed, 4) == 0 ? (uint8_t)pair_random(seed) : bytes[at] ^ (uint8_t)(1u << pair_below(seed, 8));
    }
}

static void frame_attacked(unit_pair *pair, uint64_t *seed, const uint8_t *good, uint32_t length, tally *sum)
{
    const weft_unit *unit = &pair->layout->units[0];
    weft_changes changes = changes_exact(unit->count, unit->width);
    for (int i = 0; i < 200; i++) {
        uint64_t kept = i % 10 == 0 ? pair_below(seed, length) : length;
        uint8_t *bytes = pair_memory(kept);
        memcpy(bytes, good, kept);
        if (kept > 16 && i % 10 != 0)
            mutate(seed, bytes, kept);
        attack(pair, bytes, kept, &changes, sum);
        free(bytes);
    }
    pair_changes_free(&changes);
}

static void altered_frames_are_harmless(void **state)
{
    (void)state;
    tally sum = {0};
    for (uint64_t round = 0; round < 36; round++) {
        uint64_t seed = round, ignored[PAIR_PARTS] = {0};
        const uint64_t sizes[] = {round % 7 == 0 ? 1 : 1500, 40};
        unit_pair pair;
        weft_parameters parameters;
        pair_open(&pair, &seed, dtypes[round % COUNT(dtypes)], sizes, 2, "auto");
        pair_parameters(&seed, &parameters);
        pair.parameters = &parameters;
        pair_change(&pair, &seed, 60000, round % 2);
        pair.target[0] ^= 1;
        for (size_t i = 0; i < COUNT(levels); i++) {
            weft_frame_sink sink = {.data = pair_memory(pair.layout->largest_frame),
                                    .capacity = pair.layout->largest_frame};
            uint32_t length = pair_encode(&pair, 0, levels[i], &sink, ignored);
            frame_attacked(&pair, &seed, sink.data, length, &sum);
            free(sink.data);
        }
        pair_close(&pair);
    }
    assert_true(sum.corrupt > 1000);
    assert_true(sum.decoded > 1000);
}

/* Payloads of noise after headers that pass, so that the planes are read with no help. */
static void noise_is_harmless(void **state)
{
    (void)state;
    tally sum = {0};
    for (uint64_t round = 0; round < 1500; round++) {
        uint64_t seed = 77777 + round;
        static const uint64_t sizes[] = {900};
        unit_pair pair;
        pair_open(&pair, &seed, dtypes[round % COUNT(dtypes)], sizes, 1, "auto");
        uint8_t width = pair.layout->units[0].width;
        weft_frame_header header = {.units = 1, .level = WEFT_LEVEL_FAST};
        header.changed = 1 + (uint32_t)pair_below(&seed, pair_below(&seed, 2) ? 20 : 900);
        header.payload_bytes = 4 * (uint32_t)(1 + pair_below(&seed, 900u * width / 4 - 1));
        header.parameters = (uint32_t)(pair_below(&seed, header.changed + 1) | pair_below(&seed, 4) << 20 |
                                       pair_below(&seed, 8u * width) << 25);
        uint8_t *bytes = pair_memory(16 + header.payload_bytes);
        weft_frame_write_header(bytes, &header);
        uint8_t thin = (uint8_t)(pair_below(&seed, 2) ? 0xff : 0x11);
        for (uint32_t i = 0; i < header.payload_bytes; i++)
            bytes[16 + i] = (uint8_t)pair_random(&seed) & thin;
        weft_changes changes = changes_exact(900, width);
        attack(&pair, bytes, 16 + header.payload_bytes, &changes, &sum);
        pair_changes_free(&changes);
        free(bytes);
        pair_close(&pair);
    }
    assert_true(sum.corrupt > 500);
}

/* The same with masks and lists of level tight that pass. */
static void noise_in_lists_is_harmless(void **state)
{
    (void)state;
    tally sum = {0};
    for (uint64_t round = 0; round < 1500; round++) {
        uint64_t seed = 99999 + round;
        static const uint64_t sizes[] = {900};
        unit_pair pair;
        weft_parameters parameters;
        pair_open(&pair, &seed, dtypes[round % COUNT(dtypes)], sizes, 1, "auto");
        pair_parameters(&seed, &parameters);
        pair.parameters = &parameters;
        const weft_unit *unit = &pair.layout->units[0];
        uint32_t classes = parameters.classes[weft_kind_of(unit->width, unit->exponent_bits)].thresholds + 1;
        weft_frame_header header = {.units = 1, .level = WEFT_LEVEL_TIGHT};
        uint32_t positioned = 1 + (uint32_t)pair_below(&seed, (1u << classes) - 1);
        uint32_t exceptional = positioned & (uint32_t)pair_random(&seed) & (uint32_t)pair_random(&seed);
        uint32_t lists = (uint32_t)__builtin_popcount(positioned) + (uint32_t)__builtin_popcount(exceptional) + 1;
        header.changed = 1 + (uint32_t)pair_below(&seed, 100);
        header.payload_bytes = 4 * (uint32_t)(3 * lists / 4 + 1 + pair_below(&seed, 900u * unit->width / 4 - 80));
        header.parameters = positioned | exceptional << 16;
        uint8_t *bytes = pair_memory(16 + header.payload_bytes);
        weft_frame_write_header(bytes, &header);
        for (uint32_t i = 0; i < header.payload_bytes; i++)
            bytes[16 + i] = (uint8_t)pair_random(&seed);
        for (uint32_t i = 0; i < lists; i++) { /* few members, few low bits, a tenth inverted */
            uint32_t word = 1 + (uint32_t)pair_below(&seed, 100 / lists + 1);
            word |= (uint32_t)pair_below(&seed, 4) << 18 | (uint32_t)(pair_below(&seed, 10) == 0) << 23;
            memcpy(bytes + 16 + 3 * (uint64_t)i, &word, 3);
        }
        weft_changes changes = changes_exact(900, unit->width);
        attack(&pair, bytes, 16 + header.payload_bytes, &changes, &sum);
        pair_changes_free(&changes);
        free(bytes);
        pair_close(&pair);
    }
    assert_true(sum.corrupt > 100);
    assert_true(sum.base > 100);
}

static void pairs_must_rise_and_stay_inside(void **state)
{
    (void)state;
    const struct {
        uint32_t position[3];
        weft_status status;
        uint32_t count;
    } cases[] = {
        {{0, 5, 99}, WEFT_OK, 2},        {{0, 5, 100}, WEFT_E_CORRUPT, 0},        {{5, 5, 99}, WEFT_E_CORRUPT, 0},
        {{6, 5, 99}, WEFT_E_CORRUPT, 0}, {{0, 5, UINT32_MAX}, WEFT_E_CORRUPT, 0},
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        uint64_t seed = c, delta[PAIR_PARTS] = {0};
        const uint64_t size = 100;
        unit_pair pair;
        weft_frame frame;
        pair_open(&pair, &seed, WEFT_BF16, &size, 1, "auto");
        uint8_t bytes[16 + 20] = {0};
        weft_frame_header header = {.units = 1, .level = WEFT_LEVEL_PAIRS, .payload_bytes = 20, .changed = 3};
        weft_frame_write_header(bytes, &header);
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t position = cases[c].position[i];
            uint64_t bits =
                pair_get(pair.base, position < 100 ? position : 0, 2) ^ (i == 1 ? 0 : 0x40); /* one is equal */
            memcpy(bytes + 16 + 4 * i, &position, 4);
            memcpy(bytes + 16 + 12 + 2 * i, &bits, 2);
        }
        pair_must(weft_frame_admit(pair.layout, bytes, sizeof(bytes), &frame), "admit");
        weft_changes changes = changes_exact(3, 2);
        weft_decode_job job = {.frame = frame,
                               .base = weft_binding_view(&pair.live_binding, 0),
                               .changes = &changes,
                               .tensor_delta = delta};
        assert_int_equal(weft_backend_host.decode(pair.state, &job), cases[c].status);
        assert_int_equal(changes.count, cases[c].count);
        changes.capacity = 2;
        assert_int_equal(weft_backend_host.decode(pair.state, &job), WEFT_E_BUDGET);
        pair_changes_free(&changes);
        pair_close(&pair);
    }
}

/* The second of two changes goes by two steps; or the third does, which frames of this base do not have. */
static void ranks_are_of_what_there_is(void **state)
{
    static const uint8_t unary[] = {0x1b, 0x13}; /* gaps 0 and 0, the exception's, the magnitude's if there is one */
    (void)state;
    for (uint64_t seed = 0; seed < COUNT(unary); seed++) {
        const uint64_t size = 100;
        uint64_t drawn = seed;
        unit_pair pair;
        tally sum = {0};
        pair_open(&pair, &drawn, WEFT_U8, &size, 1, "auto");
        uint8_t bytes[16 + 12] = {[16] = 2, [19] = 1, [26] = unary[seed]};
        const weft_frame_header header = {
            .units = 1, .level = WEFT_LEVEL_TIGHT, .payload_bytes = 12, .changed = 2, .parameters = 1 | 1 << 16};
        weft_frame_write_header(bytes, &header);
        weft_changes changes = changes_exact(2, 1);
        attack(&pair, bytes, sizeof bytes, &changes, &sum);
        assert_int_equal(seed ? sum.base : sum.decoded, 1);
        pair_changes_free(&changes);
        pair_close(&pair);
    }
}

int main(void)
{
    weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    weft_log_enter(&quiet);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(altered_frames_are_harmless), cmocka_unit_test(noise_is_harmless),
        cmocka_unit_test(noise_in_lists_is_harmless),  cmocka_unit_test(pairs_must_rise_and_stay_inside),
        cmocka_unit_test(ranks_are_of_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

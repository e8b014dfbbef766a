/* test_decode.c - the kernels that read frames against the host backend: the same changes, digests and verdicts, for
 * frames good and bad. The kernels' scratch lies in blocks of its own, so that a step beyond one is seen.
 *
 * WEFT_FULL=1 plays more and larger ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/emulation/decode_batch.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_U8,  WEFT_F32, WEFT_F8_E5M2, WEFT_F64,
                                    WEFT_I16,  WEFT_I64, WEFT_F16, WEFT_I32,     WEFT_F8_E4M3};
static const uint64_t densities[] = {300, 11700, 79000, 500000, 1000000};

static bool full_tier(void)
{
    return getenv("WEFT_FULL") != NULL;
}

/* All units at all levels, as one batch. */
static void world_decode(decode_world *w, uint64_t *seed, uint32_t lanes)
{
    decode_case cases[WORLD_FRAMES];
    uint32_t count = 0;
    for (uint64_t unit = 0; unit < w->layout->unit_count; unit++) {
        for (int level = 0; level < WEFT_LEVEL_COUNT && count < WORLD_FRAMES; level++) {
            uint8_t *bytes;
            const uint64_t length = world_encode(w, unit, 1, (weft_level)level, &bytes);
            const uint32_t elements = w->layout->units[unit].count;
            const uint32_t limit = pair_below(seed, 4) == 0 ? 1 + (uint32_t)pair_below(seed, elements) : 0;
            if (case_open(w, &cases[count], bytes, length, limit))
                count++;
            else
                free(bytes);
        }
    }
    batch_run(w, cases, count, lanes, *seed);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(cases[i].host.status, WEFT_OK);
    batch_close(cases, &count);
}

static void random_frames_are_read_alike(void **state)
{
    (void)state;
    const uint64_t rounds = full_tier() ? 40 : 10;
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t seed = round;
        const uint64_t sizes[] = {1 + pair_below(&seed, 9000), 1 + pair_below(&seed, 70), 3000};
        decode_world w;
        world_open(&w, &seed, dtypes[round % COUNT(dtypes)], sizes, COUNT(sizes), 20);
        world_change(&w, &seed, densities[(round / 3) % COUNT(densities)]);
        w.target[0] ^= 1;
        world_decode(&w, &seed, round % 2 ? 32 : 64);
        world_close(&w);
    }
}

/* Every element any other: at levels fast and tight frames are full, of steps. */
static void dense_frames_are_read_alike(void **state)
{
    (void)state;
    for (uint64_t d = 0; d < COUNT(dtypes); d++) {
        uint64_t seed = 200 + d;
        const uint64_t sizes[] = {1 + pair_below(&seed, 9000), 1 + pair_below(&seed, 70), 300};
        uint8_t *bytes;
        decode_world w;
        world_open(&w, &seed, dtypes[d], sizes, COUNT(sizes), 20);
        world_change(&w, &seed, 2000000);
        assert_true(world_encode(&w, 0, 1, WEFT_LEVEL_FAST, &bytes) > 0);
        assert_int_equal(bytes[7] & 0x0f, WEFT_LEVEL_FULL);
        assert_int_equal(bytes[12], WEFT_FULL_STEPS);
        free(bytes);
        world_decode(&w, &seed, d % 2 ? 32 : 64);
        world_close(&w);
    }
}

/* More than one part of everything there is: bits of the plane, members, changes, elements. */
static void large_frames_are_read_alike(void **state)
{
    (void)state;
    const uint64_t size = full_tier() ? 150000 : 20000;
    const weft_dtype some[] = {WEFT_BF16, WEFT_F32};
    for (uint64_t round = 0; round < (full_tier() ? 4 : 2); round++) {
        uint64_t seed = 100 + round;
        decode_world w;
        world_open(&w, &seed, some[round % 2], &size, 1, 5);
        world_change(&w, &seed, round % 4 < 2 ? 900000 : 30000);
        world_decode(&w, &seed, round % 2 ? 64 : 32);
        world_close(&w);
    }
}

/* A pack of hundreds of tensors. */
static void packs_are_read_alike(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 2; round++) {
        uint64_t seed = 200 + round, sizes[WORLD_TENSORS];
        decode_world w;
        for (uint32_t t = 0; t < WORLD_TENSORS; t++)
            sizes[t] = pair_below(&seed, 5) == 0 ? 0 : 1 + pair_below(&seed, 60);
        world_open(&w, &seed, round ? WEFT_F32 : WEFT_BF16, sizes, WORLD_TENSORS, 50);
        world_change(&w, &seed, 50000);
        world_decode(&w, &seed, round ? 32 : 64);
        world_close(&w);
    }
}

/* Frames of several units. */
static void runs_are_read_alike(void **state)
{
    (void)state;
    const uint64_t sizes[] = {(1 << 18) + 5000, 3000, 300};
    uint64_t seed = 300;
    decode_world w;
    decode_case cases[4];
    uint32_t count = 0;
    world_open(&w, &seed, WEFT_BF16, sizes, COUNT(sizes), 7);
    world_change(&w, &seed, 2000);
    assert_true(w.layout->unit_count > 2);
    for (int level = WEFT_LEVEL_FAST; level <= WEFT_LEVEL_TIGHT; level++) {
        uint8_t *bytes;
        const uint64_t length = world_encode(&w, 0, (uint32_t)w.layout->unit_count, (weft_level)level, &bytes);
        assert_true(case_open(&w, &cases[count++], bytes, length, level == WEFT_LEVEL_TIGHT ? 1 << 18 : 0));
        assert_true(cases[count - 1].job.base.units > 2);
    }
    batch_run(&w, cases, count, 64, seed);
    assert_int_equal(cases[0].host.status, WEFT_OK);
    assert_int_equal(cases[1].host.status, WEFT_OK);
    batch_close(cases, &count);
    world_close(&w);
}

static void mutate(uint64_t *seed, uint8_t *bytes, uint64_t length)
{
    for (uint64_t flips = 1 + pair_below(seed, 3); flips > 0; flips--) {
        uint64_t at = pair_below(seed, 3) == 0 ? pair_below(seed, 40) : pair_below(seed, length);
        at = at < length ? at : length - 1;
        bytes[at] =
            pair_below(seed, 4) == 0 ? (uint8_t)pair_random(seed) : bytes[at] ^ (uint8_t)(1u << pair_below(seed, 8));
    }
}

typedef struct tally {
    uint64_t corrupt, base, decoded;
} tally;

static void tally_add(tally *sum, const decode_case *cases, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sum->corrupt += cases[i].gpu.status == WEFT_E_CORRUPT;
        sum->base += cases[i].gpu.status == WEFT_E_BASE;
        sum->decoded += cases[i].gpu.status == WEFT_OK;
    }
}

/* A batch of altered copies of one frame. */
static void frame_attacked(decode_world *w, uint64_t *seed, const uint8_t *good, uint64_t length, uint32_t lanes,
                           tally *sum)
{
    decode_case cases[WORLD_FRAMES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < WORLD_FRAMES; i++) {
        uint8_t *bytes = pair_memory(length);
        memcpy(bytes, good, length);
        mutate(seed, bytes, length);
        if (case_open(w, &cases[count], bytes, length, 0))
            count++;
        else
            free(bytes);
    }
    batch_run(w, cases, count, lanes, *seed);
    tally_add(sum, cases, count);
    batch_close(cases, &count);
}

static void altered_frames_are_judged_alike(void **state)
{
    (void)state;
    tally sum = {0};
    const uint64_t rounds = full_tier() ? 16 : 4;
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t seed = 400 + round;
        const uint64_t sizes[] = {round % 7 == 0 ? 1 : 1500, 40};
        decode_world w;
        world_open(&w, &seed, dtypes[round % COUNT(dtypes)], sizes, 2, 3);
        world_change(&w, &seed, 60000);
        w.target[0] ^= 1;
        for (int level = WEFT_LEVEL_PAIRS; level < WEFT_LEVEL_COUNT; level++) {
            uint8_t *bytes;
            const uint64_t length = world_encode(&w, 0, 1, (weft_level)level, &bytes);
            frame_attacked(&w, &seed, bytes, length, round % 2 ? 32 : 64, &sum);
            free(bytes);
        }
        world_close(&w);
    }
    assert_true(sum.corrupt > 100);
    assert_true(sum.base > 20);
    assert_true(sum.decoded > 100);
}

/* Makes payloads of noise after headers that pass, so that decoding has no help. */
static uint8_t *noise_make(uint64_t *seed, const weft_unit *unit, uint32_t classes, uint64_t *length)
{
    const bool tight = pair_below(seed, 2);
    weft_frame_header header = {.units = 1, .level = tight ? WEFT_LEVEL_TIGHT : WEFT_LEVEL_FAST};
    header.changed = 1 + (uint32_t)pair_below(seed, pair_below(seed, 2) ? 20 : 900);
    header.payload_bytes = 4 * (uint32_t)(25 + pair_below(seed, 900u * unit->width / 4 - 26));
    uint32_t positioned = 1 + (uint32_t)pair_below(seed, (1u << classes) - 1);
    uint32_t exceptional = positioned & (uint32_t)pair_random(seed) & (uint32_t)pair_random(seed);
    uint32_t lists = (uint32_t)__builtin_popcount(positioned) + (uint32_t)__builtin_popcount(exceptional) + 1;
    header.parameters = tight ? positioned | exceptional << 16
                              : (uint32_t)(pair_below(seed, header.changed + 1) | pair_below(seed, 4) << 20 |
                                           pair_below(seed, 8u * unit->width) << 25);
    *length = 16 + header.payload_bytes;
    uint8_t *bytes = pair_memory(*length);
    weft_frame_write_header(bytes, &header);
    uint8_t thin = (uint8_t)(pair_below(seed, 2) ? 0xff : 0x11);
    for (uint32_t i = 0; i < header.payload_bytes; i++)
        bytes[16 + i] = (uint8_t)pair_random(seed) & thin;
    for (uint32_t i = 0; tight && i < lists && 3 * i + 3 <= header.payload_bytes; i++) {
        uint32_t word = 1 + (uint32_t)pair_below(seed, 100 / lists + 1);
        word |= (uint32_t)pair_below(seed, 4) << 18 | (uint32_t)(pair_below(seed, 10) == 0) << 23;
        memcpy(bytes + 16 + 3 * (uint64_t)i, &word, 3);
    }
    return bytes;
}

static void noise_is_judged_alike(void **state)
{
    (void)state;
    tally sum = {0};
    static const uint64_t size = 900;
    const uint64_t rounds = full_tier() ? 12 : 4;
    for (uint64_t round = 0; round < rounds; round++) {
        uint64_t seed = 500 + round;
        decode_world w;
        decode_case cases[WORLD_FRAMES];
        uint32_t count = 0;
        world_open(&w, &seed, dtypes[round % COUNT(dtypes)], &size, 1, 3);
        const weft_unit *unit = &w.layout->units[0];
        uint32_t classes = w.parameters.classes[weft_kind_of(unit->width, unit->exponent_bits)].thresholds + 1;
        for (uint32_t i = 0; i < WORLD_FRAMES; i++) {
            uint64_t length;
            uint8_t *bytes = noise_make(&seed, unit, classes, &length);
            if (case_open(&w, &cases[count], bytes, length, 0))
                count++;
            else
                free(bytes);
        }
        batch_run(&w, cases, count, round % 2 ? 32 : 64, seed);
        tally_add(&sum, cases, count);
        batch_close(cases, &count);
        world_close(&w);
    }
    assert_true(sum.corrupt > 50);
    assert_true(sum.base > 20);
}

int main(void)
{
    weft_log_sink quiet = {.level = WEFT_LOG_ERROR};
    weft_log_enter(&quiet);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_frames_are_read_alike), cmocka_unit_test(dense_frames_are_read_alike),
        cmocka_unit_test(large_frames_are_read_alike),  cmocka_unit_test(packs_are_read_alike),
        cmocka_unit_test(runs_are_read_alike),          cmocka_unit_test(altered_frames_are_judged_alike),
        cmocka_unit_test(noise_is_judged_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

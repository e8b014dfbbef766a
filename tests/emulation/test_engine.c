/* test_engine.c - the emulation runs sound kernels as they are meant and finds what is wrong with the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/emulation/broken.h"

#define BLOCK 256u

static const weft_emulated *broken(uint32_t lanes)
{
    return lanes == 32 ? weft_broken_32 : weft_broken_64;
}

static const char *run(uint32_t lanes, uint64_t seed, enum weft_broken which, uint32_t blocks, void *argument)
{
    const weft_schedule schedule = {lanes, seed, 0};
    return weft_emulation_run(&schedule, broken(lanes)[which], blocks, (uint64_t)(uintptr_t)argument);
}

static void sound_check(uint32_t lanes, uint64_t seed)
{
    enum { BLOCKS = 5 };
    static uint64_t out[BLOCKS][BLOCK][3];
    memset(out, 0, sizeof out);
    assert_null(run(lanes, seed, WEFT_BROKEN_SOUND, BLOCKS, out));
    for (uint32_t b = 0; b < BLOCKS; b++) {
        for (uint32_t t = 0; t < BLOCK; t++) {
            const uint64_t first = t / lanes * lanes;
            assert_int_equal(out[b][t][0], (t + 1) % BLOCK * 7);
            assert_int_equal(out[b][t][1], lanes * first + lanes * (lanes - 1) / 2);
            assert_true(out[b][t][2] == UINT64_C(0x5555555555555555) >> (64 - lanes));
        }
    }
}

#ifdef WEFT_EMULATION_THREADS
#define SEEDS 2u
#else
#define SEEDS 20u
#endif

static void sound_kernels_pass(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint64_t sum = 0;
        sound_check(32, seed);
        sound_check(64, seed);
        assert_null(run(seed % 2 ? 32 : 64, seed, WEFT_BROKEN_ADD, 3, &sum));
        assert_int_equal(sum, 3 * BLOCK * (BLOCK - 1) / 2);
    }
}

#ifndef WEFT_EMULATION_THREADS
static void faults_are_found(void **state)
{
    (void)state;
    for (uint32_t lanes = 32; lanes <= 64; lanes += 32) {
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            for (int which = WEFT_BROKEN_BALLOT_IN_BRANCH; which <= WEFT_BROKEN_BARRIER_FOR_BALLOT; which++) {
                const char *error = run(lanes, seed, (enum weft_broken)which, 2, NULL);
                if (!error)
                    fail_msg("%u lanes, seed %u: fault %d was not found", lanes, (unsigned)seed, which);
                else if (!strstr(error, "broken.cpp:"))
                    fail_msg("fault %d, no place: %s", which, error);
            }
        }
    }
}

/* The engine does not see it, but its noise does: what is read differs from what it should be under some schedule. */
static void stale_shared_memory_shows(void **state)
{
    static uint32_t out[2][BLOCK];
    (void)state;
    for (uint32_t lanes = 32; lanes <= 64; lanes += 32) {
        uint32_t wrong = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            assert_null(run(lanes, seed, WEFT_BROKEN_BARRIER_MISSING, 2, out));
            for (uint32_t t = 0; t < 2 * BLOCK; t++)
                wrong += out[t / BLOCK][t % BLOCK] != (t % BLOCK + lanes) % BLOCK;
        }
        assert_true(wrong > 0);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_kernels_pass),
#ifndef WEFT_EMULATION_THREADS
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(stale_shared_memory_shows),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

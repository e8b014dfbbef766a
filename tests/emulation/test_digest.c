/* test_digest.c - the kernel of full digests against the law, for every width, alignment and length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/kernels/rows.h"
#include "layout/digest.h"
#include "tests/emulation/emulation.h"

#define ROWS 24u

static uint64_t random_state = 7;

static uint64_t draw(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return random_state >> 29;
}

static uint64_t expected(const uint8_t *data, uint64_t element, uint32_t count, uint32_t width)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, data + (size_t)i * width, width);
        sum += weft_digest_term(element + i, bits);
    }
    return sum;
}

/* Rows of one batch: their elements begin at any multiple of the width, each in an allocation of its own. */
static void batch_check(uint32_t lanes, uint32_t longest)
{
    static const uint32_t widths[] = {1, 2, 4, 8};
    weft_k_digest rows[ROWS];
    uint64_t sums[ROWS / 2] = {0}, wanted[ROWS / 2] = {0};
    uint8_t *memory[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t width = widths[draw() % 4], off = (uint32_t)(draw() % 16) / width * width;
        const uint32_t count = r < 4 ? r : (uint32_t)(draw() % longest);
        const uint64_t element = draw() << 10;
        memory[r] = malloc(off + (size_t)count * width + 1);
        for (size_t i = 0; i < (size_t)count * width; i++)
            memory[r][off + i] = (uint8_t)draw();
        rows[r] = (weft_k_digest){.data = (uint64_t)(uintptr_t)memory[r] + off,
                                  .element = element,
                                  .sum = (uint64_t)(uintptr_t)&sums[r / 2],
                                  .count = count,
                                  .width = width};
        wanted[r / 2] += expected(memory[r] + off, element, count, width);
    }
    const weft_schedule schedule = {lanes, draw(), 0};
    assert_null(weft_emulation_launch(&schedule, WEFT_GPU_KERNEL_digest, ROWS, (uint64_t)(uintptr_t)rows));
    assert_memory_equal(sums, wanted, sizeof sums);
    for (uint32_t r = 0; r < ROWS; r++)
        free(memory[r]);
}

static void digests_are_the_laws(void **state)
{
    (void)state;
    for (uint32_t lanes = 32; lanes <= 64; lanes += 32) {
        batch_check(lanes, 40);
        batch_check(lanes, 6000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(digests_are_the_laws)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

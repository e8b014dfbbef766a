/* The AVX-512 loops of level tight, recompiled for any CPU, do what their contract says, however they ask for
 * memory. */
#define weft_host_tight_avx512 weft_host_tight_avx512_simde
#include "backends/host/tight/host_tight_avx512.c"

#include "tests/support/kernel_tight.h"

static void simde_is_right(void **state)
{
    (void)state;
    for (int row = 0; row < WEFT_HOST_AHEAD_ROWS; row++) {
        weft_host_ahead_here = weft_host_ahead_rows[row];
        tight_is_right(&weft_host_tight_avx512_simde, &weft_host_portable);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(simde_is_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

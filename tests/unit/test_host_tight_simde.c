/* The AVX-512 loops of level tight, recompiled for any CPU, do what their contract says. */
#define weft_host_tight_avx512 weft_host_tight_avx512_simde
#include "backends/host_tight_avx512.c"

#include "tests/support/kernel_tight.h"

static void simde_is_right(void **state)
{
    (void)state;
    tight_is_right(&weft_host_tight_avx512_simde, &weft_host_portable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(simde_is_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

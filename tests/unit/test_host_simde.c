/* The AVX-512 kernel set, recompiled for any CPU, gives the bytes of the portable one. */
#define weft_host_avx512 weft_host_avx512_simde
#include "backends/host/host_avx512.c"

#include "tests/support/kernel_fast.h"

static void simde_equals_portable(void **state)
{
    (void)state;
    sets_give_equal_bytes(&weft_host_portable, &weft_host_avx512_simde);
    fast_gives_equal_bytes(&weft_host_portable, &weft_host_avx512_simde);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(simde_equals_portable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

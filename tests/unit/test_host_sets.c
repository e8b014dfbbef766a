/* Every kernel set that this CPU runs gives the bytes of the portable one. */
#include "tests/support/kernel_fast.h"

#include "backends/host_state.h"

static void set_equals_portable(const char *name)
{
    const weft_host_kernels *kernels;
    if (weft_host_choose(name, &kernels) != WEFT_OK)
        skip();
    assert_string_equal(kernels->name, name);
    sets_give_equal_bytes(&weft_host_portable, kernels);
    fast_gives_equal_bytes(&weft_host_portable, kernels);
}

static void portable_equals_itself(void **state)
{
    (void)state;
    set_equals_portable("portable");
}

static void avx2_equals_portable(void **state)
{
    (void)state;
    set_equals_portable("avx2");
}

static void avx512_equals_portable(void **state)
{
    (void)state;
    set_equals_portable("avx512");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portable_equals_itself),
        cmocka_unit_test(avx2_equals_portable),
        cmocka_unit_test(avx512_equals_portable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

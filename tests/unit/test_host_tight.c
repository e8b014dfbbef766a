/* The loops of level tight of every kernel set that this CPU runs do what their contract says, however they
 * ask for memory. */
#include "tests/support/kernel_tight.h"

#include "backends/host/host_ahead.h"
#include "backends/host/host_state.h"

static void set_is_right(const char *name)
{
    const weft_backend_options options = {.device = -1, .kernels = name};
    weft_backend_state *state = NULL;
    if (weft_backend_host.open(&options, &state) != WEFT_OK)
        skip();
    assert_true((state->tight == &weft_host_tight_portable) == (state->kernels == &weft_host_portable));
    const weft_host_ahead here = weft_host_ahead_here;
    for (int row = 0; row < WEFT_HOST_AHEAD_ROWS; row++) {
        weft_host_ahead_here = weft_host_ahead_rows[row];
        tight_is_right(state->tight, state->kernels);
    }
    weft_host_ahead_here = here;
    weft_backend_host.close(state);
}

static void portable_is_right(void **state)
{
    (void)state;
    set_is_right("portable");
}

static void avx2_is_right(void **state)
{
    (void)state;
    set_is_right("avx2");
}

static void avx512_is_right(void **state)
{
    (void)state;
    set_is_right("avx512");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portable_is_right),
        cmocka_unit_test(avx2_is_right),
        cmocka_unit_test(avx512_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

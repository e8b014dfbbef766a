/* The host backend's choice of kernels, the registry, and the list of devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/host/host.h"

static weft_status opened(const char *kernels, char chosen[16])
{
    const weft_backend_options options = {.device = -1, .kernels = kernels};
    weft_backend_state *state = NULL;
    weft_status status = weft_backend_host.open(&options, &state);
    if (status == WEFT_OK) {
        strncpy(chosen, weft_backend_host.kernels(state), 15);
        chosen[15] = 0;
    }
    weft_backend_host.close(state);
    return status;
}

static int environment_clear(void **state)
{
    (void)state;
    return unsetenv("WEFT_KERNELS");
}

static void kernels_are_chosen_by_name(void **state)
{
    (void)state;
    char chosen[16];
    assert_int_equal(opened("portable", chosen), WEFT_OK);
    assert_string_equal(chosen, "portable");
    assert_int_equal(opened("sse9", chosen), WEFT_E_MISSING);
    assert_non_null(strstr(weft_last_error(), "\"sse9\""));
    assert_int_equal(opened("", chosen), WEFT_E_MISSING);
    assert_int_equal(opened("auto", chosen), WEFT_OK);
}

/* A set either runs or says what is missing, and auto takes the first that runs. */
static void sets_are_had_or_explained(void **state)
{
    (void)state;
    const char *const sets[] = {"avx512", "avx2", "portable"};
    const char *best = NULL;
    char chosen[16];
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        weft_status status = opened(sets[i], chosen);
        if (status == WEFT_OK) {
            assert_string_equal(chosen, sets[i]);
            best = best ? best : sets[i];
            continue;
        }
        assert_int_equal(status, WEFT_E_MISSING);
        assert_non_null(strstr(weft_last_error(), sets[i]));
        assert_non_null(strstr(weft_last_error(), "missing "));
    }
    assert_non_null(best);
    assert_int_equal(opened("auto", chosen), WEFT_OK);
    assert_string_equal(chosen, best);
}

static void environment_overrides_auto_alone(void **state)
{
    (void)state;
    char chosen[16];
    setenv("WEFT_KERNELS", "portable", 1);
    assert_int_equal(opened("auto", chosen), WEFT_OK);
    assert_string_equal(chosen, "portable");
    setenv("WEFT_KERNELS", "sse9", 1);
    assert_int_equal(opened("auto", chosen), WEFT_E_MISSING);
    assert_int_equal(opened("portable", chosen), WEFT_OK);
    setenv("WEFT_KERNELS", "", 1);
    assert_int_equal(opened("auto", chosen), WEFT_OK);
}

static void tables_are_found_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(weft_backend_find("host"), &weft_backend_host);
    assert_ptr_equal(weft_backend_find("auto"), &weft_backend_host);
    assert_null(weft_backend_find("abacus"));
    size_t count = 0;
    for (const weft_backend *backend; (backend = weft_backend_at(count)); count++) {
        assert_int_equal(backend->abi, WEFT_BACKEND_ABI);
        assert_ptr_equal(weft_backend_find(backend->name), backend);
    }
    assert_true(count >= 1);
}

static void a_lent_table_comes_before_that_of_its_name(void **state)
{
    (void)state;
    weft_backend guest = weft_backend_host;
    weft_backend_lend(&guest);
    assert_ptr_equal(weft_backend_find("host"), &guest);
    assert_ptr_equal(weft_backend_find("auto"), &weft_backend_host);
    weft_backend_lend(NULL);
    assert_ptr_equal(weft_backend_find("host"), &weft_backend_host);
}

static void devices_are_listed_with_reasons(void **state)
{
    (void)state;
    weft_device_info devices[16];
    size_t count = 0, again = 0;
    const char *const wanted[] = {"host", "cuda", "hip"};
    assert_int_equal(weft_devices(devices, 16, &count), WEFT_OK);
    assert_true(count >= 3 && count <= 16);
    for (int w = 0; w < 3; w++) {
        size_t i = 0;
        while (i < count && strcmp(devices[i].backend, wanted[w]) != 0)
            i++;
        assert_true(i < count);
        assert_true(devices[i].detail[0] != 0);
        assert_true(w > 0 || (devices[i].usable && devices[i].name[0] && devices[i].memory_bytes > 0));
    }
    assert_int_equal(weft_devices(NULL, 0, &again), WEFT_OK);
    assert_int_equal(again, count);
    memset(devices, 0x5a, sizeof(devices));
    assert_int_equal(weft_devices(devices, 1, &again), WEFT_OK);
    assert_int_equal(again, count);
    assert_int_equal(((unsigned char *)&devices[1])[0], 0x5a);
    assert_int_equal(weft_devices(NULL, 4, &again), WEFT_E_ARGUMENT);
    assert_int_equal(weft_devices(devices, 4, NULL), WEFT_E_ARGUMENT);
}

static void a_wrong_environment_makes_the_host_unusable_but_listed(void **state)
{
    (void)state;
    weft_device_info devices[16];
    size_t count = 0;
    setenv("WEFT_KERNELS", "sse9", 1);
    assert_int_equal(weft_devices(devices, 16, &count), WEFT_OK);
    assert_string_equal(devices[0].backend, "host");
    assert_int_equal(devices[0].usable, 0);
    assert_non_null(strstr(devices[0].detail, "WEFT_KERNELS"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(kernels_are_chosen_by_name, environment_clear),
        cmocka_unit_test_setup(sets_are_had_or_explained, environment_clear),
        cmocka_unit_test_setup(environment_overrides_auto_alone, environment_clear),
        cmocka_unit_test_setup(tables_are_found_by_name, environment_clear),
        cmocka_unit_test_setup(a_lent_table_comes_before_that_of_its_name, environment_clear),
        cmocka_unit_test_setup(devices_are_listed_with_reasons, environment_clear),
        cmocka_unit_test_setup_teardown(a_wrong_environment_makes_the_host_unusable_but_listed, environment_clear,
                                        environment_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

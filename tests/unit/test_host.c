/* The host backend's choice of kernels, the registry, and the list of devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/host/host.h"
#include "backends/host/host_boxes.h"
#include "backends/host/host_state.h"
#include "layout/layout.h"

/* Weights in two pieces, of which the first, the second or both changed since they were staged: apply says so, and undo
 * puts back what apply found. */
static void apply_says_what_changed(void **state)
{
    const uint64_t shape = 8;
    const weft_tensor tensor = {"t", WEFT_U8, 1, &shape};
    const weft_backend_options options = {.device = -1, .kernels = "auto"};
    weft_backend_state *device = NULL;
    weft_layout *layout = NULL;
    void *none = NULL;
    (void)state;
    assert_int_equal(weft_layout_create(&tensor, 1, &layout), WEFT_OK);
    assert_int_equal(weft_backend_host.open(&options, &device), WEFT_OK);
    assert_int_equal(weft_backend_host.memory_take(device, 64, WEFT_MEMORY_DEVICE, &none), WEFT_E_ARGUMENT);
    assert_null(none);
    for (unsigned changed = 0; changed < 4; changed++) {
        uint8_t memory[16] = {0}, found[16], before[] = {0, 0}, after[] = {7, 8};
        uint32_t position[] = {1, 6};
        const weft_piece pieces[] = {{0, 0, 4, memory}, {0, 4, 4, memory + 8}};
        weft_changes changes = {
            .units = 1, .count = 2, .capacity = 2, .position = position, .before = before, .after = after};
        weft_binding binding;
        assert_int_equal(weft_binding_open(layout, pieces, 2, &binding), WEFT_OK);
        memory[1] = changed & 1 ? 5 : 0;
        memory[10] = changed & 2 ? 5 : 0;
        memcpy(found, memory, sizeof memory);
        weft_apply_job apply = {.target = weft_binding_view(&binding, 0), .changes = &changes};
        assert_int_equal(weft_backend_host.apply(device, &apply), WEFT_OK);
        assert_int_equal(apply.mismatch, changed != 0);
        assert_true(memory[1] == 7 && memory[10] == 8);
        weft_undo_job undo = {.target = apply.target, .changes = &changes};
        assert_int_equal(weft_backend_host.undo(device, &undo), WEFT_OK);
        assert_memory_equal(memory, found, sizeof memory);
        weft_binding_close(&binding);
    }
    weft_backend_host.close(device);
    weft_layout_free(layout);
}

/* Each part of a matrix in two boxes is copied out of them, and nothing beyond the part is written. */
static void parts_of_boxes_are_copied(void **state)
{
    enum { ROWS = 3, COLUMNS = 8, ALL = ROWS * COLUMNS };
    static const uint64_t shape[] = {ROWS, COLUMNS};
    const weft_tensor tensor = {"t", WEFT_U8, 2, shape};
    const weft_host_kernels *kernels = NULL;
    uint8_t memory[2][32], out[ALL + 2];
    const weft_block blocks[] = {
        {.slice = {0, 0, ROWS, 0, 5}, .data = memory[0], .row = {{ROWS, 7}}, .column = {{5, 1}}},
        {.slice = {0, 0, ROWS, 5, 3}, .data = memory[1], .row = {{ROWS, 1}}, .column = {{3, 9}}},
    };
    weft_layout *layout = NULL;
    weft_binding binding;
    (void)state;
    for (uint8_t at = 0; at < ALL; at++) {
        const unsigned row = at / COLUMNS, column = at % COLUMNS;
        *(column < 5 ? &memory[0][row * 7 + column] : &memory[1][row + (column - 5) * 9]) = (uint8_t)(at + 1);
    }
    assert_int_equal(weft_layout_create(&tensor, 1, &layout), WEFT_OK);
    assert_int_equal(weft_binding_open_blocks(layout, blocks, 2, &binding), WEFT_OK);
    assert_int_equal(weft_host_choose("auto", &kernels), WEFT_OK);
    for (uint32_t first = 0; first < ALL; first++)
        for (uint32_t count = 1; first + count <= ALL; count++) {
            const weft_host_range range = {0, first, count, 1};
            memset(out, 0xee, sizeof out);
            weft_host_boxes_load(kernels, binding.boxes, &range, out + 1);
            for (uint32_t i = 0; i < sizeof out; i++)
                assert_int_equal(out[i], i == 0 || i > count ? 0xee : first + i);
        }
    weft_binding_close(&binding);
    weft_layout_free(layout);
}

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
        cmocka_unit_test(apply_says_what_changed),
        cmocka_unit_test(parts_of_boxes_are_copied),
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

/* Weights of the command in a device's memory: what is put there comes back, and every function of the drivers may
 * fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fake_gpu/world.h"
#include "tools/serve/device_weights.h"

enum { TENSORS = 7, FUNCTIONS = 64, UNKNOWN = 999 };

/* Odd sizes, an empty tensor, small ones in a row, and one that needs more than both buffers. */
static const uint64_t sizes[TENSORS] = {3, 0, 1, 40000001, 17, 16, 5};

typedef struct model {
    weft_layout *layout;
    weft_piece pieces[TENSORS];
    uint8_t *dense, *back;
    uint64_t bytes, came;
} model;

static model model_open(uint64_t divisor)
{
    static const char *const names[TENSORS] = {"a", "b", "c", "d", "e", "f", "g"};
    weft_tensor tensors[TENSORS];
    uint64_t shapes[TENSORS];
    model m = {0};
    for (int t = 0; t < TENSORS; t++) {
        shapes[t] = sizes[t] > divisor ? sizes[t] / divisor : sizes[t];
        tensors[t] = (weft_tensor){names[t], WEFT_U8, 1, &shapes[t]};
        m.bytes += shapes[t];
    }
    assert_int_equal(weft_layout_create(tensors, TENSORS, &m.layout), WEFT_OK);
    m.dense = malloc(m.bytes);
    m.back = malloc(m.bytes);
    assert_true(m.dense && m.back);
    uint8_t *at = m.dense;
    for (int t = 0; t < TENSORS; at += shapes[t], t++)
        m.pieces[t] = (weft_piece){(uint64_t)t, 0, shapes[t], at};
    return m;
}

static void model_close(model *m)
{
    weft_layout_free(m->layout);
    free(m->dense);
    free(m->back);
}

static void draw(model *m, uint32_t seed)
{
    for (uint64_t i = 0; i < m->bytes; i++)
        m->dense[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

static weft_status take_back(void *user, const void *data, uint64_t bytes)
{
    model *m = user;
    assert_true(bytes <= m->bytes - m->came);
    memcpy(m->back + m->came, data, bytes);
    m->came += bytes;
    return WEFT_OK;
}

/* Two models, one after the other; returns the first failure. */
static weft_status there_and_back(const world_vendor *vendor, model *m)
{
    weft_device_weights *weights;
    weft_status status = weft_device_weights_open(vendor->driver, 1, m->layout, &weights);
    if (status != WEFT_OK)
        return status;
    for (uint32_t seed = 1; seed <= 2 && status == WEFT_OK; seed++) {
        draw(m, seed);
        m->came = 0;
        status = weft_device_weights_fill(weights, m->pieces);
        if (status == WEFT_OK)
            status = weft_device_weights_read(weights, &(weft_sink){m, take_back});
        if (status == WEFT_OK) {
            assert_int_equal(m->came, m->bytes);
            assert_memory_equal(m->back, m->dense, m->bytes);
        }
    }
    weft_device_weights_close(weights);
    return status;
}

static void come_back(void **state)
{
    model m = model_open(1);
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        world_load(&world[v]);
        int before = world[v].fake->chosen();
        assert_int_equal(there_and_back(&world[v], &m), WEFT_OK);
        assert_int_equal(world[v].fake->live(), 0);
        assert_int_equal(world[v].fake->slow_copies(), 0);
        assert_int_equal(world[v].fake->chosen(), before);
    }
    model_close(&m);
}

/* The tensors lie on the wanted device, each aligned to 16 bytes. */
static void lie_in_place(void **state)
{
    (void)state;
    model m = model_open(1000);
    weft_device_weights *weights;
    uint64_t count = 0;
    char text[192];
    world_vendor *vendor = &world[WORLD_HIP];
    weft_gpu_device *device[2];
    world_load(vendor);
    assert_int_equal(weft_device_weights_open(vendor->driver, 1, m.layout, &weights), WEFT_OK);
    for (int d = 0; d < 2; d++)
        assert_int_equal(vendor->driver->open(d, &device[d]), WEFT_OK);
    const weft_piece *pieces = weft_device_weights_pieces(weights, &count);
    assert_int_equal(count, TENSORS);
    for (uint64_t t = 0; t < count; t++) {
        uint64_t at = (uintptr_t)pieces[t].data;
        assert_int_equal(pieces[t].count, m.pieces[t].count);
        assert_int_equal(at % 16, 0);
        if (pieces[t].count == 0)
            continue;
        assert_null(vendor->driver->reaches(device[1], at, pieces[t].count, text, sizeof text));
        assert_non_null(vendor->driver->reaches(device[0], at, pieces[t].count, text, sizeof text));
    }
    for (int d = 0; d < 2; d++)
        vendor->driver->close(device[d]);
    weft_device_weights_close(weights);
    assert_int_equal(vendor->fake->live(), 0);
    model_close(&m);
}

static void fail_at(world_vendor *vendor, model *m, const char *symbol, uint64_t nth)
{
    world_reset(vendor, nth);
    vendor->fake->spoil(symbol, nth, UNKNOWN, false);
    weft_status status = there_and_back(vendor, m);
    assert_in_range(vendor->fake->live(), 0, 1); /* one thing, where it is the giving back that fails */
    if (status != WEFT_OK)
        assert_true(status == WEFT_E_DEVICE || status == WEFT_E_MISSING);
    vendor->fake->choose(-1);
}

static void every_call_fails(void **state)
{
    const char *symbols[FUNCTIONS];
    uint64_t calls[FUNCTIONS];
    uint32_t count = 0;
    model m = model_open(1000);
    world_vendor *vendor = *state;
    world_load(vendor);
    assert_int_equal(there_and_back(vendor, &m), WEFT_OK);
    for (; (symbols[count] = vendor->fake->symbol(count)); count++)
        calls[count] = vendor->fake->calls(symbols[count]);
    assert_in_range(count, 15, FUNCTIONS);
    for (uint32_t f = 0; f < count; f++)
        for (uint64_t nth = 1; nth <= calls[f]; nth += calls[f] > 8 ? calls[f] / 8 : 1)
            fail_at(vendor, &m, symbols[f], nth);
    world_reset(vendor, 1);
    assert_int_equal(there_and_back(vendor, &m), WEFT_OK);
    model_close(&m);
}

static void too_large(void **state)
{
    (void)state;
    model m = model_open(1);
    weft_device_weights *weights;
    world_vendor *vendor = &world[WORLD_CUDA];
    const uint64_t usual = vendor->options.memory_bytes;
    vendor->options.memory_bytes = 32 << 20;
    world_load(vendor);
    assert_int_equal(weft_device_weights_open(vendor->driver, 0, m.layout, &weights), WEFT_E_MEMORY);
    assert_non_null(strstr(weft_last_error(), "weights of"));
    assert_int_equal(vendor->fake->live(), 0);
    vendor->options.memory_bytes = usual;
    model_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(come_back),
        cmocka_unit_test(lie_in_place),
        cmocka_unit_test(too_large),
        cmocka_unit_test_prestate(every_call_fails, &world[WORLD_CUDA]),
        cmocka_unit_test_prestate(every_call_fails, &world[WORLD_HIP]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

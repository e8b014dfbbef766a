/* The device backends' report on drivers and devices, and the image that they take: nothing crashes, and every reason
 * is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/fake_gpu/world.h"

static void probe_one(const world_vendor *vendor, weft_device_info *info)
{
    memset(info, 0xa5, sizeof *info);
    assert_int_equal(vendor->driver->probe(info, 1), 1);
    assert_string_equal(info->backend, vendor->driver->name);
}

static void open_refused(const world_vendor *vendor, int number, weft_status status, const char *text)
{
    weft_gpu_device *device = (weft_gpu_device *)&device;
    assert_int_equal(vendor->driver->open(number, &device), status);
    assert_null(device);
    assert_non_null(strstr(weft_last_error(), text));
    if (vendor->fake)
        assert_int_equal(vendor->fake->live(), 0);
}

/* The first test: nothing is loaded yet. */
static void no_library(void **state)
{
    (void)state;
    weft_device_info info;
    for (int i = 0; i < WORLD_VENDORS; i++) {
        if (world_is_real(&world[i]))
            continue;
        assert_false(world[i].driver->in_use());
        probe_one(&world[i], &info);
        assert_int_equal(info.usable, 0);
        assert_int_equal(info.device, -1);
        assert_non_null(strstr(info.detail, i == WORLD_CUDA ? "no NVIDIA driver" : "no AMD ROCm runtime"));
        assert_non_null(strstr(info.detail, world[i].sonames[0]));
        open_refused(&world[i], -1, WEFT_E_MISSING, info.detail);
        assert_int_equal(world[i].driver->probe(NULL, 0), 1);
    }
}

static void no_device(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *text;
    } rows[] = {{3, "does not start"},
                {34, "stub"},
                {35, "older"},
                {100, "no device"},
                {101, "no such device"},
                {802, "fabric manager"},
                {803, "last boot"},
                {804, "compatibility package"},
                {805, "MPS"},
                {999, "Unknown"},
                {998, "Other"}};
    for (int v = 0; v < WORLD_VENDORS; v++) {
        world_load(&world[v]);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            weft_device_info info;
            weft_fake_options options = world[v].options;
            options.init_code = rows[i].code;
            world[v].fake->reset(&options);
            probe_one(&world[v], &info);
            assert_int_equal(info.usable, 0);
            if (rows[i].code < 998)
                assert_non_null(strstr(info.detail, rows[i].text));
            open_refused(&world[v], 0, WEFT_E_MISSING, "but no device");
        }
        weft_fake_options options = world[v].options;
        options.devices = 0;
        world[v].fake->reset(&options);
        open_refused(&world[v], 0, WEFT_E_MISSING, "no device");
    }
}

static void devices_described(void **state)
{
    (void)state;
    weft_device_info devices[3];
    for (int v = 0; v < WORLD_VENDORS; v++) {
        world_load(&world[v]);
        memset(devices, 0xa5, sizeof devices);
        assert_int_equal(world[v].driver->probe(NULL, 0), 2);
        assert_int_equal(world[v].driver->probe(devices, 1), 2);
        assert_int_equal(world[v].driver->probe(devices, 3), 2);
        assert_int_equal(devices[1].device, 1);
        assert_int_equal(devices[1].usable, 1);
        assert_string_equal(devices[1].name, "emulated 1");
        assert_int_equal(devices[1].memory_bytes, world[v].options.memory_bytes);
        assert_non_null(
            strstr(devices[1].detail, v == WORLD_CUDA ? "driver 12.8, image sm_90" : "driver 6.3.42134, image gfx942"));
        assert_int_equal(world[v].fake->live(), 0);
    }
}

/* A device that its driver will not describe is listed all the same. */
static void calls_of_probe_fail(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        world_load(&world[v]);
        weft_device_info devices[2];
        assert_int_equal(world[v].driver->probe(devices, 2), 2);
        for (uint32_t i = 0; world[v].fake->symbol(i); i++) {
            world[v].fake->spoil(world[v].fake->symbol(i), 1, 999, false);
            size_t count = world[v].driver->probe(devices, 2);
            assert_true(world[v].fake->spoiled());
            assert_in_range(count, 1, 2);
            assert_int_equal(devices[0].usable, 0);
            assert_true(devices[0].detail[0]);
        }
    }
}

static const char *image_opened(const world_vendor *vendor)
{
    weft_gpu_device *device;
    static char name[64];
    if (vendor->driver->open(0, &device) != WEFT_OK)
        return NULL;
    snprintf(name, sizeof name, "%s", vendor->driver->image(device));
    vendor->driver->close(device);
    assert_int_equal(vendor->fake->live(), 0);
    return name;
}

static const struct weft_gpu_image every[] = {
    {.vendor = "cuda", .name = "sm_75"},  {.vendor = "cuda", .name = "sm_80"},  {.vendor = "cuda", .name = "sm_86"},
    {.vendor = "cuda", .name = "sm_90"},  {.vendor = "cuda", .name = "sm_100"}, {.vendor = "cuda", .name = "ptx"},
    {.vendor = "cuda", .name = "ptx75"},  {.vendor = "hip", .name = "gfx908"},  {.vendor = "hip", .name = "gfx90a"},
    {.vendor = "hip", .name = "gfx942"},  {.vendor = "hip", .name = "gfx950"},  {.vendor = "hip", .name = "gfx1030"},
    {.vendor = "hip", .name = "gfx1100"}, {.vendor = "hip", .name = "gfx1200"}, {0}};

static void images_chosen(void **state)
{
    (void)state;
    static const struct {
        int vendor, major, minor;
        const char *first, *second; /* that are tried */
    } rows[] = {
        {WORLD_CUDA, 7, 5, "sm_75", "ptx"},    {WORLD_CUDA, 8, 0, "sm_80", "ptx"},
        {WORLD_CUDA, 8, 6, "sm_86", "sm_80"},  {WORLD_CUDA, 8, 9, "sm_86", "sm_80"},
        {WORLD_CUDA, 9, 0, "sm_90", "ptx"},    {WORLD_CUDA, 10, 0, "sm_100", "ptx"},
        {WORLD_CUDA, 10, 3, "sm_100", "ptx"},  {WORLD_CUDA, 12, 0, "ptx", "ptx75"},
        {WORLD_CUDA, 7, 0, NULL, NULL},        {WORLD_CUDA, 6, 1, NULL, NULL},
        {WORLD_HIP, 9, 0, "gfx908", "gfx90a"}, {WORLD_HIP, 9, 4, "gfx942", NULL},
        {WORLD_HIP, 9, 5, "gfx950", NULL},     {WORLD_HIP, 10, 3, "gfx1030", NULL},
        {WORLD_HIP, 11, 0, "gfx1100", NULL},   {WORLD_HIP, 12, 0, "gfx1200", NULL},
        {WORLD_HIP, 10, 1, NULL, NULL},        {WORLD_HIP, 1, 0, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world_vendor *vendor = &world[rows[i].vendor];
        const char *load = rows[i].vendor == WORLD_CUDA ? "cuModuleLoadData" : "hipModuleLoadData";
        weft_device_info info[2];
        weft_fake_options options = vendor->options;
        world_load(vendor);
        options.major = rows[i].major;
        options.minor = rows[i].minor;
        vendor->fake->reset(&options);
        world_images = every;
        vendor->driver->probe(info, 2);
        assert_int_equal(info[0].usable, rows[i].first != NULL);
        if (!rows[i].first) {
            open_refused(vendor, 0, WEFT_E_MISSING, "no image for it");
            continue;
        }
        assert_non_null(strstr(info[0].detail, rows[i].first));
        assert_string_equal(image_opened(vendor), rows[i].first);
        vendor->fake->spoil(load, 1, 209, false);
        if (rows[i].second)
            assert_string_equal(image_opened(vendor), rows[i].second);
        else
            open_refused(vendor, 0, WEFT_E_MISSING, "no image of this build");
    }
}

static void detail_check(world_vendor *vendor, const struct weft_gpu_image *images, int major, int minor,
                         const char *text)
{
    weft_device_info info;
    weft_fake_options options = vendor->options;
    world_load(vendor);
    options.major = major;
    options.minor = minor;
    vendor->fake->reset(&options);
    world_images = images;
    vendor->driver->probe(&info, 1);
    if (!strstr(info.detail, text))
        fail_msg("%s: no \"%s\"", info.detail, text);
}

/* The list of devices says no more of the image than the driver gives. */
static void images_described(void **state)
{
    (void)state;
    static const struct weft_gpu_image ptx[] = {{.vendor = "cuda", .name = "ptx", .least = 90}, {0}};
    static const struct weft_gpu_image later[] = {{.vendor = "cuda", .name = "sm_90", .driver = 13000},
                                                  {.vendor = "cuda", .name = "ptx75", .driver = 11050},
                                                  {0}};
    static const struct weft_gpu_image latest[] = {{.vendor = "cuda", .name = "sm_90", .driver = 13000}, {0}};
    detail_check(&world[WORLD_HIP], every, 9, 0, "image gfx908 or gfx90a");
    detail_check(&world[WORLD_HIP], every, 9, 4, "image gfx942");
    detail_check(&world[WORLD_CUDA], every, 8, 9, "image sm_86");
    detail_check(&world[WORLD_CUDA], ptx, 9, 0, "image ptx, which the driver compiles");
    detail_check(&world[WORLD_CUDA], ptx, 8, 9, "no image for it");
    detail_check(&world[WORLD_CUDA], later, 9, 0, "image ptx75, which the driver compiles");
    detail_check(&world[WORLD_CUDA], latest, 9, 0, "no image for a driver that old");
}

/* Out of memory while an image is loaded is no reason to try another one. */
static void image_without_memory(void **state)
{
    (void)state;
    world_load(&world[WORLD_CUDA]);
    world_images = every;
    world[WORLD_CUDA].fake->spoil("cuModuleLoadData", 1, 2, false);
    open_refused(&world[WORLD_CUDA], 0, WEFT_E_MEMORY, "out of memory");
    assert_int_equal(world[WORLD_CUDA].fake->calls("cuModuleLoadData"), 1);
}

/* An image that lacks a kernel is of another build. */
static void image_without_kernel(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        world_load(&world[v]);
        world[v].fake->spoil(v == WORLD_CUDA ? "cuModuleGetFunction" : "hipModuleGetFunction", 1, 500, false);
        open_refused(&world[v], 0, WEFT_E_MISSING, "no image of this build");
    }
}

static void device_numbers(void **state)
{
    (void)state;
    for (int v = 0; v < WORLD_VENDORS; v++) {
        weft_gpu_device *device;
        world_load(&world[v]);
        open_refused(&world[v], 2, WEFT_E_CONFIG, "0 to 1");
        for (int number = -1; number < 2; number++) {
            world[v].fake->choose(1);
            assert_int_equal(world[v].driver->open(number, &device), WEFT_OK);
            assert_int_equal(world[v].driver->number(device), number < 0 ? 1 : number);
            assert_int_equal(world[v].fake->chosen(), 1);
            world[v].driver->close(device);
            assert_int_equal(world[v].fake->chosen(), 1);
        }
        world[v].fake->choose(-1);
        assert_int_equal(world[v].driver->open(-1, &device), WEFT_OK);
        assert_int_equal(world[v].driver->number(device), 0);
        world[v].driver->close(device);
    }
}

/* `auto` takes a device only where the process works with one by other means. */
static void in_use(void **state)
{
    (void)state;
    world_load(&world[WORLD_CUDA]);
    assert_false(world[WORLD_CUDA].driver->in_use());
    world[WORLD_CUDA].fake->choose(1);
    assert_true(world[WORLD_CUDA].driver->in_use());
    const weft_gpu_driver *driver = world[WORLD_CUDA].driver;
    weft_gpu_device *other, *current;
    world[WORLD_CUDA].fake->choose(-1); /* as on a thread of asyncio */
    assert_false(driver->in_use());
    assert_int_equal(driver->open(1, &other), WEFT_OK);
    assert_true(driver->in_use());
    assert_int_equal(driver->open(-1, &current), WEFT_OK);
    assert_int_equal(driver->number(current), 1);
    driver->close(other);
    driver->close(current);
    assert_false(driver->in_use());
    world_load(&world[WORLD_HIP]);
    assert_true(world[WORLD_HIP].driver->in_use());
    weft_fake_options options = world[WORLD_HIP].options;
    options.devices = 0;
    world[WORLD_HIP].fake->reset(&options);
    assert_false(world[WORLD_HIP].driver->in_use());
}

/* Memory that the kernels cannot reach is found by its first byte and by its last. */
static void memory_reached(void **state)
{
    (void)state;
    char text[128];
    for (int v = 0; v < WORLD_VENDORS; v++) {
        weft_gpu_device *device, *other;
        const weft_gpu_driver *driver = world[v].driver;
        world_load(&world[v]);
        assert_int_equal(driver->open(0, &device), WEFT_OK);
        assert_int_equal(driver->open(1, &other), WEFT_OK);
        uint64_t here = world[v].fake->take(0, 4096), there = world[v].fake->take(1, 4096), pinned, others;
        void *memory, *others_memory;
        assert_int_equal(driver->pinned_take(device, 4096, &memory, &pinned), WEFT_OK);
        assert_int_equal(driver->pinned_take(other, 4096, &others_memory, &others), WEFT_OK);
        assert_null(driver->reaches(device, here, 1, text, sizeof text));
        assert_null(driver->reaches(device, here + 4095, 1, text, sizeof text));
        assert_null(driver->reaches(device, here, 4096, text, sizeof text));
        assert_null(driver->reaches(device, pinned, 4096, text, sizeof text));
        assert_null(driver->reaches(device, others, 4096, text, sizeof text)); /* whichever device was current */
        assert_non_null(strstr(driver->reaches(device, here, 8192, text, sizeof text), "ends in"));
        assert_non_null(strstr(driver->reaches(device, there, 8, text, sizeof text), "device 1, not on 0"));
        assert_non_null(strstr(driver->reaches(device, (uintptr_t)text, 8, text, sizeof text), "host memory"));
        assert_non_null(strstr(driver->reaches(device, 0, 8, text, sizeof text), "host memory"));
        driver->pinned_give(device, memory);
        driver->pinned_give(other, others_memory);
        driver->close(device);
        driver->close(other);
        world[v].fake->give(here);
        world[v].fake->give(there);
        assert_int_equal(world[v].fake->live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_library),           cmocka_unit_test(no_device),
        cmocka_unit_test(devices_described),    cmocka_unit_test(calls_of_probe_fail),
        cmocka_unit_test(images_chosen),        cmocka_unit_test(images_described),
        cmocka_unit_test(image_without_memory), cmocka_unit_test(image_without_kernel),
        cmocka_unit_test(device_numbers),       cmocka_unit_test(in_use),
        cmocka_unit_test(memory_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

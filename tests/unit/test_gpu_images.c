/* test_gpu_images.c - the images that this build carries come out of the library as what their names say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "backends/gpu/gpu_images.h"
#include "base/mem.h"

/* Bytes that a driver would take for machine code or for PTX. */
static bool is_image(const char *name, const char *data)
{
    if (strncmp(name, "ptx", 3) == 0)
        return strstr(data, ".version ") && strstr(data, ".target sm_");
    return memcmp(data, "\177ELF", 4) == 0;
}

static void comes_out(void **state)
{
    (void)state;
    struct weft_gpu_image image;
    for (size_t i = 0; (image = weft_gpu_image_at(i)).name; i++) {
        char *data = weft_gpu_image_unpack(&image);
        assert_true(image.packed);
        assert_non_null(data);
        assert_true(is_image(image.name, data));
        assert_true((image.least != 0) == (strncmp(image.name, "ptx", 3) == 0));
        weft_mem_give(data);
    }
    if (!weft_gpu_image_at(0).name)
        skip(); /* a build without compilers for devices */
}

static void is_refused_when_cut(void **state)
{
    (void)state;
    struct weft_gpu_image image = weft_gpu_image_at(0);
    if (!image.name)
        skip();
    image.bytes /= 2;
    assert_null(weft_gpu_image_unpack(&image));
    image.bytes = 3;
    assert_null(weft_gpu_image_unpack(&image));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(comes_out), cmocka_unit_test(is_refused_when_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

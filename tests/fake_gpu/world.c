/* world.c - the drivers of the tests are loaded by their paths; the backends then find them by their sonames. */
#include "tests/fake_gpu/world.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES (UINT64_C(4) << 30)

world_vendor world[] = {
    {.file = WEFT_FAKE_CUDA_FILE,
     .sonames = {"libcuda.so.1"},
     .driver = &weft_gpu_driver_cuda,
     .options = {.devices = 2, .major = 9, .minor = 0, .version = 12080, .lanes = 32, .memory_bytes = MEMORY_BYTES}},
    {.file = WEFT_FAKE_HIP_FILE,
     .sonames = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
     .driver = &weft_gpu_driver_hip,
     .options = {.devices = 2, .major = 9, .minor = 4, .version = 60342134, .lanes = 64, .memory_bytes = MEMORY_BYTES}},
};

static const uint8_t bytes[] = "an image of the tests";
static const struct weft_gpu_image usual[] = {
    {.vendor = "cuda", .name = "sm_90", .data = bytes, .bytes = sizeof bytes - 1},
    {.vendor = "hip", .name = "gfx942", .data = bytes, .bytes = sizeof bytes - 1},
    {0}};
const struct weft_gpu_image *world_images;

#ifndef WEFT_IMAGE_AT
#define WEFT_IMAGE_AT __wrap_weft_gpu_image_at // NOLINT: the linker's name
struct weft_gpu_image WEFT_IMAGE_AT(size_t index);
#endif

struct weft_gpu_image WEFT_IMAGE_AT(size_t index) {
    const struct weft_gpu_image *images = world_images ? world_images : usual;
    size_t count = 0;
    while (images[count].name)
        count++;
    return images[index < count ? index : count];
}

bool world_is_real(const world_vendor *vendor)
{
    bool real = false;
    for (const char *const *soname = vendor->sonames; *soname && !real; soname++) {
        void *handle = dlopen(*soname, RTLD_NOW | RTLD_LOCAL);
        real = handle && !dlsym(handle, "weft_fake_gpu");
        if (handle)
            dlclose(handle);
    }
    return real;
}

void world_load(world_vendor *vendor)
{
    void *handle = vendor->fake ? NULL : dlopen(vendor->file, RTLD_NOW | RTLD_LOCAL);
    if (!vendor->fake && !handle) {
        fprintf(stderr, "%s: %s\n", vendor->file, dlerror());
        exit(1);
    }
    if (!vendor->fake) {
        void *symbol = dlsym(handle, "weft_fake_gpu");
        weft_fake_gpu_fn *control;
        memcpy(&control, &symbol, sizeof control);
        vendor->fake = control();
    }
    world_reset(vendor, 1);
}

void world_reset(world_vendor *vendor, uint64_t seed)
{
    weft_fake_options options = vendor->options;
    options.seed = seed;
    vendor->fake->reset(&options);
    vendor->fake->choose(-1);
    world_images = NULL;
}

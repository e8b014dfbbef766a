/* gpu_images.c - the images as read-only bytes of the library. */
#include "backends/gpu/gpu_images.h"

#include <stdio.h>
#include <string.h>

#if __has_include("weft_gpu_images.h")
#include "weft_gpu_images.h"
#else /* compiled by hand */
#define WEFT_GPU_IMAGES_CUDA "none, built without them"
#define WEFT_GPU_IMAGES_HIP  "none, built without them"
#define WEFT_GPU_IMAGES(ROW)
#endif

#define EMBED(vendor, name, file)                                                                                      \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".balign 4096\n"                                                                                           \
            ".global weft_gpu_image_" #name ", weft_gpu_image_end_" #name "\n"                                         \
            ".hidden weft_gpu_image_" #name ", weft_gpu_image_end_" #name "\n"                                         \
            "weft_gpu_image_" #name ": .incbin \"" file "\"\n"                                                         \
            "weft_gpu_image_end_" #name ": .byte 0\n"                                                                  \
            ".popsection\n");                                                                                          \
    extern const uint8_t weft_gpu_image_##name[], weft_gpu_image_end_##name[];
WEFT_GPU_IMAGES(EMBED)

static const struct embedded {
    const char *vendor, *name;
    const uint8_t *data, *end;
} images[] = {
#define ENTRY(vendor, name, file) {#vendor, #name, weft_gpu_image_##name, weft_gpu_image_end_##name},
    WEFT_GPU_IMAGES(ENTRY){0}};

static const size_t image_count = sizeof(images) / sizeof(images[0]) - 1; /* may be 0 */

struct weft_gpu_image weft_gpu_image_at(size_t index)
{
    if (index >= image_count)
        return (struct weft_gpu_image){0};
    const struct embedded *found = &images[index];
    return (struct weft_gpu_image){.vendor = found->vendor,
                                   .name = found->name,
                                   .data = found->data,
                                   .bytes = (uint64_t)(found->end - found->data)};
}

const char *weft_gpu_images_said(const char *vendor)
{
    return strcmp(vendor, "cuda") == 0 ? WEFT_GPU_IMAGES_CUDA : WEFT_GPU_IMAGES_HIP;
}

/* ---- choice */

/* The capability, times ten, from which on a PTX can be compiled. */
static int ptx_least(const struct weft_gpu_image *image)
{
    int capability = 75; /* of the oldest device that the kernels are written for */
    const char *target = image->data ? strstr((const char *)image->data, ".target sm_") : NULL;
    if (target)
        sscanf(target, ".target sm_%d", &capability);
    return capability;
}

/* Ranks an image for a device; 0: it cannot run there. */
static int image_rank(const struct weft_gpu_image *image, int major, int minor)
{
    const char *name = image->name;
    char family[32];
    int capability;
    if (sscanf(name, "sm_%d", &capability) == 1)
        return capability / 10 == major && capability % 10 <= minor ? 2 + capability % 10 : 0;
    if (strncmp(name, "gfx", 3) != 0)
        return 10 * major + minor >= ptx_least(image);
    snprintf(family, sizeof family, "gfx%d%x", major, (unsigned)minor); /* what follows is the stepping */
    return strlen(name) == strlen(family) + 1 && strncmp(name, family, strlen(family)) == 0 ? 1 : 0;
}

/* Ranks and images are few, so the nth best is found by counting the better ones. */
bool weft_gpu_image_choose(const char *vendor, int major, int minor, unsigned nth, struct weft_gpu_image *image)
{
    for (size_t i = 0; (*image = weft_gpu_image_at(i)).name; i++) {
        int rank = strcmp(image->vendor, vendor) == 0 ? image_rank(image, major, minor) : 0;
        unsigned before = 0;
        struct weft_gpu_image other;
        for (size_t k = 0; rank && (other = weft_gpu_image_at(k)).name; k++) {
            int others = strcmp(other.vendor, vendor) == 0 ? image_rank(&other, major, minor) : 0;
            before += others > rank || (others == rank && k < i);
        }
        if (rank && before == nth)
            return true;
    }
    return false;
}

/* gpu_images.c - the images as read-only bytes of the library, compressed. */
#include "backends/gpu/gpu_images.h"

#include <string.h>
#include <zstd.h>

#include "base/mem.h"

#if __has_include("weft_gpu_images.h")
#include "weft_gpu_images.h"
#else /* compiled by hand */
#define WEFT_GPU_IMAGES_CUDA "none, built without them"
#define WEFT_GPU_IMAGES_HIP  "none, built without them"
#define WEFT_GPU_IMAGES(ROW)
#endif

#define EMBED(vendor, name, least, driver, file)                                                                       \
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
    unsigned least, driver;
    const uint8_t *data, *end;
} images[] = {
#define ENTRY(vendor, name, least, driver, file)                                                                       \
    {#vendor, #name, least, driver, weft_gpu_image_##name, weft_gpu_image_end_##name},
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
                                   .bytes = (uint64_t)(found->end - found->data),
                                   .packed = true,
                                   .least = found->least,
                                   .driver = found->driver};
}

void *weft_gpu_image_unpack(const struct weft_gpu_image *image)
{
    const unsigned long long bytes = ZSTD_getFrameContentSize(image->data, image->bytes);
    if (bytes == ZSTD_CONTENTSIZE_UNKNOWN || bytes == ZSTD_CONTENTSIZE_ERROR || bytes >= SIZE_MAX)
        return NULL;
    char *made = weft_mem_take(1, bytes + 1);
    if (made && ZSTD_decompress(made, bytes, image->data, image->bytes) != bytes) {
        weft_mem_give(made);
        return NULL;
    }
    if (made)
        made[bytes] = 0;
    return made;
}

const char *weft_gpu_images_said(const char *vendor)
{
    return strcmp(vendor, "cuda") == 0 ? WEFT_GPU_IMAGES_CUDA : WEFT_GPU_IMAGES_HIP;
}

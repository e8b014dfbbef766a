/* gpu_image_choose.c - the choice of an image for a device, apart from the images, because tests put others in their
 * place. */
#include <stdio.h>
#include <string.h>

#include "backends/gpu/gpu_images.h"

#define OLDEST 75u /* capability, times ten, of the oldest device that the kernels are written for */

/* Ranks an image for a device; 0: it cannot run there. */
static int image_rank(const struct weft_gpu_image *image, int major, int minor)
{
    const char *name = image->name;
    char family[32];
    int capability;
    if (sscanf(name, "sm_%d", &capability) == 1)
        return capability / 10 == major && capability % 10 <= minor ? 2 + capability % 10 : 0;
    if (strncmp(name, "gfx", 3) != 0)
        return 10 * major + minor >= (int)(image->least ? image->least : OLDEST);
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

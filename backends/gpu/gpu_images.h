/* gpu_images.h - the compiled kernels that this build carries, one image per kind of device. */
#ifndef WEFT_BACKENDS_GPU_IMAGES_H
#define WEFT_BACKENDS_GPU_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft_gpu_image {
    const char *vendor; /* "cuda", "hip": the backend's name */
    const char
        *name; /* "sm_90", "gfx942": machine code for that device; "ptx", "ptx75": PTX, which the driver compiles */
    const uint8_t *data; /* aligned to a page; a zero byte follows it, since PTX is a string */
    uint64_t bytes;      /* without that zero */
};

/* The image at `index`, in the order in which a device of a vendor is to be offered them: machine code, oldest device
 * first, then the newer PTX, then the one that older drivers read too. Behind the last its name is NULL. sm_XY runs on
 * devices of capability X.Y and of a higher Y, gfx names on that device alone, PTX on the
 * capability that it names (`.target`) and all that came later. */
struct weft_gpu_image weft_gpu_image_at(size_t index);

/* The vendor's image number `nth` (from 0) in the order in which a device of a capability is to be offered them; false
 * behind the last. */
bool weft_gpu_image_choose(const char *vendor, int major, int minor, unsigned nth, struct weft_gpu_image *image);

/* One line on what this build has for a vendor, or why it has nothing. */
const char *weft_gpu_images_said(const char *vendor);

#endif

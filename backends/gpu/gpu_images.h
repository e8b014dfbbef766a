/* gpu_images.h - the images: compiled kernels that this build carries, one for each kind of device. */
#ifndef WEFT_BACKENDS_GPU_IMAGES_H
#define WEFT_BACKENDS_GPU_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft_gpu_image {
    const char *vendor; /* name of the backend: "cuda", "hip" */
    const char
        *name; /* "sm_90", "gfx942": machine code for that device; "ptx", "ptx75": PTX, which the driver compiles */
    const uint8_t
        *data; /* bytes aligned to a page; a zero lies after an image that is not packed, because PTX is a string */
    uint64_t bytes;  /* bytes without that zero */
    bool packed;     /* data is a frame of zstd, as in the library */
    unsigned least;  /* capability, times ten, from which on PTX compiles; 0: that of the oldest device */
    unsigned driver; /* version of the oldest driver that takes it, as the driver counts; 0: any */
};

/* Returns the image at `index`; its name is NULL past the last. Images of a vendor come in the order in which a device
 * is offered them: machine code, oldest device first, then the newer PTX, then the PTX that older drivers read. sm_XY
 * runs on devices of capability X.Y and of a higher Y, gfx names on that device alone, PTX on the capability that it
 * names (`.target`) and all later ones. */
struct weft_gpu_image weft_gpu_image_at(size_t index);

/* Finds image `nth`, from 0, in the order in which a vendor's device of this capability is offered them; false past the
 * last. */
bool weft_gpu_image_choose(const char *vendor, int major, int minor, unsigned nth, struct weft_gpu_image *image);

/* Returns the image itself, a zero byte after it, in memory that weft_mem_give takes back; NULL: there is none.
 * Drivers may read it for as long as what was loaded of it is there. */
void *weft_gpu_image_unpack(const struct weft_gpu_image *image);

/* Returns one line on the images of this build for a vendor, or why there are none. */
const char *weft_gpu_images_said(const char *vendor);

#endif

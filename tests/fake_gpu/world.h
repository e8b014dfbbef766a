/* world.h - a process in which the drivers of the tests are loaded, and images that they take. */
#ifndef WEFT_TESTS_FAKE_WORLD_H
#define WEFT_TESTS_FAKE_WORLD_H

#include "backends/gpu/gpu_driver.h"
#include "backends/gpu/gpu_images.h"
#include "tests/fake_gpu/fake_gpu.h"

typedef struct world_vendor {
    const char *file;       /* the library, by its path */
    const char *sonames[4]; /* file names that the backend tries, in its order; NULL past the last */
    const weft_gpu_driver *driver;
    weft_fake_options options;     /* usual ones */
    const weft_fake_control *fake; /* NULL until world_load */
} world_vendor;

/* cuda (capability 9.0, 32 lanes) and hip (9.4, 64 lanes). */
enum { WORLD_CUDA, WORLD_HIP, WORLD_VENDORS };
extern world_vendor world[WORLD_VENDORS];

/* True if this host has a driver of its own, which the tests do not touch. */
bool world_is_real(const world_vendor *vendor);
/* Loads a library, resets it and makes no device current. */
void world_load(world_vendor *vendor);
/* The usual options with a seed. */
void world_reset(world_vendor *vendor, uint64_t seed);

/* Images for weft_gpu_image_at; NULL: the usual images, one for each usual device. Ends with a name NULL. */
extern const struct weft_gpu_image *world_images;

#endif

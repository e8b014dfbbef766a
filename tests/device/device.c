/* device.c - the recorded cases (tests/isa) on a device: every launch runs in the emulation and, on the same memory, on
 * the device, and both have to leave the same bytes.
 *
 *   weft_device cuda|hip list                        the images of this build that fit the device
 *   weft_device cuda|hip NAME open                   opens the device with the image of that name, and closes it
 *   weft_device cuda|hip NAME [full]                 with that image
 *   weft_device cuda|hip FILE 32|64 [full]           with an image in a file, so many lanes wide
 *
 * Memory is pinned host memory, which both reach by one address; that of the device itself is for `weft bench gpu`.
 * Exit: 0, 1 (a difference, or an error of the device), 2 (wrong use), 77 (no device, or it does not take the image).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/gpu_images.h"
#include "base/status.h"
#include "tests/emulation/emulation.h"
#include "tests/isa/cases.h"

/* Memory that kernels may reach. From `extent` on nothing but zeros has been seen in it, which is proved once a case: a
 * slab is large, and used from its front. */
enum { REGIONS = 256, CASE_NAME = 64, PAGE = 4096, WINDOW = 1 << 20 };

typedef struct region {
    uint8_t *memory;
    uint8_t *before, *wanted;
    uint64_t bytes, extent;
} region;

static region regions[REGIONS];
static const weft_gpu_driver *driver;
static weft_gpu_device *device;
static void *stream, *mark;
static uint32_t lanes = 32;
static uint64_t launches, differences;
static char case_name[CASE_NAME] = "none";

static const char *const names[] = {
#define NAME(name) #name,
    WEFT_KERNELS(NAME)
#undef NAME
};

static void must(weft_status status)
{
    if (status == WEFT_OK)
        return;
    printf("%s: %s\n", case_name, weft_last_error());
    exit(1);
}

/* ---- images */

static const char *image_name;
static struct weft_gpu_image image_file;

struct weft_gpu_image __real_weft_gpu_image_at(size_t index); // NOLINT: the linker's name
struct weft_gpu_image __wrap_weft_gpu_image_at(size_t index); // NOLINT

/* Only the image that was asked for. */
struct weft_gpu_image __wrap_weft_gpu_image_at(size_t index) // NOLINT
{
    struct weft_gpu_image image;
    if (image_file.name)
        return index == 0 ? image_file : (struct weft_gpu_image){0};
    for (size_t i = 0; (image = __real_weft_gpu_image_at(i)).name; i++)
        if (!image_name || (strcmp(image.vendor, driver->name) == 0 && strcmp(image.name, image_name) == 0)) {
            if (index-- == 0)
                return image;
        }
    return image;
}

/* A name that fits every device, and machine code or PTX with a zero byte behind it. */
static int image_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    long bytes = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    uint8_t *data = bytes >= 0 && fseek(file, 0, SEEK_SET) == 0 ? calloc((size_t)bytes + 1, 1) : NULL;
    if (!data || fread(data, 1, (size_t)bytes, file) != (size_t)bytes)
        return perror(path), 2;
    fclose(file);
    image_file = (struct weft_gpu_image){.vendor = driver->name, .name = "ptx", .data = data, .bytes = (uint64_t)bytes};
    return 0;
}

/* Those that the driver takes, one a line, and on stderr those for the device that it does not; 77 if it takes none. */
static int images_list(void)
{
    struct weft_gpu_image image;
    int code = 77;
    for (size_t i = 0; (image = __real_weft_gpu_image_at(i)).name; i++) {
        image_name = image.name;
        if (strcmp(image.vendor, driver->name) != 0)
            continue;
        if (driver->open(-1, &device) != WEFT_OK) {
            if (strstr(weft_last_error(), "the driver takes no image"))
                fprintf(stderr, "refused %s: %s\n", image.name, weft_last_error());
            continue;
        }
        driver->close(device);
        printf("%s\n", image.name);
        code = 0;
    }
    if (code)
        printf("skipped: %s\n", weft_last_error());
    return code;
}

/* ---- memory */

static bool is_zero(const uint8_t *from, uint64_t bytes)
{
    return bytes == 0 || (from[0] == 0 && memcmp(from, from + 1, bytes - 1) == 0);
}

/* The end of what is used: behind it come zeros for a window. */
static void extent_grow(region *of)
{
    for (uint64_t at = of->extent; at < of->bytes && at < of->extent + WINDOW; at += PAGE) {
        const uint64_t bytes = of->bytes - at < PAGE ? of->bytes - at : PAGE;
        if (!is_zero(of->memory + at, bytes))
            of->extent = at + bytes;
    }
}

static void extent_prove(region *of)
{
    extent_grow(of); /* the host wrote since the last launch */
    if (is_zero(of->memory + of->extent, of->bytes - of->extent))
        return;
    printf("%s: something was written far behind what was in use\n", case_name);
    differences++;
}

static void extents_prove(void)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].memory)
            extent_prove(&regions[i]);
}

void *weft_record_take(uint64_t bytes)
{
    for (int i = 0; i < REGIONS; i++) {
        uint64_t address;
        void *memory;
        if (regions[i].memory)
            continue;
        must(driver->pinned_take(device, bytes ? bytes : 1, &memory, &address));
        if (address != (uintptr_t)memory) {
            printf("the device knows pinned memory by another address than the host\n");
            exit(1);
        }
        memset(memory, 0, bytes);
        regions[i] = (region){memory, calloc(bytes + 1, 1), calloc(bytes + 1, 1), bytes, 0};
        if (regions[i].before && regions[i].wanted)
            return memory;
        break;
    }
    fprintf(stderr, "no memory, or more than %d regions\n", REGIONS);
    exit(1);
}

void weft_record_give(void *memory)
{
    for (int i = 0; memory && i < REGIONS; i++) {
        region *of = &regions[i];
        if (of->memory != memory)
            continue;
        extent_prove(of);
        driver->pinned_give(device, of->memory);
        free(of->before);
        free(of->wanted);
        *of = (region){0};
    }
}

bool weft_record_holds(uint64_t address, uint64_t bytes)
{
    for (int i = 0; i < REGIONS; i++) {
        const uint64_t first = (uintptr_t)regions[i].memory;
        if (first != 0 && address >= first && address - first <= regions[i].bytes &&
            bytes <= regions[i].bytes - (address - first))
            return true;
    }
    return false;
}

void weft_record_case(const char *name, uint64_t elements)
{
    (void)elements;
    extents_prove();
    snprintf(case_name, sizeof case_name, "%s", name);
}

/* ---- launches */

static void compare(const char *kernel, region *of)
{
    extent_grow(of);
    if (memcmp(of->memory, of->wanted, of->extent) == 0)
        return;
    uint64_t at = 0, count = 0;
    for (uint64_t i = of->extent; i-- > 0;)
        if (of->memory[i] != of->wanted[i]) {
            at = i;
            count++;
        }
    printf("%s: %s: %" PRIu64 " bytes differ; byte %" PRIu64 " of %" PRIu64 " is %02x, should be %02x\n", case_name,
           kernel, count, at, of->bytes, of->memory[at], of->wanted[at]);
    differences++;
    memcpy(of->memory, of->wanted, of->extent); /* so that what follows is judged by itself */
}

/* Each region's bytes go from `memory` to where `kept` says. */
static void keep(uint8_t *(*kept)(region *of))
{
    for (int i = 0; i < REGIONS; i++) {
        if (!regions[i].memory)
            continue;
        extent_grow(&regions[i]);
        memcpy(kept(&regions[i]), regions[i].memory, regions[i].extent);
    }
}

static uint8_t *before_of(region *of)
{
    return of->before;
}

static uint8_t *wanted_of(region *of)
{
    return of->wanted;
}

static void device_run(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument)
{
    weft_status status = WEFT_AGAIN;
    if (blocks > 0)
        must(driver->launch(device, stream, kernel, blocks, argument));
    must(driver->mark(device, stream, mark));
    while (status == WEFT_AGAIN)
        status = driver->reached(device, mark);
    must(status);
}

const char *weft_record_launch(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument)
{
    const weft_schedule schedule = {lanes, ++launches, 0};
    keep(before_of);
    const char *wrong = weft_emulation_launch(&schedule, kernel, blocks, argument);
    if (wrong)
        return wrong;
    keep(wanted_of);
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].memory)
            memcpy(regions[i].memory, regions[i].before, regions[i].extent);
    device_run(kernel, blocks, argument);
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].memory)
            compare(names[kernel], &regions[i]);
    return NULL;
}

/* ---- the command line */

static int usage(void)
{
    fprintf(stderr, "usage: weft_device cuda|hip (list | NAME open | NAME [full] | FILE 32|64 [full])\n");
    return 2;
}

static int device_try(void)
{
    if (driver->open(-1, &device) != WEFT_OK)
        return printf("skipped: %s\n", weft_last_error()), 77;
    weft_record_give(weft_record_take(PAGE));
    driver->close(device);
    return 0;
}

static int cases_run(bool full)
{
    if (driver->open(-1, &device) != WEFT_OK)
        return printf("skipped: %s\n", weft_last_error()), 77;
    must(driver->stream_take(device, false, &stream));
    must(driver->mark_take(device, &mark));
    weft_cases(full);
    printf("image %s, %" PRIu64 " launches of %u lanes, %" PRIu64 " differences\n",
           image_name ? image_name : "from a file", launches, lanes, differences);
    driver->mark_give(device, mark);
    driver->stream_give(device, stream);
    driver->close(device);
    return differences != 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return usage();
    driver = strcmp(argv[1], "cuda") == 0 ? &weft_gpu_driver_cuda : &weft_gpu_driver_hip;
    const int given = argc > 3 && atoi(argv[3]);
    const bool full = argc > 3 + given && strcmp(argv[3 + given], "full") == 0;
    const bool opens = argc == 4 && strcmp(argv[3], "open") == 0;
    if (strcmp(argv[1], driver->name) != 0 || argc > 3 + given + full + opens)
        return usage();
    if (strcmp(argv[2], "list") == 0)
        return images_list();
    if (!given) {
        image_name = argv[2];
        if (opens)
            return device_try();
        lanes = strncmp(image_name, "gfx9", 4) == 0 ? 64 : 32;
        return cases_run(full);
    }
    lanes = (uint32_t)atoi(argv[3]);
    if (lanes != 32 && lanes != 64)
        return usage();
    int code = image_read(argv[2]);
    return code ? code : cases_run(full);
}

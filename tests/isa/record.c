#include "tests/isa/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulation/emulation.h"

enum { REGIONS = 256, CASE_NAME = 64 };

typedef struct region {
    uint8_t *memory;
    uint64_t bytes;
    uint8_t *before; /* during a launch */
} region;

static region regions[REGIONS];
static FILE *file;
static char case_name[CASE_NAME] = "none";
static uint64_t case_elements;
static uint64_t launches;

static const char *const names[] = {
#define NAME(name) #name,
    WEFT_KERNELS(NAME)
#undef NAME
};

static void stop(const char *what)
{
    perror(what);
    exit(2);
}

static void *take(uint64_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 256, bytes ? bytes : 1) != 0)
        stop("record: memory");
    memset(memory, 0, bytes);
    return memory;
}

void weft_record_to(const char *path)
{
    if (file && fclose(file) != 0)
        stop("record");
    file = NULL;
    if (path && !(file = fopen(path, "wb")))
        stop(path);
}

void weft_record_case(const char *name, uint64_t elements)
{
    snprintf(case_name, sizeof case_name, "%s", name);
    case_elements = elements;
}

void *weft_record_take(uint64_t bytes)
{
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].memory)
            continue;
        regions[i] = (region){take(bytes), bytes, NULL};
        return regions[i].memory;
    }
    fprintf(stderr, "record: more than %d regions\n", REGIONS);
    exit(2);
}

void weft_record_give(void *memory)
{
    for (int i = 0; memory && i < REGIONS; i++) {
        if (regions[i].memory == memory)
            regions[i] = (region){0};
    }
    free(memory);
}

static void write_region(const region *of)
{
    const int changed = memcmp(of->before, of->memory, of->bytes) != 0;
    fprintf(file, "region %" PRIu64 " %" PRIu64 " %d\n", (uint64_t)(uintptr_t)of->memory, of->bytes, changed);
    fwrite(of->before, 1, of->bytes, file);
    if (changed)
        fwrite(of->memory, 1, of->bytes, file);
}

const char *weft_record_launch(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument)
{
    const weft_schedule schedule = {64, ++launches, 0};
    int count = 0;
    for (int i = 0; file && i < REGIONS; i++) {
        if (!regions[i].memory)
            continue;
        regions[i].before = take(regions[i].bytes);
        memcpy(regions[i].before, regions[i].memory, regions[i].bytes);
        count++;
    }
    const char *wrong = weft_emulation_launch(&schedule, kernel, blocks, argument);
    if (!file)
        return wrong;
    fprintf(file, "launch %s %" PRIu32 " %" PRIu64 " %" PRIu64 " %s %d\n", names[kernel], blocks, argument,
            case_elements, case_name, count);
    for (int i = 0; i < REGIONS; i++) {
        if (!regions[i].memory)
            continue;
        write_region(&regions[i]);
        free(regions[i].before);
        regions[i].before = NULL;
    }
    if (ferror(file))
        stop("record");
    return wrong;
}

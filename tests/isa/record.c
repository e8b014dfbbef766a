#include "tests/isa/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulation/emulation.h"

enum { REGIONS = 256, CASE_NAME = 64, PAGE = 4096 };

typedef struct region {
    uint8_t *memory;
    uint8_t *known; /* what the file's reader has */
    uint64_t bytes;
    uint64_t number;
} region;

static region regions[REGIONS];
static uint64_t taken;
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
        regions[i] = (region){take(bytes), take(bytes), bytes, taken++};
        return regions[i].memory;
    }
    fprintf(stderr, "record: more than %d regions\n", REGIONS);
    exit(2);
}

void weft_record_give(void *memory)
{
    for (int i = 0; memory && i < REGIONS; i++) {
        if (regions[i].memory != memory)
            continue;
        free(regions[i].known);
        regions[i] = (region){0};
    }
    free(memory);
}

static uint64_t page_bytes(const region *of, uint64_t page)
{
    return of->bytes - page * PAGE < PAGE ? of->bytes - page * PAGE : PAGE;
}

/* Pages that differ from what is known: how many; with `write` they are written and known from then on. */
static uint64_t pages(region *of, const uint8_t *now, int write)
{
    uint64_t count = 0;
    for (uint64_t p = 0; p * PAGE < of->bytes; p++) {
        if (memcmp(now + p * PAGE, of->known + p * PAGE, page_bytes(of, p)) == 0)
            continue;
        count++;
        if (!write)
            continue;
        const uint8_t index[4] = {(uint8_t)p, (uint8_t)(p >> 8), (uint8_t)(p >> 16), (uint8_t)(p >> 24)};
        fwrite(index, 1, sizeof index, file);
        fwrite(now + p * PAGE, 1, page_bytes(of, p), file);
        memcpy(of->known + p * PAGE, now + p * PAGE, page_bytes(of, p));
    }
    return count;
}

/* `before` is the region's memory as it was. */
static void write_region(region *of, const uint8_t *before)
{
    uint8_t *known = take(of->bytes); /* as it will be between the two lists */
    memcpy(known, of->known, of->bytes);
    const uint64_t first = pages(of, before, 0);
    memcpy(of->known, before, of->bytes);
    const uint64_t second = pages(of, of->memory, 0);
    memcpy(of->known, known, of->bytes);
    free(known);
    fprintf(file, "region %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", of->number,
            (uint64_t)(uintptr_t)of->memory, of->bytes, first, second);
    pages(of, before, 1);
    pages(of, of->memory, 1);
}

const char *weft_record_launch(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument)
{
    const weft_schedule schedule = {64, ++launches, 0};
    uint8_t *before[REGIONS] = {NULL};
    int count = 0;
    for (int i = 0; file && i < REGIONS; i++) {
        if (!regions[i].memory)
            continue;
        before[i] = take(regions[i].bytes);
        memcpy(before[i], regions[i].memory, regions[i].bytes);
        count++;
    }
    const char *wrong = weft_emulation_launch(&schedule, kernel, blocks, argument);
    if (!file)
        return wrong;
    fprintf(file, "launch %s %" PRIu32 " %" PRIu64 " %" PRIu64 " %s %d\n", names[kernel], blocks, argument,
            case_elements, case_name, count);
    for (int i = 0; i < REGIONS; i++) {
        if (!before[i])
            continue;
        write_region(&regions[i], before[i]);
        free(before[i]);
    }
    if (ferror(file))
        stop("record");
    return wrong;
}

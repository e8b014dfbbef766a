#include "tests/isa/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/emulation/emulation.h"
#include "tests/isa/ptx_launch.h"

enum { REGIONS = 256, CASE_NAME = 64, PAGE = 4096 };

typedef struct region {
    uint8_t *memory;
    uint8_t *known; /* what the file's reader has; zero where `memory` was never touched */
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

/* Zeroed, and none of it there before it is touched: slabs are large. */
static void *take(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, bytes ? bytes : 1, MADV_NOHUGEPAGE) != 0)
        stop("record: memory");
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

const char *weft_record_case_now(uint64_t *elements)
{
    *elements = case_elements;
    return case_name;
}

static uint64_t page_bytes(const region *of, uint64_t page)
{
    return of->bytes - page * PAGE < PAGE ? of->bytes - page * PAGE : PAGE;
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
        region *of = &regions[i];
        if (of->memory != memory)
            continue;
        munmap(of->memory, of->bytes ? of->bytes : 1);
        munmap(of->known, of->bytes ? of->bytes : 1);
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

/* Index of the next page from `page` on that differs from what is known; UINT64_MAX if there is none. */
static uint64_t next_page(const region *of, const uint8_t *there, uint64_t page)
{
    const uint64_t system = (uint64_t)sysconf(_SC_PAGESIZE);
    for (; page * PAGE < of->bytes; page++) {
        if ((there[page * PAGE / system] & 1) &&
            memcmp(of->memory + page * PAGE, of->known + page * PAGE, page_bytes(of, page)) != 0)
            return page;
    }
    return UINT64_MAX;
}

/* Writes the pages that differ from what is known after the line `line`, which ends with their number. */
static void write_pages(region *of, const char *line)
{
    const uint64_t system = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t count = 0;
    uint8_t *there = malloc(of->bytes / system + 1);
    if (!there || (of->bytes > 0 && mincore(of->memory, of->bytes, there) != 0))
        stop("record: mincore");
    for (uint64_t p = next_page(of, there, 0); p != UINT64_MAX; p = next_page(of, there, p + 1))
        count++;
    fprintf(file, "%s %" PRIu64 "\n", line, count);
    for (uint64_t p = next_page(of, there, 0); p != UINT64_MAX; p = next_page(of, there, p + 1)) {
        const uint8_t index[4] = {(uint8_t)p, (uint8_t)(p >> 8), (uint8_t)(p >> 16), (uint8_t)(p >> 24)};
        fwrite(index, 1, sizeof index, file);
        fwrite(of->memory + p * PAGE, 1, page_bytes(of, p), file);
        memcpy(of->known + p * PAGE, of->memory + p * PAGE, page_bytes(of, p));
    }
    free(there);
}

const char *weft_record_launch(enum weft_gpu_kernel kernel, uint32_t blocks, uint64_t argument)
{
    const weft_schedule schedule = {64, ++launches, 0};
    int count = 0;
    for (int i = 0; i < REGIONS; i++)
        count += regions[i].memory != NULL;
    if (file)
        fprintf(file, "launch %s %" PRIu32 " %" PRIu64 " %" PRIu64 " %s %d\n", names[kernel], blocks, argument,
                case_elements, case_name, count);
    for (int i = 0; file && i < REGIONS; i++) {
        char line[96];
        snprintf(line, sizeof line, "region %" PRIu64 " %" PRIu64 " %" PRIu64, regions[i].number,
                 (uint64_t)(uintptr_t)regions[i].memory, regions[i].bytes);
        if (regions[i].memory)
            write_pages(&regions[i], line);
    }
    const char *wrong = weft_emulation_launch(&schedule, kernel, blocks, argument);
    for (int i = 0; file && i < REGIONS; i++) {
        if (regions[i].memory)
            write_pages(&regions[i], "after");
    }
    if (file && ferror(file))
        stop("record");
    return wrong;
}

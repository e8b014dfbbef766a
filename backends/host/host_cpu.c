/* host_cpu.c - what this CPU offers and which kernel set that makes. */
#include "backends/host/host_ahead.h"
#include "backends/host/host_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define AUTO "auto"

/* A kernel set that may be built in, and the CPU features that it needs but does not find (each after a space). */
typedef struct kernel_set {
    const char *name;
    const weft_host_kernels *kernels; /* NULL: not in this build */
    char missing[64];
} kernel_set;

#define SETS 3

#define LACKS(feature, name) (__builtin_cpu_supports(feature) ? "" : " " name)

static kernel_set portable_set(void)
{
    return (kernel_set){.name = "portable", .kernels = &weft_host_portable};
}

static kernel_set avx2_set(void)
{
    kernel_set found = {.name = "avx2"};
#if !defined(__x86_64__)
    snprintf(found.missing, sizeof(found.missing), " an x86-64 CPU");
#elif !defined(WEFT_HAVE_AVX2)
    snprintf(found.missing, sizeof(found.missing), " a build with AVX2 kernels");
#else
    found.kernels = &weft_host_avx2;
    snprintf(found.missing, sizeof(found.missing), "%s%s%s", LACKS("avx2", "avx2"), LACKS("bmi", "bmi1"),
             LACKS("bmi2", "bmi2"));
#endif
    return found;
}

static kernel_set avx512_set(void)
{
    kernel_set found = {.name = "avx512"};
#if !defined(__x86_64__)
    snprintf(found.missing, sizeof(found.missing), " an x86-64 CPU");
#elif !defined(WEFT_HAVE_AVX512)
    snprintf(found.missing, sizeof(found.missing), " a build with AVX-512 kernels");
#else
    found.kernels = &weft_host_avx512;
    snprintf(found.missing, sizeof(found.missing), "%s%s%s%s%s%s%s%s", LACKS("avx512f", "f"), LACKS("avx512bw", "bw"),
             LACKS("avx512vl", "vl"), LACKS("avx512dq", "dq"), LACKS("avx512vbmi", "vbmi"),
             LACKS("avx512vbmi2", "vbmi2"), LACKS("avx512vpopcntdq", "vpopcntdq"), LACKS("gfni", "gfni"));
#endif
    return found;
}

/* All of them, the fastest first; the last always runs. */
static void sets_probe(kernel_set sets[SETS])
{
    sets[0] = avx512_set();
    sets[1] = avx2_set();
    sets[2] = portable_set();
}

static bool runs(const kernel_set *set)
{
    return set->kernels && !set->missing[0];
}

static const weft_host_kernels *fastest(const kernel_set sets[SETS])
{
    while (!runs(sets))
        sets++;
    return sets->kernels;
}

static weft_status named(const char *name, const kernel_set sets[SETS], const weft_host_kernels **kernels)
{
    const kernel_set *wanted = sets;
    while (wanted < sets + SETS && strcmp(name, wanted->name) != 0)
        wanted++;
    if (wanted == sets + SETS)
        return weft_fail(WEFT_E_MISSING, "there is no host kernel set \"%s\"; use auto, portable, avx2 or avx512",
                         name);
    if (!runs(wanted))
        return weft_fail(WEFT_E_MISSING, "host kernel set %s cannot run here: missing%s; use auto or %s", name,
                         wanted->missing, fastest(sets)->name);
    *kernels = wanted->kernels;
    return WEFT_OK;
}

weft_status weft_host_choose(const char *name, const weft_host_kernels **kernels)
{
    const char *forced = getenv("WEFT_KERNELS");
    kernel_set sets[SETS];
    weft_host_ahead_take();
    sets_probe(sets);
    if (strcmp(name, AUTO) == 0 && forced && forced[0])
        name = forced;
    if (strcmp(name, AUTO) != 0)
        return named(name, sets, kernels);
    *kernels = fastest(sets);
    return WEFT_OK;
}

static void cpu_name(char *text, size_t capacity)
{
    snprintf(text, capacity, "CPU");
#if defined(__x86_64__)
    unsigned brand[12];
    char name[sizeof(brand) + 1] = {0};
    for (unsigned i = 0; i < 3; i++) {
        if (!__get_cpuid(0x80000002u + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2], &brand[4 * i + 3]))
            return;
    }
    memcpy(name, brand, sizeof(brand));
    snprintf(text, capacity, "%s", name + strspn(name, " "));
#endif
}

/* The set chosen, and of each other what stands in its way. */
static void detail_write(const weft_host_kernels *kernels, char *text, size_t capacity)
{
    kernel_set sets[SETS];
    sets_probe(sets);
    size_t used = (size_t)snprintf(text, capacity, "kernels %s", kernels->name);
    for (int i = 0; i < SETS && used < capacity; i++) {
        if (sets[i].kernels == kernels)
            continue;
        if (runs(&sets[i]))
            used += (size_t)snprintf(text + used, capacity - used, "; %s can run", sets[i].name);
        else
            used += (size_t)snprintf(text + used, capacity - used, "; %s lacks%s", sets[i].name, sets[i].missing);
    }
}

size_t weft_host_probe(weft_device_info *devices, size_t capacity)
{
    const weft_host_kernels *kernels = NULL;
    if (capacity == 0)
        return 1;
    weft_device_info *device = &devices[0];
    *device = (weft_device_info){.backend = "host", .usable = 1};
    cpu_name(device->name, sizeof(device->name));
    device->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (weft_host_choose(AUTO, &kernels) == WEFT_OK)
        detail_write(kernels, device->detail, sizeof(device->detail));
    else
        snprintf(device->detail, sizeof(device->detail), "WEFT_KERNELS names a kernel set that cannot be had");
    device->usable = kernels != NULL;
    return 1;
}

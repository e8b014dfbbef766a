/* host_cpu.c - what this CPU offers and which kernel set that makes. */
#include "backends/host_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "status.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define AUTO "auto"

/* Names the features of the avx512 set that are missing here; empty if none is. */
static void avx512_missing(char *text, size_t capacity)
{
#if !defined(__x86_64__)
    snprintf(text, capacity, "an x86-64 CPU");
#elif !defined(WEFT_HAVE_AVX512)
    snprintf(text, capacity, "a build with AVX-512 kernels");
#else
    snprintf(text, capacity, "%s%s%s%s%s%s", __builtin_cpu_supports("avx512f") ? "" : " f",
             __builtin_cpu_supports("avx512bw") ? "" : " bw", __builtin_cpu_supports("avx512vl") ? "" : " vl",
             __builtin_cpu_supports("avx512dq") ? "" : " dq", __builtin_cpu_supports("avx512vbmi") ? "" : " vbmi",
             __builtin_cpu_supports("avx512vbmi2") ? "" : " vbmi2");
#endif
}

static const weft_host_kernels *avx512_kernels(void)
{
#if defined(__x86_64__) && defined(WEFT_HAVE_AVX512)
    char missing[64];
    avx512_missing(missing, sizeof(missing));
    return missing[0] ? NULL : &weft_host_avx512;
#else
    return NULL;
#endif
}

static weft_status named(const char *name, const weft_host_kernels **kernels)
{
    char missing[64];
    if (strcmp(name, "portable") == 0) {
        *kernels = &weft_host_portable;
        return WEFT_OK;
    }
    if (strcmp(name, "avx512") != 0)
        return weft_fail(WEFT_E_MISSING, "there is no host kernel set \"%s\"; use auto, portable or avx512", name);
    *kernels = avx512_kernels();
    if (*kernels)
        return WEFT_OK;
    avx512_missing(missing, sizeof(missing));
    return weft_fail(WEFT_E_MISSING, "host kernel set avx512 cannot run here: missing %s; use auto or portable",
                     missing[0] == ' ' ? missing + 1 : missing);
}

weft_status weft_host_choose(const char *name, const weft_host_kernels **kernels)
{
    const char *forced = getenv("WEFT_KERNELS");
    if (strcmp(name, AUTO) == 0 && forced && forced[0])
        name = forced;
    if (strcmp(name, AUTO) != 0)
        return named(name, kernels);
    *kernels = avx512_kernels();
    if (!*kernels)
        *kernels = &weft_host_portable;
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

size_t weft_host_probe(weft_device_info *devices, size_t capacity)
{
    char missing[64];
    const weft_host_kernels *kernels = NULL;
    if (capacity == 0)
        return 1;
    weft_device_info *device = &devices[0];
    *device = (weft_device_info){.backend = "host", .usable = 1};
    cpu_name(device->name, sizeof(device->name));
    device->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    avx512_missing(missing, sizeof(missing));
    if (weft_host_choose(AUTO, &kernels) != WEFT_OK)
        snprintf(device->detail, sizeof(device->detail), "WEFT_KERNELS names a kernel set that cannot be had");
    else if (missing[0])
        snprintf(device->detail, sizeof(device->detail), "kernels %s; avx512 lacks %s", kernels->name,
                 missing[0] == ' ' ? missing + 1 : missing);
    else
        snprintf(device->detail, sizeof(device->detail), "kernels %s; avx512 can run", kernels->name);
    device->usable = kernels != NULL;
    return 1;
}

/* cool.c - images put out of every cache, so that what is timed next finds them in memory.
 *
 * Of x86-64's two instructions the newer one does not wait for the line before: 50 times as fast, where there is it. */
#include "bench/codec/codec.h"

#define LINE 64u /* bytes */

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define HAS_FLUSHOPT (1u << 23) /* CPUID leaf 7, EBX */

__attribute__((target("clflushopt"))) static void lines_flush_fast(const uint8_t *image, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += LINE)
        _mm_clflushopt((void *)(uintptr_t)(image + at));
}

static void lines_flush(const uint8_t *image, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += LINE)
        _mm_clflush(image + at);
}

static void image_cool(const uint8_t *image, uint64_t bytes)
{
    unsigned a, b, c, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b & HAS_FLUSHOPT)
        lines_flush_fast(image, bytes);
    else
        lines_flush(image, bytes);
    _mm_mfence();
}
#elif defined(__aarch64__)
/* Linux lets programs do it. */
static void image_cool(const uint8_t *image, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += LINE)
        __asm__ volatile("dc civac, %0" : : "r"(image + at) : "memory");
    __asm__ volatile("dsb ish" : : : "memory");
}
#else
static volatile uint64_t cooled; /* so that reading is not in vain */

/* Read, so that what was read before is less near. */
static void image_cool(const uint8_t *image, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += LINE)
        cooled += image[at];
}
#endif

void weft_bench_cool(const weft_bench_pair *pair)
{
    image_cool(pair->work, pair->bytes);
    image_cool(pair->before, pair->bytes);
    image_cool(pair->after, pair->bytes);
}

/* kernel_sets.h - holds one kernel set against another on lists and streams of every size. */
#ifndef WEFT_TESTS_KERNEL_SETS_H
#define WEFT_TESTS_KERNEL_SETS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/host/host_kernels.h"
#include "layout/digest.h"

#define MOST     9000u
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const uint32_t counts[] = {0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 4095, 4096, 4097, 4160, MOST};

typedef struct memory {
    uint8_t *now, *shadow, *before, *after;
    uint32_t *position;
    unsigned shift; /* bytes by which elements miss alignment */
} memory;

static uint64_t seed;

static inline uint64_t any(void)
{
    return weft_mix64(seed += WEFT_PHI);
}

/* Takes `bytes` bytes that begin `shift` bytes after an aligned address, and end where the sanitizer sees one byte
 * more. */
static inline uint8_t *bytes_take(uint64_t bytes, unsigned shift)
{
    uint8_t *block = bytes < UINT32_MAX ? malloc(bytes + shift) : NULL;
    if (!block)
        abort();
    return block + shift;
}

static inline memory memory_of(uint32_t count, unsigned width, unsigned shift)
{
    uint64_t bytes = (uint64_t)count * width;
    return (memory){bytes_take(bytes, shift),
                    bytes_take(bytes, shift),
                    bytes_take(bytes, shift),
                    bytes_take(bytes, shift),
                    (uint32_t *)(void *)bytes_take(4 * (uint64_t)count, 0),
                    shift};
}

static inline void memory_free(memory *made)
{
    free(made->now - made->shift);
    free(made->shadow - made->shift);
    free(made->before - made->shift);
    free(made->after - made->shift);
    free(made->position);
}

/* Streams that differ in one of `sparse` elements, mostly by a step of the lowest byte. */
static inline void streams_fill(memory *made, uint32_t count, unsigned width, uint64_t sparse)
{
    for (uint64_t i = 0; i < (uint64_t)count * width; i++)
        made->shadow[i] = (uint8_t)any();
    memcpy(made->now, made->shadow, (uint64_t)count * width);
    for (uint64_t i = 0; i < count; i++) {
        if (any() % sparse != 0)
            continue;
        if (any() % 4 == 0)
            made->now[i * width + any() % width] ^= (uint8_t)(1 + any() % 255);
        else
            made->now[i * width] = (uint8_t)(made->now[i * width] + 1 + any() % 2 * 254);
    }
}

/* The list of both sets, then every kernel that works on a list. */
static inline void compare_sets(const weft_host_kernels *a, const weft_host_kernels *b, uint32_t count, unsigned slot,
                                uint64_t sparse)
{
    const unsigned width = 1u << slot;
    const uint32_t first = (uint32_t)(any() % 1000);
    const uint64_t origin = any();
    memory x = memory_of(count, width, count % 5), y = memory_of(count, width, count % 3);
    streams_fill(&x, count, width, sparse);
    memcpy(y.now, x.now, (uint64_t)count * width);
    uint32_t found = a->diff[slot](x.now, x.shadow, count, first, x.position, x.before, x.after);
    assert_int_equal(b->diff[slot](x.now, x.shadow, count, first, y.position, y.before, y.after), found);
    assert_memory_equal(x.position, y.position, 4 * (uint64_t)found);
    assert_memory_equal(x.before, y.before, (uint64_t)found * width);
    assert_memory_equal(x.after, y.after, (uint64_t)found * width);
    uint64_t delta = a->delta[slot](x.position, origin, x.before, x.after, found);
    assert_true(delta == b->delta[slot](x.position, origin, x.before, x.after, found));
    uint64_t digest = a->digest[slot](x.now, origin, count);
    assert_true(digest == b->digest[slot](x.now, origin, count));
    assert_true(delta ==
                a->digest[slot](x.now, origin + first, count) - a->digest[slot](x.shadow, origin + first, count));
    b->gather[slot](x.now, x.position, first, found, y.before);
    assert_memory_equal(y.before, x.after, (uint64_t)found * width);
    b->scatter[slot](y.now, x.position, first, found, x.before);
    assert_memory_equal(y.now, x.shadow, (uint64_t)count * width);
    assert_false(b->swap[slot](y.now, x.position, first, found, x.before, x.after));
    assert_memory_equal(y.now, x.now, (uint64_t)count * width);
    memory_free(&x);
    memory_free(&y);
}

/* Any bits: a NaN is one of a few hundred, and a tie one of two thousand. */
static inline void compare_casts(const weft_host_kernels *a, const weft_host_kernels *b, uint32_t count, weft_cast cast)
{
    memory x = memory_of(count, 4, count % 5);
    for (uint64_t i = 0; i < 4 * (uint64_t)count; i++)
        x.now[i] = any() % 32 ? (uint8_t)any() : (uint8_t)(i % 4 == 1 ? 0x80 : 0);
    a->cast[cast](x.now, count, x.before);
    b->cast[cast](x.now, count, x.after);
    assert_memory_equal(x.before, x.after, 2 * (uint64_t)count);
    memory_free(&x);
}

static inline void sets_give_equal_bytes(const weft_host_kernels *a, const weft_host_kernels *b)
{
    const uint64_t sparse[] = {1, 2, 13, 90, 3000};
    for (size_t c = 0; c < COUNT(counts); c++)
        for (weft_cast cast = WEFT_CAST_BF16; cast < WEFT_CASTS; cast++)
            compare_casts(a, b, counts[c], cast);
    for (unsigned slot = 0; slot < WEFT_HOST_WIDTHS; slot++) {
        for (size_t c = 0; c < COUNT(counts); c++) {
            for (size_t s = 0; s < COUNT(sparse); s++)
                compare_sets(a, b, counts[c], slot, sparse[s]);
        }
    }
}

#endif

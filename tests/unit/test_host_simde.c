/* The AVX-512 kernel set, recompiled for any CPU, gives the bytes of the portable one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define weft_host_avx512 weft_host_avx512_simde
#include "backends/host_avx512.c"

#define MOST     9000u
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const uint32_t counts[] = {0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 1000, 4095, 4096, 4097, 4160, MOST};

typedef struct memory {
    uint8_t *now, *shadow, *before, *after;
    uint32_t *position;
} memory;

static uint64_t seed;

static uint64_t any(void)
{
    return weft_mix64(seed += WEFT_PHI);
}

/* Blocks of exactly the sizes needed, so that the sanitizer sees a step beyond. */
static memory memory_of(uint32_t count, unsigned width)
{
    uint64_t bytes = (uint64_t)count * width;
    memory made = {malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes), malloc(4 * (uint64_t)count)};
    assert_true(count == 0 || (made.now && made.shadow && made.before && made.after && made.position));
    return made;
}

static void memory_free(memory *made)
{
    free(made->now);
    free(made->shadow);
    free(made->before);
    free(made->after);
    free(made->position);
}

/* Streams that differ in one of `sparse` elements. */
static void streams_fill(memory *made, uint32_t count, unsigned width, uint64_t sparse)
{
    for (uint64_t i = 0; i < (uint64_t)count * width; i++)
        made->shadow[i] = (uint8_t)any();
    memcpy(made->now, made->shadow, (uint64_t)count * width);
    for (uint64_t i = 0; i < count; i++) {
        if (any() % sparse == 0)
            made->now[i * width + any() % width] ^= (uint8_t)(1 + any() % 255);
    }
}

/* The list of both sets, then every kernel that works on a list. */
static void compare_sets(uint32_t count, unsigned slot, uint64_t sparse)
{
    const weft_host_kernels *a = &weft_host_portable, *b = &weft_host_avx512_simde;
    const unsigned width = 1u << slot;
    const uint32_t first = (uint32_t)(any() % 1000);
    const uint64_t origin = any();
    memory x = memory_of(count, width), y = memory_of(count, width);
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

static void sets_give_equal_bytes(void **state)
{
    (void)state;
    const uint64_t sparse[] = {1, 2, 13, 90, 3000};
    for (unsigned slot = 0; slot < WEFT_HOST_WIDTHS; slot++) {
        for (size_t c = 0; c < COUNT(counts); c++) {
            for (size_t s = 0; s < COUNT(sparse); s++)
                compare_sets(counts[c], slot, sparse[s]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sets_give_equal_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

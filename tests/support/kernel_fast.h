/* kernel_fast.h - holds the kernels of level fast of one set against another's, on good planes and on broken ones. */
#ifndef WEFT_TESTS_KERNEL_FAST_H
#define WEFT_TESTS_KERNEL_FAST_H

#include "tests/support/kernel_sets.h"

/* A change list and what its gaps are coded with. */
typedef struct gap_case {
    const weft_host_kernels *a, *b;
    const memory *list;
    unsigned slot;
    uint32_t count, limit, gap_bits;
} gap_case;

/* The fields plane, then the unary one, in a block of exactly their size. */
static inline uint8_t *planes_write(const weft_host_kernels *set, const gap_case *of, bool is_float, uint64_t bytes)
{
    const memory *list = of->list;
    uint8_t *out = bytes_take(bytes, 0);
    uint8_t *unary = set->fields[of->slot](list->position, list->before, list->after, of->count, is_float, of->gap_bits,
                                           out, out + bytes);
    assert_int_equal(unary - out, ((uint64_t)of->count * (of->gap_bits + 1) + 7) / 8);
    weft_bit_writer writer = {unary, out + bytes, 0, 0};
    set->gap_ones(list->position, of->count, of->gap_bits, &writer);
    assert_int_equal(weft_bits_end(&writer) - out, bytes);
    return out;
}

/* Writes low bits after some others, in two lists that end within a byte, in a block of exactly their size. */
static inline uint8_t *lows_write(const weft_host_kernels *set, const gap_case *of, unsigned ahead, uint64_t bytes)
{
    const uint32_t early = of->count / 3;
    uint8_t *out = bytes_take(bytes, 0);
    weft_bit_writer writer = {out, out + bytes, 0, 0};
    weft_bits_put(&writer, (1u << ahead) - 1, ahead);
    set->gap_lows(of->list->position, early, of->gap_bits, &writer);
    set->gap_lows(of->list->position + early, of->count - early, of->gap_bits, &writer);
    assert_int_equal(weft_bits_end(&writer) - out, bytes);
    return out;
}

static inline void compare_lows(const gap_case *of)
{
    const unsigned ahead = (unsigned)(any() % 20);
    const uint64_t bytes = (ahead + (uint64_t)of->count * of->gap_bits + 7) / 8;
    if (of->gap_bits == 0)
        return;
    uint8_t *x = lows_write(of->a, of, ahead, bytes), *y = lows_write(of->b, of, ahead, bytes);
    if (bytes > 0)
        assert_memory_equal(x, y, bytes);
    free(x);
    free(y);
}

/* As many elements as the list has positions, if that is not too many, in a block of exactly their size. */
static inline uint8_t *elements_take(uint64_t bytes)
{
    uint8_t *elements = bytes <= UINT64_C(1) << 22 ? bytes_take(bytes, 0) : NULL;
    for (uint64_t i = 0; elements && i < bytes; i++)
        elements[i] = (uint8_t)(i * i >> 3 ^ i);
    return elements;
}

/* Both sets refuse, or both read the same. Returns whether they read. */
static inline bool planes_read(const gap_case *of, const uint8_t *data, uint64_t bytes, uint32_t limit)
{
    const uint64_t width = UINT64_C(1) << of->slot, offset = ((uint64_t)of->count * (of->gap_bits + 1) + 7) / 8;
    const weft_bit_source source = {data, bytes};
    memory x = memory_of(of->count, (unsigned)width, 1), y = memory_of(of->count, (unsigned)width, 3);
    weft_bit_walker p = weft_bits_walk(source, offset), q = p;
    uint8_t *elements = elements_take(limit * width); /* the one set reads them itself, or neither does */
    bool good = of->a->gaps[of->slot](&source, &p, of->gap_bits, limit, of->count, 0, x.position, x.before, x.after);
    assert_int_equal(good, of->b->gaps[of->slot](&source, &q, of->gap_bits, limit, of->count, (uintptr_t)elements,
                                                 y.position, y.before, y.after));
    if (good) {
        assert_memory_equal(x.position, y.position, 4 * (uint64_t)of->count);
        assert_memory_equal(x.after, y.after, of->count * width);
        for (uint32_t i = 0; elements && i < of->count; i++)
            assert_memory_equal(elements + x.position[i] * width, y.before + i * width, width);
        for (int more = 0; more < 70; more++)
            assert_true(weft_bits_unary(&p) == weft_bits_unary(&q));
    } else {
        assert_int_equal(p.last, 8 * offset);
        assert_int_equal(q.last, 8 * offset);
    }
    free(elements);
    memory_free(&x);
    memory_free(&y);
    return good;
}

static inline void planes_break(const gap_case *of, uint8_t *planes, uint64_t bytes)
{
    planes_read(of, planes, any() % bytes, of->limit);
    planes_read(of, planes, bytes, of->limit - 1);
    planes_read(of, planes, bytes, (uint32_t)(any() % of->limit));
    for (int i = 0; i < 3; i++) {
        uint64_t bit = any() % (8 * bytes);
        planes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        planes_read(of, planes, bytes, of->limit);
    }
    memset(planes, 0, bytes);
    planes_read(of, planes, bytes, of->limit);
    memset(planes, 0xff, bytes);
    planes_read(of, planes, bytes, of->limit);
}

/* Both sets refuse, or both read the same places, whose low bits begin at bit `ahead`. Returns whether they read. */
static inline bool places_read(const gap_case *of, const uint8_t *data, uint64_t bytes, unsigned ahead, uint32_t limit)
{
    const weft_bit_source source = {data, bytes};
    const uint64_t offset = (ahead + (uint64_t)of->count * of->gap_bits + 7) / 8;
    uint32_t *x = (void *)bytes_take(4 * (uint64_t)of->count, 0), *y = (void *)bytes_take(4 * (uint64_t)of->count, 0);
    weft_bit_walker p = weft_bits_walk(source, offset), q = p;
    bool good = of->a->gap_places(&source, ahead, &p, of->gap_bits, limit, of->count, x);
    assert_int_equal(good, of->b->gap_places(&source, ahead, &q, of->gap_bits, limit, of->count, y));
    if (good)
        assert_memory_equal(x, y, 4 * (uint64_t)of->count);
    assert_int_equal(p.last, q.last);
    free(x);
    free(y);
    return good;
}

static inline void compare_places(const gap_case *of)
{
    const unsigned ahead = (unsigned)(any() % 20);
    const uint64_t ones = of->a->gap_sum(of->list->position, of->count, of->gap_bits) + of->count;
    const uint64_t lows = (ahead + (uint64_t)of->count * of->gap_bits + 7) / 8, bytes = lows + (ones + 7) / 8;
    uint8_t *planes = bytes_take(bytes, 0);
    weft_bit_writer low = {planes, planes + lows, 0, 0}, one = {planes + lows, planes + bytes, 0, 0};
    weft_bits_put(&low, (1u << ahead) - 1, ahead);
    if (of->gap_bits > 0)
        of->a->gap_lows(of->list->position, of->count, of->gap_bits, &low);
    of->a->gap_ones(of->list->position, of->count, of->gap_bits, &one);
    assert_true(places_read(of, planes, bytes, ahead, of->limit));
    places_read(of, planes, any() % bytes, ahead, of->limit);
    places_read(of, planes, bytes, ahead, of->limit - 1);
    places_read(of, planes, bytes, ahead, (uint32_t)(any() % of->limit));
    planes[any() % bytes] ^= (uint8_t)(1 << any() % 8);
    places_read(of, planes, bytes, ahead, of->limit);
    free(planes);
}

static inline void compare_planes(gap_case *of, bool is_float)
{
    compare_lows(of);
    uint64_t sum = of->a->gap_sum(of->list->position, of->count, of->gap_bits);
    assert_true(sum == of->b->gap_sum(of->list->position, of->count, of->gap_bits));
    uint64_t bytes = ((uint64_t)of->count * (of->gap_bits + 1) + 7) / 8 + (sum + of->count + 7) / 8;
    uint8_t *x = planes_write(of->a, of, is_float, bytes), *y = planes_write(of->b, of, is_float, bytes);
    if (of->count > 0) {
        assert_memory_equal(x, y, bytes);
        compare_places(of);
        assert_true(planes_read(of, x, bytes, of->limit));
        planes_break(of, x, bytes);
    }
    free(x);
    free(y);
}

static inline void compare_exceptions(const gap_case *of, bool is_float)
{
    const memory *list = of->list;
    uint32_t *x = (void *)bytes_take(4 * (uint64_t)of->count, 0), *y = (void *)bytes_take(4 * (uint64_t)of->count, 0);
    uint64_t *p = (void *)bytes_take(8 * (uint64_t)of->count, 0), *q = (void *)bytes_take(8 * (uint64_t)of->count, 0);
    uint32_t found = of->a->exceptions[of->slot](list->before, list->after, of->count, is_float, x, p);
    assert_int_equal(found, of->b->exceptions[of->slot](list->before, list->after, of->count, is_float, y, q));
    if (found > 0) {
        assert_memory_equal(x, y, 4 * (uint64_t)found);
        assert_memory_equal(p, q, 8 * (uint64_t)found);
    }
    free(x);
    free(y);
    free(p);
    free(q);
}

/* Any bits as steps. */
static inline void compare_steps(const gap_case *of, bool is_float)
{
    const uint64_t bytes = (uint64_t)of->count << of->slot;
    uint8_t *x = bytes_take(bytes, 3), *y = bytes_take(bytes, 1);
    if (bytes > 0) {
        memcpy(x, of->list->after, bytes);
        memcpy(y, of->list->after, bytes);
        of->a->step[of->slot](of->list->before, x, of->count, is_float);
        of->b->step[of->slot](of->list->before, y, of->count, is_float);
        assert_memory_equal(x, y, bytes);
    }
    free(x - 3);
    free(y - 1);
}

/* `count` changes in `limit` elements at most. */
static inline void compare_list(const weft_host_kernels *a, const weft_host_kernels *b, unsigned slot, uint32_t count,
                                uint64_t sparse)
{
    memory list = memory_of(count, 1u << slot, count % 4), bits = memory_of(count, 1u << slot, 0);
    gap_case of = {.a = a, .b = b, .list = &list, .slot = slot, .count = count};
    streams_fill(&bits, count, 1u << slot, 1);
    for (uint32_t i = 0; i < count; i++, of.limit++) {
        of.limit += (uint32_t)(any() % 16 == 0 ? any() % (20 * sparse) : any() % sparse);
        list.position[i] = of.limit;
    }
    if (count > 0) {
        memcpy(list.before, bits.shadow, (uint64_t)count << slot);
        memcpy(list.after, bits.now, (uint64_t)count << slot);
    }
    of.limit += 1;
    const uint32_t bits_most = sparse > 1000 ? 26 : 14;
    for (int is_float = 0; is_float < 2; is_float++) {
        compare_exceptions(&of, is_float);
        compare_steps(&of, is_float);
        for (of.gap_bits = (uint32_t)(sparse > 64 ? 5 + any() % 2 : any() % 2); of.gap_bits <= bits_most;
             of.gap_bits += 1 + (uint32_t)(any() % 3))
            compare_planes(&of, is_float);
    }
    memory_free(&list);
    memory_free(&bits);
}

static inline void fast_gives_equal_bytes(const weft_host_kernels *a, const weft_host_kernels *b)
{
    const uint32_t lengths[] = {0, 1, 7, 8, 9, 63, 64, 65, 73, 128, 139, 800};
    const uint64_t sparse[] = {1, 3, 85, 3000};
    for (unsigned slot = 0; slot < WEFT_HOST_WIDTHS; slot++) {
        for (size_t c = 0; c < COUNT(lengths); c++) {
            for (size_t s = 0; s < COUNT(sparse); s++)
                compare_list(a, b, slot, lengths[c], sparse[s]);
        }
    }
}

#endif

/* rivals.c - the published ways to send what changed, each as plainly and as fast as it can be written in C:
 *
 *   u32 index + value        arrays of positions and new elements (sparse updates as sent without a codec)
 *   16-bit gaps + zstd       gaps between positions as u16, 0xffff passing over as many; new elements under zstd
 *   LEB128 gaps + value      gaps in bytes of 7 bits (Protocol Buffers' varints), new elements after them
 *   zstd of the XOR          old and new weights XORed, under zstd
 *   Rice by old exponent     gaps among the weights of one old exponent, and steps between bit patterns, both Rice
 * coded with a parameter an exponent (the form of PULSE's patches, version 3)
 *
 * They share one comparison of both streams, four words at a time; zstd runs at its default level. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "bench/codec/codec.h"
#include "bench/codec/rice.h"

#define PASS       UINT16_C(0xffff) /* a 16-bit gap that is none: so many elements on */
#define ZSTD_LEVEL 3
#define ROOM_EACH  8u /* bytes that any method may take an element, and */
#define ROOM_MORE  (1u << 20)

/* A method works with these. */
typedef struct bench {
    const weft_bench_pair *pair;
    const uint16_t *before, *after;
    uint16_t *work;
    uint64_t elements;
    uint32_t *position;
    uint64_t changed;
    weft_bench_bytes coded, scratch;
} bench;

/* ---- what changed */

static uint64_t word_at(const uint16_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static void changes_list(bench *b)
{
    const uint64_t whole = b->elements / 16 * 16;
    uint64_t count = 0;
    for (uint64_t i = 0; i < whole; i += 16) {
        uint64_t differ = 0;
        for (unsigned w = 0; w < 16; w += 4)
            differ |= word_at(b->before + i + w) ^ word_at(b->after + i + w);
        if (!differ)
            continue;
        for (unsigned e = 0; e < 16; e++) { /* without a branch: the place is overwritten unless it is kept */
            b->position[count] = (uint32_t)(i + e);
            count += b->before[i + e] != b->after[i + e];
        }
    }
    for (uint64_t i = whole; i < b->elements; i++) {
        b->position[count] = (uint32_t)i;
        count += b->before[i] != b->after[i];
    }
    b->changed = count;
}

static void values_gather(const bench *b, uint16_t *values)
{
    for (uint64_t i = 0; i < b->changed; i++)
        values[i] = b->after[b->position[i]];
}

/* ---- u32 index + value */

static weft_status pairs_encode(bench *b)
{
    changes_list(b);
    b->coded.used = 6 * b->changed;
    memcpy(b->coded.data, b->position, 4 * b->changed);
    values_gather(b, (uint16_t *)(void *)(b->coded.data + 4 * b->changed));
    return WEFT_OK;
}

static weft_status pairs_decode(bench *b)
{
    const uint64_t count = b->coded.used / 6;
    const uint32_t *position = (const void *)b->coded.data;
    const uint16_t *values = (const void *)(b->coded.data + 4 * count);
    for (uint64_t i = 0; i < count; i++)
        b->work[position[i]] = values[i];
    return WEFT_OK;
}

/* ---- 16-bit gaps + zstd of the values */

static weft_status zstd_failed(size_t code)
{
    return weft_fail(WEFT_E_SYSTEM, "zstd: %s", ZSTD_getErrorName(code));
}

static weft_status gaps_encode(bench *b)
{
    changes_list(b);
    uint16_t *gap = (void *)(b->coded.data + 8), *values = (void *)b->scratch.data;
    uint64_t next = 0, gaps = 0;
    for (uint64_t i = 0; i < b->changed; i++) {
        uint64_t left = b->position[i] - next;
        for (; left >= PASS; left -= PASS)
            gap[gaps++] = PASS;
        gap[gaps++] = (uint16_t)left;
        next = (uint64_t)b->position[i] + 1;
    }
    values_gather(b, values);
    memcpy(b->coded.data, &gaps, sizeof gaps);
    uint64_t used = 8 + 2 * gaps;
    size_t packed = ZSTD_compress(b->coded.data + used, b->coded.capacity - used, values, 2 * b->changed, ZSTD_LEVEL);
    b->coded.used = used + packed;
    return ZSTD_isError(packed) ? zstd_failed(packed) : WEFT_OK;
}

static weft_status gaps_decode(bench *b)
{
    uint64_t gaps, used, at = 0;
    memcpy(&gaps, b->coded.data, sizeof gaps);
    used = 8 + 2 * gaps;
    const uint16_t *gap = (const void *)(b->coded.data + 8), *value = (const void *)b->scratch.data;
    size_t got = ZSTD_decompress(b->scratch.data, b->scratch.capacity, b->coded.data + used, b->coded.used - used);
    if (ZSTD_isError(got))
        return zstd_failed(got);
    for (uint64_t i = 0; i < gaps; i++) {
        at += gap[i];
        if (gap[i] != PASS)
            b->work[at++] = *value++;
    }
    return WEFT_OK;
}

/* ---- LEB128 gaps + value */

static weft_status varint_encode(bench *b)
{
    changes_list(b);
    uint8_t *out = b->coded.data;
    uint64_t next = 0;
    for (uint64_t i = 0; i < b->changed; i++) {
        uint64_t left = b->position[i] - next;
        for (; left >= 0x80; left >>= 7)
            *out++ = (uint8_t)(left | 0x80);
        *out++ = (uint8_t)left;
        memcpy(out, &b->after[b->position[i]], 2);
        out += 2;
        next = (uint64_t)b->position[i] + 1;
    }
    b->coded.used = (uint64_t)(out - b->coded.data);
    return WEFT_OK;
}

static weft_status varint_decode(bench *b)
{
    const uint8_t *in = b->coded.data, *end = in + b->coded.used;
    for (uint64_t at = 0; in < end; at++) {
        uint64_t gap = *in & 0x7f;
        for (unsigned shift = 7; *in++ & 0x80; shift += 7)
            gap |= (uint64_t)(*in & 0x7f) << shift;
        at += gap;
        memcpy(&b->work[at], in, 2);
        in += 2;
    }
    return WEFT_OK;
}

/* ---- zstd of the XOR */

static weft_status xor_encode(bench *b)
{
    uint16_t *differ = (void *)b->scratch.data;
    for (uint64_t i = 0; i < b->elements; i++)
        differ[i] = b->before[i] ^ b->after[i];
    size_t packed = ZSTD_compress(b->coded.data, b->coded.capacity, differ, 2 * b->elements, ZSTD_LEVEL);
    b->coded.used = packed;
    return ZSTD_isError(packed) ? zstd_failed(packed) : WEFT_OK;
}

static weft_status xor_decode(bench *b)
{
    const uint16_t *differ = (const void *)b->scratch.data;
    size_t got = ZSTD_decompress(b->scratch.data, b->scratch.capacity, b->coded.data, b->coded.used);
    if (ZSTD_isError(got))
        return zstd_failed(got);
    for (uint64_t i = 0; i < b->elements; i++)
        b->work[i] ^= differ[i];
    return WEFT_OK;
}

/* ---- Rice by old exponent */

#define CLASSES    256u
#define CLASS_HEAD 6u /* changes, and the parameters of gaps and steps */

static unsigned class_of(uint16_t bits)
{
    return bits >> 7 & 0xff;
}

/* Bit patterns as integers that grow with the value. */
static int32_t order_of(uint16_t bits)
{
    return bits & 0x8000 ? -(int32_t)(bits & 0x7fff) - 1 : bits;
}

/* Gaps and steps by class, in the scratch memory: `first` is where those of a class begin. */
static void classes_fill(const bench *b, uint32_t *gap, uint32_t *step, uint64_t next[CLASSES])
{
    uint32_t since[CLASSES] = {0};
    for (uint64_t i = 0; i < b->elements; i++) {
        const unsigned class = class_of(b->before[i]);
        if (b->before[i] == b->after[i]) {
            since[class]++;
            continue;
        }
        const int32_t by = order_of(b->after[i]) - order_of(b->before[i]);
        gap[next[class]] = since[class];
        step[next[class]++] = by < 0 ? 2 * (uint32_t)-by - 1 : 2 * (uint32_t)by;
        since[class] = 0;
    }
}

static weft_status classes_encode(bench *b)
{
    uint64_t next[CLASSES], count[CLASSES] = {0}, first = 0;
    changes_list(b);
    for (uint64_t i = 0; i < b->changed; i++)
        count[class_of(b->before[b->position[i]])]++;
    for (unsigned c = 0; c < CLASSES; first += count[c++])
        next[c] = first;
    uint32_t *gap = (void *)b->scratch.data, *step = b->position;
    classes_fill(b, gap, step, next);
    bits out = {.data = b->coded.data, .at = 8 * CLASS_HEAD * CLASSES};
    for (unsigned c = 0; c < CLASSES; c++) {
        const uint32_t changes = (uint32_t)count[c];
        const uint8_t low[2] = {rice_best(gap + next[c] - changes, changes),
                                rice_best(step + next[c] - changes, changes)};
        memcpy(b->coded.data + CLASS_HEAD * c, &changes, 4);
        memcpy(b->coded.data + CLASS_HEAD * c + 4, low, 2);
        for (uint64_t i = next[c] - changes; i < next[c]; i++) {
            rice_put(&out, gap[i], low[0]);
            rice_put(&out, step[i], low[1]);
        }
    }
    b->coded.used = (out.at + 7) / 8;
    return WEFT_OK;
}

static uint16_t stepped(uint16_t bits, uint32_t step)
{
    const int32_t by = step & 1 ? -(int32_t)(step / 2 + 1) : (int32_t)(step / 2), order = order_of(bits) + by;
    return order < 0 ? (uint16_t)(0x8000 | (uint16_t)(-order - 1)) : (uint16_t)order;
}

static weft_status classes_decode(bench *b)
{
    uint64_t next[CLASSES], end[CLASSES], first = 0;
    uint32_t *gap = (void *)b->scratch.data, *step = b->position, left[CLASSES];
    bits in = {.data = b->coded.data, .at = 8 * CLASS_HEAD * CLASSES};
    for (unsigned c = 0; c < CLASSES; c++) {
        const uint8_t *head = b->coded.data + CLASS_HEAD * c;
        uint32_t changes;
        memcpy(&changes, head, 4);
        next[c] = first;
        end[c] = first + changes;
        for (; first < end[c]; first++) {
            gap[first] = rice_get(&in, head[4]);
            step[first] = rice_get(&in, head[5]);
        }
        left[c] = next[c] < end[c] ? gap[next[c]] : UINT32_MAX;
    }
    for (uint64_t i = 0; i < b->elements; i++) {
        const unsigned class = class_of(b->work[i]);
        if (left[class]-- > 0)
            continue;
        b->work[i] = stepped(b->work[i], step[next[class]++]);
        left[class] = next[class] < end[class] ? gap[next[class]] : UINT32_MAX;
    }
    return WEFT_OK;
}

/* ---- all of them */

typedef struct method {
    const char *name;
    weft_status (*encode)(bench *b);
    weft_status (*decode)(bench *b); /* turns `work`, the old weights, into the new ones */
} method;

static const method methods[] = {
    {"u32 index + value", pairs_encode, pairs_decode},
    {"16-bit gaps + zstd of values", gaps_encode, gaps_decode},
    {"LEB128 gaps + value", varint_encode, varint_decode},
    {"zstd of the XOR", xor_encode, xor_decode},
    {"Rice by old exponent", classes_encode, classes_decode},
};
#define METHODS (sizeof methods / sizeof *methods)

static weft_status method_run(bench *b, const method *method, uint32_t rounds, weft_bench_rival *rival)
{
    double encode[WEFT_BENCH_ROUNDS_MAX], decode[WEFT_BENCH_ROUNDS_MAX];
    weft_status status = WEFT_OK;
    for (uint32_t round = 0; round < rounds && status == WEFT_OK; round++) {
        uint64_t begun = weft_clock_ns();
        status = method->encode(b);
        encode[round] = weft_clock_ms(begun, weft_clock_ns());
        memcpy(b->work, b->before, b->pair->bytes);
        begun = weft_clock_ns();
        if (status == WEFT_OK)
            status = method->decode(b);
        decode[round] = weft_clock_ms(begun, weft_clock_ns());
    }
    if (status == WEFT_OK && memcmp(b->work, b->after, b->pair->bytes) != 0)
        status = weft_fail(WEFT_E_TARGET, "%s did not give the new weights", method->name);
    *rival = (weft_bench_rival){.name = method->name, .bytes = b->coded.used};
    rival->encode_ms = weft_bench_median(encode, rounds);
    rival->decode_ms = weft_bench_median(decode, rounds);
    return status;
}

static weft_status bench_open(bench *b, weft_bench_pair *pair)
{
    const void *before = pair->before, *after = pair->after;
    *b = (bench){.pair = pair, .before = before, .after = after, .elements = pair->bytes / 2};
    b->work = (void *)pair->work;
    b->position = weft_mem_map(4 * (b->elements + 16));
    if (!b->position)
        return weft_fail(WEFT_E_MEMORY, "no memory for %llu positions", (unsigned long long)b->elements);
    weft_status status = weft_bench_bytes_open(&b->coded, b->elements * ROOM_EACH + ROOM_MORE);
    return status == WEFT_OK ? weft_bench_bytes_open(&b->scratch, pair->bytes + 64) : status;
}

static void bench_close(bench *b)
{
    weft_bench_bytes_close(&b->scratch);
    weft_bench_bytes_close(&b->coded);
    if (b->position)
        weft_mem_unmap(b->position, 4 * (b->elements + 16));
}

weft_status weft_bench_rivals_run(weft_bench_pair *pair, uint32_t rounds, weft_bench_rival rivals[WEFT_BENCH_RIVALS])
{
    bench b;
    for (size_t i = 0; i < METHODS; i++)
        rivals[i] =
            (weft_bench_rival){.name = methods[i].name, .skipped = "written for at most 2^32 weights of 16 bits"};
    if (!pair->words || pair->bytes / 2 > UINT32_MAX)
        return WEFT_OK;
    weft_status status = bench_open(&b, pair);
    for (size_t i = 0; i < METHODS && status == WEFT_OK; i++)
        status = method_run(&b, &methods[i], rounds, &rivals[i]);
    bench_close(&b);
    return status;
}

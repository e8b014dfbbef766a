/* cases_digest.c - rows of every width, at every place that elements may begin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/kernels/rows.h"
#include "layout/digest.h"
#include "tests/isa/cases.h"

static uint64_t expected(const uint8_t *data, uint64_t element, uint32_t count, uint32_t width)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, data + (size_t)i * width, width);
        sum += weft_digest_term(element + i, bits);
    }
    return sum;
}

static void record(const char *name, uint32_t width, uint32_t off, uint32_t count)
{
    uint8_t *data = weft_record_take(off + (uint64_t)count * width);
    uint64_t *sum = weft_record_take(sizeof *sum);
    weft_k_digest *rows = weft_record_take(2 * sizeof *rows);
    for (uint64_t i = 0; i < off + (uint64_t)count * width; i++)
        data[i] = (uint8_t)weft_cases_draw();
    const uint32_t half = count / 2;
    rows[0] = (weft_k_digest){(uint64_t)(uintptr_t)data + off, 5, (uint64_t)(uintptr_t)sum, half, width};
    rows[1] = rows[0];
    rows[1].data += (uint64_t)half * width;
    rows[1].element += half;
    rows[1].count = count - half;
    weft_record_case(name, count);
    weft_cases_launch(WEFT_GPU_KERNEL_digest, 2, rows);
    if (*sum != expected(data + off, 5, count, width)) {
        fprintf(stderr, "isa: %s: a digest that is not the law's\n", name);
        exit(1);
    }
    weft_record_give(rows);
    weft_record_give(sum);
    weft_record_give(data);
}

void weft_cases_digest(int full)
{
    record("bf16", 2, 0, 16384);
    for (uint32_t width = 1; width <= 8; width *= 2) {
        char name[32];
        snprintf(name, sizeof name, "odd%u", 8 * width);
        record(name, width, 3 * width % 16, full ? 20011 : 1501);
    }
}

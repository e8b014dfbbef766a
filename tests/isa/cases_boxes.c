/* cases_boxes.c - elements in boxes with strides, moved out of them and back: columns of a wider matrix, tiles, memory
 * that is cast. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/kernels/rows.h"
#include "tests/isa/cases.h"

enum { PITCH = 1024 }; /* elements of a row in memory */

/* As the paper has it: with bits so many that the divisor is at most 2^bits. */
static weft_k_divisor divisor(uint32_t by)
{
    uint32_t bits = 0;
    while (1u << bits < by)
        bits++;
    return (weft_k_divisor){by, (uint32_t)((((UINT64_C(1) << bits) - by) << 32) / by + 1), bits > 0,
                            bits ? bits - 1 : 0};
}

typedef struct boxed_case {
    const char *name;
    uint32_t rows, columns, width;
    bool tiled; /* tiles of 16 rows by 8 columns; else columns of a wider matrix */
    bool cast;
} boxed_case;

static uint64_t place(const boxed_case *c, uint64_t row, uint64_t column)
{
    return c->tiled ? ((row / 16 * (c->columns / 8) + column / 8) * 16 + row % 16) * 8 + column % 8
                    : row * PITCH + column;
}

/* The rows from `row` on. */
static weft_k_box box_of(const boxed_case *c, uint64_t data, uint32_t row)
{
    const uint64_t w = c->cast ? 4 : c->width;
    weft_k_box box = {.rows = c->rows - row, .columns = c->columns, .data = data, .cast = c->cast};
    box.beside = 1;
    if (c->tiled) {
        box.row_digits = box.column_digits = 2;
        box.row_at[0] = (weft_k_digit){c->rows / 16, 16 * (uint64_t)c->columns * w, row / 16, divisor(c->rows / 16)};
        box.row_at[1] = (weft_k_digit){16, 8 * w, row % 16, divisor(16)};
        box.column_at[0] = (weft_k_digit){c->columns / 8, 16 * 8 * w, 0, divisor(c->columns / 8)};
        box.column_at[1] = (weft_k_digit){8, w, 0, divisor(8)};
    } else {
        box.row_digits = box.column_digits = 1;
        box.row_at[0] = (weft_k_digit){c->rows, PITCH * w, row, divisor(c->rows)};
        box.column_at[0] = (weft_k_digit){c->columns, w, 0, divisor(c->columns)};
    }
    return box;
}

/* Two jobs, one for each half of the elements, of which the second begins where its rows do not. */
static uint32_t parts_put(const boxed_case *c, weft_k_part *parts, weft_k_boxed *jobs, weft_k_box *boxes,
                          uint8_t *memory, uint8_t *dense)
{
    const uint32_t count = c->rows * c->columns, half = count / 2 + 16;
    uint32_t made = 0;
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t first = j * half;
        boxes[j] = box_of(c, (uint64_t)(uintptr_t)memory, first / c->columns);
        jobs[j] = (weft_k_boxed){.boxes = (uint64_t)(uintptr_t)&boxes[j],
                                 .dense = (uint64_t)(uintptr_t)dense + (uint64_t)first * c->width,
                                 .all = divisor(c->columns),
                                 .column = first % c->columns,
                                 .count = j ? count - half : half,
                                 .width = c->width,
                                 .box_count = 1};
        for (uint32_t i = 0; i * WEFT_K_ELEMENTS < jobs[j].count; i++)
            parts[made++] = (weft_k_part){.job = (uint64_t)(uintptr_t)&jobs[j], .index = i};
    }
    return made;
}

static void check(const boxed_case *c, const uint8_t *memory, const uint8_t *dense)
{
    for (uint64_t i = 0; i < (uint64_t)c->rows * c->columns; i++) {
        const uint64_t at = place(c, i / c->columns, i % c->columns);
        uint32_t bits = 0;
        memcpy(&bits, memory + at * (c->cast ? 4 : c->width), c->cast ? 4 : c->width);
        const uint32_t wanted = c->cast ? (bits + 0x7fffu + (bits >> 16 & 1)) >> 16 : bits;
        if (memcmp(&wanted, dense + i * c->width, c->width) == 0)
            continue;
        fprintf(stderr, "isa: %s: element %llu is not the box's\n", c->name, (unsigned long long)i);
        exit(1);
    }
}

/* ---- single elements */

enum { EVERY = 5 };

/* Changes of every fifth element, in the boxes' own memory. */
typedef struct swaps {
    uint32_t *positions, count, blocks;
    uint8_t *before, *after;
    weft_k_swap *job;
    weft_k_run *runs;
    weft_k_part *parts;
    uint32_t *words; /* mismatch and guard */
} swaps;

static uint8_t *element(const boxed_case *c, uint8_t *memory, uint32_t position)
{
    return memory + place(c, position / c->columns, position % c->columns) * c->width;
}

/* One job over both halves, a run each. */
static swaps swaps_put(const boxed_case *c, const weft_k_boxed *jobs, uint8_t *memory)
{
    const uint32_t count = c->rows * c->columns;
    swaps s = {.count = (count + EVERY - 1) / EVERY};
    s.blocks = (s.count + WEFT_K_SWAPS - 1) / WEFT_K_SWAPS;
    s.positions = weft_record_take(s.count * sizeof(uint32_t));
    s.before = weft_record_take((uint64_t)s.count * c->width);
    s.after = weft_record_take((uint64_t)s.count * c->width);
    s.job = weft_record_take(sizeof *s.job);
    s.runs = weft_record_take(2 * sizeof *s.runs);
    s.parts = weft_record_take(s.blocks * sizeof *s.parts);
    s.words = weft_record_take(2 * sizeof *s.words);
    for (uint32_t i = 0; i < s.count; i++) {
        s.positions[i] = EVERY * i;
        memcpy(s.before + (uint64_t)i * c->width, element(c, memory, EVERY * i), c->width);
    }
    for (uint64_t i = 0; i < (uint64_t)s.count * c->width; i++)
        s.after[i] = (uint8_t)weft_cases_draw();
    for (uint32_t j = 0; j < 2; j++)
        s.runs[j] = (weft_k_run){.element = (uintptr_t)&jobs[j], .position = j * jobs[0].count, .count = jobs[j].count};
    for (uint32_t i = 0; i < s.blocks; i++)
        s.parts[i] = (weft_k_part){.job = (uintptr_t)s.job, .index = i};
    *s.job = (weft_k_swap){.view = {.runs = (uintptr_t)s.runs, .run_count = 2, .count = count, .width = c->width},
                           .position = (uintptr_t)s.positions,
                           .before = (uintptr_t)s.before,
                           .after = (uintptr_t)s.after,
                           .mismatch = (uintptr_t)&s.words[0],
                           .guard = (uintptr_t)&s.words[1],
                           .count = s.count,
                           .boxed = 1};
    return s;
}

static void swaps_give(const swaps *s)
{
    void *const all[] = {s->positions, s->before, s->after, s->job, s->runs, s->parts, s->words};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        weft_record_give(all[i]);
}

static void swaps_check(const boxed_case *c, const swaps *s, uint8_t *memory, const uint8_t *wanted, uint32_t guard)
{
    bool same = s->words[0] == guard && s->words[1] == guard;
    for (uint32_t i = 0; i < s->count && same; i++)
        same = memcmp(element(c, memory, EVERY * i), wanted + (uint64_t)i * c->width, c->width) == 0;
    if (same)
        return;
    fprintf(stderr, "isa: %s: changes are not in the boxes as they should be\n", c->name);
    exit(1);
}

/* Proves, puts and takes back; and puts nothing where the last element was another one. */
static void swaps_record(const boxed_case *c, const weft_k_boxed *jobs, uint8_t *memory)
{
    const swaps s = swaps_put(c, jobs, memory);
    uint8_t *last = s.before + (uint64_t)(s.count - 1) * c->width;
    weft_cases_launch(WEFT_GPU_KERNEL_prove, s.blocks, s.parts);
    weft_cases_launch(WEFT_GPU_KERNEL_apply, s.blocks, s.parts);
    swaps_check(c, &s, memory, s.after, 0);
    weft_cases_launch(WEFT_GPU_KERNEL_undo, s.blocks, s.parts);
    swaps_check(c, &s, memory, s.before, 0);
    *last ^= 1;
    weft_cases_launch(WEFT_GPU_KERNEL_prove, s.blocks, s.parts);
    weft_cases_launch(WEFT_GPU_KERNEL_apply, s.blocks, s.parts);
    *last ^= 1;
    swaps_check(c, &s, memory, s.before, 1);
    swaps_give(&s);
}

static void record(const boxed_case *c)
{
    const uint64_t count = (uint64_t)c->rows * c->columns, w = c->cast ? 4 : c->width;
    const uint64_t bytes = (c->tiled ? count : (uint64_t)c->rows * PITCH) * w;
    uint8_t *memory = weft_record_take(bytes), *dense = weft_record_take(count * c->width);
    weft_k_box *boxes = weft_record_take(2 * sizeof *boxes);
    weft_k_boxed *jobs = weft_record_take(2 * sizeof *jobs);
    weft_k_part *parts = weft_record_take(sizeof *parts * (count / WEFT_K_ELEMENTS + 2));
    for (uint64_t i = 0; i < bytes; i++)
        memory[i] =
            (uint8_t)(i % 4 == 3 && c->cast ? 0x3f : weft_cases_draw()); /* no NaN, for which check has no rule */
    const uint32_t blocks = parts_put(c, parts, jobs, boxes, memory, dense);
    weft_record_case(c->name, count);
    weft_cases_launch(WEFT_GPU_KERNEL_boxes_load, blocks, parts);
    check(c, memory, dense);
    for (uint64_t i = 0; i < count * c->width && !c->cast; i++)
        dense[i] = (uint8_t)weft_cases_draw();
    if (!c->cast)
        weft_cases_launch(WEFT_GPU_KERNEL_boxes_store, blocks, parts);
    check(c, memory, dense);
    if (!c->cast) /* nobody writes memory that is cast */
        swaps_record(c, jobs, memory);
    weft_record_give(parts);
    weft_record_give(jobs);
    weft_record_give(boxes);
    weft_record_give(dense);
    weft_record_give(memory);
}

void weft_cases_boxes(int full)
{
    static const boxed_case cases[] = {
        {"columns256", 64, 256, 2, false, false}, {"columns12", 100, 12, 2, false, false},
        {"tiles16x8", 64, 64, 2, true, false},    {"columns100f32", 20, 100, 4, false, false},
        {"columns30u8", 40, 30, 1, false, false}, {"columns256cast", 32, 256, 2, false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        boxed_case c = cases[i];
        c.rows *= full && i > 0 ? 4 : 1;
        record(&c);
    }
}

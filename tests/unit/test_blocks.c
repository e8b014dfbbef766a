/* Blocks: which are refused and in what words, where their elements are found, and what a binding keeps of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/support/block_world.h"
#include "tests/support/unit_pair.h"

#include "layout/box.h"

static _Alignas(8) uint16_t memory[4096];
static weft_layout *layout;

/* q 64 x 32 and norm of bf16, packed 4 x 6 of four bits, complex 3 x 4. */
static int setup(void **state)
{
    static const uint64_t q[] = {8, 8, 32}, norm[] = {10}, packed[] = {4, 6}, complex[] = {3, 4}, ragged[] = {4, 3};
    const weft_tensor tensors[] = {{"q", WEFT_BF16, 3, q},
                                   {"norm", WEFT_BF16, 1, norm},
                                   {"packed", WEFT_F4, 2, packed},
                                   {"complex", WEFT_C64, 2, complex},
                                   {"ragged", WEFT_F4, 2, ragged}};
    (void)state;
    return weft_layout_create(tensors, 5, &layout);
}

static int teardown(void **state)
{
    (void)state;
    weft_layout_free(layout);
    return 0;
}

static const weft_block norm = {.slice = {1, 0, 1, 0, 10}, .data = memory},
                        packed = {.slice = {2, 0, 4, 0, 6}, .data = memory},
                        complex = {.slice = {3, 0, 3, 0, 4}, .data = memory},
                        ragged = {.slice = {4, 0, 4, 0, 3}, .data = memory},
                        q = {.slice = {0, 0, 64, 0, 32}, .data = memory};

static weft_status open_with(const weft_block *blocks, uint64_t count, weft_binding *binding)
{
    weft_block all[8] = {norm, packed, complex, ragged};
    for (uint64_t i = 0; i < count; i++)
        all[4 + i] = blocks[i];
    return weft_binding_open_blocks(layout, all, 4 + count, binding);
}

static void refused(weft_status wanted, const weft_block *blocks, uint64_t count, const char *words)
{
    weft_binding binding = {.run_count = 77};
    assert_int_equal(open_with(blocks, count, &binding), wanted);
    assert_int_equal(binding.run_count, 77);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

#define REFUSED(status, words, ...) refused(status, &(weft_block){__VA_ARGS__}, 1, words)
#define Q_BOX                       "q, 64 rows from 0 of 64, 32 columns from 0 of 32: "

static void bad_blocks_are_refused(void **state)
{
    (void)state;
    REFUSED(WEFT_E_LAYOUT, "block 4 names tensor 9 of a layout of 5", .slice = {9, 0, 1, 0, 1}, .data = memory);
    REFUSED(WEFT_E_LAYOUT, "q, 60 rows from 5 of 64, 32 columns from 0 of 32: the slice reaches past the tensor",
            .slice = {0, 5, 60, 0, 32}, .data = memory);
    REFUSED(WEFT_E_LAYOUT, "the slice reaches past", .slice = {0, 0, 64, UINT64_MAX, 2}, .data = memory);
    REFUSED(WEFT_E_LAYOUT, "rows of F4 that do not fill whole bytes", .slice = {2, 0, 4, 1, 4}, .data = memory);
    REFUSED(WEFT_E_LAYOUT, "rows of F4 that do not fill whole bytes", .slice = {4, 0, 4, 0, 2}, .data = memory);
    REFUSED(WEFT_E_LAYOUT, Q_BOX "the block has no memory", .slice = q.slice);
    REFUSED(WEFT_E_LAYOUT, "not aligned to 2 bytes", .slice = q.slice, .data = (char *)memory + 1);
    REFUSED(WEFT_E_LAYOUT, Q_BOX "the extents of row multiply to 63, the box needs 64", .slice = q.slice,
            .data = memory, .row = {{63, 64}});
    REFUSED(WEFT_E_LAYOUT, "the extents of column multiply to 18446744073709551615, the box needs 32", .slice = q.slice,
            .data = memory, .column = {{UINT64_C(1) << 33, 2}, {UINT64_C(1) << 33, 2}});
    REFUSED(WEFT_E_LAYOUT, "row[2] is used after an extent of 0", .slice = q.slice, .data = memory,
            .row = {{64, 64}, {0, 0}, {1, 2}});
    REFUSED(WEFT_E_LAYOUT, "the extents of row multiply to 0", .slice = q.slice, .data = memory, .row = {{0, 64}});
    REFUSED(WEFT_E_LAYOUT, Q_BOX "row[0] has a stride of 65 bytes: no multiple of 2", .slice = q.slice, .data = memory,
            .row = {{64, 65}});
    REFUSED(WEFT_E_LAYOUT, Q_BOX "the block runs past the end of memory", .slice = q.slice, .data = memory,
            .row = {{64, UINT64_C(1) << 62}});
    REFUSED(WEFT_E_LAYOUT, "the block runs past the end of memory", .slice = q.slice,
            .data = (void *)(UINTPTR_MAX - 4093));
    REFUSED(WEFT_E_ARGUMENT,
            Q_BOX "memory F16: the layout says BF16, and F32 that is read as BF16 or F16 is the only cast",
            .slice = q.slice, .data = memory, .memory = WEFT_F16);
    REFUSED(WEFT_E_LAYOUT, "not aligned to 4 bytes", .slice = q.slice, .data = memory + 1, .memory = WEFT_F32);
    REFUSED(WEFT_E_LAYOUT, Q_BOX "row[0] has a stride of 130 bytes: no multiple of 4", .slice = q.slice, .data = memory,
            .row = {{64, 130}}, .memory = WEFT_F32);
    REFUSED(WEFT_E_LAYOUT, "strides lead two elements to one address", .slice = q.slice, .data = memory,
            .row = {{64, 64}}, .memory = WEFT_F32);
    REFUSED(WEFT_E_LAYOUT, "rows of F4 that do not fill whole bytes take no strides", .slice = ragged.slice,
            .data = memory, .column = {{3, 1}});
    REFUSED(WEFT_E_LAYOUT, "rows of F4 that do not fill whole bytes take no strides", .slice = ragged.slice,
            .data = memory, .row = {{4, 1}});
    REFUSED(WEFT_E_ARGUMENT, "memory of an unknown dtype", .slice = q.slice, .data = memory, .memory = (weft_dtype)99);
    REFUSED(WEFT_E_ARGUMENT, Q_BOX "flags 1 of the block are reserved", .slice = q.slice, .data = memory, .flags = 1);
}

static void strides_that_alias_are_refused(void **state)
{
    (void)state;
    REFUSED(WEFT_E_LAYOUT, Q_BOX "strides lead two elements to one address: 64 steps of 62 bytes", .slice = q.slice,
            .data = memory, .row = {{64, 62}});
    REFUSED(WEFT_E_LAYOUT, "64 steps of 0 bytes", .slice = q.slice, .data = memory, .row = {{64, 0}});
    REFUSED(WEFT_E_LAYOUT, "one address", .slice = q.slice, .data = memory, .row = {{64, 64}}, .column = {{32, 64}});
    REFUSED(WEFT_E_LAYOUT, "one address", .slice = q.slice, .data = memory, .row = {{8, 64}, {8, 64}});
}

static void gaps_and_overlaps_are_named(void **state)
{
    const weft_block upper = {.slice = {0, 0, 32, 0, 32}, .data = memory},
                     left = {.slice = {0, 32, 32, 0, 16}, .data = memory + 1024},
                     right = {.slice = {0, 32, 32, 16, 16}, .data = memory + 1536},
                     late = {.slice = {0, 40, 24, 16, 16}, .data = memory + 1536},
                     wide = {.slice = {0, 63, 1, 8, 24}, .data = memory + 1536};
    weft_binding binding;
    (void)state;
    refused(WEFT_E_LAYOUT, NULL, 0, "tensor q: no block holds row 0, column 0");
    refused(WEFT_E_LAYOUT, (weft_block[]){upper, left}, 2, "tensor q: no block holds row 32, column 16");
    refused(WEFT_E_LAYOUT, (weft_block[]){left, upper, late}, 3, "tensor q: no block holds row 32, column 16");
    refused(WEFT_E_LAYOUT, (weft_block[]){right, left}, 2, "tensor q: no block holds row 0, column 0");
    const weft_block some[] = {{.slice = {0, 0, 16, 0, 32}, .data = memory},
                               {.slice = {0, 32, 16, 0, 32}, .data = memory + 1024}};
    refused(WEFT_E_LAYOUT, some, 2, "tensor q: no block holds row 16, column 0"); /* the first of several */
    refused(WEFT_E_LAYOUT, (weft_block[]){upper, right, left, wide}, 4,
            "tensor q: two blocks hold row 63, column 8: that of 32 rows from 32, and that of 1 rows from 63");
    assert_int_equal(open_with((weft_block[]){right, left, upper}, 3, &binding), WEFT_OK);
    weft_binding_close(&binding);
}

/* A block that lies as its tensor does is a piece, whatever its strides are called. */
static void blocks_that_lie_as_pieces_are_pieces(void **state)
{
    const weft_block named[] = {
        {.slice = q.slice, .data = memory, .row = {{8, 512}, {2, 256}, {4, 64}}, .column = {{4, 16}, {8, 2}}},
        {.slice = q.slice, .data = memory, .memory = WEFT_BF16}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        weft_binding binding;
        assert_int_equal(open_with(&named[i], 1, &binding), WEFT_OK);
        assert_null(binding.boxes);
        assert_ptr_equal(binding.runs[0].data, memory);
        weft_binding_close(&binding);
    }
}

static void a_binding_grows_with_blocks_and_not_with_rows(void **state)
{
    const weft_block columns[] = {{.slice = {0, 0, 64, 16, 16}, .data = memory, .row = {{64, 64}}},
                                  {.slice = {0, 0, 64, 0, 16}, .data = memory + 16, .row = {{64, 64}}}};
    weft_binding binding;
    (void)state;
    assert_int_equal(open_with(columns, 2, &binding), WEFT_OK);
    assert_int_equal(binding.boxes->count, 2);
    assert_int_equal(binding.first_run[1], 2); /* q and norm are one pack */
    assert_null(binding.runs[0].data);
    assert_ptr_equal(binding.runs[1].data, memory);
    assert_ptr_equal(weft_boxes_segment(binding.boxes, 0, 32 + 3).data, memory + 32 + 16 + 3);
    assert_int_equal(weft_boxes_segment(binding.boxes, 0, 32 + 3).count, 13);
    assert_non_null(weft_binding_view(&binding, 0).boxes);
    assert_null(weft_binding_view(&binding, 1).boxes);
    weft_binding_close(&binding);
}

/* Random worlds: every element is where the block's own formula says. */
static void every_element_is_found(void **state)
{
    uint64_t boxed = 0;
    (void)state;
    for (uint64_t round = 0; round < 200; round++) {
        block_world world;
        weft_binding binding;
        block_world_open(&world, layout, round, false);
        pair_must(weft_binding_open_blocks(layout, world.blocks, world.count, &binding), "blocks");
        for (uint64_t r = 0; r < binding.run_count; r++) {
            const weft_run *run = &binding.runs[r];
            const uint64_t width = layout->entries[run->tensor].row->width, begin = world.offsets[run->tensor];
            for (uint64_t i = 0; i < run->count; i++) {
                const uint64_t element = run->element + i;
                const uint8_t *at =
                    run->data ? run->data + i * width : weft_boxes_segment(binding.boxes, run->tensor, element).data;
                assert_ptr_equal(at, block_world_at(&world, begin + element * width));
            }
            boxed += !run->data;
        }
        weft_binding_close(&binding);
        block_world_close(&world);
    }
    assert_true(boxed > 200);
}

/* ---- memory that is written */

/* Whether two patterns share a byte, byte by byte. */
static bool painted(const weft_pattern *a, const weft_pattern *b, uint8_t *paint, uint64_t bytes)
{
    const weft_pattern *both[] = {a, b};
    bool meet = false;
    memset(paint, 0, bytes);
    for (int i = 0; i < 2; i++) {
        const weft_pattern *p = both[i];
        uint64_t runs = 1;
        for (uint32_t k = 0; k < p->count; k++)
            runs *= p->part[k].extent;
        for (uint64_t r = 0; r < runs; r++) {
            uint64_t at = p->low, left = r;
            for (uint32_t k = 0; k < p->count; k++) {
                at += left % p->part[k].extent * p->part[k].stride;
                left /= p->part[k].extent;
            }
            for (uint64_t byte = 0; byte < p->bytes; byte++) {
                meet = meet || (i == 1 && paint[at + byte] == 1);
                paint[at + byte] |= (uint8_t)(1 << i);
            }
        }
    }
    return meet;
}

static weft_pattern pattern_random(uint64_t *seed)
{
    weft_pattern pattern;
    weft_stride parts[4];
    uint32_t count;
    do {
        count = 1 + (uint32_t)pair_below(seed, 4);
        for (uint32_t i = 0; i < count; i++)
            parts[i] = (weft_stride){1 + pair_below(seed, 5), 2 * (1 + pair_below(seed, i < 2 ? 12 : 90))};
    } while (weft_pattern_make((void *)(8 + 2 * pair_below(seed, 60)), 2, parts, count, &pattern, NULL) !=
             WEFT_PATTERN_SOUND);
    return pattern;
}

static void patterns_meet_where_paint_does(void **state)
{
    static uint8_t paint[1 << 16];
    uint64_t seed = 5, meeting = 0, crossing = 0;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        const weft_pattern a = pattern_random(&seed), b = pattern_random(&seed);
        const bool meet = painted(&a, &b, paint, sizeof paint);
        assert_int_equal(weft_pattern_meets(&a, &b), meet);
        assert_int_equal(weft_pattern_meets(&b, &a), meet);
        meeting += meet;
        crossing += !meet && a.low < b.low + b.span && b.low < a.low + a.span;
    }
    assert_true(meeting > 1000 && crossing > 1000);
}

static void shared_memory_is_told_where_it_is_written(void **state)
{
    static uint16_t other[8192];
    const weft_block columns = {.slice = {0, 0, 64, 0, 16}, .data = other, .row = {{64, 80}}};
    struct {
        uint64_t at; /* elements */
        bool apart;
    } rows[] = {{16, true}, {24, true}, {15, false}, {25, false}, {2560, true}, {2536, true}, {2535, false}};
    weft_block all[] = {norm, packed, complex, ragged, columns, columns};
    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        all[i].data = memory + 200 * i;
    all[5].slice.column = 16;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_binding binding;
        all[5].data = other + rows[i].at;
        pair_must(weft_binding_open_blocks(layout, all, 6, &binding), "blocks");
        assert_int_equal(weft_binding_apart(&binding), rows[i].apart ? WEFT_OK : WEFT_E_LAYOUT);
        if (!rows[i].apart)
            assert_non_null(strstr(weft_last_error(), "two blocks that are written share memory: q, 64 rows from 0"));
        weft_binding_close(&binding);
    }
    all[5].data = other + 16;
    all[0].data = other + 40 * 7 + 3; /* a vector inside of a box */
    weft_binding binding;
    pair_must(weft_binding_open_blocks(layout, all, 6, &binding), "blocks");
    assert_int_equal(weft_binding_apart(&binding), WEFT_E_LAYOUT);
    weft_binding_close(&binding);
}

/* Memory that is rounded when it is read has no way back in. */
static void what_is_cast_is_never_written(void **state)
{
    static float other[64 * 32];
    const weft_block cast = {.slice = q.slice, .data = other, .memory = WEFT_F32};
    weft_binding binding;
    weft_block all[] = {norm, packed, complex, ragged, cast};
    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        all[i].data = memory + 200 * i;
    pair_must(weft_binding_open_blocks(layout, all, 5, &binding), "blocks");
    assert_int_equal(weft_binding_apart(&binding), WEFT_E_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "is read by trainers alone"));
    weft_binding_close(&binding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_blocks_are_refused),
                                       cmocka_unit_test(strides_that_alias_are_refused),
                                       cmocka_unit_test(gaps_and_overlaps_are_named),
                                       cmocka_unit_test(blocks_that_lie_as_pieces_are_pieces),
                                       cmocka_unit_test(a_binding_grows_with_blocks_and_not_with_rows),
                                       cmocka_unit_test(every_element_is_found),
                                       cmocka_unit_test(patterns_meet_where_paint_does),
                                       cmocka_unit_test(shared_memory_is_told_where_it_is_written),
                                       cmocka_unit_test(what_is_cast_is_never_written)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

/* Bindings: which pieces are refused, and that runs cover each unit exactly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layout/digest.h"
#include "layout/layout.h"

#define SHAPE(...)                                                                                                     \
    (const uint64_t[])                                                                                                 \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static uint64_t memory[1024];

static weft_layout *layout_of(const weft_tensor *tensors, uint64_t count)
{
    weft_layout *layout = NULL;
    if (weft_layout_create(tensors, count, &layout) != WEFT_OK)
        fail_msg("layout refused: %s", weft_last_error());
    return layout;
}

static void refused(weft_layout *layout, const weft_piece *pieces, uint64_t count, const char *words)
{
    weft_binding binding = {.run_count = 77};
    assert_int_equal(weft_binding_open(layout, pieces, count, &binding), WEFT_E_LAYOUT);
    assert_int_equal(binding.run_count, 77);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static void bad_pieces_are_refused(void **state)
{
    (void)state;
    const weft_tensor tensors[] = {{"wide", WEFT_F32, 1, SHAPE(100)}, {"packed", WEFT_F4, 1, SHAPE(8)}};
    weft_layout *layout = layout_of(tensors, 2);
    const weft_piece whole = {0, 0, 100, memory}, packed = {1, 0, 8, memory + 100};
    refused(layout, &whole, 1, "packed: no piece holds its elements 0 to 7");
    refused(layout, &packed, 1, "wide: no piece holds its elements 0 to 99");
    refused(layout, NULL, 0, "wide: no piece");
    refused(layout, (weft_piece[]){whole, packed, {2, 0, 1, memory}}, 3, "tensor 2");
    refused(layout, (weft_piece[]){packed, {0, 0, 50, memory}, {0, 51, 49, memory + 50}}, 3, "elements 50 to 50");
    refused(layout, (weft_piece[]){packed, {0, 0, 50, memory}}, 2, "elements 50 to 99");
    refused(layout, (weft_piece[]){packed, {0, 0, 51, memory}, {0, 50, 50, memory + 50}}, 3, "overlap at element 50");
    refused(layout, (weft_piece[]){packed, whole, whole}, 3, "wide: pieces overlap at element 0");
    refused(layout, (weft_piece[]){packed, {0, 1, 100, memory}}, 2, "100 from 1 on");
    refused(layout, (weft_piece[]){packed, {0, UINT64_MAX, 2, memory}}, 2, "wide has 100 elements");
    refused(layout, (weft_piece[]){packed, {0, 0, 100, NULL}}, 2, "no memory");
    refused(layout, (weft_piece[]){packed, {0, 0, 100, (char *)memory + 2}}, 2, "aligned to 4 bytes");
    refused(layout, (weft_piece[]){packed, {0, 0, 100, (void *)(UINTPTR_MAX - 39)}}, 2, "end of memory");
    refused(layout, (weft_piece[]){whole, {1, 0, 3, memory}, {1, 3, 5, memory}}, 3, "whole bytes");
    refused(layout, (weft_piece[]){whole, {1, 1, 2, memory}, packed}, 3, "2 elements of F4 from 1 on");
    weft_layout_free(layout);
}

/* Written weights may have to be undone, and shared bits of two tensors cannot be. */
static void tensors_that_share_memory_are_told(void **state)
{
    (void)state;
    const weft_tensor tensors[] = {
        {"embed", WEFT_F32, 1, SHAPE(100)}, {"norm", WEFT_F32, 1, SHAPE(4)}, {"head", WEFT_F32, 1, SHAPE(100)}};
    weft_layout *layout = layout_of(tensors, 3);
    uint32_t *words = (uint32_t *)memory;
    uint32_t *const places[] = {words, words + 99, words + 96, words + 104, words + 100};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const weft_piece pieces[] = {
            {1, 0, 4, words + 100}, {2, 0, 100, places[i]}, {0, 50, 50, words + 50}, {0, 0, 50, words}};
        weft_binding binding;
        const bool apart = places[i] == words + 104;
        assert_int_equal(weft_binding_open(layout, pieces, 4, &binding), WEFT_OK);
        assert_int_equal(weft_binding_apart(&binding), apart ? WEFT_OK : WEFT_E_LAYOUT);
        if (!apart)
            assert_non_null(strstr(weft_last_error(), "share memory"));
        weft_binding_close(&binding);
    }
    weft_layout_free(layout);
}

static void pieces_go_in_any_order(void **state)
{
    (void)state;
    const weft_tensor tensors[] = {
        {"a", WEFT_BF16, 1, SHAPE(10)}, {"none", WEFT_BF16, 1, SHAPE(0)}, {"b", WEFT_BF16, 1, SHAPE(6)}};
    weft_layout *layout = layout_of(tensors, 3);
    uint16_t *words = (uint16_t *)(void *)memory;
    const weft_piece pieces[] = {{2, 4, 2, words + 50}, {0, 5, 5, words + 5}, {1, 0, 0, NULL},
                                 {2, 0, 4, words + 60}, {0, 3, 0, NULL},      {0, 0, 5, words}};
    weft_binding binding;
    assert_int_equal(weft_binding_open(layout, pieces, 6, &binding), WEFT_OK);
    weft_view view = weft_binding_view(&binding, 0);
    const weft_run wanted[] = {{(uint8_t *)words, 0, 0, 0, 10, 0}, /* two pieces, neighbours in memory: one run */
                               {(uint8_t *)(words + 60), 2, 0, 10, 4, 2},
                               {(uint8_t *)(words + 50), 2, 4, 14, 2, 2}};
    assert_int_equal(view.run_count, 3);
    assert_int_equal(view.count, 16);
    assert_int_equal(view.width, 2);
    assert_int_equal(view.is_float, 1);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(view.runs[i].data, wanted[i].data);
        assert_int_equal(view.runs[i].tensor, wanted[i].tensor);
        assert_int_equal(view.runs[i].element, wanted[i].element);
        assert_int_equal(view.runs[i].position, wanted[i].position);
        assert_int_equal(view.runs[i].count, wanted[i].count);
        assert_int_equal(view.runs[i].part, wanted[i].part);
    }
    weft_binding_close(&binding);
    weft_layout_free(layout);
}

/* Packed and complex elements are counted in the dtype by pieces, in words by runs. */
static void pieces_are_recounted_as_coded_elements(void **state)
{
    (void)state;
    const weft_tensor tensors[] = {{"c", WEFT_C64, 1, SHAPE(10)}, {"f", WEFT_F6_E2M3, 1, SHAPE(16)}};
    weft_layout *layout = layout_of(tensors, 2);
    uint8_t *bytes = (uint8_t *)memory;
    const weft_piece pieces[] = {
        {0, 0, 4, bytes}, {0, 4, 6, bytes + 64}, {1, 0, 4, bytes + 201}, {1, 4, 12, bytes + 301}};
    weft_binding binding;
    assert_int_equal(weft_binding_open(layout, pieces, 4, &binding), WEFT_OK);
    assert_int_equal(binding.run_count, 4);
    const uint64_t element[] = {0, 8, 0, 3}, count[] = {8, 12, 3, 9};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(binding.runs[i].element, element[i]);
        assert_int_equal(binding.runs[i].count, count[i]);
        assert_ptr_equal(binding.runs[i].data, pieces[i].data);
    }
    weft_binding_close(&binding);
    weft_layout_free(layout);
}

static void image_is_aligned_and_covered(void **state)
{
    (void)state;
    const weft_tensor tensors[] = {{"a", WEFT_U8, 1, SHAPE(3)},
                                   {"b", WEFT_F64, 1, SHAPE(2)},
                                   {"c", WEFT_BF16, 1, SHAPE(5)},
                                   {"d", WEFT_F32, 1, SHAPE(1)}};
    weft_layout *layout = layout_of(tensors, 4);
    weft_binding binding;
    assert_int_equal(weft_binding_open_image(layout, memory, &binding), WEFT_OK);
    uint8_t seen[64] = {0};
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        weft_view view = weft_binding_view(&binding, u);
        for (uint32_t r = 0; r < view.run_count; r++)
            for (uint32_t b = 0; b < view.runs[r].count * view.width; b++)
                seen[view.runs[r].data - (uint8_t *)memory + b]++;
    }
    for (uint64_t b = 0; b < sizeof seen; b++)
        assert_int_equal(seen[b], b < weft_layout_bytes(layout) ? 1 : 0);
    weft_binding_close(&binding);
    weft_layout_free(layout);
}

static void nothing_binds_to_nothing(void **state)
{
    (void)state;
    weft_layout *layout = layout_of(NULL, 0);
    weft_binding binding;
    assert_int_equal(weft_binding_open(layout, NULL, 0, &binding), WEFT_OK);
    assert_int_equal(binding.run_count, 0);
    weft_binding_close(&binding);
    weft_layout_free(layout);
}

#define TENSORS 12

/* Cuts every tensor into random pieces of one big block, shuffles them; returns how many. */
static uint64_t random_pieces(const weft_layout *layout, uint64_t seed, uint8_t *block, weft_piece *pieces)
{
    uint64_t count = 0;
    for (uint64_t t = 0; t < layout->count; t++) {
        const weft_layout_entry *entry = &layout->entries[t];
        for (uint64_t first = 0; first < entry->elements;) {
            uint64_t length = 1 + weft_mix64(seed ^ (count << 8)) % 200000;
            if (length > entry->elements - first)
                length = entry->elements - first;
            pieces[count++] = (weft_piece){t, first, length, block + entry->offset + first * entry->row->width};
            first += length;
        }
    }
    for (uint64_t i = count; i > 1; i--) {
        uint64_t j = weft_mix64(seed + i) % i;
        weft_piece kept = pieces[i - 1];
        pieces[i - 1] = pieces[j];
        pieces[j] = kept;
    }
    return count;
}

/* Checks that element `first` of `tensor` lies where it must: every piece is at its place in the block. */
static void run_check(const weft_layout *layout, const weft_view *view, const weft_run *run, uint8_t *block)
{
    const weft_layout_entry *entry = &layout->entries[run->tensor];
    assert_ptr_equal(run->data, block + entry->offset + run->element * view->width);
    assert_true(run->count > 0);
    assert_true(run->element + run->count <= entry->coded);
}

static void runs_cover_each_unit(void **state)
{
    (void)state;
    static weft_piece pieces[4096];
    const uint64_t sizes[TENSORS] = {5, 0, 300000, 7, 262144, 1, 900001, 262143, 12, 0, 131073, 3};
    const weft_dtype dtypes[] = {WEFT_BF16, WEFT_BF16, WEFT_F64};
    char names[TENSORS][4];
    weft_tensor tensors[TENSORS];
    for (uint64_t t = 0; t < TENSORS; t++) {
        snprintf(names[t], 4, "%d", (int)t);
        tensors[t] = (weft_tensor){names[t], dtypes[t % 3], 1, &sizes[t]};
    }
    weft_layout *layout = layout_of(tensors, TENSORS);
    uint8_t *block = malloc(weft_layout_bytes(layout));
    assert_non_null(block);
    for (uint64_t seed = 1; seed <= 50; seed++) {
        weft_binding binding;
        uint64_t count = random_pieces(layout, seed, block, pieces);
        assert_int_equal(weft_binding_open(layout, pieces, count, &binding), WEFT_OK);
        for (uint64_t u = 0; u < layout->unit_count; u++) {
            weft_view view = weft_binding_view(&binding, u);
            uint64_t tensor = layout->units[u].tensor, element = layout->units[u].first, position = 0;
            for (uint32_t r = 0; r < view.run_count; r++) {
                const weft_run *run = &view.runs[r];
                while (element == layout->entries[tensor].coded) {
                    tensor++;
                    element = 0;
                }
                assert_int_equal(weft_run_position(&view, run), position);
                assert_int_equal(run->tensor, tensor);
                assert_int_equal(run->part, layout->entries[tensor].part + element / weft_tile_elements(view.width));
                assert_int_equal(run->element, element);
                run_check(layout, &view, run, block);
                position += run->count;
                element += run->count;
            }
            assert_int_equal(position, view.count);
            assert_int_equal(view.unit, u);
        }
        weft_binding_close(&binding);
    }
    free(block);
    weft_layout_free(layout);
}

/* Runs of units cut each stretch at its own places; a view of one counts on through it. */
static void spans_join_units(void **state)
{
    (void)state;
    const weft_tensor tensors[] = {{"a", WEFT_U8, 1, SHAPE(5 << 18)},
                                   {"b", WEFT_U8, 1, SHAPE(7)},
                                   {"c", WEFT_I8, 1, SHAPE(3 << 18)},
                                   {"d", WEFT_I8, 1, SHAPE((1 << 18) + 1)}};
    weft_layout *layout = layout_of(tensors, 4);
    uint8_t *block = malloc(weft_layout_bytes(layout));
    assert_non_null(block);
    weft_binding binding;
    assert_int_equal(weft_binding_open_image(layout, block, &binding), WEFT_OK);
    const uint32_t wanted[][6] = {{1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 1}, {4, 2, 4, 1, 0, 0}, {6, 5, 0, 0, 0, 0}};
    for (uint32_t shift = 0; shift < 4; shift++) {
        uint64_t unit = 0;
        for (uint32_t i = 0; unit < layout->unit_count; i++) {
            uint32_t units = weft_layout_run(layout, unit, shift), position = 0;
            if (i < 6)
                assert_int_equal(units, wanted[shift][i]);
            assert_true(weft_layout_joined(layout, unit, units));
            weft_view view = weft_binding_span(&binding, unit, units);
            for (uint32_t r = 0; r < view.run_count; r++) {
                assert_int_equal(weft_run_position(&view, &view.runs[r]), position);
                position += view.runs[r].count;
            }
            assert_int_equal(view.count, position);
            unit += units;
        }
    }
    assert_false(weft_layout_joined(layout, 5, 2));
    assert_false(weft_layout_joined(layout, 0, 7));
    weft_binding_close(&binding);
    free(block);
    weft_layout_free(layout);
}

/* A tensor of odd length does not move those after it off their alignment, and each unit lies in one piece. */
static void spaced_image_is_aligned(void **state)
{
    (void)state;
    const weft_tensor tensors[] = {{"a", WEFT_U8, 1, SHAPE(3)},   {"b", WEFT_U8, 1, SHAPE((5 << 18) + 1)},
                                   {"c", WEFT_BF16, 1, SHAPE(5)}, {"d", WEFT_BF16, 1, SHAPE(0)},
                                   {"e", WEFT_BF16, 1, SHAPE(7)}, {"f", WEFT_BF16, 1, SHAPE((3 << 18) + 1)},
                                   {"g", WEFT_F64, 1, SHAPE(1)}};
    weft_layout *layout = layout_of(tensors, 7);
    const uint64_t bytes = weft_binding_spaced_bytes(layout),
                   round = (bytes / WEFT_SPACED_ALIGN + 1) * WEFT_SPACED_ALIGN;
    uint8_t *block = aligned_alloc(WEFT_SPACED_ALIGN, round), *end = block;
    weft_binding binding;
    assert_non_null(block);
    assert_in_range(bytes, weft_layout_bytes(layout), weft_layout_bytes(layout) + 5 * WEFT_SPACED_ALIGN);
    assert_int_equal(weft_binding_open_spaced(layout, block, &binding), WEFT_OK);
    for (uint64_t u = 0; u < layout->unit_count; u++) {
        const weft_view view = weft_binding_view(&binding, u);
        if (layout->units[u].first == 0)
            end = block + ((uint64_t)(end - block) + WEFT_SPACED_ALIGN - 1) / WEFT_SPACED_ALIGN * WEFT_SPACED_ALIGN;
        for (uint32_t r = 0; r < view.run_count; r++) {
            assert_ptr_equal(view.runs[r].data, end);
            end += (uint64_t)view.runs[r].count * view.width;
        }
    }
    assert_ptr_equal(end, block + bytes);
    weft_binding_close(&binding);
    free(block);
    weft_layout_free(layout);
}

/* The space of so long a tensor has no place in 64 bits. */
static void spaced_bytes_overflow(void **state)
{
    (void)state;
    const weft_layout layout = {.bytes = UINT64_MAX - 8, .unit_count = 1};
    assert_true(weft_binding_spaced_bytes(&layout) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_pieces_are_refused),       cmocka_unit_test(tensors_that_share_memory_are_told),
        cmocka_unit_test(pieces_go_in_any_order),       cmocka_unit_test(pieces_are_recounted_as_coded_elements),
        cmocka_unit_test(image_is_aligned_and_covered), cmocka_unit_test(nothing_binds_to_nothing),
        cmocka_unit_test(runs_cover_each_unit),         cmocka_unit_test(spans_join_units),
        cmocka_unit_test(spaced_image_is_aligned),      cmocka_unit_test(spaced_bytes_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

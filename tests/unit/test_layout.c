/* Layouts: what is refused, the serialised form and its hash, and the grid's rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "codec/frame.h"
#include "layout/digest.h"
#include "layout/grid.h"
#include "layout/layout.h"

#define SHAPE(...)                                                                                                     \
    (const uint64_t[])                                                                                                 \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static weft_layout *layout_of(const weft_tensor *tensors, uint64_t count)
{
    weft_layout *layout = NULL;
    if (weft_layout_create(tensors, count, &layout) != WEFT_OK)
        fail_msg("layout refused: %s", weft_last_error());
    return layout;
}

static void refused(const weft_tensor *tensors, uint64_t count, const char *words)
{
    const uint64_t blocks = weft_mem_blocks();
    weft_layout *layout = NULL;
    assert_int_equal(weft_layout_create(tensors, count, &layout), WEFT_E_LAYOUT);
    assert_null(layout);
    assert_int_equal(weft_mem_blocks(), blocks);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), words);
}

static void dtypes_know_their_rows(void **state)
{
    (void)state;
    for (uint32_t d = 1; d <= WEFT_DTYPE_LAST; d++) {
        const weft_dtype_row *row = weft_dtype_find((weft_dtype)d);
        assert_non_null(row);
        assert_int_equal(row->dtype, d);
        assert_ptr_equal(weft_dtype_by_name(row->name, strlen(row->name)), row);
        assert_true(row->width == 1 || row->width == 2 || row->width == 4 || row->width == 8);
        assert_true(row->bits % (8 * row->width) == 0 || row->width == 1);
        assert_true((row->exponent_bits > 0) == (row->is_float == 1));
    }
    assert_null(weft_dtype_find((weft_dtype)0));
    assert_null(weft_dtype_find((weft_dtype)(WEFT_DTYPE_LAST + 1)));
    assert_null(weft_dtype_by_name("BF1", 3));
    assert_null(weft_dtype_by_name("bf16", 4));
}

static void bad_tensors_are_refused(void **state)
{
    (void)state;
    char long_name[WEFT_MAX_NAME + 2];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    const uint64_t half = UINT64_C(1) << 32;
    uint64_t ones[WEFT_MAX_RANK + 1];
    for (int i = 0; i <= WEFT_MAX_RANK; i++)
        ones[i] = 1;
    refused(&(weft_tensor){"", WEFT_BF16, 0, NULL}, 1, "no name");
    refused(&(weft_tensor){NULL, WEFT_BF16, 0, NULL}, 1, "no name");
    refused(&(weft_tensor){long_name, WEFT_BF16, 0, NULL}, 1, "longer than 511");
    refused(&(weft_tensor){"x", (weft_dtype)99, 0, NULL}, 1, "dtype 99");
    refused(&(weft_tensor){"x", WEFT_BF16, WEFT_MAX_RANK + 1, ones}, 1, "rank 17");
    refused(&(weft_tensor){"x", WEFT_BF16, 1, NULL}, 1, "no shape");
    refused(&(weft_tensor){"x", WEFT_U8, 2, SHAPE(half, half)}, 1, "overflows");
    refused(&(weft_tensor){"x", WEFT_F64, 1, SHAPE(UINT64_C(1) << 60)}, 1, "overflows");
    refused(&(weft_tensor){"x", WEFT_F4, 1, SHAPE(3)}, 1, "whole bytes");
    refused(&(weft_tensor){"x", WEFT_F6_E2M3, 1, SHAPE(2)}, 1, "whole bytes");
    refused((weft_tensor[]){{"x", WEFT_BF16, 0, NULL}, {"y", WEFT_BF16, 0, NULL}, {"x", WEFT_U8, 0, NULL}}, 3,
            "two tensors are named x");
    refused(&(weft_tensor){"x", WEFT_U8, 1, SHAPE(UINT64_C(1) << 60)}, 1, "units");
    refused(&(weft_tensor){"x", WEFT_U8, 2, SHAPE(1 << 18, (1 << 24) + 1)}, 1, "16777217 units; at most 16777216");
    char names[16][3];
    const uint64_t sixteenth = UINT64_C(1) << 60;
    weft_tensor sixteen[16];
    for (int i = 0; i < 16; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        sixteen[i] = (weft_tensor){names[i], WEFT_U8, 1, &sixteenth};
    }
    refused(sixteen, 16, "the layout's bytes overflow 64 bits at tensor 15");
    weft_layout *layout = NULL;
    assert_int_equal(weft_layout_create(NULL, 1, &layout), WEFT_E_ARGUMENT);
}

static void sizes_are_right(void **state)
{
    (void)state;
    const weft_tensor tensors[] = {
        {"half", WEFT_F4, 2, SHAPE(3, 4)},  {"six", WEFT_F6_E3M2, 1, SHAPE(8)},
        {"complex", WEFT_C64, 1, SHAPE(5)}, {"none", WEFT_BF16, 3, SHAPE(UINT64_MAX, UINT64_MAX, 0)},
        {"scalar", WEFT_F64, 0, NULL},      {"row", WEFT_BF16, 1, SHAPE(7)},
    };
    const uint64_t bytes[] = {6, 6, 40, 0, 8, 14}, coded[] = {6, 6, 10, 0, 1, 7};
    /* by falling width: scalar (8), complex (4), none and row (2), half and six (1) */
    const uint64_t offset[] = {62, 68, 8, 48, 0, 48};
    weft_layout *layout = layout_of(tensors, 6);
    assert_int_equal(weft_layout_count(layout), 6);
    assert_int_equal(weft_layout_bytes(layout), 74);
    assert_int_equal(layout->elements, 30);
    for (uint64_t t = 0; t < 6; t++) {
        weft_tensor tensor;
        assert_int_equal(weft_layout_tensor(layout, t, &tensor), WEFT_OK);
        assert_string_equal(tensor.name, tensors[t].name);
        assert_ptr_not_equal(tensor.name, tensors[t].name);
        assert_int_equal(weft_layout_tensor_bytes(layout, t), bytes[t]);
        assert_int_equal(layout->entries[t].coded, coded[t]);
        assert_int_equal(layout->entries[t].offset, offset[t]);
    }
    weft_tensor tensor;
    assert_int_equal(weft_layout_tensor(layout, 6, &tensor), WEFT_E_ARGUMENT);
    assert_int_equal(weft_layout_tensor_bytes(layout, 6), 0);
    weft_layout_free(weft_layout_hold(layout));
    assert_int_equal(weft_layout_count(layout), 6);
    weft_layout_free(layout);
    weft_layout_free(NULL);
}

/* The serialised form, byte by byte as the wire format has it. */
static const uint8_t example[] = {
    'W', 'F', 'L', 'Y', 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,   /* magic, epoch, tensors */
    13,  0,   0,   0,   2, 0, 0, 0, 3, 0, 0, 0,               /* BF16, rank 2, 3 name bytes */
    0,   1,   0,   0,   0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,   /* 256, 3 */
    'a', '.', 'w', 19,  0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 'b', /* "a.w"; F64, scalar, "b" */
};
static const weft_tensor example_tensors[] = {{"a.w", WEFT_BF16, 2, (const uint64_t[]){256, 3}},
                                              {"b", WEFT_F64, 0, NULL}};

static void serialised_form_is_the_law(void **state)
{
    (void)state;
    weft_layout *layout = layout_of(example_tensors, 2), *again = NULL;
    uint8_t bytes[sizeof example];
    assert_int_equal(weft_layout_wire_bytes(layout), sizeof example);
    weft_layout_write(layout, bytes);
    assert_memory_equal(bytes, example, sizeof example);
    uint64_t hash[2], hash_again[2];
    weft_layout_hash(layout, hash);
    XXH128_hash_t wanted = XXH3_128bits(example, sizeof example);
    assert_true(hash[0] == wanted.low64 && hash[1] == wanted.high64);
    assert_true(hash[0] == UINT64_C(0x2faf98249ee4c3d2) &&
                hash[1] == UINT64_C(0xa3f62e594871c8ea)); /* the document's */
    assert_int_equal(weft_layout_parse(example, sizeof example, &again), WEFT_OK);
    weft_layout_hash(again, hash_again);
    assert_memory_equal(hash, hash_again, sizeof hash);
    weft_layout_free(layout);
    weft_layout_free(again);
}

static void hash_sees_order_names_types_and_shapes(void **state)
{
    (void)state;
    const weft_tensor variants[][2] = {
        {{"a", WEFT_BF16, 2, SHAPE(2, 3)}, {"b", WEFT_BF16, 2, SHAPE(2, 3)}},
        {{"b", WEFT_BF16, 2, SHAPE(2, 3)}, {"a", WEFT_BF16, 2, SHAPE(2, 3)}},
        {{"a", WEFT_F16, 2, SHAPE(2, 3)}, {"b", WEFT_BF16, 2, SHAPE(2, 3)}},
        {{"a", WEFT_BF16, 2, SHAPE(3, 2)}, {"b", WEFT_BF16, 2, SHAPE(2, 3)}},
        {{"a", WEFT_BF16, 1, SHAPE(6)}, {"b", WEFT_BF16, 2, SHAPE(2, 3)}},
        {{"a", WEFT_BF16, 3, SHAPE(2, 3, 1)}, {"b", WEFT_BF16, 2, SHAPE(2, 3)}},
    };
    uint64_t hashes[6][2];
    for (int i = 0; i < 6; i++) {
        weft_layout *layout = layout_of(variants[i], 2);
        weft_layout_hash(layout, hashes[i]);
        weft_layout_free(layout);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(hashes[i], hashes[j], sizeof hashes[i]);
    }
}

/* What the caller lent may change after the call. */
static void layouts_keep_copies(void **state)
{
    (void)state;
    char name[] = "first";
    uint64_t shape[] = {2, 3};
    weft_tensor kept;
    weft_layout *layout = layout_of(&(weft_tensor){name, WEFT_BF16, 2, shape}, 1);
    memset(name, 'x', 5);
    shape[0] = shape[1] = 7;
    assert_int_equal(weft_layout_tensor(layout, 0, &kept), WEFT_OK);
    assert_string_equal(kept.name, "first");
    assert_memory_equal(kept.shape, SHAPE(2, 3), sizeof shape);
    weft_layout_free(layout);
}

/* Keys end packs and stretches, and go into the hash as the document says. */
static void keys_end_what_they_part(void **state)
{
    (void)state;
    const uint64_t wide = 262144 + 1;
    const weft_tensor tensors[] = {{"a", WEFT_F32, 1, SHAPE(4)},    {"b", WEFT_F32, 1, SHAPE(4)},
                                   {"c", WEFT_F32, 1, SHAPE(4)},    {"d", WEFT_F32, 1, SHAPE(wide)},
                                   {"e", WEFT_F32, 1, SHAPE(wide)}, {"f", WEFT_F32, 1, SHAPE(wide)}};
    const uint32_t keys[] = {0, 0, 5, 5, 5, 9};
    weft_layout *plain = layout_of(tensors, 6), *keyed = NULL;
    assert_int_equal(weft_layout_create_keyed(tensors, keys, 6, &keyed), WEFT_OK);
    static const uint32_t tensor[] = {0, 2, 3, 3, 4, 4, 5, 5}, place[] = {0, 0, 1, 2, 3, 4, 0, 1};
    assert_int_equal(plain->unit_count, 7);
    assert_int_equal(keyed->unit_count, 8);
    for (uint64_t u = 0; u < 8; u++) {
        assert_int_equal(keyed->units[u].tensor, tensor[u]);
        assert_int_equal(keyed->units[u].place, place[u]);
    }
    uint64_t hash[2] = {plain->hash[0], plain->hash[1]};
    for (uint64_t t = 2; t < 6; t++) {
        uint8_t words[20];
        weft_bytes_put(words, hash[0], 8);
        weft_bytes_put(words + 8, hash[1], 8);
        weft_bytes_put(words + 16, keys[t], 4);
        const XXH128_hash_t next = XXH3_128bits_withSeed(words, sizeof words, t);
        hash[0] = next.low64;
        hash[1] = next.high64;
    }
    assert_memory_equal(keyed->hash, hash, sizeof hash);
    weft_layout_free(keyed);
    weft_layout_free(plain);
}

/* A run ends at a multiple of 2^shift units of its stretch, and where the stretch ends. */
static void runs_end_in_their_stretch(void **state)
{
    (void)state;
    const weft_tensor tensors[] = {{"a", WEFT_F32, 1, SHAPE(5 * 262144)}, {"b", WEFT_BF16, 1, SHAPE(3 * 262144)}};
    static const uint32_t units[][8] = {[0] = {1, 1, 1, 1, 1, 1, 1, 1},
                                        [1] = {2, 1, 2, 1, 1, 2, 1, 1},
                                        [2] = {4, 3, 2, 1, 1, 3, 2, 1},
                                        [6] = {5, 4, 3, 2, 1, 3, 2, 1}};
    weft_layout *layout = layout_of(tensors, 2);
    for (uint32_t shift = 0; shift < 7; shift++)
        for (uint64_t u = 0; u < 8 && units[shift][0]; u++)
            assert_int_equal(weft_layout_run(layout, u, shift), units[shift][u]);
    weft_layout_free(layout);
}

static void parse_refused(const uint8_t *bytes, uint64_t length, weft_status wanted)
{
    const uint64_t blocks = weft_mem_blocks();
    weft_layout *layout = NULL;
    uint8_t *exact = malloc(length + 1); /* the sanitizer sees one byte too many */
    assert_non_null(exact);
    memcpy(exact, bytes, length);
    exact = realloc(exact, length > 0 ? length : 1);
    assert_int_equal(weft_layout_parse(exact, length, &layout), wanted);
    assert_null(layout);
    assert_int_equal(weft_mem_blocks(), blocks);
    free(exact);
}

static void parse_trusts_nothing(void **state)
{
    (void)state;
    uint8_t bytes[sizeof example + 1] = {0};
    memcpy(bytes, example, sizeof example);
    parse_refused(bytes, sizeof bytes, WEFT_E_CORRUPT); /* one byte too many */
    for (uint64_t length = 0; length < sizeof example; length++)
        parse_refused(example, length, WEFT_E_CORRUPT);
    static const struct {
        uint32_t at;
        uint8_t value;
        weft_status wanted;
    } faults[] = {
        {0, 'w', WEFT_E_CORRUPT},  {4, 2, WEFT_E_PROTOCOL},  {8, 1, WEFT_E_CORRUPT},    {8, 3, WEFT_E_CORRUPT},
        {15, 255, WEFT_E_CORRUPT}, {16, 0, WEFT_E_LAYOUT},   {16, 31, WEFT_E_LAYOUT},   {19, 255, WEFT_E_LAYOUT},
        {20, 1, WEFT_E_CORRUPT},   {20, 17, WEFT_E_CORRUPT}, {23, 255, WEFT_E_CORRUPT}, {24, 0, WEFT_E_CORRUPT},
        {27, 255, WEFT_E_CORRUPT}, {35, 255, WEFT_E_LAYOUT}, {44, 0, WEFT_E_CORRUPT},   {45, 0, WEFT_E_CORRUPT},
        {46, 0, WEFT_E_CORRUPT},
    };
    for (uint64_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        memcpy(bytes, example, sizeof example);
        bytes[faults[i].at] = faults[i].value;
        parse_refused(bytes, sizeof example, faults[i].wanted);
    }
    memcpy(bytes, example, sizeof example);
    bytes[11] = 1; /* 2^24 tensors more: no memory is taken for these */
    const uint64_t allocations = weft_mem_allocations();
    parse_refused(bytes, sizeof example, WEFT_E_CORRUPT);
    assert_int_equal(weft_mem_allocations(), allocations);
    uint8_t named[28 + WEFT_MAX_NAME + 1] = {'W', 'F', 'L', 'Y', 1, 0, 0, 0, 1, [16] = WEFT_BF16};
    memset(named + 28, 'n', WEFT_MAX_NAME + 1);
    weft_bytes_put(named + 24, WEFT_MAX_NAME + 1, 4);
    parse_refused(named, sizeof named, WEFT_E_CORRUPT);
}

static void many_tensors_are_fast(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    static char names[COUNT][16];
    static weft_tensor tensors[COUNT];
    const uint64_t shape[] = {100};
    for (int t = 0; t < COUNT; t++) {
        snprintf(names[t], sizeof names[t], "e%d", (t * 7919) % COUNT);
        tensors[t] = (weft_tensor){names[t], WEFT_BF16, 1, shape};
    }
    weft_layout *layout = layout_of(tensors, COUNT), *again = NULL;
    assert_int_equal(layout->unit_count, (COUNT + 2620) / 2621); /* 2^18 / 100 whole tensors a pack */
    uint64_t length = weft_layout_wire_bytes(layout);
    uint8_t *bytes = malloc(length);
    assert_non_null(bytes);
    weft_layout_write(layout, bytes);
    assert_int_equal(weft_layout_parse(bytes, length, &again), WEFT_OK);
    free(bytes);
    weft_layout_free(layout);
    weft_layout_free(again);
    memcpy(names[COUNT - 1], names[3], sizeof names[3]);
    refused(tensors, COUNT, "two tensors are named");
}

static void tiles_are_the_documented_size(void **state)
{
    (void)state;
    assert_int_equal(weft_tile_elements(1), 262144);
    assert_int_equal(weft_tile_elements(2), 262144);
    assert_int_equal(weft_tile_elements(4), 262144);
    assert_int_equal(weft_tile_elements(8), 131072);
}

static void unit_is(const weft_layout *layout, uint64_t u, uint64_t tensor, uint64_t first, uint32_t count,
                    uint32_t tensor_count)
{
    const weft_unit *unit = &layout->units[u];
    assert_int_equal(unit->tensor, tensor);
    assert_int_equal(unit->first, first);
    assert_int_equal(unit->count, count);
    assert_int_equal(unit->tensor_count, tensor_count);
}

static void grid_follows_its_rule(void **state)
{
    (void)state;
    const uint64_t tile = 262144;
    const weft_tensor tensors[] = {
        {"0", WEFT_BF16, 1, SHAPE(10)},          /* opens a pack */
        {"1", WEFT_BF16, 1, SHAPE(0)},           /* joins nothing */
        {"2", WEFT_BF16, 1, SHAPE(tile - 10)},   /* fills the pack */
        {"3", WEFT_BF16, 1, SHAPE(1)},           /* no room: another */
        {"4", WEFT_F16, 1, SHAPE(1)},            /* another dtype: another */
        {"5", WEFT_F16, 1, SHAPE(0)},            /* */
        {"6", WEFT_F16, 1, SHAPE(2 * tile + 1)}, /* cut; closes the pack */
        {"7", WEFT_F16, 1, SHAPE(tile)},         /* exactly a tile: a pack of its own */
        {"8", WEFT_F16, 1, SHAPE(1)},            /* no room */
        {"9", WEFT_F64, 1, SHAPE(tile)},         /* 8 bytes wide: two tiles */
        {"10", WEFT_C64, 1, SHAPE(tile / 2)},    /* coded as two F32 each: exactly a tile */
        {"11", WEFT_F4, 1, SHAPE(2 * tile)},     /* coded as bytes: exactly a tile */
    };
    weft_layout *layout = layout_of(tensors, 12);
    assert_int_equal(layout->unit_count, 12);
    unit_is(layout, 0, 0, 0, 262144, 3);
    unit_is(layout, 1, 3, 0, 1, 1);
    unit_is(layout, 2, 4, 0, 1, 1);
    unit_is(layout, 3, 6, 0, 262144, 1);
    unit_is(layout, 4, 6, tile, 262144, 1);
    unit_is(layout, 5, 6, 2 * tile, 1, 1);
    unit_is(layout, 6, 7, 0, 262144, 1);
    unit_is(layout, 7, 8, 0, 1, 1);
    unit_is(layout, 8, 9, 0, 131072, 1);
    unit_is(layout, 9, 9, 131072, 131072, 1);
    unit_is(layout, 10, 10, 0, 262144, 1);
    unit_is(layout, 11, 11, 0, 262144, 1);
    assert_int_equal(layout->units[8].width, 8);
    assert_int_equal(layout->units[10].width, 4);
    assert_int_equal(layout->units[11].width, 1);
    assert_int_equal(layout->largest_frame, WEFT_FRAME_HEADER_BYTES + (1 << 20));
    weft_layout_free(layout);
}

static void largest_frame_is_padded(void **state)
{
    (void)state;
    weft_layout *layout = layout_of(&(weft_tensor){"x", WEFT_U8, 1, SHAPE(5)}, 1);
    assert_int_equal(layout->largest_frame, WEFT_FRAME_HEADER_BYTES + 8);
    weft_layout_free(layout);
    layout = layout_of(NULL, 0);
    assert_int_equal(layout->unit_count, 0);
    assert_int_equal(layout->largest_frame, WEFT_FRAME_HEADER_BYTES);
    weft_layout_free(layout);
}

/* Beyond 32 bits: counted, and cut with first elements that need 64 bits. */
static void huge_tensors_count(void **state)
{
    (void)state;
    uint64_t largest;
    weft_layout_entry entry = {.row = weft_dtype_find(WEFT_BF16), .coded = (UINT64_C(1) << 60) + 1};
    assert_int_equal(weft_grid_count(&entry, 1, &largest), (UINT64_C(1) << 42) + 1);
    assert_int_equal(largest, 1 << 19);
    weft_layout *layout = layout_of(&(weft_tensor){"x", WEFT_U8, 2, SHAPE(UINT64_C(1) << 20, (1 << 13) + 1)}, 1);
    assert_int_equal(layout->elements, (UINT64_C(1) << 33) + (1 << 20));
    assert_int_equal(layout->unit_count, (1 << 15) + 4);
    unit_is(layout, (1 << 15) + 3, 0, (UINT64_C(1) << 33) + 3 * (1 << 18), 1 << 18, 1);
    weft_layout_free(layout);
}

/* A layout drawn at random: sizes around the borders of the rule. */
static weft_layout *random_layout(uint64_t seed, char names[][8], weft_tensor *tensors, uint64_t *shapes,
                                  uint64_t count)
{
    static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_BF16, WEFT_F64, WEFT_U8, WEFT_C64};
    for (uint64_t t = 0; t < count; t++) {
        uint64_t draw = weft_mix64(seed * 1000 + t);
        weft_dtype dtype = dtypes[draw % 5];
        uint64_t tile = weft_tile_elements(weft_dtype_find(dtype)->width) / (dtype == WEFT_C64 ? 2 : 1);
        const uint64_t sizes[] = {0, 1, 17, tile / 3, tile - 1, tile, tile + 1, 2 * tile, 3 * tile + 5};
        snprintf(names[t], 8, "%d", (int)t);
        shapes[t] = sizes[(draw >> 8) % 9];
        tensors[t] = (weft_tensor){names[t], dtype, 1, &shapes[t]};
    }
    return layout_of(tensors, count);
}

/* Goes through a unit's elements and moves the cursor (tensor, element) past them; it must find each in order. */
static void unit_walk(const weft_layout *layout, const weft_unit *unit, uint64_t *tensor, uint64_t *element)
{
    uint64_t left = unit->count;
    while (layout->entries[*tensor].coded == *element) {
        ++*tensor;
        *element = 0;
    }
    assert_int_equal(unit->tensor, *tensor);
    assert_int_equal(unit->first, *element);
    for (uint64_t last = unit->tensor + unit->tensor_count - 1; left > 0;) {
        const weft_layout_entry *entry = &layout->entries[*tensor];
        assert_true(*tensor <= last);
        uint64_t here = entry->coded - *element < left ? entry->coded - *element : left;
        assert_true(here == 0 || (entry->row->width == unit->width && entry->row->is_float == unit->is_float));
        left -= here;
        *element += here;
        assert_true(left > 0 || *tensor == last);
        if (left > 0) {
            ++*tensor;
            *element = 0;
        }
    }
}

static void units_cover_every_element_once_in_order(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    char names[COUNT][8];
    weft_tensor tensors[COUNT];
    uint64_t shapes[COUNT];
    for (uint64_t seed = 0; seed < 200; seed++) {
        weft_layout *layout = random_layout(seed, names, tensors, shapes, COUNT);
        uint64_t tensor = 0, element = 0, largest = 0;
        for (uint64_t u = 0; u < layout->unit_count; u++) {
            const weft_unit *unit = &layout->units[u];
            assert_in_range(unit->count, 1, weft_tile_elements(unit->width));
            if ((uint64_t)unit->count * unit->width > largest)
                largest = (uint64_t)unit->count * unit->width;
            unit_walk(layout, unit, &tensor, &element);
        }
        for (; tensor < COUNT; tensor++, element = 0)
            assert_int_equal(layout->entries[tensor].coded, element);
        assert_int_equal(layout->largest_frame, WEFT_FRAME_HEADER_BYTES + (largest + 3) / 4 * 4);
        weft_layout_free(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes_know_their_rows),
        cmocka_unit_test(bad_tensors_are_refused),
        cmocka_unit_test(sizes_are_right),
        cmocka_unit_test(serialised_form_is_the_law),
        cmocka_unit_test(hash_sees_order_names_types_and_shapes),
        cmocka_unit_test(layouts_keep_copies),
        cmocka_unit_test(keys_end_what_they_part),
        cmocka_unit_test(runs_end_in_their_stretch),
        cmocka_unit_test(parse_trusts_nothing),
        cmocka_unit_test(many_tensors_are_fast),
        cmocka_unit_test(tiles_are_the_documented_size),
        cmocka_unit_test(grid_follows_its_rule),
        cmocka_unit_test(largest_frame_is_padded),
        cmocka_unit_test(huge_tensors_count),
        cmocka_unit_test(units_cover_every_element_once_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

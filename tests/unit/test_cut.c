/* Cuts: the boxes that each rule makes, what does not fit, and what holdings and covers say of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "shard/cover.h"
#include "shard/holding.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { QKV, O, BIAS, STACK, EXPERT_0, EXPERT_3, EMBED, EMPTY, SCALAR, PACKED, TENSORS };

static weft_layout *layout;

static int setup(void **state)
{
    static const uint64_t qkv[] = {12, 6}, o[] = {6, 12}, bias[] = {12}, stack[] = {3, 4, 5}, expert[] = {2, 2},
                          embed[] = {10, 6}, empty[] = {0, 6}, packed[] = {4, 6};
    const weft_tensor tensors[TENSORS] = {{"model.layers.0.qkv.weight", WEFT_BF16, 2, qkv},
                                          {"model.layers.1.o.weight", WEFT_BF16, 2, o},
                                          {"model.layers.2.qkv.bias", WEFT_BF16, 1, bias},
                                          {"model.layers.3.stack", WEFT_F32, 3, stack},
                                          {"model.layers.3.experts.0.up", WEFT_BF16, 2, expert},
                                          {"model.layers.3.experts.3.up", WEFT_BF16, 2, expert},
                                          {"embed", WEFT_BF16, 2, embed},
                                          {"empty", WEFT_BF16, 2, empty},
                                          {"scalar", WEFT_F32, 0, NULL},
                                          {"packed", WEFT_F4, 2, packed}};
    (void)state;
    return weft_layout_create(tensors, TENSORS, &layout) != WEFT_OK;
}

static int teardown(void **state)
{
    (void)state;
    weft_layout_free(layout);
    return 0;
}

static weft_cells cells_of(const weft_cut *cuts, uint32_t count)
{
    weft_cells cells = {0};
    if (weft_cells_open(layout, cuts, count, &cells) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return cells;
}

static void assert_boxes(const weft_cut *cut, const weft_slice *boxes, const uint32_t *parts, uint64_t count)
{
    weft_cells cells = cells_of(cut, 1);
    uint64_t found = 0;
    for (uint64_t i = 0; i < cells.count; i++) {
        const weft_cell_key *key = &cells.keys[cells.cells[i].key];
        if (key->cut == 0)
            continue;
        assert_true(found < count);
        assert_memory_equal(&cells.cells[i].slice, &boxes[found], sizeof *boxes);
        assert_int_equal(key->part, parts[found++]);
    }
    assert_int_equal(found, count);
    weft_cells_close(&cells);
}

static void without_cuts_tensors_are_cells(void **state)
{
    (void)state;
    weft_cells cells = cells_of(NULL, 0);
    assert_int_equal(cells.count, TENSORS);
    assert_int_equal(cells.key_count, 1);
    for (uint64_t t = 0; t < TENSORS; t++) {
        const weft_slice whole = weft_slice_whole(layout, t);
        assert_memory_equal(&cells.cells[t].slice, &whole, sizeof whole);
        assert_int_equal(weft_slice_elements(&whole), layout->entries[t].elements);
    }
    weft_cells_close(&cells);
}

static void boxes_of_each_rule(void **state)
{
    static const uint64_t at[] = {0, 6, 9}, from[] = {6, 9};
    static const uint32_t three[] = {0, 1, 2}, two[] = {0, 1}, middle[] = {0, 0, 0, 1, 1, 1};
    (void)state;
    assert_boxes(&(weft_cut){.name = "q", .patterns = "*.qkv.weight", .kind = WEFT_CUT_ROWS, .parts = 3},
                 (weft_slice[]){{QKV, 0, 4, 0, 6}, {QKV, 4, 4, 0, 6}, {QKV, 8, 4, 0, 6}}, three, 3);
    assert_boxes(&(weft_cut){.name = "q", .patterns = "*.qkv.weight", .kind = WEFT_CUT_ROWS, .at = at, .at_count = 3},
                 (weft_slice[]){{QKV, 0, 6, 0, 6}, {QKV, 6, 3, 0, 6}, {QKV, 9, 3, 0, 6}}, three, 3);
    assert_boxes(&(weft_cut){.name = "q", .patterns = "*.qkv.weight", .kind = WEFT_CUT_ROWS, .at = from, .at_count = 2},
                 (weft_slice[]){{QKV, 0, 6, 0, 6}, {QKV, 6, 3, 0, 6}, {QKV, 9, 3, 0, 6}}, three, 3);
    assert_boxes(&(weft_cut){.name = "o", .patterns = "x, *.o.* ", .kind = WEFT_CUT_COLUMNS, .parts = 2},
                 (weft_slice[]){{O, 0, 6, 0, 6}, {O, 0, 6, 6, 6}}, two, 2);
    assert_boxes(&(weft_cut){.name = "b", .patterns = "*.bias", .kind = WEFT_CUT_ROWS, .parts = 2},
                 (weft_slice[]){{BIAS, 0, 1, 0, 6}, {BIAS, 0, 1, 6, 6}}, two, 2);
    assert_boxes(&(weft_cut){.name = "s", .patterns = "*.stack", .kind = WEFT_CUT_MIDDLE, .parts = 2},
                 (weft_slice[]){{STACK, 0, 2, 0, 5},
                                {STACK, 4, 2, 0, 5},
                                {STACK, 8, 2, 0, 5},
                                {STACK, 2, 2, 0, 5},
                                {STACK, 6, 2, 0, 5},
                                {STACK, 10, 2, 0, 5}},
                 middle, 6);
    assert_boxes(&(weft_cut){.name = "e", .patterns = "embed", .kind = WEFT_CUT_ROWS, .parts = 3, .pad = 12},
                 (weft_slice[]){{EMBED, 0, 4, 0, 6}, {EMBED, 4, 4, 0, 6}, {EMBED, 8, 2, 0, 6}}, three, 3);
    assert_boxes(&(weft_cut){.name = "e", .patterns = "embed", .kind = WEFT_CUT_ROWS, .parts = 4, .pad = 64},
                 (weft_slice[]){{EMBED, 0, 10, 0, 6}}, two, 1); /* three parts of padding alone */
    assert_boxes(&(weft_cut){.name = "a", .patterns = "embed", .kind = WEFT_CUT_ALONE},
                 (weft_slice[]){{EMBED, 0, 10, 0, 6}}, two, 1);
    assert_boxes(
        &(weft_cut){.name = "p", .patterns = "packed", .kind = WEFT_CUT_COLUMNS, .at = (uint64_t[]){2}, .at_count = 1},
        (weft_slice[]){{PACKED, 0, 4, 0, 2}, {PACKED, 0, 4, 2, 4}}, two, 2);
}

/* Keys rise by expert group, cut, part, layer block; what a rule does not name has 0. */
static void keys_by_name(void **state)
{
    static const uint64_t at[] = {2};
    const weft_cut cuts[] = {{.name = "pp", .kind = WEFT_CUT_LAYER, .at = at, .at_count = 1},
                             {.name = "ep", .kind = WEFT_CUT_EXPERT, .parts = 2},
                             {.name = "tp", .patterns = "*.qkv.*", .kind = WEFT_CUT_ROWS, .parts = 2}};
    const struct {
        uint64_t tensor;
        weft_cell_key key;
    } cases[] = {{EMBED, {0, 0, 0, 0}}, {O, {0, 0, 0, 1}},        {STACK, {0, 0, 0, 2}},
                 {QKV, {0, 3, 0, 1}},   {BIAS, {0, 3, 0, 2}},     {QKV, {0, 3, 1, 1}},
                 {BIAS, {0, 3, 1, 2}},  {EXPERT_0, {1, 0, 0, 2}}, {EXPERT_3, {2, 0, 0, 2}}};
    (void)state;
    weft_cells cells = cells_of(cuts, 3);
    assert_int_equal(cells.key_count, COUNT(cases));
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        uint32_t number = UINT32_MAX;
        bool there = false;
        assert_true(weft_cells_find(&cells, &cases[i].key, &number));
        assert_int_equal(number, i);
        for (uint64_t c = 0; c < cells.count; c++)
            there = there || (cells.cells[c].key == i && cells.cells[c].slice.tensor == cases[i].tensor);
        assert_true(there);
    }
    uint32_t number;
    assert_false(weft_cells_find(&cells, &(weft_cell_key){0, 3, 2, 1}, &number));
    weft_cells_close(&cells);
}

static void names_have_numbers(void **state)
{
    static const struct {
        const char *name;
        int64_t layer, expert; /* -1: none */
    } cases[] = {{"model.layers.17.mlp.experts.5.up_proj.weight", 17, 5},
                 {"transformer.h.3.attn.weight", 3, -1},
                 {"blocks.0", 0, -1},
                 {"model.layers", -1, -1},
                 {"model.layers.x.weight", -1, -1},
                 {"mylayers.4.weight", -1, -1},
                 {"layers.4a.weight", -1, -1},
                 {"layers..4", -1, -1},
                 {"experts.1234567890.w", -1, -1},
                 {"", -1, -1},
                 {".", -1, -1}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t number;
        assert_int_equal(weft_cut_layer_of(cases[i].name, &number) ? (int64_t)number : -1, cases[i].layer);
        assert_int_equal(weft_cut_expert_of(cases[i].name, &number) ? (int64_t)number : -1, cases[i].expert);
    }
}

static void refused(void **state)
{
    static const uint64_t falls[] = {4, 2}, far[] = {12}, first[] = {1};
    const struct {
        weft_cut cuts[2];
        weft_status status;
        const char *text;
    } cases[] = {
        {{{.name = "a", .patterns = "*.qkv.weight", .kind = WEFT_CUT_ROWS, .parts = 5}},
         WEFT_E_LAYOUT,
         "[cut.a]: model.layers.0.qkv.weight has 12 rows, which 5 equal parts do not fit"},
        {{{.name = "a", .patterns = "embed", .kind = WEFT_CUT_ROWS, .parts = 5, .pad = 4}},
         WEFT_E_LAYOUT,
         "[cut.a]: embed has 10 rows, which 5 equal parts of the padded size do not fit"},
        {{{.name = "a", .patterns = "*.qkv.weight", .kind = WEFT_CUT_ROWS, .at = far, .at_count = 1}},
         WEFT_E_LAYOUT,
         "[cut.a]: model.layers.0.qkv.weight has 12 rows, a part begins at 12"},
        {{{.name = "a", .patterns = "*.o.*", .kind = WEFT_CUT_MIDDLE, .parts = 2}},
         WEFT_E_LAYOUT,
         "[cut.a] middle: model.layers.1.o.weight has 2 dimensions, of which none lies between two others"},
        {{{.name = "a", .patterns = "packed", .kind = WEFT_CUT_COLUMNS, .parts = 2}},
         WEFT_E_LAYOUT,
         "[cut.a]: part 0, packed, 4 rows from 0 of 4, 3 columns from 0 of 6: its rows of F4 do not fill whole bytes"},
        {{{.name = "a", .patterns = "*.qkv.*", .kind = WEFT_CUT_ROWS, .parts = 2},
          {.name = "b", .patterns = "*.weight", .kind = WEFT_CUT_ROWS, .parts = 2}},
         WEFT_E_LAYOUT,
         "[cut.a] and [cut.b] both cut model.layers.0.qkv.weight: leave one of them its pattern"},
        {{{.name = "a", .kind = WEFT_CUT_LAYER, .at = far, .at_count = 1},
          {.name = "b", .kind = WEFT_CUT_LAYER, .at = far, .at_count = 1}},
         WEFT_E_LAYOUT,
         "[cut.a] and [cut.b] both take model.layers.0.qkv.weight: leave one of them its pattern"},
        {{{.name = "a", .patterns = "*.o.*", .kind = WEFT_CUT_LAYER, .at = far, .at_count = 1},
          {.name = "b", .patterns = "*.o.*", .kind = WEFT_CUT_LAYER, .at = first, .at_count = 1}},
         WEFT_E_LAYOUT, /* also where they would put the tensor into different blocks */
         "[cut.a] and [cut.b] both take model.layers.1.o.weight: leave one of them its pattern"},
        {{{.name = "a", .kind = WEFT_CUT_EXPERT, .parts = 3}},
         WEFT_E_LAYOUT,
         "[cut.a]: model.layers.3.experts.0.up is of 4 experts, which 3 equal groups do not fit"},
        {{{.name = "a", .kind = WEFT_CUT_ROWS}},
         WEFT_E_ARGUMENT,
         "[cut.a]: need a number of parts or a list of where they begin"},
        {{{.name = "a", .kind = WEFT_CUT_ROWS, .parts = 2, .at = far, .at_count = 1}},
         WEFT_E_ARGUMENT,
         "[cut.a]: need a number of parts or a list of where they begin"},
        {{{.name = "a", .kind = WEFT_CUT_ROWS, .at = falls, .at_count = 2}},
         WEFT_E_ARGUMENT,
         "[cut.a] at: 2 after 4: need rising numbers"},
        {{{.name = "a", .kind = WEFT_CUT_ALONE, .parts = 2}}, WEFT_E_ARGUMENT, "[cut.a]: whole tensors have no parts"},
        {{{.name = "a", .kind = WEFT_CUT_LAYER, .parts = 2}},
         WEFT_E_ARGUMENT,
         "[cut.a] by = layer: need at = the first layer of each block"},
        {{{.name = "a", .kind = WEFT_CUT_EXPERT, .at = far, .at_count = 1}},
         WEFT_E_ARGUMENT,
         "[cut.a] by = expert: need groups = a number"},
        {{{.name = "a", .kind = WEFT_CUT_ROWS, .parts = 65537}}, WEFT_E_ARGUMENT, "[cut.a]: at most 65536 parts"},
        {{{.name = "a", .kind = WEFT_CUT_ROWS, .at = far, .at_count = 1, .pad = 64}},
         WEFT_E_ARGUMENT,
         "[cut.a] pad: only of equal parts of tensors"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        weft_cells cells = {0};
        assert_int_equal(weft_cells_open(layout, cases[i].cuts, cases[i].cuts[1].name ? 2 : 1, &cells),
                         cases[i].status);
        assert_string_equal(weft_last_error(), cases[i].text);
        assert_null(cells.cells);
    }
}

static char warned[256];

static void keep_line(weft_log_sink *sink, weft_log_level level, const char *line)
{
    (void)sink;
    assert_int_equal(level, WEFT_LOG_WARN);
    strncat(warned, line, sizeof warned - strlen(warned) - 1);
}

/* One site file serves more than one model. */
static void rules_that_match_nothing_are_warned_of(void **state)
{
    weft_log_sink sink = {WEFT_LOG_WARN, keep_line};
    const weft_cut some[] = {{.name = "here", .patterns = "embed", .kind = WEFT_CUT_ROWS, .parts = 2},
                             {.name = "elsewhere", .patterns = "no.such", .kind = WEFT_CUT_ROWS, .parts = 7}};
    static weft_cut many[WEFT_CUT_MOST + 1];
    (void)state;
    for (uint32_t i = 0; i <= WEFT_CUT_MOST; i++)
        many[i] = some[1];
    weft_log_enter(&sink);
    weft_cells cells = cells_of(some, 2);
    weft_log_enter(NULL);
    assert_non_null(strstr(warned, "[cut.elsewhere] cuts no tensor of this layout"));
    assert_null(strstr(warned, "[cut.here]"));
    weft_cells_close(&cells);
    cells = cells_of(many, WEFT_CUT_MOST);
    weft_cells_close(&cells);
    assert_int_equal(weft_cells_open(layout, many, WEFT_CUT_MOST + 1, &cells), WEFT_E_ARGUMENT);
}

/* The number of experts is that of all of them, and two boxes of a name of full length have two names. */
static void any_order_and_long_names(void **state)
{
    static const uint64_t shape[] = {2, 2};
    const weft_cut both[] = {{.name = "e", .patterns = "*experts*", .kind = WEFT_CUT_EXPERT, .parts = 2},
                             {.name = "l", .patterns = "xx*", .kind = WEFT_CUT_ROWS, .parts = 2}};
    char name[WEFT_MAX_NAME + 1] = "";
    weft_layout *falling = NULL, *cut = NULL;
    weft_cells cells;
    memset(name, 'x', WEFT_MAX_NAME);
    const weft_tensor tensors[] = {
        {"experts.3", WEFT_F32, 2, shape}, {"experts.0", WEFT_F32, 2, shape}, {name, WEFT_F32, 2, shape}};
    (void)state;
    assert_int_equal(weft_layout_create(tensors, 3, &falling), WEFT_OK);
    assert_int_equal(weft_cells_open(falling, both, 2, &cells), WEFT_OK);
    for (uint64_t i = 0; i < cells.count; i++)
        if (cells.cells[i].slice.tensor < 2)
            assert_int_equal(cells.keys[cells.cells[i].key].experts, 2 - cells.cells[i].slice.tensor);
    assert_int_equal(weft_holding_layout(falling, cells.cells, cells.count, &cut), WEFT_OK);
    assert_int_equal(cut->count, 4);
    weft_layout_free(cut);
    weft_cells_close(&cells);
    weft_layout_free(falling);
}

/* ---- holdings and covers */

static void slices_are_checked(void **state)
{
    static const struct {
        weft_slice slices[3];
        uint64_t count;
        const char *text;
    } cases[] = {
        {{{TENSORS, 0, 1, 0, 1}}, 1, "a slice names tensor 10 of a layout of 10"},
        {{{EMBED, 8, 3, 0, 6}},
         1,
         "embed, 3 rows from 8 of 10, 6 columns from 0 of 6: the slice reaches past the tensor"},
        {{{EMBED, UINT64_MAX, 2, 0, 6}},
         1,
         "embed, 2 rows from 18446744073709551615 of 10, 6 columns from 0 of 6: the slice reaches past the tensor"},
        {{{EMBED, 0, 1, 3, UINT64_MAX}},
         1,
         "embed, 1 rows from 0 of 10, 18446744073709551615 columns from 3 of 6: the slice reaches past the tensor"},
        {{{PACKED, 0, 4, 1, 2}},
         1,
         "packed, 4 rows from 0 of 4, 2 columns from 1 of 6: rows of F4 that do not fill whole bytes"},
        {{{EMBED, 4, 2, 0, 4}, {EMBED, 0, 5, 3, 1}},
         2,
         "two slices share elements: embed, 5 rows from 0 of 10, 1 columns from 3 of 6; embed, 2 rows from 4 of 10, 4 "
         "columns from 0 of 6"},
        {{{EMBED, 0, 10, 0, 2}, {EMBED, 1, 1, 3, 1}, {EMBED, 2, 1, 1, 1}}, /* with one between them */
         3,
         "two slices share elements: embed, 10 rows from 0 of 10, 2 columns from 0 of 6; embed, 1 rows from 2 of 10, 1 "
         "columns from 1 of 6"},
    };
    weft_cells cells = cells_of(NULL, 0);
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        weft_cell *entries = NULL;
        uint64_t count;
        assert_int_equal(weft_holding_open(layout, &cells, cases[i].slices, cases[i].count, &entries, &count),
                         WEFT_E_LAYOUT);
        assert_string_equal(weft_last_error(), cases[i].text);
        assert_null(entries);
    }
    weft_cells_close(&cells);
}

/* A process that holds rows 3 to 6 and 8 of embed has a part of two cells, and its layout one tensor for each box. */
static void entries_are_slices_of_cells(void **state)
{
    const weft_cut cut = {.name = "e", .patterns = "embed", .kind = WEFT_CUT_ROWS, .parts = 2};
    const weft_slice slice = {EMBED, 3, 4, 0, 6}, slices[] = {{EMBED, 8, 1, 0, 6}, slice};
    weft_cells cells = cells_of(&cut, 1);
    weft_cell *entries;
    uint64_t count;
    weft_layout *held;
    (void)state;
    assert_int_equal(weft_holding_open(layout, &cells, slices, 2, &entries, &count), WEFT_OK);
    assert_int_equal(count, 3);
    assert_memory_equal(&entries[0].slice, (&(weft_slice){EMBED, 3, 2, 0, 6}), sizeof slice);
    assert_memory_equal(&entries[1].slice, (&(weft_slice){EMBED, 5, 2, 0, 6}), sizeof slice);
    assert_memory_equal(&entries[2].slice, &slices[0], sizeof slice);
    assert_int_equal(entries[1].key, entries[0].key + 1);
    assert_int_equal(entries[2].key, entries[1].key);
    assert_int_equal(weft_holding_layout(layout, entries, count, &held), WEFT_OK);
    assert_int_equal(held->unit_count, 2); /* one pack, were it not for the keys */
    assert_int_equal(held->units[1].place, 0);
    assert_string_equal(held->entries[1].tensor.name, "embed#6[5+2,0+6]");
    weft_layout_free(held);
    weft_mem_give(entries);
    weft_cells_close(&cells);
}

static void covers_are_proved(void **state)
{
    static const struct {
        weft_slice slices[3];
        weft_status status;
        const char *text;
    } cases[] = {
        {{{EMBED, 0, 5, 0, 6}, {EMBED, 5, 5, 0, 3}, {EMBED, 5, 5, 3, 3}}, WEFT_OK, NULL},
        {{{EMBED, 0, 5, 0, 6}, {EMBED, 5, 5, 0, 3}, {EMBED, 4, 2, 5, 1}},
         WEFT_E_LAYOUT,
         "sources 0 and 2 both contribute embed, 1 rows from 4 of 10, 1 columns from 5 of 6: only one of them may"},
        {{{EMBED, 0, 5, 0, 6}, {EMBED, 5, 5, 0, 3}, {EMBED, 6, 4, 3, 3}},
         WEFT_E_LAYOUT,
         "no source contributes what begins at embed, 1 rows from 5 of 10, 1 columns from 3 of 6"},
        {{{EMBED, 0, 0, 0, 6}, {EMBED, 5, 5, 0, 6}, {O, 0, 1, 0, 1}},
         WEFT_E_LAYOUT,
         "no source contributes embed, 5 rows from 0 of 10, 6 columns from 0 of 6"},
        {{{EMBED, 0, 5, 0, 6}, {EMBED, 5, 4, 0, 6}, {EMBED, 5, 1, 0, 6}}, /* as many elements as the cell has */
         WEFT_E_LAYOUT,
         "sources 1 and 2 both contribute embed, 1 rows from 5 of 10, 6 columns from 0 of 6: only one of them may"},
        {{{EMBED, 6, 1, 1, 1}, {EMBED, 0, 10, 2, 4}, {EMBED, 0, 10, 0, 2}}, /* with one between them */
         WEFT_E_LAYOUT,
         "sources 0 and 2 both contribute embed, 1 rows from 6 of 10, 1 columns from 1 of 6: only one of them may"},
        {{{EMBED, 5, 5, 0, 6}, {EMBED, 1, 4, 0, 6}, {EMBED, 0, 1, 3, 3}}, /* the first element, where nothing ends */
         WEFT_E_LAYOUT,
         "no source contributes what begins at embed, 1 rows from 0 of 10, 1 columns from 0 of 6"},
        {{{EMBED, 0, 9, 0, 3}, {EMBED, 0, 7, 3, 3}, {O, 0, 1, 0, 1}},
         WEFT_E_LAYOUT,
         "no source contributes what begins at embed, 1 rows from 7 of 10, 1 columns from 3 of 6"},
    };
    const weft_cut cut = {.name = "e", .patterns = "embed", .kind = WEFT_CUT_ROWS, .parts = 2};
    weft_cells cells = cells_of(&cut, 1);
    bool wanted[3] = {false, true, true};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        weft_contribution sources[3];
        weft_cell *entries[3];
        for (uint32_t s = 0; s < 3; s++) {
            assert_int_equal(weft_holding_open(layout, &cells, &cases[i].slices[s], 1, &entries[s], &sources[s].count),
                             WEFT_OK);
            sources[s].entries = entries[s];
        }
        assert_int_equal(weft_cover_check(layout, &cells, wanted, sources, 3), cases[i].status);
        if (cases[i].text)
            assert_string_equal(weft_last_error(), cases[i].text);
        for (uint32_t s = 0; s < 3; s++)
            weft_mem_give(entries[s]);
    }
    weft_cells_close(&cells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_cuts_tensors_are_cells),
                                       cmocka_unit_test(boxes_of_each_rule),
                                       cmocka_unit_test(keys_by_name),
                                       cmocka_unit_test(names_have_numbers),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(rules_that_match_nothing_are_warned_of),
                                       cmocka_unit_test(any_order_and_long_names),
                                       cmocka_unit_test(slices_are_checked),
                                       cmocka_unit_test(entries_are_slices_of_cells),
                                       cmocka_unit_test(covers_are_proved)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

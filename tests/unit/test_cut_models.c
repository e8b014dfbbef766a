/* Cuts of real models, by names and shapes alone: what an engine's ranks take stands in few stretches, no unit is of
 * two keys, and the units are few more than without cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "shard/holding.h"

enum { TENSORS_MOST = 20000, NAME_BYTES = 80, RANKS = 8 };

typedef struct shape {
    uint64_t layers, hidden, heads, key_heads, middle, experts;
} shape;

static const shape qwen3_8b = {36, 4096, 32, 8, 12288, 0};
static const shape qwen3_30b_a3b = {48, 2048, 32, 4, 768, 128};

typedef struct model {
    weft_tensor tensors[TENSORS_MOST];
    char names[TENSORS_MOST][NAME_BYTES];
    uint64_t shapes[TENSORS_MOST][2];
    uint64_t count;
} model;

static model made;

static void add(uint64_t rows, uint64_t columns, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* columns 0: a vector of `rows` elements. */
static void add(uint64_t rows, uint64_t columns, const char *format, ...)
{
    const uint64_t t = made.count++;
    va_list arguments;
    assert_true(t < TENSORS_MOST);
    va_start(arguments, format);
    vsnprintf(made.names[t], NAME_BYTES, format, arguments);
    va_end(arguments);
    made.shapes[t][0] = rows;
    made.shapes[t][1] = columns;
    made.tensors[t] = (weft_tensor){made.names[t], WEFT_BF16, columns ? 2 : 1, made.shapes[t]};
}

static void add_attention(const shape *of, unsigned layer)
{
    enum { HEAD = 128 };
    add(of->hidden, 0, "model.layers.%u.input_layernorm.weight", layer);
    add(of->heads * HEAD, of->hidden, "model.layers.%u.self_attn.q_proj.weight", layer);
    add(of->key_heads * HEAD, of->hidden, "model.layers.%u.self_attn.k_proj.weight", layer);
    add(of->key_heads * HEAD, of->hidden, "model.layers.%u.self_attn.v_proj.weight", layer);
    add(of->hidden, of->heads * HEAD, "model.layers.%u.self_attn.o_proj.weight", layer);
    add(HEAD, 0, "model.layers.%u.self_attn.q_norm.weight", layer);
    add(HEAD, 0, "model.layers.%u.self_attn.k_norm.weight", layer);
    add(of->hidden, 0, "model.layers.%u.post_attention_layernorm.weight", layer);
}

static void add_mlp(const shape *of, const char *where)
{
    add(of->middle, of->hidden, "%s.gate_proj.weight", where);
    add(of->middle, of->hidden, "%s.up_proj.weight", where);
    add(of->hidden, of->middle, "%s.down_proj.weight", where);
}

static void add_layer(const shape *of, unsigned layer)
{
    char where[NAME_BYTES - 20];
    add_attention(of, layer);
    snprintf(where, sizeof where, "model.layers.%u.mlp", layer);
    if (of->experts == 0) {
        add_mlp(of, where);
        return;
    }
    add(of->experts, of->hidden, "%s.gate.weight", where);
    for (unsigned e = 0; e < of->experts; e++) {
        snprintf(where, sizeof where, "model.layers.%u.mlp.experts.%u", layer, e);
        add_mlp(of, where);
    }
}

static weft_layout *layout_of(const shape *of)
{
    weft_layout *layout;
    made.count = 0;
    add(151936, of->hidden, "model.embed_tokens.weight");
    for (unsigned layer = 0; layer < of->layers; layer++)
        add_layer(of, layer);
    add(of->hidden, 0, "model.norm.weight");
    add(151936, of->hidden, "lm_head.weight");
    if (weft_layout_create(made.tensors, made.count, &layout) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    return layout;
}

/* A layout that is cut, and that of the process that holds all of it. */
typedef struct cut_model {
    weft_layout *layout, *held;
    weft_cells cells;
} cut_model;

static cut_model cut_open(const shape *of, const weft_cut *cuts, uint32_t count)
{
    cut_model cut = {.layout = layout_of(of)};
    weft_cell *entries = NULL;
    uint64_t entry_count = 0;
    weft_slice *all = weft_mem_take(cut.layout->count, sizeof *all);
    assert_non_null(all);
    for (uint64_t t = 0; t < cut.layout->count; t++)
        all[t] = weft_slice_whole(cut.layout, t);
    if (weft_cells_open(cut.layout, cuts, count, &cut.cells) != WEFT_OK ||
        weft_holding_open(cut.layout, &cut.cells, all, cut.layout->count, &entries, &entry_count) != WEFT_OK ||
        weft_holding_layout(cut.layout, entries, entry_count, &cut.held) != WEFT_OK)
        fail_msg("%s", weft_last_error());
    assert_int_equal(entry_count, cut.cells.count);
    assert_int_equal(cut.held->bytes, cut.layout->bytes);
    weft_mem_give(entries);
    weft_mem_give(all);
    return cut;
}

static void cut_close(cut_model *cut)
{
    weft_cells_close(&cut->cells);
    weft_layout_free(cut->held);
    weft_layout_free(cut->layout);
}

static void assert_no_unit_is_mixed(const weft_layout *held)
{
    for (uint64_t u = 0; u < held->unit_count; u++) {
        const weft_unit *unit = &held->units[u];
        const uint32_t key = held->entries[unit->tensor].key;
        for (uint32_t i = 1; i < unit->tensor_count; i++)
            assert_int_equal(held->entries[unit->tensor + i].key, key);
        assert_true(u == 0 || unit->place == 0 || held->entries[held->units[u - 1].tensor].key == key);
    }
}

static double percent_more(const cut_model *cut)
{
    return 100 * ((double)cut->held->unit_count / (double)cut->layout->unit_count - 1);
}

/* Stretches of neighbouring keys that one engine rank takes. */
static uint32_t stretches(const weft_cells *cells, bool (*takes)(const weft_cell_key *key, uint32_t rank),
                          uint32_t rank)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < cells->key_count; k++) {
        bool before = k > 0 && takes(&cells->keys[k - 1], rank);
        count += takes(&cells->keys[k], rank) && !before;
    }
    assert_true(count > 0);
    return count;
}

static const weft_cut tensor_parallel[] = {
    {.name = "rows",
     .patterns = "*.q_proj.weight, *.gate_proj.weight, *.up_proj.weight",
     .kind = WEFT_CUT_ROWS,
     .parts = RANKS},
    {.name = "keys", .patterns = "*.k_proj.weight, *.v_proj.weight", .kind = WEFT_CUT_ROWS, .parts = 4},
    {.name = "columns", .patterns = "*.o_proj.weight, *.down_proj.weight", .kind = WEFT_CUT_COLUMNS, .parts = RANKS},
    {.name = "words",
     .patterns = "model.embed_tokens.weight, lm_head.weight",
     .kind = WEFT_CUT_ROWS,
     .parts = RANKS,
     .pad = 64}};

/* Key heads are 4 parts of 8 ranks: two ranks take the same. */
static bool rank_of_eight(const weft_cell_key *key, uint32_t rank)
{
    return key->cut == 0 || key->part == (key->cut == 2 ? rank / 2 : rank);
}

static void tensor_parallel_8b(void **state)
{
    (void)state;
    cut_model cut = cut_open(&qwen3_8b, tensor_parallel, 4);
    assert_int_equal(cut.cells.key_count, 1 + 8 + 4 + 8 + 8);
    assert_no_unit_is_mixed(cut.held);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_in_range(stretches(&cut.cells, rank_of_eight, rank), 3, 5);
    print_message("8B, tp 8: %llu units, %.2f %% more\n", (unsigned long long)cut.held->unit_count, percent_more(&cut));
    assert_true(percent_more(&cut) < 2.5);
    cut_close(&cut);
}

static bool dp_attention(const weft_cell_key *key, uint32_t rank)
{
    return key->experts == 0 || key->experts == rank + 1;
}

/* Expert-parallel with data-parallel attention: all ranks take the first key. */
static void experts_30b(void **state)
{
    static const weft_cut cut_by = {.name = "experts", .kind = WEFT_CUT_EXPERT, .parts = RANKS};
    (void)state;
    cut_model cut = cut_open(&qwen3_30b_a3b, &cut_by, 1);
    assert_int_equal(cut.cells.key_count, 1 + RANKS);
    assert_no_unit_is_mixed(cut.held);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(stretches(&cut.cells, dp_attention, rank), rank == 0 ? 1 : 2);
    print_message("30B-A3B, ep 8: %llu units, %.2f %% more\n", (unsigned long long)cut.held->unit_count,
                  percent_more(&cut));
    assert_true(percent_more(&cut) < 2);
    cut_close(&cut);
}

/* Two stages of four ranks. The first stage has the embedding, the second the head; both are outside of the layers. */
static bool stage_of_ranks(const weft_cell_key *key, uint32_t rank)
{
    const uint32_t stage = rank / 4 + 1, part = rank % 4;
    const bool mine = key->layers == stage || key->layers == 0;
    return mine && (key->cut == 0 || (key->cut == 2 ? key->part == part : key->part / 2 == part));
}

static void tensor_and_layers_8b(void **state)
{
    static const uint64_t at[] = {18};
    weft_cut cuts[5];
    (void)state;
    memcpy(cuts, tensor_parallel, sizeof tensor_parallel);
    cuts[4] = (weft_cut){.name = "stages", .kind = WEFT_CUT_LAYER, .at = at, .at_count = 1};
    cut_model cut = cut_open(&qwen3_8b, cuts, 5);
    assert_no_unit_is_mixed(cut.held);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_in_range(stretches(&cut.cells, stage_of_ranks, rank), 4, 10);
    print_message("8B, tp 4 x pp 2: %llu units, %.2f %% more\n", (unsigned long long)cut.held->unit_count,
                  percent_more(&cut));
    assert_true(percent_more(&cut) < 2.5);
    cut_close(&cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tensor_parallel_8b), cmocka_unit_test(experts_30b),
                                       cmocka_unit_test(tensor_and_layers_8b)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

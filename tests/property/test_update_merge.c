/* Update files that follow each other made one: with their base at any mixture of levels, without it by their frames
 * alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/update_chain.h"

static uint64_t differing(const chain *c, uint32_t from, uint32_t to)
{
    weft_piece a[TENSORS], b[TENSORS];
    uint64_t count = 0;
    pieces_of(c, c->image[from], a);
    pieces_of(c, c->image[to], b);
    for (uint64_t t = 0; t < TENSORS; t++) {
        uint8_t width = c->layout->entries[t].row->width, *x = a[t].data, *y = b[t].data;
        for (uint64_t i = 0; i < sizes[t]; i++)
            count += memcmp(x + i * width, y + i * width, width) != 0;
    }
    return count;
}

/* ---- with the base */

static void any_mixture_merges_with_its_base(void **state)
{
    static const uint64_t sparsities[] = {0, 3000, 90, 10, 1};
    (void)state;
    for (uint32_t round = 0; round < 6; round++) {
        chain c;
        memory_file merged = {0};
        chain_open(&c);
        for (uint32_t i = 0; i < 2 + round + round / 2; i++)
            chain_step(&c, sparsities[roll() % COUNT(sparsities)], levels[roll() % COUNT(levels)]);
        for (size_t l = 0; l < COUNT(levels); l++) {
            weft_update_info info = {.size = sizeof info};
            if (merge_into(&c, 0, c.length, true, levels[l], &merged, &info) != WEFT_OK)
                fail_msg("not merged: %s", weft_last_error());
            assert_int_equal(info.changed, differing(&c, 0, c.length));
            assert_int_equal(info.bytes, merged.bytes);
            leads_to(&c, &merged, 0, c.length);
        }
        memory_free(&merged);
        chain_close(&c);
    }
}

/* ---- without it */

static uint32_t shift_of(memory_file *file)
{
    weft_update_header header = {.size = sizeof header};
    weft_update_file *update = opened(file);
    assert_int_equal(weft_update_describe(update, &header), WEFT_OK);
    weft_update_close(update);
    return header.run_shift;
}

/* At equal parameters the file is the very one that a diff of both ends makes. */
static void fast_updates_merge_by_their_frames(void **state)
{
    static const uint64_t sparsities[] = {0, 20000, 900, 90, 25};
    uint32_t equal = 0;
    (void)state;
    for (uint32_t round = 0; round < 6; round++) {
        chain c;
        memory_file merged = {0}, direct = {0};
        weft_update_info info = {.size = sizeof info};
        chain_open(&c);
        for (uint32_t i = 0; i < 2 + round; i++)
            chain_step(&c, sparsities[(i + round) % COUNT(sparsities)], "fast");
        if (merge_into(&c, 0, c.length, false, NULL, &merged, &info) != WEFT_OK)
            fail_msg("not merged: %s", weft_last_error());
        leads_to(&c, &merged, 0, c.length);
        assert_int_equal(info.changed, differing(&c, 0, c.length));
        assert_string_equal(info.level, "fast");
        diff_into(&c, 0, c.length, "fast", &direct);
        if (shift_of(&merged) == shift_of(&direct)) {
            assert_int_equal(merged.bytes, direct.bytes);
            assert_memory_equal(merged.data, direct.data, direct.bytes);
            equal++;
        }
        memory_free(&merged);
        memory_free(&direct);
        chain_close(&c);
    }
    assert_in_range(equal, 1, 6);
}

static void absolute_updates_merge_by_their_frames(void **state)
{
    static const char *const inputs[][4] = {
        {"full", "full", "full", "full"}, {"pairs", "pairs", "pairs", "pairs"}, {"pairs", "full", "pairs", "full"},
        {"fast", "full", "fast", "fast"}, {"full", "fast", "full", "fast"},
    };
    static const char *const outputs[] = {"full", "pairs", "pairs", "fast", "fast"};
    (void)state;
    for (size_t k = 0; k < COUNT(inputs); k++) {
        chain c;
        memory_file merged = {0};
        weft_update_info info = {.size = sizeof info};
        chain_open(&c);
        for (uint32_t i = 0; i < 4; i++)
            chain_step(&c, 200, inputs[k][i]);
        if (merge_into(&c, 0, 4, false, NULL, &merged, &info) != WEFT_OK)
            fail_msg("not merged: %s", weft_last_error());
        assert_string_equal(info.level, outputs[k]);
        leads_to(&c, &merged, 0, 4);
        memory_free(&merged);
        chain_close(&c);
    }
}

/* A merged update may be merged again, and gives the same file. */
static void merged_files_merge_on(void **state)
{
    chain c;
    memory_file at_once = {0}, stepwise = {0}, parts[2] = {{0}, {0}};
    weft_update_file *halves[2];
    weft_sink sink = memory_sink(&stepwise);
    (void)state;
    chain_open(&c);
    for (uint32_t i = 0; i < 5; i++)
        chain_step(&c, 100 + 900 * (i % 3), "fast");
    assert_int_equal(merge_into(&c, 0, 5, false, NULL, &at_once, NULL), WEFT_OK);
    assert_int_equal(merge_into(&c, 0, 2, false, NULL, &parts[0], NULL), WEFT_OK);
    assert_int_equal(merge_into(&c, 2, 5, false, NULL, &parts[1], NULL), WEFT_OK);
    for (int i = 0; i < 2; i++)
        halves[i] = opened(&parts[i]);
    assert_int_equal(weft_update_merge(halves, 2, c.layout, NULL, 0, "fast", NULL, &sink, NULL), WEFT_OK);
    assert_int_equal(stepwise.bytes, at_once.bytes);
    assert_memory_equal(stepwise.data, at_once.data, at_once.bytes);
    for (int i = 0; i < 2; i++) {
        weft_update_close(halves[i]);
        memory_free(&parts[i]);
    }
    memory_free(&stepwise);
    memory_free(&at_once);
    chain_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_mixture_merges_with_its_base),
        cmocka_unit_test(fast_updates_merge_by_their_frames),
        cmocka_unit_test(absolute_updates_merge_by_their_frames),
        cmocka_unit_test(merged_files_merge_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Update files that follow each other made one: with their base at any mixture of levels, without it by their frames
 * alone; and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layout.h"
#include "tests/support/memory_file.h"

#define VERSIONS 10
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const levels[] = {"full", "pairs", "fast", "tight"};
static const weft_dtype dtypes[] = {WEFT_BF16, WEFT_BF16, WEFT_F32, WEFT_F8_E5M2, WEFT_I64, WEFT_F64, WEFT_F16};
static const uint64_t sizes[] = {262144 + 500, 9000, 3000, 1500, 700, 65, 0};
#define TENSORS COUNT(dtypes)

static uint64_t dice = 0x2545f4914f6cdd1d;

static uint64_t roll(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    return dice ^= dice << 17;
}

typedef struct chain {
    weft_layout *layout;
    uint8_t *image[VERSIONS + 1], *work;
    uint32_t length; /* updates */
    memory_file files[VERSIONS];
    weft_update_file *updates[VERSIONS];
} chain;

static void pieces_of(const chain *c, uint8_t *image, weft_piece pieces[TENSORS])
{
    for (uint64_t t = 0; t < TENSORS; t++) {
        pieces[t] = (weft_piece){t, 0, sizes[t], image};
        image += (c->layout->entries[t].bytes + 7) / 8 * 8;
    }
}

static uint64_t image_bytes(const chain *c)
{
    uint64_t bytes = 8;
    for (uint64_t t = 0; t < TENSORS; t++)
        bytes += (c->layout->entries[t].bytes + 7) / 8 * 8;
    return bytes;
}

static void chain_open(chain *c)
{
    weft_tensor tensors[TENSORS];
    char names[TENSORS][24];
    memset(c, 0, sizeof *c);
    for (size_t t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof names[t], "model.layers.%zu", t);
        tensors[t] = (weft_tensor){names[t], dtypes[t], 1, &sizes[t]};
    }
    assert_int_equal(weft_layout_create(tensors, TENSORS, &c->layout), WEFT_OK);
    c->image[0] = calloc(1, image_bytes(c));
    c->work = calloc(1, image_bytes(c));
    weft_piece pieces[TENSORS];
    pieces_of(c, c->image[0], pieces);
    for (uint64_t t = 0; t < TENSORS; t++)
        for (uint64_t i = 0; i < c->layout->entries[t].bytes; i++)
            ((uint8_t *)pieces[t].data)[i] = (uint8_t)(roll() % 7 ? roll() & 0x3f : roll());
}

static void chain_close(chain *c)
{
    for (uint32_t v = 0; v < c->length; v++) {
        weft_update_close(c->updates[v]);
        memory_free(&c->files[v]);
    }
    for (uint32_t v = 0; v <= c->length; v++)
        free(c->image[v]);
    free(c->work);
    weft_layout_free(c->layout);
}

static weft_update_file *opened(memory_file *file)
{
    weft_update_file *update = NULL;
    weft_source source = memory_source(file);
    if (weft_update_open(&source, &update) != WEFT_OK)
        fail_msg("refused: %s", weft_last_error());
    return update;
}

static void diff_into(const chain *c, uint32_t from, uint32_t to, const char *level, memory_file *file)
{
    weft_piece base[TENSORS], target[TENSORS];
    weft_sink sink = memory_sink(file);
    weft_diff_options options = {
        .size = sizeof options, .level = level, .base.number = from + 1, .target.number = to + 1};
    pieces_of(c, c->image[from], base);
    pieces_of(c, c->image[to], target);
    if (weft_diff(c->layout, base, TENSORS, target, TENSORS, &options, NULL, &sink, NULL) != WEFT_OK)
        fail_msg("no diff: %s", weft_last_error());
}

/* One more version and the update to it; about one element in `sparsity` moves by a few steps, and some of them back to
 * what they were two versions ago. 0: none. */
static void chain_step(chain *c, uint64_t sparsity, const char *level)
{
    uint32_t v = c->length;
    weft_piece now[TENSORS], old[TENSORS];
    c->image[v + 1] = malloc(image_bytes(c));
    memcpy(c->image[v + 1], c->image[v], image_bytes(c));
    pieces_of(c, c->image[v + 1], now);
    pieces_of(c, c->image[v > 0 ? v - 1 : 0], old);
    for (uint64_t t = 0; t < TENSORS && sparsity; t++) {
        uint8_t width = c->layout->entries[t].row->width, *to = now[t].data, *from = old[t].data;
        for (uint64_t i = 0; i < sizes[t]; i++) {
            if (roll() % sparsity)
                continue;
            if (roll() % 4 == 0)
                memcpy(to + i * width, from + i * width, width);
            else
                to[i * width] = (uint8_t)(to[i * width] + roll() % 5 - 2);
        }
    }
    diff_into(c, v, v + 1, level, &c->files[v]);
    c->updates[v] = opened(&c->files[v]);
    c->length++;
}

/* Merges updates first..end - 1, with their base if `bound`. */
static weft_status merge_into(const chain *c, uint32_t first, uint32_t end, bool bound, const char *level,
                              memory_file *file, weft_update_info *info)
{
    weft_piece base[TENSORS];
    weft_sink sink = memory_sink(file);
    file->bytes = 0;
    pieces_of(c, c->image[first], base);
    return weft_update_merge(c->updates + first, end - first, bound ? c->layout : NULL, bound ? base : NULL,
                             bound ? TENSORS : 0, level, NULL, &sink, info);
}

static void leads_to(const chain *c, memory_file *file, uint32_t from, uint32_t to)
{
    weft_piece pieces[TENSORS];
    weft_update_file *update = opened(file);
    memcpy(c->work, c->image[from], image_bytes(c));
    pieces_of(c, c->work, pieces);
    if (weft_update_apply(update, c->layout, pieces, TENSORS, NULL, NULL) != WEFT_OK)
        fail_msg("not applied: %s", weft_last_error());
    assert_memory_equal(c->work, c->image[to], image_bytes(c));
    weft_update_close(update);
}

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

/* What is merged may be merged again, and comes to the same file. */
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

/* ---- refused */

static weft_status stop(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return WEFT_E_STATE;
}

static void what_does_not_follow_is_refused(void **state)
{
    chain c;
    memory_file out = {0};
    weft_piece other[TENSORS];
    weft_sink sink = memory_sink(&out);
    weft_work work = {.size = sizeof work, .threads = 1, .progress = stop};
    (void)state;
    chain_open(&c);
    chain_step(&c, 100, "fast");
    chain_step(&c, 100, "fast");
    chain_step(&c, 100, "tight");
    chain_step(&c, 100, "pairs");
    weft_update_file *skipped[] = {c.updates[0], c.updates[2]};
    assert_int_equal(weft_update_merge(skipped, 2, NULL, NULL, 0, NULL, NULL, &sink, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(weft_update_merge(c.updates, 0, NULL, NULL, 0, NULL, NULL, &sink, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 1, 3, false, NULL, &out, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 2, 4, false, NULL, &out, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 0, 2, false, "tight", &out, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 0, 2, false, "pairs", &out, NULL), WEFT_E_ARGUMENT);
    assert_int_equal(merge_into(&c, 0, 2, false, "thick", &out, NULL), WEFT_E_ARGUMENT);
    pieces_of(&c, c.image[1], other);
    assert_int_equal(weft_update_merge(c.updates, 2, c.layout, other, TENSORS, NULL, NULL, &sink, NULL), WEFT_E_BASE);
    assert_int_equal(weft_update_merge(c.updates, 2, NULL, NULL, 0, NULL, &work, &sink, NULL), WEFT_E_STATE);
    memory_free(&out);
    out.room = 300;
    assert_int_equal(merge_into(&c, 0, 2, false, NULL, &out, NULL), WEFT_E_FILE);
    memory_free(&out);
    chain_close(&c);
}

typedef struct asker {
    uint32_t calls, at; /* the call that ends the work, counted from 1; 0: none */
    uint64_t done, total;
} asker;

static weft_status told(void *user, uint64_t done, uint64_t total)
{
    asker *s = user;
    assert_true(done >= s->done && done <= total);
    s->done = done;
    s->total = total;
    return ++s->calls == s->at ? WEFT_E_TIMEOUT : WEFT_OK;
}

/* With the base and without: whoever asks for an end does not wait for a pass over the weights. */
static void callers_may_stop_a_merge(void **state)
{
    (void)state;
    chain c;
    memory_file merged = {0};
    chain_open(&c);
    chain_step(&c, 900, "fast");
    chain_step(&c, 900, "fast");
    for (int bound = 0; bound < 2; bound++) {
        asker all = {0};
        weft_piece base[TENSORS];
        weft_sink sink = memory_sink(&merged);
        weft_work work = {.size = sizeof work, .threads = 2, .progress = told, .user = &all};
        pieces_of(&c, c.image[0], base);
        const uint64_t pieces = bound ? TENSORS : 0;
        assert_int_equal(
            weft_update_merge(c.updates, 2, c.layout, bound ? base : NULL, pieces, "fast", &work, &sink, NULL),
            WEFT_OK);
        assert_true(all.calls > 1 && all.done == all.total);
        for (uint32_t at = 1; at <= all.calls; at++) {
            asker early = {.at = at};
            work.user = &early;
            assert_int_equal(
                weft_update_merge(c.updates, 2, c.layout, bound ? base : NULL, pieces, "fast", &work, &sink, NULL),
                WEFT_E_TIMEOUT);
            assert_int_equal(early.calls, at);
        }
    }
    memory_free(&merged);
    chain_close(&c);
}

static void another_layout_is_refused(void **state)
{
    chain c;
    memory_file out = {0};
    weft_sink sink = memory_sink(&out);
    weft_layout *other = NULL;
    const uint64_t size = 12;
    const weft_tensor tensor = {"w", WEFT_BF16, 1, &size};
    (void)state;
    chain_open(&c);
    chain_step(&c, 100, "fast");
    assert_int_equal(weft_layout_create(&tensor, 1, &other), WEFT_OK);
    assert_int_equal(weft_update_merge(c.updates, 1, other, NULL, 0, NULL, NULL, &sink, NULL), WEFT_E_LAYOUT);
    weft_layout_free(other);
    memory_free(&out);
    chain_close(&c);
}

/* A struck byte among the frames is found, wherever it is. */
static void struck_files_are_refused(void **state)
{
    chain c;
    memory_file out = {0};
    (void)state;
    chain_open(&c);
    chain_step(&c, 100, "fast");
    chain_step(&c, 100, "fast");
    weft_update_header header = {.size = sizeof header};
    assert_int_equal(weft_update_describe(c.updates[1], &header), WEFT_OK);
    const uint64_t first = header.run_shift ? 132 : 128; /* with a word of parameters and padding, or without */
    for (uint32_t round = 0; round < 60; round++) {
        uint64_t at = first + roll() % header.frame_bytes;
        uint8_t bit = (uint8_t)(1u << roll() % 8);
        c.files[1].data[at] ^= bit;
        weft_status status = merge_into(&c, 0, 2, false, NULL, &out, NULL);
        assert_true(status == WEFT_E_CHECK || status == WEFT_E_CORRUPT);
        c.files[1].data[at] ^= bit;
    }
    assert_int_equal(merge_into(&c, 0, 2, false, NULL, &out, NULL), WEFT_OK);
    leads_to(&c, &out, 0, 2);
    memory_free(&out);
    chain_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_mixture_merges_with_its_base),
        cmocka_unit_test(fast_updates_merge_by_their_frames),
        cmocka_unit_test(absolute_updates_merge_by_their_frames),
        cmocka_unit_test(merged_files_merge_on),
        cmocka_unit_test(what_does_not_follow_is_refused),
        cmocka_unit_test(callers_may_stop_a_merge),
        cmocka_unit_test(another_layout_is_refused),
        cmocka_unit_test(struck_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
